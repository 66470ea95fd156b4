"""results.json as tables and sentences, for a terminal, Markdown and the page."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from .. import console
from ..reporting.comparison import tests_against
from ..reporting.table import NONE, Table, mark, number
from ..reporting.table import Cell as Shown
from ..reporting.table import Column as Heading
from .compared import heading, shown
from .recipe import Column
from .record import Results, Row
from .results import OUTSIDE, OVERLAP, WITHIN
from .shape import UNITS

SPREADS = {
    "pooled": "population standard deviation over these rounds of all runs",
    "runs": "sample standard deviation of the runs' means",
}
MOMENTS = {
    "last5": "Mean over the last five rounds (all of a shorter run) and over seeds",
    "last": "Last round, mean over seeds",
    "best": "The round that was best on validation, mean over seeds",
}


def every(results: Results, star: str = "*") -> list[Table]:
    """Ours and the validation's; ours beside the published; the rows against the reference; what ran under which rule.

    star: how a legend calls the mark of the best.
    """
    return [*main(results, star), *tests(results)[1], ran(results)]


def main(results: Results, star: str = "*", *, published: bool = True) -> list[Table]:
    """published: whether the table with the published numbers is one of them, where there are such."""
    tables = [ours(results, star)]
    if results.shown_columns(validation=True):
        tables.append(on_validation(results, star))
    if published and (compared := beside(results)).rows:
        tables.append(compared)
    return tables


def ours(results: Results, star: str = "*") -> Table:
    """Our numbers, with the marks that results.json holds; "Ours" where some published number is beside them."""
    columns = results.shown_columns(validation=False)
    rows = [[Shown(row.name), *(_ours(results, row, column) for column in columns)] for row in results.rows]
    title = "Ours" if any(cell.published for row in results.rows for cell in row.cells.values()) else "Scores"
    return Table(title, [Heading(""), *map(heading, columns)], rows, _legend(results, star))


def _ours(results: Results, row: Row, column: Column) -> Shown:
    marks = results.marks[column.name]
    return replace(
        shown(row.cells[column.name], column), best=row.name in marks.best, doubtful=row.name in marks.doubtful
    )


def _is_clear(clear: Sequence[bool], first: int, _: int) -> bool:
    return clear[first]


def on_validation(results: Results, star: str = "*") -> Table:
    """Our numbers on validation images; the best is marked where its lead over the next exceeds the seeds' spread."""
    columns, stems = results.shown_columns(validation=True), [row.stem for row in results.rows]
    rows, parts = [[Shown(row.name)] for row in results.rows], []
    for column in columns:
        cells = [shown(row.cells[column.name], column) for row in results.rows]
        leads = {stem: _lead([c for c, its in zip(cells, stems, strict=True) if its == stem]) for stem in stems}
        covered = {stem: spread is not None and lead <= spread for stem, (lead, spread) in leads.items()}
        clear = [not covered[stem] for stem in stems]
        marked = mark(heading(column), cells, stems, partial(_is_clear, clear))
        rows = [[*row, cell] for row, cell in zip(rows, marked, strict=True)]
        several = len(columns) * len(leads) > 1
        parts += [(f" for {stem}, {column.name}" * several, *leads[stem]) for stem in leads if stems.count(stem) > 1]
    rounds = "Of each run's round that is best on its clients' validation images"
    what = f"{rounds}, mean ± sample standard deviation over seeds."
    legend = " ".join([what, *_choices(parts, star), _seeds(results)])
    return Table("On validation, best round", [Heading(""), *map(heading, columns)], rows, legend)


def _choices(parts: list[tuple[str, float, float | None]], star: str) -> list[str]:
    """The evidence behind the marks. parts: of what, the lead of its best over the next, and their spread."""
    sentences = [
        f"No best is marked{where}: the two highest values differ by {lead:.2f} points, which is within the standard "
        f"deviation over seeds, {spread:.2f}."
        for where, lead, spread in parts
        if spread is not None and lead <= spread
    ]
    if any(spread is None for _, _, spread in parts):
        return [*sentences, f"{star} marks the best; with one seed, its variation over seeds is unknown."]
    if len(sentences) < len(parts):
        sentences.append(f"{star} marks the best; its lead over the next exceeds the standard deviation over seeds.")
    return sentences


def _lead(cells: Sequence[Shown]) -> tuple[float, float | None]:
    """The distance of the best mean from the next, and the larger spread of the two; None where it is not known."""
    known = sorted((cell for cell in cells if cell.number is not None), key=lambda cell: -(cell.number or 0.0))[:2]
    if len(known) < 2:
        return 0.0, None
    spreads = [cell.std for cell in known if cell.std is not None]
    return (known[0].number or 0.0) - (known[1].number or 0.0), max(spreads, default=None)


def beside(results: Results) -> Table:
    """Our numbers with the published ones: a row per row and column that has one."""
    judged = results.scale == "paper"
    heads = ["row", "column", "ours", "published", "difference", *(["spreads"] if judged else [])]
    rows = []
    for row, column in product(results.rows, results.columns):
        cell = row.cells[column.name]
        if cell.published:
            both = shown(cell, column), shown(cell.published, column)
            verdict = [Shown(cell.verdict)] if judged else []
            rows.append([Shown(row.name), Shown(column.name), *both, _difference(*both, column), *verdict])
    legend = "Difference: ours minus published."
    if judged:
        legend += (
            f" {WITHIN}: it is within each of the two spreads; {OVERLAP}: within their sum; {OUTSIDE}: beyond it. An "
            "unknown spread counts as none."
        )
    else:
        legend += f" At --scale {results.scale} it says nothing about the paper."
    return Table("Beside the published numbers", [Heading(name) for name in heads], rows, legend)


def _difference(ours: Shown, published: Shown, column: Column) -> Shown:
    """The difference of two numbers as they are shown."""
    if ours.number is None or published.number is None:
        return Shown()
    digits = UNITS[column.unit][2]
    return number(round(ours.number, digits) - round(published.number, digits), digits=digits, sign="+")


def tests(results: Results) -> tuple[list[str], list[Table]]:
    """Differences of rows from the reference, as far as these runs can show: sentences, and a table for each score."""
    several = len({test.data for test in results.statistics}) > 1
    return tests_against([
        (f"{test.data}: " * several + f"{test.version} {test.metric}", test.reference, test.rows)
        for test in results.statistics
    ])  # fmt: skip


def ran(results: Results) -> Table:
    """A table of what ran under which rule."""
    lines = [[row.name, row.label or NONE, row.rule or NONE, row.command] for row in results.rows]
    return Table.of("What ran", ["row", "what ran", "rule", "command"], lines)


def _legend(results: Results, star: str) -> str:
    """A legend of the numbers and the marks. star: how the best is marked."""
    columns = [column.name for column in results.shown_columns(validation=False) if column.marked]
    tested = [name for name in columns if results.marks[name].tested]
    parts = [f"{MOMENTS[results.at]} ± {SPREADS[results.spread]}."]
    if tested:
        which = "" if len(tested) == len(columns) else f" (columns with tests: {', '.join(tested)})"
        parts.append(f"{star} marks the best of a column if it is significantly better than every other row{which}.")
    if len(tested) < len(columns):
        parts.append(f"{'Elsewhere ' if tested else ''}{star} marks the best number of a column, without a test.")
    if any(marks.doubtful for marks in results.marks.values()):
        parts.append("† marks a number decided by a group that is too small or lacks a class; it is never the best.")
    return " ".join([*parts, _seeds(results)])


def _seeds(results: Results) -> str:
    return f"{console.counted(len(results.seeds), 'seed', 'seeds')}: {', '.join(map(str, results.seeds))}."
