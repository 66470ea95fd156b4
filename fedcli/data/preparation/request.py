"""The options of prepare, completed by the card of a dataset, and as its manifest records them."""

from collections.abc import Mapping
from typing import Any

from ...errors import UsageError, nearest
from ..manifest import Options
from ..prepare_options import PrepareOptions
from ..sources.formats.dicom import parse_window

Card = dict[str, Any]  # of a dataset


def completed(name: str, card: Card, options: PrepareOptions) -> PrepareOptions:
    """The options with all that is open filled in by the card. Raises FedcliError, UsageError.

    name: of the dataset, without the file of its reader.
    """
    dataset_options = check_own(name, card, options.own)
    of_card = {
        "size": card["size"],
        "split": card["split"],
        "window": card.get("window"),
    }
    values = options.filled({**options.usual, **of_card})
    check_folds(card, values["split"], options)
    if options.split_file:
        if options.split is not None:
            sentence = f"--split {options.split} and --split-file exclude each other"
            raise UsageError(sentence, "give one of them")
        if "image" in card["splits"]:  # the one that asks least of the tables
            values["split"] = "image"
        values["fold"] = 1
    if options.stratified and options.sample_images is None:
        hint = "write for example --sample-images 2000:stratified"
        raise UsageError("stratified is about a sample of the images", hint)
    if values["split"] not in card["splits"]:
        sentence = f"{name} has no split {values['split']!r}"
        raise UsageError(sentence, nearest(values["split"], card["splits"]))
    window = values["window"]
    if window is not None:
        if "window" not in card:
            sentence = f"{name} is no CT, but --window is {window!r}"
            raise UsageError(sentence, "leave --window out")
        parse_window(window)
    return options.completed(dataset_options, **values)


def check_own(
    name: str,
    card: Card,
    typed: Mapping[str, str],
) -> dict[str, str]:
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


def check_folds(card: Card, split: str, options: PrepareOptions) -> None:
    """Refuse folds that no split asks for, or that cannot be."""
    fold = options.fold
    folds = options.folds
    if options.split_file and folds is not None:
        sentence = f"--folds {folds} with a split file, which has its own folds"
        raise UsageError(sentence, "leave --folds out")
    if options.split_file or (fold is None and folds is None):
        return
    if split in card["splits"] and not has_folds(card, split):
        with_folds = [word for word in card["splits"] if has_folds(card, word)]
        hint = f"--split {with_folds[0]}" if with_folds else "leave --fold and --folds out"
        raise UsageError(f"the split {split!r} has no folds", hint)
    count = 5 if folds is None else folds
    if fold is not None and not 1 <= fold <= count:
        raise UsageError(f"fold {fold} is not one of 1 to {count}", f"--fold 1 to --fold {count}")


def recorded(name: str, card: Card, options: PrepareOptions) -> Options:
    """The completed options that decide this dataset's bytes, without those it does not have."""
    recorded: Options = {"dataset": name, **options.record(options.marked("pool"))}
    if not has_folds(card, options.split):
        del recorded["fold"]
        del recorded["folds"]
    if options.sample_images is None:
        del recorded["sample_images"]
        del recorded["stratified"]
    if options.own:
        recorded["own"] = _recorded_own(card, options)
    return recorded


def _recorded_own(card: Card, options: PrepareOptions) -> dict[str, str]:
    """A dataset's own options; one that came later does not change what it is not used for."""
    recorded = {}
    for key, value in options.own.items():
        option = card["options"].get(key, {})
        is_unused = option.get("where_given") and value == option["default"]
        if not is_unused:
            recorded[key] = value
    return recorded


def command(options: Options) -> list[str]:
    """The command that gives these recorded options, without locations."""
    dataset = options["dataset"]
    code_file = options.get("code", {}).get("file")
    words = ["prepare", f"{code_file}:{dataset}" if code_file else dataset]
    switches: list[str] = []
    for option in PrepareOptions.marked("pool"):
        value = options.get(option.name)
        if option.flag.within or (option.name, value) == ("split", "file"):
            continue
        switched_on = {part.name: True for part in option.parts if options.get(part.name)}
        if switched_on:
            value = option.joined(value, switched_on)
        if option.shape == "switch":
            switches += option.words(value)
        else:
            words += option.words(value)
    for flag in ("split_file", "attributes"):
        file = options.get(flag) or options.get(f"{flag}_file")
        if file:
            words += [f"--{flag.replace('_', '-')}", file["name"]]
    for key, value in options.get("own", {}).items():
        words += ["--set", f"{key}={value}"]
    return words + switches
