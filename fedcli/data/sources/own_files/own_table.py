"""The table of one's own images: a CSV that names each file, its class, and perhaps groups, hospital and patient."""

import math
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from .... import console
from ....errors import FedcliError, UsageError
from ....labels import MULTI_LABEL, Label
from ...pool import Row
from ..formats import dicom_header, workbooks
from ..formats.packed import AT
from ..formats.photographs import within
from ..source import Choices, Listing
from ..tables import AGE_BANDS, DataFrame, age_band, lacking, number, place, read_cells
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
GROUPS, CLASSES = 50, 1000  # more values than this are no groups or classes but, say, names


def from_table(
    raw: Path, name: str, files: list[str], others: list[str], choices: Choices
) -> Listing:
    own = choices.own
    if choices.split == "folder":
        raise UsageError(
            f"--split folder is for a folder per class, but {raw} has {name}", "use --split-file"
        )
    named, about = own_columns.columns(own), own_columns.of_people(own)
    wanted = [own["image-column"], *named, *about]
    table = own_columns.renamed(_read(raw / name, wanted, about, own_columns.encoding(own)), own)
    images, places = table[own["image-column"]], _places(others)
    table = table[list(dict.fromkeys(wanted[1:]))].assign(
        **{AT: _located(raw, name, images.tolist(), files)}
    )
    absent, unlabelled = (
        table[AT] == "",
        table[named[0]].str.lower().isin(NO_LABEL) & (len(named) == 1),
    )
    skipped = [(image, _why_absent(image, name, places)) for image in images[absent]]
    skipped += [(file, f"has no {named[0]} in {name}") for file in table[AT][unlabelled & ~absent]]
    table = table[~absent & ~unlabelled]
    if again := int(table.duplicated().sum()):
        rows = (
            "1 row repeats another and counts"
            if again == 1
            else f"{again} rows repeat others and count"
        )
        console.say(f"{name}: {rows} once")
    table = table.drop_duplicates()
    _check_once(raw / name, table, named[0])
    if left := len(set(files) - set(table[AT]) - {file for file, _ in skipped}):
        console.say(f"{left} of {len(files)} images in {raw} are not in {name}")
    return replace(
        described(table.sort_values(AT), raw / name, choices),
        tables=[name],
        skipped=sorted(set(skipped)),
    )


def described(table: DataFrame, path: Path, choices: Choices) -> Listing:
    """The images of a table whose column AT says where each is, as a listing. path: of the table, for sentences."""
    own, task = choices.own, MULTI_LABEL if own_columns.several(choices.own) else None
    labels, classes = _labels(table, path, own)
    values, columns = {}, {}
    for name, called in own_columns.of_attributes(own).items():
        column = _without_unknown(table[called].tolist(), own["unknown"])
        values[name], columns[name] = attribute(
            column, called, path, name if own.get(name) == called else ""
        )
        column_notes.note_all(name, called, values[name])
    patients = (
        _spelt_alike(table[own["patient"]].tolist(), own["patient"])
        if own["patient"]
        else [""] * len(table)
    )
    _check_length(patients, own["patient"], path)
    patients = _without_unknown(
        ["" if name.lower() in MISSING else name for name in patients], own["unknown"]
    )
    rows = [
        Row(
            file, label, file, False, {name: column[i] for name, column in columns.items()}, patient
        )
        for i, (file, label, patient) in enumerate(zip(table[AT], labels, patients, strict=True))
    ]
    patient = own["patient"] if any(patients) else None
    return Listing(rows, values, patient, classes=classes, sites=own["site"] or None, task=task)


def _labels(
    table: DataFrame, path: Path, own: Mapping[str, str]
) -> tuple[Sequence[Label], list[str]]:
    """The class of each image, or its labels, and the names of all."""
    names = own_columns.columns(own)
    cells = _spelt_alike(table[names[0]].tolist(), names[0])
    if not own_columns.several(own):
        classes = classes_of(cells, path)
        column_notes.warn_of_dates(names[0], classes)
        _note_similar(names[0], classes)
        return [classes.index(cell) for cell in cells], classes
    if len(names) == 1:
        labels, classes = own_columns.of_lists(cells, path)
    else:
        labels, classes = own_columns.of_own_columns(table, names, own["uncertain"], path)
    _check_length(classes, "the label", path)
    _note_similar("the labels", classes)
    return labels, classes


def table_name(raw: Path, named_table: str, files: Sequence[str]) -> str | None:
    """The table, relative to raw: the one that --table names, else the only CSV or workbook; None where there is none.

    files: the images. Workbooks next to folders of classes are taken only where --table names one. Raises FedcliError.
    """
    if named_table:
        name = _within_raw(raw, named_table)
        if not within(raw, name, "--table").is_file():
            hint = "--table names a CSV file or Excel workbook in --raw, relative to it"
            raise FedcliError(f"no such table: {raw / name}", hint)
        return Path(name).as_posix()
    tables = _names(raw, [".csv"])
    if len(tables) > 1:
        raise UsageError(
            f"{raw} has {len(tables)} CSV files: {', '.join(tables)}", "name one with --table"
        )
    if tables:
        return tables[0]
    workbook_names = _names(raw, [*workbooks.SUFFIXES, *workbooks.OTHER_SHEETS])
    folders = {file.split("/")[0] for file in files if "/" in file}
    if len(workbook_names) == 1 and len(folders) < 2:
        return workbook_names[0]
    if workbook_names:
        console.say(
            f"not read: {', '.join(workbook_names[:3])}; --table names the one that lists the images"
        )
    return None


def _within_raw(raw: Path, named_table: str) -> str:
    """A path to a file in raw, as a shell completes it, relative to raw; any other text as it is."""
    path = Path(os.path.abspath(named_table))  # noqa: PTH100 - links stay
    folder = Path(os.path.abspath(raw))  # noqa: PTH100
    relative = (raw / named_table).is_file() and not Path(named_table).is_absolute()
    if not relative and path.is_file() and path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    return named_table


def _names(raw: Path, suffixes: Sequence[str]) -> list[str]:
    """The files in raw with one of these suffixes, without hidden ones and those that Excel keeps while it is open."""
    names = [path.name for path in raw.iterdir() if path.suffix.lower() in suffixes]
    return sorted(name for name in names if not name.startswith((".", workbooks.LOCK)))


def _read(path: Path, wanted: list[str], about: list[str], encoding: str) -> DataFrame:
    """The wanted columns as texts; about: those of groups and patients among them. Raises FedcliError."""
    from pandas import DataFrame

    cp1252 = ", or give --encoding cp1252, in which Excel writes" * (encoding == "utf-8-sig")
    head, records = read_cells(path, f"save it as CSV in UTF-8{cp1252}", encoding)
    if twice := [name for name in wanted if head.count(name) > 1]:
        raise FedcliError(f"{path} has two columns {twice[0]!r}", "rename one of them")
    if missing := [name for name in dict.fromkeys(wanted) if name not in head]:
        flags = _meant(missing, head) + NAMING
        raise FedcliError(f"{path} has {lacking(missing)}, only {', '.join(head)}", flags)
    if odd := [name for name in about if "/" in name]:
        raise FedcliError(f"{path}: the column {odd[0]!r} has a slash in its name", "rename it")
    return DataFrame(
        {name: [record[head.index(name)] for record in records] for name in wanted}, dtype=str
    )


def _meant(missing: list[str], columns: list[str]) -> str:
    """The beginning of a hint: for each missing column what to give in its place, or the one whose name is nearest."""
    folded = {column.casefold(): column for column in columns}
    near = {name: get_close_matches(name.casefold(), folded, n=1, cutoff=0.6) for name in missing}
    meant = {
        name: f"did you mean {folded[close[0]]!r} for {name!r}? "
        for name, close in near.items()
        if close
    }
    return "".join(IN_PLACE_OF.get(name) or meant.get(name, "") for name in missing)


def _located(raw: Path, table: str, names: list[str], files: list[str]) -> list[str]:
    """Each name's file relative to raw, "" where no file is it.

    A name is a path from raw or from the table's folder, or a file's name alone, with or without suffix. Accents may be
    spelt in either of Unicode's two ways, as they are after a journey through another system.
    """
    places = _places(files)
    folded = {key.casefold(): key for key in reversed(places)}
    located = []
    for name in names:
        within(raw, name.replace("\\", "/"), raw / table, links=True)  # these are left out
        keys = _keys(table, name)
        keys += [
            folded[key.casefold()] for key in keys if key.casefold() in folded
        ]  # IM00.JPG for im00.jpg
        key = next((key for key in keys if key in places), None) if name else None
        at = (
            {key} & places[key] or places[key] if key else set()
        )  # a whole path before a name alone
        if len(at) > 1:
            both = " and ".join(sorted(at)[:2])
            raise FedcliError(
                f"{raw / table}: {name!r} may be {both}",
                "write the path from the folder, with suffix",
            )
        located.append(next(iter(at), ""))
    return located


def _keys(table: str, name: str) -> list[str]:
    """A name in a table as a path, from the table's folder and from the root."""
    clean = name.replace("\\", "/")
    return [
        unicodedata.normalize("NFC", path.as_posix())
        for path in (Path(table).parent / clean, Path(clean))
    ]


def _places(files: list[str]) -> dict[str, set[str]]:
    """Every spelling that may mean a file -> the files that it may mean."""
    places: dict[str, set[str]] = {}
    for file in files:
        path = Path(file)
        whole = path.with_suffix("") if file.lower().endswith(".nii.gz") else path
        stem = (
            path if path.suffix[1:].isdigit() else whole.with_suffix("")
        )  # the number ends the name, as in 1.2.840.1
        for key in {file, stem.as_posix(), path.name, stem.name}:
            places.setdefault(unicodedata.normalize("NFC", key), set()).add(file)
    return places


def _check_once(path: Path, table: DataFrame, label: str) -> None:
    if (twice := table[AT].duplicated()).any():
        file = table[AT][twice].iloc[0]
        lines = table[table[AT] == file]
        differing = next(name for name in [label, *lines.columns] if lines[name].nunique() > 1)
        both = " and ".join(repr(value) for value in lines[differing].unique()[:2])
        raise FedcliError(
            f"{path}: {file} is listed twice, with {differing} {both}",
            "keep the right one of the rows",
        )


def attribute(
    column: list[str], name: str, path: Path, kind: str = ""
) -> tuple[list[str], list[int]]:
    """Values of an attribute, and each image's place among them, -1 where it is missing.

    name: of the column. kind: "age" or "sex" where a person said so. Raises FedcliError.
    """
    column = _spelt_alike(own_columns.with_points(column), name)
    known = {value for value in column if value.lower() not in MISSING}
    if (kind == "age" or _is_age(name)) and (
        banded := _age_bands(column, known, name, path)
    ) is not None:
        return AGE_BANDS, banded
    if kind == "age" and known:
        raise FedcliError(
            f"{path}: --age {name} holds no ages in years, such as {min(known)!r}",
            f"--group {name}",
        )
    is_sex = kind == "sex" or name.lower() in ("sex", "gender")
    if is_sex and {value.lower() for value in known} <= SEXES.keys():
        column = [SEXES.get(value.lower(), "") for value in column]
        known = set(column) - {""}
    _check_length(known, name, path)
    if not known:
        raise FedcliError(f"{path}: the column {name!r} is empty", "leave that group out")
    if len(known) > GROUPS:
        hint = (
            f"an attribute has at most {GROUPS}; ages in years: --age {name}; put others into bands"
        )
        raise FedcliError(f"{path}: the column {name!r} has {len(known)} values", hint)
    values = ordered(known)
    _note_similar(name, values)
    return values, [place(value, values) for value in column]


def _check_length(names: Iterable[str], what: str, path: Path) -> None:
    """Raises FedcliError for a name that no sentence, table or figure could hold."""
    if long := next((name for name in names if len(name) > LONGEST), ""):
        sentence = (
            f"{path}: {what} {long[:30] + '…'!r} has {len(long)} characters, more than {LONGEST}"
        )
        raise FedcliError(sentence, "shorten it")


def whole_number(text: str) -> str:
    """The one spelling of a whole number: 7 for 7.0; any other text as it is."""
    return match.group(1) if (match := WHOLE.fullmatch(text)) else text


def _without_unknown(column: list[str], named: str) -> list[str]:
    """The cells of a column, "" for those that --unknown names as they are written or as the number that they are."""
    words = (
        [named] if named in column else own_columns.words(named)
    )  # a cell 450,0 is no list of two
    unknown = {_as_number(word) for word in words}
    return ["" if _as_number(cell) in unknown else cell for cell in column]


def _as_number(cell: str) -> str:
    """The one spelling of a number with a decimal comma or point; any other text as it is."""
    return whole_number(own_columns.with_points([cell])[0])


def _spelt_alike(column: list[str], name: str) -> list[str]:
    """The cells of a column, whole numbers in one spelling; says where there were several."""
    alike, spelt = [whole_number(cell) for cell in column], set(column)
    if mixed := next(
        (cell for cell in column if whole_number(cell) != cell and whole_number(cell) in spelt), ""
    ):
        console.say(f"{name}: {whole_number(mixed)!r} and {mixed!r} are one value")
    return alike


def _is_age(name: str) -> bool:
    """Tell whether a column's name is that of ages in years, such as Patient Age or age_approx."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    return "age" in words and not words & NO_AGE


def _age_bands(column: list[str], known: set[str], name: str, path: Path) -> list[int] | None:
    """Each image's band, -1 where its age is missing or no number; None where most known cells are no numbers.

    Raises FedcliError for an age that nobody reaches.
    """
    given = [value for value in column if value in known]
    years = {value: _years(value) for value in known}
    odd = [value for value in given if years[value] is None]
    if 2 * len(odd) >= len(given):
        return None
    if beyond := sorted(value for value, age in years.items() if age is not None and age > OLDEST):
        hint = f"ages are in years, up to {OLDEST}; correct the table, or --unknown {beyond[0]}"
        raise FedcliError(f"{path}: the column {name!r} has the age {beyond[0]!r}", hint)
    if odd:
        cells = (
            "1 cell is no number and counts"
            if len(odd) == 1
            else f"{len(odd)} cells are no number and count"
        )
        console.say(f"{name}: {cells} as unknown, such as {min(odd)!r}")
    bands = {
        value: age_band(age if age >= 0 else math.nan)
        for value, age in years.items()
        if age is not None
    }
    return [place(bands.get(value), AGE_BANDS) for value in column]


def _years(text: str) -> float | None:
    """An age such as 45, 45.5, 45,5 or DICOM's 060Y; None of what is no number."""
    if (known := number(text.replace(",", ".", 1))) is not None:
        return known
    return None if math.isnan(age := dicom_header.years(text.upper())) else age


def _note_similar(name: str, values: list[str]) -> None:
    """A note where two values are likely one, which is for the table's owner to say."""
    first: dict[str, str] = {}
    for value in values:
        other = first.setdefault("".join(value.casefold().split()), value)
        if other != value:
            console.say(
                f"{name}: {other!r} and {value!r} differ only by case or spaces, and count as two values"
            )


def _why_absent(file: str, table: str, others: dict[str, set[str]]) -> str:
    """The reason why a file that a table lists is not among the images."""
    there = next((min(others[key]) for key in _keys(table, file) if key in others), None)
    if not file or there is None:
        return f"listed in {table}, not in the folder"
    path = Path(there)
    if path.name.upper() == INDEX:
        return "holds no image"
    if not path.suffix or path.suffix[1:].isdigit():
        return f"listed in {table}, is no DICOM file and has no suffix of an image"
    return f"listed in {table}, but {path.suffix} files are not read"


def classes_of(labels: list[str], path: Path) -> list[str]:
    """The classes in order. Raises FedcliError for labels that look like lists or measurements."""
    classes = ordered(set(labels))
    _check_length(classes, "the class", path)
    several = [label for label in classes if label_lists.is_list(label, set(classes))]
    if several:
        hint = (
            "several labels per image: add --multi-label; else name a column with one class by "
            "--label-column, or rename the class by --map"
        )
        raise FedcliError(f"{path}: the label {several[0]!r} looks like several labels", hint)
    numbers = own_columns.all_numbers(classes)
    odd = next((label for label in classes if not (number(label) or 0.0).is_integer()), "")
    if odd and numbers:
        hint = "classes are names or whole numbers: put the values into bands in the table, or name another column"
        raise FedcliError(f"{path}: the label {odd} is a measured number, not a class", hint)
    if numbers and 2 * len(classes) > len(labels) > 10:
        hint = "put the values into bands in the table, or name another column by --label-column"
        raise FedcliError(
            f"{path}: {len(classes)} numbers label {len(labels)} images, so they are no classes",
            hint,
        )
    if len(classes) > CLASSES:
        hint = "is --label-column the right one?"
        raise FedcliError(f"{path} has {len(classes)} classes for {len(labels)} images", hint)
    if len(classes) == len(labels) > ALONE:
        hint = "a class needs several images; is --label-column the right one?"
        raise FedcliError(f"{path}: each of the {len(labels)} images has a class of its own", hint)
    if numbers and len(classes) > MANY_NUMBERS:
        hint = "if they measure something, name another column by --label-column"
        console.warn(
            f"{path}: {len(classes)} whole numbers label the images, each of which is a class; {hint}"
        )
    return classes
