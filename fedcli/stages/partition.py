"""The partition stage, and the scheme that its flags mean."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest, shared_patients
from ..data.partition import make_partition
from ..data.partition.held_out import Leaving
from ..data.partition.scheme import PLAIN, Scheme, named, resolve
from ..data.partition.sites import OfEach
from ..data.pool import TRAIN, pool_of
from ..data.preparation.merge import DATASET, merge
from ..errors import UsageError, nearest
from ..options import describe, path_of
from .call import called_with, destination, source
from .options import PartitionOptions
from .results import Partition

ALL = "all"  # the scheme of one client, from which nothing is drawn
# flags that name a scheme, in the order in which a refusal of two has them
NAMING = (
    "iid",
    "shards",
    "by",
    "fedism",
    "balanced",
    "fedmrl",
    "fedmrl_authors",
    "clients_file",
    "scheme",
)
# where a scheme has another name than its flag
SCHEME_OF = {
    "shares": "shares",
    "portion": "domains",
    "clients_file": "file",
    "balanced": "dirichlet-balanced",
}
# those that go with --dirichlet
BESIDE_DIRICHLET = ("fedism", "balanced")
# where the option of a scheme has another name than its flag
OPTION_OF = {"dirichlet": "alpha", "fedism": "corrupted", "fedmrl": "eta"}
# a flag, the flag that it needs as typed, and the reason
NEEDED = (
    ("client_column", "clients_file", "--clients-file FILE", "is about a file of clients"),
    ("shares", "by", "--by ATTRIBUTE", "needs to know which attribute it is about"),
    ("portion", "by", "--by ATTRIBUTE", "needs to know which attribute it is about"),
)


def run(options: PartitionOptions) -> Partition:
    """Divide a dataset's training images among clients; only row numbers are written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is dirichlet=1
    over its usual number of clients. Raises FedcliError, UsageError.
    """
    result = divided(options)
    shared_patients.warn(result.path)
    return result


partition = called_with("partition", PartitionOptions, run)


def divided(options: PartitionOptions) -> Partition:
    """The partition that run() makes, without a warning of patients on both sides, which is left to
    the caller.
    """
    if options.merge:
        return _of_merged(options)
    if options.classes_table or options.clients_of:
        sentence = "--classes-table and --clients-of are about several datasets"
        raise UsageError(sentence, "add --merge DATASET")
    dataset = source(options.dataset, options.work, "dataset")
    options = _with_scheme(replace(options, dataset=dataset))
    return _divided(options, dataset, _scheme(options))


def for_training(data: Path, work: Path) -> Path:
    """A partition or corruption as it is; a dataset is partitioned by default first.

    Raises FedcliError.

    Patients on both sides are not mentioned here: what trains does so.
    """
    kinds = "dataset", "partition", "corruption", "sites"
    if manifest.read(data, *kinds).kind != "dataset":
        return data
    return divided(PartitionOptions(data, work=work)).path


def _body(options: PartitionOptions) -> manifest.Body:
    """The body of the dataset's manifest."""
    return manifest.read(Path(options.dataset or ""), "dataset", whole=True).body


def _with_scheme(options: PartitionOptions) -> PartitionOptions:
    """The options; with the dataset's sites or Dirichlet where they name no scheme."""
    return options if options.given("scheme") else by_default(options)


def _scheme(options: PartitionOptions) -> Scheme:
    return scheme_of(options, _body(options))


def _divided(
    options: PartitionOptions,
    dataset: Path,
    scheme: Scheme,
) -> Partition:
    recorded = options
    if scheme.code and scheme.code.path:  # without the file's place
        recorded = replace(options, scheme=f"{scheme.code.name}:{scheme.name}")
    path = make_partition(
        dataset,
        scheme,
        destination(recorded),
        val=options.val,
        minimum=options.minimum,
        seed=options.seed,
        materialize=options.materialize,
        leaving=Leaving(options.hold_out, options.without),
    )
    return Partition(path)


def _of_merged(options: PartitionOptions) -> Partition:
    """The partition of several datasets joined into one, each of which is divided among clients of
    its own.
    """
    datasets = _merged_datasets(options)
    for name in options.clients_of:
        if name not in datasets:
            sentence = f"--clients-of: no dataset is called {name!r}"
            raise UsageError(sentence, nearest(name, datasets))
    table = options.classes_table
    merging = PartitionOptions(
        merge=list(datasets),
        classes_table=table,
        work=options.work,
    )
    merged = merge(datasets, path_of(table), destination(merging))
    schemes = {}
    for name, path in datasets.items():
        attributes = manifest.read(path).body["attributes"]
        clients: Any = options.clients_of.get(name, options.clients)  # which the options read
        options_of_one = replace(options, dataset=path, clients=clients)
        if not set(options.by) <= set(attributes):  # its images are of one client
            options_of_one = replace(options_of_one, by=[DATASET], clients=None)
        schemes[name] = _scheme(_with_scheme(options_of_one))
    scheme = OfEach(attribute=DATASET, schemes=schemes)
    return _divided(
        replace(options, merge=list(datasets), dataset=None),
        merged,
        scheme,
    )


def _merged_datasets(options: PartitionOptions) -> dict[str, Path]:
    """The manifests of the datasets to merge, by name.

    Raises UsageError for a name that cannot be.
    """
    texts = list(options.merge)
    if options.dataset:
        texts.append(str(options.dataset))
    datasets: dict[str, Path] = {}
    for text in texts:
        name, file = "", text
        if not Path(text).exists():
            name, _, file = text.rpartition("=")
        path = manifest.find(source(file, options.work, "dataset"), "dataset")
        if file == text:
            name = manifest.read(path, "dataset", whole=True).body["name"]
        fault = ""
        if not PLAIN.fullmatch(name):
            fault = f"{name!r} is no name of a dataset"
        if name in datasets:
            fault = f"two datasets are called {name!r}"
        if fault:
            raise UsageError(f"--merge: {fault}", "write --merge NAME=MANIFEST")
        datasets[name] = path
    return datasets


def by_default(options: PartitionOptions) -> PartitionOptions:
    """The options with the dataset's own sites if it has them, else with Dirichlet or one client;
    said in a line.
    """
    body = _body(options)
    alpha = options.dirichlet
    clients = options.clients
    if body["sites"] and clients is None and alpha is None:
        console.say(f"partition: the sites in {body['sites']!r}")
        return replace(options, by=[body["sites"]])
    dirichlet = 1.0 if alpha is None else alpha
    if not clients:
        clients = _fitting_clients(replace(options, dirichlet=dirichlet), body)
    if clients == 1 and alpha is None:
        console.say("partition: 1 client with all images")
        return replace(options, clients=clients)
    counted = console.counted(clients, "client", "clients")
    console.say(f"partition: {counted}, Dirichlet({dirichlet:g})")
    return replace(options, dirichlet=dirichlet, clients=clients)


def _fitting_clients(options: PartitionOptions, body: manifest.Body) -> int:
    """The usual number of clients, or fewer where some would get no image, which is said."""
    usual: int = body["clients"]
    pool = pool_of(Path(options.dataset or ""))
    images = int((pool.split == TRAIN).sum())
    for clients in range(min(usual, images), 1, -1):
        scheme = _scheme(replace(options, clients=clients))
        division = scheme.divide(pool, body, options.seed, options.minimum)
        smallest = min(len(part) for part in division.train.values())
        if smallest >= max(1, options.minimum):
            break
    else:
        clients = 1
    if clients < usual:
        counted = console.counted(images, "training image", "training images")
        console.say(f"{clients} clients, not {usual}: {counted} are too few for more.")
    return clients


def scheme_of(options: PartitionOptions, dataset: Mapping[str, Any]) -> Scheme:
    """The scheme that options ask for. Raises UsageError for options that exclude each other.

    dataset: the manifest's body, whose usual number of clients counts where none is given. `scheme`
    and `set` (its options as a dict) reach every registered scheme.
    """
    flags = options.given("scheme")
    _check(flags)
    name = _name(flags)
    fields = named(name).__dataclass_fields__
    settings: dict[str, Any] = {}
    if "clients" in fields:
        settings["clients"] = dataset["clients"]
    for flag, value in flags.items():
        option = OPTION_OF.get(flag, flag)
        if option in fields:
            settings[option] = ";".join(value) if flag == "shares" else value
    if flags.get("keep_units") and "keep_units" not in fields:
        raise UsageError(
            f"the scheme {name} deals out images, not patients",
            "leave --keep-units out, or divide by --iid, --dirichlet, --balanced, --shards or "
            "--fedmrl",
        )
    return resolve(name, {**settings, **flags.get("set", {})})


def _name(flags: Mapping[str, Any]) -> str:
    """The name of the scheme."""
    if "scheme" in flags:
        return str(flags["scheme"])
    for flag in (*SCHEME_OF, *NAMING):
        if flag in flags:
            return SCHEME_OF.get(flag, flag.replace("_", "-"))
    if flags.get("clients") == 1 and not flags.keys() & {"dirichlet", "keep_units"}:
        return ALL
    return "dirichlet"


def _check(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for flags of which one makes another meaningless."""
    _exclude(flags, *NAMING)
    for flag in NAMING:
        if flag in flags and "dirichlet" in flags and flag not in BESIDE_DIRICHLET:
            sentence = f"--dirichlet and {_flag(flag)} are different schemes"
            raise UsageError(sentence, "give one of them")
    if flags.get("scheme") == ALL and flags.get("clients", 1) != 1:
        sentence = f"the scheme {ALL} makes one client, not {flags['clients']}"
        raise UsageError(sentence, "leave --clients out")
    if "set" in flags and "scheme" not in flags:
        raise UsageError("--set is about the options of a scheme", "add --scheme NAME")
    for flag, needed, typed, reason in NEEDED:
        if flag in flags and needed not in flags:
            raise UsageError(f"{_flag(flag)} {reason}", f"add {typed}")
    if "order_file" in flags and not flags.keys() & {"clients_file", "fedism"}:
        sentence = "--order-file is about a file of clients or --fedism"
        raise UsageError(sentence, "add --clients-file FILE or --fedism N")
    _exclude(flags, "clients_file", "clients")
    _exclude(flags, "shares", "portion")
    divides_values = "shares" in flags or "portion" in flags
    if "by" in flags and "clients" in flags and not divides_values:
        hint = "leave it out, or add --portion or --shares"
        raise UsageError("--by makes one client per value, so --clients has no effect", hint)


def _exclude(flags: Mapping[str, Any], *names: str) -> None:
    """Raise UsageError where two of these flags are given."""
    excluding = [_flag(name) for name in names if name in flags]
    if len(excluding) > 1:
        sentence = f"{excluding[0]} and {excluding[1]} exclude each other"
        raise UsageError(sentence, "give one of them")


def _flag(name: str) -> str:
    return f"--{describe(PartitionOptions)[name].typed}"
