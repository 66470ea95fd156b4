"""The folder of a reproduction: results.json and table.md first, then the pictures and report.html."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import console
from ..data import manifest
from ..data.manifest import sync
from ..errors import FedcliError, of_system
from ..io.locks import scratch
from ..reporting import page, writers
from . import pictures, tables
from .jobs import Outcome
from .recipe import Recipe
from .record import Results


def record(folder: Path, results: Results) -> None:
    """Write results.json and table.md; an older page and its pictures go, but for what illustrate() takes over."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    _text(
        folder / "results.json",
        json.dumps(results.body(), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False),
    )
    _text(folder / "table.md", markdown(results))


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
    findings, tests = tables.tests(results)
    with (
        _said(f"report.html is missing from {folder}, which has results.json, table.md and the pictures"),
        console.muted(),  # its remarks stand on the page
    ):
        page.write(
            folder / "report.html",
            scores,
            page.PageOptions(
                title=results.title,
                tables=[*tables.main(results, "Bold"), tables.ran(results)],
                findings=findings,
                tests=tests,
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
        fault = error if isinstance(error, FedcliError) else of_system(error)
        why = fault.sentence if fault else f"unexpected {type(error).__name__}: {error}"
        raise FedcliError(f"{missing}: {why}", (fault and fault.hint) or "--debug shows where") from error


def _text(path: Path, text: str) -> None:
    manifest.write_text(path, text.rstrip("\n") + "\n")


def markdown(results: Results) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {_line(results.title)}", results.paper]
    for table in tables.every(results):
        parts += [f"## {_line(table.title)}", writers.markdown(table), table.legend]
    if findings := tables.tests(results)[0]:
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
    for table in tables.main(results, published=results.scale != "smoke"):
        writers.show(table)
        print(f"{table.legend}\n")
    if findings := tables.tests(results)[0]:
        print("What these runs show (tests in table.md):", *findings, "", sep="\n")
    for note in results.notes:
        console.say(f"note: {note}")
