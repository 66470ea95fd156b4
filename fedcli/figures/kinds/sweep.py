"""A score against the value of a setting: a line per method in a band of its spread.

What has no such setting is a level line. Values that spread far stand on a logarithmic axis, words
side by side in the order given; every value tried has a tick.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas
from numpy import ndarray
from pandas import DataFrame

from ... import console
from ...errors import UsageError, nearest
from ...metrics import title
from ...scores.scores import RunScores
from ...scores.statistics.significance import over_seeds
from .. import names
from ..drawing import Axes, Look, Looks, Panel, Picture, look, short
from ..figure import Figure, register
from ..series import Record, option
from ..shapes import alone, lines, picture, scaled

VALIDATION = "validation"  # in place of a version of the test images
CROWDED = 9  # ticks; more of them are turned on their side
SIZE = 5.0, 3.6  # inches
OVER = "an option of runs or data, such as q, lr, ratio or severity"
LEVEL: Look = {"linestyle": "--", "linewidth": 1.3}  # a line of what has no such setting
VERSION = (
    "validation, or of the test images: clean, corrupted or average; default: "
    "validation if all runs have such images, else average"
)


def frame(
    runs: Mapping[str, Record],
    *,
    scores: Callable[[list[Record]], list[RunScores]],
    chosen: Callable[[list[Record]], list[Record]] = list,
    runs_named: bool,
    over: Annotated[str, OVER],
    metric: Annotated[str, "default: balanced_accuracy"] = "",
    version: Annotated[str, VERSION] = "",
) -> DataFrame:
    """A line per system and value, see points().

    scores: finds those of some runs. chosen: leaves those out that a sweep did not choose.
    runs_named: whether these runs were named; if not, those are left out that trained otherwise
    than those in which the option varies, and no test scores are shown of those not chosen.
    """
    records = list(runs.values())
    is_open = not (metric or version)
    if not runs_named and not is_open and version != VALIDATION:
        records = chosen(records)
    check(records, over)
    comparable, others = split(records, over)
    if others:
        _say_others(others, over, runs_named)
    if not runs_named:
        records = comparable
    pairs = list(zip(records, scores(records), strict=True))
    if is_open and all(run.best for _, run in pairs):
        version = VALIDATION
    elif is_open and not runs_named:
        records = chosen(records)
        check(records, over)
        pairs = list(zip(records, scores(records), strict=True))
    if version == VALIDATION:
        return _on_validation(pairs, over, metric)
    metric = metric or pairs[0][1].usual[0]
    if not version:
        have_average = all("average" in run.versions for _, run in pairs)
        version = "average" if have_average else "clean"
    console.say("mean over the last five rounds, ± standard deviation over rounds and seeds")
    images = "mean of clean and corrupted" if version == "average" else version
    score = f"{title(metric)},\n{images} test images (%)"
    return points(pairs, over, metric, version, score)


def _say_others(others: list[str], over: str, runs_named: bool) -> None:
    texts = ", ".join(others)
    sentence = f"trained otherwise than those in which {over} varies: {texts}"
    if runs_named:
        console.warn(f"some runs {sentence}; the picture compares more than {over}")
    else:
        console.say(f"left out, as they {sentence}; to draw them too, give the folders of all runs")


def _on_validation(
    pairs: Sequence[tuple[Record, RunScores]],
    over: str,
    metric: str,
) -> DataFrame:
    """The points on the clients' validation images.

    Raises UsageError where a run has none, or another score of them.
    """
    chosen = [run.best for _, run in pairs if run.best]
    if len(chosen) < len(pairs):
        raise UsageError("a run has no validation images", "partition with --val 0.1")
    metric = metric or chosen[0].metric
    console.say("round that is best on validation images, ± standard deviation over seeds")
    score = f"{title(metric)},\nvalidation images (%)"
    return points(pairs, over, metric, VALIDATION, score)


def check(records: list[Record], key: str) -> None:
    """Raises UsageError where no run has this option, or all have the same value."""
    values_of_records = {option(record, key) for record in records}
    values = values_of_records - {None}
    if not values:
        options: set[str] = set()
        for record in records:
            option_names = (*record.options, *record.data)
            options |= {names.last(name) for name in option_names}
        hint = nearest(key, options - {"settings"})
        raise UsageError(f"no run has an option {key!r}", hint)
    if len(values) == 1:
        sentence = f"{key} is {values.pop()} in all these runs"
        raise UsageError(sentence, "give runs in which it differs")


def split(records: list[Record], key: str) -> tuple[list[Record], list[str]]:
    """The runs that trained as those in which this option varies, and the names of other systems.

    The others trained longer, at another rate, on other data. Where it varies in no system, all are
    of the first kind.
    """
    systems = names.systems(records, key)
    ways = []
    for group in systems.values():
        values = {option(record, key) for record in group}
        if len(values) > 1:
            ways.append(names.trained(group[0], key))
    others: dict[str, list[Record]] = {}
    for name, group in systems.items():
        if ways and names.trained(group[0], key) not in ways:
            others[name] = group
    other_ids = {id(record) for group in others.values() for record in group}
    return [record for record in records if id(record) not in other_ids], list(others)


def points(
    pairs: Iterable[tuple[Record, RunScores]],
    key: str,
    metric: str,
    version: str,
    score: str,
) -> DataFrame:
    """A line per system and value of the option, None where it has none: mean and std in percent.

    They are over the last five rounds of all its runs, NaN where the score has no meaning.
    score: in words. Raises UsageError where there is no such score.
    """
    records = []
    rounds = {}
    for record, run in pairs:
        records.append(record)
        rounds[id(record)] = _rounds(run, metric, version)
    lines = []
    for label, group in names.systems(records, key).items():
        by_value: dict[Any, list[list[Any]]] = {}
        for record in group:
            runs = by_value.setdefault(option(record, key), [])
            runs.append(rounds[id(record)])
        for value in _ordered(list(by_value)):
            mean, std = _mean_and_std(by_value[value])
            if value is None and len(by_value) > 1:
                value = "none"
            lines.append((label, value, mean, std))
    return of_points(lines, key, score)


def _mean_and_std(rounds_of_runs: list[list[Any]]) -> tuple[float | None, float | None]:
    """In percent; None where a round of a run has no score."""
    if any(None in rounds for rounds in rounds_of_runs):
        return None, None
    over = over_seeds(rounds_of_runs)
    return _percent(over.mean), _percent(over.std_pooled)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def of_points(
    lines: Sequence[tuple[str, Any, float | None, float | None]],
    setting: str,
    score: str,
) -> DataFrame:
    """The frame of lines (system, value, mean, std).

    A value of None is a level line over the whole width.
    """
    table = DataFrame(lines, columns=["system", "value", "mean", "std"])
    table = table.astype({"mean": float, "std": float})
    values = [line[1] for line in lines]
    table["value"] = pandas.Series(values, dtype=object)
    table.attrs |= {"setting": setting, "score": score}
    return table


def _rounds(run: RunScores, metric: str, version: str) -> list[Any]:
    if version == VALIDATION and run.best:
        if metric != run.best.metric:
            sentence = f"validation images have no score {metric!r}"
            raise UsageError(sentence, f"they have {run.best.metric}")
        return [run.best.validation]
    if version not in run.versions:
        versions = ", ".join(run.versions)
        raise UsageError(f"a run has no {version} test images", f"give one of {versions}")
    scores = run.versions[version]
    if metric not in scores:
        raise UsageError(f"there is no score {metric!r}", nearest(metric, scores))
    return scores[metric].values


def draw(table: DataFrame) -> Picture:
    has_value = table["value"].notna()
    swept = list(table[has_value]["system"].unique())
    without_number = table[~has_value & table["mean"].isna()]
    nothing = set(without_number["system"])
    looks = {}
    labels = dict.fromkeys([*swept, *table["system"]])
    for position, label in enumerate(labels):
        style = {"marker": "o"} if label in swept else LEVEL
        looks[label] = look(position) | style
    legend = {label: style for label, style in looks.items() if label not in nothing}
    panel = Panel("", partial(_panel, table, looks))
    return picture(
        table,
        [panel],
        legend,
        size=SIZE,
    )


def _panel(table: DataFrame, looks: Looks, axes: Axes) -> None:
    axes.margins(x=0.04)
    different_values = table["value"].dropna()
    tried = _ordered(list(dict.fromkeys(different_values)))
    numbers = tried if _numeric(tried) else range(len(tried))
    positions = np.array(numbers, float)  # where each value stands
    position_of = dict(zip(tried, positions))
    low = table["mean"] - table["std"]
    high = table["mean"] + table["std"]
    table = table.assign(low=low, high=high)
    swept = table[table["value"].notna()]
    x = swept["value"].map(position_of).astype(float)
    swept = swept.assign(x=x).sort_values("x")
    words = {"xlabel": table.attrs["setting"], "ylabel": table.attrs["score"]}
    lines(
        swept,
        axes,
        x="x",
        y="mean",
        hue="system",
        looks=looks,
        bounds=("low", "high"),
        **words,
    )
    for name, curve in swept.groupby("system", sort=False):
        has_width = np.isfinite(curve["low"].to_numpy())
        bars = curve[alone(has_width)]  # whose band has no width
        whiskers = {
            "fmt": "none",
            "ecolor": looks[name]["color"],
            "elinewidth": 1.2,
            "alpha": 0.6,
        }
        axes.errorbar(bars["x"], bars["mean"], bars["std"], **whiskers)
    levels = table[table["value"].isna() & table["mean"].notna()]
    for level in levels.itertuples():
        style = looks[level.system]
        axes.axhline(level.mean, **style)
        axes.axhspan(
            level.low,
            level.high,
            color=style["color"],
            alpha=0.08,
            linewidth=0,
        )
    _ticks(axes, tried, positions)


def _ordered(values: list[Any]) -> list[Any]:
    """Numbers by size, words in the order given."""
    return sorted(values) if _numeric(values) else values


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)


def _ticks(axes: Axes, tried: list[Any], positions: ndarray) -> None:
    from matplotlib.ticker import NullLocator

    if len(tried) > 1 and _numeric(tried):
        scaled(axes, positions, "x")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(positions, [_tick(value) for value in tried])
    if len(tried) > CROWDED:
        axes.tick_params(axis="x", labelrotation=90)


def _tick(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return short(str(value))


register(Figure("sweep", "How does a score depend on a setting?", "runs", frame, draw, every=True))
