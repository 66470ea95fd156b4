"""fedcli sweep."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from .. import console, extensions
from ..common_options import NAME
from ..errors import UsageError
from ..io.locks import held
from ..options import Flag
from ..stages.options import PartitionOptions, TrainOptions
from .reproduce import Device, DryRun, Jobs, Seeds, read_seeds, run_cells
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_tables


def sweep(
    method: Annotated[str, "method, or base+addon; `fedcli methods` lists all", NAME],
    rest: Annotated[
        Sequence[str],
        "partition or corruption manifest, default the newest under --work; after -- flags of train for all cells",
        Flag("[DATA] [-- TRAIN FLAGS]", argument=True),
    ] = (),
    over: Annotated[
        Sequence[str],
        "an option of the method or a flag of train, or hold-out=all; may be repeated",
        Flag("KEY=VALUE,..."),
    ] = (),
    seeds: Seeds = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Train a method over a grid of values, and show its scores in a table and a picture.

    The best is marked only where the clients have validation images, and by these alone. It can be stopped at any
    moment: the same command goes on.

    hold-out=all leaves each hospital out of training in turn and tests on it.

    Examples: fedcli sweep fedism-plus --over q=0.5,1,2,5 --seeds 3 -- --rounds 10 --lr 1e-3;
    fedcli sweep fedavg --over hold-out=all -- --rounds 10
    """
    from ..data import manifest
    from ..reporting.writers import markdown
    from ..reproduce import jobs as engine
    from ..reproduce import sweep
    from ..reproduce.script import script
    from ..stages.call import source as find
    from ..stages.partition import for_training
    from ..stages.train import resolved

    o.refuse_together(dry_run=dry_run, json=json)
    words = list(rest)
    data = words.pop(0) if words and not words[0].startswith("-") else None
    if words and not words[0].startswith("-"):
        raise UsageError(f"{words[0]!r} is one argument too many", "flags of train stand after --")
    extensions.allow(words)
    common = parsed(TrainOptions, words)
    sites, grid = sweep.asked(list(over))
    if sites:
        source = find(data, work, "partition", "dataset")
        left_out = sweep.plan(sites, source, _partitioned(source))
        source, data_of = left_out.dataset, left_out.make(work)
    else:
        source, left_out = for_training(find(data, work, "corruption", "partition", "dataset"), work), None
        data_of = {(): source}
    recipe = sweep.recipe_of(method, source, grid, left_out)
    first = next(path for path in data_of.values() if isinstance(path, Path))
    rounds = resolved(replace(common, method=recipe.rows[0].method), first).rounds
    common = replace(common, rounds=rounds)  # for all
    cells = sweep.cells(recipe, common, read_seeds(seeds, recipe.seeds) or recipe.seeds, left_out)
    if dry_run:
        print(script(recipe, cells, samples={}, work=work, source=source), end="")
        return
    place = engine.Place(work, engine.devices(device, jobs), debug)
    lines = {"cells": [" ".join(cell.train.argv()) for cell in cells]}
    folder = work / "sweeps" / f"{recipe.name[:80]}-{manifest.identity(lines, [source])}"
    with held(
        folder.with_name(f"{folder.name}.lock"), f"another process is making {folder}",
        "wait for it, or give another --work",
    ):  # fmt: skip
        outcomes = run_cells(recipe, cells, data_of, place, folder, as_json=json)
        if left_out:
            made = list(sweep.tables(left_out, outcomes, work, place.devices[0]))
            show_tables(made, sys.stderr if json else None)
            o.write(
                folder / "held-out.md", "\n\n".join(f"## {t.title}\n\n{markdown(t)}\n\n{t.legend}" for t in made) + "\n"
            )
            console.say(f"written: {folder}/held-out.md")


def _partitioned(source: Path) -> PartitionOptions | None:
    """The options of a partition, as its manifest has recorded them; None of a dataset."""
    from ..data import manifest

    read = manifest.read(source)
    return None if read.kind == "dataset" else parsed(PartitionOptions, read.made_by[1:])
