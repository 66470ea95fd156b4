"""A person's request of a dataset, checked and completed by its card."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError, nearest
from ..sources.formats.dicom import parse_window
from ..sources.source import Choices


@dataclass(frozen=True)
class Request:
    """A person's request of a dataset."""

    raw: Path | None = None  # folder of its files; None for data made or embedded here
    # fields of Choices; what is absent or None is the dataset's own
    chosen: Mapping[str, Any] = field(default_factory=dict)
    # a CSV that says which image trains and which tests, instead of a split; `fold` is then one of its own numbers
    split_file: Path | None = None
    attributes: Path | None = None  # a CSV with attributes of images or patients


def resolved(name: str, card: dict[str, Any], request: Request) -> Choices:
    """A request with the card's defaults filled in. Raises FedcliError, UsageError."""
    chosen = {key: value for key, value in request.chosen.items() if value is not None}
    split = chosen.get("split", card["split"])
    own = check_own(name, card, chosen.get("own", {}))
    check_folds(card, split, request.split_file, chosen.get("fold"), chosen.get("folds"))
    if request.split_file:
        if "split" in chosen:
            raise UsageError(
                f"--split {split} and --split-file exclude each other", "give one of them"
            )
        split = (
            "image" if "image" in card["splits"] else split
        )  # the one that asks least of the tables
        chosen["fold"] = 1
    choices = Choices(
        **{"size": card["size"], "window": card.get("window"), **chosen, "split": split, "own": own}
    )
    if choices.stratified and choices.sample_images is None:
        raise UsageError("--stratified is about a sample of the images", "add --sample-images N")
    if split not in card["splits"]:
        raise UsageError(f"{name} has no split {split!r}", nearest(split, card["splits"]))
    if choices.window is not None and "window" not in card:
        raise UsageError(
            f"{name} is no CT, but --window is {choices.window!r}", "leave --window out"
        )
    if choices.window is not None:
        parse_window(choices.window)
    return choices


def check_own(name: str, card: dict[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """A dataset's own options with its defaults filled in."""
    known = card.get("options", {})
    for key in own:
        if key not in known:
            hint = (
                nearest(key, known)
                if known
                else "leave it out; fedcli datasets lists what each one takes"
            )
            raise UsageError(f"{name} has no option {key!r}", hint)
        if own[key] not in (values := known[key].get("values", [own[key]])):
            raise UsageError(f"unknown value {key}={own[key]}", nearest(own[key], values))
    return {key: own.get(key, about["default"]) for key, about in sorted(known.items())}


def has_folds(card: dict[str, Any], split: str) -> bool:
    """Tell whether a split of a dataset has folds, which its card's words then say."""
    return "--fold" in card["splits"].get(split, "")


def check_folds(
    card: dict[str, Any], split: str, split_file: Path | None, fold: int | None, folds: int | None
) -> None:
    """Refuse folds that no split asks for, or that cannot be."""
    if split_file and folds is not None:
        raise UsageError(
            f"--folds {folds} beside a split file, which has folds of its own", "leave --folds out"
        )
    if split_file or (fold is None and folds is None):
        return
    if split in card["splits"] and not has_folds(card, split):
        with_folds = [word for word in card["splits"] if has_folds(card, word)]
        hint = f"--split {with_folds[0]}" if with_folds else "leave --fold and --folds out"
        raise UsageError(f"the split {split!r} has no folds", hint)
    count = 5 if folds is None else folds
    if fold is not None and not 1 <= fold <= count:
        raise UsageError(f"fold {fold} is not one of 1 to {count}", f"--fold 1 to --fold {count}")


def recorded(name: str, card: dict[str, Any], choices: Choices) -> dict[str, Any]:
    """The choices that decide this dataset's bytes; those it does not have are left out."""
    options = {"dataset": name, **asdict(choices)}
    unused = (
        ["jobs"]
        + ["own"] * (not choices.own)
        + ["fold", "folds"] * (not has_folds(card, choices.split))
    )
    unused += ["sample_images", "stratified"] * (choices.sample_images is None)
    unused += ["scaled_decoding"] * (not choices.scaled_decoding)
    recorded = {key: value for key, value in options.items() if key not in unused}
    if "own" in recorded:  # an option that came later does not change what it is not used for
        quiet = {
            key: about["default"]
            for key, about in card["options"].items()
            if about.get("where_given")
        }
        recorded["own"] = {
            key: value for key, value in choices.own.items() if quiet.get(key) != value
        }
    return recorded


def command(options: dict[str, Any]) -> list[str]:
    """The command that gives these options, without locations."""
    file = options.get("code", {}).get("file")
    words = ["prepare", f"{file}:{options['dataset']}" if file else options["dataset"]]
    for name in (
        "size",
        "fit",
        "window",
        "test",
        "split",
        "fold",
        "folds",
        "sample_images",
        "seed",
    ):
        given = options.get(name) is not None and (name, options[name]) != ("split", "file")
        words += [f"--{name.replace('_', '-')}", str(options[name])] if given else []
    if "split_file" in options:
        words += ["--split-file", options["split_file"]["name"]]
    if "attributes_file" in options:
        words += ["--attributes", options["attributes_file"]["name"]]
    for key, value in options.get("own", {}).items():
        words += ["--set", f"{key}={value}"]
    switches = "stratified", "clahe", "scaled_decoding", "strict"
    return words + [f"--{name.replace('_', '-')}" for name in switches if options.get(name)]
