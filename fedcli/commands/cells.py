"""fedcli sweep, and train of several: cells, each a training with its scores, in tables."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from json import loads
from pathlib import Path
from typing import Annotated, Any

from .. import console, extensions
from ..common_options import Seeds, Wait
from ..errors import UsageError
from ..options import Flag
from ..reproduction.reproduce_options import AtOnce, Device, Jobs
from ..runs.train_options import TrainOptions
from ..stages.options import PartitionOptions
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_json, show_tables
from .shell.words import methods_and_data

DryRun = Annotated[
    str,
    "print the commands as a shell script, run none; --dry-run=DIR: write a script for each cell "
    "into this folder, and one for their data",
    Flag("[=DIR]", alone="-", access="writes"),
]
Methods = Annotated[
    Sequence[str],
    "one or several; then the path of a partition or corruption manifest, default the newest "
    "under --work; after -- flags of train for all cells",
    Flag("METHOD... [DATA] [-- TRAIN FLAGS]", argument=True),
]
Over = Annotated[
    Sequence[str],
    "an option of the methods or a flag of train, method, or hold-out=all; may be repeated",
    Flag("KEY=VALUE,..."),
]
AllTests = Annotated[
    bool, "show test scores of every value, also where validation images choose one"
]


def sweep(
    methods: Methods = (),
    over: Over = (),
    seeds: Seeds = None,
    jobs: Jobs = None,
    at_once: AtOnce = None,
    device: Device = "cpu",
    dry_run: DryRun = "",
    test: AllTests = False,
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Train over a grid of settings and show the scores.

    Where the clients have validation images, these alone choose among the values, and test scores
    are shown of the chosen value alone. It can be stopped at any moment: the same command goes on.

    hold-out=all leaves each hospital out of training in turn and tests on it.

    Examples: fedcli sweep fedism-plus --over q=0.5,1,2,5 --seeds 3 -- --rounds 10 --lr 1e-3;
    fedcli sweep --over method=fedavg,fedheal --seeds 3 -- --rounds 10;
    fedcli sweep fedavg --over hold-out=all -- --rounds 10
    """
    from ..reproduction import jobs as engine
    from ..reproduction import sweep as sweeps
    from ..reproduction.expand import read_seeds
    from ..reproduction.script import Script

    o.refuse_together(dry_run=dry_run, json=json)
    names, data, flags = _split(methods)
    grid = sweeps.planned(
        names,
        data,
        over,
        read_seeds(seeds, (0,)) or (0,),
        parsed(TrainOptions, flags),
        work,
        _partitioned,
        all_tests=test,
    )
    if dry_run:
        devices = engine.spread(device, jobs, at_once)
        scripted(Script(grid.recipe, grid.cells, work, source=grid.data, devices=devices), dry_run)
        return
    workplace = engine.Place(
        work,
        engine.devices(device, jobs, grid.cells, at_once),
        debug,
    )
    folder = grid.folder(work)
    shared = grid.shared(work, wait=wait)
    outcomes = run_cells(grid.recipe, shared, workplace, folder, as_json=json)
    if grid.left_out and outcomes:
        tables = list(sweeps.held_out_tables(grid.data, grid.left_out, outcomes, workplace))
        show_tables(tables, sys.stderr if json else None)
        _write_tables(tables, folder / "held-out.md")


def _split(words: Sequence[str]) -> tuple[list[str], str | None, Sequence[str]]:
    """Methods, the path of their data, and flags of train, which begin at the first word with a
    dash.
    """
    end = 0
    while end < len(words) and (words[end] == "-" or not words[end].startswith("-")):
        end += 1
    extensions.allow(words[end:])
    return *methods_and_data(words[:end]), words[end:]


def _write_tables(tables: Sequence[Any], path: Path) -> None:
    """Write tables as markdown, each under its title."""
    from ..reporting.writers import markdown

    parts = [f"## {table.title}\n\n{markdown(table)}\n\n{table.legend}\n" for table in tables]
    o.write(path, "\n".join(parts))
    console.say(f"written: {path}")


def scripted(script: Any, dry_run: str) -> None:
    """Print the script of cells, or write one for each into a folder."""
    if dry_run == "-":
        print(script.text(), end="")
        return
    folder = Path(dry_run)
    o.refuse_sealed(folder, folder=True)
    script.write(folder)
    count = console.counted(len(script.cells), "script", "scripts")
    console.say(
        f"written: {folder}/data.sh, to be run first, and the {count} of cells, in any order or "
        "at once; the same command without --dry-run then writes the table"
    )


def _partitioned(source: Path) -> PartitionOptions | None:
    """The options of a partition, as its manifest has recorded them; None of a dataset."""
    from ..data import manifest

    data = manifest.read(source)
    return None if data.kind == "dataset" else parsed(PartitionOptions, data.made_by[1:])


def run_cells(
    recipe: Any,
    shared: Any,
    workplace: Any,
    folder: Path,
    *,
    as_json: bool = False,
    **settings: Any,
) -> list[Any]:
    """Play cells, show their table, and return what became of each, nothing where another process
    writes it.

    settings: as output.play() takes them. Raises FedcliError where a cell failed, after all is
    written.
    """
    from ..reproduction import output
    from ..reproduction.jobs import refuse_failed

    def show(results: Any) -> None:
        if as_json:
            show_json(results.body())
        else:
            output.show(results)

    outcomes = output.play(recipe, shared, workplace, folder, show, **settings)
    if outcomes:
        files = "results.json, table.md, table.tex"
        if (folder / "report.html").is_file():  # there is none where every cell has failed
            files += ", report.html"
        console.say(f"written: {folder}/{files}")
    elif as_json:
        show_json(None)
    refuse_failed(outcomes, "cell", "cells")
    return outcomes


def train_several(
    methods: Sequence[str],
    options: TrainOptions,
    seeds: str | None,
    *,
    dry_run: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Train each method with each seed, and print the path of each run; what is finished is not
    trained again.

    Raises FedcliError where a run failed, after all others have ended.
    """
    from ..data import shared_patients
    from ..reproduction import expand, forecast, several
    from ..reproduction import jobs as engine
    from ..reproduction.shared import Shared, Sources
    from ..stages.partition import for_training
    from ..stages.train import data_for, resolved

    if seeds is not None and options.seed:
        hint = "--seeds 4,7 trains with these two"
        raise UsageError("--seed and --seeds exclude each other", hint)
    plans = several.each_its_own(methods, options)
    source = data_for(resolved(plans[methods[0]]))
    work = Path(options.work)
    # a dataset is partitioned here, which the runs themselves would do
    with tempfile.TemporaryDirectory() as nowhere:
        data = for_training(source, Path(nowhere) if dry_run else work)
        shared_patients.warn(data)
        all_seeds = expand.read_seeds(seeds, (0,)) or (options.seed,)
        cells = several.cells(plans, all_seeds, data)
        devices = engine.devices(options.device, options.jobs, cells)
        workplace = engine.Place(work, devices, debug)
        sources: Sources = {(): data}
        if dry_run:
            needs = forecast.forecast(cells, sources, workplace, keep=False)
            if as_json:
                show_json(asdict(needs))
            else:
                console.say(needs.sentence(len(workplace.devices)))
            return
        forecast.announce(cells, sources, workplace)
        with Shared(work, cells, sources) as shared:
            outcomes = engine.run(shared, workplace) or []
    _show_runs([outcome.path for outcome in outcomes if outcome.scores], as_json=as_json)
    engine.refuse_failed(outcomes, "run", "runs")


def _show_runs(paths: Sequence[Path], *, as_json: bool) -> None:
    """Print the paths of runs, with their manifests as JSON."""
    if not as_json:
        for path in paths:
            console.result(str(path))
        return
    runs = []
    for path in paths:
        runs.append({"path": str(path), "manifest": loads(path.read_text(encoding="utf-8"))})
    show_json(runs)
