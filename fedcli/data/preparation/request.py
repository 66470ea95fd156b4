"""A person's request of a dataset, checked and completed by its card."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError, nearest
from ..manifest import Options
from ..sources.formats.dicom import parse_window
from ..sources.source import Choices

# options in the order of a recorded command
VALUES = ("size", "fit", "window", "test", "split", "fold", "folds", "sample_images", "seed")
Card = dict[str, Any]  # of a dataset
SWITCHES = ("stratified", "clahe", "scaled_decoding", "strict")


@dataclass(frozen=True)
class Request:
    """A person's request of a dataset."""

    raw: Path | None = None  # folder of its files; None for data made or embedded here
    # fields of Choices; what is absent or None is the dataset's own
    chosen: Mapping[str, Any] = field(default_factory=dict)
    # a CSV that says which image trains and which tests, instead of a split; `fold` is then one of
    # its own numbers
    split_file: Path | None = None
    attributes: Path | None = None  # a CSV with attributes of images or patients


def resolved(name: str, card: Card, request: Request) -> Choices:
    """A request with the card's defaults filled in. Raises FedcliError, UsageError."""
    chosen = {key: value for key, value in request.chosen.items() if value is not None}
    split = chosen["split"] if "split" in chosen else card["split"]
    chosen["own"] = check_own(name, card, chosen.get("own", {}))
    check_folds(card, split, request.split_file, chosen.get("fold"), chosen.get("folds"))
    if request.split_file:
        if "split" in chosen:
            sentence = f"--split {split} and --split-file exclude each other"
            raise UsageError(sentence, "give one of them")
        if "image" in card["splits"]:  # the one that asks least of the tables
            split = "image"
        chosen["fold"] = 1
    chosen["split"] = split
    chosen.setdefault("size", card["size"])
    chosen.setdefault("window", card.get("window"))
    choices = Choices(**chosen)
    if choices.stratified and choices.sample_images is None:
        raise UsageError("--stratified is about a sample of the images", "add --sample-images N")
    if split not in card["splits"]:
        raise UsageError(f"{name} has no split {split!r}", nearest(split, card["splits"]))
    if choices.window is not None:
        if "window" not in card:
            sentence = f"{name} is no CT, but --window is {choices.window!r}"
            raise UsageError(sentence, "leave --window out")
        parse_window(choices.window)
    return choices


def check_own(name: str, card: Card, typed: Mapping[str, str]) -> dict[str, str]:
    """A dataset's own options with its defaults filled in."""
    options = card.get("options", {})
    for key, value in typed.items():
        if key not in options:
            hint = "leave it out; fedcli datasets lists what each one takes"
            if options:
                hint = nearest(key, options)
            raise UsageError(f"{name} has no option {key!r}", hint)
        values = options[key].get("values", [value])
        if value not in values:
            raise UsageError(f"unknown value {key}={value}", nearest(value, values))
    return {key: typed.get(key, option["default"]) for key, option in sorted(options.items())}


def has_folds(card: Card, split: str) -> bool:
    """Tell whether a split of a dataset has folds, which its card's words then say."""
    return "--fold" in card["splits"].get(split, "")


def check_folds(
    card: Card, split: str, split_file: Path | None, fold: int | None, folds: int | None
) -> None:
    """Refuse folds that no split asks for, or that cannot be."""
    if split_file and folds is not None:
        sentence = f"--folds {folds} beside a split file, which has folds of its own"
        raise UsageError(sentence, "leave --folds out")
    if split_file or (fold is None and folds is None):
        return
    if split in card["splits"] and not has_folds(card, split):
        with_folds = [word for word in card["splits"] if has_folds(card, word)]
        hint = f"--split {with_folds[0]}" if with_folds else "leave --fold and --folds out"
        raise UsageError(f"the split {split!r} has no folds", hint)
    count = 5 if folds is None else folds
    if fold is not None and not 1 <= fold <= count:
        raise UsageError(f"fold {fold} is not one of 1 to {count}", f"--fold 1 to --fold {count}")


def recorded(name: str, card: Card, choices: Choices) -> Options:
    """The choices that decide this dataset's bytes; those it does not have are left out."""
    recorded = asdict(choices)
    recorded["dataset"] = name
    del recorded["jobs"]
    if not has_folds(card, choices.split):
        del recorded["fold"]
        del recorded["folds"]
    if choices.sample_images is None:
        del recorded["sample_images"]
        del recorded["stratified"]
    if not choices.scaled_decoding:
        del recorded["scaled_decoding"]
    if choices.own:
        recorded["own"] = _recorded_own(card, choices)
    else:
        del recorded["own"]
    return recorded


def _recorded_own(card: Card, choices: Choices) -> dict[str, str]:
    """A dataset's own options; one that came later does not change what it is not used for."""
    recorded = {}
    for key, value in choices.own.items():
        option = card["options"].get(key, {})
        is_unused = option.get("where_given") and value == option["default"]
        if not is_unused:
            recorded[key] = value
    return recorded


def command(options: Options) -> list[str]:
    """The command that gives these options, without locations."""
    dataset = options["dataset"]
    code_file = options.get("code", {}).get("file")
    words = ["prepare", f"{code_file}:{dataset}" if code_file else dataset]
    for name in VALUES:
        value = options.get(name)
        if value is not None and (name, value) != ("split", "file"):
            words += [_flag(name), str(value)]
    if "split_file" in options:
        words += ["--split-file", options["split_file"]["name"]]
    if "attributes_file" in options:
        words += ["--attributes", options["attributes_file"]["name"]]
    for key, value in options.get("own", {}).items():
        words += ["--set", f"{key}={value}"]
    return words + [_flag(name) for name in SWITCHES if options.get(name)]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
