"""What the cells found, beside what was published: results.json, and the tables made of it."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import UsageError, nearest
from ..evaluation import compare, findings
from ..evaluation.statistics import METRICS, over_seeds
from . import commandline
from .cells import Outcome
from .plan import plan_of
from .recipe import Column, Recipe

TIMES = {"percent": 100.0, "points": 100.0, "MB": 1e-6, "none": 1.0}
SHOWN = {"percent": "%", "points": "points", "MB": "MB", "none": ""}
DIGITS = {"MB": 6}  # single bytes; of other units 2
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

    left_out: a sentence for each part that is not there. made_up: datasets that are twins. Raises UsageError for a column that no scores.json has.
    """
    bodies = {one.scores: manifest.read(one.scores, "scores").body for one in outcomes if one.scores}
    nowhere = [column.name for column in recipe.columns if not _has_place(column, outcomes, bodies, recipe)]
    rows = [
        _row(recipe, name, outcomes, bodies, scale, work) for name in dict.fromkeys(one.cell.row for one in outcomes)
    ]
    found = {
        "recipe": recipe.name, "title": _title(recipe, outcomes, scale), "paper": recipe.paper, "scale": scale, "at": recipe.at,
        "spread": recipe.spread, "reference": recipe.reference, "seeds": sorted({one.cell.seed for one in outcomes}),
        "columns": [vars(column) for column in recipe.columns], "rows": rows, "left_out": left_out,
        "failed": [{"cell": one.cell.name, "sentence": one.sentence} for one in outcomes if not one.scores],
    }  # fmt: skip
    found["notes"] = _notes(recipe, found, scale)
    found["notes"] += [f"The images of {name} are made up: --raw was not given." for name in made_up]
    found["notes"] += [f"None of the rows that are here has the column {name}." for name in nowhere]
    found["statistics"] = list(_statistics(recipe, outcomes))
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
    said.append(_range({plan_of(commandline.parse(one.cell.train)).rounds for one in outcomes}, "round", "rounds"))
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
        "cautions": sorted({body["caution"] for body in about if body["caution"]}),
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
            lines.setdefault(one.cell.train[:-2], []).append(one.cell.title)  # without --seed N
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
        notes += [f"{row['name']}: {caution}." for caution in row["cautions"]]
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


def ours(found: Body, *, validation: bool = False) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of the table of our numbers, or of the validation's; * marks the best of a column."""
    columns = shown_columns(found, validation)
    best = {column["name"]: _best(found, column) for column in columns}
    lines = [
        [row["name"], *(_marked(row["cells"][column["name"]], column, best[column["name"]]) for column in columns)]
        for row in found["rows"]
    ]
    return ["", *(heading(column) for column in columns)], lines


def shown_columns(found: Body, validation: bool) -> list[Body]:
    return [column for column in found["columns"] if column["validation"] is validation]


def _marked(cell: Body, column: Body, best: str) -> str:
    return _shown(cell, column) + " *" * (_mean(cell, column) == best != "-")


def heading(column: Body) -> str:
    unit = SHOWN[column["unit"]]
    return f"{column['name']} ({unit})" if unit else column["name"]


def _best(found: Body, column: Body) -> str:
    """The best mean of a column as it is printed, so that a tie marks all of them; none where all are alike, or where
    chance alone may have put it first on validation."""
    cells = [row["cells"][column["name"]] for row in found["rows"]] if column["marked"] else []
    known = [cell for cell in cells if cell["mean"] is not None]
    if len({_mean(cell, column) for cell in known}) < 2 or (column["validation"] and _lead(found, column)[2]):
        return "-"
    pick = min if column["lower"] else max
    return _mean(pick(known, key=lambda cell: cell["mean"]), column)


def _lead(found: Body, column: Body) -> tuple[float, float | None, bool]:
    """How far the best mean of a column is from the next, the larger spread of the two, and whether it covers that."""
    cells = (row["cells"][column["name"]] for row in found["rows"])
    known = sorted((cell for cell in cells if cell["mean"] is not None), key=lambda cell: cell["mean"], reverse=True)
    if len(known) < 2:
        return 0.0, None, False
    first, second = known[:2]
    lead, spreads = first["mean"] - second["mean"], [one["std"] for one in (first, second) if one["std"] is not None]
    return lead, max(spreads, default=None), bool(spreads) and lead <= max(spreads)


def _mean(cell: Body, column: Body) -> str:
    return _number(cell["mean"], digits=_digits(column))


def _digits(column: Body) -> int:
    return DIGITS.get(column["unit"], 2)


def _number(value: float | None, sign: str = "", digits: int = 2) -> str:
    return "-" if value is None else f"{value:{sign}.{digits}f}"


def _shown(cell: Body | None, column: Body) -> str:
    if cell is None or cell["mean"] is None:
        return "-"
    std = cell.get("std")
    return _mean(cell, column) + (f" ± {_number(std, digits=_digits(column))}" if std is not None else "")


def beside(found: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of the table with the published numbers: a line per row and column that has one."""
    judged = found["scale"] == "paper"
    columns = ["row", "column", "ours", "published", "difference", *(["spreads"] if judged else [])]
    lines = [
        [
            row["name"],
            column["name"],
            _shown(cell, column),
            _shown(cell["published"], column),
            _number(_minus(cell["mean"], cell["published"]["mean"], _digits(column)), "+", _digits(column)),
            *([cell["verdict"]] if judged else []),
        ]
        for row in found["rows"]
        for column in found["columns"]
        if (cell := row["cells"][column["name"]])["published"]
    ]
    return columns, lines


def _minus(one: float | None, other: float | None, digits: int) -> float | None:
    """The difference of two numbers as they are shown."""
    return None if one is None or other is None else round(one, digits) - round(other, digits)


def order(tested: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of one test of all rows against the reference, in points."""
    columns = [
        "",
        "mean (%)",
        f"minus {tested['reference']}",
        "95 % interval",
        "p over patients",
        f"p over {findings.sampled(tested['rows'])}",
        "verdict",
    ]
    against = next(row["mean"] for row in tested["rows"] if row["name"] == tested["reference"])
    return columns, [_tested(row, against) for row in tested["rows"]]


def _tested(row: Body, against: float | None) -> list[str]:
    mean = _number(None if row["mean"] is None else 100 * row["mean"])
    if row["difference"] is None:
        return [row["name"], mean, "-", "-", "-", "-", row["note"] or "-"]
    interval = f"{100 * row['low']:+.2f} to {100 * row['high']:+.2f}" if row["low"] is not None else "-"
    ps = [_p(row["p_holm"]), _p(row["p_seeds_holm"])]
    known = row["mean"] is not None and against is not None
    same = known and abs(row["mean"] - against - row["difference"]) < 1e-9  # the means are of the very runs tested
    difference = _minus(100 * row["mean"], 100 * against, 2) if same else 100 * row["difference"]
    return [row["name"], mean, f"{difference:+.2f}", interval, *ps, row["verdict"]]


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def where(found: Body, tested: Body) -> str:
    """The score that a test is of."""
    data = f"{tested['data']}: " if len({one["data"] for one in found["statistics"]}) > 1 else ""
    return f"{data}{tested['version']} {tested['metric']}"


def told(found: Body) -> list[str]:
    """In a sentence for each score, which rows differ from the reference as far as these runs can tell; and how every
    row that answers one class for every image does so."""
    said = {
        where(found, tested): findings.against(tested["rows"], tested["reference"]) for tested in found["statistics"]
    }
    lines = [f"{score}: {sentence}." for score, sentence in said.items() if sentence]
    return [*lines, findings.NOT_EQUAL] if findings.NOT_TOLD in str(found["statistics"]) else lines


def order_legend(tested: Body) -> str:
    """What the numbers of a test are."""
    return f"In points, of the mean over the last five rounds. {findings.legend(tested['rows'])}"


def legend(found: Body, star: str) -> str:
    """What the numbers are. star: how the best is marked."""
    columns = shown_columns(found, False)
    marked = [column["name"] for column in columns if column["marked"]]
    of = "of a column" if len(marked) == len(columns) else f"by {' and '.join(marked)}"
    best = f"{star} is the best {of}. " if marked else ""
    return f"{MOMENTS[found['at']].capitalize()} ± {SPREADS[found['spread']]}. {best}{_seeds(found)}"


def _seeds(found: Body) -> str:
    return f"{console.counted(len(found['seeds']), 'seed', 'seeds')}: {', '.join(map(str, found['seeds']))}."


def validation_legend(found: Body, star: str) -> str:
    """What the numbers of the validation's table are, and whether they tell the best from the next."""
    (column,) = shown_columns(found, True)
    what = "Of each run's round that is best on its clients' validation images, mean ± sample standard deviation over seeds."
    lead, spread, covered = _lead(found, column)
    if covered:
        told = (
            f"No value can be told from the next on validation: the best two are {_number(lead)} points apart, within the "
            f"spread over seeds, {_number(spread)}; nothing is marked."
        )
    elif spread is None:
        told = f"{star} is the best; how far it varies from seed to seed is not known of one seed."
    else:
        told = f"{star} is the best, ahead of the next by more than the spread over seeds."
    return f"{what} {told} {_seeds(found)}"


def beside_legend(found: Body) -> str:
    said = "Difference: ours minus published."
    if found["scale"] != "paper":
        return f"{said} At --scale {found['scale']} it says nothing about the paper."
    return f"{said} {WITHIN}: it is within each of the two spreads; {OVERLAP}: within their sum; {OUTSIDE}: beyond it. A spread that is not known counts as none."


def rules(found: Body) -> tuple[list[str], list[list[str]]]:
    """Columns and lines of what ran under which rule."""
    lines = [[row["name"], row["label"] or "-", row["rule"] or "-", row["command"]] for row in found["rows"]]
    return ["row", "what ran", "rule", "command"], lines
