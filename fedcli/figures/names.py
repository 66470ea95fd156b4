"""Names of runs and of scores in pictures: of a run the method, with what tells it from others of that method."""

from typing import Any

from ..comparison.systems import grouped, identity, last, settled
from ..console import counted
from ..options import recorded
from ..runs.train_options import TrainOptions
from .drawing import LINES, LONG
from .series import Record

UNNAMED = "settings", "eval_every"  # options: shown one by one, or of no effect on what is learned
TRAINING = [  # options that say how long and how a run trained, but those that its label says already
    option.name
    for option in recorded(TrainOptions)
    if not (option.flag.label or option.flag.argument)
    and (not option.flag.panel or option.name in ("model", "weights"))
]
COUNTED = {
    "rounds": "round",
    "epochs": "epoch",
}  # options that are numbers of something, and one of it


def systems(records: list[Record], without: str = "") -> dict[str, list[Record]]:
    """Runs by name, those of one system together, which may differ in the option `without` too; how they were
    trained, and on what, is in their names also where methods differ in it."""
    groups = grouped(records, lambda record: identity(record.asked, (*UNNAMED, without)))
    return dict(zip(labels([group[0] for group in groups], without), groups, strict=True))


def trained(record: Record, without: str) -> dict[str, Any]:
    """Training and data of a run, without seeds, folds and the option `without`."""
    options = _options(record, without)
    kept = {key: value for key, value in options.items() if key in TRAINING or key in record.data}
    return kept | {"dataset": record.dataset}


def _options(record: Record, without: str | None) -> dict[str, Any]:
    """Options in which a run may differ from others; with its seeds where `without` is None."""
    asked = record.options | record.data
    if without is not None:
        return settled(asked, (*UNNAMED, without))
    return {key: value for key, value in asked.items() if key not in UNNAMED}


def labels(records: list[Record], without: str | None = None) -> dict[str, Record]:
    """Runs by method, where a method has several also by what they were asked for, or else by folder, or by place.

    without: an option that is shown elsewhere, as seeds then are.
    """
    for texts in (
        [_asked(r, records, without) for r in records],
        [r.folder.resolve().name for r in records],
    ):
        if len(set(texts)) == len(records):
            return dict(zip(texts, records, strict=True))
    return {f"{record.label} [{place}]": record for place, record in enumerate(records, 1)}


def _asked(record: Record, records: list[Record], without: str | None) -> str:
    """The label, with the options that other runs of it do not have; the folder's name where they are long."""
    asked = _options(record, without)
    alike = [_options(other, without) for other in records if other.label == record.label]
    every = [_options(other, without) for other in records]
    common = (
        {"seed"} if without is None else {*TRAINING, *record.data}
    )  # named also where methods differ in it
    others = {name: every if name in common else alike for name in asked}
    differ = [
        name for name in asked if any(other.get(name) != asked[name] for other in others[name])
    ]
    if not differ:
        return record.label if len(alike) == 1 else record.folder.resolve().name
    differ.sort(key=lambda name: TRAINING.index(name) if name in TRAINING else len(TRAINING))
    text = f"{record.label} ({', '.join(_in_words(record, name, asked[name]) for name in differ)})"
    return text if len(text) <= LINES * LONG else record.folder.resolve().name


def _in_words(record: Record, name: str, value: Any) -> str:
    """An option as it is said: 6 rounds, lr 0.003; of a method's settings rho=0.05."""
    if name in COUNTED:
        return counted(value, COUNTED[name], name)
    value = str(value).removesuffix(".0") if isinstance(value, float) else value
    return (
        f"{name}={value}"
        if name in (record.options.get("settings") or {})
        else f"{last(name)} {value}"
    )
