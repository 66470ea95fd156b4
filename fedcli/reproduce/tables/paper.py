"""One page for a paper: each table and figure, what agrees, what differs by choice, and what could not be run."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

from ...data import manifest
from ...errors import FedcliError
from ...printed import fixed
from ...reporting import page
from ...reporting.table import NONE, Section, Table
from ..recipe import Recipe
from ..record import Results
from . import agreement, beside

NOT_RUN, CHOICES = "What could not be run", "What differs by choice, and what is odd in the paper"
ELSEWHERE = "other processes still play it; the last of them writes this page again"
MADE_UP = "Generated images: made-up samples in the layout of the datasets. Their numbers say nothing about the paper."


@dataclass(frozen=True)
class Rebuilt:
    """A recipe of the paper with its folder. reason: why it ended early, in a sentence; "" where it did not."""

    recipe: Recipe
    folder: Path
    reason: str = ""

    @cached_property
    def results(self) -> Results | None:
        """The results of this time, or of an earlier one; None where there are none, or damaged ones."""
        with suppress(FedcliError):
            return Results.read(self.folder / "results.json")
        return None

    @property
    def name(self) -> str:
        """Such as "Table I: its two halves alone and together"."""
        return re.sub(r"^.*?(?=(Tables?|Figures?) )", "", self.recipe.title, flags=re.I)


def title(parts: Sequence[Rebuilt], scale: str) -> str:
    """The paper's name, and at which scale it was rebuilt."""
    of = next(part.recipe.title for part in parts if part.name != part.recipe.title)
    short = re.split(r"[ ,:]+(?:Tables?|Figures?) ", of, maxsplit=1)[0]
    made_up, at = (
        "SYNTHETIC data: " * _is_made_up(parts),
        f", at {scale} scale" * (scale != "paper"),
    )
    return f"{made_up}{short}: every table and figure{at}"


def _is_made_up(parts: Sequence[Rebuilt]) -> bool:
    return any(part.results.title.startswith("SYNTHETIC") for part in parts if part.results)


def overview(parts: Sequence[Rebuilt]) -> Table:
    """A line for each table and figure: what ran, and how it agrees."""
    heads = ["table or figure", "runs", "agree", "order", "furthest from the paper"]
    lines = [
        [part.name, *(_facts(part.recipe, part.results) if part.results else [NONE] * 4)]
        for part in parts
    ]
    known = [any(line[at] != NONE for line in lines) or at < 2 for at in range(len(heads))]
    heads, *lines = ([*compress(line, known)] for line in (heads, *lines))
    legend = "Runs: with scores, of all."
    if len(heads) > 2:
        legend += " Agree: published numbers in our 95 % prediction intervals, of those that have one; order: mean of "
        legend += (
            "Kendall's tau-b with the paper's order of rows; furthest: ours minus the paper's."
        )
    return Table.of("", heads, lines, legend)


def _facts(recipe: Recipe, results: Results) -> Iterator[str]:
    cells = len(results.seeds) * sum(len(row.data) for row in recipe.rows)
    yield f"{sum(len(row.scores) for row in results.rows)} of {cells}"
    known = [
        cell.verdict for row in results.rows for cell in row.cells.values() if cell.half is not None
    ]
    yield f"{known.count(agreement.WITHIN)} of {len(known)}" if known else NONE
    taus = [order.tau for order in results.orders]
    yield fixed(sum(taus) / len(taus), 2) if taus else NONE
    first = next(iter(beside.differences(results).rows), None)
    yield f"{first[4].text}: {first[0].text}, {first[1].text}" if first else NONE


def sentences(parts: Sequence[Rebuilt]) -> list[str]:
    """Findings about all tables together."""
    return agreement.sentences([part.results for part in parts if part.results])


def not_run(parts: Sequence[Rebuilt]) -> list[str]:
    """A sentence for each part that is not there, and why."""
    there = [(part.name, part.results) for part in parts if part.results]
    return [
        *(f"{part.name}: {part.reason}." for part in parts if part.reason),
        *(f"{name}: {sentence}" for name, results in there for sentence in results.left_out),
        *(
            f"{name}: {each.cell}: {each.sentence}."
            for name, results in there
            for each in results.failed
        ),
    ]


def choices(parts: Sequence[Rebuilt]) -> list[str]:
    """The recipes' notes, each once with the tables that it is about."""
    about: dict[str, list[str]] = {}
    for part in parts:
        for note in part.recipe.notes:
            about.setdefault(note, []).append(part.name.partition(":")[0])
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]


def write(folder: Path, parts: Sequence[Rebuilt], scale: str) -> Path:
    """Write the page of the paper and return its path."""
    folder.mkdir(parents=True, exist_ok=True)  # another process may write it too
    first = Section("agreement", "What agrees", [overview(parts)], findings=sentences(parts))
    missing = Section("missing", NOT_RUN, text=not_run(parts))
    chosen = Section("choices", CHOICES, text=choices(parts), closed=True)
    sections = [first, missing, *map(_section, (part for part in parts if part.results)), chosen]
    lead = re.split(r", (?:Table|Figure)", parts[0].recipe.paper)[0]
    made = page.Document(
        title(parts, scale), lead, [], sections, generated=MADE_UP * _is_made_up(parts)
    )
    manifest.write_text(folder / "report.html", made.html)
    return folder / "report.html"


def _section(part: Rebuilt) -> Section:
    results: Any = part.results
    pictures = [(title, part.folder / Path(name).name) for title, name in results.pictures.items()]
    return Section(
        part.recipe.name,
        part.name,
        [*beside.main(results, "Bold"), *beside.compared(results)],
        page.pictures([(title, path) for title, path in pictures if path.is_file()]),
        findings=beside.findings(results),
        folded=[beside.ran(results)],
        closed=True,
    )
