"""The weight that the server gave each client over the rounds, a panel per system on one scale.

Each client has its colour, or, of many, clean and corrupted ones have one; a dashed line is a corrupted client's.
"""

from collections.abc import Mapping
from functools import partial

import pandas
from pandas import DataFrame

from ...errors import FedcliError
from .. import drawing
from ..drawing import MANY, Axes, Look, Panel, Picture
from ..figure import Figure, register
from ..series import Record

CORRUPTED = "--"  # of a corrupted client's line
CROWD = 60  # clients whose lines cannot be followed any more
SPANS = (0, 100, 0.15), (10, 90, 0.3)  # percentiles, and how dark what lies between them is
ABOUT = "The share that the server gives each client's model, round by round; of several seeds the mean."
CROWDED = " The line is the median client; half dark, clients from the 10th to the 90th percentile; light, all."


def frame(runs: Mapping[str, list[Record]]) -> DataFrame:
    """system, client, corrupted, round, weight: the mean over runs, NaN in rounds without the client.

    Clients that never took part are left out. Raises FedcliError where all are.
    """
    table = of_systems(runs)
    if table.empty:
        raise FedcliError("no run recorded weights of clients", "clients that train alone have none")
    return table


def of_systems(runs: Mapping[str, list[Record]]) -> DataFrame:
    """The frame, without lines where no run recorded weights."""
    parts = []
    for name, records in runs.items():
        known = [record.series["weights"].frame() for record in records if "weights" in record.series]
        if not known:
            continue
        by_client = pandas.concat(known).groupby(["client", "round"], sort=False)["value"].mean().unstack(sort=False)
        table = by_client.sort_index(axis=1).stack(future_stack=True).rename("weight").reset_index()
        corrupted = {client for record in records for client in record.corrupted}
        table = table[table.groupby("client")["weight"].transform("count") > 0]
        parts.append(table.assign(system=name, corrupted=table["client"].isin(corrupted)))
    columns = ["system", "client", "corrupted", "round", "weight"]
    return pandas.concat(parts)[columns] if parts else DataFrame(columns=columns)


def draw(table: DataFrame) -> Picture:
    looks = client_looks(table)
    top = 1.05 * table["weight"].max()
    groups = table.groupby("system", sort=False)
    panels = [
        Panel(str(name), partial(_panel, part, looks, top), "weight of each client over rounds")
        for name, part in groups
    ]  # fmt: skip
    crowded = (groups["client"].nunique() > CROWD).any()
    whose = "clients'" if crowded else "client's"
    caption = (
        ABOUT + f" A dashed line is a corrupted {whose}." * bool(table["corrupted"].any()) + CROWDED * bool(crowded)
    )
    return Picture("Weights in the aggregation", panels, _legend(table, looks), caption, below="round")


def client_looks(table: DataFrame) -> dict[str, Look]:
    """Of each client the colour and the dashes of its line."""
    clients = table.groupby("client", sort=False)["corrupted"].any()
    few = len(clients) <= len(MANY)
    return {
        str(name): {"color": MANY[place if few else int(corrupted)], "linestyle": CORRUPTED if corrupted else "-"}
        for place, (name, corrupted) in enumerate(clients.items())
    }


def _legend(table: DataFrame, looks: dict[str, Look]) -> dict[str, Look]:
    """A line per client; of many, one for each kind."""
    corrupted = set(table[table["corrupted"]]["client"])
    if len(looks) <= len(MANY):
        return {f"{name} (corrupted)" if name in corrupted else name: look for name, look in looks.items()}
    kinds = {("corrupted client" if name in corrupted else "clean client"): look for name, look in looks.items()}
    return dict(sorted(kinds.items())) if corrupted else {"one client": next(iter(looks.values()))}


def _panel(part: DataFrame, looks: dict[str, Look], top: float, axes: Axes) -> None:
    if part["client"].nunique() > CROWD:
        _spread(part, looks, axes)
    else:
        for client, curve in part.groupby("client", sort=False):
            how = {"linewidth": 1.4, "alpha": 0.85, "markersize": 3, **looks[str(client)]}
            drawing.line(axes, curve[["round", "weight"]].to_numpy(float), **how)
    axes.set_ylim(0, top)
    drawing.rounds_axis(axes)


def _spread(part: DataFrame, looks: dict[str, Look], axes: Axes) -> None:
    """Of each kind of client how the weights are spread, however many clients there are."""
    for _, curves in part.groupby("corrupted"):
        look = looks[curves["client"].iloc[0]]
        by_round = curves.groupby("round")["weight"]
        there = by_round.count() > 0  # the rounds in which some of them took part
        for low, high, alpha in SPANS:
            bounds = by_round.quantile([low / 100, high / 100]).unstack()[there].to_numpy()
            axes.fill_between(there.index[there], *bounds.T, color=look["color"], alpha=alpha, linewidth=0)
        drawing.line(axes, by_round.median().reset_index().to_numpy(float), linewidth=1.4, markersize=3, **look)


register(Figure("weights", "How much did each client count in the aggregation?", "methods", frame, draw, every=True))
