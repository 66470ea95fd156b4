"""What a person asks of a dataset, checked and completed by its card."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import FedcliError, UsageError, nearest
from ..sources.formats.dicom import parse_window
from ..sources.source import Choices

FITS = "stretch", "pad"


@dataclass(frozen=True)
class Request:
    """What a person asks of a dataset; None is the card's own.

    Attributes:
        raw: folder of its files; None for data made or embedded here.
        size: side of the square images in pixels.
        fit: "stretch" ignores the sides' ratio, "pad" keeps it.
        clahe: even out local contrast first.
        scaled_decoding: let libjpeg shrink photographs, to no less than twice the size.
        window: for CT: "file", "brain", "subdural", "bone" or "centre/width" in HU.
        test: share of the test part, in (0, 1).
        split: what the split keeps together, one of the card's words.
        strict: refuse a raw file that cannot be used instead of skipping it.
        jobs: processes, 0 for one per core; never changes the result.
        own: options that only this dataset has; the card's "options" lists them.
        split_file: a CSV that says which image trains and which tests, instead of split.
        fold: the fold that is the test part: from 1 for a split that has folds, by the split file's own numbers beside
            one.
        folds: how many folds; 5 where None.
        sample_images: images drawn by the seed before they are divided into parts; None keeps all.
        stratified: draw each class in proportion.
        attributes: a CSV with attributes of images or patients.
    """

    raw: Path | None = None
    size: int | None = None
    fit: str = "stretch"
    clahe: bool = False
    scaled_decoding: bool = False
    window: str | None = None
    test: float = 0.2
    split: str | None = None
    seed: int = 0
    strict: bool = False
    jobs: int = 0
    own: Mapping[str, str] = field(default_factory=dict)
    split_file: Path | None = None
    fold: int | None = None
    folds: int | None = None
    sample_images: int | None = None
    stratified: bool = False
    attributes: Path | None = None


def resolved(name: str, card: dict[str, Any], request: Request) -> Choices:
    """A request with the card's defaults filled in. Raises FedcliError, UsageError."""
    split = card["split"] if request.split is None else request.split
    own = check_own(name, card, request.own)
    check_folds(card, split, request.split_file, request.fold, request.folds)
    if request.split_file:
        check_split_file(request.split_file, request.split)
        split = "image" if "image" in card["splits"] else split  # the one that asks least of the tables
    choices = Choices(
        size=card["size"] if request.size is None else request.size, split=split, fit=request.fit, clahe=request.clahe,
        window=request.window or card.get("window"), test=request.test, seed=request.seed, strict=request.strict,
        jobs=request.jobs, own=own, fold=1 if request.fold is None or request.split_file else request.fold,
        folds=5 if request.folds is None else request.folds, sample_images=request.sample_images,
        stratified=request.stratified, scaled_decoding=request.scaled_decoding,
    )  # fmt: skip
    check_choices(name, card, choices)
    return choices


def check_own(name: str, card: dict[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """A dataset's own options with its defaults filled in."""
    known = card.get("options", {})
    for key in own:
        if key not in known:
            hint = nearest(key, known) if known else "leave it out; fedcli datasets lists what each one takes"
            raise UsageError(f"{name} has no option {key!r}", hint)
        if own[key] not in (values := known[key].get("values", [own[key]])):
            raise UsageError(f"unknown value {key}={own[key]}", nearest(own[key], values))
    return {key: own.get(key, about["default"]) for key, about in sorted(known.items())}


def has_folds(card: dict[str, Any], split: str) -> bool:
    """Whether a split of a dataset has folds, which its card's words then say."""
    return "--fold" in card["splits"].get(split, "")


def check_folds(card: dict[str, Any], split: str, split_file: Path | None, fold: int | None, folds: int | None) -> None:
    """Refuse folds that no split asks for, or that cannot be."""
    if split_file and folds is not None:
        raise UsageError(f"--folds {folds} beside a split file, which has folds of its own", "leave --folds out")
    if split_file or (fold is None and folds is None):
        return
    if split in card["splits"] and not has_folds(card, split):
        with_folds = [word for word in card["splits"] if has_folds(card, word)]
        hint = f"--split {with_folds[0]}" if with_folds else "leave --fold and --folds out"
        raise UsageError(f"the split {split!r} has no folds", hint)
    count = 5 if folds is None else folds
    if not 2 <= count <= 100:
        raise UsageError(f"{count} folds are not between 2 and 100", "5 is usual")
    if fold is not None and not 1 <= fold <= count:
        raise UsageError(f"fold {fold} is not one of 1 to {count}", f"--fold 1 to --fold {count}")


def check_split_file(path: Path, split: str | None) -> None:
    if split:
        raise UsageError(f"--split {split} and --split-file exclude each other", "give one of them")
    if not path.is_file():
        raise FedcliError(f"no such file: {path}", "give a CSV with image ids and the part of each")


def check_choices(name: str, card: dict[str, Any], choices: Choices) -> None:
    """Refuse options that cannot mean anything for this dataset."""
    if not 8 <= choices.size <= 4096:
        raise UsageError(f"size {choices.size} is not between 8 and 4096 pixels", f"the default is {card['size']}")
    if choices.fit not in FITS:
        raise UsageError(f"unknown fit {choices.fit!r}", nearest(choices.fit, FITS))
    if not 0 < choices.test < 1:
        raise UsageError(f"test {choices.test} is not between 0 and 1", "give the share of the test part, such as 0.2")
    if choices.sample_images is not None and choices.sample_images < 1:
        raise UsageError(f"--sample-images {choices.sample_images} is not 1 or more", "leave it out to use all images")
    if choices.stratified and choices.sample_images is None:
        raise UsageError("--stratified is about a sample of the images", "add --sample-images N")
    if choices.split not in card["splits"]:
        raise UsageError(f"{name} has no split {choices.split!r}", nearest(choices.split, card["splits"]))
    if choices.window is not None and "window" not in card:
        raise UsageError(f"{name} is no CT, but --window is {choices.window!r}", "leave --window out")
    if choices.window is not None:
        parse_window(choices.window)


def recorded(name: str, card: dict[str, Any], choices: Choices) -> dict[str, Any]:
    """The choices that decide this dataset's bytes; those it does not have are left out."""
    options = {"dataset": name, **asdict(choices)}
    unused = ["jobs"] + ["own"] * (not choices.own) + ["fold", "folds"] * (not has_folds(card, choices.split))
    unused += ["sample_images", "stratified"] * (choices.sample_images is None)
    unused += ["scaled_decoding"] * (not choices.scaled_decoding)
    recorded = {key: value for key, value in options.items() if key not in unused}
    if "own" in recorded:  # an option that came later does not change what it is not used for
        quiet = {key: about["default"] for key, about in card["options"].items() if about.get("where_given")}
        recorded["own"] = {key: value for key, value in choices.own.items() if quiet.get(key) != value}
    return recorded


def command(options: dict[str, Any]) -> list[str]:
    """The command that gives these options, without locations."""
    file = options.get("code", {}).get("file")
    words = ["prepare", f"{file}:{options['dataset']}" if file else options["dataset"]]
    for name in ("size", "fit", "window", "test", "split", "fold", "folds", "sample_images", "seed"):
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
