"""The numbers of a recipe's rows in its columns, by seed and round, and rows compared by them.

Some columns follow from others. The best of a column is marked, and rows on the same data are
tested against the reference. A number that a group too small to be reliable decides is marked too,
and is never the best.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any

from ..comparison.cautions import doubtful_decisions, small_decides
from ..comparison.systems import Scored
from ..comparison.tested import Leads, order
from ..data import manifest
from ..errors import UsageError, nearest
from ..metrics import PARITY, RESAMPLED
from ..reporting import table
from ..reporting.comparison import in_words
from ..scores import views
from ..scores.parts import VERSIONS
from ..scores.scores import RunScores
from ..scores.table import Where
from . import places
from .recipe import BEST_OTHER, Recipe, RecipeColumn
from .record import Marked, ResultCell, ResultRow, Tests
from .shape import UNITS, Printed
from .shared import Outcome

EDGES = {
    "worst": views.WORST,
    "gap": views.GAP,
    "worst_in_each_round": views.WORST,
    "gap_in_each_round": views.GAP,
}
BySeed = dict[int, list[float]]  # seed -> a value per round that counts
ByColumn = dict[str, BySeed]  # by name of the column


@dataclass(frozen=True)
class Findings:
    """A recipe's cells and what became of them. runs: by the path of their scores.json."""

    recipe: Recipe
    outcomes: list[Outcome]
    runs: Mapping[Path, Scored]

    @property
    def scored_outcomes(self) -> list[Outcome]:
        """The outcomes that have scores."""
        return [outcome for outcome in self.outcomes if outcome.scores]

    def done(self, row: str, data: str | None = None) -> list[Outcome]:
        """The cells of a row, of all data or of one, that have scores."""
        scored = self.scored_outcomes
        outcomes = [outcome for outcome in scored if outcome.cell.row == row]
        if data is None:
            return outcomes
        return [outcome for outcome in outcomes if outcome.cell.data == data]

    def scored(self, row: str, data: str | None = None) -> list[Scored]:
        """The scores of these cells."""
        outcomes_done = self.done(row, data)
        return [self.runs[outcome.path] for outcome in outcomes_done]

    def columns(self, name: str) -> ByColumn:
        """The numbers of a row's runs at each column's place, in the column's unit."""
        row = self.recipe.row(name)
        numbers = ByColumn()
        for column in self.recipe.columns:
            score = row.place(column.score)
            factor = UNITS[column.unit][1]
            by_seed = numbers.setdefault(column.name, {})
            for outcome in self.done(name, column.data):
                values = places.rounds(
                    self._tree(outcome),
                    score,
                    self.recipe.at,
                )
                by_seed[outcome.cell.seed] = [factor * value for value in values]
        return numbers

    def _tree(self, outcome: Outcome) -> Any:
        """The nested form of a cell's scores in which the places of columns are."""
        nested = self.runs[outcome.path].nested
        return nested["best_on_validation"] if self.recipe.at == "best" else nested

    def has(self, column: RecipeColumn) -> bool:
        """Tell whether some scores.json has a column's place; one that holds null has no meaning
        there, no mistake.

        Raises UsageError where none has it and all rows are there: a row that is left out might
        have it.
        """
        scored = self.scored_outcomes
        done = [outcome for outcome in scored if outcome.cell.data == column.data]
        parts = column.score.split("/")
        ways = [places.reach(self._tree(outcome), parts) for outcome in done]
        if not ways or any(way.values for way in ways):
            return True
        rows = {row.name for row in self.recipe.rows if column.data in row.data}
        if rows - {outcome.cell.row for outcome in done}:
            return False
        depth = ways[0].depth
        word = parts[depth] if depth < len(parts) else ""
        score_hint = nearest(word, ways[0].names)
        raise UsageError(
            f"{self.recipe.name}: column {column.name!r}: scores.json has no {column.score!r}",
            score_hint,
        )


def with_derived(
    recipe: Recipe,
    rounds: Mapping[str, ByColumn],
    name: str,
) -> ByColumn:
    """A row's columns, those that are a difference to another row or a mean of other columns worked
    out."""
    numbers = dict(rounds[name])
    for column in recipe.columns:
        if column.minus:
            other = column.minus
            if other == BEST_OTHER:
                other = _best_other(column, rounds, name)
            subtrahend: BySeed = {}
            if other != name:
                subtrahend = rounds.get(other, {}).get(column.name, {})
            numbers[column.name] = _differences(numbers[column.name], subtrahend)
    means = {}
    for column in recipe.columns:
        if column.parts:
            parts = [numbers[part] for part in column.parts]
            means[column.name] = mean_runs(parts, harmonic=bool(column.harmonic_mean_of))
    return numbers | means


def _differences(minuend: BySeed, subtrahend: BySeed) -> BySeed:
    """The difference in each seed and round that both have."""
    differences = {}
    for seed, values in minuend.items():
        others = subtrahend.get(seed)
        if others is not None and len(others) == len(values):
            pairs = zip(values, others, strict=True)
            differences[seed] = [value - other for value, other in pairs]
    return differences


def _best_other(
    column: RecipeColumn,
    rounds: Mapping[str, ByColumn],
    name: str,
) -> str:
    """The row with the best mean but this one; "" where no other has a number."""
    means = {}
    for row, by_column in rounds.items():
        values: list[float] = []
        for run in by_column.get(column.name, {}).values():
            values += run
        if values and row != name:
            means[row] = fmean(values)
    best = min if column.lower else max
    return best(means, key=lambda row: means[row], default="")


def mean_runs(columns: list[BySeed], harmonic: bool = False) -> BySeed:
    """Seed -> mean of several columns in each round, or of their means where their rounds are not
    as many."""
    means = {}
    mean = harmonic_mean if harmonic else _mean
    for seed in columns[0]:
        runs = [column.get(seed) or [] for column in columns]
        if not all(runs):
            continue
        if len({len(run) for run in runs}) > 1:
            runs = [[_mean(run)] for run in runs]
        runs_of_seed = zip(*runs, strict=True)
        means[seed] = [mean(values) for values in runs_of_seed]
    return means


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def heading(column: RecipeColumn) -> table.Column:
    """A column's head in a table."""
    unit_text = UNITS[column.unit][0]
    return table.Column(
        in_words(column.name),
        unit_text,
        lower=column.lower,
    )


def shown(cell: ResultCell | Printed, column: RecipeColumn) -> table.Cell:
    """A number in a table, with its spread."""
    digits = UNITS[column.unit][2]
    return table.number(cell.mean, cell.std, digits=digits, sign=sign(column))


def sign(column: RecipeColumn) -> str:
    """The sign before a positive number of a column: "+" where it is a difference."""
    return "+" if column.minus else ""


def marks(
    findings: Findings,
    rows: list[ResultRow],
    *,
    tested: bool = True,
) -> dict[str, Marked]:
    """Marks of the rows, which are as results.json holds them, by column. tested: whether by
    tests."""
    columns = [column for column in findings.recipe.columns if not column.validation]
    metrics = list(dict.fromkeys(column.score.rpartition("/")[2] for column in columns))
    by_tests = tested and findings.recipe.at == "last5"
    leads_by_data: dict[str, Leads] = {}
    for column in columns:
        if column.data not in leads_by_data:
            systems = [findings.scored(row.name, column.data) for row in rows]
            leads_by_data[column.data] = Leads(systems, metrics)
    marks = {}
    for column in columns:
        leads = leads_by_data[column.data]
        marks[column.name] = _marked(findings, rows, column, leads, by_tests)
    return marks


@dataclass
class _Tested:
    """The test of pairs of rows in a column, and the answers that it gave.

    Attributes:
        score: None of a column without tests. personal: positions of rows that are in no test.
        compared: rows that one is compared with.
        answers: True, False, or None where there is no test.
    """

    leads: Leads
    score: Where | None
    personal: set[int]
    compared: int
    answers: list[bool | None] = field(default_factory=list)

    def may_lead(self, row: int, other: int) -> bool:
        """Tell whether a row leads another significantly, or is not tested against it."""
        answer = None
        if self.score and not self.personal & {row, other}:
            answer = self.leads.test(self.score, row, other, self.compared)
        self.answers.append(answer)
        return answer is not False


def _marked(
    findings: Findings,
    rows: list[ResultRow],
    column: RecipeColumn,
    leads: Leads,
    by_tests: bool,
) -> Marked:
    """Rows that are the `best` of a column and that are `doubtful`, and whether tests stand behind
    the best.

    The best leads every other row significantly; of a score without a test it is the best number.
    """
    recipe = findings.recipe
    cells = [_cell(findings, row, column) for row in rows]
    personal = {i for i, row in enumerate(rows) if row.name in recipe.personal}
    score = score_tested(column) if by_tests else None
    tested = _Tested(
        leads=leads,
        score=score,
        personal=personal,
        compared=sum(cell.number is not None for cell in cells) - 1,
    )
    marked: Sequence[table.Cell] = cells
    if column.marked:
        marked = table.mark(
            heading(column),
            cells,
            [""] * len(cells),
            tested.may_lead,
        )
    stuck = _at_chance(findings, rows, column)
    best = [row.name for row, cell in zip(rows, marked, strict=True) if cell.best]
    leading = [name for name in best if name not in stuck]
    doubtful = [row.name for row, cell in zip(rows, cells, strict=True) if cell.doubtful]
    all_tested = bool(tested.answers) and None not in tested.answers
    return Marked(
        best=leading,
        doubtful=doubtful,
        tested=all_tested,
    )


def _cell(
    findings: Findings,
    row: ResultRow,
    column: RecipeColumn,
) -> table.Cell:
    """A number of a row, doubtful where a small group decides it."""
    scored_runs = findings.scored(row.name, column.data)
    scores = [run.scores for run in scored_runs]
    doubtful = _is_doubtful(column.score.split("/"), scores, findings.recipe.at)
    return replace(shown(row.cells[column.name], column), doubtful=doubtful)


def _at_chance(
    findings: Findings,
    rows: list[ResultRow],
    column: RecipeColumn,
) -> set[str]:
    """The rows that may be no better than chance on the data of a column, or of one of its
    parts."""
    names = (column.name, *column.parts)
    data = {other.data for other in findings.recipe.columns if other.name in names}
    titles = {outcome.cell.title for outcome in findings.outcomes if outcome.cell.data in data}
    return {row.name for row in rows if titles & row.chance.keys()}


def score_tested(column: RecipeColumn) -> Where | None:
    """The score of a column that the paired tests are made of, and so its marks; None of another
    column."""
    match column.score.split("/"):
        case ["versions", version, metric] if version in VERSIONS and metric in RESAMPLED:
            return Where(version, metric=metric)
    return None


def _is_doubtful(parts: list[str], runs: list[RunScores], moment: str) -> bool:
    """Tell whether a small group decides a gap, a worst group or a difference in decisions in some
    run."""
    match parts:
        case ["groups", attribute, version, "over_rounds", metric, *edge]:
            grouped = [scores for scores in runs if attribute in scores.groups]
            if metric.startswith(PARITY):
                return any(doubtful_decisions(scores, attribute, [metric]) for scores in grouped)
            if edge:
                decided = small_decides(
                    grouped,
                    attribute,
                    version,
                    metric,
                    moment,
                )
                return EDGES.get(edge[-1]) in decided
    return False


def tests(findings: Findings) -> Iterator[Tests]:
    """The rows on the very same data against the reference there, for each headline score."""
    recipe = findings.recipe
    done = [
        outcome for outcome in findings.scored_outcomes if outcome.cell.row not in recipe.personal
    ]
    scores = dict.fromkeys((column.data, score_tested(column)) for column in recipe.columns)
    for data, score in scores:
        if score is None:
            continue
        outcomes = [outcome for outcome in done if outcome.cell.data == data]
        for paths_by_row in same_data(outcomes):
            if len(paths_by_row) > 1:
                yield _tests(findings, outcomes[0].cell.title, data, score, paths_by_row)


def _tests(
    findings: Findings,
    title: str,
    data: str,
    score: Where,
    paths_by_row: dict[str, list[Path]],
) -> Tests:
    reference = _reference(findings, list(paths_by_row))
    systems: dict[str, Sequence[Scored]] = {}
    for name, paths in paths_by_row.items():
        systems[name] = [findings.runs[path] for path in paths]
    compared = order(systems, reference, score.metric, score.version)
    return Tests(
        data=data,
        title=title,
        version=score.version,
        metric=score.metric,
        reference=reference,
        rows=compared,
    )


def source_of(scores: Path) -> Path:
    """The manifest of the data that a scores.json's run has read."""
    return manifest.above(
        manifest.above(scores, "run"),
        "corruption",
        "partition",
    )


def same_data(outcomes: list[Outcome]) -> list[dict[str, list[Path]]]:
    """Row -> scores, for each set of rows whose runs of equal seeds read the same manifest."""
    paths_by_row: dict[str, dict[int, Path]] = {}
    for outcome in outcomes:
        paths_by_row.setdefault(outcome.cell.row, {})[outcome.cell.seed] = outcome.path
    sets: list[tuple[dict[int, Path], dict[str, list[Path]]]] = []
    for row, paths in paths_by_row.items():
        sources = {seed: source_of(path) for seed, path in paths.items()}
        for manifests, members in sets:
            if _agree(manifests, sources):
                manifests |= sources
                members[row] = list(paths.values())
                break
        else:
            sets.append((sources, {row: list(paths.values())}))
    return [members for _, members in sets]


def _agree(manifests: dict[int, Path], others: dict[int, Path]) -> bool:
    """Tell whether two tables of manifests have seeds in common, and the same manifest of each of
    them."""
    common = manifests.keys() & others.keys()
    return bool(common) and all(manifests[seed] == others[seed] for seed in common)


def _reference(findings: Findings, rows: list[str]) -> str:
    recipe = findings.recipe
    if recipe.reference in rows:
        return recipe.reference
    method = recipe.row(recipe.reference).method
    alike = [name for name in rows if recipe.row(name).method == method]
    return [*alike, *rows][0]
