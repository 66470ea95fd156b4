"""HyperKvasir's labelled images: endoscopy of the gut in 23 classes, from the folders of the public zip.

Source: Borgli et al., Scientific Data 7:283, 2020. An image's class is its folder's name; image-labels.csv, which
lies beside the folders, says which images there are and must agree. The authors' own folds, contiguous blocks of
a class, come from 2_fold_split.csv and 5_fold_split.csv of their repository when these lie beside. No file tells the
patient, so images of one examination can land on both sides of any split.
"""

import re
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...errors import FedcliError
from ...seeds import derive
from ..pool import Row
from . import cards
from .division import divided
from .drawing import picture, save, table
from .formats.photographs import PHOTOGRAPHS, photograph, within
from .source import Choices, Listing, Source
from .tables import first_of, read_table

CARD = cards.read("hyper-kvasir")
WHERE = {
    name: folder.split("/") for folder, names in CARD["folders"].items() for name in names
}  # organ, kind
CLASSES, ATTRIBUTES = CARD["classes"], CARD["attributes"]
SPELLINGS = {  # of the zip's folders, the authors' folds and the papers
    **{
        "cecum": "normal-cecum",
        "pylorus": "normal-pylorus",
        "z-line": "normal-z-line",
        "polyps": "polyp",
    },
    **{
        "hemorroids": "hemorrhoids",
        "haemorrhoids": "hemorrhoids",
        "barretts-short-segment": "short-segment-barretts",
    },
    **{"esophagitis-a": "oesophagitis-a", "esophagitis-b-d": "oesophagitis-b-d"},
}

TABLE, IMAGES = "image-labels.csv", "labeled-images"
COLUMNS = ["Video file", "Finding"]
FOLD_COLUMNS = ["file-name", "class-name", "split-index"]


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image that lies in the folder of the class it is listed as."""
    top = raw / IMAGES if (raw / IMAGES).is_dir() else raw
    files = _files(raw, top)
    labels = top / TABLE if (top / TABLE).is_file() else None
    listed = (
        read_labels(labels) if labels else {id: class_of(file.parent) for id, file in files.items()}
    )
    skipped = [
        (file.as_posix(), f"not listed in {TABLE}")
        for id, file in files.items()
        if id not in listed
    ]
    images = []
    for id, name in sorted(listed.items()):
        if id not in files:
            skipped.append((f"{id}.jpg", f"listed in {TABLE}, in none of the folders"))
            continue
        file = files[id]
        if name != class_of(file.parent):
            skipped.append((file.as_posix(), f"listed in {TABLE} as {name}"))
            continue
        groups = {
            key: ATTRIBUTES[key].index(value)
            for key, value in zip(ATTRIBUTES, WHERE[name], strict=True)
        }
        images.append(Row(id, CLASSES.index(name), file.as_posix(), groups=groups))
    tables = [labels.relative_to(raw).as_posix()] if labels else []
    if choices.split == "official":
        folds = _fold_file(raw, top, choices.folds)
        images = official(images, folds, choices)
        tables.append(folds.relative_to(raw).as_posix())
    return divided(Listing(images, ATTRIBUTES, None, tables, sorted(skipped)), choices)


def class_of(name: str | Path) -> str:
    """A class in the card's spelling. Raises FedcliError for what is none."""
    known = re.sub(r"[\s_]+", "-", Path(name).name.strip().lower())
    known = re.sub(
        r"^ulcerative-colitis-(?=\d)", "ulcerative-colitis-grade-", SPELLINGS.get(known, known)
    )
    if known not in WHERE:
        raise FedcliError(
            f"{str(name)!r} is none of HyperKvasir's 23 classes", f"known: {', '.join(CLASSES)}"
        )
    return known


def read_labels(path: Path) -> dict[str, str]:
    """Image id -> class, from image-labels.csv, whose "Video file" names an image without suffix."""
    table = read_table(path, COLUMNS, dtype=str, keep_default_na=False)
    return _each_once(path, zip(*(table[name] for name in COLUMNS), strict=True))


def read_folds(path: Path) -> dict[str, tuple[str, int]]:
    """Image id -> (class, fold from 0), from the authors' 2_fold_split.csv or 5_fold_split.csv."""
    table = read_table(path, FOLD_COLUMNS, sep=";", dtype=str, keep_default_na=False)
    if odd := next((text for text in table["split-index"] if not text.isdecimal()), None):
        raise FedcliError(
            f"{path} has the split-index {odd!r}, expected 0, 1, 2 ...", "download the file again"
        )
    labels = _each_once(path, zip(table["file-name"], table["class-name"], strict=True))
    fold = {
        _id(file): int(k) for file, k in zip(table["file-name"], table["split-index"], strict=True)
    }
    return {id: (name, fold[id]) for id, name in labels.items()}


def official(rows: list[Row], path: Path, choices: Choices) -> list[Row]:
    """Mark the authors' fold `choices.fold`, counted from 1, as the test part."""
    folds = read_folds(path)
    for row in rows:
        if row.id not in folds:
            raise FedcliError(
                f"{path} has no fold for {row.id}", "use --split folds or --split image"
            )
        if (name := folds[row.id][0]) != CLASSES[row.label]:
            raise FedcliError(
                f"{row.id} is {CLASSES[row.label]}, but {path} calls it {name}",
                "download both again",
            )
    return [replace(row, test=folds[row.id][1] == choices.fold - 1) for row in rows]


def _id(file: str) -> str:
    return Path(file).stem if file.lower().endswith(PHOTOGRAPHS) else file


def _each_once(path: Path, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Image id -> class. Raises FedcliError for an image with two of them, or a name that leads elsewhere."""
    labels: dict[str, str] = {}
    for file, name in pairs:
        if Path(file).name != file:  # checking all of them takes a second
            within(path.parent, file, path)
        id, name = _id(file), class_of(name)
        if labels.setdefault(id, name) != name:
            sentence = f"{path}: {id} has two classes, {labels[id]} and {name}"
            raise FedcliError(sentence, "keep the right one of the rows")
    return labels


def _files(raw: Path, top: Path) -> dict[str, Path]:
    """Image id -> path relative to raw, of all images three folders below top; macOS' ._ files are none."""
    if not any(top.glob("[!.]*-gi-tract")):
        hint = f"give the folder into which the zip with {IMAGES} was unpacked"
        raise FedcliError(f"{top} has no folder lower-gi-tract or upper-gi-tract", hint)
    files: dict[str, Path] = {}
    for path in sorted(top.glob("[!.]*-gi-tract/[!.]*/[!.]*/[!.]*")):
        if (
            path.suffix.lower() in PHOTOGRAPHS
            and (other := files.setdefault(path.stem, path)) is not path
        ):
            sentence = f"{path.name} lies in {other.parent.name} and in {path.parent.name}"
            raise FedcliError(sentence, "remove one of them")
    return {id: path.relative_to(raw) for id, path in files.items()}


def _fold_file(raw: Path, top: Path, folds: int) -> Path:
    name = f"{folds}_fold_split.csv"
    folders = [raw, top, raw / "official_splits", top / "official_splits"]
    hint = "put official_splits/ of https://github.com/simula/hyper-kvasir there: it has 2 and 5 folds (--folds)"
    return first_of(
        raw,
        [(folder / name).relative_to(raw).as_posix() for folder in folders],
        hint,
        f"has no {name}",
    )


# the synthetic sample

IN_FOLDS = {"hemorrhoids": "hemorroids"}
IN_FOLDERS = {known: name for name, known in SPELLINGS.items() if known not in IN_FOLDS}
EACH = 5  # images of a class


def sample(folder: Path) -> None:
    """23 folders of five images, the table, and the authors' folds, each as they spell the classes."""
    labels = []
    folds: dict[int, list[list]] = {2: [], 5: []}
    names = sorted(IN_FOLDERS.get(name, name) for name in WHERE)
    for known, (organ, kind) in sorted(
        WHERE.items(), key=lambda of: (of[1], IN_FOLDERS.get(of[0], of[0]))
    ):
        name = IN_FOLDERS.get(known, known)
        for k in range(EACH):
            id = str(uuid.UUID(int=derive("hyper-kvasir", name, k) << 64, version=4))
            image = picture(id, names.index(name), tint=0.5 * (organ[0] == "u"))
            save(folder / IMAGES / f"{organ}-tract" / kind / name / f"{id}.jpg", image)
            labels.append([id, f"{organ[:5].title()} GI", name, kind])
            for count, split in folds.items():
                split.append([f"{id}.jpg", IN_FOLDS.get(known, known), k % count])
    table(folder / IMAGES / TABLE, [COLUMNS[0], "Organ", COLUMNS[1], "Classification"], labels)
    for count, split in folds.items():
        table(
            folder / f"official_splits/{count}_fold_split.csv", FOLD_COLUMNS, split, separator=";"
        )


SOURCE = Source(rows, photograph, sample, per_file=True)
