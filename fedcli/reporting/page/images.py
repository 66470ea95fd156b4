"""Test images as they are beside the same ones corrupted: those that the models are surely wrong
about, with what they say of them, then some of each class.
"""

import base64
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ... import console, leaves
from ...console import capital
from ...data import manifest
from ...data.corruption.mixture import spoken
from ...data.pool import CHANGED, pool_of
from ...figures import inline
from ...figures.inline import Drawing, Panels
from ...figures.kinds import find
from ...figures.kinds.errors import dataset_of
from ...figures.system import LARGEST, AnsweredImages, has_more_groups
from ...io.hdf5 import open_hdf5
from ...labels import YES
from ...scores.numbers import versions
from ...scores.parts import MODELS
from ..rows import Rows, SystemRow, scores_of, unique
from ..table import Section

SHOWN = 6  # images
LEGEND = "Test images: above as they are, below the same ones corrupted, with their class below."
EACH = 2  # errors of each group
ERRORS = (
    "The test images of {groups} that the last round's models are most confidently wrong "
    "about{noisy}, and their most likely class for each, with its probability. Look at these "
    "images before you send them on."
)
FIRST_RUN = " Of a method with several runs, these are the answers of the first: {which}."
TRAINED_ON = "Pictures of training images: look at them before you send this page on. {caption}"
SAMPLES = 8  # clients, and classes, of which training images are shown
SIDE = 96  # pixels on the page at least; smaller images are enlarged by whole steps


def section(compared: Rows) -> Section:
    """Errors of each group, and one strip of images per corruption that some system was trained
    with.
    """
    panels = list(_errors(compared))
    for path in dict.fromkeys(row.stage("corruption") for row in compared):
        if path:
            panels += _strip(path)
    return Section(
        "images",
        "Images, and what the models predict for them",
        panels=panels,
    )


def samples(compared: Rows) -> Section:
    """Training images of each client and class, a sheet for each data that was trained on.

    Raises FedcliError.
    """
    leaves.require("fedcli.figures.kinds.samples", "--samples")
    figure = find("samples")
    panels = []
    paths = [row.stage("corruption") or row.stage("partition") for row in compared]
    for path in dict.fromkeys(paths):
        if path is None:
            console.warn("--samples shows no images of runs over sites, which are not here")
            continue
        picture = figure.picture(path, most=SAMPLES)
        drawn = inline.of_picture(picture)
        legend = TRAINED_ON.format(caption=drawn.legend)
        sheet = replace(drawn, title="", legend=legend, layout="wide")
        panels.append(sheet)
    return Section("samples", "Images of each client, before training", panels=panels)


def _errors(compared: Rows) -> Iterator[Panels]:
    """By the first attribute that the systems were scored by; of several labels per image there are
    none.
    """
    first_row = compared[0]
    images = first_row.versions.get("clean")
    dataset = dataset_of(first_row.paths[0], first_row.scores)
    if not images or not dataset or images.y.ndim > 1:
        return
    answers = [row.versions.get("clean") for row in compared]
    if not all(answer and np.array_equal(answer.ids, images.ids) for answer in answers):
        return
    sure = np.mean([_sureness(answer.chances, images.y) for answer in answers if answer], axis=0)
    attribute = next(iter(first_row.scores.groups), "")
    words = versions(scores_of(compared))
    noisy = {} if first_row.scores.external else _changed(first_row.stage("corruption"))
    pool = pool_of(dataset)
    rows = {name: row for row, name in enumerate(pool.id.tolist())}
    head = "", MODELS[0], words[MODELS[1]] if MODELS[1] in first_row.versions else ""
    drawings = []
    groups = images.members(attribute)
    for group, _, members in groups[1:] if attribute else groups:
        for k in members[np.argsort(-sure[members], kind="stable")][:EACH]:
            if sure[k] > 0:
                row = rows[str(images.ids[k])]
                pixels = [pool.pixels(np.array([row]))[0]]
                if row in noisy:
                    pixels.append(noisy[row])
                answers_of = [_answers(system, k) for system in compared]
                drawings.append(
                    Drawing(
                        f"{group}, is {images.classes[images.y[k]]}",
                        image=png(_pasted(np.stack(pixels))),
                        about="; ".join(f"{label}: {clean}" for label, clean, _ in answers_of),
                        said=[head, *answers_of],
                    )
                )
    if drawings:
        title = "Most confident errors"
        if attribute:
            title += f" by {attribute}"
        versions_shown = f", as they are and {words[MODELS[1]]}" if noisy else ""
        legend = ERRORS.format(
            groups=LARGEST if has_more_groups(images, attribute) else "each group",
            noisy=versions_shown,
        )
        which = unique(row.scored[0].which for row in compared if row.runs > 1)
        if which:
            legend += FIRST_RUN.format(which=console.listed(which, "or"))
        yield Panels(title, drawings, legend=legend, layout="cases")


def _sureness(chances: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability of the predicted class [N] where it is wrong, else 0."""
    return np.where(chances.argmax(1) == y, 0.0, chances.max(1))


def _answers(row: SystemRow, k: int) -> tuple[str, str, str]:
    """A system and its most likely classes of an image as it is and corrupted, with their
    probabilities.
    """
    clean, corrupted = (_guess(row.versions.get(version), k) for version in MODELS)
    return row.label, clean, corrupted


def _guess(images: AnsweredImages | None, k: int) -> str:
    """The most likely class of an image, with its probability; "" where there is no answer."""
    if images is None:
        return ""
    chances = images.chances[k]
    return f"{images.classes[chances.argmax()]} {100 * chances.max():.0f}\N{NO-BREAK SPACE}%"


def _changed(path: Path | None) -> dict[int, np.ndarray]:
    """Row of the pool -> the test image corrupted."""
    if not path:
        return {}
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        return dict(zip(file["test/rows"][()].tolist(), file["test/x"][()]))


def _strip(path: Path) -> Iterator[Panels]:
    """Some test images of each class of a corruption, above as they are, below corrupted."""
    body = manifest.read(path).body
    pool = pool_of(manifest.above(path, "dataset"))
    with open_hdf5(path.parent / "changed.h5", CHANGED, hint="corrupt again") as file:
        rows = file["test/rows"][()]
        if not len(rows):
            return
        places = chosen(pool.single[rows])
        rising = np.sort(places)  # HDF5 reads no others
        changed = file["test/x"][rising][np.searchsorted(rising, places)]
    kind = spoken(body)
    text = f"a test image, above as it is, below with {kind}"
    clean = pool.pixels(rows[places])
    names = _named(pool.y[rows[places]], body["classes"])
    drawings = []
    for name, pair in zip(names, zip(clean, changed)):
        picture = png(_pasted(np.stack(pair), below=True))
        drawings.append(Drawing(name, image=picture, about=text))
    yield Panels(capital(kind), drawings, legend=LEGEND, layout="strip")


def _named(labels: np.ndarray, classes: list[str]) -> list[str]:
    """The class of each image, or its labels."""
    if labels.ndim == 1:
        return [classes[label] for label in labels]
    names = [", ".join(np.compress(row == YES, classes)) for row in labels]
    return [name or "no label" for name in names]


def chosen(labels: np.ndarray) -> np.ndarray:
    """Places of the images to show, by class: the first of each, then the second ones, until there
    are enough.
    """
    nth = np.zeros(len(labels), int)
    for label in np.unique(labels):
        nth[labels == label] = np.arange((labels == label).sum())
    places = np.lexsort((labels, nth))[:SHOWN]
    return places[np.argsort(labels[places], kind="stable")]


def _pasted(images: np.ndarray, *, below: bool = False) -> np.ndarray:
    """Images uint8 [n, H, W, C] beside each other, or below, with white around them: [H', W'] or
    [H', W', 3].
    """
    step = max(1, -(-SIDE // images.shape[1]))
    if images.shape[3] != 3:  # of a volume the middle slice
        images = images[..., [images.shape[3] // 2]]
    images = images.repeat(step, 1).repeat(step, 2)
    images = np.pad(
        images,
        ((0, 0), (2, 2), (2, 2), (0, 0)),
        constant_values=255,
    )
    picture = np.concatenate(list(images), 0 if below else 1)
    return picture if picture.shape[2] == 3 else picture[..., 0]


def png(picture: np.ndarray) -> str:
    """A picture uint8 [H, W] or [H, W, 3] as a data URI."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
