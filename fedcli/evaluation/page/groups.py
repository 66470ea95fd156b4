"""One part of the page per attribute: how good the models are for each group, and how far the groups lie apart."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..cells import POOLED, SHOWN, group_cells, parity_cells
from . import figures
from .statistics import mean_bounds
from .systems import System
from .tables import Table, of_cells

LEGEND = (
    "In percent, rows as in the table of scores. In square brackets: the group's test images. A group marked † is too small, or "
    "lacks a class, so that its score says little."
)


def parts(compared: list[System], at: str, spread: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(attribute, tables and figures) of all that some system was scored by."""
    for attribute in dict.fromkeys(name for one in compared for name in one.body["groups"]):
        by = [one for one in compared if all(attribute in body["groups"] for body in one.bodies)]
        tables, folded = [], []
        for version in by[0].body["groups"][attribute]:
            target = tables if version == "clean" else folded
            target += _tables(by, attribute, version, at, spread or POOLED)
        yield attribute, {"tables": tables, "folded": folded, "panels": _panels(by, attribute)}


def _tables(by: list[System], attribute: str, version: str, at: str, spread: str) -> Iterator[Table]:
    names, sizes = [one.name for one in by], _sizes(by[0].body, attribute)
    for metric in reversed(SHOWN):
        runs = [[group_cells(body, attribute, version, metric, at) for body in one.bodies] for one in by]
        yield from of_cells(
            f"{metric}, {version} test images",
            names,
            runs,
            spread,
            head=lambda name: sizes.get(name, name),
            legend=LEGEND,
        )
    runs = [[parity_cells(body, attribute, version, at) for body in one.bodies] for one in by]
    yield from of_cells(
        f"Decisions, {version} test images", names, runs, spread, legend=_undefined(by[0], attribute, version)
    )


def _sizes(body: dict[str, Any], attribute: str) -> dict[str, str]:
    """A column's head for each group: its name and how many test images it has."""
    found = body["groups"][attribute]["clean"]["last_round"]["groups"]
    return {value: f"{value} [{part['count']}]{' †' * part['small']}" for value, part in found.items()}


def _undefined(system: System, attribute: str, version: str) -> str:
    missing = system.body["groups"][attribute][version]["last_round"].get("undefined_rates") or []
    told = f" Left out, as no image defines them: {', '.join(missing)}." if missing else ""
    return "In percent, better when low: differences between groups in what the models decide." + told


def _panels(by: list[System], attribute: str) -> list[figures.Panels]:
    found = []
    for version in by[0].body["groups"][attribute]:
        for metric in reversed(SHOWN):
            points = {one.place: _points(one, attribute, version, metric) for one in by}
            if any(points.values()):
                found.append(figures.dots(points, f"{metric}, {version} test images", f"by {attribute}"))
    legend = (
        "The last round's model: its score on each group, in percent, and the 95 % bootstrap interval over the group's "
        "patients; of several seeds the means of both."
    )
    return [figures.Panels("", found, figures.keys(by), legend)] if found else []


def _points(system: System, attribute: str, version: str, metric: str) -> dict[str, tuple[float, float, float]]:
    """value -> score of the last round's model and its interval, averaged over the runs; NaN where there is none."""
    out = {}
    last = [body["groups"][attribute][version]["last_round"]["groups"] for body in system.bodies]
    for value in last[0]:
        scores = [groups.get(value, {}).get(metric) for groups in last]
        if None in scores:
            continue
        found = [
            body["groups"][attribute][version].get("intervals", {}).get(metric, {}).get(value) for body in system.bodies
        ]
        low, high = mean_bounds(found) or (np.nan, np.nan)
        out[value] = (float(np.mean(scores)), low, high)
    return out
