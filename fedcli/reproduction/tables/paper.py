"""One page for a paper: each table and figure, what agrees, what differs by choice, and what could
not be run."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...data import manifest
from ...errors import FedcliError
from ...printed import fixed
from ...reporting import page
from ...reporting.table import NONE, ReportTable, Section
from ..recipe import Recipe
from ..record import Results
from . import agreement, beside

NOT_RUN = "What could not be run"
CHOICES = "What differs by choice, and what is odd in the paper"
ELSEWHERE = "other processes still play it; the last of them writes this page again"
MADE_UP = (
    "Generated images: made-up samples in the layout of the datasets. Their numbers say nothing "
    "about the paper."
)
HEADS = "table or figure", "runs", "agree", "order", "furthest from the paper"
ALWAYS = 2  # columns of the overview that it has even where no line has a value


@dataclass(frozen=True)
class Rebuilt:
    """A recipe of the paper with its folder. reason: why it ended early, in a sentence; "" where it
    did not."""

    recipe: Recipe
    folder: Path
    reason: str = ""

    @cached_property
    def results(self) -> Results | None:
        """The results of this time, or of an earlier one; None where there are none, or damaged
        ones."""
        with suppress(FedcliError):
            return Results.read(self.folder / "results.json")
        return None

    @property
    def name(self) -> str:
        """Such as "Table I: its two halves alone and together"."""
        return re.sub(
            r"^.*?(?=(Tables?|Figures?) )",
            "",
            self.recipe.title,
            flags=re.I,
        )


def title(parts: Sequence[Rebuilt], scale: str) -> str:
    """The paper's name, and at which scale it was rebuilt."""
    recipe = next(part.recipe for part in parts if part.name != part.recipe.title)
    paper = re.split(r"[ ,:]+(?:Tables?|Figures?) ", recipe.title, maxsplit=1)[0]
    text = f"{paper}: every table and figure"
    if _is_made_up(parts):
        text = f"SYNTHETIC data: {text}"
    return text if scale == "paper" else f"{text}, at {scale} scale"


def _is_made_up(parts: Sequence[Rebuilt]) -> bool:
    return any(part.results.title.startswith("SYNTHETIC") for part in parts if part.results)


def overview(parts: Sequence[Rebuilt]) -> ReportTable:
    """A line for each table and figure: what ran, and how it agrees."""
    lines = []
    for part in parts:
        facts = [NONE] * (len(HEADS) - 1)
        if part.results:
            facts = _facts(part.recipe, part.results)
        lines.append([part.name, *facts])
    columns = []
    for column in range(len(HEADS)):
        if column < ALWAYS or any(line[column] != NONE for line in lines):
            columns.append(column)
    legend = "Runs: with scores, of all."
    if len(columns) > ALWAYS:
        legend += (
            " Agree: published numbers in our 95 % prediction intervals, of those that have one; "
            "order: mean of Kendall's tau-b with the paper's order of rows; furthest: ours minus "
            "the paper's."
        )
    shown_lines = [_at(line, columns) for line in lines]
    return ReportTable.of(
        "",
        _at(HEADS, columns),
        shown_lines,
        legend,
    )


def _at(line: Sequence[str], columns: Sequence[int]) -> list[str]:
    return [line[column] for column in columns]


def _facts(recipe: Recipe, results: Results) -> list[str]:
    """The line of a table in the overview, without its name."""
    chains_of_rows = sum(len(row.data) for row in recipe.rows)
    cell_count = len(results.seeds) * chains_of_rows
    scored = sum(len(row.scores) for row in results.rows)
    verdicts = [cell.verdict for cell in results.cells if cell.half is not None]
    agree = NONE
    if verdicts:
        agreeing = verdicts.count(agreement.WITHIN)
        agree = f"{agreeing} of {len(verdicts)}"
    order = NONE
    if results.orders:
        taus = [order.tau for order in results.orders]
        order = fixed(sum(taus) / len(taus), 2)
    furthest = NONE
    differences = beside.differences(results).rows
    if differences:
        row_name, column_name, _, _, difference, *_ = differences[0]
        furthest = f"{difference.text}: {row_name.text}, {column_name.text}"
    return [f"{scored} of {cell_count}", agree, order, furthest]


def sentences(parts: Sequence[Rebuilt]) -> list[str]:
    """Findings about all tables together."""
    return agreement.sentences([part.results for part in parts if part.results])


def not_run(parts: Sequence[Rebuilt]) -> list[str]:
    """A sentence for each part that is not there, and why."""
    ended_early = [f"{part.name}: {part.reason}." for part in parts if part.reason]
    left_out = []
    failed = []
    for part in parts:
        if part.results:
            left_out += [f"{part.name}: {sentence}" for sentence in part.results.left_out]
            for failure in part.results.failed:
                failed.append(f"{part.name}: {failure.cell}: {failure.sentence}.")
    return ended_early + left_out + failed


def choices(parts: Sequence[Rebuilt]) -> list[str]:
    """The recipes' notes, each once with the tables that it is about."""
    names_by_note: dict[str, list[str]] = {}
    for part in parts:
        for note in part.recipe.notes:
            recipe_name = part.name.partition(":")[0]
            names_by_note.setdefault(note, []).append(recipe_name)
    return [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]


def write(folder: Path, parts: Sequence[Rebuilt], scale: str) -> Path:
    """Write the page of the paper and return its path."""
    folder.mkdir(parents=True, exist_ok=True)  # another process may write it too
    sections = [
        Section("agreement", "What agrees", [overview(parts)], findings=sentences(parts)),
        Section("missing", NOT_RUN, text=not_run(parts)),
    ]
    for part in parts:
        if part.results:
            sections.append(_section(part, part.results))
    section = Section("choices", CHOICES, text=choices(parts), closed=True)
    sections.append(section)
    lead = re.split(r", (?:Table|Figure)", parts[0].recipe.paper)[0]
    generated = MADE_UP if _is_made_up(parts) else ""
    document = page.Document(
        title(parts, scale),
        lead,
        [],
        sections,
        generated=generated,
    )
    manifest.write_text(folder / "report.html", document.html)
    return folder / "report.html"


def _section(part: Rebuilt, results: Results) -> Section:
    paths = {name: part.folder / Path(file).name for name, file in results.pictures.items()}
    tables = [*beside.main(results, "Bold"), *beside.compared(results)]
    drawn = [(name, path) for name, path in paths.items() if path.is_file()]
    return Section(
        part.recipe.name,
        part.name,
        tables,
        page.pictures(drawn),
        findings=beside.findings(results),
        folded=[beside.ran(results)],
        closed=True,
    )
