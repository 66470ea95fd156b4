"""The folder of a reproduction: results.json and table.md first, then the pictures and
report.html."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ..scores.scores import RunScores
from . import forecast, pictures
from .findings import ByColumn, Findings
from .jobs import Place, as_fault, run
from .recipe import Recipe, RecipeColumn
from .record import Results
from .results import collect
from .shape import UNITS, Printed
from .shared import Outcome, Shared
from .tables import beside


def play(
    recipe: Recipe,
    shared: Shared,
    workplace: Place,
    folder: Path,
    report: Callable[[Results], None],
    *,
    measured: bool = True,
    **about_cells: Any,
) -> list[Outcome]:
    """Train and score cells beside other processes; the last writes the folder and calls report()
    with what is known.

    Returns what became of each, nothing where another process is the last.

    measured: whether time and memory are estimated first. about_cells: as collect() takes it.
    """
    with shared:
        forecast.announce_again(shared.mine, shared.sources, workplace, folder)
        if measured:
            workplace = forecast.announce(
                shared.mine,
                shared.sources,
                workplace,
            )
        is_judged = about_cells.get("scale", "paper") == "paper"
        outcomes = run(
            shared,
            workplace,
            lambda outcome: of_cell(recipe, outcome, published=is_judged),
        )
        if outcomes is None:
            return []
        lock = folder.with_name(f"{folder.name}.lock")
        with held(lock, f"another process is writing {folder}", "", tell=console.status):
            results = collect(
                recipe,
                outcomes,
                work=workplace.work,
                **about_cells,
            )
            before = _recorded(folder)
            left_out = _left_out(folder, before, results)
            record(folder, results)
            try:
                results = illustrate(
                    folder,
                    recipe,
                    results,
                    outcomes,
                    device=workplace.devices[0],
                    older=before.pictures if before else {},
                )
            finally:
                report(results)
                if left_out:
                    console.say(left_out)
    return outcomes


def _recorded(folder: Path) -> Results | None:
    """The results that a folder has; None where there are none yet, or of another version."""
    with suppress(FedcliError):
        return Results.read(folder / "results.json")
    return None


def _left_out(folder: Path, before: Results | None, results: Results) -> str:
    """A sentence on rows that the folder's table had and these results do not; "" for none."""
    if before is None:
        return ""
    names_before = {row.name for row in before.rows}
    missing = names_before - {row.name for row in results.rows}
    if not missing:
        return ""
    rows = console.counted(len(names_before), "row", "rows")
    return (
        f"{len(missing)} of {rows} of the table in {folder} left out of this one: the runs are "
        "kept, the same command without --only shows all"
    )


def of_cell(recipe: Recipe, outcome: Outcome, *, published: bool = True) -> str:
    """A sentence on a finished cell in the main column, such as "noisy ACC 61.20 %, published 63.51
    ± 0.42".

    It is on validation images where there is a column of them, and "" where no column is of these
    scores. published: whether the printed number says something beside ours.
    """
    cell = outcome.cell
    printed = recipe.numbers.get(cell.row, {}) if published else {}
    with suppress(FedcliError):  # it is told where the scores are read for the table
        read = manifest.read(outcome.path, "scores")
        scores_of_run = RunScores.of(read.body, outcome.path)
        scored = Scored(
            outcome.path,
            read.options,
            scores_of_run,
        )
        findings = Findings(recipe, [outcome], {outcome.path: scored})
        numbers = findings.columns(cell.row)
        column = _main_column(recipe, numbers, cell.row, cell.seed)
        if column:
            values = numbers[column.name][cell.seed]
            return _number_sentence(
                column,
                fmean(values),
                printed.get(column.name),
            )
    return ""


def _main_column(
    recipe: Recipe,
    numbers: ByColumn,
    row: str,
    seed: int,
) -> RecipeColumn | None:
    """The column of validation images, else the first with a published number, else the first.

    None where none has a number of the seed.
    """
    printed = recipe.numbers.get(row, {})
    plain = [column for column in recipe.columns if not column.minus]
    with_number = [column for column in plain if numbers[column.name].get(seed)]
    validating = [column for column in with_number if column.validation]
    in_print = [column for column in with_number if column.name in printed]
    by_rank = [*validating, *in_print, *with_number]
    return by_rank[0] if by_rank else None


def _number_sentence(
    column: RecipeColumn,
    mean: float,
    theirs: Printed | None,
) -> str:
    sign, _, digits = UNITS[column.unit]
    sentence = f"{column.name} {fixed(mean, digits)} {sign}".rstrip()
    if theirs is None:
        return sentence
    sentence += f", published {fixed(theirs.mean, digits)}"
    if theirs.std is not None:
        sentence += f" ± {fixed(theirs.std, digits)}"
    return sentence


def record(folder: Path, results: Results) -> None:
    """Write results.json, table.md and table.tex; an older page and its pictures go, but what
    illustrate() takes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").unlink(missing_ok=True)
    body = json.dumps(
        results.body(),
        indent=1,
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
    )
    manifest.write_text(folder / "results.json", f"{body}\n")
    table_text = beside.markdown(results).rstrip("\n")
    manifest.write_text(folder / "table.md", table_text + "\n")
    manifest.write_text(folder / "table.tex", beside.latex(results))


def _move_files(source: Path, folder: Path) -> None:
    """Move files into a folder, results.json last, since it names the others; what else lies there
    stays."""
    sync(source)
    files = sorted(source.iterdir(), key=lambda file: file.name == "results.json")
    for file in files:
        os.replace(file, folder / file.name)


def illustrate(
    folder: Path,
    recipe: Recipe,
    results: Results,
    outcomes: list[Outcome],
    *,
    device: str,
    older: Mapping[str, str],
) -> Results:
    """Add the pictures and the page to a recorded folder, and return what results.json then holds.

    older: title -> name of the pictures that the folder had; those without a new one go.
    Raises FedcliError with what was written already.
    """
    undrawn = (
        f"the pictures and the page are missing from {folder}, which has results.json and table.md"
    )
    with _explained(undrawn), scratch(folder) as temporary:
        titles, missing = pictures.draw(
            recipe, results, outcomes, temporary, older=folder, device=device
        )
        notes = [*results.notes, *missing]
        results = results.model_copy(update={"notes": notes, "pictures": dict(titles)})
        record(temporary, results)
        _move_files(temporary, folder)
    new_pictures = {name for _, name in titles}
    for name in older.values():
        is_ours = Path(name).name == name and name.endswith(".png")  # as a file says it
        if is_ours and name not in new_pictures:
            pictures.remove(folder / name)
    scores = with_tests(results, outcomes)
    if not scores:
        return results
    unwritten = (
        f"report.html is missing from {folder}, which has results.json, table.md and the pictures"
    )
    tables = [*beside.main(results, "Bold"), *beside.compared(results), beside.ran(results)]
    paths = [(title, folder / name) for title, name in titles]
    options = page.PageOptions(
        title=results.title,
        notes=results.notes,
        at=results.at,
        spread=results.spread,
        tables=tables,
        findings=beside.findings(results),
        tests=beside.tests(results)[1],
        pictures=paths,
        clocks=False,  # equal scores, equal bytes
    )
    with _explained(unwritten), console.muted():  # its remarks stand on the page
        page.write(folder / "report.html", scores, options)
    return results


def with_tests(results: Results, outcomes: Sequence[Outcome]) -> list[Path]:
    """The scores.json of each cell whose test scores are shown."""
    of_shown_rows = [outcome for outcome in outcomes if results.shows_tests_of(outcome.cell.row)]
    return list(dict.fromkeys(outcome.scores for outcome in of_shown_rows if outcome.scores))


@contextmanager
def _explained(missing: str) -> Iterator[None]:
    """Turn any fault into an error that says what it left out."""
    try:
        yield
    except Exception as error:
        fault = as_fault(error)
        sentence = f"{missing}: {fault.sentence}"
        raise FedcliError(sentence, fault.hint or "--debug shows where") from error


def show(results: Results) -> None:
    """Print the main tables and the worst differences; then what the runs show, and what is to be
    known before."""
    print()
    writers.say([results.title])
    tables = beside.main(results)
    differences = beside.differences(results)
    if differences.rows:
        tables.append(differences)
    for table in tables:
        print()
        writers.show(table)
        writers.say([table.legend])
    findings = beside.findings(results)
    if findings:
        print("\nWhat these runs show (tests in table.md):")
        writers.say(findings)
        print()
    for note in results.notes:
        console.say(f"note: {note}")
