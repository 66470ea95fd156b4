"""A folder of somebody's own images, and what fedcli prepare lists of it."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from raw_folders import completed

from fedcli.data.sources import card
from fedcli.data.sources.own_files import own_images
from fedcli.data.sources.source import Listing

OWN = {key: about["default"] for key, about in card("images")["options"].items()}


def save(path: Path, colour: object = 90, mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (9, 8), colour).save(path)
    return path


def folder(raw: Path, text: str, *names: str, table: str = "labels.csv") -> Path:
    raw.mkdir(parents=True, exist_ok=True)
    for name in names:
        save(raw / name)
    (raw / table).write_text(text, encoding="utf-8")
    return raw


def of_columns(raw: Path, **columns: Sequence) -> Path:
    """Images 0.png, 1.png, ... and a table with these columns, whose labels take turns where they are none of them."""
    count = len(next(iter(columns.values())))
    cells = {
        "image": [f"{i}.png" for i in range(count)],
        "label": [*"xy" * count][:count],
        **columns,
    }
    csv.writer(text := io.StringIO(), lineterminator="\n").writerows(
        [cells, *zip(*cells.values(), strict=True)]
    )
    return folder(raw, text.getvalue(), *cells["image"])


def listed(raw: Path, split: str = "unit", **columns: str) -> Listing:
    columns = {key.replace("_", "-"): value for key, value in columns.items()}
    return own_images.rows(raw, completed(8, split, window="file", own=OWN | columns))


def labels(listing: Listing) -> dict[str, str]:
    return {row.id: listing.classes[row.label] for row in listing.rows}
