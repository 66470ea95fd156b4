"""CSV files, age bands and the split into train and test: what several sources share."""

import csv
import io
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from ...console import counted
from ...errors import FedcliError
from ...io.files import read_text, regular
from ...labels import single_of
from ...seeds import derive
from ..pool import Row
from .source import Choices

if TYPE_CHECKING:
    from pandas import DataFrame

# what a part of a split is called -> whether it tests
PARTS = {"train": False, "training": False, "val": False, "valid": False, "validation": False}
PARTS |= {"test": True, "testing": True}
AGE_BANDS = ["0-39", "40-59", "60+"]
NO_ROWS = "give the table with its header and a line for each image"


def read_table(path: Path, columns: list[str], **options: Any) -> "DataFrame":
    """Read a CSV file. Raises FedcliError naming the file and the column it lacks."""
    import pandas

    try:
        table = pandas.read_csv(regular(path), index_col=False, **options)
    except pandas.errors.EmptyDataError:
        raise FedcliError(f"{path} has no rows", NO_ROWS) from None
    except (pandas.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", "download it again") from None
    if missing := [column for column in columns if column not in table]:
        there = ", ".join(map(str, table.columns))
        raise FedcliError(f"{path} has {lacking(missing)}", f"columns found: {there}")
    if table.empty:
        raise FedcliError(f"{path} has no rows", NO_ROWS)
    return table


def lacking(columns: Sequence[str]) -> str:
    """What a table has not, in words, all at once: "no column 'a'" or "no columns 'a', 'b'"."""
    names = list(map(repr, dict.fromkeys(columns)))
    return f"no column{'s' * (len(names) > 1)} {', '.join(names)}"


def check_cells(path: Path) -> None:
    """Refuse a CSV file with a line of more or fewer cells than its header. Raises FedcliError naming it."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = (line for line in csv.reader(file) if line)
        head = next(lines, [])
        if odd := next((line for line in lines if len(line) != len(head)), None):
            cells = counted(len(odd), "cell", "cells")
            raise FedcliError(f"{path}: {','.join(odd)[:80]!r} has {cells}, not {len(head)}", "correct that line")


def read_sheet(path: Path, columns: list[str]) -> "DataFrame":
    """Read the first sheet of an .xlsx file, all texts. Raises FedcliError naming the file and the column it lacks."""
    import pandas

    try:
        table = pandas.read_excel(regular(path), dtype=str, engine="openpyxl")
    except ImportError:
        raise FedcliError(
            f"reading {path.name} needs the Python module openpyxl",
            f"pip install openpyxl, or save it as CSV beside it: {path.stem}.csv",
        ) from None
    except FedcliError:
        raise
    except Exception as error:  # broken spreadsheets raise BadZipFile, KeyError, ValueError and more
        raise FedcliError(f"{path} is not a readable spreadsheet: {error}", "download it again") from None
    if missing := [column for column in columns if column not in table]:
        names = ", ".join(map(str, table.columns))
        raise FedcliError(f"{path} has {lacking(missing)}", f"columns found: {names}")
    return table


def read_cells(path: Path, hint: str) -> tuple[list[str], list[list[str]]]:
    """Header and other lines of a CSV file that a person made, as texts without spaces around them.

    Commas, semicolons or tabs stand between its cells, whichever divides all lines alike, or else the header most.
    Raises FedcliError with this hint for a file that is no CSV.
    """
    text = read_text(path, hint, "utf-8-sig")
    try:
        head, records = max((_split(text, separator) for separator in ",;\t"), key=_likely)
    except csv.Error as error:
        raise FedcliError(f"{path} is not a readable CSV file: {error}", hint) from None
    if not records:
        raise FedcliError(f"{path} {'has a header and no rows' if head else 'is empty'}", NO_ROWS)
    if odd := next((record for record in records if len(record) != len(head)), None):
        cells = counted(len(odd), "cell", "cells")
        raise FedcliError(f"{path}: {','.join(odd)!r} has {cells}, not {len(head)}", "correct that line")
    return head, records


def _split(text: str, separator: str) -> tuple[list[str], list[list[str]]]:
    """Header and other lines; a separator at the end of every line but the first begins no cell."""
    lines = [[cell.strip() for cell in line] for line in csv.reader(io.StringIO(text), delimiter=separator) if line]
    head, *records = lines or [[]]
    if all(len(record) == len(head) + 1 and not record[-1] for record in records):
        records = [record[:-1] for record in records]
    return head, records


def _likely(table: tuple[list[str], list[list[str]]]) -> tuple[bool, int]:
    """Larger for the right separator: every line has the header's cells, and there are many of them."""
    head, records = table
    return len(head) > 1 and all(len(record) == len(head) for record in records), len(head)


def spellings(image: str) -> list[str]:
    """Ways to write an image's path or id, the whole one first: its file's name and that without suffix too."""
    file = PurePosixPath(image.replace("\\", "/"))
    return list(dict.fromkeys([image, file.name, file.stem]))


def image_column(
    records: list[list[str]], known: Set[str], *, other: int, spelt: Callable[[str], list[str]] = lambda text: [text]
) -> int | None:
    """The column of a table that names the most of the known images, None where none names any.

    other: a column of something else, whose numbers may be names of files too.
    spelt: the ways to read a cell as a name.
    """
    named = [
        sum(not known.isdisjoint(spelt(text)) for text in set(column)) if k != other else 0
        for k, column in enumerate(zip(*records, strict=True))
    ]
    return named.index(max(named)) if max(named) else None


def age_band(years: float) -> str:
    """One of AGE_BANDS, "" for an unknown age (NaN)."""
    return "" if math.isnan(years) else AGE_BANDS[(years >= 40) + (years >= 60)]


def place(value: object, values: list[str]) -> int:
    """Index of an attribute's value, -1 where it is missing or unknown."""
    return values.index(value) if value in values else -1


def sample_rows(rows: list[Row], choices: Choices) -> list[Row]:
    """The images that --sample-images draws by the seed, in their order; all where no number is given.

    stratified draws each class in proportion, the largest remainders first. Raises FedcliError where there are fewer.
    """
    count = choices.sample_images
    if count is None or count == len(rows):
        return rows
    if count > len(rows):
        there = counted(len(rows), "usable image", "usable images")
        raise FedcliError(f"--sample-images {count}, but there are only {there}", "lower it, or leave it out")
    labels = single_of([row.label for row in rows]) if choices.stratified else [0] * len(rows)
    label_of = {row.id: label for row, label in zip(rows, labels, strict=True)}
    sizes = Counter(label_of.values())
    exact = {label: Fraction(count * size, len(rows)) for label, size in sorted(sizes.items())}
    quota = {label: math.floor(share) for label, share in exact.items()}
    for label in sorted(exact, key=lambda label: (quota[label] - exact[label], label))[: count - sum(quota.values())]:
        quota[label] += 1
    kept: set[str] = set()
    for label, wanted in quota.items():
        ids = sorted(id for id, its in label_of.items() if its == label)
        np.random.default_rng(derive("sample-images", choices.seed, label)).shuffle(ids)
        kept.update(ids[:wanted])
    return [row for row in rows if row.id in kept]


def split_rows(rows: list[Row], choices: Choices, *, by_patient: bool) -> list[Row]:
    """Mark the test part: per class, all but floor((1 - test) * n) images, drawn by the seed, of those sampled.

    by_patient keeps the images of a patient or lesion together. One with several classes counts for the rarest of
    them; one that would overfill the test part stays in train, so the floor is met as closely as it can be.
    """
    if not rows:
        return rows
    rows = sample_rows(rows, choices)
    names = np.array([row.patient or row.id if by_patient else row.id for row in rows])
    patients, patient = np.unique(names, return_inverse=True)  # [P], [N]
    images = np.bincount(patient)  # [P]
    labels = single_of([row.label for row in rows])
    rarest_first = np.argsort(np.bincount(labels), kind="stable")  # [C]
    rank = np.full(len(patients), len(rarest_first))  # [P]
    np.minimum.at(rank, patient, np.argsort(rarest_first)[labels])
    test = np.zeros(len(patients), bool)
    for k, label in enumerate(rarest_first):
        members = np.flatnonzero(rank == k)
        np.random.default_rng(derive("split", choices.seed, label)).shuffle(members)
        room = images[members].sum() - math.floor((1 - Fraction(str(choices.test))) * int(images[members].sum()))
        for member in members:
            if images[member] <= room:
                test[member] = True
                room -= images[member]
    return [replace(row, test=bool(test[p])) for row, p in zip(rows, patient, strict=True)]


def fold_rows(rows: list[Row], choices: Choices, *, by_patient: bool) -> list[Row]:
    """Mark fold `choices.fold` of `choices.folds` as the test part: stratified folds of those sampled, by the seed.

    Rarest class first, each patient goes to the fold that has the fewest images of its class, then the fewest in
    all. by_patient keeps the images of a patient or lesion together; one with several classes counts for the rarest of
    them.
    """
    rows = sample_rows(rows, choices)
    labels = single_of([row.label for row in rows])
    rarest_first = [label for label, _ in sorted(Counter(labels).items(), key=lambda n: (n[1], n[0]))]
    members: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        members.setdefault(row.patient or row.id if by_patient else row.id, []).append(i)
    label_of = {name: min((labels[i] for i in its), key=rarest_first.index) for name, its in members.items()}
    total = [0] * choices.folds
    fold_of: dict[str, int] = {}
    for label in rarest_first:
        names = sorted(name for name in members if label_of[name] == label)
        np.random.default_rng(derive("folds", choices.seed, label)).shuffle(names)
        own = [0] * choices.folds
        for name in names:
            fold = min(range(choices.folds), key=lambda k: (own[k], total[k]))
            own[fold] += len(members[name])
            total[fold] += len(members[name])
            fold_of[name] = fold
    test = {i for name, its in members.items() if fold_of[name] == choices.fold - 1 for i in its}
    return [replace(row, test=i in test) for i, row in enumerate(rows)]


def leaking(rows: list[Row]) -> int:
    """Patients or lesions with images on both sides of a split."""
    sides: dict[str, set[bool]] = defaultdict(set)
    for row in rows:
        sides[row.patient].add(row.test)
    return sum(len(both) > 1 for patient, both in sides.items() if patient)
