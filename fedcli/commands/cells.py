"""fedcli reproduce, run and sweep: cells, each a training with its scores, in tables."""

import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, replace
from json import loads
from pathlib import Path
from typing import Annotated, Any, Literal

from .. import console, extensions
from ..common_options import NAME, Wait
from ..errors import FedcliError, UsageError
from ..options import Flag
from ..stages.options import PartitionOptions, TrainOptions
from ..system import terminal
from .shell import common as o
from .shell.declare import parsed
from .shell.shown import show_json, show_tables

Seeds = Annotated[
    str | None, "how many seeds, or which ones, such as 0,1; default: a recipe's own, else 0", Flag("N|SEED,...")
]
Raw = Annotated[Sequence[str], "folder of a dataset as downloaded; may be repeated", Flag("[NAME=]DIR")]
File = Annotated[
    Sequence[str], "a file that the recipe asks for, such as a teacher; may be repeated", Flag("NAME=PATH")
]
Only = Annotated[Sequence[str], "cells with this text in row, data or seed; may be repeated", Flag("TEXT")]
DryRun = Annotated[
    str,
    "print the commands as a shell script, run none; --dry-run=DIR: write a script for each cell into this folder, and "
    "one for their data",
    Flag("[=DIR]", alone="-"),
]
Precision = Annotated[
    Literal["fp32", "tf32", "bf16", "auto"] | None, "precision of every training; default: as the recipe says"
]
Part = Annotated[
    str,
    "play this part of the cells alone, such as 3/8, the third of eight that take about as long; the last part to end "
    "writes the table",
    Flag("I/N"),
]
AtOnce = Annotated[
    int | None,
    "cells at a time on each GPU, in [1, 64], fewer where its memory holds fewer; default: 1",
]
Jobs = Annotated[
    int | None,
    "cells at a time, each in a process, in [1, 256]; default: one per core where networks are small, else 1, or with "
    "cuda as --at-once says",
]
Device = Annotated[str, "cpu, cuda (all GPUs) or cuda:N"]


def reproduce(
    recipe: Annotated[
        str | None, "a recipe's name or file, with --plan also a paper's; default: the list", NAME
    ] = None,
    raw: Raw = (),
    file: File = (),
    scale: Annotated[
        Literal["paper", "small", "smoke"],
        "paper as published, small for hours on a laptop, smoke for seconds on synthetic samples; with --raw, smoke "
        "too prepares the whole folder, which may take minutes or more",
    ] = "paper",
    seeds: Seeds = None,
    only: Only = (),
    cells: Part = "",
    jobs: Jobs = None,
    at_once: AtOnce = None,
    device: Device = "cpu",
    precision: Precision = None,
    dry_run: DryRun = "",
    fetch: Annotated[
        bool, "download its data sets and its authors' files into WORK/downloads, where they are found, and run nothing"
    ] = False,
    accept_licence: o.AcceptLicence = False,
    plan: Annotated[
        bool, "say what it takes, without data: downloads and licences, hours on named devices, memory; run nothing"
    ] = False,
    all: Annotated[bool, "with --plan: of every recipe"] = False,
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Rebuild a published table from its recipe, or all of a paper.

    Every cell is trained and scored, and printed beside the published number.

    A cell is a row on one data set with one seed. It can be stopped at any moment: the same command goes on, and what
    is done is not done again. Given again while it runs, here or on another machine that has the folder --work, it
    plays cells that nobody plays yet. Without --raw, --scale smoke runs on synthetic samples, in seconds; with
    --raw it prepares the whole folder first, as the other scales do.

    A paper by its name, such as fedheal, plays all its recipes and ends in one page about them.

    Examples: fedcli reproduce ham10000-noise --raw HAM10000 --jobs 2; fedcli reproduce fedheal-table2 --scale smoke;
    fedcli reproduce fedheal --plan
    """
    typed = dict(locals())
    if plan or all:  # and the list, before anything imports torch
        _plan(recipe, scale, seeds, only, json, plan=plan, every=all)
        return
    if recipe is None:
        _list(json)
        return
    if fetch:
        _fetch(recipe, list(raw), work, accepted=accept_licence, as_json=json)
        return
    from ..data.preparation.raw_folder import sample_in
    from ..reproduce import expand
    from ..reproduce import jobs as engine
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import check_folders, files, folders, listed, possible
    from ..reproduce.script import Script
    from ..reproduce.several import read_seeds
    from ..reproduce.shared import Shared

    o.refuse_together(dry_run=dry_run, json=json)
    o.refuse_together(dry_run=dry_run, cells=cells)
    o.refuse_together(jobs=jobs, at_once=at_once)
    if paper := recipes.paper_of(recipe):
        _paper(paper, typed)
        return
    table = expand.check(recipes.find(recipe))
    given = folders(table, list(raw), scale, work)
    brought = files(table, list(file), given, scale, work)
    samples = {name: folder for name, folder in given.items() if folder == str(work / "samples" / name)}
    chosen_seeds = read_seeds(seeds, table.seeds)
    wanted = expand.chosen(expand.cells(table, scale, seeds=chosen_seeds, raw=given, files=brought), list(only))
    if precision:
        wanted = [replace(cell, train=replace(cell.train, precision=precision)) for cell in wanted]
    named = {text.partition("=")[0] for text in file}
    if scale != "paper" and (unused := sorted(named - listed(table))):
        console.warn(f"--scale {scale} does not use the file {', '.join(unused)}")
    if dry_run:
        _scripted(Script(table, wanted, work, samples, devices=engine.spread(device, jobs, at_once)), dry_run)
        return
    wanted, left_out = possible(table, wanted, given)
    used = {table.chains[cell.data].dataset for cell in wanted}
    check_folders(used, given, set(samples))
    for sentence in left_out:
        console.warn(sentence)
    made_up = sorted(used & set(samples))
    for name in made_up:
        if sample_in(name, Path(samples[name])):
            console.say(f"no --raw for {name}: using a synthetic sample of its layout, in {samples[name]}")
    place = engine.Place(work, engine.devices(device, jobs, wanted, at_once), debug)
    sources = engine.make_data(wanted, place)
    folder = work / "reproduce" / f"{table.name}-{scale}"
    run_cells(
        table, Shared(work, wanted, sources, part=cells, wait=wait), place, folder, scale=scale, left_out=left_out,
        made_up=made_up, measured=scale != "smoke" or bool(raw), as_json=json,
    )  # fmt: skip


def _fetch(recipe: str, raw: list[str], work: Path, *, accepted: bool, as_json: bool) -> None:
    """Download what a recipe, or all recipes of a paper, need."""
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import fetch

    by_hand = fetch(map(recipes.load, recipes.recipes_of(recipe)), raw, work, accepted=accepted)
    known = [text for text in raw if "=" in text] + [f"{name}=DIR" for name in by_hand]
    flags = [word for text in known for word in ("--raw", text)]
    flags += ["--work", str(work)] if work != o.DEFAULT_WORK else []
    again = shlex.join(["fedcli", "reproduce", recipe, *flags])
    if as_json:
        show_json({"folder": str(work / "downloads"), "by_hand": by_hand, "next": again})
        return
    console.say(f"next: {again}")
    console.result(str(work / "downloads"))


def _paper(name: str, typed: dict[str, Any]) -> None:
    """Play all recipes of a paper, those that can be, and write one page about them.

    typed: as reproduce() takes it. Raises FedcliError where not all was played, after the page is written.
    """
    from ..reporting import writers
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import shared_out
    from ..reproduce.tables import paper

    tables = [recipes.load(path) for path in recipes.recipes_of(name)]
    place, parts = Path(typed["work"]) / "reproduce", []
    for table, (raw, file) in zip(tables, shared_out(tables, typed["raw"], typed["file"]), strict=True):
        reason = ""
        console.say(f"{table.name}: {table.title}")
        try:
            with redirect_stdout(sys.stderr) if typed["json"] else nullcontext():
                reproduce(**typed | {"recipe": table.name, "raw": raw, "file": file, "json": False})
        except FedcliError as fault:
            if fault.code == 130:
                raise
            console.fail(f"{table.name}: {fault.sentence}", fault.hint)
            reason = fault.sentence
        parts.append(paper.Rebuilt(table, place / f"{table.name}-{typed['scale']}", reason))
    if typed["dry_run"]:
        return
    parts.sort(key=lambda part: "table" not in part.recipe.name)
    page = paper.write(place / f"{name}-{typed['scale']}", parts, typed["scale"])
    if typed["json"]:
        show_json({part.recipe.name: part.results.body() if part.results else None for part in parts})
    else:
        print(paper.title(parts, typed["scale"]))
        writers.show(paper.overview(parts))
        writers.say([paper.overview(parts).legend, *paper.sentences(parts), *paper.not_run(parts)])
    console.say(f"written: {page}")
    if failed := [part.recipe.name for part in parts if part.reason]:
        raise FedcliError(f"{len(failed)} of {len(parts)} recipes were not played whole: {', '.join(failed)}")


def run(
    recipe: Annotated[Path, "an experiment of your own, as recipes/README.md", Flag("FILE.toml", argument=True)],
    raw: Raw = (),
    file: File = (),
    seeds: Seeds = None,
    only: Only = (),
    cells: Part = "",
    jobs: Jobs = None,
    at_once: AtOnce = None,
    device: Device = "cpu",
    precision: Precision = None,
    dry_run: DryRun = "",
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
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
        str(recipe), raw=raw, file=file, seeds=seeds, only=only, cells=cells, jobs=jobs, at_once=at_once, device=device,
        precision=precision, dry_run=dry_run, work=work, wait=wait, json=json, debug=debug,
    )  # fmt: skip


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
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Train over a grid of settings and show the scores.

    The best is marked only where the clients have validation images, and by these alone. It can be stopped at any
    moment: the same command goes on.

    hold-out=all leaves each hospital out of training in turn and tests on it.

    Examples: fedcli sweep fedism-plus --over q=0.5,1,2,5 --seeds 3 -- --rounds 10 --lr 1e-3;
    fedcli sweep --over method=fedavg,fedheal --seeds 3 -- --rounds 10;
    fedcli sweep fedavg --over hold-out=all -- --rounds 10
    """
    from ..reporting.writers import markdown
    from ..reproduce import jobs as engine
    from ..reproduce import several, swept
    from ..reproduce.script import Script
    from ..reproduce.shared import Shared
    from ..reproduce.sweep import tables

    o.refuse_together(dry_run=dry_run, json=json)
    flags = next((place for place, word in enumerate(methods) if word[:1] == "-" != word), len(methods))
    extensions.allow(words := methods[flags:])
    named, data = several.methods_and_data(methods[:flags])
    chosen = several.read_seeds(seeds, (0,)) or (0,)
    wanted = swept.planned(named, data, over, chosen, parsed(TrainOptions, words), work, _partitioned)
    if dry_run:
        devices = engine.spread(device, jobs, at_once)
        _scripted(Script(wanted.recipe, wanted.cells, work, source=wanted.data, devices=devices), dry_run)
        return
    place = engine.Place(work, engine.devices(device, jobs, wanted.cells, at_once), debug)
    folder = wanted.folder(work)
    shared = Shared(work, wanted.cells, wanted.sources, wait=wait)
    outcomes = run_cells(wanted.recipe, shared, place, folder, as_json=json)
    if wanted.left_out and outcomes:
        made = list(tables(wanted.left_out, outcomes, work, place.devices[0]))
        show_tables(made, sys.stderr if json else None)
        o.write(
            folder / "held-out.md", "\n\n".join(f"## {t.title}\n\n{markdown(t)}\n\n{t.legend}" for t in made) + "\n"
        )
        console.say(f"written: {folder}/held-out.md")


def _scripted(script: Any, dry_run: str) -> None:
    """Print the script of cells, or write one for each into a folder."""
    if dry_run == "-":
        print(script.text(), end="")
        return
    o.refuse_sealed_folder(folder := Path(dry_run))
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
) -> list:  # fmt: skip
    """Play cells, show their table, and return what became of each, nothing where another process writes it.

    about: as output.play() takes it. Raises FedcliError where a cell failed, after all is written.
    """
    from ..reproduce import output
    from ..reproduce.jobs import refuse_failed

    def shown(results: Any) -> None:
        show_json(results.body()) if as_json else output.show(results)

    outcomes = output.play(recipe, shared, place, folder, shown, **about)
    if outcomes:
        console.say(f"written: {folder}/results.json, table.md, report.html")
    refuse_failed(outcomes, "cell", "cells")
    return outcomes


def train_several(
    methods: Sequence[str], asked: TrainOptions, seeds: str | None, *, dry_run: bool, as_json: bool, debug: bool
) -> None:
    """Train each method with each seed, and print the path of each run; what is finished is not trained again.

    Raises FedcliError where a run failed, after all others have ended.
    """
    from ..reproduce import forecast, several
    from ..reproduce import jobs as engine
    from ..reproduce.shared import Shared
    from ..stages.partition import for_training
    from ..stages.train import data_for, resolved

    if seeds is not None and asked.seed:
        raise UsageError("--seed and --seeds exclude each other", "--seeds 4,7 trains with these two")
    own = several.each_its_own(methods, asked)
    found = data_for(resolved(own[methods[0]]))
    with tempfile.TemporaryDirectory() as nowhere:  # where a dataset is partitioned, which the runs themselves would do
        data, work = for_training(found, Path(nowhere) if dry_run else Path(asked.work)), Path(asked.work)
        cells = several.cells(own, several.read_seeds(seeds, (0,)) or (asked.seed,), data)
        place = engine.Place(work, engine.devices(asked.device, asked.jobs, cells), debug)
        sources: engine.Sources = {(): data}
        if dry_run:
            wanted = forecast.forecast(cells, sources, place)
            show_json(asdict(wanted)) if as_json else console.say(wanted.sentence(len(place.devices)))
            return
        forecast.announce(cells, sources, place)
        with Shared(work, cells, sources) as shared:
            outcomes = engine.run(shared, place) or []
    done = [outcome.path for outcome in outcomes if outcome.scores]
    if as_json:
        show_json([{"path": str(path), "manifest": loads(path.read_text(encoding="utf-8"))} for path in done])
    else:
        for path in done:
            console.result(str(path))
    engine.refuse_failed(outcomes, "run", "runs")


def _plan(
    recipe: str | None, scale: str, seeds: str | None, only: Sequence[str], as_json: bool, *, plan: bool, every: bool
) -> None:  # fmt: skip
    from ..reproduce import recipe as recipes
    from ..reproduce.plan import planned
    from . import method_facts
    from .planned import show

    if not plan or every == bool(recipe):
        what = "--all says nothing without --plan" if every and not plan else "--plan needs a name, or --all"
        raise UsageError(what, "fedcli reproduce fedheal-table3 --plan, or reproduce --all --plan")
    files = [*recipes.names().values()] if recipe is None else recipes.recipes_of(recipe)
    show(planned(files, scale, method_facts.lookup(), seeds=seeds, only=tuple(only)), scale, as_json)


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
