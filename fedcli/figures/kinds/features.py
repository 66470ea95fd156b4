"""Mean features of classes at clients in the plane, before and behind Fed-MAS's projector.

Source: Fed-MAS (arXiv 2307.14959), figure 4: each point is the mean feature of a class at a client, of head, medium and
tail classes, with and without the projector; they do not say how points came into the plane, here it is PCA or t-SNE of
scikit-learn.
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pandas import DataFrame

from ...seeds import derive
from ..drawing import COLOURS, SQUARE, Look, Picture
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
    points = trained.mean_features(run)
    table = DataFrame([point[:3] for point in points], columns=["space", "client", "class"])
    for _, part in table.groupby("space"):
        plane = in_the_plane(np.stack([points[k][3] for k in part.index]), reduce, seed)
        table.loc[part.index, ["x", "y"]] = plane
    return titled(
        table, f"{run.manifest.body['label']}: mean features of classes by client, {reduce}"
    )


def in_the_plane(table: np.ndarray, reduce: str, seed: int) -> np.ndarray:
    """Points [M, D] -> [M, 2]; columns that never vary are zeros."""
    centred = table - table.mean(0)
    if len(table) < 3 or reduce == "pca":
        u, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        plane = (u * sizes)[:, :2]
        largest = np.abs(plane).argmax(0)
        signs = np.sign(
            plane[largest, np.arange(plane.shape[1])]
        )  # a singular vector has no sign of its own
        plane = plane * np.where(signs == 0, 1, signs)
        return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(table) - 1) / 3)
    random = derive("t-SNE", seed) % 2**32
    return (
        TSNE(2, perplexity=perplexity, init="pca", random_state=random)
        .fit_transform(centred)
        .astype(float)
    )


def draw(table: DataFrame) -> Picture:
    from matplotlib import colormaps

    classes, clients = (list(table[column].unique()) for column in ("class", "client"))
    many = [colormaps["turbo"]((k + 0.5) / len(classes)) for k in range(len(classes))]
    shown = COLOURS if len(classes) <= len(COLOURS) else many
    colours: dict[str, Look] = {
        name: {"color": colour} for name, colour in zip(classes, shown, strict=False)
    }
    marked: list[Look] = [
        {"marker": MARKERS[k % len(MARKERS)], "linestyle": ""} for k in range(len(clients))
    ]
    marks = dict(zip(clients, marked, strict=True))
    looks = {(name, client): colours[name] | marks[client] for name in colours for client in marks}
    title = NAMED.__getitem__ if table["space"].nunique() > 1 else str
    legend = {name: {"linewidth": 8, **look} for name, look in colours.items()}
    legend |= {client: {"color": "#666666", **look} for client, look in marks.items()}
    points = partial(lines, x="x", y="y", hue=["class", "client"], looks=looks)
    return picture(table, panels(table, "space", points, title), legend, size=SQUARE)


register(
    Figure("features", "How does the model tell classes apart at each client?", "path", frame, draw)
)
