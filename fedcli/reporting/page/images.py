"""Effect of each corruption: some test images as they are, and below them the same ones changed."""

import base64
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...data import manifest
from ...data.corruption.mixture import spoken
from ...data.pool import CHANGED, pool_of
from ...figures.inline import Figure, Panels
from ...io.hdf5 import open_hdf5
from ...labels import YES
from ..row import Row
from ..section import Section

SHOWN = 6  # images
LEGEND = "Test images, above as they are, below the same ones corrupted; the class of each stands below it."
SIDE = 96  # pixels on the page at least; smaller images are enlarged by whole steps


def section(compared: Sequence[Row]) -> Section:
    """One strip of images per corruption that some system was trained with."""
    paths = dict.fromkeys(path for row in compared if (path := row.stage("corruption")))
    return Section("corruption", "Effect of the corruption", panels=[strip for path in paths for strip in _strip(path)])


def _strip(path: Path) -> Iterator[Panels]:
    body, pool = manifest.read(path).body, pool_of(manifest.above(path, "dataset"))
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        rows = file["test/rows"][()]
        if not len(rows):
            return
        at = chosen(pool.single[rows])
        changed = file["test/x"][np.sort(at)][np.argsort(np.argsort(at))]  # HDF5 reads rising places only
    kind = spoken(body)
    about = f"a test image, above as it is, below with {kind}"
    clean, names = pool.pixels(rows[at]), named(pool.y[rows[at]], body["classes"])
    pairs = [_pasted(clean[[k]], changed[[k]]) for k in range(len(at))]
    drawn = [Figure(name, image=png(pair), about=about) for name, pair in zip(names, pairs, strict=True)]
    yield Panels(f"{kind[0].upper()}{kind[1:]}", drawn, legend=LEGEND, layout="strip")


def named(labels: np.ndarray, classes: list[str]) -> list[str]:
    """The class of each image, or its labels."""
    if labels.ndim == 1:
        return [classes[label] for label in labels]
    return [", ".join(classes[k] for k in np.flatnonzero(row == YES)) or "no label" for row in labels]


def chosen(labels: np.ndarray) -> np.ndarray:
    """Places of the images to show, by class: the first of each, then the second ones, until there are enough."""
    nth = np.zeros(len(labels), int)
    for label in np.unique(labels):
        nth[labels == label] = np.arange((labels == label).sum())
    at = np.lexsort((labels, nth))[:SHOWN]
    return at[np.argsort(labels[at], kind="stable")]


def _pasted(clean: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """Two rows of images uint8 [n, H, W, C] with white between them: [H', W'] or [H', W', 3]."""
    step = max(1, -(-SIDE // clean.shape[1]))
    rows = []
    for images in (clean, changed):
        images = images if images.shape[3] == 3 else images[..., [images.shape[3] // 2]]  # of a volume the middle slice
        images = images.repeat(step, 1).repeat(step, 2)
        images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=255)
        rows.append(np.concatenate(list(images), 1))
    whole = np.concatenate(rows)
    return whole if whole.shape[2] == 3 else whole[..., 0]


def png(picture: np.ndarray) -> str:
    """A picture uint8 [H, W] or [H, W, 3] as a data URI."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
