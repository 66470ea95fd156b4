"""Who holds what, as pictures: training images of every class and attribute by client, and Fed-MAS's divergence.

Sources: FairFedMed (arXiv 2508.00873), figure 2, and Fed-MAS (arXiv 2307.14959), figures 2(b) and 3(a), show counts;
Fed-MAS's figure 2(a) shows w_k of one round beside the counts of the clients together and of one client, here of each.
Values up to SEVERAL stand as bars, more of them as a map whose empty cells are no images.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import image_counts, manifest
from ..errors import FedcliError
from ..methods.fedmas import RECEIVED
from ..runs.initial import data_of
from . import drawing
from .curves import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEVERAL = len(drawing.COLOURS)  # values with a colour each
SIZE = 4.6, 3.2  # inches of a panel
IMAGES = "training images"
FITTING = 30  # names of clients or classes along an axis; of more every second, third, ... stands there
Table = tuple[list[str], list[str], np.ndarray]  # clients, values, training images [K, V]


def partition_of(path: Path) -> Path:
    """The partition or corruption manifest that a path is, or that a run's folder or manifest is of."""
    given = path / "run.json" if (path / "run.json").is_file() else path
    source = manifest.find(given, "run", "corruption", "partition")
    manifest.verify(source)
    return data_of(source) if manifest.read(source).kind == "run" else source


def counts(source: Path) -> dict[str, Table]:
    """Class and each attribute -> who holds how many training images of which value."""
    tables = {}
    for name, clients in image_counts.of_manifest(source).items():
        training = {client: parts["train"] for client, parts in clients.items() if "train" in parts}
        values = list(dict.fromkeys(value for own in training.values() for value in own))
        numbers = [[own.get(value, 0) for value in values] for own in training.values()]
        tables[name] = list(training), values, np.array(numbers).reshape(len(training), len(values))
    return tables


def plot(source: Path, out: Path) -> dict[str, Any]:
    """Draw the counts of a partition or corruption into a .png or .svg file; returns them by name and client."""
    tables = counts(source)
    body = manifest.read(source).body
    title = f"Who holds what: {body['dataset']}" + ", SYNTHETIC data" * bool(body.get("sample"))
    drawing.draw(partial(_counts, tables, title), out)
    return {
        name: {client: dict(zip(values, row.tolist(), strict=True)) for client, row in zip(clients, table, strict=True)}
        for name, (clients, values, table) in tables.items()
    }


def plot_divergence(record: Record, source: Path, out: Path) -> dict[str, Any]:
    """Draw w_k by class of a run's last round beside the counts of classes; returns w by client.

    Raises FedcliError where the run recorded none.
    """
    clients, classes, table = counts(source)[image_counts.CLASS]
    curves = [record.series.get(f"{RECEIVED}{k}") for k in range(len(classes))]
    if None in curves:
        raise FedcliError(
            f"{record.folder} recorded no divergence by class", "fedcli train fed-mas --set by_class=true"
        )
    w = np.array([[series.curves[client][-1, 1] if client in series.curves else np.nan for series in curves if series]
                  for client in clients])  # fmt: skip
    w = np.where(table > 0, w, np.nan)  # [K, C]; a class without images has no divergence
    title = f"{record.label}: divergence from the teacher by class, in round {record.played}"
    drawing.draw(partial(_divergence, clients, classes, table, w, title), out)
    return {client: [None if np.isnan(v) else v for v in row] for client, row in zip(clients, w.tolist(), strict=True)}


def _counts(tables: dict[str, Table], title: str) -> "Figure":
    figure, axes = drawing.panels(len(tables), title, SIZE, one_axis=False)
    for panel, (name, (clients, values, table)) in zip(axes, tables.items(), strict=True):
        panel.set_title(name, loc="left")
        (_bars if len(values) <= SEVERAL else _map)(panel, clients, values, table)
    return figure


def _bars(axes: "Axes", clients: list[str], values: list[str], table: np.ndarray) -> None:
    """A bar for each client, cut by value."""
    left = np.zeros(len(clients))
    for k, value in enumerate(values):
        axes.barh(np.arange(len(clients)), table[:, k], left=left, color=drawing.COLOURS[k], label=drawing.short(value))
        left = left + table[:, k]
    _names(axes.yaxis, clients)
    axes.invert_yaxis()
    axes.set_xlabel(IMAGES)
    axes.grid(False, axis="y")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _map(axes: "Axes", clients: list[str], values: list[str], table: np.ndarray, label: str = IMAGES) -> None:
    """A cell for each client and value; those of 0 or without a number stay white."""
    from matplotlib.colors import LogNorm, Normalize

    shown = np.ma.masked_where(~(table > 0), table)
    far = shown.count() > 0 and drawing.spread_far(shown.compressed()) == "log"
    image = axes.imshow(shown, aspect="auto", cmap="viridis", norm=LogNorm() if far else Normalize(vmin=0))
    _names(axes.yaxis, clients)
    _names(axes.xaxis, values)
    axes.tick_params(axis="x", rotation=90, labelsize=8)
    axes.grid(False)
    axes.figure.colorbar(image, ax=axes, label=label)


def _divergence(clients: list[str], classes: list[str], table: np.ndarray, w: np.ndarray, title: str) -> "Figure":
    figure, (whole, local, distance) = drawing.panels(3, title, SIZE, one_axis=False)
    whole.bar(np.arange(len(classes)), table.sum(0), color=drawing.COLOURS[0])
    whole.set_title("all clients", loc="left")
    whole.set_ylabel(IMAGES)
    drawing.stretch(whole, table.sum(0))
    _names(whole.xaxis, classes)
    whole.tick_params(axis="x", rotation=90, labelsize=8)
    local.set_title("by client", loc="left")
    _map(local, clients, classes, table)
    distance.set_title("w by client", loc="left")
    _map(distance, clients, classes, w, "w, mean over a class's images")
    return figure


def _names(axis: Any, names: list[str]) -> None:
    step = -(-len(names) // FITTING)
    at = np.arange(0, len(names), step)
    axis.set_ticks(at, [drawing.short(names[k]) for k in at])
