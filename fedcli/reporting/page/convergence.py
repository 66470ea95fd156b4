"""How training went: loss and test curves of all systems, and the weight that the server gave each client."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..curves import Record, aligned, mean, over_runs
from ..drawing import line, line_in_band
from .figures import MANY, PATTERN, Figure, Key, Panels, figure, keys, over_rounds
from .systems import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORED = "clean", "corrupted", "validation"  # the first words of curves of scores
BANDED = "A line is the mean over runs, its band one sample standard deviation to either side."
WEIGHTS = "weight of each client over rounds"
CORRUPTED = "--"  # of a corrupted client's line
CROWD = 60  # clients whose lines cannot be followed any more
SPANS = (0, 100, 0.15), (10, 90, 0.3)  # percentiles, and how dark what lies between them is
CROWDED = " The line is the median client; half dark, clients from the 10th to the 90th percentile; light, all."
Clients = dict[str, np.ndarray]  # name -> rounds and its weight: [T, 2]
Curves = dict[int, np.ndarray]  # system's place -> rounds [T], mean, and its band over seeds: [4, T]


def panels(compared: list[System]) -> Iterator[Panels]:
    """What the runs recorded; nothing where no run is there."""
    compared = [system for system in compared if system.runs]
    if not compared:
        return
    banded = BANDED if any(len(system.runs) > 1 for system in compared) else ""
    tests = " Test curves are for looking at: they choose nothing." if _scored(compared) else ""
    if drawn := [*_losses(compared), *_scored(compared)]:
        yield Panels("Convergence", drawn, keys(compared), banded + tests)
    weighed = {system.place: _clients(system.records) for system in compared}
    if any(weighed.values()):
        yield _weights([system for system in compared if weighed[system.place]], weighed)


def _losses(compared: list[System]) -> list[Figure]:
    curves = _curves(compared, "loss")
    if not curves:
        return []
    own = " (each method's own)" if len({system.scores.method for system in compared}) > 1 else ""
    return [_panel(curves, f"Training loss{own}", "mean over clients and local steps")]


def _scored(compared: list[System]) -> list[Figure]:
    names = dict.fromkeys(
        name for system in compared for record in system.records for name, series in record.series.items()
        if name.split(" ")[0] in SCORED and series.scalar and not series.of_groups
    )  # fmt: skip
    drawn = {name: curves for name in names if (curves := _curves(compared, name))}
    return [_panel(curves, name, _unit(compared, name)) for name, curves in drawn.items()]


def _unit(compared: list[System], name: str) -> str:
    return next(record.series[name].unit for system in compared for record in system.records if name in record.series)


def _curves(compared: list[System], name: str) -> Curves:
    series = {
        system.place: [record.series[name] for record in system.records if name in record.series] for system in compared
    }
    means = {place: over_runs(runs) for place, runs in series.items() if runs}
    return {place: curve for place, curve in means.items() if np.isfinite(curve[1]).any()}


def _panel(curves: Curves, caption: str, unit: str) -> Figure:
    def draw(axes: "Axes") -> None:
        for place, curve in curves.items():
            line_in_band(axes, curve, place)
        over_rounds(axes)

    return figure(draw, caption, about=unit)


def _weights(weighed: list[System], weights: dict[int, Clients]) -> Panels:
    """A panel per system on one scale; each client has its colour, or, of many, clean and corrupted ones have one."""
    top = max(np.nanmax(curve[:, 1]) for clients in weights.values() for curve in clients.values())
    corrupted = {client for system in weighed for client in system.corrupted_clients}
    names = list(dict.fromkeys(client for clients in weights.values() for client in clients))
    lines = _lines(names, corrupted)
    drawn = [
        figure(partial(_draw_weights, weights[system.place], lines, top), system.name, about=WEIGHTS)
        for system in weighed
    ]  # fmt: skip
    dashed = " A dashed line is a corrupted client's." if corrupted else ""
    crowded = CROWDED if any(len(clients) > CROWD for clients in weights.values()) else ""
    dashed = dashed.replace("client's", "clients'") if crowded else dashed
    legend = f"The share that the server gives each client's model, round by round; of several seeds the mean.{dashed}"
    legend += crowded
    return Panels("Weights in the aggregation", drawn, _client_keys(lines, corrupted), legend)


def _draw_weights(clients: Clients, lines: dict[str, tuple[int, str]], top: float, axes: "Axes") -> None:
    if len(clients) > CROWD:
        _draw_crowds(clients, lines, axes)
    for client, curve in clients.items() if len(clients) <= CROWD else ():
        place, dashes = lines[client]
        how = {"linewidth": 1.4, "alpha": 0.85, "markersize": 3, "color": MANY[place], "linestyle": dashes}
        line(axes, curve, **how)
    axes.set_ylim(0, top * 1.05)
    over_rounds(axes)


def _draw_crowds(clients: Clients, lines: dict[str, tuple[int, str]], axes: "Axes") -> None:
    """Of each kind of client how the weights are spread, however many clients there are."""
    rounds = next(iter(clients.values()))[:, 0]
    for place, dashes in dict.fromkeys(lines[client] for client in clients):
        curves = np.stack([curve[:, 1] for client, curve in clients.items() if lines[client] == (place, dashes)])
        there = np.isfinite(curves).any(0)  # the rounds in which some of them took part
        for low, high, alpha in SPANS:
            bounds = np.nanpercentile(curves[:, there], (low, high), axis=0)
            axes.fill_between(rounds[there], *bounds, color=MANY[place], alpha=alpha, linewidth=0)
        median = np.full(len(rounds), np.nan)
        median[there] = np.nanmedian(curves[:, there], axis=0)
        line(axes, np.stack([rounds, median], 1), color=MANY[place], linestyle=dashes, linewidth=1.4, markersize=3)


def _lines(names: list[str], corrupted: set[str]) -> dict[str, tuple[int, str]]:
    """Of each client the place of its colour and its dashes."""
    few = len(names) <= len(MANY)
    return {
        name: (place if few else int(name in corrupted), CORRUPTED if name in corrupted else "-")
        for place, name in enumerate(names)
    }


def _client_keys(lines: dict[str, tuple[int, str]], corrupted: set[str]) -> list[Key]:
    """A key per client; of many, one for each kind."""
    if len(lines) > len(MANY):
        kinds = {lines[name]: "corrupted client" if name in corrupted else "clean client" for name in lines}
        named = {look: kind if corrupted else "one client" for look, kind in sorted(kinds.items())}
    else:
        named = {look: f"{name} (corrupted)" if name in corrupted else name for name, look in lines.items()}
    return [Key(name, f"var(--c{place})", PATTERN[dashes]) for (place, dashes), name in named.items()]


def _clients(records: list[Record]) -> Clients:
    """Each client's mean weight over runs, NaN in rounds without it; none of clients that train alone."""
    series = [record.series["weights"].curves for record in records if "weights" in record.series]
    names = list(dict.fromkeys(client for curves in series for client in curves))
    if not names:
        return {}
    rounds, table = aligned(mean(curves[name] for curves in series if name in curves) for name in names)
    curves = {name: np.stack([rounds, weights], 1) for name, weights in zip(names, table, strict=True)}
    return {name: curve for name, curve in curves.items() if np.isfinite(curve[:, 1]).any()}
