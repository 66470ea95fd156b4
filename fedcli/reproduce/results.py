"""What the cells found, beside what was published: results.json."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError, nearest
from ..evaluation.bootstrap import METRICS
from ..evaluation.statistics import over_seeds
from ..reporting import compare
from ..stages.train import plan
from .jobs import Outcome
from .marks import Marks
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


def collect(
    recipe: Recipe, outcomes: list[Outcome], *, scale: str, work: Path, left_out: list[str],
    made_up: Sequence[str] = (),
) -> Body:  # fmt: skip
    """Everything that is known, as results.json holds it: no clock, no path above `work`.

    left_out: a sentence for each part that is not there. made_up: datasets that are synthetic samples. Raises UsageError for a column that no scores.json has.
    """
    bodies = {one.scores: manifest.read(one.scores, "scores").body for one in outcomes if one.scores}
    nowhere = [column.name for column in recipe.columns if not _has_place(column, outcomes, bodies, recipe)]
    rows = [
        _row(recipe, name, outcomes, bodies, scale, work) for name in dict.fromkeys(one.cell.row for one in outcomes)
    ]
    title = "SYNTHETIC data: " * any(body.get("sample") for body in bodies.values()) + _title(recipe, outcomes, scale)
    found = {
        "recipe": recipe.name, "title": title, "paper": recipe.paper, "scale": scale, "at": recipe.at,
        "spread": recipe.spread, "reference": recipe.reference, "seeds": sorted({one.cell.seed for one in outcomes}),
        "columns": [vars(column) for column in recipe.columns], "rows": rows, "left_out": left_out,
        "failed": [{"cell": one.cell.name, "sentence": one.sentence} for one in outcomes if not one.scores],
    }  # fmt: skip
    found["notes"] = _notes(recipe, found, scale)
    found["notes"] += [f"The images of {name} are a SYNTHETIC sample: --raw was not given." for name in made_up]
    found["notes"] += [f"None of the rows that are here has the column {name}." for name in nowhere]
    found["statistics"] = list(_statistics(recipe, outcomes))
    marks = Marks(recipe, rows, outcomes, bodies)
    found["marks"] = {column.name: marks.of(column) for column in recipe.columns if not column.validation}
    return found


def _title(recipe: Recipe, outcomes: list[Outcome], scale: str) -> str:
    """The recipe's, and at a reduced scale what ran: it may speak of more clients."""
    sources = {
        manifest.parent(manifest.parent(one.scores, "run"), "corruption", "partition") for one in outcomes if one.scores
    }
    if scale == "paper" or not sources:
        return recipe.title
    bodies = [manifest.read(source).body for source in sources]
    said = [_range({len(body["roster"]) for body in bodies}, "client", "clients")]
    if any("kind" in body for body in bodies):
        said.append(_range({len(body.get("clients", [])) for body in bodies}, "corrupted", "corrupted"))
    said.append(_range({plan(one.cell.train).rounds for one in outcomes}, "round", "rounds"))
    return f"{recipe.title} (at {scale} scale: {', '.join(said)})"


def _range(counts: set[int], one: str, many: str) -> str:
    low, high = min(counts), max(counts)
    return console.counted(low, one, many) if low == high else f"{low} to {high} {many}"


def _row(
    recipe: Recipe, name: str, outcomes: list[Outcome], bodies: dict[Path, Body], scale: str, work: Path
) -> Body:  # fmt: skip
    done = [one for one in outcomes if one.cell.row == name and one.scores]
    about = [bodies[one.scores] for one in done]
    runs = {
        column.name: {
            one.cell.seed: _rounds(bodies[one.scores], column, recipe.at)
            for one in done
            if one.cell.data == column.data
        }
        for column in recipe.columns
    }
    runs |= {
        column.name: _mean_runs([runs[part] for part in column.mean_of]) for column in recipe.columns if column.mean_of
    }
    published = recipe.published.get("rows", {}).get(name, {})
    of_seeds = {column.name for column in recipe.columns if column.validation}
    cells = {
        column: _beside(
            _summary([rounds for rounds in of.values() if rounds], "runs" if column in of_seeds else recipe.spread),
            published.get(column),
            scale,
        )
        for column, of in runs.items()
    }
    return {
        "name": name,
        "label": about[0]["label"] if about else None,
        "rule": about[0]["rule"] if about else None,
        "command": _command(recipe, name, outcomes),
        "holes": _holes(name, outcomes, runs),
        "warnings": sorted({body["warning"] for body in about if body["warning"]}),
        "cells": cells,
        "scores": {f"{one.cell.data}, seed {one.cell.seed}": _within(one.scores, work) for one in done},
    }


def _holes(name: str, outcomes: list[Outcome], runs: dict[str, dict[int, Any]]) -> dict[str, int]:
    """Column -> of how many runs its number is, where some failed or have no such number."""
    asked = {one.cell.data: 0 for one in outcomes}
    for one in outcomes:
        asked[one.cell.data] += one.cell.row == name
    found = {column: sum(bool(rounds) for rounds in of.values()) for column, of in runs.items()}
    most = max(asked.values(), default=0)
    return {column: count for column, count in found.items() if 0 < count < most}


def _command(recipe: Recipe, name: str, outcomes: list[Outcome]) -> str:
    """How a row is trained, where its data and seeds agree about it."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for one in outcomes:
        if one.cell.row == name:
            lines.setdefault(tuple(replace(one.cell.train, seed=0).argv()), []).append(one.cell.title)
    typed = {f"fedcli {shlex.join(line)}": titles for line, titles in lines.items()}
    if len(typed) == 1:
        return next(iter(typed))
    if len(typed) > len({one.cell.data for one in outcomes if one.cell.row == name}):
        return "differs by seed, see --dry-run"
    return "; ".join(f"{', '.join(dict.fromkeys(titles))}: {line}" for line, titles in typed.items())


def _within(path: Path, work: Path) -> str:
    return path.resolve().relative_to(work.resolve()).as_posix()


def _rounds(body: Body, column: Column, at: str) -> list[float]:
    """A run's values of a column, one per round that counts, in the column's unit; none where it has no meaning."""
    if at == "best":
        body = body.get("best_on_validation") or {}
    found = [_values(one, at) for one in everywhere(body, column.score)]
    known = [values for values in found if None not in values]
    return [sum(values) / len(values) * TIMES[column.unit] for values in zip(*known, strict=True)]


def _values(found: Any, at: str) -> list[float | None]:
    """What stands at one place, by round."""
    if isinstance(found, dict):
        found = [found.get("last")] if at == "last" else found.get("per_round", [found.get("last")])
    return found if isinstance(found, list) else [found]


def _mean_runs(columns: list[dict[int, list[float]]]) -> dict[int, list[float]]:
    """Seed -> mean of several columns in each round, or of their means where their rounds are not as many."""
    means = {}
    for seed in columns[0]:
        runs = [column.get(seed) for column in columns]
        if not all(runs):
            continue
        if len({len(run) for run in runs}) > 1:
            runs = [[sum(run) / len(run)] for run in runs]
        means[seed] = [sum(values) / len(values) for values in zip(*runs, strict=True)]
    return means


def everywhere(body: Any, place: str) -> list[Any]:
    """What stands at a place, or at all the places that one with a part * means."""
    head, star, rest = place.partition("/*/")
    if not star:
        return [look_up(body, place)]
    table = look_up(body, head)
    return [found for one in table.values() for found in everywhere(one, rest)] if isinstance(table, dict) else []


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


def _has_place(column: Column, outcomes: list[Outcome], bodies: dict[Path, Body], recipe: Recipe) -> bool:
    """Whether some scores.json has a column's place; one that holds null has no meaning there, which is no mistake.

    Raises UsageError where none has it and all rows are there: a row that is left out might have it.
    """
    done = [one for one in outcomes if one.scores and one.cell.data == column.data]
    if not done or any(_exists(bodies[one.scores], column.score) for one in done):
        return True
    if {row.name for row in recipe.rows if column.data in row.data} - {one.cell.row for one in done}:
        return False
    parts, at = column.score.split("/"), bodies[done[0].scores]
    while parts and isinstance(at, dict) and at and (parts[0] in at or parts[0] == "*"):
        part = parts.pop(0)
        at = at[part] if part in at else next(iter(at.values()))
    known = at if isinstance(at, dict) else ()
    raise UsageError(
        f"{recipe.name}: column {column.name!r}: scores.json has no {column.score!r}",
        nearest((parts or [""])[0], known),
    )


def _exists(body: Body, place: str) -> bool:
    head, _, last = place.rpartition("/")
    above = everywhere(body, head) if head else [body]
    return any(found is not None for found in everywhere(body, place)) or any(
        isinstance(one, dict) and last in one for one in above
    )


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
        smaller = f"At --scale {scale} networks, images or rounds are smaller than the"
        with_paper = " paper's: the numbers are not to be compared with published ones."
        notes.append(smaller + (with_paper if recipe.published else " recipe's own."))
    elif len(found["seeds"]) < len(recipe.seeds):
        word = "Seeds" if len(found["seeds"]) > 1 else "Seed"
        notes.append(f"{word} {', '.join(map(str, found['seeds']))} of the recipe's {len(recipe.seeds)}.")
    notes += found["left_out"]
    notes += [f"Not there: {one['cell']}: {one['sentence']}." for one in found["failed"]]
    for row in found["rows"]:
        notes += [f"{row['name']}: {warning}." for warning in row["warnings"]]
        notes += [f"{row['name']}, {column}: of {count} of its runs alone." for column, count in row["holes"].items()]
    return notes


def _statistics(recipe: Recipe, outcomes: list[Outcome]) -> Iterator[Body]:
    """The rows on the very same data against the reference there, for each headline score."""
    for data, version, metric in dict.fromkeys(filter(None, map(_tested_score, recipe.columns))):
        for rows in _same_data([one for one in outcomes if one.cell.data == data and one.scores]):
            if len(rows) < 2:
                continue
            reference = _reference(recipe, list(rows))
            tested = compare.order(rows, reference, metric, version)
            yield {"data": data, "version": version, "metric": metric, "reference": reference, "rows": tested}


def _same_data(outcomes: list[Outcome]) -> list[dict[str, list[Path]]]:
    """Row -> scores, for each set of rows whose runs of equal seeds read the same manifest."""
    rows: dict[str, dict[int, Path]] = {}
    for one in outcomes:
        rows.setdefault(one.cell.row, {})[one.cell.seed] = one.scores
    sets: list[tuple[dict[int, Path], dict[str, list[Path]]]] = []
    for row, scores in rows.items():
        read = {
            seed: manifest.parent(manifest.parent(path, "run"), "corruption", "partition")
            for seed, path in scores.items()
        }
        for known, members in sets:
            if (common := known.keys() & read.keys()) and all(known[seed] == read[seed] for seed in common):
                known |= read
                members[row] = list(scores.values())
                break
        else:
            sets.append((read, {row: list(scores.values())}))
    return [members for _, members in sets]


def _reference(recipe: Recipe, rows: list[str]) -> str:
    """The reference among these rows: the recipe's, else the first of its method, else the first."""
    methods = {row.name: row.method for row in recipe.rows}
    alike = [name for name in rows if methods[name] == methods[recipe.reference]]
    return recipe.reference if recipe.reference in rows else [*alike, *rows][0]


def _tested_score(column: Column) -> tuple[str, str, str] | None:
    """Data, version and metric of a column that the statistics know."""
    place = column.score.split("/")
    return (column.data, *place[1:]) if place[0] == "versions" and place[-1] in (*METRICS, "auc_binary") else None
