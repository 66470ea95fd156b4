"""Findings of the cells, beside what was published: results.json."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from .. import console
from ..comparison.cautions import at_chance
from ..comparison.systems import Scored, read
from ..data import manifest, shared_patients
from ..scores.statistics.significance import over_seeds
from ..stages.train import resolved
from .findings import ByColumn, Findings, marks, source_of, tests, with_derived
from .recipe import Recipe
from .record import Cell, Failed, Results, Row
from .shared import Outcome
from .tables.agreement import judged, orders


def collect(
    recipe: Recipe,
    outcomes: list[Outcome],
    *,
    work: Path,
    scale: str = "paper",
    left_out: Sequence[str] = (),
    made_up: Sequence[str] = (),
) -> Results:
    """Everything that is known of these cells.

    left_out: a sentence for each part that is not there. made_up: datasets that are synthetic samples. Raises
    UsageError for a column that no scores.json has.
    """
    recipe = asked(recipe, outcomes)
    runs = {
        run.path: run
        for run in read(dict.fromkeys(outcome.scores for outcome in outcomes if outcome.scores))
    }
    findings = Findings(recipe, outcomes, runs)
    nowhere = [column.name for column in recipe.columns if not findings.has(column)]
    numbers = {
        name: findings.columns(name)
        for name in dict.fromkeys(outcome.cell.row for outcome in outcomes)
    }
    rows = [
        _row(findings, name, with_derived(recipe, numbers, name), scale, work) for name in numbers
    ]
    chosen = chosen_rows(recipe, rows) if recipe.tests_of_chosen else None
    if chosen is not None:
        rows = [row if row.name in chosen else _without_tests(recipe, row) for row in rows]
        findings = Findings(recipe, [end for end in outcomes if end.cell.row in chosen], runs)
    tested_rows = [row for row in rows if chosen is None or row.name in chosen]
    results = Results(
        title="SYNTHETIC data: " * any(run.scores.sample for run in runs.values())
        + _title(recipe, outcomes, scale),
        recipe=recipe.name,
        scale=scale,
        columns=list(recipe.columns),
        rows=rows,
        left_out=list(left_out),
        seeds=sorted({outcome.cell.seed for outcome in outcomes}),
        failed=[
            Failed(cell=each.cell.name, sentence=each.sentence)
            for each in outcomes
            if not each.scores
        ],
        statistics=[] if scale == "smoke" else list(tests(findings)),
        marks=marks(findings, tested_rows, tested=scale != "smoke"),
        chosen=chosen,
        **{key: getattr(recipe, key) for key in ("paper", "at", "spread", "reference", "layout")},
    )
    results = results.model_copy(update={"orders": list(orders(results))})
    notes = notes_of(recipe, results)
    notes += [
        f"The images of {name} are a SYNTHETIC sample: --raw was not given." for name in made_up
    ]
    notes += [f"None of the rows that are here has the column {name}." for name in nowhere]
    notes += _of_shared_patients(outcomes, runs)
    return results.model_copy(update={"notes": notes})


def _of_shared_patients(outcomes: Sequence[Outcome], runs: Mapping[Path, Scored]) -> list[str]:
    """A sentence for each data on which patients of test images also have training images."""
    texts = {}
    for outcome in outcomes:
        if not outcome.scores:
            continue
        text = shared_patients.sentence(runs[outcome.path].scores.shared_patients)
        title = outcome.cell.title
        if text:
            texts[f"{title}: {text}." if title else f"{text}."] = True
    return [*texts]


def chosen_rows(recipe: Recipe, rows: Sequence[Row]) -> list[str]:
    """The row of each method with the best mean on validation images, the first of equals; none without such a mean."""
    best: dict[str, tuple[float, str]] = {}
    names = [column.name for column in recipe.columns if column.validation]
    for row in rows:
        means = [row.cells[name].mean for name in names]
        known = [mean for mean in means if mean is not None]
        if not known:
            continue
        score = fmean(known)
        if row.stem not in best or score > best[row.stem][0]:
            best[row.stem] = score, row.name
    return [name for _, name in best.values()]


def _without_tests(recipe: Recipe, row: Row) -> Row:
    """A row without its numbers on test images, and without what follows from them."""
    validating = {column.name for column in recipe.columns if column.validation}
    nothing = summary([], recipe.spread)
    cells = {name: cell if name in validating else nothing for name, cell in row.cells.items()}
    holes = {name: count for name, count in row.holes.items() if name in validating}
    return row.model_copy(update={"cells": cells, "holes": holes, "chance": {}})


def asked(recipe: Recipe, outcomes: list[Outcome]) -> Recipe:
    """The recipe with the columns that are of data which the cells have, all of them of a mean."""
    data = {outcome.cell.data for outcome in outcomes}
    there = {column.name for column in recipe.columns if column.data in data}
    kept = [
        each
        for each in recipe.columns
        if each.name in there or (each.parts and {*each.parts} <= there)
    ]
    return recipe.model_copy(update={"columns": tuple(kept)})


def _title(recipe: Recipe, outcomes: list[Outcome], scale: str) -> str:
    """The recipe's, and at a reduced scale what ran: it may speak of more clients."""
    sources = {source_of(outcome.path) for outcome in outcomes if outcome.scores}
    bodies = [manifest.read(source).body for source in sources]
    if scale == "paper" or not bodies:
        return recipe.title
    counts = [_range({len(body["roster"]) for body in bodies}, "client", "clients")]
    if any("kind" in body for body in bodies):
        counts.append(
            _range({len(body.get("clients", [])) for body in bodies}, "corrupted", "corrupted")
        )
    counts.append(
        _range({resolved(outcome.cell.train).rounds for outcome in outcomes}, "round", "rounds")
    )
    return f"{recipe.title} (at {scale} scale: {', '.join(counts)})"


def _range(counts: set[int], singular: str, plural: str) -> str:
    low, high = min(counts), max(counts)
    return console.counted(low, singular, plural) if low == high else f"{low} to {high} {plural}"


def _row(findings: Findings, name: str, numbers: ByColumn, scale: str, work: Path) -> Row:
    """numbers: of the row, with the derived columns."""
    recipe, about = findings.recipe, [run.scores for run in findings.scored(name)]
    asked = [outcome for outcome in findings.outcomes if outcome.cell.row == name]
    most = max(Counter(outcome.cell.data for outcome in asked).values())
    counts = {column: sum(map(bool, by_seed.values())) for column, by_seed in numbers.items()}
    cells, scores = {}, {}
    for column in recipe.columns:
        ours = summary(
            [*numbers[column.name].values()], "runs" if column.validation else recipe.spread
        )
        published = recipe.numbers.get(name, {}).get(column.name)
        cells[column.name] = judged(ours, published, scale=scale, sure=column.unit == "MB")
    for outcome in findings.done(name):
        path = outcome.path.resolve().relative_to(work.resolve())
        scores[f"{outcome.cell.data}, seed {outcome.cell.seed}"] = path.as_posix()
    return Row(
        name=name,
        label=about[0].label if about else None,
        rule=about[0].rule if about else None,
        command=_command(asked),
        holes={column: count for column, count in counts.items() if 0 < count < most},
        warnings=sorted({scores.warning for scores in about if scores.warning}),
        chance=chance_of(findings, name),
        cells=cells,
        scores=scores,
        stem=recipe.row(name).stem,
    )


def chance_of(findings: Findings, name: str) -> dict[str, str]:
    """Data on which a row's global models may be no better than chance, and why; of own models it is not known."""
    runs: dict[str, list[Scored]] = {}
    for outcome in () if findings.recipe.row(name).scores_of else findings.done(name):
        runs.setdefault(outcome.cell.title, []).append(findings.runs[outcome.path])
    return {title: text for title, of_data in runs.items() if (text := at_chance(of_data))}


def _command(outcomes: list[Outcome]) -> str:
    """The command that trains a row's cells, where its data and seeds agree about it."""
    typed: dict[str, list[str]] = {}
    for cell in (outcome.cell for outcome in outcomes):
        line = shlex.join(["fedcli", *replace(cell.train, seed=0).argv()])
        typed.setdefault(line, []).append(cell.title)
    if len(typed) == 1:
        return next(iter(typed))
    if len(typed) > len({outcome.cell.data for outcome in outcomes}):
        return "differs by seed, see --dry-run"
    return "; ".join(
        f"{', '.join(dict.fromkeys(titles))}: {line}" for line, titles in typed.items()
    )


def summary(runs: list[list[float]], spread: str) -> Cell:
    """Our number over runs, each with a value per round; one without values does not count."""
    runs = [run for run in runs if run]
    if not runs:
        return Cell(mean=None, std=None, runs=0, per_run=[])
    over = over_seeds(runs)
    several = len(runs) > 1 or len(runs[0]) > 1  # one number has no spread
    per_run = [sum(run) / len(run) for run in runs]
    return Cell(
        mean=over.mean, std=over.std(spread) if several else None, runs=len(runs), per_run=per_run
    )


def notes_of(recipe: Recipe, results: Results) -> list[str]:
    """Notes for a reader, the recipe's own words first."""
    notes = list(recipe.notes)
    if results.scale != "paper":
        smaller = f"At --scale {results.scale} networks, images or rounds are smaller than the"
        with_paper = " paper's: the numbers are not to be compared with published ones."
        notes.append(smaller + (with_paper if recipe.published else " recipe's own."))
    elif len(results.seeds) < len(recipe.seeds):
        word = "Seeds" if len(results.seeds) > 1 else "Seed"
        notes.append(
            f"{word} {', '.join(map(str, results.seeds))} of the recipe's {len(recipe.seeds)}."
        )
    notes += [f"{name} shows clients' own models: it is in no test." for name in recipe.personal]
    notes += results.left_out
    notes += [f"Not there: {failure.cell}: {failure.sentence}." for failure in results.failed]
    for row in results.rows:
        notes += [f"{row.name}: {warning}." for warning in row.warnings]
        notes += [
            f"{row.name}, {column}: mean over only {count} of its runs."
            for column, count in row.holes.items()
        ]
    return notes
