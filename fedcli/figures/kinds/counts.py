"""Training images of every class and attribute by client.

Sources: FairFedMed (arXiv 2508.00873), figure 2, and Fed-MAS (arXiv 2307.14959), figures 2(b) and 3(a), show counts.
Values up to SEVERAL stand as bars, more of them as a map whose empty cells are no images.
"""

from functools import partial
from pathlib import Path

import numpy as np
from pandas import DataFrame

from ...data import image_counts, manifest
from .. import drawing
from ..drawing import Axes, Panel, Picture
from ..figure import Figure, register

SEVERAL = len(drawing.COLOURS)  # values with a colour each
SIZE = 4.6, 3.2  # inches of a panel
IMAGES = "training images"


def frame(path: Path) -> DataFrame:
    """A line per attribute, client and value: its training images. The class is an attribute too.

    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    lines = []
    for name, clients in image_counts.of_manifest(source).items():
        training = {client: parts["train"] for client, parts in clients.items() if "train" in parts}
        values = list(dict.fromkeys(value for counts in training.values() for value in counts))
        lines += [(name, client, v, counts.get(v, 0)) for client, counts in training.items() for v in values]
    table = DataFrame(lines, columns=["attribute", "client", "value", "images"])
    body = manifest.read(source).body
    table.attrs["title"] = f"Who holds what: {body['dataset']}" + ", SYNTHETIC data" * bool(body.get("sample"))
    return table


def partition_of(path: Path) -> Path:
    """The partition or corruption manifest that a path is, or that a run's folder or manifest is of."""
    from ...runs.initial import data_of  # imports torch

    given = path / "run.json" if (path / "run.json").is_file() else path
    source = manifest.find(given, "run", "corruption", "partition")
    manifest.verify(source)
    return data_of(source) if manifest.read(source).kind == "run" else source


def draw(table: DataFrame) -> Picture:
    panels = [
        Panel(str(name), partial(_bars if part["value"].nunique() <= SEVERAL else _map, part))
        for name, part in table.groupby("attribute", sort=False)
    ]
    return Picture(table.attrs["title"], panels, size=SIZE)


def _bars(part: DataFrame, axes: Axes) -> None:
    """A bar for each client, cut by value."""
    counts = wide(part, "images")
    left = np.zeros(len(counts))
    for place, value in enumerate(counts):
        colour = drawing.COLOURS[place]
        axes.barh(np.arange(len(counts)), counts[value], left=left, color=colour, label=drawing.short(value))
        left = left + counts[value].to_numpy()
    drawing.name_ticks(axes.yaxis, counts.index)
    axes.invert_yaxis()
    axes.set_xlabel(IMAGES)
    axes.grid(False, axis="y")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _map(part: DataFrame, axes: Axes) -> None:
    drawing.table_map(axes, wide(part, "images"), IMAGES)


def wide(part: DataFrame, number: str) -> DataFrame:
    """Clients as rows, values as columns, both in the order in which they come."""
    table = part.pivot(index="client", columns="value", values=number)
    return table.loc[part["client"].unique(), part["value"].unique()]


register(Figure("counts", "Who holds how many images of which class and group?", "path", frame, draw))
