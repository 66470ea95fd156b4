"""fedcli sweep."""

from dataclasses import replace
from typing import Annotated

import typer

from ..errors import UsageError
from ..stages.options import TrainOptions
from . import complete
from . import options as o
from .declare import parsed
from .reproduce import Device, DryRun, Jobs, Seeds, read_seeds, run_cells


def sweep(
    method: Annotated[
        str, typer.Argument(help="method, or base+addon; `fedcli methods` lists all", autocompletion=complete.methods)
    ],
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA] [-- TRAIN FLAGS]",
            help="partition or corruption manifest, default the newest under --work; after -- flags of train for all "
            "cells",
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,...", help="an option of the method or a flag of train; may be repeated"),
    ] = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a method over a grid of values, and show its scores in a table and a picture.

    The best is marked only where the clients have validation images, and by these alone. It can be stopped at any
    moment: the same command goes on.

    Example: fedcli sweep fedism-plus --over q=0.5,1,2,5 --seeds 3 -- --rounds 10 --lr 1e-3
    """
    from ..data import manifest
    from ..reproduce import jobs as engine
    from ..reproduce import sweep
    from ..reproduce.script import script
    from ..stages.partition import for_training
    from ..stages.train import fitted

    words = list(rest or [])
    data = words.pop(0) if words and not words[0].startswith("-") else None
    if words and not words[0].startswith("-"):
        raise UsageError(f"{words[0]!r} is one argument too many", "flags of train stand after --")
    common = parsed(TrainOptions, words)
    source = for_training(o.source(data, work, "corruption", "partition", "dataset"), work)
    recipe = sweep.recipe_of(method, source, over or [])
    common = fitted(replace(common, method=recipe.rows[0].method), source)  # one number of rounds for all
    cells = sweep.cells(recipe, common, read_seeds(seeds, recipe.seeds) or recipe.seeds)
    if dry_run:
        print(script(recipe, cells, samples={}, work=work, source=source), end="")
        return
    place = engine.Place(work, engine.devices(device, jobs), debug)
    lines = {"cells": [" ".join(cell.train.argv()) for cell in cells]}
    folder = work / "sweeps" / f"{recipe.name[:80]}-{manifest.identity(lines, [source])}"
    run_cells(recipe, cells, {(): source}, place, folder, as_json=json)
