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
from ..errors import FedcliError
from ..locks import scratch
from ..reporting import page, writers
from . import pictures, tables
from .jobs import Outcome
from .recipe import Recipe
from .results import Body


def record(folder: Path, found: Body) -> None:
    """Write results.json and table.md; an older page and its pictures go, but for what illustrate() takes over."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    _text(folder / "results.json", json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False))
    _text(folder / "table.md", markdown(found))


def illustrate(folder: Path, recipe: Recipe, found: Body, outcomes: list[Outcome], *, device: str) -> Body:
    """Add the pictures and the page to a recorded folder, and return what results.json then holds.

    Raises FedcliError with what was written already.
    """
    undrawn = f"the pictures and the page are missing from {folder}, which has results.json and table.md"
    with _said(undrawn), scratch(folder) as temporary:
        drawn, missing = pictures.draw(recipe, found, outcomes, temporary, older=folder, device=device)
        named = {title: path.name for title, path in drawn}
        found = found | {"notes": [*found["notes"], *missing], "pictures": named}
        record(temporary, found)
        sync(temporary)
        shutil.rmtree(folder)
        os.rename(temporary, folder)
    scores = list(dict.fromkeys(one.scores for one in outcomes if one.scores))
    if not scores:
        return found
    drawn = [(title, folder / path.name) for title, path in drawn]
    with (
        _said(f"report.html is missing from {folder}, which has results.json, table.md and the pictures"),
        console.muted(),  # its remarks stand on the page
    ):
        page.write(
            folder / "report.html",
            scores,
            page.PageOptions(
                title=found["title"],
                tables=[*tables.main(found, "Bold"), tables.ran(found)],
                findings=tables.findings(found),
                tests=tables.tests(found),
                notes=found["notes"],
                pictures=drawn,
                at=found["at"],
                spread=found["spread"],
                clocks=False,  # equal scores, equal bytes
            ),
        )
    return found


@contextmanager
def _said(missing: str) -> Iterator[None]:
    """Any fault becomes an error that says what it left out."""
    try:
        yield
    except Exception as error:
        why = error.sentence if isinstance(error, FedcliError) else f"unexpected {type(error).__name__}: {error}"
        raise FedcliError(f"{missing}: {why}", getattr(error, "hint", "") or "--debug shows where") from error


def _text(path: Path, text: str) -> None:
    manifest.write_text(path, text.rstrip("\n") + "\n")


def markdown(found: Body) -> str:
    """The tables and notes as Markdown."""
    parts = [f"# {_line(found['title'])}", found["paper"]]
    for table in tables.every(found):
        parts += [f"## {_line(table.title)}", writers.markdown(table), table.legend]
    if findings := tables.findings(found):
        parts += ["## What these runs show", "\n".join(f"- {_line(finding)}" for finding in findings)]
    if found["notes"]:
        parts += ["## Notes", "\n".join(f"- {_line(note)}" for note in found["notes"])]
    parts += [f"![{_line(title)}]({name})" for title, name in found.get("pictures", {}).items()]
    return "\n\n".join(part for part in parts if part)


def _line(text: str) -> str:
    return " ".join(text.split())


def show(found: Body) -> None:
    """Print the main tables, at smoke scale without the published numbers, which say nothing there; then what the tests
    show, and what is to be known before reading them."""
    for table in tables.main(found, published=found["scale"] != "smoke"):
        writers.show(table)
        print(f"{table.legend}\n")
    if findings := tables.findings(found):
        print("What these runs show (tests in table.md):", *findings, "", sep="\n")
    for note in found["notes"]:
        print(f"note: {note}")
