"""Train of several runs, also over a grid of settings: cells, each a training with its scores."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from json import loads
from pathlib import Path
from typing import Annotated, Any

from .. import console
from ..common_options import WORK
from ..errors import UsageError
from ..io import outputs
from ..options import Flag
from ..runs.train_options import TrainOptions
from ..stages.options import PartitionOptions
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_json, show_tables

DryRun = Annotated[
    str,
    "print the commands as a shell script, run none; --dry-run=DIR: write a script for each cell "
    "into this folder, and one for their data",
    Flag("[=DIR]", alone=o.DRY_RUN_ALONE, access="writes"),
]


def train_over(
    methods: Sequence[str],
    options: TrainOptions,
    over: Sequence[str],
    seeds: str | None,
    *,
    all_tests: bool,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Train every method with every combination of values and every seed, and show their scores.

    dry_run: "" to train; "-" to say what it takes; else the folder that scripts are written to.
    Raises FedcliError where a run failed, after all others have ended.
    """
    from ..reproduction import forecast
    from ..reproduction import jobs as engine
    from ..reproduction import sweep as sweeps
    from ..reproduction.script import Script

    work = Path(options.work)
    all_seeds = _read_seeds(seeds, options)
    grid = sweeps.planned(
        methods,
        options.data,
        over,
        all_seeds,
        _of_every_run(options),
        work,
        _partitioned,
        all_tests=all_tests,
    )
    if dry_run not in ("", o.DRY_RUN_ALONE):
        devices = engine.spread(options.device, options.jobs)
        script = Script(grid.recipe, grid.cells, work, source=grid.data, devices=devices)
        scripted(script, dry_run)
        return
    devices = engine.devices(options.device, options.jobs, grid.cells)
    workplace = engine.Place(work, devices, debug)
    if dry_run:
        needs = forecast.forecast(grid.cells, grid.sources, workplace, keep=False)
        _say_needs(needs, len(devices), as_json=as_json)
        return
    folder = grid.folder(work)
    shared = grid.shared(work, wait=options.wait)
    outcomes = run_cells(grid.recipe, shared, workplace, folder, as_json=as_json)
    if grid.left_out and outcomes:
        tables = list(sweeps.held_out_tables(grid.data, grid.left_out, outcomes, workplace))
        show_tables(tables, sys.stderr if as_json else None)
        _write_tables(tables, folder / "held-out.md")


def _read_seeds(text: str | None, options: TrainOptions) -> tuple[int, ...]:
    """The seeds of --seeds, or the one of --seed. Raises UsageError where both are given."""
    from ..reproduction.expand import read_seeds

    if text is not None and options.seed:
        hint = "--seeds 4,7 trains with these two"
        raise UsageError("--seed and --seeds exclude each other", hint)
    return read_seeds(text, (0,)) or (options.seed,)


def _of_every_run(options: TrainOptions) -> TrainOptions:
    """The options that all runs share, without those of the call itself."""
    return replace(
        options,
        method=None,
        data=None,
        jobs=None,
        device="cpu",
        work=WORK,
        wait=False,
    )


def _say_needs(needs: Any, processes: int, *, as_json: bool) -> None:
    """Say how long several runs would take."""
    if as_json:
        show_json(asdict(needs))
    else:
        console.say(needs.sentence(processes))


def _write_tables(tables: Sequence[Any], path: Path) -> None:
    """Write tables as markdown, each under its title."""
    from ..reporting.writers import markdown

    parts = [f"## {table.title}\n\n{markdown(table)}\n\n{table.legend}\n" for table in tables]
    o.write(path, "\n".join(parts))
    console.say(f"written: {path}")


def scripted(script: Any, dry_run: str) -> None:
    """Print the script of cells, or write one for each into a folder."""
    if dry_run == o.DRY_RUN_ALONE:
        print(script.text(), end="")
        return
    folder = Path(dry_run)
    outputs.refuse_sealed(folder, folder=True)
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
    from ..reproduction import forecast, several
    from ..reproduction import jobs as engine
    from ..reproduction.shared import Shared, Sources
    from ..stages.partition import for_training
    from ..stages.train import data_for, resolved

    all_seeds = _read_seeds(seeds, options)
    plans = several.each_its_own(methods, options)
    source = data_for(resolved(plans[methods[0]]))
    work = Path(options.work)
    # a dataset is partitioned here, which the runs themselves would do
    with tempfile.TemporaryDirectory() as nowhere:
        data = for_training(source, Path(nowhere) if dry_run else work)
        shared_patients.warn(data)
        cells = several.cells(plans, all_seeds, data)
        devices = engine.devices(options.device, options.jobs, cells)
        workplace = engine.Place(work, devices, debug)
        sources: Sources = {(): data}
        if dry_run:
            needs = forecast.forecast(cells, sources, workplace, keep=False)
            _say_needs(needs, len(workplace.devices), as_json=as_json)
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
