"""Mean features of classes at clients in the plane, before and behind Fed-MAS's projector.

Source: Fed-MAS (arXiv 2307.14959), figure 4: each point is the mean feature of a class at a client,
of head, medium and tail classes, with and without the projector; they do not say how points came
into the plane, here it is PCA or t-SNE of scikit-learn.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from ...seeds import derive
from ..drawing import COLOURS, SQUARE, Picture
from ..figure import Figure, register
from ..shapes import lines, panels, picture, titled

MARKERS = "os^Dv<>pPX*h8dH"
PERPLEXITY = 30.0  # of t-SNE, scikit-learn's; below a third of the points where they are few
NAMED = {"features": "without projector", "projected": "with projector"}


def frame(
    path: Path,
    *,
    reduce: Annotated[Literal["pca", "tsne"], "into the plane"] = "pca",
    seed: Annotated[int, "of the start of t-SNE"] = 0,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
) -> DataFrame:
    """space, client, class, x, y: a line per mean. Raises FedcliError, HashError."""
    from .. import trained  # torch

    run = trained.opened(path, device)
    lines = []
    means = []
    for *words, mean in trained.mean_features(run):
        lines.append(words)
        means.append(mean)
    table = DataFrame(lines, columns=["space", "client", "class"])
    for _, part in table.groupby("space"):
        features = np.stack([means[k] for k in part.index])
        points = in_the_plane(features, reduce, seed)
        table.loc[part.index, ["x", "y"]] = points
    label = run.manifest.body["label"]
    return titled(table, f"{label}: mean features of classes by client, {reduce}")


def in_the_plane(table: ndarray, reduce: str, seed: int) -> ndarray:
    """Points [M, D] -> [M, 2]; columns that never vary are zeros."""
    centred = table - table.mean(0)
    if len(table) < 3 or reduce == "pca":
        return _pca(centred)
    from sklearn.manifold import TSNE

    highest = (len(table) - 1) / 3
    perplexity = min(PERPLEXITY, highest)
    random = derive("t-SNE", seed) % 2**32
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=random)
    return tsne.fit_transform(centred).astype(float)


def _pca(centred: ndarray) -> ndarray:
    u, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    plane = (u * sizes)[:, :2]
    columns = np.arange(plane.shape[1])
    largest = np.abs(plane).argmax(0)
    signs = np.sign(plane[largest, columns])  # a singular vector has no sign of its own
    directions = np.where(signs == 0, 1, signs)
    plane = plane * directions
    missing = 2 - plane.shape[1]
    return np.pad(plane, ((0, 0), (0, missing)))


def draw(table: DataFrame) -> Picture:
    classes = table["class"].unique()
    clients = table["client"].unique()
    colours_of_classes = _colours(len(classes))
    colours = dict(zip(classes, colours_of_classes, strict=False))
    marks = {}
    legend = {}
    looks = {}
    for name, colour in colours.items():
        legend[name] = {"linewidth": 8, "color": colour}
    for k, client in enumerate(clients):
        marker = MARKERS[k % len(MARKERS)]
        marks[client] = {"marker": marker, "linestyle": ""}
        legend[client] = {"color": "#666666", **marks[client]}
        for name, colour in colours.items():
            looks[name, client] = {"color": colour, **marks[client]}
    title = NAMED.__getitem__ if table["space"].nunique() > 1 else str
    points = partial(lines, x="x", y="y", hue=["class", "client"], looks=looks)
    return picture(
        table,
        panels(table, "space", points, title),
        legend,
        size=SQUARE,
    )


def _colours(count: int) -> Sequence[Any]:
    """At least so many colours."""
    from matplotlib import colormaps

    if count <= len(COLOURS):
        return COLOURS
    colours = colormaps["turbo"]
    return [colours((k + 0.5) / count) for k in range(count)]


QUESTION = "How well do the model's features separate the classes at each client?"
register(Figure("features", QUESTION, "path", frame, draw))
