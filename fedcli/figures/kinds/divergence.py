"""Fed-MAS's divergence of each class at each client in the last round, beside the images that they hold.

Source: Fed-MAS (arXiv 2307.14959), figure 2(a): w_k of one round beside the counts of the clients together and of one
client, here of each.
"""

from functools import partial
from pathlib import Path

import numpy as np
from pandas import DataFrame

from ...data import image_counts
from ...errors import FedcliError
from .. import series
from ..drawing import Panel, Picture
from ..figure import Figure, register
from ..shapes import amounts, bars, picture, titled, wide
from .counts import IMAGES, SIZE
from .counts import frame as counted


def frame(path: Path) -> DataFrame:
    """A line per client and class (value): training images, and w of the last round, NaN without images.

    Raises FedcliError where the run recorded none.
    """
    from ...methods.fedmas import RECEIVED  # imports torch

    counts = counted(path)
    table = (
        counts[counts["attribute"] == image_counts.CLASS]
        .drop(columns="attribute")
        .reset_index(drop=True)
    )
    record = series.read(path)
    columns = [f"{RECEIVED}{k}" for k in range(table["value"].nunique())]
    if any(name not in record.series for name in columns):
        hint = "fedcli train fed-mas --set by_class=true"
        raise FedcliError(f"{record.folder} recorded no divergence by class", hint)
    curves = {
        value: record.series[name].curves
        for name, value in zip(columns, table["value"].unique(), strict=True)
    }
    last = {
        (client, value): curve[-1, 1]
        for value, of in curves.items()
        for client, curve in of.items()
    }
    w = [
        last.get((client, value), np.nan)
        for client, value in zip(table["client"], table["value"], strict=True)
    ]
    table["w"] = np.where(table["images"] > 0, w, np.nan)
    return titled(
        table, f"{record.label}: divergence from the teacher by class, in round {record.played}"
    )


def draw(table: DataFrame) -> Picture:
    images, w = (wide(table, "client", "value", number) for number in ("images", "w"))
    together = images.sum().to_frame("images")
    panels = [
        Panel("all clients", partial(bars, together, label=IMAGES)),
        Panel("by client", partial(amounts, images, label=IMAGES)),
        Panel("w by client", partial(amounts, w, label="w, mean over a class's images")),
    ]
    return picture(table, panels, size=SIZE)


register(
    Figure("divergence", "How far is each class from the teacher, by client?", "path", frame, draw)
)
