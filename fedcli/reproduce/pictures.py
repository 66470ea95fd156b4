"""A recipe's figures, drawn from what its cells found."""

import re
import shutil
from pathlib import Path
from typing import Literal

from ..data import manifest
from ..errors import FedcliError
from ..figures import drawing, series
from ..figures.kinds import convergence, curves, histograms, landscape, sweep
from .findings import heading
from .recipe import Column, Recipe, Row
from .record import Results
from .shape import Figure
from .shared import Outcome

SUFFIXES = ".png", ".svg", ".pdf"


def draw(
    recipe: Recipe,
    results: Results,
    outcomes: list[Outcome],
    folder: Path,
    *,
    older: Path,
    device: str,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Write every figure into the folder: title and name of each, and a sentence for each that could not be drawn.

    older: a folder of the same recipe; a landscape of the same runs, which takes long, is copied from there.
    """
    drawn, missing = [], []
    for figure in recipe.figures:
        try:
            if figure.kind == "sweep":
                drawn += [
                    _sweep(recipe, figure, results, column, folder)
                    for column in _columns(figure, results)
                ]
            else:
                drawn.append(
                    _of_runs(figure, _runs(recipe, figure, outcomes), folder, older, device)
                )
        except FedcliError as error:
            missing.append(f"No picture {figure.title!r}: {error.sentence}.")
    return drawn, missing


def _file(title: str, more: str = "") -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-')[:80]}{more}.png"


def _kinds(file: Path) -> list[Path]:
    """A picture for the page, and beside it as lines that a paper can take."""
    return [file.with_suffix(suffix) for suffix in SUFFIXES]


def _columns(figure: Figure, results: Results) -> list[Column]:
    return [
        column for column in results.columns if not figure.columns or column.name in figure.columns
    ]


def _sweep(
    recipe: Recipe, figure: Figure, results: Results, column: Column, folder: Path
) -> tuple[str, str]:
    """A column against the varied value; a figure of several columns has a picture of each."""
    cells = {row.name: row.cells[column.name] for row in results.rows}
    points = [
        (_label(row, figure.x), row.at[figure.x], cells[row.name].mean, cells[row.name].std)
        for row in recipe.rows
        if figure.x in row.at and row.name in cells and _asked(row, figure.rows)
    ]
    if not any(mean is not None for _, _, mean, _ in points):
        raise FedcliError("none of its cells is there", "run the recipe without --only")
    levels = [
        (name, None, cells[name].mean, cells[name].std) for name in figure.lines if name in cells
    ]
    title = figure.title + f": {column.name}" * (len(_columns(figure, results)) > 1)
    frame = sweep.of_points([*points, *levels], figure.x.partition(".")[2], heading(column).heading)
    drawing.write(sweep.draw(frame), *_kinds(folder / _file(title)))
    return title, _file(title)


def _label(row: Row, x: str) -> str:
    """A row's name without the value on the x axis; other varied values stay."""
    rest = [f"{place.partition('.')[2]}={value}" for place, value in row.at.items() if place != x]
    return ", ".join([row.stem, *rest])


def _asked(row: Row, names: tuple[str, ...]) -> bool:
    return not names or row.name in names or row.stem in names


def _runs(recipe: Recipe, figure: Figure, outcomes: list[Outcome]) -> dict[str, list[Path]]:
    data = figure.data or next(iter(recipe.chains))
    rows = {row.name for row in recipe.rows if _asked(row, figure.rows)}
    named = {
        name: f"{name} (global model)" for name in recipe.personal
    }  # whose numbers are of clients' own
    runs: dict[str, list[Path]] = {}
    for outcome in outcomes:
        if outcome.scores and outcome.cell.data == data and outcome.cell.row in rows:
            name = named.get(outcome.cell.row, outcome.cell.row)
            runs.setdefault(name, []).append(manifest.above(outcome.path, "run"))
    if not runs:
        raise FedcliError("none of its cells is there", "run the recipe without --only")
    return runs


def _of_runs(
    figure: Figure, runs: dict[str, list[Path]], folder: Path, older: Path, device: str
) -> tuple[str, str]:
    """A picture of the records of runs; of the first seed, but for a convergence.

    older: where a landscape of the same runs, which takes long, is copied from.
    """
    records = {name: [series.read(run) for run in paths] for name, paths in runs.items()}
    firsts = {name: per_seed[0] for name, per_seed in records.items()}
    file = _file(figure.title)
    match figure.kind:
        case "convergence":
            metric = f"average {figure.metric} by {figure.by}" if figure.by else figure.metric
            picture = convergence.draw(
                convergence.frame(records, metric=metric, version=figure.version)
            )
        case "histograms":
            picture = histograms.draw(histograms.frame(firsts))
        case "landscape-1d" | "landscape-2d":
            version = figure.version or landscape.usual(firsts.values())
            dims: Literal["1d", "2d"] = "2d" if figure.kind == "landscape-2d" else "1d"
            about = {"dims": int(dims[0]), "version": version, "names": list(runs)}
            file = _file(
                figure.title, f"-{manifest.identity(about, [paths[0] for paths in runs.values()])}"
            )
            if all(each.is_file() for each in _kinds(older / file)):
                for each in _kinds(older / file):
                    shutil.copy(each, folder / each.name)
                return figure.title, file
            picture = landscape.draw(
                landscape.frame(firsts, dims=dims, version=version, device=device)
            )
        case _:
            picture = curves.draw(curves.frame(firsts, series=[figure.series]))
    drawing.write(picture, *_kinds(folder / file))
    return figure.title, file
