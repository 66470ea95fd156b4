"""The folder of a reproduction: results.json and table.md first, then the pictures and report.html."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..data.manifest import sync
from ..errors import FedcliError
from ..io.locks import held, scratch
from ..reporting import page, writers
from . import forecast, pictures
from .jobs import Place, run, told
from .recipe import Recipe
from .record import Results
from .results import collect
from .shared import Outcome, Shared
from .tables import beside
from .tables.headline import of_cell


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
    """Write results.json, table.md and table.tex; an older page and its pictures go, but what illustrate() takes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    body = json.dumps(results.body(), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    manifest.write_text(folder / "results.json", f"{body}\n")
    manifest.write_text(folder / "table.md", beside.markdown(results).rstrip("\n") + "\n")
    manifest.write_text(folder / "table.tex", beside.latex(results))


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
    with (
        _said(f"report.html is missing from {folder}, which has results.json, table.md and the pictures"),
        console.muted(),  # its remarks stand on the page
    ):
        page.write(
            folder / "report.html",
            scores,
            page.PageOptions(
                title=results.title,
                tables=[*beside.main(results, "Bold"), *beside.compared(results), beside.ran(results)],
                findings=beside.findings(results),
                tests=beside.tests(results)[1],
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


def show(results: Results) -> None:
    """Print the main tables and the worst differences; then what the runs show, and what is to be known before."""
    print()
    writers.say([results.title])
    for table in [*beside.main(results), *([far] if (far := beside.differences(results)).rows else [])]:
        print()
        writers.show(table)
        writers.say([table.legend])
    if findings := beside.findings(results):
        print("\nWhat these runs show (tests in table.md):")
        writers.say(findings)
        print()
    for note in results.notes:
        console.say(f"note: {note}")
