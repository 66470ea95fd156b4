"""What a trained model holds, as pictures: mean features by class and client, and FairLoRA's matrices.

Sources: Fed-MAS (arXiv 2307.14959), figure 4: each point is the mean feature of a class at a client, of head, medium
and tail classes, with and without the projector; they do not say how points came into the plane, here it is PCA or
t-SNE of scikit-learn. FairFedMed (arXiv 2508.00873), figure 4: S of every group, U'U and VV' of a trained adapter,
where U is the factor that images meet first; they do not say of which layer, here it is the last that has S. They show
that both products are near I; U begins at 0, so their cosines are drawn, which no length hides.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..data.shard import Shard
from ..errors import FedcliError, UsageError
from ..methods import adapters
from ..runs import finished as runs
from ..seeds import derive
from . import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOSEN = 9  # classes of a picture: three with most images, three in the middle, three with fewest
MARKERS = "os^Dv<>pPX*h8dH"
SQUARE = 4.1, 3.6  # inches
REDUCTIONS = "pca", "tsne"
PERPLEXITY = 30.0  # of t-SNE, scikit-learn's; below a third of the points where they are few


@dataclass(frozen=True)
class Means:
    """Mean features of classes at clients, each a point.

    Attributes:
        clients, classes: names of all that points are of.
        at: client and class of each point [M, 2].
        features: what -> [M, D]: "features" before the projector, "projected" behind it where there is one.
    """

    clients: list[str]
    classes: list[str]
    at: np.ndarray
    features: dict[str, np.ndarray]


def plot_features(
    folder: Path, out: Path, *, reduce: str = "pca", seed: int = 0, device: str = "cpu"
) -> dict[str, Any]:
    """Draw a run's mean features into a .png or .svg file; returns the points in the plane.

    reduce: pca or tsne. seed: of t-SNE's start. Raises FedcliError, UsageError, HashError.
    """
    if reduce not in REDUCTIONS:
        raise UsageError(f"--reduce {reduce!r} is unknown", f"give one of {', '.join(REDUCTIONS)}")
    run = _opened(folder, device)
    means = mean_features(run)
    points = {name: in_the_plane(table, reduce, seed) for name, table in means.features.items()}
    label = run.manifest.body["label"]
    drawing.draw(partial(_points, means, points, f"{label}: mean features of classes by client, {reduce}"), out)
    named = [(means.clients[client], means.classes[k]) for client, k in means.at]
    return {
        what: [{"client": client, "class": k, "x": x, "y": y} for (client, k), (x, y) in zip(named, xy, strict=True)]
        for what, xy in ((name, table.tolist()) for name, table in points.items())
    }


def plot_adapters(folder: Path, out: Path) -> dict[str, Any]:
    """Draw the matrices of a run's last adapter into a .png or .svg file and return them.

    Raises FedcliError, HashError.
    """
    run = _opened(folder, "cpu")
    having = [roles for roles in adapters.roles(run.layout) if roles.S]
    if not having:
        hint = "give a run of fairlora or svd-lora"
        raise FedcliError(f"{folder} has no adapter with singular values", hint)
    tensors = run.layout.named(run.layout.read())
    u, s, v = (
        tensors[name].double() for name in (having[-1].A, having[-1].S, having[-1].B)
    )  # [in, r], [G, r], [r, out]
    matrices = {"S": s.reshape(-1, s.shape[-1]), "U'U": _cosines(u.T), "VV'": _cosines(v)}
    shown = {name: matrix.numpy() for name, matrix in matrices.items()}
    groups = _groups(run, len(shown["S"]))
    layer = having[-1].A.removesuffix(".A")
    title = f"{run.manifest.body['label']}: {layer}, rank {len(shown['VV' + chr(39)])}"
    drawing.draw(partial(_matrices, shown, groups, title), out)
    return {"layer": layer, "groups": groups, **{name: matrix.tolist() for name, matrix in shown.items()}}


def _cosines(vectors: Tensor) -> Tensor:
    """[r, n] -> [r, r]: near I where the vectors are orthogonal, however long they are; 0 of one without a length."""
    directions = functional.normalize(vectors)
    return directions @ directions.T


def _opened(folder: Path, device: str) -> runs.Run:
    """A run with its last global model in its network."""
    run = runs.open_run(folder, device)
    if runs.trains_alone(run):
        raise FedcliError(f"the clients of {folder} trained alone, so it has no global model", "draw another run")
    runs.load_model(run, run.rounds[-1])
    return run


def _groups(run: runs.Run, count: int) -> list[str]:
    """Names of the rows of S: the values of the attribute that the run's groups are of, or "all"."""
    attribute = run.manifest.body["settings"].get("attribute") or next(iter(run.data.attributes), "")
    values = run.data.attributes.get(attribute, [])
    return values if len(values) == count else ["all"] * (count == 1) or [f"group {k}" for k in range(count)]


@torch.inference_mode()
def mean_features(run: runs.Run) -> Means:
    """Of the chosen classes at every client that has training images of them."""
    if next(iter(run.data.train.values())).multi_label:
        what = f"features are shown by class, and images of {run.data.body['dataset']} have several labels"
        raise FedcliError(what, "--show counts or --show adapters")
    run.net.eval()
    counts = {client: np.bincount(shard.y.cpu().numpy(), minlength=len(run.data.classes))
              for client, shard in run.data.train.items()}  # fmt: skip
    chosen = some_classes(sum(counts.values()))
    clients, at, rows = list(counts), [], []
    for k, (client, shard) in enumerate(run.data.train.items()):
        known = [c for c in chosen if counts[client][c]]
        if known:
            sums = _sums(run, shard, len(run.data.classes))
            rows += [
                {name: (table[c] / counts[client][c]).cpu().numpy() for name, table in sums.items()} for c in known
            ]
            at += [(k, c) for c in known]
    tables = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Means(clients, run.data.classes, np.array(at), tables)


def _sums(run: runs.Run, shard: Shard, classes: int) -> dict[str, Tensor]:
    """What -> sum of the features of each class's images [C, D]."""
    sums: dict[str, Tensor] = {}
    projector = getattr(run.net, "projector", None)
    for batch in shard.in_order():
        z = run.net.features(batch.x)
        whole = {"features": z} | ({"projected": projector(z)} if projector is not None else {})
        for name, table in whole.items():
            flat = (table.mean(1) if table.ndim == 3 else table).double()  # [B, D]; of tokens the mean
            sums.setdefault(name, flat.new_zeros(classes, flat.shape[1])).index_add_(0, batch.y, flat)
    return sums


def some_classes(counts: np.ndarray) -> list[int]:
    """At most CHOSEN classes by their training images [C]: a third each from the head, the middle and the tail."""
    order = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    if len(order) <= CHOSEN:
        return order
    third, middle = CHOSEN // 3, len(order) // 2
    return [*order[:third], *order[middle - third // 2 : middle + third - third // 2], *order[-third:]]


def in_the_plane(table: np.ndarray, reduce: str, seed: int) -> np.ndarray:
    """Points [M, D] -> [M, 2]; columns that never vary are zeros."""
    centred = table - table.mean(0)
    if len(table) < 3 or reduce == "pca":
        u, sizes, _ = np.linalg.svd(centred, full_matrices=False)
        plane = (u * sizes)[:, :2]
        largest = np.abs(plane).argmax(0)
        signs = np.sign(plane[largest, np.arange(plane.shape[1])])  # a singular vector has no sign of its own
        plane = plane * np.where(signs == 0, 1, signs)
        return np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(table) - 1) / 3)
    random = derive("t-SNE", seed) % 2**32
    return TSNE(2, perplexity=perplexity, init="pca", random_state=random).fit_transform(centred).astype(float)


def _points(means: Means, points: dict[str, np.ndarray], title: str) -> "Figure":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = drawing.panels(len(points), title, SQUARE, one_axis=False)
    shown = list(dict.fromkeys(means.at[:, 1].tolist()))
    colours = {k: _colour(place, len(shown)) for place, k in enumerate(shown)}
    named = {"features": "without projector", "projected": "with projector"} if len(points) > 1 else {}
    for panel, (name, plane) in zip(axes, points.items(), strict=True):
        panel.set_title(named.get(name, name), loc="left")
        for (client, k), (x, y) in zip(means.at.tolist(), plane, strict=True):
            panel.plot(x, y, marker=MARKERS[client % len(MARKERS)], color=colours[k], linestyle="")
    legend: dict[str, Any] = {means.classes[k]: Patch(color=colours[k]) for k in shown}
    for client in dict.fromkeys(means.at[:, 0].tolist()):
        mark = MARKERS[client % len(MARKERS)]
        legend[means.clients[client]] = Line2D([], [], color="#666666", marker=mark, linestyle="")
    drawing.name_all(figure, legend)
    return figure


def _colour(place: int, count: int) -> Any:
    from matplotlib import colormaps

    return drawing.COLOURS[place] if count <= len(drawing.COLOURS) else colormaps["turbo"]((place + 0.5) / count)


def _matrices(shown: dict[str, np.ndarray], groups: list[str], title: str) -> "Figure":
    figure, axes = drawing.panels(len(shown), title, SQUARE, one_axis=False)
    for panel, (name, matrix) in zip(axes, shown.items(), strict=True):
        panel.set_title(name if name == "S" else f"{name}, cosines", loc="left")
        _matrix(panel, matrix, float(np.abs(matrix).max()) or 1.0 if name == "S" else 1.0)
        if name == "S":
            panel.set_yticks(np.arange(len(groups)), [drawing.short(group) for group in groups])
            panel.set_xlabel("singular value")
    return figure


def _matrix(axes: "Axes", matrix: np.ndarray, largest: float) -> None:
    image = axes.imshow(matrix, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes.grid(False)
    axes.figure.colorbar(image, ax=axes)
