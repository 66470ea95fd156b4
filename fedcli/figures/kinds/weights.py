"""The weight that the server gave each client over the rounds, a panel per system on one scale.

Each client has its colour, or, of many, clean and corrupted ones have one; a dashed line is a corrupted client's.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas
from pandas import DataFrame

from ..drawing import MANY, Axes, Look, Picture
from ..figure import Figure, NothingToDraw, register
from ..series import Record
from ..shapes import lines, panels, picture

CORRUPTED = "--"  # of a corrupted client's line
CROWD = 60  # clients whose lines cannot be followed any more
SPANS = (0.0, 1.0, 0.15), (0.1, 0.9, 0.3)  # quantiles, and how dark what lies between them is
THIN: Look = {"linewidth": 1.4, "markersize": 3}
COLUMNS = ["system", "client", "corrupted", "round", "weight"]
ABOUT = "The share that the server gives each client's model, round by round; of several seeds the mean."
CROWDED = " The line is the median client; half dark, clients from the 10th to the 90th percentile; light, all."


def frame(runs: Mapping[str, list[Record]]) -> DataFrame:
    """system, client, corrupted, round, weight: the mean over runs, NaN in rounds without the client.

    Clients that never took part are left out. Raises NothingToDraw where all are.
    """
    parts = [DataFrame(columns=COLUMNS)]
    for name, records in runs.items():
        known = [
            record.series["weights"].frame() for record in records if "weights" in record.series
        ]
        if not known:
            continue
        by_client = (
            pandas.concat(known)
            .groupby(["client", "round"], sort=False)["value"]
            .mean()
            .unstack(sort=False)
        )
        table = by_client.sort_index(axis=1).stack(future_stack=True).rename("weight").reset_index()
        corrupted = {client for record in records for client in record.corrupted}
        table = table[table.groupby("client")["weight"].transform("count") > 0]
        parts.append(table.assign(system=name, corrupted=table["client"].isin(corrupted))[COLUMNS])
    table = pandas.concat(parts[1:] or parts)
    if table.empty:
        raise NothingToDraw(
            "no run recorded weights of clients", "clients that train alone have none"
        )
    return table


def draw(table: DataFrame) -> Picture:
    looks, groups = client_looks(table), table.groupby("system", sort=False)
    crowded = bool((groups["client"].nunique() > CROWD).any())
    whose = "clients'" if crowded else "client's"
    dashed = f" A dashed line is a corrupted {whose}." if table["corrupted"].any() else ""
    table.attrs |= {
        "title": "Weights in the aggregation",
        "caption": ABOUT + dashed + CROWDED * crowded,
    }
    drawn = partial(_panel, looks, 1.05 * table["weight"].max())
    shown = panels(table, "system", drawn, about="weight of each client over rounds")
    return picture(table, shown, _legend(table, looks), below="round")


def client_looks(table: DataFrame) -> dict[str, Look]:
    """Of each client the colour and the dashes of its line."""
    clients = table.groupby("client", sort=False)["corrupted"].any()
    few = len(clients) <= len(MANY)
    return {
        str(name): {
            "color": MANY[place if few else int(corrupted)],
            "linestyle": CORRUPTED if corrupted else "-",
        }
        for place, (name, corrupted) in enumerate(clients.items())
    }


def _legend(table: DataFrame, looks: dict[str, Look]) -> dict[str, Look]:
    """A line per client; of many, one for each kind."""
    corrupted = set(table[table["corrupted"]]["client"])
    if len(looks) <= len(MANY):
        return {
            f"{name} (corrupted)" if name in corrupted else name: look
            for name, look in looks.items()
        }
    kinds = {
        ("corrupted client" if name in corrupted else "clean client"): look
        for name, look in looks.items()
    }
    return dict(sorted(kinds.items())) if corrupted else {"one client": next(iter(looks.values()))}


def _panel(looks: dict[str, Look], top: float, part: DataFrame, axes: Axes) -> None:
    """A line of each client; of a crowd, its median and how the weights are spread, clean and corrupted apart."""
    how: dict[str, Any] = {"x": "round", "ylim": (0, top)}
    if part["client"].nunique() <= CROWD:
        thin = {name: {"alpha": 0.85} | THIN | look for name, look in looks.items()}
        lines(part, axes, y="weight", hue="client", looks=thin, **how)
        return
    kinds = {
        corrupted: THIN | looks[clients.iloc[0]]
        for corrupted, clients in part.groupby("corrupted")["client"]
    }
    spread = (
        part.groupby(["corrupted", "round"])["weight"]
        .quantile([0.0, 0.1, 0.5, 0.9, 1.0])
        .unstack()
        .reset_index()
    )
    for low, high, shade in SPANS:
        lines(
            spread,
            axes,
            y=0.5,
            hue="corrupted",
            looks=kinds,
            bounds=(low, high),
            shade=shade,
            **how,
        )


register(
    Figure(
        "weights",
        "How much did each client count in the aggregation?",
        "methods",
        frame,
        draw,
        every=True,
    )
)
