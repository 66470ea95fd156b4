"""fedcli reproduce, run and sweep: cells, each a training with its scores, in tables."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from .. import console, extensions
from ..common_options import NAME
from ..errors import FedcliError, UsageError
from ..io.locks import held
from ..options import Flag
from ..stages.options import PartitionOptions, TrainOptions
from ..system import terminal
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_json, show_tables

Seeds = Annotated[
    str | None,
    "how many seeds, or which ones (0,1); default: all of the recipe's, and in a sweep 0",
]
Raw = Annotated[Sequence[str], "folder of a dataset as downloaded; may be repeated", Flag("[NAME=]DIR")]
File = Annotated[
    Sequence[str], "a file that the recipe asks for, such as a teacher; may be repeated", Flag("NAME=PATH")
]
Only = Annotated[Sequence[str], "cells with this text in row, data or seed; may be repeated", Flag("TEXT")]
DryRun = Annotated[bool, "print the commands as a shell script, run none"]
Jobs = Annotated[int | None, "cells at a time, each in a process, in [1, 256]; default: 1, or with cuda one per GPU"]
Device = Annotated[str, "cpu, cuda (all GPUs) or cuda:N"]
MOST_SEEDS = 1000


def reproduce(
    recipe: Annotated[str | None, "name or file of a recipe; default: the list", NAME] = None,
    raw: Raw = (),
    file: File = (),
    scale: Annotated[
        Literal["paper", "small", "smoke"],
        "paper as published, small for hours on a laptop, smoke for seconds on synthetic samples; with --raw, smoke "
        "too prepares the whole folder, which may take minutes or more",
    ] = "paper",
    seeds: Seeds = None,
    only: Only = (),
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Rebuild a published table from its recipe.

    Every cell is trained and scored, and printed beside the published number.

    A cell is a row on one data set with one seed. It can be stopped at any moment: the same command goes on, and what
    is done is not done again. Without --raw, --scale smoke runs on synthetic samples, in seconds; with
    --raw it prepares the whole folder first, as the other scales do.

    Examples: fedcli reproduce ham10000-noise --raw HAM10000 --jobs 2; fedcli reproduce fedheal-table2 --scale smoke
    """
    if recipe is None:
        _list(json)  # before anything imports torch
        return
    from ..data.preparation.raw_folder import sample_in
    from ..reproduce import expand
    from ..reproduce import jobs as engine
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import check_folders, files, folders, listed, possible
    from ..reproduce.script import script

    o.refuse_together(dry_run=dry_run, json=json)
    table = expand.check(recipes.find(recipe))
    given, brought = folders(table, list(raw), scale, work), files(table, list(file))
    samples = {name: folder for name, folder in given.items() if folder == str(work / "samples" / name)}
    chosen_seeds = read_seeds(seeds, table.seeds)
    cells = expand.chosen(expand.cells(table, scale, seeds=chosen_seeds, raw=given, files=brought), list(only))
    if scale != "paper" and (unused := sorted(brought.keys() - listed(table))):
        console.warn(f"--scale {scale} does not use the file {', '.join(unused)}")
    if dry_run:
        print(script(table, cells, samples=samples, work=work), end="")
        return
    cells, left_out = possible(table, cells, given)
    used = {table.chains[cell.data].dataset for cell in cells}
    check_folders(used, given, set(samples))
    for sentence in left_out:
        console.warn(sentence)
    made_up = sorted(used & set(samples))
    for name in made_up:
        if sample_in(name, Path(samples[name])):
            console.say(f"no --raw for {name}: using a synthetic sample of its layout, in {samples[name]}")
    place = engine.Place(work, engine.devices(device, jobs), debug)
    sources = engine.make_data(cells, place)
    folder = work / "reproduce" / f"{table.name}-{scale}"
    with _claimed(folder):
        run_cells(
            table, cells, sources, place, folder, scale=scale, left_out=left_out, made_up=made_up,
            measured=scale != "smoke" or bool(raw), as_json=json,
        )  # fmt: skip


def run(
    recipe: Annotated[Path, "an experiment of your own, as recipes/README.md", Flag("FILE.toml", argument=True)],
    raw: Raw = (),
    file: File = (),
    seeds: Seeds = None,
    only: Only = (),
    jobs: Jobs = None,
    device: Device = "cpu",
    dry_run: DryRun = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Train and score an experiment file of your own.

    `fedcli reproduce` does the same for tables of papers.

    It can be stopped at any moment: the same command goes on, and what is done is not done again.

    Example: fedcli run my.toml --jobs 2
    """
    if not recipe.is_file():
        raise UsageError(
            f"no such file: {recipe}", "recipes/README.md says how to write one; `fedcli reproduce` lists ours"
        )
    reproduce(
        str(recipe), raw=raw, file=file, seeds=seeds, only=only, jobs=jobs, device=device, dry_run=dry_run, work=work,
        json=json, debug=debug,
    )  # fmt: skip


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
    """Train over a grid of settings and show the scores.

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
    with _claimed(folder):
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


def _claimed(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder of a table, which one process at a time makes."""
    lock = folder.with_name(f"{folder.name}.lock")
    return held(lock, f"another process is making {folder}", "wait for it, or give another --work")


def run_cells(
    recipe: Any, cells: list, sources: dict, place: Any, folder: Path, *, scale: str = "paper",
    left_out: list[str] | None = None, made_up: list[str] | None = None, measured: bool = True, as_json: bool = False,
) -> list:  # fmt: skip
    """Run cells, write their folder, show it, and return what became of each.

    Raises FedcliError where a cell failed, after all is written.

    measured: whether time and memory are estimated first.
    """
    from ..reproduce import forecast, output, results
    from ..reproduce import jobs as engine

    forecast.announce_again(cells, sources, place, folder)
    if measured:
        forecast.announce(cells, sources, place)
    outcomes = engine.run(cells, sources, place)
    about = {"left_out": left_out or [], "made_up": made_up or []}
    made = results.collect(recipe, outcomes, scale=scale, work=place.work, **about)
    output.record(folder, made)
    try:
        made = output.illustrate(folder, recipe, made, outcomes, device=place.devices[0])
    finally:
        show_json(made.body()) if as_json else output.show(made)
    console.say(f"written: {folder}/results.json, table.md, report.html")
    if failed := [outcome for outcome in outcomes if not outcome.scores]:
        raise FedcliError(
            f"{len(failed)} of {console.counted(len(outcomes), 'cell', 'cells')} failed: {failed[0].cell.name}"
            + (" and others" if len(failed) > 1 else ""),
            "the reason of each stands above; mend it and give the same command again: the others are not redone",
        )
    return outcomes


def _list(as_json: bool) -> None:
    from ..reproduce import recipe as recipes

    known = {name: recipes.load(path) for name, path in recipes.names().items()}
    if as_json:
        show_json({name: _about(recipe) for name, recipe in known.items()})
        return
    rows = [[name, str(len(recipe.rows)), str(len(recipe.seeds)), recipe.title] for name, recipe in known.items()]
    terminal.table(["recipe", "rows", "seeds", "what it rebuilds"], rows)


def _about(recipe: Any) -> dict[str, Any]:
    """Facts of a recipe in the list for a program."""
    rows, chains = recipe.rows, recipe.chains.values()
    return {
        "title": recipe.title, "paper": recipe.paper, "rows": [row.name for row in rows], "seeds": list(recipe.seeds),
        "datasets": sorted({chain.dataset for chain in chains}),
        "cells": len(recipe.seeds) * sum(len(row.data) for row in rows),
    }  # fmt: skip


def read_seeds(given: str | None, known: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds that "3" (the first three of the known ones, counted on where there are fewer) or "0,1" mean.

    Empty where none are given. Raises UsageError.
    """
    if given is None:
        return ()
    words = [word.strip() for word in given.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words) or words == ["0"]:
        raise UsageError(f"--seeds {given!r} is no number of seeds", "write --seeds 3, or --seeds 0,1 for these two")
    if len(words) == 1 and int(given) > MOST_SEEDS:
        hint = "a number alone says how many, 0,1 says which"
        raise UsageError(f"--seeds {given} are more than {MOST_SEEDS} seeds", hint)
    if len({int(word) for word in words}) < len(words):
        raise UsageError(f"--seeds {given} names a seed twice", "name each once")
    if len(words) > 1:
        return tuple(int(word) for word in words)
    return (*known, *range(max(known) + 1, max(known) + 1 + int(given)))[: int(given)]
