"""A score against the value of a setting: a line per method in a band of its spread, a level line for what has no such
setting.

Values that spread far stand on a logarithmic axis, words side by side in the order given; every value tried has a tick.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import pandas
from pandas import DataFrame

from ... import console
from ...errors import UsageError, nearest
from ...metrics import title
from ...scores.scores import Scores
from ...scores.statistics.significance import over_seeds
from .. import names
from ..drawing import Axes, Look, Panel, Picture, look, short
from ..figure import Figure, register
from ..series import Record, option
from ..shapes import lines, picture, scaled

VALIDATION = "validation"  # in place of a version of the test images
CROWDED = 9  # ticks; more of them are turned on their side
SIZE = 5.0, 3.6  # inches
OVER = "an option of runs or data, such as q, lr, ratio or severity"
LEVEL: Look = {"linestyle": "--", "linewidth": 1.3}  # a line of what has no such setting


def frame(
    runs: Mapping[str, Record],
    *,
    scores: Callable[[list[Record]], list[Scores]],
    given: bool,
    over: Annotated[str, OVER],
    metric: Annotated[str, "default: balanced_accuracy"] = "",
    version: Annotated[
        str,
        "validation, or of the test images: clean, corrupted or average; default: validation where all runs have such "
        "images, else average",
    ] = "",
) -> DataFrame:
    """A line per system and value, see points().

    scores: finds those of some runs. given: whether these runs were named; if not, those are left out that
    trained otherwise than those in which the option varies.
    """
    records = list(runs.values())
    check(records, over)
    kept, others = split(records, over)
    if others:
        sentence = f"trained otherwise than those in which {over} varies: {', '.join(others)}"
        more = (
            f"the picture compares more than {over}"
            if given
            else "to draw them too, give the folders of all runs"
        )
        say = console.warn if given else console.say
        say(f"{'some runs' if given else 'left out, as they'} {sentence}; {more}")
    records = records if given else kept
    pairs = list(zip(records, scores(records), strict=True))
    if not (metric or version) and all(run.best for _, run in pairs):
        version = VALIDATION
    if version == VALIDATION:
        return _on_validation(pairs, over, metric)
    metric = metric or pairs[0][1].usual[0]
    version = version or (
        "average" if all("average" in run.versions for _, run in pairs) else "clean"
    )
    console.say("mean over the last five rounds, ± standard deviation over rounds and seeds")
    on = "mean of clean and corrupted" if version == "average" else version
    return points(pairs, over, metric, version, f"{title(metric)},\n{on} test images (%)")


def _on_validation(pairs: Sequence[tuple[Record, Scores]], over: str, metric: str) -> DataFrame:
    """The points on the clients' validation images. Raises UsageError where a run has none, or another score of them."""
    chosen = [run.best for _, run in pairs if run.best]
    if len(chosen) < len(pairs):
        raise UsageError("a run has no validation images", "partition with --val 0.1")
    metric = metric or chosen[0].metric
    console.say("round that is best on validation images, ± standard deviation over seeds")
    score = f"{title(metric)},\nvalidation images (%)"
    return points(pairs, over, metric, VALIDATION, score)


def check(records: list[Record], key: str) -> None:
    """Raises UsageError where no run has this option, or all have the same value."""
    values = {option(record, key) for record in records} - {None}
    if not values:
        known = {names.last(name) for record in records for name in (*record.options, *record.data)}
        raise UsageError(f"no run has an option {key!r}", nearest(key, known - {"settings"}))
    if len(values) == 1:
        raise UsageError(
            f"{key} is {values.pop()} in all these runs", "give runs in which it differs"
        )


def split(records: list[Record], key: str) -> tuple[list[Record], list[str]]:
    """The runs that trained as those in which this option varies, and the names of the systems that trained otherwise:
    longer, at another rate, on other data. Where it varies in no system, all are of the first kind."""
    systems = names.systems(records, key)
    swept = [
        group[0] for group in systems.values() if len({option(record, key) for record in group}) > 1
    ]
    ways = [names.trained(record, key) for record in swept]
    others = {
        name: group
        for name, group in systems.items()
        if ways and names.trained(group[0], key) not in ways
    }
    other_ids = {id(record) for group in others.values() for record in group}
    return [record for record in records if id(record) not in other_ids], list(others)


def points(
    pairs: Iterable[tuple[Record, Scores]], key: str, metric: str, version: str, score: str
) -> DataFrame:
    """A line per system and value of the option, None where it has none: mean and std in percent, over the last five
    rounds of all its runs, NaN where the score has no meaning.

    score: in words. Raises UsageError where there is no such score.
    """
    rounds = {id(record): (record, _rounds(run, metric, version)) for record, run in pairs}
    lines = []
    for label, group in names.systems([record for record, _ in rounds.values()], key).items():
        by_value: dict[Any, list[list[Any]]] = {}
        for record in group:
            by_value.setdefault(option(record, key), []).append(rounds[id(record)][1])
        level, values = set(by_value) == {None}, list(by_value)
        for value in sorted(values) if _numeric(values) else values:
            whole = [per_round for per_round in by_value[value] if None not in per_round]
            over = over_seeds(whole) if len(whole) == len(by_value[value]) else None
            mean, std = (over.mean, over.std_pooled) if over else (None, None)
            shown = None if level else "none" if value is None else value
            lines.append((label, shown, mean and 100 * mean, std and 100 * std))
    return of_points(lines, key, score)


def of_points(
    lines: Sequence[tuple[str, Any, float | None, float | None]], setting: str, score: str
) -> DataFrame:
    """The frame of lines (system, value, mean, std); a value of None is a level line over the whole width."""
    table = DataFrame(lines, columns=["system", "value", "mean", "std"]).astype(
        {"mean": float, "std": float}
    )
    table["value"] = pandas.Series([line[1] for line in lines], dtype=object)
    table.attrs |= {"setting": setting, "score": score}
    return table


def _rounds(run: Scores, metric: str, version: str) -> list[Any]:
    if version == VALIDATION and run.best:
        if metric != run.best.metric:
            raise UsageError(
                f"validation images have no score {metric!r}", f"they have {run.best.metric}"
            )
        return [run.best.validation]
    if version not in run.versions:
        raise UsageError(
            f"a run has no {version} test images", f"give one of {', '.join(run.versions)}"
        )
    if metric not in run.versions[version]:
        raise UsageError(f"there is no score {metric!r}", nearest(metric, run.versions[version]))
    return run.versions[version][metric].values


def draw(table: DataFrame) -> Picture:
    swept = list(table[table["value"].notna()]["system"].unique())
    labels = dict.fromkeys([*swept, *table["system"]])
    looks = {
        label: look(place) | ({"marker": "o"} if label in swept else LEVEL)
        for place, label in enumerate(labels)
    }
    gone = set(table[table["value"].isna() & table["mean"].isna()]["system"])
    legend = {label: how for label, how in looks.items() if label not in gone}
    return picture(table, [Panel("", partial(_panel, table, looks))], legend, size=SIZE)


def _panel(table: DataFrame, looks: dict[str, Look], axes: Axes) -> None:
    axes.margins(x=0.04)
    tried = list(dict.fromkeys(table["value"].dropna()))
    tried = sorted(tried) if _numeric(tried) else tried
    places = np.array(
        tried if _numeric(tried) else range(len(tried)), float
    )  # where each value stands
    shown = table.assign(low=table["mean"] - table["std"], high=table["mean"] + table["std"])
    swept = shown[shown["value"].notna()]
    swept = swept.assign(
        x=swept["value"].map(dict(zip(tried, places, strict=True))).astype(float)
    ).sort_values("x")
    words = {"xlabel": table.attrs["setting"], "ylabel": table.attrs["score"]}
    lines(swept, axes, x="x", y="mean", hue="system", looks=looks, bounds=("low", "high"), **words)
    for name, curve in swept.groupby("system", sort=False):
        known = np.pad(np.isfinite(curve["low"]), 1)
        alone = curve[known[1:-1] & ~known[:-2] & ~known[2:]]  # whose band has no width
        whiskers = {"fmt": "none", "ecolor": looks[name]["color"], "elinewidth": 1.2, "alpha": 0.6}
        axes.errorbar(alone["x"], alone["mean"], alone["std"], **whiskers)
    for level in shown[shown["value"].isna() & shown["mean"].notna()].itertuples():
        axes.axhline(level.mean, **looks[level.system])
        axes.axhspan(
            level.low, level.high, color=looks[level.system]["color"], alpha=0.08, linewidth=0
        )
    _ticks(axes, tried, places)


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)


def _ticks(axes: Axes, tried: list[Any], places: np.ndarray) -> None:
    from matplotlib.ticker import NullLocator

    if _numeric(tried) and len(tried) > 1:
        scaled(axes, places, "x")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(places, [f"{x:g}" if isinstance(x, float) else short(str(x)) for x in tried])
    if len(tried) > CROWDED:
        axes.tick_params(axis="x", labelrotation=90)


register(Figure("sweep", "How does a score depend on a setting?", "runs", frame, draw, every=True))
