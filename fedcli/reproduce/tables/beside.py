"""The tables of a reproduction: the paper's shape, validation, differences, tests, what ran; and all of it as text."""

from collections.abc import Sequence
from itertools import product

from ... import console
from ...printed import fixed
from ...reporting import writers
from ...reporting.comparison import tests_against
from ...reporting.table import NONE, Table, mark, number
from ...reporting.table import Cell as Shown
from ...reporting.table import Column as Heading
from ..findings import heading, shown
from ..recipe import Column
from ..record import Cell, Results
from ..shape import UNITS
from . import agreement, layout

MOST = 10  # differences that are listed
SPREADS = {
    "pooled": "population standard deviation over these rounds of all runs",
    "runs": "sample standard deviation of the runs' means",
}
MOMENTS = {
    "last5": "Mean over the last five rounds (all of a shorter run) and over seeds",
    "last": "Last round, mean over seeds",
    "best": "The round that was best on validation, mean over seeds",
}


def main(results: Results, star: str = "*") -> list[Table]:
    """Our numbers on validation images where there are some, and those on test images in the paper's shape."""
    on_tests = layout.tables(results, _legend(results, star))
    if results.shown_columns(validation=True):
        return [on_validation(results, star), *on_tests]
    return [*on_tests]


def on_validation(results: Results, star: str = "*") -> Table:
    """Our numbers on validation images; the best of a method's values is marked where seeds leave no doubt of it."""
    columns, stems = results.shown_columns(validation=True), [row.stem for row in results.rows]

    def marked(column: Column) -> Sequence[Shown]:
        cells = [shown(row.cells[column.name], column) for row in results.rows]
        return mark(heading(column), cells, stems, lambda a, b: _leads(cells[a], cells[b]))

    rows = [*zip((Shown(row.name) for row in results.rows), *map(marked, columns), strict=True)]
    legend = (
        "Of each run's round that is best on its clients' validation images, mean ± sample standard deviation over "
        f"seeds. {star} marks the best of a method's values where its lead exceeds the larger of the two deviations, "
        f"which one seed does not have. {_seeds(results)}"
    )
    return Table("On validation, best round", [Heading(""), *map(heading, columns)], rows, legend)


def _leads(best: Shown, other: Shown) -> bool:
    spreads = [cell.std for cell in (best, other) if cell.std is not None]
    return not spreads or abs((best.number or 0.0) - (other.number or 0.0)) > max(spreads)


def differences(results: Results) -> Table:
    """The numbers that lie outside of our intervals, the furthest first; of one run each the largest differences."""
    pairs = [
        (row, column, row.cells[column.name])
        for row, column in product(results.rows, results.columns)
    ]
    known = [
        (row, column, cell)
        for row, column, cell in pairs
        if cell.published and cell.difference is not None
    ]
    outside = [each for each in known if each[2].beyond]
    judged = any(cell.half is not None for *_, cell in known)
    listed = outside if judged else known if results.scale != "smoke" else []
    listed.sort(key=lambda each: -(each[2].beyond or abs(each[2].difference or 0.0)))
    names = [
        "row",
        "column",
        "ours",
        "paper",
        "difference",
        *(["interval", "outside by"] if judged else []),
    ]
    rows = []
    for row, column, cell in listed[:MOST]:
        digits = UNITS[column.unit][2]
        both = shown(cell, column), *([shown(cell.published, column)] if cell.published else [])
        more = [f"± {cell.half:.{digits}f}", f"{cell.beyond:.{digits}f}"] if judged else []
        by = number(cell.difference, digits=digits, sign="+")
        rows.append([Shown(row.name), Shown(column.name), *both, by, *map(Shown, more)])
    more_of = f" {len(listed) - MOST} more in results.json." if len(listed) > MOST else ""
    title = "Outside of our intervals, furthest first" if judged else "Largest differences"
    return Table(
        title, [*map(Heading, names)], rows, f"Difference: ours minus the paper's.{more_of}"
    )


def orders(results: Results) -> Table:
    """The order of rows in each column beside the paper's."""
    lines = [
        [each.column, each.rows, fixed(each.tau, 2), f"{each.p:.3f}"] for each in results.orders
    ]
    legend = (
        "Kendall's tau-b between our order and the paper's: 1 is the same, 0 what a random order has, -1 the reverse. "
        f"p: share of orders that agree as much; of all orders up to {agreement.MOST_ROWS} rows, else of random ones."
    )
    return Table.of("Order of the rows", ["column", "rows", "tau-b", "p"], lines, legend)


def tests(results: Results) -> tuple[list[str], list[Table]]:
    """Differences of rows from the reference, as far as these runs can show: sentences, and a table for each score."""
    several = len({test.data for test in results.statistics}) > 1
    return tests_against(
        [
            (
                f"{test.title or test.data}: " * several + f"{test.version} {test.metric}",
                test.reference,
                test.rows,
            )
            for test in results.statistics
        ]
    )


def ran(results: Results) -> Table:
    """A table of what ran under which rule."""
    lines = [[row.name, row.label or NONE, row.rule or NONE, row.command] for row in results.rows]
    return Table.of("What ran", ["row", "what ran", "rule", "command"], lines)


def findings(results: Results) -> list[str]:
    """Sentences on the choice, on the published numbers together, on chance, and on differences between rows."""
    return [
        *choice(results),
        *agreement.sentences([results]),
        *at_chance(results),
        *tests(results)[0],
    ]


def choice(results: Results) -> list[str]:
    """A sentence that names the chosen rows with their numbers on validation images; none where nothing is chosen."""
    if not results.chosen or len(results.chosen) == len(results.rows):
        return []
    columns = results.shown_columns(validation=True)
    chosen = []
    for row in results.rows:
        if row.name in results.chosen:
            numbers = [shown(row.cells[column.name], column).plain for column in columns]
            chosen.append(f"{row.name} ({', '.join(numbers)} %)")
    return [f"Chosen on the clients' validation images: {'; '.join(chosen)}."]


def at_chance(results: Results) -> list[str]:
    """A sentence for each data on which rows may be no better than chance."""
    said = []
    for title in dict.fromkeys(title for row in results.rows for title in row.chance):
        rows = [row.name for row in results.rows if title in row.chance]
        which = "every row" if len(rows) == len(results.rows) > 1 else "; ".join(rows)
        on = f" on {title}" * bool(title)
        said.append(
            f"May be no better than chance{on}: {which}. No such row is marked as the best."
        )
    return said


def markdown(results: Results) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {line(results.title)}", results.paper]
    for table in [*main(results), *compared(results), *tests(results)[1], ran(results)]:
        parts += [f"## {line(table.title)}", writers.markdown(table), table.legend]
    if said := findings(results):
        parts += ["## What these runs show", "\n".join(f"- {line(finding)}" for finding in said)]
    if results.notes:
        parts += ["## Notes", "\n".join(f"- {line(note)}" for note in results.notes)]
    parts += [f"![{line(title)}]({name})" for title, name in results.pictures.items()]
    return console.printable("\n\n".join(part for part in parts if part))


def compared(results: Results) -> list[Table]:
    """Tables on the published numbers: the largest differences, the order of rows."""
    return [table for table in (differences(results), orders(results)) if table.rows]


def latex(results: Results) -> str:
    """The main tables for a paper."""
    made = [*layout.tables(results, "")]
    captions = [[results.title, _legend(results, "Bold")], *([] for _ in made[1:])]
    return writers.latex(made, captions, results.notes)


def line(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def _legend(results: Results, star: str) -> str:
    columns = [column.name for column in results.shown_columns(validation=False) if column.marked]
    cells = [cell for row in results.rows for cell in row.cells.values()]
    tested = [name for name in columns if results.marks[name].tested]
    parts = [f"{MOMENTS[results.at]} ± {SPREADS[results.spread]}."]
    marked = any(results.marks[name].best for name in columns)
    if tested and marked:
        which = "" if len(tested) == len(columns) else f" (columns with tests: {', '.join(tested)})"
        parts.append(
            f"{star} marks the best of a column if it is significantly better than every other row{which}."
        )
    if marked and len(tested) < len(columns):
        parts.append(
            f"{'Elsewhere ' if tested else ''}{star} marks the best number of a column, without a test."
        )
    if any(marks.doubtful for marks in results.marks.values()):
        parts.append(
            "† marks a number decided by a group that is too small, or lacks a class or has few images of "
            "one; it is never the best."
        )
    if any(cell.published for cell in cells):
        parts.append(f"Below: {_of_paper(results, cells)}")
    return " ".join([*parts, _seeds(results)])


def _of_paper(results: Results, cells: Sequence[Cell]) -> str:
    if results.scale != "paper":
        return f"as the paper prints it; at --scale {results.scale} it cannot be compared."
    said = "as the paper prints it"
    if any(cell.half is not None for cell in cells):
        runs = sorted({cell.published.runs for cell in cells if cell.published})
        of = (
            "one more run"
            if runs == [1]
            else f"the mean of {' or '.join(map(str, runs))} more runs"
        )
        said += (
            f", with {layout.FAR} where it lies outside of our 95 % prediction interval for {of}, "
        )
        said += "over seeds alone; 9/14: nine of a line's fourteen do not"
    return f"{said}."


def _seeds(results: Results) -> str:
    return f"{console.counted(len(results.seeds), 'seed', 'seeds')}: {', '.join(map(str, results.seeds))}."
