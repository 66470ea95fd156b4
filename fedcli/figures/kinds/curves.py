"""Curves of one or several runs over their rounds, a panel per series.

One run: a line per client, coloured by name up to twelve clients, beyond that thin ones under their
mean. Several runs: a colour per run; of clients' curves the mean, in a band from the lowest to the
highest, of their weights, whose mean is the same whatever they are, the smallest and the largest.
Numbers that spread far stand on a logarithmic axis, numbers that never change are left out.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from numpy import ndarray
from pandas import DataFrame

from ... import console
from ...errors import UsageError
from ..drawing import BAND, COLOURS, INK, Axes, Look, Looks, Panel, Picture
from ..figure import Figure, register
from ..series import Record, Series, heading, with_ratios
from ..shapes import lines, looks_of, picture, stretch

NAMED = 12  # clients; more than that are drawn alike, without names
ALIKE = 0.75  # of difflib; qmix_loss and mean_loss are 0.67
EXTREMES = {"largest weight": "^", "smallest weight": "v"}  # markers
ONE_OF_MANY: Look = {
    "color": "#8A97A6",
    "linewidth": 0.8,
    "alpha": 0.5,
    "markersize": 2,
}
MEAN: Look = {"color": COLOURS[0], "linewidth": 2.4}
MEAN_OF_ALL = "mean over clients"
SERIES = (
    "draw only this, such as loss or 'clean auc_ovo_macro', or the ratio of two, such as "
    "supervised_loss/divergence_loss; may be repeated"
)
Drawn = tuple[DataFrame, Looks, Looks]  # lines, the look of each, the legend


def frame(
    runs: Mapping[str, Record], *, series: Annotated[Sequence[str], SERIES] = ()
) -> DataFrame:
    """A line per run, series, client and round: its value, NaN for null.

    The client of a single curve is "".
    """
    runs = {run: with_ratios(record, series) for run, record in runs.items()}
    records = list(runs.values())
    names = chosen(records, series)
    if not series:
        _say_constants(records, names)
    parts = []
    for name in names:
        for run, record in runs.items():
            if name in record.series:
                curves = record.series[name].frame()
                parts.append(curves.assign(run=run, series=name))
    columns = ["run", "series", "client", "round", "value"]
    table = pandas.concat(parts, ignore_index=True)[columns]
    several_methods = len({record.label for record in records}) > 1
    recorded = _recorded(records)
    titles = {}
    units = {}
    shares = []
    for name in names:
        titles[name] = recorded[name].title
        units[name] = recorded[name].unit
        if several_methods and recorded[name].kind == "loss":
            titles[name] += " (each method's own)"
        if recorded[name].kind == "weights":
            shares.append(name)
    table.attrs |= {"title": heading(records), "titles": titles, "units": units, "shares": shares}
    return table


def _recorded(records: list[Record]) -> dict[str, Series]:
    """The series that some run has, each of the first one that has it."""
    recorded: dict[str, Series] = {}
    for record in records:
        for name, series in record.series.items():
            recorded.setdefault(name, series)
    return recorded


def _say_constants(records: list[Record], names: list[str]) -> None:
    """Say which series are left out, as they never change."""
    texts = []
    for name, value in constants(records).items():
        if name not in names:
            texts.append(f"{name} ({value:g})")
    if texts:
        which = "it never changes" if len(texts) == 1 else "they never change"
        left_out = ", ".join(texts)
        console.say(f"left out, as {which}: {left_out}")


def chosen(records: list[Record], names: Sequence[str]) -> list[str]:
    """The series asked for, or all that some run has and that change.

    Raises UsageError for one that none has.
    """
    recorded = _recorded(records)
    for name in names:
        if name not in recorded:
            raise UsageError(f"no run has a series {name!r}", _hint(name, list(recorded)))
    if names:
        return list(dict.fromkeys(names))
    usual = [name for name, series in recorded.items() if series.kind != "group"]
    usual.sort(key=lambda name: not name.startswith("validation"))  # before those of test images
    unchanging = constants(records)
    return [name for name in usual if name not in unchanging] or usual


def _hint(name: str, recorded: list[str]) -> str:
    texts = ", ".join(recorded)
    hint = (
        "a series begins once a round has something to record, for some long after the first; "
        f"known: {texts}"
    )
    close = get_close_matches(name, recorded, n=1, cutoff=ALIKE)
    return f"did you mean {close[0]!r}? {hint}" if close else hint


def constants(records: list[Record]) -> dict[str, float]:
    """The series that have one value in all runs, of all clients, in all rounds, and that value."""
    values: dict[str, list[ndarray]] = {}
    for record in records:
        for name, series in record.series.items():
            values.setdefault(name, []).append(series.values)
    unchanging = {}
    for name, parts in values.items():
        distinct = np.unique(np.concatenate(parts))
        if len(distinct) == 1 and np.isfinite(distinct[0]):
            unchanging[name] = float(distinct[0])
    return unchanging


def draw(table: DataFrame) -> Picture:
    runs = looks_of(table, "run")
    panels = []
    legend: Looks = {}
    for name, part in table.groupby("series", sort=False):
        unit = table.attrs["units"][name]
        draw_panel = partial(_nothing, unit)
        if part["value"].notna().any():
            is_share = name in table.attrs["shares"]
            curves, looks, words = _curves(
                part,
                runs,
                is_share=is_share,
            )
            draw_panel = partial(
                _panel,
                unit,
                part["value"].to_numpy(),
                curves,
                looks,
            )
            legend |= words
        panels.append(Panel(table.attrs["titles"][name], draw_panel))
    return picture(table, panels, legend, below="round")


def _curves(part: DataFrame, runs: Looks, *, is_share: bool) -> Drawn:
    if len(runs) == 1:
        return _of_clients(part)
    drawn_runs = part["run"].unique()
    looks = {run: runs[run] for run in drawn_runs}
    return _extremes(part, looks) if is_share else _of_runs(part, looks)


def _of_clients(part: DataFrame) -> Drawn:
    """A line per client of a single run; of many, thin ones under their mean."""
    looks = looks_of(part, "client")
    part = part.rename(columns={"client": "name"})
    if "" in looks:
        return part, {"": {"color": INK}}, {}
    if len(looks) <= NAMED:
        return part, looks, looks
    mean = part.groupby("round")["value"].mean().reset_index()
    mean["name"] = MEAN_OF_ALL
    legend = {"one client": ONE_OF_MANY, MEAN_OF_ALL: MEAN}
    curves = pandas.concat([part, mean])
    looks_of_all = dict.fromkeys(looks, ONE_OF_MANY) | legend
    return curves, looks_of_all, legend


def _of_runs(part: DataFrame, runs: Looks) -> Drawn:
    """A line per run, the mean of its clients, in a band from the lowest to the highest."""
    values = part.groupby(["run", "round"], sort=False)["value"]
    table = values.agg(value="mean", low="min", high="max").reset_index()
    legend = dict(runs)
    if part["client"].ne("").any():
        legend["lowest to highest client"] = BAND
    return table.rename(columns={"run": "name"}), runs, legend


def _extremes(part: DataFrame, runs: Looks) -> Drawn:
    """The largest and the smallest client of each run, distinguished by their markers.

    Long curves have few of them.
    """
    edges = []
    looks = {}
    legend = dict(runs)
    for run, curves in part.groupby("run", sort=False):
        by_round = curves.groupby("round")["value"]
        every = max(1, len(by_round) // 10)
        thin = {"markevery": every, "linewidth": 1.2, "markersize": 5}
        for edge, (words, marker) in zip(("max", "min"), EXTREMES.items(), strict=True):
            name = f"{words} of {run}"
            edge_of_rounds = by_round.agg(edge).reset_index()
            edges.append(edge_of_rounds.assign(name=name))
            looks[name] = {**runs[run], **thin, "marker": marker}
    for words, marker in EXTREMES.items():
        legend[words] = {"color": "#666666", "linestyle": "", "marker": marker}
    return pandas.concat(edges), looks, legend


def _panel(
    unit: str,
    values: ndarray,
    part: DataFrame,
    looks: Looks,
    axes: Axes,
) -> None:
    stretch(axes, values)
    bounds = ("low", "high") if "low" in part else None
    lines(
        part,
        axes,
        x="round",
        y="value",
        hue="name",
        looks=looks,
        bounds=bounds,
        ylabel=unit,
    )


def _nothing(unit: str, axes: Axes) -> None:
    axes.set_ylabel(unit)
    how: Look = {
        "ha": "center",
        "va": "center",
        "transform": axes.transAxes,
        "color": "#666666",
    }
    axes.text(0.5, 0.5, "no finite value", **how)


register(Figure("curves", "What did runs record over their rounds?", "runs", frame, draw))
