"""Scores of the test set over the rounds: the mean of each system's runs, in a band of one standard deviation.

A panel per score. Runs that differ in nothing but the seed are one system; several of them give the band.
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

USUAL = (
    "balanced_accuracy",
    "balanced_accuracy_macro",
    "auc_macro",
)  # the first that some run recorded
SPREAD = "mean ± std over runs"
COLUMNS = ["series", "system", "round", "value", "low", "high", "place", "title", "unit"]


def frame(
    runs: Mapping[str, list[Record]],
    *,
    metric: Annotated[str, "of the test set; default: balanced_accuracy"] = "",
    version: Annotated[str, "of the test images: clean or corrupted; default: all"] = "",
) -> DataFrame:
    """A line per series, system and round, as of_series() makes them. Raises FedcliError where no run recorded it."""
    tested = [
        name for record in _every(runs) for name, series in record.series.items() if series.tested
    ]
    metric = metric or next(
        (one for one in USUAL if any(name.endswith(f" {one}") for name in tested)), USUAL[0]
    )
    wanted = f"{version} {metric}".lstrip()
    names = [
        name for name in tested if name == wanted or (not version and name.endswith(f" {metric}"))
    ]
    if not names:
        known = f"known: {', '.join(dict.fromkeys(tested))}" if tested else ""
        hint = known or "train with --eval-every 1 to record test curves"
        raise FedcliError(f"no run recorded {wanted} over its rounds", hint)
    return of_series(runs, names)


def of_series(runs: Mapping[str, list[Record]], names: Sequence[str]) -> DataFrame:
    """A line per series, system and round: its place among the systems, the mean over runs, low and high; nothing of
    a system without a finite value."""
    parts = [DataFrame(columns=COLUMNS)]
    for name in dict.fromkeys(names):
        for place, (system, records) in enumerate(runs.items()):
            having = [record.series[name] for record in records if name in record.series]
            if having and np.isfinite((curve := over_runs(having))["value"]).any():
                about = {"series": name, "system": system, "place": place}
                parts.append(
                    curve.assign(**about, title=having[0].title, unit=having[0].unit)[COLUMNS]
                )
    if not parts[1:]:
        return parts[0]
    table = pandas.concat(parts[1:], ignore_index=True)
    table.attrs["title"] = heading(_every(runs))
    return table


def _every(runs: Mapping[str, list[Record]]) -> list[Record]:
    return [record for records in runs.values() for record in records]


def draw(table: DataFrame) -> Picture:
    looks = looks_of(table, "system")
    drawn = partial(lines, x="round", y="value", hue="system", looks=looks, bounds=("low", "high"))
    parts = table.groupby(["title", "unit"], sort=False)
    panels = [Panel(title, partial(drawn, part, ylabel=unit)) for (title, unit), part in parts]
    banded = {SPREAD: BAND} if table["low"].notna().any() else {}
    return picture(table, panels, looks | banded, below="round")


register(Figure("convergence", "How fast did methods learn?", "methods", frame, draw, every=True))
