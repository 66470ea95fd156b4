"""The folder of a reproduction: results.json and table.md first, then the pictures and report.html."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from .. import console
from ..comparison.systems import Scored
from ..data import manifest
from ..data.manifest import sync
from ..errors import FedcliError
from ..io.locks import held, scratch
from ..printed import fixed
from ..reporting import page, writers
from ..scores.scores import Scores
from . import forecast, pictures
from .findings import Findings
from .jobs import Place, run, told
from .recipe import Recipe
from .record import Results
from .results import collect
from .shape import UNITS
from .shared import Outcome, Shared
from .tables import beside


def play(
    recipe: Recipe,
    shared: Shared,
    place: Place,
    folder: Path,
    shown: Callable[[Results], None],
    *,
    measured: bool = True,
    **about: Any,
) -> list[Outcome]:
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
            left_out = _left_out(folder, made)
            record(folder, made)
            try:
                made = illustrate(folder, recipe, made, outcomes, device=place.devices[0])
            finally:
                shown(made)
                if left_out:
                    console.say(left_out)
    return outcomes


def _left_out(folder: Path, results: Results) -> str:
    """A sentence on rows that the folder's table has and these results do not; "" for none."""
    with suppress(FedcliError):  # there is none yet, or of another version
        before = [row.name for row in Results.read(folder / "results.json").rows]
        if missing := {*before} - {row.name for row in results.rows}:
            return (
                f"{len(missing)} of {console.counted(len(before), 'row', 'rows')} of the table in {folder} left "
                "out of this one: the runs are kept, the same command without --only shows all"
            )
    return ""


def of_cell(recipe: Recipe, outcome: Outcome, *, published: bool = True) -> str:
    """A sentence on a finished cell in the main column, such as "noisy ACC 61.20 %, published 63.51 ± 0.42"; on its
    validation images where there is a column of them; "" where no column is of these scores.

    published: whether the printed number says something beside ours.
    """
    cell, printed = outcome.cell, recipe.numbers.get(outcome.cell.row, {})
    with suppress(FedcliError):  # it is told where the scores are read for the table
        made = manifest.read(outcome.path, "scores")
        scored = Scored(outcome.path, made.options, Scores.of(made.body, outcome.path))
        numbers = Findings(recipe, [outcome], {outcome.path: scored}).columns(cell.row)
        known = [
            each for each in recipe.columns if numbers[each.name].get(cell.seed) and not each.minus
        ]
        validating = [each for each in known if each.validation]
        in_print = [each for each in known if each.name in printed]
        for column in [*validating, *in_print, *known][:1]:
            sign, _, digits = UNITS[column.unit]
            mean = fixed(fmean(numbers[column.name][cell.seed]), digits)
            said = f"{column.name} {mean} {sign}".rstrip()
            if published and (theirs := printed.get(column.name)):
                spread = "" if theirs.std is None else f" ± {fixed(theirs.std, digits)}"
                said += f", published {fixed(theirs.mean, digits)}{spread}"
            return said
    return ""


def record(folder: Path, results: Results) -> None:
    """Write results.json, table.md and table.tex; an older page and its pictures go, but what illustrate() takes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    body = json.dumps(results.body(), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    manifest.write_text(folder / "results.json", f"{body}\n")
    manifest.write_text(folder / "table.md", beside.markdown(results).rstrip("\n") + "\n")
    manifest.write_text(folder / "table.tex", beside.latex(results))


def illustrate(
    folder: Path, recipe: Recipe, results: Results, outcomes: list[Outcome], *, device: str
) -> Results:
    """Add the pictures and the page to a recorded folder, and return what results.json then holds.

    Raises FedcliError with what was written already.
    """
    undrawn = (
        f"the pictures and the page are missing from {folder}, which has results.json and table.md"
    )
    with _said(undrawn), scratch(folder) as temporary:
        drawn, missing = pictures.draw(
            recipe, results, outcomes, temporary, older=folder, device=device
        )
        results = results.model_copy(
            update={"notes": [*results.notes, *missing], "pictures": dict(drawn)}
        )
        record(temporary, results)
        sync(temporary)
        shutil.rmtree(folder)
        os.rename(temporary, folder)
    scores = with_tests(results, outcomes)
    if not scores:
        return results
    with (
        _said(
            f"report.html is missing from {folder}, which has results.json, table.md and the pictures"
        ),
        console.muted(),  # its remarks stand on the page
    ):
        page.write(
            folder / "report.html",
            scores,
            page.PageOptions(
                tables=[
                    *beside.main(results, "Bold"),
                    *beside.compared(results),
                    beside.ran(results),
                ],
                findings=beside.findings(results),
                tests=beside.tests(results)[1],
                pictures=[(title, folder / name) for title, name in drawn],
                clocks=False,  # equal scores, equal bytes
                **{key: getattr(results, key) for key in ("title", "notes", "at", "spread")},
            ),
        )
    return results


def with_tests(results: Results, outcomes: Sequence[Outcome]) -> list[Path]:
    """The scores.json of each cell whose test scores are shown."""
    done = [outcome for outcome in outcomes if results.shows_tests_of(outcome.cell.row)]
    return list(dict.fromkeys(outcome.scores for outcome in done if outcome.scores))


@contextmanager
def _said(missing: str) -> Iterator[None]:
    """Any fault becomes an error that says what it left out."""
    try:
        yield
    except Exception as error:
        fault = told(error)
        raise FedcliError(
            f"{missing}: {fault.sentence}", fault.hint or "--debug shows where"
        ) from error


def show(results: Results) -> None:
    """Print the main tables and the worst differences; then what the runs show, and what is to be known before."""
    print()
    writers.say([results.title])
    for table in [
        *beside.main(results),
        *([far] if (far := beside.differences(results)).rows else []),
    ]:
        print()
        writers.show(table)
        writers.say([table.legend])
    if findings := beside.findings(results):
        print("\nWhat these runs show (tests in table.md):")
        writers.say(findings)
        print()
    for note in results.notes:
        console.say(f"note: {note}")
