"""Attributes of images or patients from a table of one's own: age, sex, race, scanner, whatever its columns say."""

from dataclasses import replace
from pathlib import Path

from ... import console
from ...errors import FedcliError
from ..pool import Row
from ..sources.own_files.own_table import GROUPS, MISSING, attribute
from ..sources.source import Listing
from ..sources.tables import image_column, names_of, read_cells

HINT = "give a CSV with a column of image or patient ids and a column for each attribute"


def joined(listing: Listing, path: Path, encoding: str = "utf-8-sig") -> Listing:
    """A listing whose images have the attributes of a CSV, joined by image or, where more fit, by patient id.

    An attribute that the listing has already is replaced; an image that the table does not name has it unknown. A
    column of more than GROUPS values is left out and said. Raises FedcliError.
    """
    head, records = read_cells(path, HINT, encoding)
    if odd := [name for name in head if not name or "/" in name or "*" in name or head.count(name) > 1]:
        raise FedcliError(f"{path}: the column {odd[0]!r} has a slash or star in its name, or is there twice", HINT)
    key, spelt = _key(listing.rows, head, records, path)
    lines = _by_name(records, key, path)
    matches = [next((lines[name] for name in names if name in lines), None) for names in spelt]
    console.say(f"{path.name}: joined by {head[key]}, attributes of {sum(map(bool, matches))} of {len(matches)} images")
    values: dict[str, list[str]] = {}
    columns: dict[str, list[int]] = {}
    for k, name in enumerate(head):
        cells = [line[k] if line else "" for line in matches]
        known = {cell for cell in cells if cell.lower() not in MISSING}
        if k == key:
            continue
        if not known or (len(known) > GROUPS and name.lower() != "age"):
            console.say(
                f"{path.name}: left out {name!r}, which has {len(known)} values; an attribute has 1 to {GROUPS}"
            )
            continue
        values[name], columns[name] = attribute(cells, name, path)
    if not values:
        raise FedcliError(f"{path} has no column that can be an attribute", HINT)
    rows = [
        replace(row, groups={**row.groups, **{name: column[i] for name, column in columns.items()}})
        for i, row in enumerate(listing.rows)
    ]
    return replace(listing, rows=rows, attributes={**listing.attributes, **values})


def _key(rows: list[Row], head: list[str], records: list[list[str]], path: Path) -> tuple[int, list[list[str]]]:
    """The column that names images or patients, and the names that each row has in it."""
    best: tuple[int, int, list[list[str]]] | None = None
    for spelt in ([names_of(row) for row in rows], [[row.patient] if row.patient else [] for row in rows]):
        known = {name for names in spelt for name in names}
        if (column := image_column(records, known, other=-1)) is not None:
            hits = len({record[column] for record in records} & known)
            best = (hits, column, spelt) if best is None or hits > best[0] else best
    if best is None:
        raise FedcliError(f"{path}: no column of {', '.join(head)} names an image or patient of this dataset", HINT)
    return best[1], best[2]


def _by_name(records: list[list[str]], key: int, path: Path) -> dict[str, list[str]]:
    """Id -> line. Raises FedcliError for an id with two unlike lines."""
    lines: dict[str, list[str]] = {}
    for record in records:
        if lines.setdefault(record[key], record) != record:
            raise FedcliError(f"{path}: {record[key]!r} has two lines that differ", "keep the right one of them")
    return lines
