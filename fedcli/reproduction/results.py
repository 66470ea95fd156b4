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
from .record import FailedCell, ResultCell, ResultRow, Results
from .shared import Outcome, under
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

    left_out: a sentence for each part that is not there. made_up: datasets that are synthetic
    samples. Raises UsageError for a column that no scores.json has.
    """
    recipe = with_columns_of(recipe, outcomes)
    paths = dict.fromkeys(outcome.scores for outcome in outcomes if outcome.scores)
    runs = {run.path: run for run in read(paths)}
    findings = Findings(recipe, outcomes, runs)
    absent_columns = [column.name for column in recipe.columns if not findings.has(column)]
    rows = _rows(findings, scale, work)
    tested_rows = rows
    chosen = None
    if recipe.tests_of_chosen:
        chosen = chosen_rows(recipe, rows)
        tested_rows = [row for row in rows if row.name in chosen]
        rows = [row if row.name in chosen else _without_tests(recipe, row) for row in rows]
        of_chosen = [outcome for outcome in outcomes if outcome.cell.row in chosen]
        findings = Findings(recipe, of_chosen, runs)
    title = _title(recipe, outcomes, scale)
    if any(run.scores.sample for run in runs.values()):
        title = f"SYNTHETIC data: {title}"
    seeds = sorted({outcome.cell.seed for outcome in outcomes})
    statistics = [] if scale == "smoke" else list(tests(findings))
    all_marks = marks(findings, tested_rows, tested=scale != "smoke")
    results = Results(
        recipe=recipe.name,
        title=title,
        paper=recipe.paper,
        scale=scale,
        at=recipe.at,
        spread=recipe.spread,
        reference=recipe.reference,
        seeds=seeds,
        columns=list(recipe.columns),
        rows=rows,
        left_out=list(left_out),
        failed=_failed(outcomes),
        statistics=statistics,
        marks=all_marks,
        layout=recipe.layout,
        chosen=chosen,
    )
    results = results.model_copy(update={"orders": list(orders(results))})
    notes = notes_of(recipe, results)
    notes += [
        f"The images of {name} are a SYNTHETIC sample: --raw was not given." for name in made_up
    ]
    notes += [f"None of the rows that are here has the column {name}." for name in absent_columns]
    notes += _of_shared_patients(outcomes, runs)
    return results.model_copy(update={"notes": notes})


def _rows(findings: Findings, scale: str, work: Path) -> list[ResultRow]:
    names = dict.fromkeys(outcome.cell.row for outcome in findings.outcomes)
    numbers = {name: findings.columns(name) for name in names}
    rows = []
    for name in names:
        derived = with_derived(findings.recipe, numbers, name)
        rows.append(_row(findings, name, derived, scale, work))
    return rows


def _failed(outcomes: Sequence[Outcome]) -> list[FailedCell]:
    failed = [outcome for outcome in outcomes if not outcome.scores]
    return [FailedCell(cell=end.cell.name, sentence=end.sentence) for end in failed]


def _of_shared_patients(outcomes: Sequence[Outcome], runs: Mapping[Path, Scored]) -> list[str]:
    """A sentence for each data on which patients of test images also have training images."""
    texts = {}
    for outcome in outcomes:
        if not outcome.scores:
            continue
        text = shared_patients.sentence(runs[outcome.path].scores.shared_patients)
        title = outcome.cell.title
        if text:
            sentence = f"{title}: {text}." if title else f"{text}."
            texts[sentence] = True
    return list(texts)


def chosen_rows(recipe: Recipe, rows: Sequence[ResultRow]) -> list[str]:
    """The row of each method with the best mean on validation images, the first of equals; none
    without such a mean."""
    best: dict[str, tuple[float, str]] = {}
    columns = [column.name for column in recipe.columns if column.validation]
    for row in rows:
        means = [row.cells[name].mean for name in columns]
        scores = [mean for mean in means if mean is not None]
        if not scores:
            continue
        score = fmean(scores)
        if row.stem not in best or score > best[row.stem][0]:
            best[row.stem] = score, row.name
    return [name for _, name in best.values()]


def _without_tests(recipe: Recipe, row: ResultRow) -> ResultRow:
    """A row without its numbers on test images, and without what follows from them."""
    validating = {column.name for column in recipe.columns if column.validation}
    nothing = summary([], recipe.spread)
    cells = {name: cell if name in validating else nothing for name, cell in row.cells.items()}
    holes = {name: count for name, count in row.holes.items() if name in validating}
    return row.model_copy(update={"cells": cells, "holes": holes, "chance": {}})


def with_columns_of(recipe: Recipe, outcomes: list[Outcome]) -> Recipe:
    """The recipe with the columns that are of data which the cells have, all of them of a mean."""
    data = {outcome.cell.data for outcome in outcomes}
    with_data = {column.name for column in recipe.columns if column.data in data}
    columns = []
    for column in recipe.columns:
        has_parts = bool(column.parts) and with_data.issuperset(column.parts)
        if has_parts or column.name in with_data:
            columns.append(column)
    return recipe.model_copy(update={"columns": tuple(columns)})


def _title(recipe: Recipe, outcomes: list[Outcome], scale: str) -> str:
    """The recipe's title, and at a reduced scale what ran: it may speak of more clients."""
    sources = {source_of(outcome.path) for outcome in outcomes if outcome.scores}
    if scale == "paper" or not sources:
        return recipe.title
    bodies = [manifest.read(source).body for source in sources]
    clients = {len(body["roster"]) for body in bodies}
    counts = [_range(clients, "client", "clients")]
    if any("kind" in body for body in bodies):
        corrupted = {len(body.get("clients", [])) for body in bodies}
        counts.append(_range(corrupted, "corrupted", "corrupted"))
    rounds = {resolved(outcome.cell.train).rounds for outcome in outcomes}
    counts.append(_range(rounds, "round", "rounds"))
    counts_text = ", ".join(counts)
    return f"{recipe.title} (at {scale} scale: {counts_text})"


def _range(counts: set[int], singular: str, plural: str) -> str:
    low = min(counts)
    high = max(counts)
    if low == high:
        return console.counted(low, singular, plural)
    return f"{low} to {high} {plural}"


def _row(
    findings: Findings,
    name: str,
    numbers: ByColumn,
    scale: str,
    work: Path,
) -> ResultRow:
    """A row of the table. numbers: of the row, with the derived columns."""
    recipe = findings.recipe
    scores = [run.scores for run in findings.scored(name)]
    outcomes = [outcome for outcome in findings.outcomes if outcome.cell.row == name]
    cells = {}
    for column in recipe.columns:
        spread = "runs" if column.validation else recipe.spread
        ours = summary(list(numbers[column.name].values()), spread)
        published = recipe.numbers.get(name, {}).get(column.name)
        is_sure = column.unit == "MB"
        cells[column.name] = judged(
            ours,
            published,
            scale=scale,
            spread=spread,
            sure=is_sure,
        )
    paths = {}
    for outcome in findings.done(name):
        cell_name = f"{outcome.cell.data}, seed {outcome.cell.seed}"
        paths[cell_name] = under(work, outcome.path)
    warnings = sorted({run.warning for run in scores if run.warning})
    return ResultRow(
        name=name,
        label=scores[0].label if scores else None,
        rule=scores[0].rule if scores else None,
        command=_command(outcomes),
        holes=_holes(numbers, outcomes),
        warnings=warnings,
        chance=chance_of(findings, name),
        cells=cells,
        scores=paths,
        stem=recipe.row(name).stem,
    )


def _holes(numbers: ByColumn, outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Column -> of how many runs its number is, where some of a row's have none."""
    runs_by_data = Counter(outcome.cell.data for outcome in outcomes)
    run_count = max(runs_by_data.values())
    counts = {column: sum(map(bool, by_seed.values())) for column, by_seed in numbers.items()}
    return {column: count for column, count in counts.items() if 0 < count < run_count}


def chance_of(findings: Findings, name: str) -> dict[str, str]:
    """Data on which a row's global models may be no better than chance, and why; of own models it
    is not known."""
    if findings.recipe.row(name).scores_of:
        return {}
    runs_by_title: dict[str, list[Scored]] = {}
    for outcome in findings.done(name):
        scored_run = findings.runs[outcome.path]
        runs_by_title.setdefault(outcome.cell.title, []).append(scored_run)
    texts = {title: at_chance(runs) for title, runs in runs_by_title.items()}
    return {title: text for title, text in texts.items() if text}


def _command(outcomes: list[Outcome]) -> str:
    """The command that trains a row's cells, where its data and seeds agree about it."""
    titles_by_line: dict[str, list[str]] = {}
    for outcome in outcomes:
        cell = outcome.cell
        of_any_seed = replace(cell.train, seed=0)
        line = shlex.join(["fedcli", *of_any_seed.argv()])
        titles = titles_by_line.setdefault(line, [])
        if cell.title not in titles:
            titles.append(cell.title)
    if len(titles_by_line) == 1:
        return next(iter(titles_by_line))
    chains = {outcome.cell.data for outcome in outcomes}
    if len(titles_by_line) > len(chains):
        return "differs by seed, see --dry-run"
    return "; ".join(f"{', '.join(titles)}: {line}" for line, titles in titles_by_line.items())


def summary(runs: list[list[float]], spread: str) -> ResultCell:
    """Our number over runs, each with a value per round; one without values does not count."""
    runs = [run for run in runs if run]
    if not runs:
        return ResultCell(mean=None, std=None, runs=0, per_run=[])
    over = over_seeds(runs)
    several = len(runs) > 1 or len(runs[0]) > 1  # one number has no spread
    return ResultCell(
        mean=over.mean,
        std=over.std(spread) if several else None,
        runs=len(runs),
        per_run=[sum(run) / len(run) for run in runs],
    )


def notes_of(recipe: Recipe, results: Results) -> list[str]:
    """Notes for a reader, the recipe's own words first."""
    notes = [*recipe.notes, *_on_scale(recipe, results)]
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


def _on_scale(recipe: Recipe, results: Results) -> list[str]:
    """A sentence on a reduced scale, or on seeds of the recipe that are left out."""
    if results.scale != "paper":
        smaller = f"At --scale {results.scale} networks, images or rounds are smaller than the"
        if not recipe.published:
            return [f"{smaller} recipe's own."]
        return [f"{smaller} paper's: the numbers are not to be compared with published ones."]
    if len(results.seeds) < len(recipe.seeds):
        word = "Seeds" if len(results.seeds) > 1 else "Seed"
        seeds = ", ".join(str(seed) for seed in results.seeds)
        return [f"{word} {seeds} of the recipe's {len(recipe.seeds)}."]
    return []
