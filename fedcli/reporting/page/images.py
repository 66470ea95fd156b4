"""Test images as they are beside the same ones corrupted: those that the models are surely wrong about, with what they
say of them, then some of each class."""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ...console import capital
from ...data import manifest
from ...data.corruption.mixture import spoken
from ...data.pool import CHANGED, pool_of
from ...figures.inline import Drawing, Panels
from ...figures.kinds.errors import dataset_of
from ...figures.system import AnsweredImages
from ...io.hdf5 import open_hdf5
from ...labels import YES
from ...scores.numbers import versions
from ...scores.parts import MODELS
from ..rows import Row
from ..table import Section

SHOWN = 6  # images
LEGEND = "Test images, above as they are, below the same ones corrupted; the class of each stands below it."
EACH = 2  # errors of each group
ERRORS = (
    "The test images of each group that the last round's models are most surely wrong about{noisy}, and their most "
    "likely class for each, with its probability. Look at these images before you send them on."
)
SIDE = 96  # pixels on the page at least; smaller images are enlarged by whole steps


def section(compared: Sequence[Row]) -> Section:
    """Errors of each group, and one strip of images per corruption that some system was trained with."""
    paths = dict.fromkeys(path for row in compared if (path := row.stage("corruption")))
    strips = [strip for path in paths for strip in _strip(path)]
    return Section(
        "images", "Images, and what the models say of them", panels=[*_errors(compared), *strips]
    )


def _errors(compared: Sequence[Row]) -> Iterator[Panels]:
    """By the first attribute that the systems were scored by; of several labels per image there are none."""
    seen = [(row, row.versions) for row in compared]
    first = compared[0]
    images = first.versions.get("clean")
    dataset = dataset_of(first.paths[0], first.scores)
    alike = all(
        "clean" in of and np.array_equal(of["clean"].ids, images.ids) for _, of in seen if images
    )
    if not images or not dataset or not alike or images.y.ndim > 1:
        return
    answers = [of["clean"].chances for _, of in seen]  # of the predicted class where it is wrong
    sure = np.mean(
        [np.where(each.argmax(1) == images.y, 0.0, each.max(1)) for each in answers], axis=0
    )  # [N]
    by, pool = next(iter(first.scores.groups), ""), pool_of(dataset)
    places = {name: row for row, name in enumerate(pool.id.tolist())}
    noisy = None if first.scores.external else _changed(compared[0].stage("corruption"))
    drawn, words = [], versions(scores for row in compared for scores in row.each)
    head = "", MODELS[0], words[MODELS[1]] if MODELS[1] in first.versions else ""
    for group, _, members in images.members(by)[1 if by else 0 :]:
        for k in members[np.argsort(-sure[members], kind="stable")][:EACH]:
            if sure[k] > 0:
                row, true = places[str(images.ids[k])], images.classes[images.y[k]]
                pixels = [
                    pool.pixels(np.array([row]))[0],
                    *([noisy[row]] if noisy and row in noisy else []),
                ]
                said = [
                    (each.label, *(_guess(of, version, k) for version in MODELS))
                    for each, of in seen
                ]
                about = "; ".join(f"{label}: {clean}" for label, clean, _ in said)
                shown = png(_pasted(np.stack(pixels)))
                drawn.append(
                    Drawing(f"{group}, is {true}", image=shown, about=about, said=[head, *said])
                )
    legend = ERRORS.format(noisy=f", as they are and {words[MODELS[1]]}" * bool(noisy))
    if drawn:
        yield Panels(
            f"Most confident errors{f' by {by}' if by else ''}",
            drawn,
            legend=legend,
            layout="cases",
        )


def _guess(of: Mapping[str, AnsweredImages], version: str, k: int) -> str:
    """A model's most likely class of an image, with its probability; "" where it was not asked for this version."""
    if version not in of:
        return ""
    chances = of[version].chances[k]
    return f"{of[version].classes[chances.argmax()]} {100 * chances.max():.0f}\N{NO-BREAK SPACE}%"


def _changed(path: Path | None) -> dict[int, np.ndarray]:
    """Row of the pool -> the test image corrupted."""
    if not path:
        return {}
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        return dict(zip(file["test/rows"][()].tolist(), file["test/x"][()], strict=True))


def _strip(path: Path) -> Iterator[Panels]:
    body, pool = manifest.read(path).body, pool_of(manifest.above(path, "dataset"))
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        rows = file["test/rows"][()]
        if not len(rows):
            return
        at = chosen(pool.single[rows])
        changed = file["test/x"][np.sort(at)][
            np.argsort(np.argsort(at))
        ]  # HDF5 reads rising places only
    kind = spoken(body)
    about = f"a test image, above as it is, below with {kind}"
    clean, names = pool.pixels(rows[at]), named(pool.y[rows[at]], body["classes"])
    pairs = [_pasted(np.stack([clean[k], changed[k]]), below=True) for k in range(len(at))]
    drawn = [
        Drawing(name, image=png(pair), about=about) for name, pair in zip(names, pairs, strict=True)
    ]
    yield Panels(capital(kind), drawn, legend=LEGEND, layout="strip")


def named(labels: np.ndarray, classes: list[str]) -> list[str]:
    """The class of each image, or its labels."""
    if labels.ndim == 1:
        return [classes[label] for label in labels]
    return [
        ", ".join(classes[k] for k in np.flatnonzero(row == YES)) or "no label" for row in labels
    ]


def chosen(labels: np.ndarray) -> np.ndarray:
    """Places of the images to show, by class: the first of each, then the second ones, until there are enough."""
    nth = np.zeros(len(labels), int)
    for label in np.unique(labels):
        nth[labels == label] = np.arange((labels == label).sum())
    at = np.lexsort((labels, nth))[:SHOWN]
    return at[np.argsort(labels[at], kind="stable")]


def _pasted(images: np.ndarray, *, below: bool = False) -> np.ndarray:
    """Images uint8 [n, H, W, C] beside each other, or below, with white around them: [H', W'] or [H', W', 3]."""
    step = max(1, -(-SIDE // images.shape[1]))
    images = (
        images if images.shape[3] == 3 else images[..., [images.shape[3] // 2]]
    )  # of a volume the middle slice
    images = images.repeat(step, 1).repeat(step, 2)
    images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=255)
    whole = np.concatenate(list(images), 0 if below else 1)
    return whole if whole.shape[2] == 3 else whole[..., 0]


def png(picture: np.ndarray) -> str:
    """A picture uint8 [H, W] or [H, W, 3] as a data URI."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(picture).save(out, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
