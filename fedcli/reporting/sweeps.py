"""A score against the value of a setting: a line per method in a band of its spread, a level line for what has no such
setting.

Values that spread far stand on a logarithmic axis, words side by side in the order given; every value tried has a tick.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compare.systems import last
from ..errors import UsageError, nearest
from ..scores.scores import Scores
from ..scores.statistics import over_seeds
from . import drawing, labels
from .curves import Record, option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[Any, float | None, float | None]  # x, a number or a word; mean; standard deviation, None where unknown
Level = tuple[float | None, float | None]  # mean, standard deviation
CROWDED = 9  # ticks; more of them are turned on their side


def plot(points: dict[str, list[Point]], lines: dict[str, Level], x_title: str, y_title: str, target: Path) -> None:
    """Draw into a .png or .svg file.

    points: label -> values in any order; a mean of None is left out, a gap in its line.
    lines: label -> a horizontal line over the whole width.
    """
    drawing.draw(partial(_figure, points, lines, x_title, y_title), target)


def check(records: list[Record], key: str) -> None:
    """Raises UsageError where no run has this option, or all have the same value."""
    values = {option(record, key) for record in records} - {None}
    if not values:
        known = {last(name) for record in records for name in (*record.options, *record.data)}
        raise UsageError(f"no run has an option {key!r}", nearest(key, known - {"settings"}))
    if len(values) == 1:
        raise UsageError(f"{key} is {values.pop()} in all these runs", "give runs in which it differs")


def split(records: list[Record], key: str) -> tuple[list[Record], dict[str, list[Record]]]:
    """The runs that trained as those in which this option varies, and by name the systems that trained otherwise:
    longer, at another rate, on other data. Where it varies in no system, all are of the first kind."""
    systems = labels.systems(records, key)
    swept = [group[0] for group in systems.values() if len({option(record, key) for record in group}) > 1]
    ways = [labels.trained(record, key) for record in swept]
    others = {name: group for name, group in systems.items() if ways and labels.trained(group[0], key) not in ways}
    other_ids = {id(record) for group in others.values() for record in group}
    return [record for record in records if id(record) not in other_ids], others


def gather(
    records: list[Record], scores: list[Scores], key: str, metric: str, version: str
) -> tuple[dict[str, list[Point]], dict[str, Level]]:
    """What plot() draws of these runs, in percent: the mean over the last five rounds of all runs of a system that have
    the same value, and the population standard deviation over all these rounds.

    scores: of each run. key: an option of the runs or of their data, such as q, lr or ratio.
    Raises UsageError where there is no such score.
    """
    kept = {id(record): _kept(run, metric, version) for record, run in zip(records, scores, strict=True)}
    points: dict[str, list[Point]] = {}
    lines: dict[str, Level] = {}
    for label, group in labels.systems(records, key).items():
        at: dict[Any, list[list[float]]] = {}
        for record in group:
            at.setdefault(option(record, key), []).append(kept[id(record)])
        levels = [(x, *_summary(rounds)) for x, rounds in at.items()]
        if set(at) == {None}:
            lines[label] = levels[0][1:]
        else:
            points[label] = _sorted([("none" if x is None else x, *level) for x, *level in levels])
    return points, lines


def _sorted(points: list[Point]) -> list[Point]:
    """By value, where values have an order."""
    return sorted(points, key=lambda point: point[0]) if _numeric([x for x, _, _ in points]) else points


def _kept(run: Scores, metric: str, version: str) -> list[float] | None:
    """A score of the kept rounds, None where it has no meaning."""
    if version not in run.versions:
        raise UsageError(f"a run has no {version} test images", f"give one of {', '.join(run.versions)}")
    known = run.versions[version].metrics
    if metric not in known:
        raise UsageError(f"there is no score {metric!r}", nearest(metric, known))
    return None if None in known[metric].per_round else known[metric].per_round


def _summary(rounds: list[list[float] | None]) -> Level:
    if None in rounds:
        return None, None
    over = over_seeds(rounds)
    return 100 * over.mean, 100 * over.std_pooled


def _figure(points: dict[str, list[Point]], lines: dict[str, Level], x_title: str, y_title: str) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure((7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.margins(x=0.04)
    tried = _tried(points)
    places = tried if _numeric(tried) else list(range(len(tried)))  # where each value stands
    at = dict(zip(tried, places, strict=True))
    legend: dict[str, Any] = {}
    for k, (label, values) in enumerate(points.items()):
        placed = sorted(((at[x], mean, std) for x, mean, std in values), key=lambda point: point[0])
        legend[label] = _line(axes, placed, k)
    for k, (label, (mean, std)) in enumerate(lines.items()):
        if mean is not None:
            legend[label] = _level(axes, mean, std, drawing.look(k + len(points)))
    _ticks(axes, tried, places)
    drawing.name_all(figure, legend)
    return figure


def _tried(points: dict[str, list[Point]]) -> list[Any]:
    """Every value once: numbers rising, words in the order given."""
    values = list(dict.fromkeys(x for values_of in points.values() for x, _, _ in values_of))
    return sorted(values) if _numeric(values) else values


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)


def _line(axes: "Axes", points: list[tuple[float, float | None, float | None]], place: int) -> Any:
    x, look = [at for at, _, _ in points], drawing.look(place)
    mean, std = (np.array([point[k] for point in points], float) for k in (1, 2))  # None becomes NaN
    drawing.band(axes, x, mean - std, mean + std, place)
    known = np.pad(np.isfinite(mean) & np.isfinite(std), 1)
    alone = known[1:-1] & ~known[:-2] & ~known[2:]  # whose band has no width
    whiskers = {"fmt": "none", "ecolor": look["color"], "elinewidth": 1.2, "alpha": 0.6}
    axes.errorbar(np.array(x)[alone], mean[alone], std[alone], **whiskers)
    return axes.plot(x, mean, marker="o", **look)[0]


def _level(axes: "Axes", mean: float, std: float | None, look: dict[str, str]) -> Any:
    if std:
        axes.axhspan(mean - std, mean + std, color=look["color"], alpha=0.08, linewidth=0)
    return axes.axhline(mean, color=look["color"], linestyle="--", linewidth=1.3)


def _ticks(axes: "Axes", tried: list[Any], places: list[float]) -> None:
    from matplotlib.ticker import NullLocator

    values = np.array(places, float)
    if _numeric(tried) and len(tried) > 1 and (scale := drawing.spread_far(values)):
        axes.set_xscale(scale, **({"linthresh": values[values > 0].min()} if scale == "symlog" else {}))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(places, [f"{x:g}" if isinstance(x, float) else drawing.short(str(x)) for x in tried])
    if len(tried) > CROWDED:
        axes.tick_params(axis="x", labelrotation=90)
