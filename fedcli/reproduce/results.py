"""What the cells found, beside what was published: results.json, and the tables made of it."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError, nearest
from ..evaluation import compare
from ..evaluation.findings import HIGHER, LOWER
from ..evaluation.statistics import METRICS, over_seeds
from .cells import Outcome
from .recipe import Column, Recipe

TIMES = {"percent": 100.0, "points": 100.0, "MB": 1e-6, "none": 1.0}
SHOWN = {"percent": "%", "points": "points", "MB": "MB", "none": ""}
WITHIN, OVERLAP, OUTSIDE, UNKNOWN = "within both", "overlap", "outside", "-"
SPREADS = {
    "pooled": "population standard deviation over the rounds taken of all runs",
    "runs": "sample standard deviation of the runs' means",
}
MOMENTS = {
    "last5": "mean over the last five rounds (all of a shorter run) and over seeds",
    "last": "last round, mean over seeds",
    "best": "the round that was best on validation, mean over seeds",
}

Body = dict[str, Any]


def collect(recipe: Recipe, outcomes: list[Outcome], *, scale: str, work: Path, left_out: list[str]) -> Body:
    """Everything that is known, as results.json holds it: no clock, no path above `work`.

    Raises UsageError for a column that no scores.json has.
    """
    bodies = {one.scores: manifest.read(one.scores, "scores").body for one in outcomes if one.scores}
    for column in recipe.columns:
        _check_place(
            column, [bodies[one.scores] for one in outcomes if one.scores and one.cell.data == column.data], recipe
        )
    rows = [
        _row(recipe, name, outcomes, bodies, scale, work) for name in dict.fromkeys(one.cell.row for one in outcomes)
    ]
    found = {
        "recipe": recipe.name, "title": recipe.title, "paper": recipe.paper, "scale": scale, "at": recipe.at,
        "spread": recipe.spread, "reference": recipe.reference, "seeds": sorted({one.cell.seed for one in outcomes}),
        "columns": [vars(column) for column in recipe.columns], "rows": rows, "left_out": left_out,
        "failed": [{"cell": one.cell.name, "sentence": one.sentence} for one in outcomes if not one.scores],
    }  # fmt: skip
    found["notes"] = _notes(recipe, found, scale)
    found["statistics"] = list(_statistics(recipe, outcomes))
    return found


def _row(
    recipe: Recipe, name: str, outcomes: list[Outcome], bodies: dict[Path, Body], scale: str, work: Path
) -> Body:  # fmt: skip
    done = [one for one in outcomes if one.cell.row == name and one.scores]
    about = [bodies[one.scores] for one in done]
    cells = {}
    for column in recipe.columns:
        runs = [_rounds(bodies[one.scores], column, recipe.at) for one in done if one.cell.data == column.data]
        published = recipe.published.get("rows", {}).get(name, {}).get(column.name)
        cells[column.name] = _beside(_summary([rounds for rounds in runs if rounds], recipe.spread), published, scale)
    return {
        "name": name,
        "label": about[0]["label"] if about else None,
        "rule": about[0]["rule"] if about else None,
        "command": _command(recipe, name, outcomes),
        "cautions": sorted({body["caution"] for body in about if body["caution"]}),
        "cells": cells,
        "scores": {f"{one.cell.data}, seed {one.cell.seed}": _within(one.scores, work) for one in done},
    }


def _command(recipe: Recipe, name: str, outcomes: list[Outcome]) -> str:
    """How a row is trained, where its data and seeds agree about it."""
    lines = {one.cell.train[:-2] for one in outcomes if one.cell.row == name}  # without --seed N
    return f"fedcli {shlex.join(lines.pop())}" if len(lines) == 1 else "differs by data or seed, see --dry-run"


def _within(path: Path, work: Path) -> str:
    return path.resolve().relative_to(work.resolve()).as_posix()


def _rounds(body: Body, column: Column, at: str) -> list[float]:
    """A run's values of a column, one per round that counts, in the column's unit; none where it has no meaning."""
    if at == "best":
        found = look_up(body.get("best_on_validation") or {}, column.score)
    else:
        found = look_up(body, column.score)
    values = found
    if isinstance(found, dict):
        values = [found.get("last")] if at == "last" else found.get("per_round", [found.get("last")])
    values = values if isinstance(values, list) else [values]
    return [value * TIMES[column.unit] for value in values] if None not in values else []


def look_up(body: Any, place: str) -> Any:
    """What stands at a place such as "versions/clean/accuracy"; None where there is nothing. Names may hold a slash."""
    if not isinstance(body, dict):
        return None
    if place in body:
        return body[place]
    parts = place.split("/")
    for count in range(len(parts) - 1, 0, -1):
        if (head := "/".join(parts[:count])) in body:
            return look_up(body[head], "/".join(parts[count:]))
    return None


def _check_place(column: Column, bodies: list[Body], recipe: Recipe) -> None:
    """Refuse a place that no scores.json has; one that holds null has no meaning there, which is no mistake."""
    if not bodies or any(_exists(body, column.score) for body in bodies):
        return
    parts, at = column.score.split("/"), bodies[0]
    while parts and isinstance(at, dict) and parts[0] in at:
        at = at[parts.pop(0)]
    known = at if isinstance(at, dict) else ()
    raise UsageError(
        f"{recipe.name}: column {column.name!r}: scores.json has no {column.score!r}",
        nearest((parts or [""])[0], known),
    )


def _exists(body: Body, place: str) -> bool:
    head, _, last = place.rpartition("/")
    above = look_up(body, head) if head else body
    return look_up(body, place) is not None or (isinstance(above, dict) and last in above)


def _summary(runs: list[list[float]], spread: str) -> Body:
    if not runs:
        return {"mean": None, "std": None, "runs": 0, "per_run": []}
    found = over_seeds(runs)
    several = len(runs) > 1 or len(runs[0]) > 1  # one number has no spread
    std = found[f"std_{spread}"] if several else None
    return {"mean": found["mean"], "std": std, "runs": len(runs), "per_run": [sum(run) / len(run) for run in runs]}


def _beside(ours: Body, published: Body | None, scale: str) -> Body:
    """Our numbers with the published ones, their difference and, where the two can be compared, what that means."""
    known = published is not None and ours["mean"] is not None
    difference = ours["mean"] - published["mean"] if known else None
    compared = scale == "paper" and known
    verdict = _verdict(difference, ours["std"], published.get("std")) if compared else UNKNOWN
    return {**ours, "published": published, "difference": difference, "verdict": verdict}


def _verdict(difference: float, *spreads: float | None) -> str:
    """Whether a difference is within each spread, within their sum, or outside; an unknown spread counts as none."""
    known = [spread or 0.0 for spread in spreads]
    if abs(difference) <= min(known):
        return WITHIN
    return OVERLAP if abs(difference) <= sum(known) else OUTSIDE


def _notes(recipe: Recipe, found: Body, scale: str) -> list[str]:
    """What a reader must know, the recipe's own words first."""
    notes = list(recipe.notes)
    if scale != "paper":
        notes.append(
            f"At --scale {scale} networks, images or rounds are smaller than the paper's: the numbers are not to be compared with "
            "published ones."
        )
    elif len(found["seeds"]) < len(recipe.seeds):
        notes.append(f"Seeds {', '.join(map(str, found['seeds']))} of the recipe's {len(recipe.seeds)}.")
    notes += found["left_out"]
    notes += [f"Not there: {one['cell']}: {one['sentence']}." for one in found["failed"]]
    for row in found["rows"]:
        notes += [f"{row['name']}: {caution}." for caution in row["cautions"]]
    return notes


def _statistics(recipe: Recipe, outcomes: list[Outcome]) -> Iterator[Body]:
    """Every row against the reference, or the first row where that is not on the data, for each headline score."""
    for data, version, metric in dict.fromkeys(filter(None, map(_tested_score, recipe.columns))):
        rows: dict[str, list[Path]] = {}
        for one in outcomes:
            if one.cell.data == data and one.scores:
                rows.setdefault(one.cell.row, []).append(one.scores)
        if len(rows) < 2:
            continue
        reference = recipe.reference if recipe.reference in rows else next(iter(rows))
        tested = compare.order(rows, reference, metric, version)
        yield {"data": data, "version": version, "metric": metric, "reference": reference, "rows": tested}


def _tested_score(column: Column) -> tuple[str, str, str] | None:
    """Data, version and metric of a column that the statistics know."""
    place = column.score.split("/")
    return (column.data, *place[1:]) if place[0] == "versions" and place[-1] in (*METRICS, "auc_binary") else None


def ours(found: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of the table of our numbers; * marks the best of a column."""
    names = [column["name"] for column in found["columns"]]
    best = {column["name"]: _best(found, column) for column in found["columns"]}
    lines = [
        [
            row["name"],
            *(_shown(row["cells"][name]) + " *" * (_mean(row["cells"][name]) == best[name] != "-") for name in names),
        ]
        for row in found["rows"]
    ]
    return ["", *(heading(column) for column in found["columns"])], lines


def heading(column: Body) -> str:
    unit = SHOWN[column["unit"]]
    return f"{column['name']} ({unit})" if unit else column["name"]


def _best(found: Body, column: Body) -> str:
    """The best mean of a column as it is printed, so that a tie marks all of them; none where all are alike."""
    cells = [row["cells"][column["name"]] for row in found["rows"]] if column["marked"] else []
    known = [cell for cell in cells if cell["mean"] is not None]
    if len({_mean(cell) for cell in known}) < 2:
        return "-"
    pick = min if column["lower"] else max
    return _mean(pick(known, key=lambda cell: cell["mean"]))


def _mean(cell: Body) -> str:
    return _number(cell["mean"])


def _number(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2f}"


def _shown(cell: Body | None) -> str:
    if cell is None or cell["mean"] is None:
        return "-"
    return _number(cell["mean"]) + (f" ± {_number(cell['std'])}" if cell.get("std") is not None else "")


def beside(found: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of the table with the published numbers: a line per row and column that has one."""
    judged = found["scale"] == "paper"
    columns = ["row", "column", "ours", "published", "difference", *(["spreads"] if judged else [])]
    lines = [
        [
            row["name"],
            column["name"],
            _shown(cell),
            _shown(cell["published"]),
            _number(cell["difference"], "+"),
            *([cell["verdict"]] if judged else []),
        ]
        for row in found["rows"]
        for column in found["columns"]
        if (cell := row["cells"][column["name"]])["published"]
    ]
    return columns, lines


def order(tested: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of one test of all rows against the reference, in points."""
    columns = [
        "",
        "mean (%)",
        f"minus {tested['reference']}",
        "95 % interval",
        "p",
        "p (Holm)",
        "p over seeds (Holm)",
        "told",
    ]
    return columns, [_tested(row) for row in tested["rows"]]


def _tested(row: Body) -> list[str]:
    mean = _number(None if row["mean"] is None else 100 * row["mean"])
    if row["difference"] is None:
        return [row["name"], mean, "-", "-", "-", "-", "-", row["note"] or "-"]
    interval = f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}" if row["low"] is not None else "-"
    ps = [_p(row["p"]), _p(row.get("p_holm")), _p(row.get("p_seeds_holm"))]
    return [row["name"], mean, f"{100 * row['difference']:+.2f}", interval, *ps, row["verdict"]]


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def where(found: Body, tested: Body) -> str:
    """The score that a test is of."""
    data = f"{tested['data']}: " if len({one["data"] for one in found["statistics"]}) > 1 else ""
    return f"{data}{tested['version']} {tested['metric']}"


def told(found: Body) -> list[str]:
    """In a sentence for each score, which rows differ from the reference as far as these runs can tell."""
    return [f"{where(found, tested)}: {_told(tested)}." for tested in found["statistics"]]


def _told(tested: Body) -> str:
    said = []
    for verdict in (HIGHER, LOWER):
        if names := [row["name"] for row in tested["rows"] if row["verdict"] == verdict]:
            said.append(f"{', '.join(names)} {verdict} than {tested['reference']}")
    return "; ".join(said) or f"no row can be told from {tested['reference']}"


def legend(found: Body, star: str) -> str:
    """What the numbers are. star: how the best is marked."""
    marked = [column["name"] for column in found["columns"] if column["marked"]]
    of = "of a column" if len(marked) == len(found["columns"]) else f"by {' and '.join(marked)}"
    best = f"{star} is the best {of}. " if marked else ""
    seeds = ", ".join(map(str, found["seeds"]))
    return (
        f"{MOMENTS[found['at']].capitalize()} ± {SPREADS[found['spread']]}. {best}"
        f"{console.counted(len(found['seeds']), 'seed', 'seeds')}: {seeds}."
    )


def beside_legend(found: Body) -> str:
    said = "Difference: ours minus published."
    if found["scale"] != "paper":
        return f"{said} At --scale {found['scale']} it says nothing about the paper."
    return f"{said} {WITHIN}: it is within each of the two spreads; {OVERLAP}: within their sum; {OUTSIDE}: beyond it. A spread that is not known counts as none."


ORDER_LEGEND = (
    "In points, of the mean over the last five rounds. Interval and p: bootstrap over test patients, the trained models as "
    "they are. p over seeds: paired t test, the test images as they are. A difference counts as told where both are below "
    "0.05 after Holm's adjustment; of a single seed only the first is known."
)


def rules(found: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of what ran under which rule."""
    lines = [[row["name"], row["label"] or "-", row["rule"] or "-", row["command"]] for row in found["rows"]]
    return ["row", "what ran", "rule", "command"], lines
