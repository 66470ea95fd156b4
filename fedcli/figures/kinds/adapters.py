"""FairLoRA's singular values by group, and how orthogonal its factors are.

Source: FairFedMed (arXiv 2508.00873), figure 4: S of every group, U'U and VV' of a trained adapter, where U is the
factor that images meet first; they do not say of which layer, here it is the last that has S. They show that both
products are near I; U begins at 0, so their cosines are drawn, which no length hides.
"""

from functools import partial
from pathlib import Path

import numpy as np
from pandas import DataFrame

from .. import drawing
from ..drawing import Axes, Panel, Picture
from ..figure import Figure, register

SQUARE = 4.1, 3.6  # inches


def frame(path: Path) -> DataFrame:
    """matrix (S, U'U or VV'), row (of S a group), column, value. Raises FedcliError, HashError."""
    from .. import trained  # torch

    run = trained.opened(path, "cpu")
    layer, matrices, groups = trained.matrices(run)
    lines = [
        (name, groups[row] if name == "S" else str(row), column, value)
        for name, matrix in matrices.items()
        for (row, column), value in np.ndenumerate(matrix.numpy())
    ]
    table = DataFrame(lines, columns=["matrix", "row", "column", "value"])
    table.attrs["title"] = f"{run.manifest.body['label']}: {layer}, rank {len(matrices['U' + chr(39) + 'U'])}"
    return table


def draw(table: DataFrame) -> Picture:
    panels = [
        Panel(str(name) if name == "S" else f"{name}, cosines", partial(_matrix, part))
        for name, part in table.groupby("matrix", sort=False)
    ]
    return Picture(table.attrs["title"], panels, size=SQUARE)


def _matrix(part: DataFrame, axes: Axes) -> None:
    rows, of_groups = part["row"].unique(), part["matrix"].iloc[0] == "S"
    matrix = part["value"].to_numpy().reshape(len(rows), -1)
    largest = float(np.abs(matrix).max()) or 1.0 if of_groups else 1.0
    image = axes.imshow(matrix, aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes.grid(False)
    axes.figure.colorbar(image, ax=axes)
    if of_groups:
        axes.set_yticks(np.arange(len(rows)), [drawing.short(group) for group in rows])
        axes.set_xlabel("singular value")


register(Figure("adapters", "What did FairLoRA's adapters learn for each group?", "path", frame, draw))
