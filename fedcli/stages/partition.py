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
from ..options import path_of
from .call import called_with, source
from .options import PartitionOptions
from .results import Partition

# flags that are about no scheme
UNDECIDED = (
    "dataset",
    "merge",
    "classes_table",
    "clients_of",
    "hold_out",
    "without",
    "minimum",
    "val",
    "seed",
    "materialize",
    "work",
    "out",
)


def run(options: PartitionOptions) -> Partition:
    """Divide a dataset's training images among clients; only row numbers are written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is dirichlet=1 over its usual
    number of clients. Raises FedcliError, UsageError.
    """
    made = divided(options)
    shared_patients.warn(made.path)
    return made


def divided(options: PartitionOptions) -> Partition:
    """The partition that run() makes, without a warning of patients on both sides, which is left to the caller."""
    if options.merge:
        return _of_merged(options)
    if options.classes_table or options.clients_of:
        raise UsageError(
            "--classes-table and --clients-of are about several datasets", "add --merge DATASET"
        )
    dataset = source(options.dataset, options.work, "dataset")
    options = _decided(replace(options, dataset=dataset))
    return _divided(options, dataset, _scheme(options))


def _decided(options: PartitionOptions) -> PartitionOptions:
    """By default the dataset's sites, or Dirichlet."""
    return (
        options
        if [flag for flag in options.changed() if flag.name not in UNDECIDED]
        else by_default(options)
    )


def _scheme(options: PartitionOptions) -> Scheme:
    given = manifest.read(Path(options.dataset or ""), "dataset", whole=True).body
    flags = {
        field.name: getattr(options, field.name)
        for field in options.declared()
        if field.name not in UNDECIDED
    }
    return scheme_from_flags(flags, given)


def _divided(options: PartitionOptions, dataset: Path, scheme: Scheme) -> Partition:
    file = scheme.code.name if scheme.code and scheme.code.path else ""
    recorded = (
        replace(options, scheme=f"{file}:{scheme.name}") if file else options
    )  # without the file's place
    to = manifest.Destination(Path(options.work), path_of(options.out), recorded.made_by())
    stage = {name: getattr(options, name) for name in ("val", "minimum", "seed", "materialize")}
    leaving = Leaving(options.hold_out, options.without)
    return Partition(make_partition(dataset, scheme, to, **stage, leaving=leaving))


def _of_merged(options: PartitionOptions) -> Partition:
    """The same of several datasets joined into one, each of which is divided among clients of its own."""
    datasets: dict[str, Path] = {}
    for text in [*options.merge, *([str(options.dataset)] if options.dataset else [])]:
        name, equals, file = ("", "", text) if Path(text).exists() else text.rpartition("=")
        path = manifest.find(source(file, options.work, "dataset"), "dataset")
        name = name if equals else manifest.read(path, "dataset", whole=True).body["name"]
        if not PLAIN.fullmatch(name) or name in datasets:
            what = (
                f"two datasets are called {name!r}"
                if name in datasets
                else f"{name!r} is no name of a dataset"
            )
            raise UsageError(f"--merge: {what}", "write --merge NAME=MANIFEST")
        datasets[name] = path
    if unknown := [name for name in options.clients_of if name not in datasets]:
        raise UsageError(
            f"--clients-of: no dataset is called {unknown[0]!r}", nearest(unknown[0], datasets)
        )
    asked = PartitionOptions(merge=list(datasets), classes_table=options.classes_table)
    to = manifest.Destination(Path(options.work), made_by=asked.made_by())
    merged = merge(datasets, path_of(options.classes_table), to)
    schemes = {}
    for name, path in datasets.items():
        known = manifest.read(path).body["attributes"]
        clients: Any = options.clients_of.get(name, options.clients)  # which the options read
        of_one = replace(options, dataset=path, clients=clients)
        if [each for each in options.by if each not in known]:  # its images are of one client
            of_one = replace(of_one, by=[DATASET], clients=None)
        schemes[name] = _scheme(_decided(of_one))
    return _divided(
        replace(options, merge=list(datasets), dataset=None),
        merged,
        OfEach(attribute=DATASET, schemes=schemes),
    )


partition = called_with("partition", PartitionOptions, run)


def by_default(
    options: PartitionOptions, *, clients: int | None = None, alpha: float | None = None
) -> PartitionOptions:
    """The same by the dataset's own sites if it has them, else by Dirichlet, or all to one client; said in a line."""
    body = manifest.read(Path(options.dataset or ""), "dataset", whole=True).body
    if body["sites"] and clients is None and alpha is None:
        console.say(f"partition: the sites in {body['sites']!r}")
        return replace(options, by=[body["sites"]])
    chosen_alpha = alpha
    alpha = 1.0 if alpha is None else alpha
    options = replace(options, dirichlet=alpha, clients=clients or body["clients"])
    if clients is None:
        options = _fitting(options, body)
    if options.clients == 1 and chosen_alpha is None:
        console.say("partition: 1 client with all images")
        return replace(options, dirichlet=None)
    console.say(
        f"partition: {console.counted(options.clients or 0, 'client', 'clients')}, Dirichlet({alpha:g})"
    )
    return options


def _fitting(options: PartitionOptions, body: dict[str, Any]) -> PartitionOptions:
    """The same with fewer clients where some of the usual number would get no image, which is said."""
    usual = options.clients or 1
    pool = pool_of(Path(options.dataset or ""))
    for clients in range(min(usual, int((pool.split == TRAIN).sum())), 1, -1):
        flags = {
            "dirichlet": options.dirichlet,
            "clients": clients,
            "keep_units": options.keep_units,
        }
        division = scheme_from_flags(flags, body).divide(pool, body, options.seed, options.minimum)
        if min(len(part) for part in division.train.values()) >= max(1, options.minimum):
            break
    else:
        clients = 1
    if clients < usual:
        few = console.counted(int((pool.split == TRAIN).sum()), "training image", "training images")
        console.say(f"{clients} clients, not {usual}: {few} are too few for more.")
    return replace(options, clients=clients)


def for_training(data: Path, work: Path) -> Path:
    """A partition or corruption as it is; a dataset is partitioned by default first. Raises FedcliError.

    Patients on both sides are not mentioned here: what trains does so.
    """
    if manifest.read(data).kind != "dataset":
        return data
    return divided(PartitionOptions(data, work=work)).path


ALL = "all"  # the scheme of one client, from which nothing is drawn
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
OPTION_OF = {
    "dirichlet": "alpha",
    "fedism": "corrupted",
    "fedmrl": "eta",
}  # where a flag is not called as its option


def scheme_from_flags(flags: Mapping[str, Any], dataset: Mapping[str, Any]) -> Scheme:
    """The scheme that flags ask for, by their names with underscores; those not given are absent, None, False or empty.

    dataset: the manifest's body, whose usual number of clients counts where none is given. `scheme` and `set` (its
    options as a dict) reach every registered scheme. Raises UsageError for flags that exclude each other.
    """
    given = {
        key: value
        for key, value in flags.items()
        if value is not None and value is not False and value not in ([], (), {})
    }
    _check(given)
    name = _name(given)
    fields = named(name).__dataclass_fields__
    settings: dict[str, Any] = {"clients": dataset["clients"]} if "clients" in fields else {}
    for flag, value in given.items():
        if (option := OPTION_OF.get(flag, flag)) in fields:
            settings[option] = ";".join(value) if flag == "shares" else value
    if given.get("keep_units") and "keep_units" not in fields:
        hint = "leave --keep-units out, or divide by --iid, --dirichlet, --balanced, --shards or --fedmrl"
        raise UsageError(f"the scheme {name} deals out images, not patients", hint)
    return resolve(name, {**settings, **given.get("set", {})})


def _name(given: Mapping[str, Any]) -> str:
    if "scheme" in given:
        return given["scheme"]
    if "by" in given:
        return "shares" if "shares" in given else "domains" if "portion" in given else "by"
    if "clients_file" in given:
        return "file"
    for name in ("iid", "shards", "fedism", "fedmrl", "fedmrl-authors"):
        if name.replace("-", "_") in given:
            return name
    if given.get("clients") == 1 and not given.keys() & {"dirichlet", "balanced", "keep_units"}:
        return ALL
    return "dirichlet-balanced" if "balanced" in given else "dirichlet"


def _check(given: Mapping[str, Any]) -> None:
    """Raises UsageError for flags of which one makes another meaningless."""
    _exclude(given, *NAMING)
    if "dirichlet" in given and any(
        flag in given for flag in NAMING if flag not in ("fedism", "balanced")
    ):
        other = next(
            flag for flag in NAMING if flag not in ("fedism", "balanced") and flag in given
        )
        raise UsageError(
            f"--dirichlet and {_flag(other)} are different schemes", "give one of them"
        )
    if given.get("scheme") == ALL and given.get("clients", 1) != 1:
        raise UsageError(
            f"the scheme {ALL} makes one client, not {given['clients']}", "leave --clients out"
        )
    if "set" in given and "scheme" not in given:
        raise UsageError("--set is about the options of a scheme", "add --scheme NAME")
    for flag, needed, hint in (
        ("client_column", "clients_file", "is about a file of clients"),
        ("shares", "by", "needs to know which attribute it is about"),
        ("portion", "by", "needs to know which attribute it is about"),
    ):
        if flag in given and needed not in given:
            value = "FILE" if needed == "clients_file" else "ATTRIBUTE"
            raise UsageError(f"{_flag(flag)} {hint}", f"add {_flag(needed)} {value}")
    if "order_file" in given and not {"clients_file", "fedism"} & given.keys():
        raise UsageError(
            "--order-file is about a file of clients or --fedism",
            "add --clients-file FILE or --fedism N",
        )
    _exclude(given, "clients_file", "clients")
    _exclude(given, "shares", "portion")
    if "by" in given and "clients" in given and not ("shares" in given or "portion" in given):
        hint = "leave it out, or add --portion or --shares"
        raise UsageError("--by makes one client per value, so --clients has no effect", hint)


def _exclude(given: Mapping[str, Any], *flags: str) -> None:
    both = [flag for flag in flags if flag in given]
    if len(both) > 1:
        raise UsageError(
            f"{_flag(both[0])} and {_flag(both[1])} exclude each other", "give one of them"
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
