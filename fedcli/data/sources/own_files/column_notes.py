"""Notes on the words in a column of a person's own table.

They are for words that may mean something else than they seem to.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from .... import console
from ...pool import Row
from .own_columns import SEXES, all_numbers

MANY_AGES = 12  # numbers in a column of groups, from which on they may be ages
NAMED = 6  # values that a note names
SEX = {"sex", "gender", "geschlecht", "sexe"}
# the same at every visit
OF_PEOPLE = {*SEX, "race", "ethnicity", "ethnic", "ethnie", "fitzpatrick"}
OTHER_SEXES = {"other", "divers", "diverse", "intersex", "nonbinary", "non-binary", "x"}
SEX_WORDS = {*SEXES, "männlich", "weiblich", "homme", "femme"}
UNKNOWN = re.compile(
    r"unable to obtain|(patient )?(declined|refused)( to answer)?|prefer not to (say|answer)"
    r"|not (known|reported|specified|stated|available|recorded|applicable|asked)|unspecified"
    r"|undetermined|missing|k\.? ?a\.?|keine angaben?|unbekannt|nicht (bekannt|erhoben)|o\. ?a\."
    r"|n\. ?a\.|inconnu|non renseigné|desconocido|sconosciuto|onbekend|unk",
    re.IGNORECASE,
)
MONTH = r"(?:jan|feb|mar|mär|mrz|apr|may|mai|jun|jul|aug|sep|sept|oct|okt|nov|dec|dez)[a-z]*\.?"
DAY = r"\d{1,2}[-. ]{1,2}"
YEAR = r"[-. ]\d{2,4}"
DATE = re.compile(rf"{DAY}{MONTH}|{MONTH}{YEAR}|\d{{4}}-\d\d-\d\d", re.IGNORECASE)
BAND = re.compile(r"\d+ ?[-–] ?\d+|\d+ ?\+|[<>≤≥] ?\d+|\d+(?:\.\d+)?")


def note_all(name: str, column: str, values: Sequence[str]) -> None:
    """Notes on the values of an attribute. column: its name in the table."""
    unknown = [value for value in values if UNKNOWN.fullmatch(value)]
    others = [value for value in values if value not in unknown]
    _note_unknown(column, unknown)
    _note_sexes(name, column, others)
    _note_ages(column, others)
    warn_of_dates(column, others)


def _note_unknown(column: str, values: Sequence[str]) -> None:
    """A note on values that may mean that nothing is known."""
    if values:
        names = [f'"{value}"' if "," in value else value for value in values]
        hint = f"if unknown: --unknown '{','.join(names)}'"
        console.say(f"{column}: {_quoted(values)} counts as a group; {hint}")


def _quoted(values: Sequence[str]) -> str:
    """The first few values, for a sentence."""
    return ", ".join(repr(value) for value in values[:NAMED])


def _note_sexes(name: str, column: str, values: Sequence[str]) -> None:
    """A note where spellings of a sex are none that fedcli knows: they stay as they are."""
    if name.lower() not in ("sex", "gender"):
        words = {value.casefold() for value in values}
        if len(SEX_WORDS & words) > 1:
            console.say(f"{column}: if it is the sex: --sex {column}")
        return
    usual = {*SEXES, *OTHER_SEXES}
    unusual = [value for value in values if value.lower() not in usual]
    if unusual:
        hint = f"--map {name}:{unusual[0]}=... gives one another name"
        console.say(f"{name}: the groups {_quoted(values)} are as written; {hint}")


def _note_ages(column: str, values: Sequence[str]) -> None:
    """A note where a column of groups may hold ages."""
    if len(values) >= MANY_AGES and all_numbers(values):
        sentence = f"{column}: {len(values)} numbers are as many groups"
        console.say(f"{sentence}; if they are ages in years: --age {column}")


def warn_of_dates(column: str, values: Iterable[str]) -> None:
    """A warning where some values are dates among bands or numbers.

    A spreadsheet makes 9-Mar of 3-9.
    """
    dates = [value for value in values if DATE.fullmatch(value)]
    bands = [value for value in values if BAND.fullmatch(value)]
    if dates and bands:
        hint = (
            "a spreadsheet may have made dates of bands such as 3-9; "
            "correct the table, or use --map"
        )
        dates_text = _quoted(dates)
        console.warn(f"{column}: {dates_text} next to {bands[0]!r}: {hint}")


def note_people(rows: Sequence[Row], attributes: Mapping[str, Sequence[str]]) -> None:
    """A note on patients whose sex or race differs between their images.

    An age may differ by visit.
    """
    for name, values in attributes.items():
        words = re.split(r"[^a-z]+", name.lower())
        if not OF_PEOPLE.isdisjoint(words):
            _note_several(rows, name, values)


def _note_several(
    rows: Sequence[Row],
    name: str,
    values: Sequence[str],
) -> None:
    """A note on patients with several values of this attribute."""
    rows_by_patient: dict[str, dict[int, Row]] = {}  # by value, too
    for row in rows:
        value = row.groups.get(name, -1)
        if row.patient and value >= 0:
            rows_by_patient.setdefault(row.patient, {}).setdefault(value, row)
    several = [by_value for by_value in rows_by_patient.values() if len(by_value) > 1]
    if not several:
        return
    example = several[0]
    image = next(iter(example.values())).id
    names = " and ".join(values[value] for value in sorted(example))
    patients = console.counted(len(several), "patient has", "patients have")
    sentence = f"{name}: {patients} several values, such as the patient of {image}: {names}"
    console.warn(f"{sentence}; is the id right?")
