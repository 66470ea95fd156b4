"""Curves of one or several runs over their rounds, a panel per series.

One run: a line per client, coloured by name up to twelve clients, beyond that thin ones under their mean. Several runs:
a colour per run; of clients' curves the mean, in a band from the lowest to the highest, of their weights, whose mean is
the same whatever they are, the smallest and the largest. Numbers that spread far stand on a logarithmic axis, numbers
that never change are left out.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from pandas import DataFrame

from ... import console
from ...errors import UsageError
from ..drawing import BAND, COLOURS, INK, Axes, Look, Panel, Picture
from ..figure import Figure, register
from ..series import Record, heading
from ..shapes import lines, looks_of, picture, stretch

NAMED = 12  # clients; more than that are drawn alike, without names
ALIKE = 0.75  # of difflib; qmix_loss and mean_loss are 0.67
EXTREMES = {"largest weight": "^", "smallest weight": "v"}  # markers
ONE_OF_MANY: Look = {"color": "#8A97A6", "linewidth": 0.8, "alpha": 0.5, "markersize": 2}
MEAN: Look = {"color": COLOURS[0], "linewidth": 2.4}
MEAN_OF_ALL = "mean over clients"
SERIES = "draw only this, such as loss or 'clean auc_ovo_macro'; may be repeated"
Drawn = tuple[
    DataFrame, dict[str, Look], dict[str, Look]
]  # lines by name, how each looks, and the legend


def frame(
    runs: Mapping[str, Record], *, series: Annotated[Sequence[str], SERIES] = ()
) -> DataFrame:
    """A line per run, series, client and round: its value, NaN for null; the client of a single curve is ""."""
    records = list(runs.values())
    names = chosen(records, series)
    if still := [
        f"{name} ({value:g})" for name, value in constants(records).items() if name not in names
    ]:
        which = "it never changes" if len(still) == 1 else "they never change"
        console.say(f"left out, as {which}: {', '.join(still)}")
    parts = {
        (run, name): record.series[name].frame()
        for name in names
        for run, record in runs.items()
        if name in record.series
    }
    table = (
        pandas.concat(parts, names=["run", "series"])
        .reset_index(["run", "series"])
        .reset_index(drop=True)
    )
    series_of = {name: next(r.series[name] for r in records if name in r.series) for name in names}
    own = len({record.label for record in records}) > 1
    titles = {
        name: s.title + " (each method's own)" * (own and s.kind == "loss")
        for name, s in series_of.items()
    }
    table.attrs = {
        "title": heading(records),
        "titles": titles,
        "units": {n: s.unit for n, s in series_of.items()},
        "shares": [name for name, s in series_of.items() if s.kind == "weights"],
    }
    return table


def chosen(records: list[Record], names: Sequence[str]) -> list[str]:
    """The series asked for, or all that some run has and that change. Raises UsageError for one that none has."""
    known = list(dict.fromkeys(name for record in records for name in record.series))
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1, cutoff=ALIKE)
            hint = f"did you mean {close[0]!r}? " if close else ""
            hint += "a series begins once a round has something to record, for some long after the first; known: "
            raise UsageError(f"no run has a series {name!r}", hint + ", ".join(known))
    still = constants(records)
    usual = [
        name
        for name in known
        if not any(r.series[name].kind == "group" for r in records if name in r.series)
    ]
    usual.sort(key=lambda name: not name.startswith("validation"))  # before those of test images
    return list(dict.fromkeys(names)) or [name for name in usual if name not in still] or usual


def constants(records: list[Record]) -> dict[str, float]:
    """The series that have one value in all runs, of all clients, in all rounds, and that value."""
    values: dict[str, list[np.ndarray]] = {}
    for record in records:
        for name, series in record.series.items():
            values.setdefault(name, []).append(series.values)
    distinct = {name: np.unique(np.concatenate(parts)) for name, parts in values.items()}
    return {
        name: float(known[0])
        for name, known in distinct.items()
        if len(known) == 1 and np.isfinite(known[0])
    }


def draw(table: DataFrame) -> Picture:
    about, runs = table.attrs, looks_of(table, "run")
    panels: list[Panel] = []
    legend: dict[str, Look] = {}
    for name, part in table.groupby("series", sort=False):
        drawn = partial(_nothing, about["units"][name])
        if part["value"].notna().any():
            how = (
                _of_clients
                if len(runs) == 1
                else _extremes
                if name in about["shares"]
                else _of_runs
            )
            shown, looks, named = how(part, {run: runs[run] for run in part["run"].unique()})
            drawn = partial(_panel, about["units"][name], part["value"].to_numpy(), shown, looks)
            legend |= named
        panels.append(Panel(about["titles"][name], drawn))
    return picture(table, panels, legend, below="round")


def _of_clients(part: DataFrame, runs: dict[str, Look]) -> Drawn:
    """A line per client of a single run; of many, thin ones under their mean."""
    looks, part = looks_of(part, "client"), part.rename(columns={"client": "name"})
    if "" in looks:
        return part, {"": {"color": INK}}, {}
    if len(looks) <= NAMED:
        return part, looks, looks
    mean = part.groupby("round")["value"].mean().reset_index().assign(name=MEAN_OF_ALL)
    legend = {"one client": ONE_OF_MANY, MEAN_OF_ALL: MEAN}
    return pandas.concat([part, mean]), dict.fromkeys(looks, ONE_OF_MANY) | legend, legend


def _of_runs(part: DataFrame, runs: dict[str, Look]) -> Drawn:
    """A line per run, the mean of its clients, in a band from the lowest to the highest."""
    by_round = part.groupby(["run", "round"], sort=False)["value"].agg(
        value="mean", low="min", high="max"
    )
    banded = {} if part["client"].eq("").all() else {"lowest to highest client": BAND}
    return by_round.reset_index().rename(columns={"run": "name"}), runs, runs | banded


def _extremes(part: DataFrame, runs: dict[str, Look]) -> Drawn:
    """The largest and the smallest client of each run, distinguished by their markers; long curves have few of them."""
    edges, looks = [], {}
    for run, curves in part.groupby("run", sort=False):
        by_round = curves.groupby("round")["value"]
        thin = {"markevery": max(1, len(by_round) // 10), "linewidth": 1.2, "markersize": 5}
        for edge, (words, marker) in zip(("max", "min"), EXTREMES.items(), strict=True):
            edges.append(by_round.agg(edge).reset_index().assign(name=f"{words} of {run}"))
            looks[f"{words} of {run}"] = {**runs[run], **thin, "marker": marker}
    grey: Look = {"color": "#666666", "linestyle": ""}
    return (
        pandas.concat(edges),
        looks,
        runs | {words: grey | {"marker": mark} for words, mark in EXTREMES.items()},
    )


def _panel(
    unit: str, values: np.ndarray, part: DataFrame, looks: dict[str, Look], axes: Axes
) -> None:
    stretch(axes, values)
    bounds = ("low", "high") if "low" in part else None
    lines(part, axes, x="round", y="value", hue="name", looks=looks, bounds=bounds, ylabel=unit)


def _nothing(unit: str, axes: Axes) -> None:
    axes.set_ylabel(unit)
    axes.text(
        0.5,
        0.5,
        "no finite value",
        ha="center",
        va="center",
        transform=axes.transAxes,
        color="#666666",
    )


register(Figure("curves", "What did runs record over their rounds?", "runs", frame, draw))
