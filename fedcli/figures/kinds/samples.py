"""A sheet of training images: a row for each client, a column for each class.

A client whose training images are corrupted has two rows, the images as they were and below the
same ones corrupted. A seed draws the images, for each client and class apart from all others.
Classes are those before any change of labels.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pandas import DataFrame

from ...data import image_places
from ...data.corruption import mixture
from ...data.corruption.kinds import in_words
from ...data.manifest import read
from ...data.pool import Pool, holdings
from ...labels import YES
from ...seeds import derive
from ..drawing import Axes, Panel, Picture
from ..figure import Figure, register
from ..shapes import name_ticks, picture
from .counts import dataset_of, partition_of
from .errors import show_image

CELL = 0.85  # inches
MARGIN = 1.8  # inches of the names beside the cells
HALF = 0.47  # of a cell, from its middle to the edge of its image
LONG = 9  # letters of a class, from which the names stand upright
ABOUT = (
    "A training image of each client and class, drawn by seed {seed}, and for a "
    "noisy client, below it, the same image corrupted. {clients} of {roster} "
    "clients, {classes} of {known} classes."
)
Rows = list[tuple[str, dict[str, np.ndarray]]]  # name, and class -> uint8 [H, W, C]


def frame(
    path: Path,
    *,
    seed: Annotated[int, "of the draw of images"] = 0,
    most: Annotated[
        int,
        "clients, and classes, that are shown, >= 1; noisy clients come first, but leave half of "
        "the rows to others",
    ] = 10,
) -> DataFrame:
    """client, corruption ("" for none), class, image (its id). attrs hold the pixels.

    path: a dataset, partition or corruption, or a run of one.
    """
    source = partition_of(path, "dataset")
    body = read(source).body
    pool, parts_by_client, _ = holdings(source)
    hows = mixture.of_body(body)
    clients = shown(list(parts_by_client), list(hows), most)
    classes = body["classes"][:most]
    lines = []
    sheet: Rows = []
    for client in clients:
        training = parts_by_client[client]["train"]
        places = _drawn(pool, training, classes, (seed, client))
        drawn_rows = list(places.values())
        rows = np.array(drawn_rows, int)
        pixels = {"": pool.pixels(rows)}
        if client in hows and places:
            kind, severity = hows[client]
            files = image_places.places(source, pool, client, rows)
            words = f"{in_words(kind)} {severity}"
            pixels[words] = image_places.pixels(files)
        for words, images in pixels.items():
            images_by_class = dict(zip(places, images))
            sheet.append((words or client, images_by_class))
            for name, row in places.items():
                id = str(pool.id[row])
                lines.append((client, words, name, id))
    table = DataFrame(lines, columns=["client", "corruption", "class", "image"])
    caption = ABOUT.format(
        clients=len(clients),
        roster=len(parts_by_client),
        classes=len(classes),
        known=len(body["classes"]),
        seed=seed,
    )
    title = f"Images of each client: {dataset_of(source)}"
    table.attrs |= {"title": title, "caption": caption, "classes": classes, "sheet": sheet}
    return table


def shown(roster: list[str], noisy: list[str], count: int) -> list[str]:
    """At most so many clients: noisy ones, which leave half to others if there are any, first."""
    clean = [client for client in roster if client not in noisy]
    half = (count + 1) // 2
    noisy_count = max(half, count - len(clean))
    return [*noisy[:noisy_count], *clean][:count]


def _drawn(
    pool: Pool,
    rows: np.ndarray,
    classes: Sequence[str],
    key: tuple[int, str],
) -> dict[str, int]:
    """Class -> the row of an image, for each class that one of these rows has."""
    y = pool.y[rows]
    places = {}
    for k, name in enumerate(classes):
        has_class = y == k if y.ndim == 1 else y[:, k] == YES
        candidates = rows[has_class]
        count = len(candidates)
        if count:
            number = derive("sample image", *key, name)
            row = candidates[number % count]
            places[name] = int(row)
    return places


def draw(table: DataFrame) -> Picture:
    sheet = table.attrs["sheet"]
    classes = table.attrs["classes"]
    panel = Panel("", partial(_sheet, sheet, classes))
    width = MARGIN + CELL * len(classes)
    height = MARGIN / 2 + CELL * len(sheet)
    return picture(table, [panel], size=(width, height))


def _sheet(sheet: Rows, classes: Sequence[str], axes: Axes) -> None:
    """Draw each image around whole numbers, the first row at the top."""
    for i, (_, images) in enumerate(sheet):
        for name, image in images.items():
            height, width = image.shape[:2]
            axes.set_aspect(height / width)
            k = classes.index(name)
            extent = (k - HALF, k + HALF, i + HALF, i - HALF)
            show_image(image, axes, extent=extent)
    axes.set_axis_on()
    axes.set(xlim=(-0.5, len(classes) - 0.5), ylim=(len(sheet) - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    name_ticks(axes.xaxis, classes)
    name_ticks(axes.yaxis, [name for name, _ in sheet])
    axes.tick_params(length=0, labelsize=8)
    if max(map(len, classes)) > LONG:
        axes.tick_params(axis="x", rotation=90)


QUESTION = "What do the images of each client look like, before training?"
register(Figure("samples", QUESTION, "data", frame, draw))
