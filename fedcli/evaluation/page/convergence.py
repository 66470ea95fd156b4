"""How training went: loss and test curves of all systems, and the weight that the server gave each client."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..curves import Record, Series
from ..plots import COLOURS
from .figures import Figure, Key, Panels, figure, key, keys, line, look, rounds_axis
from .systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORED = "clean", "corrupted", "validation"  # the first words of curves of scores
FEW = 7  # clients; more are not told apart by colour
BANDED = "A band reaches from the lowest to the highest seed."
Curves = dict[int, np.ndarray]  # system's place -> rounds [T], mean, lowest and highest over seeds: [4, T]


def panels(compared: list[System]) -> Iterator[Panels]:
    """What the runs recorded; nothing where no run is there."""
    compared = [one for one in compared if one.runs]
    if not compared:
        return
    banded = BANDED if any(len(one.runs) > 1 for one in compared) else ""
    tests = " Test curves are for looking at: they choose nothing." if _scored(compared) else ""
    yield Panels("Convergence", [*_losses(compared), *_scored(compared)], keys(compared), banded + tests)
    if weighed := [one for one in compared if any("weights" in record.series for record in one.records)]:
        yield _weights(weighed)


def over_seeds(series: list[Series]) -> np.ndarray:
    """Rounds, and mean, lowest and highest over runs of the mean over clients: [4, T]."""
    means = [_mean(list(one.curves.values())) for one in series]
    rounds, table = _table(means)
    return np.stack([rounds, *_ignoring(table)])


def _losses(compared: list[System]) -> list[Figure]:
    found = _curves(compared, "loss")
    if not found:
        return []
    own = " (each method's own)" if len({one.row["method"] for one in compared}) > 1 else ""
    return [_panel(found, f"Training loss{own}", "mean over clients and local steps")]


def _scored(compared: list[System]) -> list[Figure]:
    names = dict.fromkeys(
        name for one in compared for record in one.records for name, series in record.series.items()
        if name.split(" ")[0] in SCORED and series.scalar
    )  # fmt: skip
    return [_panel(_curves(compared, name), name, _unit(compared, name)) for name in names]


def _unit(compared: list[System], name: str) -> str:
    return next(record.series[name].unit for one in compared for record in one.records if name in record.series)


def _curves(compared: list[System], name: str) -> Curves:
    found = {one.place: [record.series[name] for record in one.records if name in record.series] for one in compared}
    return {place: over_seeds(series) for place, series in found.items() if series}


def _panel(found: Curves, caption: str, unit: str) -> Figure:
    def draw(axes: "Axes") -> None:
        for place, (rounds, mean, low, high) in found.items():
            if not np.array_equal(low, high, equal_nan=True):
                axes.fill_between(rounds, low, high, color=look(place)["color"], alpha=0.16, linewidth=0)
            line(axes, np.stack([rounds, mean], 1), **look(place))
        rounds_axis(axes)

    return figure(draw, caption, about=unit)


def _weights(weighed: list[System]) -> Panels:
    """A panel per system on one scale; clean and corrupted clients in two colours, or each in its own."""
    found = {one.place: _clients(one.records) for one in weighed}
    top = max(np.nanmax(table[1]) for clients in found.values() for table in clients.values())
    corrupted = {client for one in weighed for client in (one.body.get("corruption") or {}).get("clients", [])}
    names = list(dict.fromkeys(client for clients in found.values() for client in clients))
    places = {name: _colour(name, names, corrupted) for name in names}
    drawn = [
        figure(partial(_draw_weights, found[one.place], places, top), one.name, about="weight of each client over rounds")
        for one in weighed
    ]  # fmt: skip
    legend = "The share that the server gives each client's model, round by round; of several seeds the mean."
    return Panels("Weights in the aggregation", drawn, _client_keys(names, corrupted), legend)


def _draw_weights(clients: dict[str, np.ndarray], places: dict[str, int], top: float, axes: "Axes") -> None:
    for client, table in clients.items():
        axes.plot(table[0], table[1], color=COLOURS[places[client]], linewidth=1.4, alpha=0.85)
    axes.set_ylim(0, top * 1.05)
    rounds_axis(axes)


def _colour(name: str, names: list[str], corrupted: set[str]) -> int:
    if corrupted:
        return int(name in corrupted)
    return names.index(name) if len(names) <= FEW else 0


def _client_keys(names: list[str], corrupted: set[str]) -> list[Key]:
    if corrupted:
        return [key("clean client", 0), key("corrupted client", 1)]
    return [key(name, place) for place, name in enumerate(names)] if len(names) <= FEW else [key("one client", 0)]


def _clients(records: list[Record]) -> dict[str, np.ndarray]:
    """Of each client rounds and the mean weight over runs: [2, T]."""
    series = [record.series["weights"].curves for record in records if "weights" in record.series]
    names = dict.fromkeys(client for curves in series for client in curves)
    return {name: _mean([curves[name] for curves in series if name in curves]).T for name in names}


def _mean(curves: list[np.ndarray]) -> np.ndarray:
    """Mean [T, 2] over curves [T, 2] of the rounds that each has."""
    rounds, table = _table(curves)
    return np.stack([rounds, _ignoring(table)[0]], 1)


def _table(curves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rounds [T] and values [K, T]; NaN where a curve has none."""
    rounds = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    table = np.full((len(curves), len(rounds)), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[np.searchsorted(rounds, curve[:, 0])] = curve[:, 1]
    return rounds, table


def _ignoring(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest of the known values of each column; NaN where there is none."""
    known = np.isfinite(table)
    count = known.sum(0)
    mean = np.where(count, np.where(known, table, 0).sum(0) / np.maximum(count, 1), np.nan)
    low, high = np.where(known, table, np.inf).min(0), np.where(known, table, -np.inf).max(0)
    return mean, np.where(count, low, np.nan), np.where(count, high, np.nan)
