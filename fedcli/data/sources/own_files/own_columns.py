"""The columns of a table of one's own.

They hold classes, or several labels per image, as A|B or as a column for each; whom an image shows;
and words that mean another word.

Of columns of labels an empty cell is 0, a finding that nobody mentions, and -1 is uncertain, as in
the tables of CheXpert (Irvin et al., AAAI 2019, arXiv 1901.07031), whose U-Zeros, U-Ones and
U-Ignore are uncertain=zero, one and ignore.
"""

import codecs
import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .... import console
from ....errors import FedcliError, UsageError, nearest
from ....labels import NO, UNKNOWN, YES
from ....natural import by_size
from ..source import Listing
from ..tables import DataFrame, number
from . import label_lists

SEXES = {
    "f": "female",
    "female": "female",
    "w": "female",
    "m": "male",
    "male": "male",
}
MAP_HINT = "write for example --map sex:weiblich=female,W=female"
CORRECT = "correct the table"

Options = Mapping[str, str]  # those of the dataset "images"


def of_attributes(options: Options) -> dict[str, str]:
    """Attribute -> its column: groups and hospitals by their columns' names, then age and sex.

    Raises UsageError.
    """
    groups = words(options["group"])
    if options["site"]:
        groups.append(options["site"])
    people = {name: options[name] for name in ("age", "sex") if options[name]}
    for name, column in people.items():
        if name in groups and name != column:
            sentence = f"--group {name} and --{name} {column} would both be called {name}"
            raise UsageError(sentence, "give one of them")
    attributes = {column: column for column in groups if column not in people.values()}
    return attributes | people


def of_people(options: Options) -> list[str]:
    """The columns of groups, hospitals and patients."""
    columns = list(of_attributes(options).values())
    if options["patient"]:
        columns.append(options["patient"])
    return list(dict.fromkeys(columns))


def renamed(table: DataFrame, options: Options) -> DataFrame:
    """The table with each cell of a class or group that --map names as the word it stands for.

    Raises UsageError.
    """
    labels = columns(options)
    attributes = of_attributes(options)
    for name, mapping in _mapping(options["map"]).items():
        column = attributes.get(name, name)
        if column not in [*labels, *attributes.values()]:
            hint = nearest(name, [*labels, *attributes])
            raise UsageError(f"--map {name}: no such column of classes or groups", hint)
        cells = table[column].tolist()
        if column in labels and several(options):
            lists = _lists(cells)
        else:
            lists = [[cell] for cell in cells]
        _warn_of_absent(name, mapping, lists)
        translated = [_translated(parts, mapping) for parts in lists]
        table = table.assign(**{column: translated})
    return table


def _warn_of_absent(
    name: str,
    mapping: Mapping[str, str],
    lists: Sequence[Sequence[str]],
) -> None:
    """A warning where --map names a word that no image has."""
    used = set[str]()
    for parts in lists:
        used.update(part.strip() for part in parts)
    for word in mapping:
        if word not in used:
            hint = nearest(word, used - {""})[:200]
            console.warn(f"--map {name}: no image has {word!r}; {hint}")
            return


def _lists(cells: Sequence[str]) -> list[list[str]]:
    """The labels in each cell of a column; a cell without a word is one empty label."""
    labels = label_lists.labels_of(cells)
    return [label_lists.parts(cell, labels) for cell in cells]


def _translated(parts: Sequence[str], mapping: Mapping[str, str]) -> str:
    """A cell with its words translated; an empty list of labels stays one."""
    if not parts:
        return NO_FINDING[0]
    return "|".join(mapping.get(part.strip(), part) for part in parts)


def _mapping(text: str) -> dict[str, dict[str, str]]:
    """The words by column of "sex:weiblich=female,W=female;label:Nävus=nevus".

    Raises UsageError.
    """
    mapping: dict[str, dict[str, str]] = {}
    for part in _parts(text):
        column, _, pairs = part.partition(":")
        translations = mapping.setdefault(column.strip(), {})
        if not words(pairs):
            raise UsageError(f"--map is {part!r}", MAP_HINT)
        for pair in words(pairs):
            word, _, translation = (side.strip() for side in pair.partition("="))
            if not word or not translation:
                raise UsageError(f"--map is {part!r}", MAP_HINT)
            translations[word] = translation
    return mapping


def _parts(text: str) -> Iterator[str]:
    """The parts of an option, between semicolons."""
    for part in text.split(";"):
        if part.strip():
            yield part


def encoding(options: Options) -> str:
    """The table's encoding. Raises UsageError for one that Python does not know."""
    word = options["encoding"]
    try:
        name = codecs.lookup(word or "utf-8").name
        "".encode(name)  # refuses what is no encoding of text
    except (LookupError, UnicodeError):
        hint = "known are for example cp1252, latin-1, mac-roman and utf-8"
        raise UsageError(f"unknown encoding {word!r}", hint) from None
    return "utf-8-sig" if name == "utf-8" else name


def with_points(column: list[str]) -> list[str]:
    """Numbers of which some have a decimal comma with points; any other column as it is."""
    points = [cell.replace(",", ".", 1) for cell in column]
    pairs = zip(column, points, strict=True)
    changed = [point for cell, point in pairs if point != cell]
    return points if changed and all_numbers(changed) else column


NO_FINDING = "no finding", "none"  # a cell that says that an image has no label
CELLS = {"0": NO, "1": YES, "": NO}
UNCERTAIN = {"zero": NO, "one": YES, "ignore": UNKNOWN}
HINT = "the column of a label contains 1, 0, -1 for uncertain, or nothing"
Labels = tuple[list[tuple[int, ...]], list[str]]  # of each image, and the names of the labels


def several(options: Options) -> bool:
    """Tell whether images have several labels, as the options of the dataset say.

    Raises UsageError.
    """
    multi_label = options["multi-label"]
    uncertain = options["uncertain"]
    if multi_label not in ("", "yes"):
        hint = "write --multi-label, or --set multi-label=yes"
        raise UsageError(f"multi-label is {multi_label!r}", hint)
    if uncertain not in ("", *UNCERTAIN):
        raise UsageError(f"uncertain is {uncertain!r}", nearest(uncertain, UNCERTAIN))
    if uncertain and not multi_label:
        sentence = "uncertain is about a column for each of several labels"
        raise UsageError(sentence, "add --multi-label")
    return multi_label == "yes"


def columns(options: Options) -> list[str]:
    """The columns that hold the labels, or the one that holds the class."""
    if not several(options):
        return [options["label-column"]]
    names = words(options["label-column"])
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the label column {name!r} is given twice", "give each column once")
    return names


def of_lists(cells: Sequence[str], path: Path) -> Labels:
    """Labels of a column such as "Effusion|Mass", see label_lists.py. Raises FedcliError."""
    _check_no_codes(cells, path)
    lists = _lists(cells)
    names = set()
    for i, parts in enumerate(lists):
        if len(parts) == 1 and parts[0].lower() in NO_FINDING:
            lists[i] = []
        names.update(lists[i])
    for cell, parts in zip(cells, lists, strict=True):
        _check_list(cell, parts, path)
    labels = ordered(names)
    _warn_of_doubtful(labels)
    numbers = []
    for parts in lists:
        indicators = tuple(int(label in parts) for label in labels)
        numbers.append(indicators)
    return _checked(numbers, labels, path)


def _check_no_codes(cells: Sequence[str], path: Path) -> None:
    """Refuse a column that holds 1 and 0, and names nothing."""
    values = {cell.removesuffix(".0") for cell in cells} - {""}
    if values and values <= {*CELLS, "-1"}:
        hint = (
            "give --label-column for each of several columns, or names with | between them in one"
        )
        codes = ", ".join(sorted(values))
        raise FedcliError(f"{path}: the one column of labels holds only {codes}", hint)


def _check_list(cell: str, parts: Sequence[str], path: Path) -> None:
    """Refuse a cell that contradicts itself."""
    labels = f"{path}: the labels {cell[:80]!r}"
    odd = [name for name in parts if name.lower() in ("", *NO_FINDING)]
    if odd and odd[0]:
        raise FedcliError(f"{labels} contain {odd[0]!r} among others", CORRECT)
    if odd or len(set(parts)) < len(parts):
        raise FedcliError(f"{labels} hold one twice, or an empty one", CORRECT)


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
    table: Mapping[str, Sequence[str]],
    names: Sequence[str],
    uncertain: str,
    path: Path,
) -> Labels:
    """Labels of a column for each. Raises FedcliError for a cell that is none of HINT's."""
    codes = CELLS | {"-1": UNCERTAIN[uncertain] if uncertain else UNKNOWN}
    uncertain_count = 0
    columns = []
    for name in names:
        column = []
        for cell in table[name]:
            code = cell.removesuffix(".0")
            if code not in codes:
                start_of_code = code[:40]
                raise FedcliError(f"{path}: the column {name!r} holds {start_of_code!r}", HINT)
            uncertain_count += code == "-1"
            column.append(codes[code])
        columns.append(column)
    if uncertain_count and not uncertain:
        hint = "--set uncertain=zero, one, or ignore, which leaves them out of loss and scores"
        raise FedcliError(f"{path}: {uncertain_count} labels are -1, which means uncertain", hint)
    labels = list(zip(*columns, strict=True))
    return _checked(labels, list(names), path)


def of_own_columns(
    table: Mapping[str, Sequence[str]],
    names: Sequence[str],
    uncertain: str,
    path: Path,
) -> Labels:
    """Labels of a person's own table, with a warning about those that no image has.

    Raises FedcliError where no image has any.
    """
    labels, names = of_columns(table, names, uncertain, path)
    absent = []
    for name, column in zip(names, zip(*labels, strict=True), strict=True):
        if YES not in column:
            absent.append(name)
    if len(absent) == len(names):
        sentence = f"{path}: no image has any of the {len(names)} labels"
        raise FedcliError(sentence, "are these the columns of labels?")
    if absent:
        examples = ", ".join(absent[:5])
        if len(absent) > 5:
            examples += f" and {len(absent) - 5} more"
        console.warn(f"{path.name}: no image has {examples}")
    return labels, names


def _checked(
    labels: list[tuple[int, ...]],
    names: list[str],
    path: Path,
) -> Labels:
    if len(names) < 2:
        count = "one label" if names else "no label"
        hint = "separate them by |, or give --label-column for each of several columns"
        raise FedcliError(f"{path} has {count}, where several were asked for", hint)
    return labels, names


# names


def words(text: str) -> list[str]:
    """The words of an option, between commas; one that holds a comma stands in quotes."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    return [cell.strip() for cell in cells if cell.strip()]


def ordered(values: Collection[str]) -> list[str]:
    """Numbers by size, other words by letters, with numbers in them by size: 3-9 before 10-19."""
    if all_numbers(values):
        return sorted(values, key=lambda value: (float(value), value))
    return sorted(values, key=by_size)


def all_numbers(values: Collection[str]) -> bool:
    return all(number(value) is not None for value in values)


def agreed(listing: Listing, options: Options) -> Listing:
    """The listing with all classes and values that a federation has agreed on.

    One hospital may not show them all; they come in the order that they have where all are there.
    Raises FedcliError for an image of another class or value, UsageError.
    """
    classes = words(options.get("classes", ""))
    values = _values(options.get("values", ""))
    for name in values:
        if name not in listing.attributes:
            hint = nearest(name, listing.attributes)
            raise UsageError(f"values names {name!r}, which is no group", hint)
    if classes and listing.task:
        hint = "name the columns of labels, which all sites have"
        raise UsageError("classes is about one label per image", hint)
    rows = listing.rows
    if classes:
        names, positions = _positions(listing.classes or [], classes, "class")
        listing = replace(listing, classes=names)
        rows = [replace(row, label=positions[int(row.label)]) for row in rows]
    attributes = dict(listing.attributes)
    for attribute, names in values.items():
        attributes[attribute], positions = _positions(
            attributes[attribute],
            names,
            attribute,
        )
        codes = dict(enumerate(positions)) | {-1: -1}  # unknown stays so
        renumbered = []
        for row in rows:
            code = codes[row.groups[attribute]]
            renumbered.append(replace(row, groups={**row.groups, attribute: code}))
        rows = renumbered
    return replace(listing, rows=rows, attributes=attributes)


def _positions(
    names: Sequence[str], allowed: Sequence[str], noun: str
) -> tuple[list[str], list[int]]:
    """All allowed names in order, and the position of each of these names among them.

    Raises FedcliError for one that is not among them.
    """
    for name in names:
        if name not in allowed:
            allowed_text = ", ".join(allowed)
            sentence = f"the {noun} {name!r} of some images is none of {allowed_text}"
            raise FedcliError(sentence, nearest(name, allowed))
    in_order = ordered(set(allowed))
    return in_order, [in_order.index(name) for name in names]


def _values(text: str) -> dict[str, list[str]]:
    """The values by attribute of "sex=female,male;race=asian,black,white". Raises UsageError."""
    values = {}
    for part in _parts(text):
        name, _, list_of_values = part.partition("=")
        names = words(list_of_values)
        if not names:
            hint = "write for example --set 'values=sex=female,male;race=black,white'"
            raise UsageError(f"values has {part!r}", hint)
        values[name.strip()] = names
    return values
