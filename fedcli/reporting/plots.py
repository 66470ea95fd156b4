"""Curves of one or several runs in one picture, a panel per series.

One run: a line per client, coloured by name up to twelve clients, beyond that thin ones under their mean. Several runs:
a colour per run; of clients' curves the mean, in a band from the lowest to the highest, of their weights, whose mean is
the same whatever they are, the smallest and the largest. Numbers that spread far stand on a logarithmic axis, numbers
that never change are left out.
"""

from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FedcliError, UsageError
from .curves import Record, Series, aligned, mean_std, over_runs
from .drawing import (
    COLOURS,
    band,
    draw,
    line,
    line_in_band,
    look,
    lowest,
    name_all,
    panels,
    rounds_axis,
    stretch,
)
from .labels import labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 12  # clients; more than that are drawn alike, without names
QUIET = "#888888"  # of a band in the legend, whatever its line
ALIKE = 0.75  # of difflib; qmix_loss and mean_loss are 0.67
EXTREMES = {"largest weight": "^", "smallest weight": "v"}  # markers


def chosen(records: list[Record], names: list[str]) -> list[str]:
    """The series asked for, or all that some run has and that change. Raises UsageError for one that none has."""
    known = _known(records)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1, cutoff=ALIKE)
            hint = f"did you mean {close[0]!r}? " if close else ""
            hint += "a series begins once a round has something to record, for some long after the first; known: "
            raise UsageError(f"no run has a series {name!r}", hint + ", ".join(known))
    still = constants(records)
    usual = [name for name in known if not any(r.series[name].of_groups for r in records if name in r.series)]
    return list(dict.fromkeys(names)) or [name for name in usual if name not in still] or usual


def constants(records: list[Record]) -> dict[str, float]:
    """The series that have one value in all runs, of all clients, in all rounds, and that value."""
    distinct = {name: np.unique(np.concatenate(_values(records, name))) for name in _known(records)}
    return {name: float(values[0]) for name, values in distinct.items() if len(values) == 1 and np.isfinite(values[0])}


def _known(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.series))


def _values(records: list[Record], name: str) -> list[np.ndarray]:
    return [record.series[name].values for record in records if name in record.series]


def plot(records: list[Record], names: list[str], out: Path) -> None:
    """Draw these series into a .png or .svg file."""
    draw(partial(_figure, records, names), out)


def convergence(systems: dict[str, list[Record]], metric: str, out: Path, *, version: str = "") -> None:
    """Draw how a score of the test set rose over the rounds, a panel per version of the test images: the mean of each
    system's runs, in a band of one standard deviation where it has several.

    systems: name -> runs. metric: such as balanced_accuracy.
    version: clean or corrupted; "" for all that some run recorded.
    Raises FedcliError where no run recorded it.
    """
    series = {name: curves for runs in systems.values() for record in runs for name, curves in record.series.items()}
    tested = [name for name, curves in series.items() if curves.tested]
    wanted = f"{version} {metric}".lstrip()
    names = [name for name in tested if name == wanted or (not version and name.endswith(f" {metric}"))]
    if not names:
        hint = f"known: {', '.join(tested)}" if tested else "train with --eval-every 1 to record test curves"
        raise FedcliError(f"no run recorded {wanted} over its rounds", hint)
    draw(partial(_converging, systems, names), out)


def _figure(records: list[Record], names: list[str]) -> "Figure":
    figure, axes = panels(len(names), _title(records))
    legend: dict[str, Any] = {}  # name -> what stands for it
    runs, methods = labels(records), len({record.label for record in records})
    for panel, name in zip(axes, names, strict=True):
        legend |= _panel(panel, {label: r.series.get(name) for label, r in runs.items()}, methods)
    for panel in lowest(axes):
        panel.set_xlabel("round")
    name_all(figure, legend)
    return figure


def _converging(systems: dict[str, list[Record]], names: list[str]) -> "Figure":
    from matplotlib.patches import Patch

    figure, axes = panels(len(names), _title([record for records in systems.values() for record in records]))
    legend: dict[str, Any] = {}
    several = False
    for panel, name in zip(axes, names, strict=True):
        series = {label: [r.series[name] for r in records if name in r.series] for label, records in systems.items()}
        _named(panel, next(runs[0] for runs in series.values() if runs))
        for place, (label, runs) in enumerate(series.items()):
            if runs:
                curve = over_runs(runs)
                several |= bool(np.isfinite(curve[2]).any())
                legend[label] = line_in_band(panel, curve, place)
    for panel in lowest(axes):
        panel.set_xlabel("round")
    spread = {"mean ± std over runs": Patch(color=QUIET, alpha=0.3, linewidth=0)} if several else {}
    name_all(figure, legend | spread)
    return figure


def _title(records: list[Record]) -> str:
    if len(records) > 1:
        datasets, seeds = {r.dataset for r in records}, {r.options.get("seed") for r in records}
        on = f" on {records[0].dataset}" if len(datasets) == 1 and "" not in datasets else ""
        return f"{len(records)} runs{on}" + (f", {len(seeds)} seeds" if len(seeds) > 1 else "")
    record = records[0]
    on = f" on {record.dataset}" if record.dataset else ""
    played = (
        f"{record.played} rounds" if record.played == record.rounds else f"{record.played} of {record.rounds} rounds"
    )
    return f"{record.label}{on}: {record.clients} clients, {played}"


def _panel(axes: "Axes", runs: dict[str, Series | None], methods: int) -> dict[str, Any]:
    """Draw one series of all runs, which are of so many methods; returns what the legend is to name."""
    some = next(series for series in runs.values() if series)
    _named(axes, some, " (each method's own)" if some.own and methods > 1 else "")
    if not any(np.isfinite(c[:, 1]).any() for series in runs.values() if series for c in series.curves.values()):
        axes.text(0.5, 0.5, "no finite value", ha="center", va="center", transform=axes.transAxes, color="#666666")
        return {}
    stretch(axes, np.concatenate([series.values for series in runs.values() if series]))
    if len(runs) > 1:
        return (_extremes if some.shares else _several)(axes, runs)
    return _scalar(axes, some) if some.scalar else _clients(axes, some)


def _named(axes: "Axes", series: Series, more: str = "") -> None:
    """Title and axes of a panel over rounds."""
    axes.set_title(series.title + more, loc="left")
    axes.set_ylabel(series.unit)
    rounds_axis(axes)


def _scalar(axes: "Axes", series: Series) -> dict[str, Any]:
    line(axes, series.curves[""], color="#333333")
    return {}


def _clients(axes: "Axes", series: Series) -> dict[str, Any]:
    if len(series.curves) > NAMED:
        thin = {"color": "#8A97A6", "linewidth": 0.8, "alpha": 0.5, "markersize": 2}
        lines = [line(axes, curve, **thin) for curve in series.curves.values()]
        mean, _, _ = _spread(series)
        return {"one client": lines[0], "mean over clients": line(axes, mean, color=COLOURS[0], linewidth=2.4)}
    return {client: line(axes, curve, **look(k)) for k, (client, curve) in enumerate(series.curves.items())}


def _several(axes: "Axes", runs: dict[str, Series | None]) -> dict[str, Any]:
    from matplotlib.patches import Patch

    legend: dict[str, Any] = {}
    for k, (label, series) in enumerate(runs.items()):
        if series is None:
            continue
        if series.scalar:
            legend[label] = line(axes, series.curves[""], **look(k))
            continue
        mean, low, high = _spread(series)
        band(axes, mean[:, 0], low, high, k)
        legend[label] = line(axes, mean, **look(k))
    if any(series and not series.scalar for series in runs.values()):
        legend["lowest to highest client"] = Patch(color=QUIET, alpha=0.3, linewidth=0)
    return legend


def _extremes(axes: "Axes", runs: dict[str, Series | None]) -> dict[str, Any]:
    """The largest and the smallest client of each run, distinguished by their markers; long curves have few of them."""
    from matplotlib.lines import Line2D

    legend: dict[str, Any] = {}
    for k, (label, series) in enumerate(runs.items()):
        if series is None:
            continue
        mean, low, high = _spread(series)
        every = max(1, len(mean) // 10)
        legend[label] = Line2D([], [], **look(k))
        for edge, marker in zip((high, low), EXTREMES.values(), strict=True):
            axes.plot(mean[:, 0], edge, marker=marker, markevery=every, linewidth=1.2, markersize=5, **look(k))
    marks = {name: Line2D([], [], color="#666666", linestyle="", marker=mark) for name, mark in EXTREMES.items()}
    return legend | marks


def _spread(series: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean [T, 2] over the clients that have a value in a round, and their lowest and highest [T]."""
    rounds, table = aligned(series.curves.values())
    return np.stack([rounds, mean_std(table)[0]], 1), np.fmin.reduce(table), np.fmax.reduce(table)
