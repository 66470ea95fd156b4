"""HyperKvasir's labelled images: endoscopy of the gut in 23 classes, from the folders of its zip.

Source: Borgli et al., Scientific Data 7:283, 2020. An image's class is its folder's name;
image-labels.csv, which lies beside the folders, says which images there are and must agree. The
authors' own folds, contiguous blocks of a class, come from 2_fold_split.csv and 5_fold_split.csv of
their repository when these lie beside. No file tells the patient, so images of one examination can
land on both sides of any split.
"""

import re
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...errors import FedcliError
from ...seeds import derive
from ..pool import Row
from ..prepare_options import PrepareOptions
from . import cards
from .division import divided
from .drawing import save_picture, table
from .formats.photographs import PHOTOGRAPHS, photograph, within
from .source import Listing, Source
from .tables import first_of, home_in, read_table

CARD = cards.read("hyper-kvasir")
CLASSES = CARD["classes"]
ATTRIBUTES = CARD["attributes"]
WHERE: dict[str, list[str]] = {}  # class -> organ, kind
for _folder, _names in CARD["folders"].items():
    WHERE |= dict.fromkeys(_names, _folder.split("/"))
SPELLINGS = {  # of the zip's folders, the authors' folds and the papers
    "cecum": "normal-cecum",
    "pylorus": "normal-pylorus",
    "z-line": "normal-z-line",
    "polyps": "polyp",
    "hemorroids": "hemorrhoids",
    "haemorrhoids": "hemorrhoids",
    "barretts-short-segment": "short-segment-barretts",
    "esophagitis-a": "oesophagitis-a",
    "esophagitis-b-d": "oesophagitis-b-d",
}
COLITIS = "ulcerative-colitis-"  # followed by its grade, in some places by "grade-" and that

TABLE = "image-labels.csv"
IMAGES = "labeled-images"
COLUMNS = ["Video file", "Finding"]
FOLD_COLUMNS = ["file-name", "class-name", "split-index"]


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image that lies in the folder of the class it is listed as."""
    top = home_in(raw, IMAGES)
    files = _files(raw, top)
    tables = []
    if (top / TABLE).is_file():
        labels = read_labels(top / TABLE)
        tables.append((top / TABLE).relative_to(raw).as_posix())
    else:
        labels = {name: class_of(file.parent) for name, file in files.items()}
    images = []
    skipped = []
    for name, file in files.items():
        if name not in labels:
            skipped.append((file.as_posix(), f"not listed in {TABLE}"))
    for name, label in sorted(labels.items()):
        if name not in files:
            skipped.append((f"{name}.jpg", f"listed in {TABLE}, in none of the folders"))
        elif label != class_of(files[name].parent):
            skipped.append((files[name].as_posix(), f"listed in {TABLE} as {label}"))
        else:
            images.append(_row(name, label, files[name]))
    if choices.split == "official":
        folds = _fold_file(raw, top, choices.folds)
        images = official(images, folds, choices)
        tables.append(folds.relative_to(raw).as_posix())
    return divided(Listing(images, ATTRIBUTES, None, tables, sorted(skipped)), choices)


def _row(name: str, label: str, file: Path) -> Row:
    groups = {}
    for attribute, value in zip(ATTRIBUTES, WHERE[label], strict=True):
        groups[attribute] = ATTRIBUTES[attribute].index(value)
    return Row(name, CLASSES.index(label), file.as_posix(), groups=groups)


def class_of(name: str | Path) -> str:
    """A class in the card's spelling. Raises FedcliError for what is none."""
    words = Path(name).name.strip().lower()
    label = re.sub(r"[\s_]+", "-", words)
    label = SPELLINGS.get(label, label)
    label = re.sub(rf"^{COLITIS}(?=\d)", f"{COLITIS}grade-", label)
    if label not in WHERE:
        hint = f"known: {', '.join(CLASSES)}"
        raise FedcliError(f"{str(name)!r} is none of HyperKvasir's 23 classes", hint)
    return label


def read_labels(path: Path) -> dict[str, str]:
    """Image id -> class, from image-labels.csv.

    Its "Video file" names an image without suffix.
    """
    table = read_table(path, COLUMNS, dtype=str, keep_default_na=False)
    files, labels = COLUMNS
    return _each_once(path, zip(table[files], table[labels], strict=True))


def read_folds(path: Path) -> dict[str, tuple[str, int]]:
    """Image id -> (class, fold from 0), from the authors' 2_fold_split.csv or 5_fold_split.csv."""
    table = read_table(
        path,
        FOLD_COLUMNS,
        sep=";",
        dtype=str,
        keep_default_na=False,
    )
    files, names, indices = (table[column] for column in FOLD_COLUMNS)
    for text in indices:
        if not text.isdecimal():
            sentence = f"{path} has the split-index {text!r}, expected 0, 1, 2 ..."
            raise FedcliError(sentence, "download the file again")
    labels = _each_once(path, zip(files, names, strict=True))
    folds = {}
    for file, index in zip(files, indices, strict=True):
        image = _id(file)
        folds[image] = labels[image], int(index)
    return folds


def official(rows: list[Row], path: Path, choices: PrepareOptions) -> list[Row]:
    """Mark the authors' fold `choices.fold`, counted from 1, as the test part."""
    folds = read_folds(path)
    marked = []
    for row in rows:
        if row.id not in folds:
            sentence = f"{path} has no fold for {row.id}"
            raise FedcliError(sentence, "use --split folds or --split image")
        name, fold = folds[row.id]
        label = CLASSES[row.label]
        if name != label:
            sentence = f"{row.id} is {label}, but {path} calls it {name}"
            raise FedcliError(sentence, "download both again")
        is_test = fold == choices.fold - 1
        marked.append(replace(row, test=is_test))
    return marked


def _id(file: str) -> str:
    return Path(file).stem if file.lower().endswith(PHOTOGRAPHS) else file


def _each_once(path: Path, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Image id -> class.

    Raises FedcliError for an image with two of them, or a name that leads elsewhere.
    """
    labels: dict[str, str] = {}
    for file, name in pairs:
        if Path(file).name != file:  # checking all of them takes a second
            within(path.parent, file, path)
        image = _id(file)
        label = class_of(name)
        other = labels.setdefault(image, label)
        if other != label:
            sentence = f"{path}: {image} has two classes, {other} and {label}"
            raise FedcliError(sentence, "keep the right one of the rows")
    return labels


def _files(raw: Path, top: Path) -> dict[str, Path]:
    """Image id -> path relative to raw, of all images three folders below top.

    macOS' ._ files are none.
    """
    if not any(top.glob("[!.]*-gi-tract")):
        hint = f"give the folder into which the zip with {IMAGES} was unpacked"
        raise FedcliError(f"{top} has no folder lower-gi-tract or upper-gi-tract", hint)
    files: dict[str, Path] = {}
    for path in sorted(top.glob("[!.]*-gi-tract/[!.]*/[!.]*/[!.]*")):
        if path.suffix.lower() not in PHOTOGRAPHS:
            continue
        if path.stem in files:
            other_folder = files[path.stem].parent.name
            folders = f"{other_folder} and in {path.parent.name}"
            raise FedcliError(f"{path.name} lies in {folders}", "remove one of them")
        files[path.stem] = path.relative_to(raw)
    return files


def _fold_file(raw: Path, top: Path, folds: int) -> Path:
    name = f"{folds}_fold_split.csv"
    places = []
    for folder in (raw, top, raw / "official_splits", top / "official_splits"):
        places.append((folder / name).relative_to(raw).as_posix())
    repository = "https://github.com/simula/hyper-kvasir"
    hint = f"put official_splits/ of {repository} there: it has 2 and 5 folds (--folds)"
    return first_of(raw, places, hint, f"has no {name}")


# the synthetic sample

IN_FOLDS = {"hemorrhoids": "hemorroids"}
IN_FOLDERS = {label: name for name, label in SPELLINGS.items() if label not in IN_FOLDS}
EACH = 5  # images of a class


def sample(folder: Path) -> None:
    """23 folders of five images, the table, and the authors' folds, each in its spelling."""
    labels = []
    folds: dict[int, list[list]] = {2: [], 5: []}
    names = sorted(IN_FOLDERS.get(label, label) for label in WHERE)
    for label in sorted(WHERE, key=_folder_of):
        organ, kind, name = _folder_of(label)
        tint = 0.5 if organ.startswith("u") else 0.0
        for k in range(EACH):
            random_bits = derive("hyper-kvasir", name, k) << 64
            image = str(uuid.UUID(int=random_bits, version=4))
            findings_folder = folder / IMAGES / f"{organ}-tract" / kind
            path = findings_folder / name / f"{image}.jpg"
            save_picture(path, names.index(name), tint=tint)
            tract = f"{organ[:5].title()} GI"
            labels.append([image, tract, name, kind])
            for count, lines in folds.items():
                official_label = IN_FOLDS.get(label, label)
                lines.append([f"{image}.jpg", official_label, k % count])
    files, findings = COLUMNS
    table_head = [files, "Organ", findings, "Classification"]
    table(
        folder / IMAGES / TABLE,
        table_head,
        labels,
    )
    for count, lines in folds.items():
        path = folder / f"official_splits/{count}_fold_split.csv"
        table(path, FOLD_COLUMNS, lines, separator=";")


def _folder_of(label: str) -> tuple[str, str, str]:
    """(organ, kind, name of the folder) of a class."""
    organ, kind = WHERE[label]
    return organ, kind, IN_FOLDERS.get(label, label)


SOURCE = Source(rows, photograph, sample, per_file=True)
