"""fedcli sweep, and train of several: cells, each a training with its scores, in tables."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from json import loads
from pathlib import Path
from typing import Annotated, Any

from .. import console, extensions
from ..common_options import Wait
from ..errors import UsageError
from ..options import Flag
from ..reproduction.reproduce_options import AtOnce, Device, Jobs, Seeds
from ..stages.options import PartitionOptions, TrainOptions
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_json, show_tables

DryRun = Annotated[
    str,
    "print the commands as a shell script, run none; --dry-run=DIR: write a script for each cell into this folder, and "
    "one for their data",
    Flag("[=DIR]", alone="-", access="writes"),
]


def sweep(
    methods: Annotated[
        Sequence[str],
        "one or several; then the path of a partition or corruption manifest, default the newest under --work; after "
        "-- flags of train for all cells",
        Flag("METHOD... [DATA] [-- TRAIN FLAGS]", argument=True),
    ] = (),
    over: Annotated[
        Sequence[str],
        "an option of the methods or a flag of train, method, or hold-out=all; may be repeated",
        Flag("KEY=VALUE,..."),
    ] = (),
    seeds: Seeds = None,
    jobs: Jobs = None,
    at_once: AtOnce = None,
    device: Device = "cpu",
    dry_run: DryRun = "",
    test: Annotated[
        bool, "show test scores of every value, also where validation images choose one"
    ] = False,
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Train over a grid of settings and show the scores.

    Where the clients have validation images, these alone choose among the values, and test scores are shown of the
    chosen value alone. It can be stopped at any moment: the same command goes on.

    hold-out=all leaves each hospital out of training in turn and tests on it.

    Examples: fedcli sweep fedism-plus --over q=0.5,1,2,5 --seeds 3 -- --rounds 10 --lr 1e-3;
    fedcli sweep --over method=fedavg,fedheal --seeds 3 -- --rounds 10;
    fedcli sweep fedavg --over hold-out=all -- --rounds 10
    """
    from ..reporting.writers import markdown
    from ..reproduction import jobs as engine
    from ..reproduction import several
    from ..reproduction import sweep as sweeps
    from ..reproduction.expand import read_seeds
    from ..reproduction.script import Script
    from ..reproduction.shared import Shared

    o.refuse_together(dry_run=dry_run, json=json)
    flags = next(
        (place for place, word in enumerate(methods) if word[:1] == "-" != word), len(methods)
    )
    extensions.allow(words := methods[flags:])
    named, data = several.methods_and_data(methods[:flags])
    chosen = read_seeds(seeds, (0,)) or (0,)
    wanted = sweeps.planned(
        named,
        data,
        over,
        chosen,
        parsed(TrainOptions, words),
        work,
        _partitioned,
        all_tests=test,
    )
    if dry_run:
        devices = engine.spread(device, jobs, at_once)
        scripted(
            Script(wanted.recipe, wanted.cells, work, source=wanted.data, devices=devices), dry_run
        )
        return
    place = engine.Place(work, engine.devices(device, jobs, wanted.cells, at_once), debug)
    folder = wanted.folder(work)
    shared = Shared(work, wanted.cells, wanted.sources, wait=wait)
    outcomes = run_cells(wanted.recipe, shared, place, folder, as_json=json)
    if wanted.left_out and outcomes:
        made = list(sweeps.held_out_tables(wanted.data, wanted.left_out, outcomes, place))
        show_tables(made, sys.stderr if json else None)
        parts = [f"## {table.title}\n\n{markdown(table)}\n\n{table.legend}" for table in made]
        o.write(folder / "held-out.md", "\n\n".join(parts) + "\n")
        console.say(f"written: {folder}/held-out.md")


def scripted(script: Any, dry_run: str) -> None:
    """Print the script of cells, or write one for each into a folder."""
    if dry_run == "-":
        print(script.text(), end="")
        return
    o.refuse_sealed(folder := Path(dry_run), folder=True)
    script.write(folder)
    count = console.counted(len(script.cells), "script", "scripts")
    console.say(
        f"written: {folder}/data.sh, to be run first, and the {count} of cells, in any order or at once; the same "
        "command without --dry-run then writes the table"
    )


def _partitioned(source: Path) -> PartitionOptions | None:
    """The options of a partition, as its manifest has recorded them; None of a dataset."""
    from ..data import manifest

    read = manifest.read(source)
    return None if read.kind == "dataset" else parsed(PartitionOptions, read.made_by[1:])


def run_cells(
    recipe: Any, shared: Any, place: Any, folder: Path, *, as_json: bool = False, **about: Any
) -> list:
    """Play cells, show their table, and return what became of each, nothing where another process writes it.

    about: as output.play() takes it. Raises FedcliError where a cell failed, after all is written.
    """
    from ..reproduction import output
    from ..reproduction.jobs import refuse_failed

    def shown(results: Any) -> None:
        show_json(results.body()) if as_json else output.show(results)

    outcomes = output.play(recipe, shared, place, folder, shown, **about)
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
    asked: TrainOptions,
    seeds: str | None,
    *,
    dry_run: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Train each method with each seed, and print the path of each run; what is finished is not trained again.

    Raises FedcliError where a run failed, after all others have ended.
    """
    from ..data import shared_patients
    from ..reproduction import expand, forecast, several
    from ..reproduction import jobs as engine
    from ..reproduction.shared import Shared
    from ..stages.partition import for_training
    from ..stages.train import data_for, resolved

    if seeds is not None and asked.seed:
        raise UsageError(
            "--seed and --seeds exclude each other", "--seeds 4,7 trains with these two"
        )
    own = several.each_its_own(methods, asked)
    found = data_for(resolved(own[methods[0]]))
    with (
        tempfile.TemporaryDirectory() as nowhere
    ):  # where a dataset is partitioned, which the runs themselves would do
        data, work = (
            for_training(found, Path(nowhere) if dry_run else Path(asked.work)),
            Path(asked.work),
        )
        shared_patients.warn(data)
        cells = several.cells(own, expand.read_seeds(seeds, (0,)) or (asked.seed,), data)
        place = engine.Place(work, engine.devices(asked.device, asked.jobs, cells), debug)
        sources: engine.Sources = {(): data}
        if dry_run:
            wanted = forecast.forecast(cells, sources, place, keep=False)
            show_json(asdict(wanted)) if as_json else console.say(
                wanted.sentence(len(place.devices))
            )
            return
        forecast.announce(cells, sources, place)
        with Shared(work, cells, sources) as shared:
            outcomes = engine.run(shared, place) or []
    done = [outcome.path for outcome in outcomes if outcome.scores]
    if as_json:
        show_json(
            [
                {"path": str(path), "manifest": loads(path.read_text(encoding="utf-8"))}
                for path in done
            ]
        )
    else:
        for path in done:
            console.result(str(path))
    engine.refuse_failed(outcomes, "run", "runs")
