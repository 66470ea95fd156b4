"""ISIC 2019 with the tone of the skin around the lesion, for federations that differ by it.

Source: Fed-MAS (Elbatel et al., arXiv 2307.14959), whose ISIC-FL has four clients with their own
shares of light and dark skin and takes the labels of Bevan and Atapour-Abarghouei (arXiv
2202.02832); see skin_type.py. Neither its client files nor its cut between light and dark are
public: dark is type 4 to 6 here (ITA at most 28 degrees) unless asked otherwise, and fedcli
partition --by skin_tone --shares makes the clients. Bevan's own label file can stand in for the
computation. Nobody was asked or examined for these tones: they are colours of photographs.

HAM10000's folder (see isic2018) is read too, with its seven classes.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

from .... import console
from ....errors import FedcliError
from ....system import processes
from ...pool import Row
from ...prepare_options import PrepareOptions
from ..division import divided
from ..drawing import picture, save, table
from ..formats.photographs import photograph, read_rgb, within
from ..source import Listing, Source, Unreadable
from ..tables import SEXES, check_values, read_table
from . import isic2018, isic2019, skin_type
from .isic2019 import BODY, Photograph

TONES = ["light", "dark"]
FIRST_DARK = {"28": 4, "41": 3}  # ITA cut in degrees -> the lightest type that counts as dark
TYPES = range(1, 7)
UNKNOWN = -1


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image that is there, with its skin tone; -1 where it is unknown."""
    listing = _listing(raw, choices)
    tables = list(listing.tables)
    file = choices.own["tone-file"]
    if file:
        tables.append(file)
        types = _read_types(raw, file, listing.rows)
    else:
        types = _computed_types(raw, listing.rows, choices)
    first_dark = FIRST_DARK[choices.own["ita-cut"]]
    images = []
    for row, kind in zip(listing.rows, types, strict=True):
        tone = UNKNOWN if kind < 0 else int(kind >= first_dark)
        images.append(replace(row, groups={**row.groups, "skin_tone": tone}))
    counts = Counter(row.groups["skin_tone"] for row in images)
    console.say(f"skin tone: {counts[0]} light, {counts[1]} dark, {counts[UNKNOWN]} unknown")
    attributes = {**listing.attributes, "skin_tone": TONES}
    return replace(listing, rows=images, attributes=attributes, tables=tables)


def _listing(raw: Path, choices: PrepareOptions) -> Listing:
    if (raw / isic2019.TRUTH).is_file() or not (raw / isic2018.HAM).is_file():
        return isic2019.rows(raw, choices)
    listing = isic2018.rows(raw, choices.completed(choices.own, split="image"))
    return replace(divided(listing, choices, "lesion"), classes=isic2018.CLASSES)


def _computed_types(
    raw: Path,
    images: list[Row],
    choices: PrepareOptions,
) -> list[int]:
    """Each row's type from its photograph."""
    read = partial(_type, raw, choices.own["ita-rule"])
    files = [row.source for row in images]
    return list(processes.in_order(read, files, label="skin tones", jobs=choices.jobs))


def _type(raw: Path, rule: str, file: str) -> int:
    try:
        return skin_type.skin_type(read_rgb(raw / file), rule)
    except Unreadable:
        return UNKNOWN  # prepare will say why


def _read_types(raw: Path, name: str, images: list[Row]) -> list[int]:
    """Each row's type from a table such as Bevan's isic_train_20-19-18-17.csv."""
    path = within(raw, name, "tone-file")
    if not path.is_file():
        hint = "tone-file names a CSV file inside the raw folder"
        raise FedcliError(f"{raw} has no {name}", hint)
    columns = {"image_name": "image", "fitzpatrick": "type"}
    table = read_table(path, columns, dtype={"image_name": str})
    table = table.fillna({"type": UNKNOWN})
    hint = "expected 1 to 6, or -1 for unknown"
    known_types = [UNKNOWN, *TYPES]
    check_values(
        path,
        table.image,
        table.type,
        known_types,
        hint,
        "skin type",
    )
    types = isic2019.by_key(table, name).type.astype(int).to_dict()
    keys = [isic2019.key(row.id) for row in images]
    if types.keys().isdisjoint(keys):
        sentence = f"{path} names none of the {len(images)} images"
        raise FedcliError(sentence, "it has ISIC's names in image_name")
    return [types.get(key, UNKNOWN) for key in keys]


# the synthetic sample

BLUISH = 12, 30  # bright skin that Bevan's quotient takes for the darkest type
UNTYPED = 20
TYPES_OF_TINTS = {0.0: 2, 1.0: 6}


def sample(folder: Path) -> None:
    """Light and dark skin, two images with a bluish cast, and a table of skin types."""
    photographs = [_photograph(i) for i in range(72)]
    isic2019.write(folder, photographs)
    lines = []
    for i, line in enumerate(photographs):
        if i in BLUISH:
            image = picture(line.image, line.label)
            bluish = image[..., ::-1]
            path = folder / isic2019.FOLDER / f"{line.image}.jpg"
            save(path, bluish)
        kind = UNKNOWN if i == UNTYPED else TYPES_OF_TINTS[line.tint]
        is_malignant = int(line.label == 0)
        lines.append([line.image, is_malignant, 2019, -1, 0, "1024x1024", kind])
    head = ["image_name", "target", "year", "tfrecord", "mclassd", "size", "fitzpatrick"]
    table(folder / "isic_train_20-19-18-17.csv", head, lines)


def _photograph(i: int) -> Photograph:
    """The i-th line: of nine images of a class four show dark skin."""
    label, k = divmod(i, 9)
    lesion = f"BCN_{i:07d}" if k else ""
    tint = 1.0 if k > 4 else 0.0
    image = f"ISIC_{i:07d}"
    age = f"{20 + i}.0"
    body_site = BODY[i % 8]
    sex = SEXES[i % 2]
    return Photograph(
        image,
        label,
        age,
        body_site,
        lesion,
        sex,
        tint,
    )


SOURCE = Source(rows, photograph, sample, per_file=True)
