"""The columns of a table of one's own that say whom an image shows, and words in them that mean another word."""

import codecs
from collections.abc import Collection, Mapping, Sequence

from .... import console
from ....errors import UsageError, nearest
from ..tables import DataFrame, number
from . import own_labels

MANY_AGES = 12  # numbers in a column of groups, from which on they may be ages
SEXES = {"f": "female", "female": "female", "w": "female", "m": "male", "male": "male"}
OTHER_SEXES = {"other", "divers", "diverse", "intersex", "nonbinary", "non-binary", "x"}
WORDS = {*SEXES, "männlich", "weiblich", "homme", "femme"}
MAP_HINT = "write for example --map sex:weiblich=female,W=female"


def of_attributes(own: Mapping[str, str]) -> dict[str, str]:
    """Attribute -> its column: groups and hospitals by their columns' names, then age and sex. Raises UsageError."""
    plain = [*own_labels.words(own["group"]), *filter(None, [own["site"]])]
    named = {name: own[name] for name in ("age", "sex") if own[name]}
    for name, column in named.items():
        if name in plain and name != column:
            raise UsageError(f"--group {name} and --{name} {column} would both be called {name}", "give one of them")
    return {column: column for column in plain if column not in named.values()} | named


def of_people(own: Mapping[str, str]) -> list[str]:
    """The columns of groups, hospitals and patients."""
    return list(dict.fromkeys([*of_attributes(own).values(), *filter(None, [own["patient"]])]))


def renamed(table: DataFrame, own: Mapping[str, str]) -> DataFrame:
    """The table with each cell of a class or group that --map names as the word it stands for. Raises UsageError."""
    labels, attributes = own_labels.columns(own), of_attributes(own)
    for name, words in _mapping(own["map"]).items():
        column = attributes.get(name, name)
        if column not in [*labels, *attributes.values()]:
            raise UsageError(
                f"--map {name}: no such column of classes or groups", nearest(name, [*labels, *attributes])
            )
        lists = column in labels and own_labels.several(own)
        cells = [cell.replace(";", "|").split("|") if lists else [cell] for cell in table[column]]
        found = {part.strip() for parts in cells for part in parts}
        if odd := [word for word in words if word not in found]:
            console.warn(f"--map {name}: no image has {odd[0]!r}; {nearest(odd[0], found - {''})[:200]}")
        table = table.assign(**{column: ["|".join(words.get(part.strip(), part) for part in parts) for parts in cells]})
    return table


def _mapping(text: str) -> dict[str, dict[str, str]]:
    """Of "sex:weiblich=female,W=female;label:Nävus=nevus". Raises UsageError."""
    mapping: dict[str, dict[str, str]] = {}
    for part in filter(str.strip, text.split(";")):
        column, colon, words = part.partition(":")
        pairs = [word.partition("=") for word in own_labels.words(words)]
        if not colon or not pairs or not all(equals and old.strip() and new.strip() for old, equals, new in pairs):
            raise UsageError(f"--map is {part!r}", MAP_HINT)
        mapping.setdefault(column.strip(), {}).update({old.strip(): new.strip() for old, _, new in pairs})
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
    mixed = points != column and all(
        number(new) is not None for cell, new in zip(column, points, strict=True) if "," in cell
    )
    return points if mixed else column


def note_words(name: str, values: Collection[str]) -> None:
    """A note where spellings of a sex are none that fedcli knows: they stay as they are."""
    odd = [value for value in values if value.lower() not in SEXES and value.lower() not in OTHER_SEXES]
    if name.lower() not in ("sex", "gender"):
        if len(WORDS & {value.casefold() for value in values}) > 1:
            console.say(f"{name}: if it is the sex: --sex {name}")
    elif odd:
        shown = ", ".join(map(repr, list(values)[:6]))
        console.say(f"{name}: the groups {shown} are as written; --map {name}:{odd[0]}=... gives one another name")


def note_numbers(name: str, values: Sequence[str]) -> None:
    """A note where a column of groups may hold ages."""
    if len(values) >= MANY_AGES and own_labels.all_numbers(values):
        console.say(f"{name}: {len(values)} numbers are as many groups; if they are ages in years: --age {name}")
