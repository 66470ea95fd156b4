"""Curves of one or several runs over their rounds, a panel per series.

One run: a line per client, coloured by name up to twelve clients, beyond that thin ones under their mean. Several runs:
a colour per run; of clients' curves the mean, in a band from the lowest to the highest, of their weights, whose mean is
the same whatever they are, the smallest and the largest. Numbers that spread far stand on a logarithmic axis, numbers
that never change are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from pandas import DataFrame

from ... import console
from ...errors import UsageError
from .. import drawing
from ..drawing import COLOURS, INK, Axes, Look, Panel, Picture, band, line, look
from ..figure import Figure, register
from ..series import Record

NAMED = 12  # clients; more than that are drawn alike, without names
ALIKE = 0.75  # of difflib; qmix_loss and mean_loss are 0.67
EXTREMES = {"largest weight": "^", "smallest weight": "v"}  # markers
ONE_OF_MANY: Look = {"color": "#8A97A6", "linewidth": 0.8, "alpha": 0.5, "markersize": 2}
MEAN: Look = {"color": COLOURS[0], "linewidth": 2.4}
SERIES = "draw only this, such as loss or 'clean auc_ovo_macro'; may be repeated"


def frame(runs: Mapping[str, Record], *, series: Annotated[Sequence[str], SERIES] = ()) -> DataFrame:
    """A line per run, series, client and round: its value, NaN for null; the client of a single curve is ""."""
    records = list(runs.values())
    names = chosen(records, series)
    if still := [f"{name} ({value:g})" for name, value in constants(records).items() if name not in names]:
        console.say(
            f"left out, as {'it never changes' if len(still) == 1 else 'they never change'}: {', '.join(still)}"
        )
    parts = {(run, name): record.series[name].frame() for name in names for run, record in runs.items()
             if name in record.series}  # fmt: skip
    table = pandas.concat(parts, names=["run", "series"]).reset_index(["run", "series"]).reset_index(drop=True)
    series_of = {name: next(r.series[name] for r in records if name in r.series) for name in names}
    own = len({record.label for record in records}) > 1
    titles = {name: s.title + " (each method's own)" * (own and s.kind == "loss") for name, s in series_of.items()}
    table.attrs = {"title": heading(records), "titles": titles, "units": {n: s.unit for n, s in series_of.items()},
                   "shares": [name for name, s in series_of.items() if s.kind == "weights"]}  # fmt: skip
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
    usual = [name for name in known if not any(r.series[name].kind == "group" for r in records if name in r.series)]
    return list(dict.fromkeys(names)) or [name for name in usual if name not in still] or usual


def constants(records: list[Record]) -> dict[str, float]:
    """The series that have one value in all runs, of all clients, in all rounds, and that value."""
    values: dict[str, list[np.ndarray]] = {}
    for record in records:
        for name, series in record.series.items():
            values.setdefault(name, []).append(series.values)
    distinct = {name: np.unique(np.concatenate(parts)) for name, parts in values.items()}
    return {name: float(known[0]) for name, known in distinct.items() if len(known) == 1 and np.isfinite(known[0])}


def heading(records: list[Record]) -> str:
    """A line on what was recorded."""
    if len(records) > 1:
        datasets, seeds = {r.dataset for r in records}, {r.options.get("seed") for r in records}
        on = f" on {records[0].dataset}" if len(datasets) == 1 and "" not in datasets else ""
        return f"{len(records)} runs{on}" + (f", {len(seeds)} seeds" if len(seeds) > 1 else "")
    record = records[0]
    on = f" on {record.dataset}" if record.dataset else ""
    played = f"{record.played} of " * (record.played != record.rounds) + f"{record.rounds} rounds"
    return f"{record.label}{on}: {record.clients} clients, {played}"


def draw(table: DataFrame) -> Picture:
    about = table.attrs
    runs: dict[str, Look] = {run: look(place) for place, run in enumerate(table["run"].unique())}
    panels: list[Panel] = []
    legend: dict[str, Look] = {}
    for name, part in table.groupby("series", sort=False):
        named: dict[str, Look]
        clients = {client: look(place) for place, client in enumerate(part["client"].unique())}
        if part["value"].isna().all():
            how, named = _nothing, {}
        elif len(runs) == 1 and "" in clients:
            how, named = partial(_each, part, {"": {"color": INK}}), {}
        elif len(runs) == 1 and len(clients) > NAMED:
            how, named = partial(_crowd, part), {"one client": ONE_OF_MANY, "mean over clients": MEAN}
        elif len(runs) == 1:
            how, named = partial(_each, part, clients), clients
        elif name in about["shares"]:
            marks: dict[str, Look] = {
                what: {"color": "#666666", "linestyle": "", "marker": mark} for what, mark in EXTREMES.items()
            }
            how, named = partial(_extremes, part, runs), _there(part, runs) | marks
        else:
            banded = {"lowest to highest client": drawing.BAND} if set(clients) != {""} else {}
            how, named = partial(_several, part, runs), _there(part, runs) | banded
        legend |= named
        panels.append(Panel(about["titles"][name], partial(_panel, how, about["units"][name], part)))
    return Picture(about["title"], panels, legend, below="round")


def _there(part: DataFrame, runs: dict[str, Look]) -> dict[str, Look]:
    return {run: runs[run] for run in part["run"].unique()}


def _panel(how: Callable[[Axes], None], unit: str, part: DataFrame, axes: Axes) -> None:
    axes.set_ylabel(unit)
    drawing.rounds_axis(axes)
    if how is not _nothing:
        drawing.stretch(axes, part["value"].to_numpy())
    how(axes)


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no finite value", ha="center", va="center", transform=axes.transAxes, color="#666666")


def _each(part: DataFrame, looks: dict[str, Look], axes: Axes) -> None:
    for client, curve in part.groupby("client", sort=False):
        line(axes, curve[["round", "value"]].to_numpy(float), **looks[client])


def _crowd(part: DataFrame, axes: Axes) -> None:
    _each(part, dict.fromkeys(part["client"].unique(), ONE_OF_MANY), axes)
    line(axes, part.groupby("round")["value"].mean().reset_index().to_numpy(float), **MEAN)


def _several(part: DataFrame, runs: dict[str, Look], axes: Axes) -> None:
    for run, curves in part.groupby("run", sort=False):
        by_round = curves.groupby("round")["value"].agg(["mean", "min", "max"]).reset_index()
        if set(curves["client"]) != {""}:
            band(axes, by_round["round"], by_round["min"], by_round["max"], runs[run])
        line(axes, by_round[["round", "mean"]].to_numpy(float), **runs[run])


def _extremes(part: DataFrame, runs: dict[str, Look], axes: Axes) -> None:
    """The largest and the smallest client of each run, distinguished by their markers; long curves have few of them."""
    for run, curves in part.groupby("run", sort=False):
        by_round = curves.groupby("round")["value"].agg(["max", "min"])
        every = max(1, len(by_round) // 10)
        for edge, marker in zip(("max", "min"), EXTREMES.values(), strict=True):
            how = {**runs[run], "marker": marker, "markevery": every, "linewidth": 1.2, "markersize": 5}
            axes.plot(by_round.index, by_round[edge], **how)


register(Figure("curves", "What did runs record over their rounds?", "runs", frame, draw))
