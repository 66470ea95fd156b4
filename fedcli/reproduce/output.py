"""The folder of a reproduction: results.json and table.md first, then the pictures and report.html; and its tables."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from .. import console
from ..data import manifest
from ..data.manifest import sync
from ..errors import FedcliError
from ..io.locks import held, scratch
from ..reporting import page, writers
from ..reporting.comparison import tests_against
from ..reporting.table import NONE, Table, mark, number
from ..reporting.table import Cell as Shown
from ..reporting.table import Column as Heading
from . import forecast, pictures
from .findings import heading, shown
from .headline import of_cell
from .jobs import Place, run, told
from .recipe import Column, Recipe
from .record import Results, Row
from .results import OUTSIDE, OVERLAP, WITHIN, collect
from .shape import UNITS
from .shared import Outcome, Shared


def play(
    recipe: Recipe, shared: Shared, place: Place, folder: Path, shown: Callable[[Results], None], *,
    measured: bool = True, **about: Any,
) -> list[Outcome]:  # fmt: skip
    """Train and score cells beside other processes; the last writes the folder and calls shown() with what is known.

    Returns what became of each, nothing where another process is the last.

    measured: whether time and memory are estimated first. about: as collect() takes it.
    """
    with shared:
        forecast.announce_again(shared.mine, shared.sources, place, folder)
        if measured:
            place = forecast.announce(shared.mine, shared.sources, place)
        judged = about.get("scale", "paper") == "paper"
        outcomes = run(shared, place, lambda outcome: of_cell(recipe, outcome, published=judged))
        if outcomes is None:
            return []
        lock = folder.with_name(f"{folder.name}.lock")
        with held(lock, f"another process is writing {folder}", "", told=console.status):
            made = collect(recipe, outcomes, work=place.work, **about)
            record(folder, made)
            try:
                made = illustrate(folder, recipe, made, outcomes, device=place.devices[0])
            finally:
                shown(made)
    return outcomes


def record(folder: Path, results: Results) -> None:
    """Write results.json and table.md; an older page and its pictures go, but for what illustrate() takes over."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    body = json.dumps(results.body(), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    manifest.write_text(folder / "results.json", f"{body}\n")
    manifest.write_text(folder / "table.md", markdown(results).rstrip("\n") + "\n")


def illustrate(folder: Path, recipe: Recipe, results: Results, outcomes: list[Outcome], *, device: str) -> Results:
    """Add the pictures and the page to a recorded folder, and return what results.json then holds.

    Raises FedcliError with what was written already.
    """
    undrawn = f"the pictures and the page are missing from {folder}, which has results.json and table.md"
    with _said(undrawn), scratch(folder) as temporary:
        drawn, missing = pictures.draw(recipe, results, outcomes, temporary, older=folder, device=device)
        named = {title: path.name for title, path in drawn}
        results = results.model_copy(update={"notes": [*results.notes, *missing], "pictures": named})
        record(temporary, results)
        sync(temporary)
        shutil.rmtree(folder)
        os.rename(temporary, folder)
    scores = list(dict.fromkeys(outcome.scores for outcome in outcomes if outcome.scores))
    if not scores:
        return results
    drawn = [(title, folder / path.name) for title, path in drawn]
    findings, of_tests = tests(results)
    with (
        _said(f"report.html is missing from {folder}, which has results.json, table.md and the pictures"),
        console.muted(),  # its remarks stand on the page
    ):
        page.write(
            folder / "report.html",
            scores,
            page.PageOptions(
                title=results.title,
                tables=[*main(results, "Bold"), ran(results)],
                findings=findings,
                tests=of_tests,
                notes=results.notes,
                pictures=drawn,
                at=results.at,
                spread=results.spread,
                clocks=False,  # equal scores, equal bytes
            ),
        )
    return results


@contextmanager
def _said(missing: str) -> Iterator[None]:
    """Any fault becomes an error that says what it left out."""
    try:
        yield
    except Exception as error:
        fault = told(error)
        raise FedcliError(f"{missing}: {fault.sentence}", fault.hint or "--debug shows where") from error


def markdown(results: Results) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {_line(results.title)}", results.paper]
    for table in [*main(results), *tests(results)[1], ran(results)]:
        parts += [f"## {_line(table.title)}", writers.markdown(table), table.legend]
    if findings := tests(results)[0]:
        parts += ["## What these runs show", "\n".join(f"- {_line(finding)}" for finding in findings)]
    if results.notes:
        parts += ["## Notes", "\n".join(f"- {_line(note)}" for note in results.notes)]
    parts += [f"![{_line(title)}]({name})" for title, name in results.pictures.items()]
    return console.printable("\n\n".join(part for part in parts if part))


def _line(text: str) -> str:
    return " ".join(text.split())


def show(results: Results) -> None:
    """Print the main tables, at smoke scale without the published numbers, which say nothing there; then what the tests
    show, and what is to be known before reading them."""
    for table in main(results, published=results.scale != "smoke"):
        writers.show(table)
        print(f"{table.legend}\n")
    if findings := tests(results)[0]:
        print("What these runs show (tests in table.md):", *findings, "", sep="\n")
    for note in results.notes:
        console.say(f"note: {note}")


SPREADS = {
    "pooled": "population standard deviation over these rounds of all runs",
    "runs": "sample standard deviation of the runs' means",
}
MOMENTS = {
    "last5": "Mean over the last five rounds (all of a shorter run) and over seeds",
    "last": "Last round, mean over seeds",
    "best": "The round that was best on validation, mean over seeds",
}


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
    rows = [[Shown(row.name), *(_marked(results, row, column) for column in columns)] for row in results.rows]
    title = "Ours" if any(cell.published for row in results.rows for cell in row.cells.values()) else "Scores"
    return Table(title, [Heading(""), *map(heading, columns)], rows, _legend(results, star))


def _marked(results: Results, row: Row, column: Column) -> Shown:
    cell, marks = shown(row.cells[column.name], column), results.marks[column.name]
    return replace(cell, best=row.name in marks.best, doubtful=row.name in marks.doubtful)


class Lead(NamedTuple):
    """The distance of the best mean from the next, and the larger spread of the two; None where it is not known."""

    by: float = 0.0
    spread: float | None = None

    @property
    def is_covered(self) -> bool:
        """Tell whether the spread is as large as the distance, so that nothing is the best."""
        return self.spread is not None and self.by <= self.spread


def on_validation(results: Results, star: str = "*") -> Table:
    """Our numbers on validation images; the best is marked where its lead over the next exceeds the seeds' spread."""
    columns, stems = results.shown_columns(validation=True), [row.stem for row in results.rows]
    rows: list[list[Shown]] = [[Shown(row.name)] for row in results.rows]
    leads: dict[str, Lead] = {}
    for column in columns:
        cells = [shown(row.cells[column.name], column) for row in results.rows]
        of_stem = {stem: _lead([cell for cell, its in zip(cells, stems, strict=True) if its == stem]) for stem in stems}
        clear = [not of_stem[stem].is_covered for stem in stems]
        marked = mark(heading(column), cells, stems, lambda first, _, clear=clear: clear[first])  # type: ignore[misc]
        rows = [[*row, cell] for row, cell in zip(rows, marked, strict=True)]
        several = len(columns) * len(of_stem) > 1
        leads |= {f" for {stem}, {column.name}" * several: of_stem[stem] for stem in of_stem if stems.count(stem) > 1}
    rounds = "Of each run's round that is best on its clients' validation images"
    what = f"{rounds}, mean ± sample standard deviation over seeds."
    legend = " ".join([what, *_choices(leads, star), _seeds(results)])
    return Table("On validation, best round", [Heading(""), *map(heading, columns)], rows, legend)


def _lead(cells: Sequence[Shown]) -> Lead:
    best = sorted((cell for cell in cells if cell.number is not None), key=lambda cell: -(cell.number or 0.0))[:2]
    if len(best) < 2:
        return Lead()
    spreads = [cell.std for cell in best if cell.std is not None]
    return Lead((best[0].number or 0.0) - (best[1].number or 0.0), max(spreads, default=None))


def _choices(leads: dict[str, Lead], star: str) -> list[str]:
    """The evidence behind the marks. leads: by what they are of."""
    sentences = [
        f"No best is marked{where}: the two highest values differ by {lead.by:.2f} points, which is within the "
        f"standard deviation over seeds, {lead.spread:.2f}."
        for where, lead in leads.items()
        if lead.is_covered
    ]
    if any(lead.spread is None for lead in leads.values()):
        return [*sentences, f"{star} marks the best; with one seed, its variation over seeds is unknown."]
    if len(sentences) < len(leads):
        sentences.append(f"{star} marks the best; its lead over the next exceeds the standard deviation over seeds.")
    return sentences


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
