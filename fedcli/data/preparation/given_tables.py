"""Tables that a person gives beside a raw folder: the part that each image belongs to, as somebody published it or made
it, and attributes of images or patients, such as age, sex, race or scanner.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from ... import console
from ...errors import FedcliError, UsageError
from ..pool import Row
from ..sources.own_files import column_notes
from ..sources.own_files.own_table import GROUPS, MISSING, attribute
from ..sources.source import Listing
from ..sources.tables import PARTS, image_column, names_of, naming_column, read_cells

COLUMNS = (
    "split",
    "fold",
    "set",
    "subset",
    "part",
    "split-index",
    "split_index",
)  # the first that is there counts
PAIR = "train.csv", "test.csv"  # as FedISM's authors publish a split
SPLIT_HINT = "give a CSV with image ids and parts"
ATTRIBUTES_HINT = "give a CSV with a column of image or patient ids and a column for each attribute"
VALIDATION = "val", "valid", "validation"


def by_file(
    rows: list[Row], path: Path, fold: int | None
) -> tuple[list[Row], list[tuple[str, str]]]:
    """Rows with the split of a CSV, and (file, why) for those it does not name.

    An image is named by its id, its path under --raw, or its file's name with or without suffix. The split column
    holds train, val or test, or fold numbers of which `fold` is the test part. A train.csv and a test.csv side by side
    need no such column. Raises FedcliError, UsageError.
    """
    head, records = _table(path)
    split_column = _split_column(head)
    if split_column is None:
        hint = f"name the column of parts one of: {', '.join(COLUMNS)}"
        raise FedcliError(f"{path} has no split column, only {', '.join(head)}", hint)
    names = [names_of(row) for row in rows]
    id_column = naming_column(path, records, names, other=split_column)
    parts = _parts(path, records, id_column, split_column)
    test = _meaning(path, parts, fold)
    _check_names(path, parts, names)
    kept, left, validation = [], [], 0
    for row, known in zip(rows, names, strict=True):
        part = next((parts[name] for name in known if name in parts), None)
        if part is None:
            left.append((str(row.source or row.id), f"not in {path.name}"))
            continue
        kept.append(replace(row, test=test[part]))
        validation += part in VALIDATION
    if validation:
        images = console.counted(validation, "validation image", "validation images")
        console.say(
            f"{images} of {path.name} {'trains' if validation == 1 else 'train'}; fedcli partition --val holds some out"
        )
    return kept, left


def files(path: Path) -> list[Path]:
    """The file of a split, and the one beside it that holds the other part."""
    names = {file: path.with_name(file) for file in PAIR}
    if path.name not in PAIR or not all(file.is_file() for file in names.values()):
        return [path]
    if _split_column([name.lower() for name in read_cells(path, SPLIT_HINT)[0]]) is not None:
        return [path]
    return [path, next(file for name, file in names.items() if name != path.name)]


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header in small letters and lines of a split, of both files where there are two."""
    tables = {file.stem: read_cells(file, SPLIT_HINT) for file in files(path)}
    head = [name.lower() for name in tables[path.stem][0]]
    if len(tables) == 1:
        return head, tables[path.stem][1]
    if len({len(columns) for columns, _ in tables.values()}) > 1:
        hint = "both need the same columns"
        raise FedcliError(f"{path} and the file beside it have different columns", hint)
    return [*head, "split"], [
        [*record, part] for part, (_, records) in tables.items() for record in records
    ]


def _split_column(head: list[str]) -> int | None:
    return next((head.index(name) for name in COLUMNS if name in head), None)


def _check_names(path: Path, parts: dict[str, str], names: list[list[str]]) -> None:
    """Refuse a name that means several images, or an image in two parts; report names that mean none."""
    meant = Counter(name for known in names for name in known if name in parts)
    if twice := [name for name, images in meant.items() if images > 1]:
        raise FedcliError(
            f"{path}: {twice[0]!r} names {meant[twice[0]]} images", "name each by its path"
        )
    for known in names:
        name_of = {parts[name]: name for name in known if name in parts}
        if len(name_of) > 1:
            (part, name), (other_part, again) = list(name_of.items())[:2]
            raise FedcliError(
                f"{path}: {name} is in {part!r} and, as {again}, in {other_part!r}",
                "keep the right row",
            )
    if strange := len(parts) - len(meant):
        console.say(
            f"{path.name} names {console.counted(strange, 'image', 'images')} that are not here"
        )


def _parts(
    path: Path, records: list[list[str]], id_column: int, split_column: int
) -> dict[str, str]:
    """Name -> part. Raises FedcliError for an image in two parts."""
    parts: dict[str, str] = {}
    for record in records:
        name, part = record[id_column], record[split_column].lower()
        if parts.setdefault(name, part) != part:
            raise FedcliError(
                f"{path}: {name} is in {parts[name]!r} and in {part!r}",
                "keep the right one of the rows",
            )
    return parts


def _meaning(path: Path, parts: dict[str, str], fold: int | None) -> dict[str, bool]:
    named = sorted(set(parts.values()))
    if all(part in PARTS for part in named):
        if fold is not None:
            raise UsageError(
                f"{path.name} has the parts {', '.join(named)}, no folds", "leave --fold out"
            )
        return PARTS
    if odd := [part for part in named if not part.isdecimal()]:
        raise FedcliError(
            f"{path} has the unknown part {odd[0]!r}",
            "expected train, val and test, or fold numbers",
        )
    numbers = ", ".join(sorted(named, key=int))
    if fold is None or fold not in map(int, named):
        asked = "no --fold is given" if fold is None else f"--fold is {fold}"
        raise UsageError(
            f"{path.name} has the folds {numbers}, and {asked}", "--fold names the test part"
        )
    console.say(f"testing fold {fold} of {numbers} ({path.name}'s own numbers)")
    return {part: int(part) == fold for part in named}


def joined(listing: Listing, path: Path, encoding: str = "utf-8-sig") -> Listing:
    """A listing whose images have the attributes of a CSV, joined by image or, where more fit, by patient id.

    An attribute that the listing has already is replaced; an image that the table does not name has it unknown. A
    column of more than GROUPS values is left out and said. Raises FedcliError.
    """
    head, records = read_cells(path, ATTRIBUTES_HINT, encoding)
    if odd := [
        name for name in head if not name or "/" in name or "*" in name or head.count(name) > 1
    ]:
        what = f"{path}: the column {odd[0]!r} has a slash or star in its name, or is there twice"
        raise FedcliError(what, ATTRIBUTES_HINT)
    key, spelt = _key(listing.rows, head, records, path)
    lines: dict[str, list[str]] = {}
    for record in records:
        if lines.setdefault(record[key], record) != record:
            raise FedcliError(
                f"{path}: {record[key]!r} has two lines that differ", "keep the right one of them"
            )
    matches = [next((lines[name] for name in names if name in lines), None) for names in spelt]
    console.say(
        f"{path.name}: joined by {head[key]}, attributes of {sum(map(bool, matches))} of {len(matches)} images"
    )
    values, columns = dict[str, list[str]](), dict[str, list[int]]()
    for k, name in enumerate(head):
        cells = [line[k] if line else "" for line in matches]
        known = {cell for cell in cells if cell.lower() not in MISSING}
        if k == key:
            continue
        if not known or (len(known) > GROUPS and name.lower() != "age"):
            there = f"{name!r}, which has {len(known)} values"
            console.say(f"{path.name}: left out {there}; an attribute has 1 to {GROUPS}")
            continue
        values[name], columns[name] = attribute(cells, name, path)
        column_notes.warn_of_dates(name, values[name])
    if not values:
        raise FedcliError(f"{path} has no column that can be an attribute", ATTRIBUTES_HINT)
    rows = [
        replace(row, groups={**row.groups, **{name: column[i] for name, column in columns.items()}})
        for i, row in enumerate(listing.rows)
    ]
    return replace(listing, rows=rows, attributes={**listing.attributes, **values})


def _key(
    rows: list[Row], head: list[str], records: list[list[str]], path: Path
) -> tuple[int, list[list[str]]]:
    """The column that names images or patients, and the names that each row has in it."""
    found = []
    for spelt in (
        [names_of(row) for row in rows],
        [[row.patient] if row.patient else [] for row in rows],
    ):
        known = {name for names in spelt for name in names}
        if (column := image_column(records, known, other=-1)) is not None:
            found.append((len({record[column] for record in records} & known), column, spelt))
    if not found:
        what = f"{path}: no column of {', '.join(head)} names an image or patient of this dataset"
        raise FedcliError(what, ATTRIBUTES_HINT)
    _, column, spelt = max(found, key=lambda each: each[0])
    return column, spelt
