"""Findings of the cells, beside what was published: results.json."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..compare.cautions import at_chance
from ..compare.systems import Scored, read
from ..compare.tested import order
from ..data import manifest
from ..errors import UsageError, nearest
from ..scores.statistics import over_seeds
from ..scores.table import Number
from ..stages.train import resolved
from .derived import ByColumn, with_derived
from .jobs import Outcome
from .marks import Marks, score_tested
from .model import Column, Recipe
from .model import Row as RecipeRow
from .record import Cell, Failed, Published, Results, Row, Tests

TIMES = {"percent": 100.0, "points": 100.0, "MB": 1e-6, "none": 1.0}
WITHIN, OVERLAP, OUTSIDE, UNKNOWN = "within both", "overlap", "outside", "-"
Runs = Mapping[Path, Scored]  # by the path of their scores.json


def collect(
    recipe: Recipe, outcomes: list[Outcome], *, scale: str, work: Path, left_out: list[str],
    made_up: Sequence[str] = (),
) -> Results:  # fmt: skip
    """Everything that is known of these cells.

    left_out: a sentence for each part that is not there. made_up: datasets that are synthetic samples. Raises
    UsageError for a column that no scores.json has.
    """
    runs = {run.path: run for run in read(dict.fromkeys(outcome.scores for outcome in outcomes if outcome.scores))}
    nowhere = [column.name for column in recipe.columns if not _has_place(column, outcomes, runs, recipe)]
    names = dict.fromkeys(outcome.cell.row for outcome in outcomes)
    rounds = {name: _of_row(recipe, name, outcomes, runs) for name in names}
    rows = [_row(recipe, name, outcomes, runs, with_derived(recipe, rounds, name), scale, work) for name in names]
    marks = Marks(recipe, rows, outcomes, runs)
    results = Results(
        recipe=recipe.name,
        title="SYNTHETIC data: " * any(run.scores.sample for run in runs.values()) + _title(recipe, outcomes, scale),
        paper=recipe.paper,
        scale=scale,
        at=recipe.at,
        spread=recipe.spread,
        reference=recipe.reference,
        seeds=sorted({outcome.cell.seed for outcome in outcomes}),
        columns=list(recipe.columns),
        rows=rows,
        left_out=left_out,
        failed=[
            Failed(cell=outcome.cell.name, sentence=outcome.sentence) for outcome in outcomes if not outcome.scores
        ],
        statistics=list(_statistics(recipe, outcomes, runs)),
        marks={column.name: marks.of(column) for column in recipe.columns if not column.validation},
    )
    notes = _notes(recipe, results)
    notes += [f"The images of {name} are a SYNTHETIC sample: --raw was not given." for name in made_up]
    notes += [f"None of the rows that are here has the column {name}." for name in nowhere]
    return results.model_copy(update={"notes": notes})


def _title(recipe: Recipe, outcomes: list[Outcome], scale: str) -> str:
    """The recipe's, and at a reduced scale what ran: it may speak of more clients."""
    sources = {
        manifest.above(manifest.above(outcome.path, "run"), "corruption", "partition")
        for outcome in outcomes
        if outcome.scores
    }
    if scale == "paper" or not sources:
        return recipe.title
    bodies = [manifest.read(source).body for source in sources]
    counts = [_range({len(body["roster"]) for body in bodies}, "client", "clients")]
    if any("kind" in body for body in bodies):
        counts.append(_range({len(body.get("clients", [])) for body in bodies}, "corrupted", "corrupted"))
    counts.append(_range({resolved(outcome.cell.train).rounds for outcome in outcomes}, "round", "rounds"))
    return f"{recipe.title} (at {scale} scale: {', '.join(counts)})"


def _range(counts: set[int], singular: str, plural: str) -> str:
    low, high = min(counts), max(counts)
    return console.counted(low, singular, plural) if low == high else f"{low} to {high} {plural}"


def _done(outcomes: list[Outcome], name: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.cell.row == name and outcome.scores]


def _of_row(recipe: Recipe, name: str, outcomes: list[Outcome], runs: Runs) -> ByColumn:
    """Numbers of a row's runs at each column's place."""
    row = next(row for row in recipe.rows if row.name == name)
    return {
        column.name: {
            outcome.cell.seed: _rounds(
                runs[outcome.path].nested, column.model_copy(update={"score": row.place(column.score)}), recipe.at
            )
            for outcome in _done(outcomes, name)
            if outcome.cell.data == column.data
        }
        for column in recipe.columns
    }


def _row(
    recipe: Recipe, name: str, outcomes: list[Outcome], runs: Runs, rounds: ByColumn, scale: str, work: Path
) -> Row:  # fmt: skip
    """rounds: of the row, with the derived columns."""
    done = _done(outcomes, name)
    about = [runs[outcome.path].scores for outcome in done]
    row = next(row for row in recipe.rows if row.name == name)
    published = recipe.published.get("rows", {}).get(name, {})
    over_runs = {column.name for column in recipe.columns if column.validation}
    cells = {}
    for column, by_seed in rounds.items():
        ours = _summary([each for each in by_seed.values() if each], "runs" if column in over_runs else recipe.spread)
        cells[column] = _beside(ours, Published(**published[column]) if column in published else None, scale)
    return Row(
        name=name,
        label=about[0].label if about else None,
        rule=about[0].rule if about else None,
        command=_command(recipe, name, outcomes),
        holes=_holes(name, outcomes, rounds),
        warnings=sorted({scores.warning for scores in about if scores.warning}) + _at_chance(row, done, runs),
        cells=cells,
        scores={f"{outcome.cell.data}, seed {outcome.cell.seed}": _within(outcome.path, work) for outcome in done},
        stem=row.stem,
    )


def _at_chance(row: RecipeRow, done: list[Outcome], runs: Runs) -> list[str]:
    """On which data a row's global models may be no better than chance; of clients' own models it is not known."""
    titles = dict.fromkeys(outcome.cell.title for outcome in done if not row.scores_of)
    said = {title: at_chance([runs[each.path] for each in done if each.cell.title == title]) for title in titles}
    return [": ".join(filter(None, [title, text])) for title, text in said.items() if text]


def _holes(name: str, outcomes: list[Outcome], runs: ByColumn) -> dict[str, int]:
    """Column -> of how many runs its number is, where some failed or have no such number."""
    asked = {outcome.cell.data: 0 for outcome in outcomes}
    for outcome in outcomes:
        asked[outcome.cell.data] += outcome.cell.row == name
    counts = {column: sum(bool(rounds) for rounds in by_seed.values()) for column, by_seed in runs.items()}
    most = max(asked.values(), default=0)
    return {column: count for column, count in counts.items() if 0 < count < most}


def _command(recipe: Recipe, name: str, outcomes: list[Outcome]) -> str:
    """The command that trains a row, where its data and seeds agree about it."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        if outcome.cell.row == name:
            lines.setdefault(tuple(replace(outcome.cell.train, seed=0).argv()), []).append(outcome.cell.title)
    typed = {f"fedcli {shlex.join(line)}": titles for line, titles in lines.items()}
    if len(typed) == 1:
        return next(iter(typed))
    if len(typed) > len({outcome.cell.data for outcome in outcomes if outcome.cell.row == name}):
        return "differs by seed, see --dry-run"
    return "; ".join(f"{', '.join(dict.fromkeys(titles))}: {line}" for line, titles in typed.items())


def _within(path: Path, work: Path) -> str:
    return path.resolve().relative_to(work.resolve()).as_posix()


def _rounds(scores: Any, column: Column, at: str) -> list[float]:
    """A run's values of a column, one per round that counts, in the column's unit; none where it has no meaning."""
    if at == "best":
        scores = scores["best_on_validation"]
    values = [_values(value, at) for value in everywhere(scores, column.score)]
    known = [rounds for rounds in values if None not in rounds]
    return [sum(each) / len(each) * TIMES[column.unit] for each in zip(*known, strict=True)]


def _values(value: Any, at: str) -> list[Number]:
    """Numbers at one place, by round."""
    if isinstance(value, dict) and "last" in value:
        return [value["last"]] if at == "last" else value["per_round"]
    return value if isinstance(value, list) else [value]


def everywhere(scores: Any, place: str) -> list[Any]:
    """Everything that stands at a place, or at all the places that one with a part * means."""
    head, star, rest = place.partition("/*/")
    if not star:
        return [look_up(scores, place)]
    return [value for below in _below(look_up(scores, head)).values() for value in everywhere(below, rest)]


def look_up(scores: Any, place: str) -> Any:
    """The value at a place such as "versions/clean/accuracy", or None. Names may hold a slash."""
    below = _below(scores)
    if place in below:
        return below[place]
    parts = place.split("/")
    for count in range(len(parts) - 1, 0, -1):
        if (head := "/".join(parts[:count])) in below:
            return look_up(below[head], "/".join(parts[count:]))
    return None


def _has_place(column: Column, outcomes: list[Outcome], runs: Runs, recipe: Recipe) -> bool:
    """Tell whether some scores.json has a column's place; one that holds null has no meaning there, no mistake.

    Raises UsageError where none has it and all rows are there: a row that is left out might have it.
    """
    done = [outcome for outcome in outcomes if outcome.scores and outcome.cell.data == column.data]
    if not done or any(_exists(runs[outcome.path].nested, column.score) for outcome in done):
        return True
    if {row.name for row in recipe.rows if column.data in row.data} - {outcome.cell.row for outcome in done}:
        return False
    parts, at = column.score.split("/"), runs[done[0].path].nested
    while parts and (below := _below(at)) and (parts[0] in below or parts[0] == "*"):
        part = parts.pop(0)
        at = below[part] if part in below else next(iter(below.values()))
    raise UsageError(
        f"{recipe.name}: column {column.name!r}: scores.json has no {column.score!r}",
        nearest((parts or [""])[0], _below(at)),
    )


def _exists(scores: Any, place: str) -> bool:
    head, _, last = place.rpartition("/")
    above = everywhere(scores, head) if head else [scores]
    return any(value is not None for value in everywhere(scores, place)) or any(
        last in _below(parent) for parent in above
    )


def _below(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _summary(runs: list[list[float]], spread: str) -> Cell:
    if not runs:
        return Cell(mean=None, std=None, runs=0, per_run=[])
    over = over_seeds(runs)
    several = len(runs) > 1 or len(runs[0]) > 1  # one number has no spread
    per_run = [sum(run) / len(run) for run in runs]
    return Cell(mean=over.mean, std=over.std(spread) if several else None, runs=len(runs), per_run=per_run)


def _beside(ours: Cell, published: Published | None, scale: str) -> Cell:
    """Our numbers with the published ones, their difference and, where the two can be compared, what that means."""
    if published is None or ours.mean is None:
        return ours.model_copy(update={"published": published})
    difference = ours.mean - published.mean
    verdict = _verdict(difference, ours.std, published.std) if scale == "paper" else UNKNOWN
    beside = {"published": published, "difference": difference, "verdict": verdict}
    return ours.model_copy(update=beside)


def _verdict(difference: float, *spreads: float | None) -> str:
    """A word for a difference: within each spread, within their sum, or outside; an unknown spread counts as none."""
    known = [spread or 0.0 for spread in spreads]
    if abs(difference) <= min(known):
        return WITHIN
    return OVERLAP if abs(difference) <= sum(known) else OUTSIDE


def _notes(recipe: Recipe, results: Results) -> list[str]:
    """Notes for a reader, the recipe's own words first."""
    notes = list(recipe.notes)
    if results.scale != "paper":
        smaller = f"At --scale {results.scale} networks, images or rounds are smaller than the"
        with_paper = " paper's: the numbers are not to be compared with published ones."
        notes.append(smaller + (with_paper if recipe.published else " recipe's own."))
    elif len(results.seeds) < len(recipe.seeds):
        word = "Seeds" if len(results.seeds) > 1 else "Seed"
        notes.append(f"{word} {', '.join(map(str, results.seeds))} of the recipe's {len(recipe.seeds)}.")
    notes += [f"{name} shows clients' own models: it is in no test." for name in recipe.personal]
    notes += results.left_out
    notes += [f"Not there: {failure.cell}: {failure.sentence}." for failure in results.failed]
    for row in results.rows:
        notes += [f"{row.name}: {warning}." for warning in row.warnings]
        notes += [f"{row.name}, {column}: mean over only {count} of its runs." for column, count in row.holes.items()]
    return notes


def _statistics(recipe: Recipe, outcomes: list[Outcome], runs: Runs) -> Iterator[Tests]:
    """The rows on the very same data against the reference there, for each headline score."""
    done = [outcome for outcome in outcomes if outcome.scores and outcome.cell.row not in recipe.personal]
    scores = [(column.data, score) for column in recipe.columns if (score := score_tested(column))]
    for data, score in dict.fromkeys(scores):
        for rows in _same_data([outcome for outcome in done if outcome.cell.data == data]):
            if len(rows) < 2:
                continue
            reference = _reference(recipe, list(rows))
            systems = {name: [runs[path] for path in paths] for name, paths in rows.items()}
            about = {"version": score.version, "metric": score.metric, "reference": reference}
            yield Tests(data=data, **about, rows=order(systems, reference, score.metric, score.version))


def _same_data(outcomes: list[Outcome]) -> list[dict[str, list[Path]]]:
    """Row -> scores, for each set of rows whose runs of equal seeds read the same manifest."""
    rows: dict[str, dict[int, Path]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.cell.row, {})[outcome.cell.seed] = outcome.path
    sets: list[tuple[dict[int, Path], dict[str, list[Path]]]] = []
    for row, scores in rows.items():
        read = {
            seed: manifest.above(manifest.above(path, "run"), "corruption", "partition")
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
