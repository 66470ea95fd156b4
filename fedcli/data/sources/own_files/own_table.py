"""The table of one's own images: a CSV that names each file and its class.

It may also name groups, hospital and patient.
"""

import math
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from .... import console
from ....errors import FedcliError, UsageError
from ....labels import MULTI_LABEL, Label
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..formats import dicom_header, workbooks
from ..formats.packed import AT
from ..formats.photographs import within
from ..source import Listing
from ..tables import AGE_BANDS, DataFrame, Series, age_band, lacking, number, place, read_cells
from . import column_notes, label_lists, own_columns
from .own_columns import SEXES, ordered

INDEX = "DICOMDIR"  # what a disc of DICOM files lists them in
NO_LABEL = "", "na", "n/a", "nan"  # "none" and "unknown" may well be classes
MISSING = *NO_LABEL, "none", "null", "unknown", "?", "-"
WHOLE = re.compile(r"(-?\d+)\.0*")
OLDEST = 120  # years
NAMING = "--image-column, --label-column, --group, --age, --sex, --site and --patient name columns"
IN_PLACE_OF = {  # a column that the table lacks and perhaps nobody named
    "image": "name the column of files with --image-column; ",
    "label": "name the column of classes with --label-column; ",
}
NO_AGE = {"group", "band", "bin", "class", "category", "cat", "range"}  # of age: no years
ALONE = 8  # images of as many classes that may be a trial
MANY_NUMBERS = 20  # whole numbers as classes, from which on they may be measurements
LONGEST = 100  # characters of a class, a group, a hospital or a patient
GROUPS = 50  # more values than this are no groups but, say, names
CLASSES = 1000  # likewise of classes
KEEP_ONE = "keep the right one of the rows"

Places = Mapping[str, set[str]]  # a spelling that may mean a file -> the files that it may mean


def from_table(
    raw: Path,
    name: str,
    files: list[str],
    others: list[str],
    choices: PrepareOptions,
) -> Listing:
    """The images of a table that are there, as a listing.

    name: of the table. files: the images. others: files that are none.
    """
    options = choices.own
    if choices.split == "folder":
        sentence = f"--split folder is for a folder per class, but {raw} has {name}"
        raise UsageError(sentence, "use --split-file")
    labels = own_columns.columns(options)
    people = own_columns.of_people(options)
    image_column = options["image-column"]
    encoding = own_columns.encoding(options)
    table = _read(
        raw / name,
        [image_column, *labels, *people],
        people,
        encoding,
    )
    table = own_columns.renamed(table, options)
    images = table[image_column]
    columns = list(dict.fromkeys([*labels, *people]))
    located = _located(raw, name, images.tolist(), files)
    table = table[columns].assign(**{AT: located})
    absent = table[AT] == ""
    unlabelled = ~absent & without_label(table, labels)
    other_places = _places(others)
    skipped = {(image, _why_absent(image, name, other_places)) for image in images[absent]}
    unlabelled_files = table[AT][unlabelled]
    skipped |= {(file, f"has no {labels[0]} in {name}") for file in unlabelled_files}
    table = table[~absent & ~unlabelled]
    _note_repeated(name, int(table.duplicated().sum()))
    table = table.drop_duplicates()
    _check_once(raw / name, table, columns)
    skipped_files = {file for file, _ in skipped}
    unlisted = set(files) - set(table[AT]) - skipped_files
    if unlisted:
        console.say(f"{len(unlisted)} of {len(files)} images in {raw} are not in {name}")
    listing = Listing([], {}, None)  # whoever reads it says that there is no image, and why
    if not table.empty:
        listing = described(table.sort_values(AT), raw / name, choices)
    return replace(listing, tables=[name], skipped=sorted(skipped))


def without_label(table: DataFrame, labels: Sequence[str]) -> Series:
    """Tell of each row whether the one column of classes says nothing about it.

    False where several columns hold the labels.
    """
    words = table[labels[0]].str.lower()
    return words.isin(NO_LABEL) & (len(labels) == 1)


def _note_repeated(name: str, count: int) -> None:
    if count == 1:
        console.say(f"{name}: 1 row repeats another and counts once")
    elif count:
        console.say(f"{name}: {count} rows repeat others and count once")


def described(table: DataFrame, path: Path, choices: PrepareOptions) -> Listing:
    """The images of a table whose column AT says where each is, as a listing.

    path: of the table, for sentences.
    """
    options = choices.own
    task = MULTI_LABEL if own_columns.several(options) else None
    labels, classes = _labels(table, path, options)
    values_by_attribute = {}
    codes_by_attribute = {}
    for name, column in own_columns.of_attributes(options).items():
        cells = _without_unknown(table[column].tolist(), options["unknown"])
        kind = name if options.get(name) == column else ""
        values, codes = attribute(cells, column, path, kind)
        values_by_attribute[name] = values
        codes_by_attribute[name] = codes
        column_notes.note_all(name, column, values)
    patients = _patients(table, path, options)
    rows = []
    for i, file in enumerate(table[AT]):
        groups = {name: codes[i] for name, codes in codes_by_attribute.items()}
        rows.append(Row(file, labels[i], file, False, groups, patients[i]))
    patient = options["patient"] if any(patients) else None
    sites = options["site"] or None
    return Listing(
        rows,
        values_by_attribute,
        patient,
        classes=classes,
        sites=sites,
        task=task,
    )


def _patients(
    table: DataFrame,
    path: Path,
    options: Mapping[str, str],
) -> list[str]:
    """The patient of each image, "" where it is unknown."""
    column = options["patient"]
    if not column:
        return [""] * len(table)
    patients = _spelt_alike(table[column].tolist(), column)
    _check_length(patients, column, path)
    patients = ["" if name.lower() in MISSING else name for name in patients]
    return _without_unknown(patients, options["unknown"])


def _labels(
    table: DataFrame, path: Path, options: Mapping[str, str]
) -> tuple[Sequence[Label], list[str]]:
    """The class of each image, or its labels, and the names of all."""
    names = own_columns.columns(options)
    column = names[0]
    cells = _spelt_alike(table[column].tolist(), column)
    if not own_columns.several(options):
        classes = classes_of(cells, path)
        column_notes.warn_of_dates(column, classes)
        _note_similar(column, classes)
        return [classes.index(cell) for cell in cells], classes
    if len(names) == 1:
        labels, classes = own_columns.of_lists(cells, path)
    else:
        labels, classes = own_columns.of_own_columns(
            table,
            names,
            options["uncertain"],
            path,
        )
    _check_length(classes, "the label", path)
    _note_similar("the labels", classes)
    return labels, classes


def table_name(raw: Path, named_table: str, files: Sequence[str]) -> str | None:
    """The table, relative to raw: the one that --table names, else the only CSV or workbook.

    None where there is none. Workbooks next to folders of classes are taken only where --table
    names one. Raises FedcliError.
    files: the images.
    """
    if named_table:
        name = _within_raw(raw, named_table)
        if not within(raw, name, "--table").is_file():
            hint = "--table names a CSV file or Excel workbook in --raw, relative to it"
            raise FedcliError(f"no such table: {raw / name}", hint)
        return Path(name).as_posix()
    tables = _names(raw, [".csv"])
    if len(tables) > 1:
        tables_text = ", ".join(tables)
        sentence = f"{raw} has {len(tables)} CSV files: {tables_text}"
        raise UsageError(sentence, "name one with --table")
    if tables:
        return tables[0]
    workbook_names = _names(raw, [*workbooks.SUFFIXES, *workbooks.OTHER_SHEETS])
    folders = {file.split("/")[0] for file in files if "/" in file}
    if len(workbook_names) == 1 and len(folders) < 2:
        return workbook_names[0]
    if workbook_names:
        names = ", ".join(workbook_names[:3])
        console.say(f"not read: {names}; --table names the one that lists the images")
    return None


def _within_raw(raw: Path, named_table: str) -> str:
    """A path to a file in raw, as a shell completes it, relative to raw.

    Any other text as it is.
    """
    path = Path(os.path.abspath(named_table))  # noqa: PTH100 - links stay
    folder = Path(os.path.abspath(raw))  # noqa: PTH100
    relative = (raw / named_table).is_file() and not Path(named_table).is_absolute()
    if not relative and path.is_file() and path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    return named_table


def _names(raw: Path, suffixes: Sequence[str]) -> list[str]:
    """The files in raw with one of these suffixes.

    Hidden ones and those that Excel keeps while it is open are left out.
    """
    names = [path.name for path in raw.iterdir() if path.suffix.lower() in suffixes]
    hidden_prefixes = (".", workbooks.LOCK)
    return sorted(name for name in names if not name.startswith(hidden_prefixes))


def _read(
    path: Path,
    columns: list[str],
    people: list[str],
    encoding: str,
) -> DataFrame:
    """These columns as texts; people: those of groups and patients among them.

    Raises FedcliError.
    """
    import pandas

    hint = "save it as CSV in UTF-8"
    if encoding == "utf-8-sig":
        hint += ", or give --table encoding=cp1252 or utf-16, in which Excel writes"
    head, records = read_cells(path, hint, encoding)
    columns = list(dict.fromkeys(columns))
    missing = []
    for name in columns:
        if head.count(name) > 1:
            raise FedcliError(f"{path} has two columns {name!r}", "rename one of them")
        if name not in head:
            missing.append(name)
    if missing:
        sentence = f"{path} has {lacking(missing)}, only {', '.join(head)}"
        raise FedcliError(sentence, _meant(missing, head) + NAMING)
    for name in people:
        if "/" in name or "*" in name:  # that crosses attributes, as in sex*age
            sentence = f"{path}: the column {name!r} has a slash or star in its name"
            raise FedcliError(sentence, "rename it")
    cells = {}
    for name in columns:
        position = head.index(name)
        cells[name] = [record[position] for record in records]
    return pandas.DataFrame(cells, dtype=str)


def _meant(missing: list[str], columns: list[str]) -> str:
    """The beginning of a hint: for each missing column what to give in its place.

    Where that is not known, the column whose name is nearest.
    """
    folded = {column.casefold(): column for column in columns}
    hint = ""
    for name in missing:
        close = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
        if name in IN_PLACE_OF:
            hint += IN_PLACE_OF[name]
        elif close:
            hint += f"did you mean {folded[close[0]]!r} for {name!r}? "
    return hint


def _located(
    raw: Path,
    table: str,
    names: list[str],
    files: list[str],
) -> list[str]:
    """Each name's file relative to raw, "" where no file is it.

    A name is a path from raw or from the table's folder, or a file's name alone, with or without
    suffix. Accents may be spelt in either of Unicode's two ways, as they are after a journey
    through another system.
    """
    places = _places(files)
    folded = {key.casefold(): key for key in reversed(places)}
    located = []
    for name in names:
        within_name = name.replace("\\", "/")
        within(raw, within_name, raw / table, links=True)  # these are left out
        keys = _keys(table, name) if name else []
        for key in list(keys):
            if key.casefold() in folded:  # IM00.JPG for im00.jpg
                keys.append(folded[key.casefold()])
        matches = _files_meant(keys, places)
        if len(matches) > 1:
            both = " and ".join(sorted(matches)[:2])
            hint = "write the path from the folder, with suffix"
            table_path = raw / table
            raise FedcliError(f"{table_path}: {name!r} may be {both}", hint)
        located.append(next(iter(matches), ""))
    return located


def _files_meant(keys: Sequence[str], places: Places) -> set[str]:
    """The files that the first spelling that means any may mean."""
    for key in keys:
        if key in places:
            files = places[key]
            return {key} if key in files else files  # a whole path before a name alone
    return set()


def _keys(table: str, name: str) -> list[str]:
    """A name in a table as a path, from the table's folder and from the root."""
    path = Path(name.replace("\\", "/"))
    keys = []
    for place_in_raw in (Path(table).parent / path, path):
        keys.append(unicodedata.normalize("NFC", place_in_raw.as_posix()))
    return keys


def _places(files: list[str]) -> dict[str, set[str]]:
    """Every spelling that may mean a file -> the files that it may mean."""
    places: dict[str, set[str]] = {}
    for file in files:
        path = Path(file)
        stem = path
        if file.lower().endswith(".nii.gz"):
            stem = path.with_suffix("").with_suffix("")
        elif not path.suffix[1:].isdigit():  # a number ends the name, as in 1.2.840.1
            stem = path.with_suffix("")
        for key in {file, stem.as_posix(), path.name, stem.name}:
            places.setdefault(unicodedata.normalize("NFC", key), set()).add(file)
    return places


def _check_once(path: Path, table: DataFrame, columns: Sequence[str]) -> None:
    """Refuse a file that has two rows. columns: those that may differ, the label first."""
    repeated = table[AT][table[AT].duplicated()]
    if repeated.empty:
        return
    file = repeated.iloc[0]
    lines = table[table[AT] == file]
    for name in columns:
        values = lines[name].unique()
        if len(values) > 1:
            both = f"{values[0]!r} and {values[1]!r}"
            raise FedcliError(f"{path}: {file} is listed twice, with {name} {both}", KEEP_ONE)


def attribute(
    column: list[str], name: str, path: Path, kind: str = ""
) -> tuple[list[str], list[int]]:
    """Values of an attribute, and each image's place among them, -1 where it is missing.

    Raises FedcliError.
    name: of the column. kind: "age" or "sex" where a person said so.
    """
    column = _spelt_alike(own_columns.with_points(column), name)
    words = {value for value in column if value.lower() not in MISSING}
    if kind == "age" or _is_age(name):
        bands = _age_bands(column, words, name, path)
        if bands is not None:
            return AGE_BANDS, bands
    if kind == "age" and words:
        sentence = f"{path}: --age {name} holds no ages in years, such as {min(words)!r}"
        raise FedcliError(sentence, f"--group {name}")
    is_sex = kind == "sex" or name.lower() in ("sex", "gender")
    if is_sex and {value.lower() for value in words} <= SEXES.keys():
        column = [SEXES.get(value.lower(), "") for value in column]
        words = set(column) - {""}
    _check_groups(words, name, path)
    values = ordered(words)
    _note_similar(name, values)
    return values, [place(value, values) for value in column]


def _check_groups(values: set[str], name: str, path: Path) -> None:
    """Refuse a column that names no groups, or too many."""
    _check_length(values, name, path)
    if not values:
        raise FedcliError(f"{path}: the column {name!r} is empty", "leave that group out")
    if len(values) > GROUPS:
        limit = f"an attribute has at most {GROUPS}"
        hint = f"{limit}; ages in years: --age {name}; put others into bands"
        raise FedcliError(f"{path}: the column {name!r} has {len(values)} values", hint)


def _check_length(names: Iterable[str], noun: str, path: Path) -> None:
    """Raises FedcliError for a name that no sentence, table or figure could hold."""
    for name in names:
        if len(name) > LONGEST:
            start = name[:30] + "…"
            count = f"{len(name)} characters, more than {LONGEST}"
            raise FedcliError(f"{path}: {noun} {start!r} has {count}", "shorten it")


def whole_number(text: str) -> str:
    """The one spelling of a whole number: 7 for 7.0; any other text as it is."""
    match = WHOLE.fullmatch(text)
    return match[1] if match else text


def _without_unknown(column: list[str], unknown: str) -> list[str]:
    """The cells of a column, "" for those that --unknown names.

    It names them as they are written or as the number that they are.
    """
    words = [unknown]
    if unknown not in column:  # a cell 450,0 is no list of two
        words = own_columns.words(unknown)
    numbers = {_as_number(word) for word in words}
    return ["" if _as_number(cell) in numbers else cell for cell in column]


def _as_number(cell: str) -> str:
    """The one spelling of a number with a decimal comma or point; any other text as it is."""
    return whole_number(own_columns.with_points([cell])[0])


def _spelt_alike(column: list[str], name: str) -> list[str]:
    """The cells of a column, whole numbers in one spelling.

    A note tells where there were several.
    """
    spellings = set(column)
    alike = [whole_number(cell) for cell in column]
    for cell, whole in zip(column, alike, strict=True):
        if whole != cell and whole in spellings:
            console.say(f"{name}: {whole!r} and {cell!r} are one value")
            break
    return alike


def _is_age(name: str) -> bool:
    """Tell whether a column's name is that of ages in years, such as Patient Age or age_approx."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    return "age" in words and words.isdisjoint(NO_AGE)


def _age_bands(
    column: list[str],
    words: set[str],
    name: str,
    path: Path,
) -> list[int] | None:
    """Each image's band, -1 where its age is missing or no number.

    None where most of the words are no numbers. Raises FedcliError for an age that nobody reaches.
    """
    years = {word: _years(word) for word in words}
    cells = [cell for cell in column if cell in words]
    odd = [cell for cell in cells if years[cell] is None]
    if 2 * len(odd) >= len(cells):
        return None
    bands = {}
    too_old = []
    for word, age in years.items():
        if age is None:
            continue
        if age > OLDEST:
            too_old.append(word)
        bands[word] = age_band(age if age >= 0 else math.nan)
    if too_old:
        example = min(too_old)
        hint = f"ages are in years, up to {OLDEST}; correct the table, or --unknown {example}"
        raise FedcliError(f"{path}: the column {name!r} has the age {example!r}", hint)
    if odd:
        count = f"{len(odd)} cells are no number and count"
        if len(odd) == 1:
            count = "1 cell is no number and counts"
        console.say(f"{name}: {count} as unknown, such as {min(odd)!r}")
    return [place(bands.get(cell), AGE_BANDS) for cell in column]


def _years(text: str) -> float | None:
    """An age such as 45, 45.5, 45,5 or DICOM's 060Y; None of what is no number."""
    years = number(text.replace(",", ".", 1))
    if years is not None:
        return years
    years = dicom_header.years(text.upper())
    return None if math.isnan(years) else years


def _note_similar(name: str, values: list[str]) -> None:
    """A note where two values are likely one, which is for the table's owner to say."""
    spellings: dict[str, str] = {}
    for value in values:
        composed = unicodedata.normalize("NFC", value)
        other = spellings.setdefault("".join(composed.casefold().split()), value)
        if other != value:
            difference = "case or spaces"
            if composed == unicodedata.normalize("NFC", other):
                difference = "how accents are encoded"
            sentence = f"{other!r} and {value!r} differ only by {difference}"
            console.say(f"{name}: {sentence}, and count as two values")


def _why_absent(file: str, table: str, other_places: Places) -> str:
    """The reason why a file that a table lists is not among the images."""
    if file:
        for key in _keys(table, file):
            if key in other_places:
                return _why_no_image(Path(min(other_places[key])), table)
    return f"listed in {table}, not in the folder"


def _why_no_image(path: Path, table: str) -> str:
    if path.name.upper() == INDEX:
        return "holds no image"
    if not path.suffix or path.suffix[1:].isdigit():
        return f"listed in {table}, is no DICOM file and has no suffix of an image"
    return f"listed in {table}, but {path.suffix} files are not read"


def classes_of(labels: list[str], path: Path) -> list[str]:
    """The classes in order. Raises FedcliError for labels that look like lists or measurements."""
    classes = ordered(set(labels))
    _check_length(classes, "the class", path)
    _check_no_lists(classes, path)
    is_numeric = own_columns.all_numbers(classes)
    if is_numeric:
        _check_no_measurements(classes, len(labels), path)
    if len(classes) > CLASSES:
        sentence = f"{path} has {len(classes)} classes for {len(labels)} images"
        raise FedcliError(sentence, "is --label-column the right one?")
    if len(classes) == len(labels) > ALONE:
        hint = "a class needs several images; is --label-column the right one?"
        raise FedcliError(f"{path}: each of the {len(labels)} images has a class of its own", hint)
    if is_numeric and len(classes) > MANY_NUMBERS:
        sentence = f"{path}: {len(classes)} whole numbers label the images"
        hint = "if they measure something, name another column by --label-column"
        console.warn(f"{sentence}, each of which is a class; {hint}")
    return classes


def _check_no_lists(classes: Collection[str], path: Path) -> None:
    names = set(classes)
    for label in classes:
        if label_lists.is_list(label, names):
            hint = (
                "several labels per image: add --multi-label; else name a column with one class by "
                "--label-column, or rename the class by --map"
            )
            raise FedcliError(f"{path}: the label {label!r} looks like several labels", hint)
    label = label_lists.suspected(names)
    if label:
        sentence = f"{path}: the label {label!r} counts as one class"
        console.warn(f"{sentence}; if it is several labels of an image, add --multi-label")


def _check_no_measurements(
    classes: Collection[str],
    images: int,
    path: Path,
) -> None:
    """Refuse numbers that are not whole, or nearly as many as there are images."""
    for label in classes:
        if not float(label).is_integer():
            hint = (
                "classes are names or whole numbers: put the values into bands in the table, or "
                "name another column"
            )
            raise FedcliError(f"{path}: the label {label} is a measured number, not a class", hint)
    if 2 * len(classes) > images > 10:
        hint = "put the values into bands in the table, or name another column by --label-column"
        count = f"{len(classes)} numbers label {images} images"
        raise FedcliError(f"{path}: {count}, so they are no classes", hint)
