"""The prepare stage."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from ..data import shared_patients, sources
from ..data.corruption.corrupt import full_kind
from ..data.partition import client_names
from ..data.preparation import prepare as data
from ..data.preparation import raw_folder
from ..data.sources.source import Choices
from ..errors import UsageError, nearest
from ..options import path_of
from . import corrupt as corruption
from . import partition as division
from .call import called_with
from .options import CorruptOptions, PartitionOptions, PrepareOptions
from .results import Corruption, Dataset, Partition

OWN = (  # flags that are options of some datasets
    *("table", "image_column", "label_column", "multi_label", "site", "patient"),
    *("group", "age", "sex", "unknown", "encoding"),
)
WHOLE = "unit", "lesion", "patient"  # splits that keep the images of a patient or lesion together
CHOSEN = [
    field.name for field in fields(Choices) if field.name != "own"
]  # what is a flag of that name


def run(options: PrepareOptions) -> Dataset | Partition | Corruption:
    """Decode and resize a dataset once; with clients or dirichlet also partition it, with corrupt also corrupt it.

    Returns the last thing made. Raises FedcliError, UsageError.
    """
    options = replace(options, name=sources.named(options.name))
    if options.corrupt is not None:
        _check_corruption(options)
    elif given := next(
        (name for name in ("severity", "ratio", "on") if getattr(options, name) not in (None, ())),
        "",
    ):
        raise UsageError(f"--{given} is about a corruption", "add --corrupt KIND")
    folder = raw_folder.folder_of(
        options.name,
        path_of(options.raw),
        Path(options.work),
        sample=options.sample,
        no_sample=options.no_sample,
    )
    made_up = None if options.raw else folder  # where it is a sample of our own
    chosen = {name: getattr(options, name) for name in CHOSEN} | {"own": _own(options)}
    side, brought = raw_folder.of_sample(options.name, made_up)
    chosen["size"], attributes = options.size or side, path_of(options.attributes) or brought
    request = data.Request(folder, chosen, path_of(options.split_file), attributes)
    made = data.prepare(options.name, request, work=Path(options.work), out=path_of(options.out))
    dataset = Dataset(made)
    if not (options.clients or options.dirichlet is not None or options.corrupt):
        shared_patients.warn(made, _remedy(options.name))
        return dataset
    asked = PartitionOptions(dataset, val=options.val, seed=options.seed, work=options.work)
    partition = division.divided(
        division.by_default(asked, clients=options.clients, alpha=options.dirichlet)
    )
    shared_patients.warn(partition.path, _remedy(options.name))
    if options.corrupt is None:
        return partition
    same = {
        name: getattr(options, name) for name in ("severity", "ratio", "on", "seed", "work", "jobs")
    }
    flags = {name: value for name, value in same.items() if value is not None}
    return corruption.run(
        CorruptOptions.from_flags({"kind": options.corrupt, "partition": partition, **flags})
    )


prepare = called_with("prepare", PrepareOptions, run)


def _remedy(name: str) -> str:
    """The option that keeps the patients of a dataset together, as the end of a sentence; "" where it has none."""
    splits = sources.find(name).card["splits"]
    words = [word for word in WHOLE if word in splits]
    return f"; --split {words[0]} keeps them together" if words else ""


def _own(options: PrepareOptions) -> dict[str, str]:
    given = {name.replace("_", "-"): getattr(options, name) for name in OWN}
    if not options.multi_label and options.label_column:
        if len(options.label_column) > 1:
            raise UsageError(
                "--label-column is given several times",
                "--multi-label takes a column for each label",
            )
        (given["label-column"],) = options.label_column  # which may have a comma in it
    given["map"] = ";".join(options.map)
    flags = {name: _text(value) for name, value in given.items() if value}
    if twice := [name for name in flags if name in options.set]:
        raise UsageError(
            f"--{twice[0]} and --set {twice[0]} exclude each other", "give one of them"
        )
    return {**{key: str(value) for key, value in options.set.items()}, **flags}


def _text(value: str | bool | Sequence[str]) -> str:
    """A flag as the option holds it: names with commas between them, one that has a comma of its own in quotes."""
    if isinstance(value, str | bool):
        return value if isinstance(value, str) else "yes"
    return ",".join(
        '"' + name.replace('"', '""') + '"' if {",", '"'} & set(name) else name for name in value
    )


def _check_corruption(options: PrepareOptions) -> None:
    """Refuse a corruption that cannot be, before anything of the dataset is read. Raises UsageError."""
    full_kind(options.corrupt or "")
    card = sources.card(options.name)
    known = client_names(options.clients or card["clients"])
    if options.clients is None and options.dirichlet is None:
        if not card["attributes"]:  # its sites come from its files
            return
        known = [*card["attributes"].get(card["sites"], []), *known]
    if odd := [client for client in options.on if client not in known]:
        raise UsageError(f"the partition will have no client {odd[0]!r}", nearest(odd[0], known))
