"""Scores of the test set over the rounds: the mean of each system's runs, and its spread.

The band is of one standard deviation. A panel per score. Runs that differ in nothing but the seed
are one system; several of them give the band.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import numpy as np
import pandas
from pandas import DataFrame

from ...errors import FedcliError
from ..drawing import BAND, Panel, Picture
from ..figure import Figure, register
from ..series import Record, heading, over_runs
from ..shapes import lines, looks_of, picture

USUAL = "balanced_accuracy", "balanced_accuracy_macro", "auc_macro"  # the first that was recorded
SPREAD = "mean ± std over runs"
COLUMNS = ["series", "system", "round", "value", "low", "high", "place", "title", "unit"]


def frame(
    runs: Mapping[str, list[Record]],
    *,
    metric: Annotated[str, "of the test set; default: balanced_accuracy"] = "",
    version: Annotated[str, "of the test images: clean or corrupted; default: all"] = "",
) -> DataFrame:
    """A line per series, system and round, as of_series() makes them.

    Raises FedcliError where no run recorded it.
    """
    tested: list[str] = []
    for record in _every(runs):
        tested += [name for name, series in record.series.items() if series.tested]
    metric = metric or _usual(tested)
    score = f"{version} {metric}".lstrip()
    endings = () if version else (f" {metric}",)
    names = [name for name in tested if name == score or name.endswith(endings)]
    if not names:
        hint = "train with --eval-every 1 to record test curves"
        if tested:
            recorded = ", ".join(dict.fromkeys(tested))
            hint = f"known: {recorded}"
        raise FedcliError(f"no run recorded {score} over its rounds", hint)
    return of_series(runs, names)


def _usual(tested: list[str]) -> str:
    for metric in USUAL:
        if any(name.endswith(f" {metric}") for name in tested):
            return metric
    return USUAL[0]


def of_series(runs: Mapping[str, list[Record]], names: Sequence[str]) -> DataFrame:
    """A line per series, system and round: the system's place, the mean over runs, low, high.

    Nothing of a system without a finite value.
    """
    parts = []
    for name in dict.fromkeys(names):
        for position, (system, records) in enumerate(runs.items()):
            series = [record.series[name] for record in records if name in record.series]
            if not series:
                continue
            curve = over_runs(series)
            if np.isfinite(curve["value"]).any():
                curve = curve.assign(series=name, system=system, place=position)
                first_series = series[0]
                curve = curve.assign(title=first_series.title, unit=first_series.unit)
                parts.append(curve[COLUMNS])
    if not parts:
        return DataFrame(columns=COLUMNS)
    table = pandas.concat(parts, ignore_index=True)
    table.attrs["title"] = heading(_every(runs))
    return table


def _every(runs: Mapping[str, list[Record]]) -> list[Record]:
    return [record for records in runs.values() for record in records]


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "system")
    draw_panel = partial(
        lines,
        x="round",
        y="value",
        hue="system",
        looks=looks,
        bounds=("low", "high"),
    )
    panels = []
    by_unit = table.groupby(["title", "unit"], sort=False)
    for (title, unit), part in by_unit:
        panels.append(Panel(title, partial(draw_panel, part, ylabel=unit)))
    legend = dict(looks)
    if table["low"].notna().any():
        legend[SPREAD] = BAND
    return picture(table, panels, legend, below="round")


register(Figure("convergence", "How fast did methods learn?", "methods", frame, draw, every=True))
