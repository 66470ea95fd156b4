"""A sheet of corruptions on one image: a row for each kind, a column for each severity."""

from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...data import image_places
from ...data.corruption.corrupt import corrupt_image, fits
from ...data.corruption.kinds import (
    GENERAL,
    MODALITIES,
    SEVERITIES,
    full_kind,
    in_words,
    of_modality,
)
from ...data.manifest import read
from ...errors import UsageError, nearest
from ..drawing import Panel, Picture
from ..figure import Figure, register
from ..shapes import picture
from .counts import dataset_of, partition_of
from .errors import show_image

ABOUT = (
    "One training image, clean and at severities 1 to 5; above each the mean distance to the "
    "clean image in grey levels."
)


def frame(
    path: Path,
    *,
    kind: Annotated[str, "a modality, such as dermoscopy, or a kind"] = GENERAL,
    image: Annotated[str, "id of the image; the default is one in the middle"] = "",
) -> DataFrame:
    """kind, severity (0: clean), distance in grey levels. attrs hold the pictures.

    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    body = read(source).body
    names = of_modality(kind) if kind in MODALITIES else [full_kind(kind)]
    id, clean = _image(source, image)
    lines = []
    cases = []
    for name in names:
        if not fits(name, body):
            continue
        for severity in (0, *SEVERITIES):
            changed = clean
            if severity:
                changed = corrupt_image(clean, id, kind=name, severity=severity, seed=0)
            distance = float(np.abs(changed.astype(float) - clean).mean())
            lines.append((name, severity, distance))
            words = f"{severity}: {distance:.1f}"
            if not severity:
                words = in_words(name).replace(" (", "\n(")
            cases.append((words, changed))
    table = DataFrame(lines, columns=["kind", "severity", "distance"])
    table.attrs |= {
        "title": f"Corruptions of {id}: {dataset_of(source)}",
        "caption": ABOUT,
        "cases": cases,
    }
    return table


def _image(source: Path, id: str) -> tuple[str, np.ndarray]:
    """Id and pixels of a training image. Raises UsageError for an unknown one."""
    pool, rows_by_client = image_places.held(source)
    rows = np.sort(np.concatenate(list(rows_by_client.values())))
    ids = pool.id[rows].tolist()
    if id and id not in ids:
        raise UsageError(f"--image {id!r} is no training image", nearest(id, ids))
    row = rows[ids.index(id) if id else len(rows) // 2]
    return str(pool.id[row]), pool.pixels(np.array([row]))[0]


def draw(table: DataFrame) -> Picture:
    panels = [Panel(words, partial(show_image, image)) for words, image in table.attrs["cases"]]
    return picture(table, panels, size=(1.5, 1.6), columns=1 + len(SEVERITIES))


QUESTION = "What does each corruption do to an image?"
register(Figure("corruptions", QUESTION, "data", frame, draw))
