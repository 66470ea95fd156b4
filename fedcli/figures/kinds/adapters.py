"""FairLoRA's singular values by group, and how orthogonal its factors are.

Source: FairFedMed (arXiv 2508.00873), figure 4: S of every group, U'U and VV' of a trained adapter,
where U is the factor that images meet first; they do not say of which layer, here it is the last
that has S. They show that both products are near I; U begins at 0, so their cosines are drawn,
which no length hides.
"""

from pathlib import Path

import numpy as np
from pandas import DataFrame

from ..drawing import SQUARE, Axes, Picture
from ..figure import Figure, register
from ..shapes import matrix, panels, picture, titled, wide


def frame(path: Path) -> DataFrame:
    """matrix (S, U'U or VV'), row (of S a group), column, value. Raises FedcliError, HashError."""
    from .. import trained  # torch

    run = trained.opened(path, "cpu")
    layer, matrices, groups = trained.matrices(run)
    lines = []
    for name, table in matrices.items():
        for (row, column), value in np.ndenumerate(table.numpy()):
            row_name = groups[row] if name == "S" else str(row)
            lines.append((name, row_name, column, value))
    rank = matrices["S"].shape[1]
    label = run.manifest.body["label"]
    title = f"{label}: {layer}, rank {rank}"
    return titled(DataFrame(lines, columns=["matrix", "row", "column", "value"]), title)


def draw(table: DataFrame) -> Picture:
    return picture(table, panels(table, "matrix", _panel, _title), size=SQUARE)


def _title(name: str) -> str:
    values = "singular values" if name == "S" else "cosines"
    return f"{name}, {values}"


def _panel(part: DataFrame, axes: Axes) -> None:
    largest = 1.0
    if part["matrix"].iloc[0] == "S":
        highest = part["value"].abs().max()
        largest = float(highest) or 1.0
    cells = wide(part, "row", "column", "value")
    matrix(cells, axes, bar={}, cmap="RdBu_r", vmin=-largest, vmax=largest)


QUESTION = "What did FairLoRA's adapters learn for each group?"
register(Figure("adapters", QUESTION, "path", frame, draw))
