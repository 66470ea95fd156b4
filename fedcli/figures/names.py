"""Names of runs and scores in pictures: the method, with what tells a run from others of it."""

from dataclasses import replace
from typing import Any

from ..comparison.systems import grouped, identity, last, settled, shared_parts, without_parts
from ..console import counted
from ..federation.training import HOW
from ..options import Option, recorded
from ..runs.train_options import TrainOptions
from .drawing import LINES, LONG
from .series import Record

# options that are shown one by one, or have no effect on what is learned
UNNAMED = ("settings", *(option.name for option in TrainOptions.marked("watching")))
COUNTED = {"rounds": "round", "epochs": "epoch"}  # options that are numbers of something: one of it


def _says_training(option: Option) -> bool:
    """Tell whether an option says how long or how a run trained, and its label does not say it."""
    flag = option.flag
    if flag.label or flag.argument:
        return False
    return flag.panel in HOW or option.name in ("model", "weights")


TRAINING = [option.name for option in recorded(TrainOptions) if _says_training(option)]


def systems(records: list[Record], without: str = "") -> dict[str, list[Record]]:
    """Runs by name, those of one system together, which may differ in the option `without` too.

    Their training and data are in their names also where methods differ in it.
    """
    groups = grouped(records, lambda record: identity(record.asked, (*UNNAMED, without)))
    first_runs = [group[0] for group in groups]
    return dict(zip(labels(first_runs, without), groups, strict=True))


def trained(record: Record, without: str) -> dict[str, Any]:
    """Training and data of a run, without seeds, folds and the option `without`."""
    training: dict[str, Any] = {}
    for name, value in _options(record, without).items():
        if name in TRAINING or name in record.data:
            training[name] = value
    training["dataset"] = record.dataset
    return training


def _options(record: Record, without: str | None) -> dict[str, Any]:
    """Options in which a run may differ from others; with its seeds where `without` is None."""
    options = record.options | record.data
    if without is not None:
        return settled(options, (*UNNAMED, without))
    return {name: value for name, value in options.items() if name not in UNNAMED}


def labels(records: list[Record], without: str | None = None) -> dict[str, Record]:
    """Runs by method, where it has several also by their options, or else by folder or by position;
    without what all methods share.

    without: an option that is shown elsewhere, as seeds then are.
    """
    shared = shared_parts(list(dict.fromkeys(record.label for record in records)))
    short = [replace(record, label=without_parts(record.label, shared)) for record in records]
    by_options = [_label(record, short, without) for record in short]
    by_folder = [record.folder.resolve().name for record in records]
    for texts in (by_options, by_folder):
        if len(set(texts)) == len(records):
            return dict(zip(texts, records, strict=True))
    numbered = enumerate(records, 1)
    return {f"{record.label} [{position}]": record for position, record in numbered}


def _label(record: Record, records: list[Record], without: str | None) -> str:
    """The label, with the options that other runs of it do not have; the folder's name if long."""
    folder_name = record.folder.resolve().name
    differing = _differing(record, records, without)
    if not differing:
        same_label = [other for other in records if other.label == record.label]
        return record.label if len(same_label) == 1 else folder_name
    names = sorted(differing, key=_order)
    words = ", ".join(_in_words(record, name, differing[name]) for name in names)
    text = f"{record.label} ({words})"
    return text if len(text) <= LINES * LONG else folder_name


def _differing(
    record: Record,
    records: list[Record],
    without: str | None,
) -> dict[str, Any]:
    """The options whose value another run of this label does not have.

    Seeds, or else training and data, are also compared with runs of other labels.
    """
    in_all_labels = {"seed"} if without is None else {*TRAINING, *record.data}
    options = _options(record, without)
    differing = {}
    for other in records:
        others = _options(other, without)
        for name, value in options.items():
            is_compared = name in in_all_labels or other.label == record.label
            if is_compared and others.get(name) != value:
                differing[name] = value
    return {name: options[name] for name in options if name in differing}


def _order(name: str) -> int:
    if name in TRAINING:
        return TRAINING.index(name)
    return len(TRAINING)


def _in_words(record: Record, name: str, value: Any) -> str:
    """An option in words: 6 rounds, lr 0.003; of a method's settings rho=0.05."""
    if name in COUNTED:
        return counted(value, COUNTED[name], name)
    if isinstance(value, float):
        value = str(value).removesuffix(".0")
    settings = record.options.get("settings") or {}
    if name in settings:
        return f"{name}={value}"
    return f"{last(name)} {value}"
