"""The tables of a reproduction: the paper's shape, validation, differences, tests, what ran; and
all of it as text."""

from collections.abc import Sequence
from typing import NamedTuple

from ... import console
from ...printed import fixed
from ...reporting import table, writers
from ...reporting.comparison import tests_against
from ...reporting.table import ReportTable
from ..findings import heading, shown
from ..recipe import RecipeColumn
from ..record import ResultCell, Results
from ..shape import UNITS
from . import agreement, layout

MOST = 10  # differences that are listed
SPREADS = {
    "pooled": "population standard deviation over these rounds of all runs",
    "runs": "sample standard deviation of the runs' means",
}
WELCH = ", by Welch's test if the paper prints its deviation over runs"
MOMENTS = {
    "last5": "Mean over the last five rounds (all of a shorter run) and over seeds",
    "last": "Last round, mean over seeds",
    "best": "The round that was best on validation, mean over seeds",
}


def main(results: Results, star: str = "*") -> list[ReportTable]:
    """Our numbers on validation images where there are some, and those on test images in the
    paper's shape."""
    tables = list(layout.tables(results, _legend(results, star)))
    if results.shown_columns(validation=True):
        return [on_validation(results, star), *tables]
    return tables


def on_validation(results: Results, star: str = "*") -> ReportTable:
    """Our numbers on validation images; the best of a method's values is marked where seeds leave
    no doubt of it."""
    columns = results.shown_columns(validation=True)
    cells_by_column = [_marked(results, column) for column in columns]
    names = [table.Cell(row.name) for row in results.rows]
    rows = list(zip(names, *cells_by_column, strict=True))
    legend = (
        "Of each run's round that is best on its clients' validation images, mean ± sample "
        f"standard deviation over seeds. {star} marks the best of a method's values where its "
        "lead exceeds the larger of the two deviations, which one seed does not have. "
        f"{_seeds(results)}"
    )
    heads = [table.Column(""), *(heading(column) for column in columns)]
    return ReportTable("On validation, best round", heads, rows, legend)


def _marked(results: Results, column: RecipeColumn) -> Sequence[table.Cell]:
    """The numbers of a column with the best of each method's values marked."""
    cells = [shown(row.cells[column.name], column) for row in results.rows]
    stems = [row.stem for row in results.rows]
    return table.mark(
        heading(column),
        cells,
        stems,
        lambda i, k: _leads(cells[i], cells[k]),
    )


def _leads(best: table.Cell, other: table.Cell) -> bool:
    spreads = [cell.std for cell in (best, other) if cell.std is not None]
    if not spreads:
        return True
    best_number = best.number or 0.0
    other_number = other.number or 0.0
    lead = abs(best_number - other_number)
    return lead > max(spreads)


class CellDifference(NamedTuple):
    """Our number with the published one, and where it stands."""

    row: str
    column: RecipeColumn
    cell: ResultCell


def differences(results: Results) -> ReportTable:
    """The numbers that lie outside of our intervals, the furthest first; of one run each the
    largest differences."""
    listed = _differences(results)
    heads = ["row", "column", "ours", "paper", "difference"]
    title = "Largest differences"
    has_intervals = any(difference.cell.half is not None for difference in listed)
    if has_intervals:
        listed = [difference for difference in listed if difference.cell.beyond]
        listed.sort(key=lambda difference: -(difference.cell.beyond or 0.0))
        heads += ["interval", "outside by"]
        title = "Outside of our intervals, furthest first"
    elif results.scale == "smoke":
        listed = []
    else:
        listed.sort(key=lambda difference: -abs(difference.cell.difference or 0.0))
    largest = listed[:MOST]
    rows = [_line(difference, has_intervals=has_intervals) for difference in largest]
    legend = "Difference: ours minus the paper's."
    if len(listed) > MOST:
        legend += f" {len(listed) - MOST} more in results.json."
    columns = [table.Column(head) for head in heads]
    return ReportTable(
        title,
        columns,
        rows,
        legend,
    )


def _differences(results: Results) -> list[CellDifference]:
    differences = []
    for row in results.rows:
        for column in results.columns:
            cell = row.cells[column.name]
            if cell.published and cell.difference is not None:
                differences.append(CellDifference(row.name, column, cell))
    return differences


def _line(difference: CellDifference, *, has_intervals: bool) -> list[table.Cell]:
    cell = difference.cell
    column = difference.column
    digits = UNITS[column.unit][2]
    row_cell = table.Cell(difference.row)
    ours = shown(cell, column)
    cells = [row_cell, table.Cell(column.name), ours]
    if cell.published:
        cells.append(shown(cell.published, column))
    cells.append(table.number(cell.difference, digits=digits, sign="+"))
    if has_intervals:
        cells.append(table.Cell(f"± {cell.half:.{digits}f}"))
        beyond = f"{cell.beyond:.{digits}f}"
        cells.append(table.Cell(beyond))
    return cells


def orders(results: Results) -> ReportTable:
    """The order of rows in each column beside the paper's."""
    lines = [
        [order.column, order.rows, fixed(order.tau, 2), f"{order.p:.3f}"]
        for order in results.orders
    ]
    legend = (
        "Kendall's tau-b between our order and the paper's: 1 is the same, 0 what a random order "
        "has, -1 the reverse. p: share of orders that agree as much; of all orders up to "
        f"{agreement.MOST_ROWS} rows, else of random ones."
    )
    return ReportTable.of(
        "Order of the rows",
        ["column", "rows", "tau-b", "p"],
        lines,
        legend,
    )


def tests(results: Results) -> tuple[list[str], list[ReportTable]]:
    """Differences of rows from the reference, as far as these runs can show: sentences, and a table
    for each score."""
    chains = {test.data for test in results.statistics}
    several = len(chains) > 1
    groups = []
    for test in results.statistics:
        title = f"{test.version} {test.metric}"
        if several:
            title = f"{test.title or test.data}: {title}"
        groups.append((title, test.reference, test.rows))
    return tests_against(groups)


def ran(results: Results) -> ReportTable:
    """A table of what ran under which rule."""
    lines = [
        [row.name, row.label or table.NONE, row.rule or table.NONE, row.command]
        for row in results.rows
    ]
    return ReportTable.of(
        "What ran",
        ["row", "what ran", "rule", "command"],
        lines,
    )


def findings(results: Results) -> list[str]:
    """Sentences on the choice, on the published numbers together, on chance, and on differences
    between rows."""
    sentences, _ = tests(results)
    return [
        *choice(results),
        *agreement.sentences([results]),
        *at_chance(results),
        *sentences,
    ]


def choice(results: Results) -> list[str]:
    """A sentence that names the chosen rows with their numbers on validation images, and the rows
    that have the same numbers; none where nothing is chosen."""
    if not results.chosen or len(results.chosen) == len(results.rows):
        return []
    columns = results.shown_columns(validation=True)
    means = {}
    for row in results.rows:
        means[row.name] = row.stem, [row.cells[column.name].mean for column in columns]
    chosen = []
    for row in results.rows:
        if row.name in results.chosen:
            numbers = [shown(row.cells[column.name], column).plain for column in columns]
            text = f"{', '.join(numbers)} %"
            tied = [name for name in means if means[name] == means[row.name]]
            tied.remove(row.name)
            if tied:
                text = f"{text}, the same as {console.listed(tied)}"
            chosen.append(f"{row.name} ({text})")
    return [f"Chosen on the clients' validation images: {'; '.join(chosen)}."]


def at_chance(results: Results) -> list[str]:
    """A sentence for each data on which rows may be no better than chance."""
    rows_by_title: dict[str, list[str]] = {}
    for row in results.rows:
        for title in row.chance:
            rows_by_title.setdefault(title, []).append(row.name)
    sentences = []
    for title, rows in rows_by_title.items():
        names = "; ".join(rows)
        if len(rows) == len(results.rows) > 1:
            names = "every row"
        data = f" on {title}" if title else ""
        sentences.append(
            f"May be no better than chance{data}: {names}. No such row is marked as the best on "
            "test images."
        )
    return sentences


def markdown(results: Results) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {line(results.title)}", results.paper]
    for shown_table in [*main(results), *compared(results), *tests(results)[1], ran(results)]:
        title = f"## {line(shown_table.title)}"
        parts += [title, writers.markdown(shown_table), shown_table.legend]
    sentences = findings(results)
    if sentences:
        parts += ["## What these runs show", _bullets(sentences)]
    if results.notes:
        parts += ["## Notes", _bullets(results.notes)]
    parts += [f"![{line(title)}]({name})" for title, name in results.pictures.items()]
    return console.printable("\n\n".join(part for part in parts if part))


def _bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {line(sentence)}" for sentence in sentences)


def compared(results: Results) -> list[ReportTable]:
    """Tables on the published numbers: the largest differences, the order of rows."""
    return [table for table in (differences(results), orders(results)) if table.rows]


def latex(results: Results) -> str:
    """The main tables for a paper."""
    tables = list(layout.tables(results, ""))
    captions: list[list[str]] = [[] for _ in tables]
    if captions:
        captions[0] = [results.title, _legend(results, "Bold")]
    return writers.latex(tables, captions, results.notes)


def line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _legend(results: Results, star: str) -> str:
    moment = MOMENTS[results.at]
    spread = SPREADS[results.spread]
    parts = [f"{moment} ± {spread}."]
    parts += _on_marks(results, star)
    if any(marks.doubtful for marks in results.marks.values()):
        parts.append(
            "† marks a number decided by a group that is too small, or lacks a class or has few "
            "images of one; it is never the best."
        )
    if any(cell.published for cell in results.cells):
        parts.append(f"Below: {_of_paper(results)}")
    parts.append(_seeds(results))
    return " ".join(parts)


def _on_marks(results: Results, star: str) -> list[str]:
    """Sentences on the marks of the best numbers; none where no number is marked."""
    columns = results.shown_columns(validation=False)
    names = [column.name for column in columns if column.marked]
    if not any(results.marks[name].best for name in names):
        return []
    tested = [name for name in names if results.marks[name].tested]
    untested = "marks the best number of a column, without a test."
    if not tested:
        return [f"{star} {untested}"]
    sentence = (
        f"{star} marks the best of a column if it is significantly better than every other row"
    )
    if len(tested) == len(names):
        return [f"{sentence}."]
    tested_text = ", ".join(tested)
    return [
        f"{sentence} (columns with tests: {tested_text}).",
        f"In other columns {star.lower()} {untested}",
    ]


def _of_paper(results: Results) -> str:
    if results.scale != "paper":
        return f"as the paper prints it; at --scale {results.scale} it cannot be compared."
    text = "as the paper prints it"
    if any(cell.half is not None for cell in results.cells):
        welch = WELCH if results.spread == "runs" else ""
        runs = sorted({cell.published.runs for cell in results.cells if cell.published})
        expected = "one more run"
        if runs != [1]:
            counts = " or ".join(str(count) for count in runs)
            expected = f"the mean of {counts} more runs"
        text += (
            f", with {layout.FAR} where it lies outside of our 95 % prediction interval for "
            f"{expected}, over seeds alone{welch}; 9/14: nine of a line's fourteen do not"
        )
    return f"{text}."


def _seeds(results: Results) -> str:
    count = console.counted(len(results.seeds), "seed", "seeds")
    seeds = ", ".join(str(seed) for seed in results.seeds)
    return f"{count}: {seeds}."
