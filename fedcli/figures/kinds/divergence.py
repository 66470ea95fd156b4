"""Fed-MAS's divergence of each class at each client in the last round, and the images they hold.

Source: Fed-MAS (arXiv 2307.14959), figure 2(a): w_k of one round beside the counts of the clients
together and of one client, here of each.
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
    """A line per client and class (value): training images, and w of the last round.

    w is NaN without images. Raises FedcliError where the run recorded none.
    """
    from ...methods.fedmas import RECEIVED  # imports torch

    counts = counted(path)
    of_class = counts[counts["attribute"] == image_counts.CLASS]
    table = of_class.drop(columns="attribute").reset_index(drop=True)
    record = series.read(path)
    last: dict[tuple[str, str], float] = {}
    for k, value in enumerate(table["value"].unique()):
        name = f"{RECEIVED}{k}"
        if name not in record.series:
            hint = "fedcli train fed-mas --set by_class=true"
            raise FedcliError(f"{record.folder} recorded no divergence by class", hint)
        for client, curve in record.series[name].curves.items():
            last[client, value] = curve[-1, 1]
    keys = zip(table["client"], table["value"])
    w = [last.get(key, np.nan) for key in keys]
    has_images = table["images"] > 0
    table["w"] = np.where(has_images, w, np.nan)
    title = f"{record.label}: divergence from the teacher by class, in round {record.played}"
    return titled(table, title)


def draw(table: DataFrame) -> Picture:
    images = wide(table, "client", "value", "images")
    w = wide(table, "client", "value", "w")
    together = images.sum().to_frame("images")
    all_clients = Panel("all clients", partial(bars, together, label=IMAGES))
    by_client = Panel("by client", partial(amounts, images, label=IMAGES))
    divergence = partial(amounts, w, label="w, mean over a class's images")
    panels = [all_clients, by_client, Panel("w by client", divergence)]
    return picture(table, panels, size=SIZE)


QUESTION = "How far is each class from the teacher, by client?"
register(Figure("divergence", QUESTION, "path", frame, draw))
