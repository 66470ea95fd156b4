"""Tables that a person gives beside a raw folder: the part that each image belongs to, as somebody
published it or made it, and attributes of images or patients, such as age, sex, race or scanner.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from ... import console
from ...errors import FedcliError, UsageError
from ..pool import Row
from ..sources.own_files import column_notes
from ..sources.own_files.own_table import GROUPS, MISSING, attribute
from ..sources.source import Listing
from ..sources.tables import (
    PARTS,
    columns_found,
    image_column,
    names_of,
    naming_column,
    read_cells,
)

# the first that is there counts
COLUMNS = "split", "fold", "set", "subset", "part", "split-index", "split_index"
PAIR = "train.csv", "test.csv"  # as FedISM's authors publish a split
SPLIT_HINT = "give a CSV with image ids and parts"
ATTRIBUTES_HINT = "give a CSV with a column of image or patient ids and a column for each attribute"
VALIDATION = "val", "valid", "validation"
Records = list[list[str]]  # cells of each line
Skipped = list[tuple[str, str]]  # file and reason
Value = TypeVar("Value")


def by_file(
    rows: list[Row],
    path: Path,
    fold: int | None,
) -> tuple[list[Row], Skipped]:
    """Rows with the split of a CSV, and (file, why) for those it does not name.

    An image is named by its id, its path under --raw, or its file's name with or without suffix.
    The split column holds train, val or test, or fold numbers of which `fold` is the test part. A
    train.csv and a test.csv side by side need no such column. Raises FedcliError, UsageError.
    """
    head, records = _table(path)
    split_column = _split_column(head)
    if split_column is None:
        hint = f"name the column of parts one of: {', '.join(COLUMNS)}"
        raise FedcliError(f"{path} has no split column", f"{hint}; {columns_found(head)}")
    names = [names_of(row) for row in rows]
    id_column = naming_column(path, records, names, other=split_column)
    parts = _parts(path, records, id_column, split_column)
    is_test = _meaning(path, parts, fold)
    _check_names(path, parts, names)
    with_part = []
    skipped = []
    validation = 0
    for row, row_names in zip(rows, names, strict=True):
        part = _first_of(parts, row_names)
        if part is None:
            skipped.append((str(row.source or row.id), f"not in {path.name}"))
            continue
        with_part.append(replace(row, test=is_test[part]))
        validation += part in VALIDATION
    if validation:
        images = console.counted(
            validation,
            "validation image",
            "validation images",
        )
        trains = "trains" if validation == 1 else "train"
        hint = "fedcli partition --val holds some out"
        console.say(f"{images} of {path.name} {trains}; {hint}")
    return with_part, skipped


def _first_of(values: Mapping[str, Value], names: list[str]) -> Value | None:
    """The value of the first of these names that has one."""
    for name in names:
        if name in values:
            return values[name]
    return None


def files(path: Path) -> list[Path]:
    """The file of a split, and the one beside it that holds the other part."""
    if path.name not in PAIR:
        return [path]
    other_name = PAIR[1] if path.name == PAIR[0] else PAIR[0]
    other = path.with_name(other_name)
    if not path.is_file() or not other.is_file():
        return [path]
    head, _ = read_cells(path, SPLIT_HINT, fewest=1)
    if _split_column([name.lower() for name in head]) is not None:
        return [path]
    return [path, other]


def _table(path: Path) -> tuple[list[str], Records]:
    """Header in small letters and lines of a split, of both files where there are two."""
    tables = {file.stem: read_cells(file, SPLIT_HINT, fewest=1) for file in files(path)}
    head, records = tables[path.stem]
    head = [name.lower() for name in head]
    if len(tables) == 1:
        return head, records
    widths = {len(columns) for columns, _ in tables.values()}
    if len(widths) > 1:
        hint = "both need the same columns"
        raise FedcliError(f"{path} and the file next to it have different columns", hint)
    records_with_part = []
    for part, (_, part_records) in tables.items():
        records_with_part += [[*record, part] for record in part_records]
    return [*head, "split"], records_with_part


def _split_column(head: list[str]) -> int | None:
    for name in COLUMNS:
        if name in head:
            return head.index(name)
    return None


def _check_names(
    path: Path,
    parts: dict[str, str],
    names: list[list[str]],
) -> None:
    """Refuse a name that means several images, or an image in two parts; report names that mean
    none."""
    image_counts: Counter[str] = Counter()
    for row_names in names:
        image_counts.update(name for name in row_names if name in parts)
    for name, count in image_counts.items():
        if count > 1:
            raise FedcliError(f"{path}: {name!r} names {count} images", "name each by its path")
    for row_names in names:
        name_by_part = {parts[name]: name for name in row_names if name in parts}
        if len(name_by_part) > 1:
            (part, name), (other_part, other_name) = list(name_by_part.items())[:2]
            both = f"{name} is in {part!r} and, as {other_name}, in {other_part!r}"
            raise FedcliError(f"{path}: {both}", "keep the right row")
    unmatched = len(parts) - len(image_counts)
    if unmatched:
        images = console.counted(unmatched, "image", "images")
        console.say(f"{path.name} names {images} that are not here")


def _parts(
    path: Path,
    records: Records,
    id_column: int,
    split_column: int,
) -> dict[str, str]:
    """Name -> part. Raises FedcliError for an image in two parts."""
    parts: dict[str, str] = {}
    for record in records:
        name = record[id_column]
        part = record[split_column].lower()
        if parts.setdefault(name, part) != part:
            sentence = f"{path}: {name} is in {parts[name]!r} and in {part!r}"
            raise FedcliError(sentence, "keep the right one of the rows")
    return parts


def _meaning(
    path: Path,
    parts: dict[str, str],
    fold: int | None,
) -> dict[str, bool]:
    """Part -> marks of the test part."""
    names = sorted(set(parts.values()))
    if all(name in PARTS for name in names):
        if fold is not None:
            sentence = f"{path.name} has the parts {', '.join(names)}, no folds"
            raise UsageError(sentence, "leave --fold out")
        return PARTS
    for name in names:
        if not name.isdecimal():
            sentence = f"{path} has the unknown part {name!r}"
            raise FedcliError(sentence, "expected train, val and test, or fold numbers")
    numbers = ", ".join(sorted(names, key=int))
    if fold is None or fold not in map(int, names):
        flag = "no --fold is given" if fold is None else f"--fold is {fold}"
        sentence = f"{path.name} has the folds {numbers}, and {flag}"
        raise UsageError(sentence, "--fold names the test part")
    console.say(f"testing fold {fold} of {numbers} ({path.name}'s own numbers)")
    return {name: int(name) == fold for name in names}


def joined(
    listing: Listing,
    path: Path,
    encoding: str = "utf-8-sig",
) -> Listing:
    """A listing whose images have the attributes of a CSV, joined by image or, where more fit, by
    patient id.

    An attribute that the listing has already is replaced; an image that the table does not name has
    it unknown. A column of more than GROUPS values is left out and said. Raises FedcliError.
    """
    head, records = read_cells(path, ATTRIBUTES_HINT, encoding)
    _check_head(path, head)
    key, names = _key(listing.rows, head, records, path)
    records_by_name: dict[str, list[str]] = {}
    for record in records:
        if records_by_name.setdefault(record[key], record) != record:
            sentence = f"{path}: {record[key]!r} has two lines that differ"
            raise FedcliError(sentence, "keep the right one of them")
    matches = [_first_of(records_by_name, row_names) for row_names in names]
    matched = len(matches) - matches.count(None)
    images = f"{matched} of {len(matches)} images"
    console.say(f"{path.name}: joined by {head[key]}, attributes of {images}")
    values: dict[str, list[str]] = {}
    columns: dict[str, list[int]] = {}
    for k, name in enumerate(head):
        if k == key:
            continue
        cells = [record[k] if record else "" for record in matches]
        distinct = {cell for cell in cells if cell.lower() not in MISSING}
        if not distinct or (len(distinct) > GROUPS and name.lower() != "age"):
            column = f"{name!r}, which has {len(distinct)} values"
            console.say(f"{path.name}: left out {column}; an attribute has 1 to {GROUPS}")
            continue
        values[name], columns[name] = attribute(cells, name, path)
        column_notes.warn_of_dates(name, values[name])
    if not values:
        raise FedcliError(f"{path} has no column that can be an attribute", ATTRIBUTES_HINT)
    rows = []
    for i, row in enumerate(listing.rows):
        groups = {name: column[i] for name, column in columns.items()}
        rows.append(replace(row, groups={**row.groups, **groups}))
    return replace(
        listing,
        rows=rows,
        attributes={**listing.attributes, **values},
    )


def _check_head(path: Path, head: list[str]) -> None:
    for name in head:
        if not name or "/" in name or "*" in name or head.count(name) > 1:
            column = f"{name!r} has a slash or star in its name, or is there twice"
            raise FedcliError(f"{path}: the column {column}", ATTRIBUTES_HINT)


def _key(
    rows: list[Row], head: list[str], records: Records, path: Path
) -> tuple[int, list[list[str]]]:
    """The column that names images or patients, and the names that each row has in it."""
    images = [names_of(row) for row in rows]
    patients = [[row.patient] if row.patient else [] for row in rows]
    most_matches = -1
    key = -1
    names: list[list[str]] = []
    for candidates in (images, patients):
        candidate_names = set(chain.from_iterable(candidates))
        column = image_column(records, candidate_names, other=-1)
        if column is None:
            continue
        matches = len({record[column] for record in records} & candidate_names)
        if matches > most_matches:
            most_matches = matches
            key = column
            names = candidates
    if key < 0:
        columns = f"no column of {', '.join(head)} names an image or patient of this dataset"
        raise FedcliError(f"{path}: {columns}", ATTRIBUTES_HINT)
    return key, names
