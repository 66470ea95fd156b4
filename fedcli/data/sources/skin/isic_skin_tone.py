"""ISIC 2019 with the tone of the skin around the lesion, light or dark, for federations that differ by it.

Source: Fed-MAS (Elbatel et al., arXiv 2307.14959), whose ISIC-FL has four clients with their own shares of light and
dark skin and takes the labels of Bevan and Atapour-Abarghouei (arXiv 2202.02832); see ita.py. Neither its client files
nor its cut between light and dark are public: dark is type 4 to 6 here (ITA at most 28 degrees) unless asked otherwise,
and fedcli partition --by skin_tone --shares makes the clients. Bevan's own label file can stand in for the
computation. Nobody was asked or examined for these tones: they are colours of photographs.

HAM10000's folder (see isic2018) is read too, with its seven classes.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from .... import console
from ....errors import FedcliError, UsageError, nearest
from ....system import processes
from ...pool import Row
from ...samples import isic_skin_tone as sample
from ..formats.photographs import read_rgb, within
from ..source import Choices, Listing, Source, Unreadable
from ..tables import read_table
from . import isic2018, isic2019, skin_type
from .isic2019 import decode

TONES = ["light", "dark"]
FIRST_DARK = {"28": 4, "41": 3}  # ITA cut in degrees -> the lightest type that counts as dark
TYPES = range(1, 7)


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image that is there, with its skin tone; -1 where it is unknown."""
    _check(choices)
    listing = _listing(raw, choices)
    file = choices.own["tone-file"]
    types = _read_types(raw, file, listing.rows) if file else _compute_types(raw, listing.rows, choices)
    tones = [-1 if skin_type < 0 else int(skin_type >= FIRST_DARK[choices.own["ita-cut"]]) for skin_type in types]
    images = [
        replace(row, groups={**row.groups, "skin_tone": tone}) for row, tone in zip(listing.rows, tones, strict=True)
    ]
    counts = Counter(tones)
    console.say(f"skin tone: {counts[0]} light, {counts[1]} dark, {counts[-1]} unknown")
    attributes, tables = {**listing.attributes, "skin_tone": TONES}, [*listing.tables, *([file] if file else [])]
    return replace(listing, rows=images, attributes=attributes, tables=tables)


def _check(choices: Choices) -> None:
    known = {"ita-cut": FIRST_DARK, "ita-rule": skin_type.RULES}
    for name, values in known.items():
        if (given := choices.own[name]) not in values:
            raise UsageError(f"{name} is {given!r}", nearest(given, values))


def _listing(raw: Path, choices: Choices) -> Listing:
    """The images, split, without their skin tone."""
    if (raw / isic2019.TRUTH).is_file() or not (raw / isic2018.HAM).is_file():
        return isic2019.rows(raw, choices)
    listing = isic2018.rows(raw, replace(choices, split="image"))
    return replace(listing, rows=isic2019.split(listing.rows, choices), classes=isic2018.CLASSES)


def _compute_types(raw: Path, rows: list[Row], choices: Choices) -> list[int]:
    function = partial(_type, raw, choices.own["ita-rule"])
    return list(processes.in_order(function, [row.source for row in rows], label="skin tones", jobs=choices.jobs))


def _type(raw: Path, rule: str, file: str) -> int:
    try:
        return skin_type.skin_type(read_rgb(raw / file), rule)
    except Unreadable:
        return -1  # prepare will say why


def _read_types(raw: Path, name: str, rows: list[Row]) -> list[int]:
    """Each row's type from a table such as Bevan's isic_train_20-19-18-17.csv."""
    path = within(raw, name, "tone-file")
    if not path.is_file():
        raise FedcliError(f"{raw} has no {name}", "tone-file names a CSV file inside the raw folder")
    table = read_table(path, ["image_name", "fitzpatrick"], dtype={"image_name": str})
    table = table[["image_name", "fitzpatrick"]].rename(columns={"image_name": "image"}).fillna({"fitzpatrick": -1})
    if (odd := ~table.fitzpatrick.isin([-1, *TYPES])).any():
        wrong = table[odd].iloc[0]
        sentence = f"{path}: {wrong.image} has the skin type {wrong.fitzpatrick}"
        raise FedcliError(sentence, f"expected {TYPES[0]} to {TYPES[-1]}, or -1 for unknown")
    types = isic2019.by_key(table, name).fitzpatrick.astype(int).to_dict()
    listed = [types.get(isic2019.key(row.id)) for row in rows]
    if not any(listed):
        raise FedcliError(f"{path} names none of the {len(rows)} images", "it has ISIC's names in image_name")
    return [-1 if skin_type is None else skin_type for skin_type in listed]


SOURCE = Source(rows, decode, sample.make, per_file=True)
