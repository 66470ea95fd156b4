"""The weight that the server gave each client over the rounds, a panel per system on one scale.

Each client has its colour, or, of many, clean and corrupted ones have one; a dashed line is a
corrupted client's.
"""

from collections.abc import Mapping
from functools import partial

import pandas
from pandas import DataFrame

from ..drawing import MANY, Axes, Look, Looks, Picture
from ..figure import Figure, NothingToDraw, register
from ..series import Record
from ..shapes import lines, panels, picture

CORRUPTED = "--"  # of a corrupted client's line
CROWD = 60  # clients whose lines cannot be followed any more
SPANS = (0.0, 1.0, 0.15), (0.1, 0.9, 0.3)  # quantiles, and how dark what lies between them is
THIN: Look = {"linewidth": 1.4, "markersize": 3}
COLUMNS = ["system", "client", "corrupted", "round", "weight"]
ABOUT = (
    "The share that the server gives each client's model, round by round; of several seeds the "
    "mean."
)
CROWDED = (
    " The line is the median client; half dark, clients from the 10th to the 90th percentile; "
    "light, all."
)


def frame(runs: Mapping[str, list[Record]]) -> DataFrame:
    """system, client, corrupted, round, weight: the mean over runs, NaN in rounds without a client.

    Clients that never took part are left out. Raises NothingToDraw where all are.
    """
    parts = []
    for name, records in runs.items():
        part = _weights(records)
        if part is not None:
            parts.append(part.assign(system=name)[COLUMNS])
    table = pandas.concat(parts) if parts else DataFrame(columns=COLUMNS)
    if table.empty:
        sentence = "no run recorded weights of clients"
        raise NothingToDraw(sentence, "clients that train alone have none")
    return table


def _weights(records: list[Record]) -> DataFrame | None:
    """client, corrupted, round, weight; None where no run recorded them."""
    frames = []
    corrupted: set[str] = set()
    for record in records:
        corrupted |= set(record.corrupted)
        if "weights" in record.series:
            frames.append(record.series["weights"].frame())
    if not frames:
        return None
    by_client_and_round = pandas.concat(frames).groupby(["client", "round"], sort=False)
    means = by_client_and_round["value"].mean()
    by_client = means.unstack(sort=False).sort_index(axis=1)
    table = by_client.stack(future_stack=True).rename("weight").reset_index()
    counts = table.groupby("client")["weight"].transform("count")
    table = table[counts > 0]
    return table.assign(corrupted=table["client"].isin(corrupted))


def draw(table: DataFrame) -> Picture:
    looks = client_looks(table)
    client_counts = table.groupby("system", sort=False)["client"].nunique()
    crowded = bool((client_counts > CROWD).any())
    caption = ABOUT
    if table["corrupted"].any():
        whose = "clients'" if crowded else "client's"
        caption += f" A dashed line is a corrupted {whose}."
    if crowded:
        caption += CROWDED
    table.attrs |= {"title": "Weights in the aggregation", "caption": caption}
    highest = 1.05 * table["weight"].max()
    draw_panel = partial(_panel, looks, highest)
    by_system = panels(
        table,
        "system",
        draw_panel,
        words="weight of each client over rounds",
    )
    return picture(table, by_system, _legend(table, looks), below="round")


def client_looks(table: DataFrame) -> Looks:
    """The colour and the dashes of each client's line."""
    clients = table.groupby("client", sort=False)["corrupted"].any()
    few = len(clients) <= len(MANY)
    looks = {}
    for position, (name, corrupted) in enumerate(clients.items()):
        colour = MANY[position if few else int(corrupted)]
        linestyle = CORRUPTED if corrupted else "-"
        looks[str(name)] = {"color": colour, "linestyle": linestyle}
    return looks


def _legend(table: DataFrame, looks: Looks) -> Looks:
    """A line per client; of many, one for each kind."""
    corrupted = set(table[table["corrupted"]]["client"])
    legend = {}
    if len(looks) <= len(MANY):
        for name, look in looks.items():
            words = f"{name} (corrupted)" if name in corrupted else name
            legend[words] = look
        return legend
    if not corrupted:
        return {"one client": next(iter(looks.values()))}
    for name, look in looks.items():
        kind = "corrupted client" if name in corrupted else "clean client"
        legend[kind] = look
    return dict(sorted(legend.items()))


def _panel(
    looks: Looks,
    top: float,
    part: DataFrame,
    axes: Axes,
) -> None:
    """Draw a line of each client.

    Of a crowd, its median and how the weights are spread, clean and corrupted apart.
    """
    how: Look = {"x": "round", "ylim": (0, top)}
    if part["client"].nunique() <= CROWD:
        thin = {name: {"alpha": 0.85} | THIN | look for name, look in looks.items()}
        lines(part, axes, y="weight", hue="client", looks=thin, **how)
        return
    kinds = {}
    for corrupted, clients in part.groupby("corrupted")["client"]:
        kinds[corrupted] = THIN | looks[clients.iloc[0]]
    weights = part.groupby(["corrupted", "round"])["weight"]
    shares = weights.quantile([0.0, 0.1, 0.5, 0.9, 1.0])
    spread = shares.unstack().reset_index()
    how |= {"y": 0.5, "hue": "corrupted", "looks": kinds}
    for low, high, shade in SPANS:
        lines(spread, axes, bounds=(low, high), shade=shade, **how)


QUESTION = "How much did each client count in the aggregation?"
register(Figure("weights", QUESTION, "methods", frame, draw, every=True))
