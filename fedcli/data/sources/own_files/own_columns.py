"""The columns of a table of one's own: classes, or several labels per image, as A|B or as a column for each; whom an
image shows; and words in them that mean another word.

Of columns of labels an empty cell is 0, a finding that nobody mentions, and -1 is uncertain, as in the tables of
CheXpert (Irvin et al., AAAI 2019, arXiv 1901.07031), whose U-Zeros, U-Ones and U-Ignore are uncertain=zero, one and
ignore.
"""

import codecs
import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from .... import console
from ....errors import FedcliError, UsageError, nearest
from ....labels import NO, UNKNOWN, YES
from ....natural import by_size
from ..source import Listing
from ..tables import DataFrame, number
from . import label_lists

SEXES = {"f": "female", "female": "female", "w": "female", "m": "male", "male": "male"}
MAP_HINT = "write for example --map sex:weiblich=female,W=female"


def of_attributes(own: Mapping[str, str]) -> dict[str, str]:
    """Attribute -> its column: groups and hospitals by their columns' names, then age and sex. Raises UsageError."""
    plain = [*words(own["group"]), *filter(None, [own["site"]])]
    named = {name: own[name] for name in ("age", "sex") if own[name]}
    for name, column in named.items():
        if name in plain and name != column:
            raise UsageError(
                f"--group {name} and --{name} {column} would both be called {name}",
                "give one of them",
            )
    return {column: column for column in plain if column not in named.values()} | named


def of_people(own: Mapping[str, str]) -> list[str]:
    """The columns of groups, hospitals and patients."""
    return list(dict.fromkeys([*of_attributes(own).values(), *filter(None, [own["patient"]])]))


def renamed(table: DataFrame, own: Mapping[str, str]) -> DataFrame:
    """The table with each cell of a class or group that --map names as the word it stands for. Raises UsageError."""
    labels, attributes = columns(own), of_attributes(own)
    for name, words in _mapping(own["map"]).items():
        column = attributes.get(name, name)
        if column not in [*labels, *attributes.values()]:
            hint = nearest(name, [*labels, *attributes])
            raise UsageError(f"--map {name}: no such column of classes or groups", hint)
        cells = table[column].tolist()
        lists = _lists(cells) if column in labels and several(own) else [[cell] for cell in cells]
        found = {part.strip() for part in chain.from_iterable(lists)}
        if odd := [word for word in words if word not in found]:
            hint = nearest(odd[0], found - {""})[:200]
            console.warn(f"--map {name}: no image has {odd[0]!r}; {hint}")
        table = table.assign(**{column: [_translated(parts, words) for parts in lists]})
    return table


def _lists(cells: Sequence[str]) -> list[list[str]]:
    """The labels in each cell of a column; a cell without a word is one empty label."""
    labels = label_lists.labels_of(cells)
    return [label_lists.parts(cell, labels) for cell in cells]


def _translated(parts: Sequence[str], words: Mapping[str, str]) -> str:
    """A cell with its words translated; an empty list of labels stays one."""
    return "|".join(words.get(part.strip(), part) for part in parts) if parts else NO_FINDING[0]


def _mapping(text: str) -> dict[str, dict[str, str]]:
    """Of "sex:weiblich=female,W=female;label:Nävus=nevus". Raises UsageError."""
    mapping: dict[str, dict[str, str]] = {}
    for part in filter(str.strip, text.split(";")):
        column, colon, named = part.partition(":")
        pairs = [word.partition("=") for word in words(named)]
        if (
            not colon
            or not pairs
            or not all(equals and old.strip() and new.strip() for old, equals, new in pairs)
        ):
            raise UsageError(f"--map is {part!r}", MAP_HINT)
        mapping.setdefault(column.strip(), {}).update(
            {old.strip(): new.strip() for old, _, new in pairs}
        )
    return mapping


def encoding(own: Mapping[str, str]) -> str:
    """The table's encoding. Raises UsageError for one that Python does not know."""
    try:
        known = codecs.lookup(own["encoding"] or "utf-8").name
        "".encode(known)  # refuses what is no encoding of text
    except LookupError:
        hint = "known are for example cp1252, latin-1, mac-roman and utf-8"
        raise UsageError(f"unknown encoding {own['encoding']!r}", hint) from None
    return "utf-8-sig" if known == "utf-8" else known


def with_points(column: list[str]) -> list[str]:
    """Numbers of which some have a decimal comma with points; any other column as it is."""
    points = [cell.replace(",", ".", 1) for cell in column]
    changed = [new for cell, new in zip(column, points, strict=True) if new != cell]
    return points if changed and all_numbers(changed) else column


NO_FINDING = "no finding", "none"  # a cell that says that an image has no label
CELLS = {"0": NO, "1": YES, "": NO}
UNCERTAIN = {"zero": NO, "one": YES, "ignore": UNKNOWN}
HINT = "a label's column holds 1, 0, -1 where it is uncertain, or nothing"
Labels = tuple[list[tuple[int, ...]], list[str]]  # of each image, and the names of the labels


def several(own: Mapping[str, str]) -> bool:
    """Tell whether images have several labels, as the options of the dataset say. Raises UsageError."""
    if own["multi-label"] not in ("", "yes"):
        raise UsageError(
            f"multi-label is {own['multi-label']!r}",
            "write --multi-label, or --set multi-label=yes",
        )
    if own["uncertain"] not in ("", *UNCERTAIN):
        raise UsageError(f"uncertain is {own['uncertain']!r}", nearest(own["uncertain"], UNCERTAIN))
    if own["uncertain"] and not own["multi-label"]:
        raise UsageError(
            "uncertain is about a column for each of several labels", "add --multi-label"
        )
    return own["multi-label"] == "yes"


def columns(own: Mapping[str, str]) -> list[str]:
    """The columns that hold the labels, or the one that holds the class."""
    if not several(own):
        return [own["label-column"]]
    names = words(own["label-column"])
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"the label column {twice!r} is given twice", "give each column once")
    return names


def of_lists(cells: Sequence[str], path: Path) -> Labels:
    """Labels of a column such as "Effusion|Mass", see label_lists.py. Raises FedcliError."""
    if (values := {cell.removesuffix(".0") for cell in cells} - {""}) and values <= {*CELLS, "-1"}:
        hint = (
            "give --label-column for each of several columns, or names with | between them in one"
        )
        raise FedcliError(
            f"{path}: the one column of labels holds only {', '.join(sorted(values))}", hint
        )
    lists = [_without_no_finding(parts) for parts in _lists(cells)]
    names = ordered(set(chain.from_iterable(lists)))
    for cell, parts in zip(cells, lists, strict=True):
        if odd := next((name for name in parts if name.lower() in ("", *NO_FINDING)), None):
            raise FedcliError(
                f"{path}: the labels {cell[:80]!r} hold {odd!r} beside others", "correct the table"
            )
        if "" in parts or len(set(parts)) < len(parts):
            raise FedcliError(
                f"{path}: the labels {cell[:80]!r} hold one twice, or an empty one",
                "correct the table",
            )
    _warn_of_doubtful(names)
    return _checked([_as_numbers(parts, names) for parts in lists], names, path)


def _as_numbers(parts: Collection[str], names: Sequence[str]) -> tuple[int, ...]:
    """1 for each of these labels that an image has, else 0."""
    return tuple(int(name in parts) for name in names)


def _without_no_finding(parts: list[str]) -> list[str]:
    return [] if len(parts) == 1 and parts[0].lower() in NO_FINDING else parts


def _warn_of_doubtful(names: Sequence[str]) -> None:
    """A warning where a label may be a list of which one part is named nowhere else."""
    for name in names:
        words = label_lists.doubtful(name, set(names))
        missing = [word for word in words if word not in names]
        if missing:
            sentence = f"{name!r} counts as one label, since no other cell names {missing[0]!r}"
            console.warn(f"{sentence}; if it is a list, separate its labels by |")
            return


def of_columns(
    table: Mapping[str, Sequence[str]], names: Sequence[str], uncertain: str, path: Path
) -> Labels:
    """Labels of a column for each. Raises FedcliError for a cell that is none of HINT's."""
    known, marked = CELLS | ({"-1": UNCERTAIN[uncertain]} if uncertain else {}), 0
    read = []
    for name in names:
        cells = [cell.removesuffix(".0") for cell in table[name]]
        marked += cells.count("-1")
        if odd := next((cell for cell in cells if cell not in known and cell != "-1"), None):
            raise FedcliError(f"{path}: the column {name!r} holds {odd[:40]!r}", HINT)
        read.append([known.get(cell, UNKNOWN) for cell in cells])
    if marked and not uncertain:
        hint = "--set uncertain=zero, one, or ignore, which leaves them out of loss and scores"
        raise FedcliError(f"{path}: {marked} labels are -1, which means uncertain", hint)
    return _checked(list(zip(*read, strict=True)), list(names), path)


def of_own_columns(
    table: Mapping[str, Sequence[str]], names: Sequence[str], uncertain: str, path: Path
) -> Labels:
    """Labels of a person's own table; those that no image has are warned of. Raises FedcliError where all are."""
    labels, known = of_columns(table, names, uncertain, path)
    absent = [
        name
        for name, column in zip(known, zip(*labels, strict=True), strict=True)
        if YES not in column
    ]
    if len(absent) == len(known):
        raise FedcliError(
            f"{path}: no image has any of the {len(known)} labels",
            "are these the columns of labels?",
        )
    if absent:
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        console.warn(f"{path.name}: no image has {shown}")
    return labels, known


def _checked(labels: list[tuple[int, ...]], names: list[str], path: Path) -> Labels:
    if len(names) < 2:
        hint = "separate them by |, or give --label-column for each of several columns"
        raise FedcliError(
            f"{path} has {'one label' if names else 'no label'}, where several were asked for", hint
        )
    return labels, names


# names


def words(text: str) -> list[str]:
    """The words of an option, between commas; one that holds a comma stands in quotes."""
    return [
        word.strip() for word in next(csv.reader([text], skipinitialspace=True), []) if word.strip()
    ]


def ordered(values: Collection[str]) -> list[str]:
    """Numbers by size, other words by letters, with numbers in them by size: 3-9 before 10-19."""
    if all_numbers(values):
        return sorted(values, key=lambda value: (number(value) or 0.0, value))
    return sorted(values, key=by_size)


def all_numbers(values: Collection[str]) -> bool:
    return all(number(value) is not None for value in values)


def agreed(listing: Listing, own: Mapping[str, str]) -> Listing:
    """The listing with all classes and values that a federation has agreed on, where one hospital does not show them
    all, in the order that they have where all are there.

    Raises FedcliError for an image of another class or value, UsageError.
    """
    classes, values = words(own.get("classes", "")), _values(own.get("values", ""))
    if odd := [name for name in values if name not in listing.attributes]:
        raise UsageError(
            f"values names {odd[0]!r}, which is no group", nearest(odd[0], listing.attributes)
        )
    if classes and listing.task:
        raise UsageError(
            "classes is about one label per image",
            "name the columns of labels, which all sites have",
        )
    rows, attributes = listing.rows, dict(listing.attributes)
    if classes:
        names, place = _places(listing.classes or [], classes, "class")
        listing, rows = (
            replace(listing, classes=names),
            [replace(row, label=place[row.label]) for row in rows],
        )
    for name, named in values.items():
        attributes[name], place = _places(attributes[name], named, name)
        there = {**place, -1: -1}  # unknown stays so
        rows = [replace(row, groups={**row.groups, name: there[row.groups[name]]}) for row in rows]
    return replace(listing, rows=rows, attributes=attributes)


def _places(found: list[str], named: list[str], what: str) -> tuple[list[str], dict[Any, int]]:
    """All names, and the place of each found one among them. Raises FedcliError for one that is not among them."""
    if odd := [name for name in found if name not in named]:
        raise FedcliError(
            f"the {what} {odd[0]!r} of some images is none of {', '.join(named)}",
            nearest(odd[0], named),
        )
    every = ordered(set(named))
    return every, {place: every.index(name) for place, name in enumerate(found)}


def _values(text: str) -> dict[str, list[str]]:
    """Of "sex=female,male;race=asian,black,white". Raises UsageError."""
    values = {}
    for part in filter(str.strip, text.split(";")):
        name, _, names = part.partition("=")
        if not (named := words(names)):
            hint = "write for example --set 'values=sex=female,male;race=black,white'"
            raise UsageError(f"values has {part!r}", hint)
        values[name.strip()] = named
    return values
