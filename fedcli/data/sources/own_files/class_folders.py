"""A folder per class and no table: folders of classes, of parts of a split, and of masks.

Published sets lay masks next to their images, a second copy of themselves into a folder of their
own name, and images without a class into a folder called pred. None of these may become a class
unnoticed: masks and images without a class are left out, listed and counted; a layout that allows
two readings is refused.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .... import console
from ....errors import FedcliError, UsageError
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..source import Listing
from ..tables import PARTS
from .own_table import INDEX, classes_of

NAMED = 8  # classes that a note names
MASK_WORDS = {
    *("mask", "masks", "segmentation", "segmentations", "seg", "segs", "groundtruth", "gt"),
    *("roi", "rois", "annotation", "annotations", "contour", "contours", "superpixels"),
    *("overlay", "overlays"),
}
OTHER_WORDS = {  # that may be in the name of a folder of masks
    *("manual", "binary", "lesion", "lesions", "lung", "lungs", "infection", "tumor", "tumour"),
    *("left", "right", "image", "images", "part", *PARTS),
}
LABELS = {"label", "labels", "labelstr", "labelsts"}  # the last two are nnU-Net's
UNLABELLED = {"pred", "predict", "prediction", "predictions", "unlabeled", "unlabelled"}
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
MASK_FILE = re.compile(
    r"(.+?)[ _.-]+(?:masks?|segmentations?|segs?|labels?|gt|rois?|annotations?|contours?"
    r"|superpixels|overlays?)(?:[ _.-]*\d+)?",
    re.IGNORECASE,
)
IS_MASK = "is a mask of another image"
IN_MASKS = "is in a folder of masks"
NO_CLASS = "is in a folder of images without a class"
RENAME = "if that is wrong, rename it, or put a CSV with a row per image there"
MIXED = (
    "give --raw a folder that holds only classes, or only train and test with the classes in them"
)
INNER = "is in no folder of a class"
NEEDS_TABLE = "site", "patient", "group", "age", "sex", "map", "multi-label"
Skipped = list[tuple[str, str]]


class FolderLayout(NamedTuple):
    """The images of classes, those that are left out, and where the folders of classes are."""

    files: list[str]
    skipped: Skipped
    split: bool  # the outermost folders are parts such as train and test

    @property
    def level(self) -> int:
        """The number of folders above those of the classes."""
        return 1 if self.split else 0


def listed(
    raw: Path,
    files: list[str],
    others: list[str],
    choices: PrepareOptions,
) -> Listing:
    """Classes from the folders in raw, or from those in its folders train, val and test.

    Raises FedcliError.
    """
    _refuse_columns(raw, choices)
    layout = _layout(raw, files)
    labels = _labels(raw, layout)
    _refuse_parts_among_classes(raw, labels, layout)
    classes = classes_of(labels, raw)
    _note_classes(raw, classes)
    rows = []
    for file, label in zip(layout.files, labels, strict=True):
        row = Row(file, classes.index(label), file)
        if layout.split:
            row = replace(row, test=PARTS[_top(file).lower()])
        rows.append(row)
    if layout.split:
        _warn_of_one_part(rows, classes)
    else:
        _note_inner_folders(layout.files)
    _note_split(raw, layout, choices)
    skipped = list(layout.skipped)
    for file in others:
        if PurePosixPath(file).name.upper() == INDEX:
            skipped.append((file, "holds no image"))
    return Listing(rows, skipped=skipped, classes=classes)


def _labels(raw: Path, layout: FolderLayout) -> list[str]:
    """The folder of a class around each image. Raises FedcliError for an image in none."""
    labels = []
    for file in layout.files:
        *folders, _ = _parts(file)
        if len(folders) <= layout.level:
            hint = (
                "put a CSV with a row per image next to them, or each image into a folder named "
                "after its class"
            )
            raise FedcliError(f"{raw} has no CSV, and {file} {INNER}", hint)
        labels.append(folders[layout.level])
    return labels


def deeper(raw: Path, rows: Sequence[Row]) -> str:
    """A hint for one folder around everything: the folder in it, where that holds several.

    "" where it does not.
    """
    inner = _inner_folders(str(row.source) for row in rows)
    if len(inner) != 1:
        return ""
    name, folders = inner.popitem()
    return f"go one folder down: --raw {raw / name}; else " if len(folders) > 1 else ""


def _refuse_columns(raw: Path, choices: PrepareOptions) -> None:
    """Raises UsageError for an option that names a column, where there is no table."""
    flags = {option: option for option in NEEDS_TABLE}
    if "attributes" not in choices.own:
        flags["encoding"] = "table encoding"
    for option, flag in flags.items():
        if choices.own[option]:
            sentence = f"--{flag} needs a table, and {raw} has no CSV"
            raise UsageError(sentence, "put one with a row per image there")


def _parts(file: str) -> tuple[str, ...]:
    return PurePosixPath(file).parts


def _top(file: str) -> str:
    return _parts(file)[0]


# masks, parts, images without a class


def _layout(raw: Path, files: list[str]) -> FolderLayout:
    """The images of classes.

    Raises FedcliError for a layout that allows two readings, or without such an image.
    """
    images = list[str]()
    skipped = Skipped()
    stems = {(PurePosixPath(file).parent, _stem(file)) for file in files}
    for file in files:
        reason = _reason(file, stems)
        if reason:
            skipped.append((file, reason))
        else:
            images.append(file)
    if not images:
        example, reason = skipped[0]
        sentence = f"{raw} holds only masks or images without a class, such as {example}"
        raise FedcliError(sentence, f"{example} {reason}; {RENAME}")
    if skipped:
        console.warn(f"files that are no images of a class are left out; {RENAME}")
    folders = sorted(_inner_folders(images))
    parts = [name for name in folders if name.lower() in PARTS]
    if parts and len(parts) < len(folders):
        _refuse_mixture(raw, images, parts, folders)
    return FolderLayout(images, skipped, split=len(parts) > 1)


def _reason(file: str, stems: set[tuple[PurePosixPath, str]]) -> str:
    """The reason why a file is no image of a class; "" for one that is.

    stems: of all files, by folder.
    """
    *folders, _ = _parts(file)
    for folder in folders:
        if is_of_masks(folder):
            return IN_MASKS
        if folder.lower() in UNLABELLED:
            return NO_CLASS
    match = MASK_FILE.fullmatch(_stem(file))
    if match and (PurePosixPath(file).parent, match[1]) in stems:
        return IS_MASK
    return ""


def is_of_masks(folder: str) -> bool:
    """Tell whether the name of a folder says that it holds masks.

    Such are masks, Lung Masks, labelsTr, Part1_GroundTruth.
    """
    if folder.lower() in LABELS:
        return True
    text = " ".join(WORD.findall(folder)).lower()
    words = set(text.replace("ground truth", "groundtruth").split())
    names_masks = not MASK_WORDS.isdisjoint(words)
    return names_masks and words <= MASK_WORDS | OTHER_WORDS


def _stem(file: str) -> str:
    return PurePosixPath(file.removesuffix(".gz")).stem


def _refuse_mixture(
    raw: Path,
    files: list[str],
    parts: list[str],
    top: list[str],
) -> None:
    """Raises FedcliError for folders such as train and test next to others."""
    others = [name for name in top if name not in parts]
    parts_text = _listed(parts)
    others_text = _listed(others)
    sentence = f"{raw} has the folders {parts_text} and also {others_text}"
    hint = MIXED
    inner = _inner_folders(files)
    for name in others:
        folders = inner.get(name, set())
        if _are_parts(folders):
            path = raw / name
            names = _listed(sorted(folders))
            hint = f"{path} has folders {names} too: give --raw {path}, or move it away"
    raise FedcliError(f"{sentence}: {parts[0]} is a part of a split, not a class", hint)


def _refuse_parts_among_classes(
    raw: Path,
    labels: list[str],
    layout: FolderLayout,
) -> None:
    """Raises FedcliError where the folders of classes have names of parts.

    Also where only some of them hold folders of parts.
    """
    parts = {label for label in labels if label.lower() in PARTS}
    if layout.split:
        if parts:
            holders = f"{_top(layout.files[0])} and others"
            sentence = f"{raw}: {holders} hold a folder {min(parts)}, which is no class"
            raise FedcliError(sentence, MIXED)
        return
    inner = _inner_folders(layout.files)
    holders_of_parts = [name for name, folders in inner.items() if _are_parts(folders)]
    if holders_of_parts and len(holders_of_parts) < len(set(labels)):
        name = min(holders_of_parts)
        folders = _listed(sorted(inner[name]))
        sentence = f"{raw / name} has the folders {folders}, so it is no class"
        hint = f"go one folder down: --raw {raw / name}, or move it away"
        raise FedcliError(sentence, hint)


def _inner_folders(files: Iterable[str]) -> dict[str, set[str]]:
    """The names of the folders in each of the outermost folders."""
    inner: dict[str, set[str]] = {}
    for file in files:
        *folders, _ = _parts(file)
        if folders:
            names = inner.setdefault(folders[0], set())
            names.update(folders[1:2])
    return inner


def _are_parts(folders: set[str]) -> bool:
    names = {folder.lower() for folder in folders}
    return bool(names) and names <= PARTS.keys()


# what is said


def _listed(names: Sequence[str]) -> str:
    """Names for a sentence, only the first few of many."""
    text = ", ".join(names[:NAMED])
    if len(names) > NAMED:
        text += f" and {len(names) - NAMED} more"
    return text


def _note_classes(raw: Path, classes: list[str]) -> None:
    if len(classes) > 1:
        console.say(f"no CSV in {raw}: the folders {_listed(classes)} are the classes")


def _note_split(
    raw: Path,
    layout: FolderLayout,
    choices: PrepareOptions,
) -> None:
    """A note where folders of parts are not used.

    Raises FedcliError where --split folder finds none.
    """
    if choices.split == "folder" and not layout.split:
        sentence = f"{raw} has no folders train and test"
        raise FedcliError(sentence, "leave --split out, or use --split-file")
    if layout.split and choices.split != "folder":
        parts = sorted({_top(file).lower() for file in layout.files})
        console.say(f"the folders {', '.join(parts)} are split anew; --split folder keeps them")


def _note_inner_folders(files: list[str]) -> None:
    """A note where every class holds folders of the same names, which may be the classes."""
    example, *others = _inner_folders(files).values()
    if not others or any(folders != example for folders in others):
        return
    names = _listed(sorted(example))
    has_numbers = any(name.isdecimal() for name in example)
    if _are_parts(example):
        console.say(f"the folders {names} in the classes are ignored; images are split anew")
    elif len(example) > 1 and not has_numbers:
        hint = "if these are the classes, put a CSV with a row per image there"
        console.warn(f"each class has the same folders {names}: {hint}")


def _warn_of_one_part(rows: list[Row], classes: list[str]) -> None:
    """A warning about classes that only the folders for training or only those for testing have."""
    for test, part in ((False, "training"), (True, "test")):
        present = {row.label for row in rows if row.test is test}
        absent = [name for label, name in enumerate(classes) if label not in present]
        if absent:
            names = console.counted(len(absent), "class", "classes")
            hint = "if they are spelt in another way there, give the folders of a class one name"
            absent_text = _listed(absent)
            console.warn(f"{names} without a folder for {part}: {absent_text}; {hint}")
