"""Notes on the words in a column of a person's own table, where they may mean something else than they seem to."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from .... import console
from ...pool import Row
from .own_columns import SEXES, all_numbers

MANY_AGES = 12  # numbers in a column of groups, from which on they may be ages
NAMED = 6  # values that a note names
SEX = {"sex", "gender", "geschlecht", "sexe"}
OF_PEOPLE = {
    *SEX,
    "race",
    "ethnicity",
    "ethnic",
    "ethnie",
    "fitzpatrick",
}  # the same at every visit
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
DATE = re.compile(
    rf"\d{{1,2}}[-. ]{{1,2}}{MONTH}|{MONTH}[-. ]\d{{2,4}}|\d{{4}}-\d\d-\d\d", re.IGNORECASE
)
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
        names = ",".join(f'"{value}"' if "," in value else value for value in values)
        words = ", ".join(map(repr, values[:NAMED]))
        console.say(f"{column}: {words} counts as a group; if unknown: --unknown '{names}'")


def _note_sexes(name: str, column: str, values: Sequence[str]) -> None:
    """A note where spellings of a sex are none that fedcli knows: they stay as they are."""
    words = {value.casefold() for value in values}
    unusual = [value for value in values if value.lower() not in {*SEXES, *OTHER_SEXES}]
    if name.lower() not in ("sex", "gender"):
        if len(SEX_WORDS & words) > 1:
            console.say(f"{column}: if it is the sex: --sex {column}")
    elif unusual:
        groups = ", ".join(map(repr, values[:NAMED]))
        hint = f"--map {name}:{unusual[0]}=... gives one another name"
        console.say(f"{name}: the groups {groups} are as written; {hint}")


def _note_ages(column: str, values: Sequence[str]) -> None:
    """A note where a column of groups may hold ages."""
    if len(values) >= MANY_AGES and all_numbers(values):
        sentence = f"{column}: {len(values)} numbers are as many groups"
        console.say(f"{sentence}; if they are ages in years: --age {column}")


def warn_of_dates(column: str, values: Iterable[str]) -> None:
    """A warning where some values are dates among bands or numbers, as a spreadsheet makes 9-Mar of 3-9."""
    dates = [value for value in values if DATE.fullmatch(value)]
    bands = [value for value in values if BAND.fullmatch(value)]
    if dates and bands:
        words = ", ".join(map(repr, dates[:NAMED]))
        hint = "a spreadsheet may have made dates of bands such as 3-9; correct the table, or use --map"
        console.warn(f"{column}: {words} next to {bands[0]!r}: {hint}")


def note_people(rows: Sequence[Row], attributes: Mapping[str, Sequence[str]]) -> None:
    """A note on patients whose sex or race differs between their images; an age may differ by visit."""
    for name, values in attributes.items():
        if OF_PEOPLE.isdisjoint(re.split(r"[^a-z]+", name.lower())):
            continue
        by_patient: dict[str, dict[int, Row]] = {}
        for row in rows:
            value = row.groups.get(name, -1)
            if row.patient and value >= 0:
                by_patient.setdefault(row.patient, {}).setdefault(value, row)
        several = [images for images in by_patient.values() if len(images) > 1]
        if several:
            console.warn(_several_people(name, several[0], len(several), values))


def _several_people(name: str, rows: Mapping[int, Row], count: int, values: Collection[str]) -> str:
    """A sentence on patients with several values, of which the first is named by an image."""
    names = list(values)
    image = next(iter(rows.values())).id
    several = " and ".join(names[value] for value in sorted(rows))
    patients = console.counted(count, "patient has", "patients have")
    return f"{name}: {patients} several values, such as the patient of {image}: {several}; is the id right?"
