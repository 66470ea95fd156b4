"""A published table rebuilt: the cells of its recipe, with the data and files that are there."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import console
from ..data.preparation.raw_folder import sample_in
from ..errors import FedcliError, UsageError
from ..stages.call import called_with
from . import expand, jobs, output, raw
from .expand import RecipeCell
from .flags import files_in
from .played import PlayedTable
from .recipe import Recipe, find, paper_of, recipes_of
from .record import Results
from .reproduce_options import ReproduceOptions
from .shared import Shared, part_of


@dataclass(frozen=True)
class ChosenCells:
    """The cells of a recipe that are to be played, before it is known whether their data are there.

    Attributes:
        folders: dataset -> raw folder. samples: those of them that hold a synthetic sample, or
            will.
    """

    recipe: Recipe
    cells: list[RecipeCell]
    folders: dict[str, str]
    samples: dict[str, str]


@dataclass(frozen=True)
class ReadyTable:
    """A table whose data are made. about_cells: as output.play() takes it."""

    recipe: Recipe
    shared: Shared
    workplace: jobs.Place
    folder: Path
    about_cells: dict[str, Any]


@dataclass(frozen=True, repr=False)
class Reproduction(PlayedTable):
    """A published table, rebuilt; see PlayedTable."""


def check(options: ReproduceOptions) -> None:
    """Refuse options that exclude each other, and a part that there is not. Raises UsageError."""
    if options.cells:
        part_of(options.cells)
    if options.jobs and options.at_once:
        raise UsageError("--jobs and --at-once exclude each other", "give one of them")


def chosen_cells(options: ReproduceOptions) -> ChosenCells:
    """The cells of a recipe that the options choose. Raises UsageError."""
    recipe = expand.check(find(options.recipe or ""))
    work = Path(options.work)
    folders = raw.folders(recipe, options.raw, options.scale, work)
    files = raw.files(recipe, options.file, folders, options.scale, work)
    seeds = expand.read_seeds(options.seeds, recipe.seeds)
    every_cell = expand.cells(
        recipe,
        options.scale,
        seeds=seeds,
        raw=folders,
        files=files,
    )
    cells = expand.chosen(every_cell, list(options.only))
    if options.precision:
        precision = options.precision
        cells = [replace(cell, train=replace(cell.train, precision=precision)) for cell in cells]
    _warn_of_unused_files(options, recipe)
    samples = {}
    for name, folder in folders.items():
        if folder == str(work / "samples" / name):
            samples[name] = folder
    return ChosenCells(recipe, cells, folders, samples)


def _warn_of_unused_files(options: ReproduceOptions, recipe: Recipe) -> None:
    """Name the files that were given and that a reduced scale does not use.

    It does use the lists of images that the authors published.
    """
    if options.scale == "paper":
        return
    listed = files_in([data.lists for data in recipe.chains.values()])
    names = {text.partition("=")[0] for text in options.file}
    unused = sorted(names - listed)
    if unused:
        unused_text = ", ".join(unused)
        console.warn(f"--scale {options.scale} does not use the file {unused_text}")


def ready(
    chosen: ChosenCells,
    options: ReproduceOptions,
    *,
    debug: bool = False,
) -> ReadyTable:
    """The table of chosen cells with their data, which are made here where they are missing.

    Raises FedcliError, UsageError.
    """
    recipe = chosen.recipe
    cells, left_out = raw.possible(recipe, chosen.cells, chosen.folders)
    used = {recipe.chains[cell.data].dataset for cell in cells}
    raw.check_folders(used, chosen.folders, set(chosen.samples))
    for sentence in left_out:
        console.warn(sentence)
    made_up = sorted(used & chosen.samples.keys())
    for name in made_up:
        folder = chosen.samples[name]
        if sample_in(name, Path(folder)):
            console.say(f"no --raw for {name}: using a synthetic sample of its layout, in {folder}")
    work = Path(options.work)
    devices = jobs.devices(options.device, options.jobs, cells, options.at_once)
    workplace = jobs.Place(work, devices, debug)
    sources = jobs.make_data(cells, workplace)
    return ReadyTable(
        recipe=recipe,
        shared=Shared(work, cells, sources, part=options.cells, wait=options.wait),
        workplace=workplace,
        folder=folder_of(options, recipe),
        about_cells={
            "scale": options.scale,
            "left_out": left_out,
            "made_up": made_up,
            "measured": options.scale != "smoke" or bool(options.raw),
        },
    )


def folder_of(options: ReproduceOptions, recipe: Recipe) -> Path:
    """The folder that the table of a recipe goes to."""
    tables = Path(options.work) / "reproduce"
    return tables / f"{recipe.name}-{options.scale}"


def run(options: ReproduceOptions) -> Reproduction:
    """Rebuild a published table: train and score the cells of a recipe, beside the published
    numbers.

    What is there already is not trained again; what fails is left out, and the others stay. Raises
    FedcliError, UsageError, where nothing could be trained too.
    """
    check(options)
    name = options.recipe or ""
    if not name:
        raise UsageError("which recipe?", "`fedcli reproduce` lists all")
    if paper_of(name):
        names = ", ".join(path.stem for path in recipes_of(name))
        raise UsageError(f"{name} is a paper, not a recipe", f"give one of its recipes: {names}")
    table = ready(chosen_cells(options), options)
    results: list[Results] = []
    outcomes = output.play(
        table.recipe,
        table.shared,
        table.workplace,
        table.folder,
        results.append,
        **table.about_cells,
    )
    if not outcomes:
        sentence = f"other processes still play cells of {table.recipe.name}"
        raise FedcliError(sentence, "call it again with wait=True, which waits for them")
    if not any(outcome.scores for outcome in outcomes):
        raise FedcliError(outcomes[0].sentence, outcomes[0].hint)
    return Reproduction(table.folder, results[0], outcomes)


reproduce = called_with("reproduce", ReproduceOptions, run)
