"""A recipe's figures, drawn from what its cells found."""

import re
import shutil
from pathlib import Path
from typing import Any, Literal

from ..data import manifest
from ..errors import FedcliError
from ..figures import drawing, series
from ..figures.kinds import convergence, curves, histograms, landscape, sweep
from . import shape
from .findings import heading
from .recipe import Recipe, RecipeColumn, RecipeRow
from .record import Results
from .shape import RecipeFigure
from .shared import Outcome

SUFFIXES = ".png", ".svg", ".pdf"
LONGEST_NAME = 80


def draw(
    recipe: Recipe,
    results: Results,
    outcomes: list[Outcome],
    folder: Path,
    *,
    older: Path,
    device: str,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Write every figure into the folder: title and name of each, and a sentence for each that
    could not be drawn.

    older: a folder of the same recipe; a landscape of the same runs, which takes long, is copied
    from there.
    """
    pictures = []
    missing = []
    for figure in recipe.figures:
        try:
            if figure.kind == "sweep":
                pictures += _sweeps(recipe, figure, results, folder)
            else:
                runs = _runs(recipe, figure, outcomes)
                pictures.append(_of_runs(figure, runs, folder, older, device))
        except FedcliError as error:
            missing.append(f"No picture {figure.title!r}: {error.sentence}.")
    return pictures, missing


def _file(title: str, suffix: str = "") -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"{words[:LONGEST_NAME]}{suffix}.png"


def _kinds(file: Path) -> list[Path]:
    """A picture for the page, and beside it as lines that a paper can take."""
    return [file.with_suffix(suffix) for suffix in SUFFIXES]


def remove(file: Path) -> None:
    """Remove a picture in all of its kinds."""
    for path in _kinds(file):
        path.unlink(missing_ok=True)


def _sweeps(
    recipe: Recipe, figure: RecipeFigure, results: Results, folder: Path
) -> list[tuple[str, str]]:
    """A picture of each of a figure's columns."""
    columns = list(results.columns)
    if figure.columns:
        columns = [column for column in columns if column.name in figure.columns]
    pictures = []
    for column in columns:
        title = figure.title
        if len(columns) > 1:
            title += f": {column.name}"
        _sweep(recipe, figure, results, column, folder / _file(title))
        pictures.append((title, _file(title)))
    return pictures


def _sweep(
    recipe: Recipe,
    figure: RecipeFigure,
    results: Results,
    column: RecipeColumn,
    file: Path,
) -> None:
    """A picture of a column against the varied value."""
    cells = {row.name: row.cells[column.name] for row in results.rows}
    points: list[Any] = []
    has_number = False
    for row in recipe.rows:
        values = row.varied_values
        if figure.x in values and row.name in cells and _is_in(row, figure.rows):
            cell = cells[row.name]
            label = _label(row, figure.x)
            points.append((label, values[figure.x], cell.mean, cell.std))
            has_number = has_number or cell.mean is not None
    if not has_number:
        raise FedcliError("none of its cells is there", "run the recipe without --only")
    for name in figure.lines:
        if name in cells:
            points.append((name, None, cells[name].mean, cells[name].std))
    axis_key = shape.key_of(figure.x)
    frame = sweep.of_points(
        points,
        axis_key,
        heading(column).heading,
    )
    drawing.write(sweep.draw(frame), *_kinds(file))


def _label(row: RecipeRow, x: str) -> str:
    """A row's name without the value on the x axis; other varied values stay."""
    others = {option: value for option, value in row.varied_values.items() if option != x}
    return ", ".join([row.stem, shape.named_after(others)] if others else [row.stem])


def _is_in(row: RecipeRow, names: tuple[str, ...]) -> bool:
    return not names or row.name in names or row.stem in names


def _runs(
    recipe: Recipe,
    figure: RecipeFigure,
    outcomes: list[Outcome],
) -> dict[str, list[Path]]:
    """Row -> the records of its runs, by seed."""
    data = figure.data or next(iter(recipe.chains))
    rows = {row.name for row in recipe.rows if _is_in(row, figure.rows)}
    runs: dict[str, list[Path]] = {}
    for outcome in outcomes:
        name = outcome.cell.row
        if outcome.scores and outcome.cell.data == data and name in rows:
            if name in recipe.personal:  # whose numbers are of clients' own
                name = f"{name} (global model)"
            run_folder = manifest.above(outcome.path, "run")
            runs.setdefault(name, []).append(run_folder)
    if not runs:
        raise FedcliError("none of its cells is there", "run the recipe without --only")
    return runs


def _of_runs(
    figure: RecipeFigure,
    runs: dict[str, list[Path]],
    folder: Path,
    older: Path,
    device: str,
) -> tuple[str, str]:
    """A picture of the records of runs; of the first seed, but for a convergence.

    older: where a landscape of the same runs, which takes long, is copied from.
    """
    records = {name: list(map(series.read, paths)) for name, paths in runs.items()}
    of_first_seed = {name: per_seed[0] for name, per_seed in records.items()}
    file = _file(figure.title)
    picture: Any
    match figure.kind:
        case "convergence":
            metric: str = figure.metric
            if figure.by:
                metric = f"average {metric} by {figure.by}"
            frame = convergence.frame(
                records,
                metric=metric,
                version=figure.version,
            )
            picture = convergence.draw(frame)
        case "histograms":
            picture = histograms.draw(histograms.frame(of_first_seed))
        case "landscape-1d" | "landscape-2d":
            dims: Literal["1d", "2d"] = "2d" if figure.kind == "landscape-2d" else "1d"
            version = figure.version or landscape.usual(of_first_seed.values())
            key = {
                "dims": int(dims[0]),
                "version": version,
                "names": list(runs),
            }
            first_paths = [paths[0] for paths in runs.values()]
            identity = manifest.identity(key, first_paths)
            file = _file(figure.title, f"-{identity}")
            if _copied(older / file, folder):
                return figure.title, file
            frame = landscape.frame(
                of_first_seed,
                dims=dims,
                version=version,
                device=device,
            )
            picture = landscape.draw(frame)
        case _:
            picture = curves.draw(curves.frame(of_first_seed, series=[figure.series]))
    drawing.write(picture, *_kinds(folder / file))
    return figure.title, file


def _copied(file: Path, folder: Path) -> bool:
    """Copy a picture in all of its kinds into a folder; False, and nothing copied, where one is not
    there."""
    paths = _kinds(file)
    if not all(path.is_file() for path in paths):
        return False
    for path in paths:
        shutil.copy(path, folder / path.name)
    return True
