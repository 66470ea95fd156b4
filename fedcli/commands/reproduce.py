"""fedcli reproduce and run: the tables of recipes."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from inspect import Signature, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from .. import console
from ..common_options import Wait
from ..errors import FedcliError, UsageError
from ..options import Flag
from ..system import terminal
from . import cells as of_cells
from .cells import AtOnce, Device, DryRun, Jobs, Only, Part, Precision, Seeds
from .shell import common as o
from .shell.shown import show_json

Raw = Annotated[
    Sequence[str],
    "folder of a dataset as downloaded; may be repeated",
    Flag("[NAME=]DIR", access="reads"),
]
File = Annotated[
    Sequence[str],
    "a file that the recipe asks for, such as a teacher; may be repeated",
    Flag("NAME=PATH", access="reads"),
]
Scale = Annotated[
    Literal["paper", "small", "smoke"],
    "paper as published, small for hours on a laptop, smoke for seconds on synthetic samples; with --raw, smoke too "
    "prepares the whole folder, which may take minutes or more",
]
Fetch = Annotated[
    bool,
    "download its data sets and its authors' files into WORK/downloads, where they are found, and run nothing",
    Flag(access="typed"),
]
PlanOnly = Annotated[
    bool,
    "say what it takes, without data: downloads and licences, hours on named devices, memory; run nothing",
]
Name = Annotated[
    str | None,
    "name of a recipe or of a paper, or a recipe's file; default: the list",
    Flag(argument=True, access="reads"),
]


def reproduce(
    recipe: Name = None,
    raw: Raw = (),
    file: File = (),
    scale: Scale = "paper",
    seeds: Seeds = None,
    only: Only = (),
    cells: Part = "",
    jobs: Jobs = None,
    at_once: AtOnce = None,
    device: Device = "cpu",
    precision: Precision = None,
    dry_run: DryRun = "",
    fetch: Fetch = False,
    accept_licence: o.AcceptLicence = False,
    plan: PlanOnly = False,
    all: Annotated[bool, "with --plan: of every recipe"] = False,
    work: o.Work = o.DEFAULT_WORK,
    wait: Wait = False,
    json: o.Json = False,
    debug: bool = False,
) -> None:
    """Rebuild a published table, or all tables of a paper.

    Every cell is trained and scored, and printed beside the published number.

    A cell is a row on one data set with one seed. It can be stopped at any moment: the same command goes on, and what
    is done is not done again. Given again while it runs, here or on another machine that has the folder --work, it
    plays cells that nobody plays yet. Without --raw, --scale smoke runs on synthetic samples, in seconds; with
    --raw it prepares the whole folder first, as the other scales do.

    A paper by its name, such as fedheal, plays all its recipes and ends in one page about them.

    Examples: fedcli reproduce ham10000-noise --raw HAM10000 --jobs 2; fedcli reproduce fedheal-table2 --scale smoke;
    fedcli reproduce fedheal --plan
    """
    asked = SimpleNamespace(**locals())
    for name in ("dry_run", "cells"):
        o.refuse_together(plan=plan, fetch=fetch, **{name: vars(asked)[name]})
    if plan or all:  # and the list, before anything imports torch
        _plan(asked)
    elif recipe is None and fetch:
        raise UsageError("--fetch needs a name", "`fedcli reproduce` lists all")
    elif recipe is None:
        _list(json)
    elif fetch:
        _fetch(asked)
    else:
        _play(asked)


def _play(asked: SimpleNamespace) -> bool:
    """Train and score the cells of a recipe, or of all of a paper; False where other processes end its table.

    asked: as reproduce() takes it.
    """
    from ..data.preparation.raw_folder import sample_in
    from ..reproduce import expand
    from ..reproduce import jobs as engine
    from ..reproduce import recipe as recipes
    from ..reproduce.flags import files_in
    from ..reproduce.raw import check_folders, files, folders, possible
    from ..reproduce.script import Script
    from ..reproduce.shared import Shared, part_of

    o.refuse_together(dry_run=asked.dry_run, json=asked.json)
    o.refuse_together(dry_run=asked.dry_run, cells=asked.cells)
    if asked.cells:
        part_of(asked.cells)  # before any data is made
    o.refuse_together(jobs=asked.jobs, at_once=asked.at_once)
    if paper := recipes.paper_of(asked.recipe):
        _paper(paper, asked)
        return True
    table = expand.check(recipes.find(asked.recipe))
    given = folders(table, list(asked.raw), asked.scale, asked.work)
    brought = files(table, list(asked.file), given, asked.scale, asked.work)
    samples = {
        name: folder
        for name, folder in given.items()
        if folder == str(asked.work / "samples" / name)
    }
    chosen_seeds = expand.read_seeds(asked.seeds, table.seeds)
    every = expand.cells(table, asked.scale, seeds=chosen_seeds, raw=given, files=brought)
    wanted = expand.chosen(every, list(asked.only))
    if asked.precision:
        wanted = [
            replace(cell, train=replace(cell.train, precision=asked.precision)) for cell in wanted
        ]
    listed = files_in(
        [data.lists for data in table.chains.values()]
    )  # images that the authors published
    named = {text.partition("=")[0] for text in asked.file}
    if asked.scale != "paper" and (unused := sorted(named - listed)):
        console.warn(f"--scale {asked.scale} does not use the file {', '.join(unused)}")
    if asked.dry_run:
        devices = engine.spread(asked.device, asked.jobs, asked.at_once)
        of_cells.scripted(
            Script(table, wanted, asked.work, samples, devices=devices), asked.dry_run
        )
        return True
    wanted, left_out = possible(table, wanted, given)
    used = {table.chains[cell.data].dataset for cell in wanted}
    check_folders(used, given, set(samples))
    for sentence in left_out:
        console.warn(sentence)
    made_up = sorted(used & set(samples))
    for name in made_up:
        if sample_in(name, Path(samples[name])):
            console.say(
                f"no --raw for {name}: using a synthetic sample of its layout, in {samples[name]}"
            )
    place = engine.Place(
        asked.work, engine.devices(asked.device, asked.jobs, wanted, asked.at_once), asked.debug
    )
    sources = engine.make_data(wanted, place)
    folder = asked.work / "reproduce" / f"{table.name}-{asked.scale}"
    shared = Shared(asked.work, wanted, sources, part=asked.cells, wait=asked.wait)
    outcomes = of_cells.run_cells(
        table,
        shared,
        place,
        folder,
        scale=asked.scale,
        left_out=left_out,
        made_up=made_up,
        measured=asked.scale != "smoke" or bool(asked.raw),
        as_json=asked.json,
    )
    return bool(outcomes)


def _fetch(asked: SimpleNamespace) -> None:
    from ..reproduce import recipe as recipes
    from ..reproduce.raw import fetch

    tables = map(recipes.load, recipes.recipes_of(asked.recipe))
    by_hand = fetch(tables, asked.raw, asked.work, accepted=asked.accept_licence)
    known = [text for text in asked.raw if "=" in text] + [f"{name}=DIR" for name in by_hand]
    flags = [word for text in known for word in ("--raw", text)]
    flags += ["--work", str(asked.work)] if asked.work != o.DEFAULT_WORK else []
    again = shlex.join(["fedcli", "reproduce", asked.recipe, *flags])
    if asked.json:
        show_json({"folder": str(asked.work / "downloads"), "by_hand": by_hand, "next": again})
        return
    console.say(f"next: {again}")
    console.result(str(asked.work / "downloads"))


def _paper(name: str, asked: SimpleNamespace) -> None:
    """Play all recipes of a paper, those that can be, and write one page about them.

    asked: as reproduce() takes it. Raises FedcliError where not all was played, after the page is written.
    """
    from ..reporting import writers
    from ..reproduce import recipe as recipes
    from ..reproduce.expand import NoCellError
    from ..reproduce.raw import shared_out
    from ..reproduce.tables import paper

    tables = [recipes.load(path) for path in recipes.recipes_of(name)]
    place, left = Path(asked.work) / "reproduce", dict[str, int]()
    failed, not_asked = dict[str, str](), dict[str, str]()
    folders = {table.name: place / f"{table.name}-{asked.scale}" for table in tables}

    def stamp(table: str) -> int:
        file = folders[table] / "results.json"
        return file.stat().st_mtime_ns if file.is_file() else 0

    for table, (raw, file) in zip(tables, shared_out(tables, asked.raw, asked.file), strict=True):
        console.say(f"{table.name}: {table.title}")
        before = stamp(table.name)
        try:
            with redirect_stdout(sys.stderr) if asked.json else nullcontext():
                own = {"recipe": table.name, "raw": raw, "file": file, "json": False}
                if not _play(SimpleNamespace(**vars(asked) | own)):
                    left[table.name] = before
        except NoCellError as error:  # of --only; another table of the paper may have such cells
            not_asked[table.name] = error.sentence
            if len(not_asked) == len(tables):
                raise
        except FedcliError as fault:
            if fault.code == 130:
                raise
            console.fail(f"{table.name}: {fault.sentence}", fault.hint)
            failed[table.name] = fault.sentence
    if asked.dry_run:
        return
    waiting = {name: paper.ELSEWHERE for name, before in left.items() if stamp(name) == before}
    reasons = waiting | failed | not_asked
    parts = [
        paper.Rebuilt(table, folders[table.name], reasons.get(table.name, "")) for table in tables
    ]
    parts.sort(key=lambda part: "table" not in part.recipe.name)
    page = paper.write(place / f"{name}-{asked.scale}", parts, asked.scale)
    if asked.json:
        show_json(
            {part.recipe.name: part.results.body() if part.results else None for part in parts}
        )
    else:
        print(paper.title(parts, asked.scale))
        writers.show(paper.overview(parts))
        writers.say([paper.overview(parts).legend, *paper.sentences(parts), *paper.not_run(parts)])
    console.say(f"written: {page}")
    if failed:
        raise FedcliError(
            f"{len(failed)} of {len(parts)} recipes were not played whole: {', '.join(failed)}"
        )


def run(
    recipe: Annotated[
        Path,
        "an experiment of your own, as recipes/README.md",
        Flag("FILE.toml", argument=True, access="reads"),
    ],
    **flags: Any,
) -> None:
    """Train and score an experiment file of your own.

    `fedcli reproduce` does the same for tables of papers.

    It can be stopped at any moment: the same command goes on, and what is done is not done again.

    Example: fedcli run my.toml --jobs 2
    """
    if not recipe.is_file():
        hint = "recipes/README.md says how to write one; `fedcli reproduce` lists ours"
        raise UsageError(f"no such file: {recipe}", hint)
    reproduce(str(recipe), **flags)


OF_PAPERS = "recipe", "scale", "fetch", "accept_licence", "plan", "all"
COMMON = [each for name, each in signature(reproduce).parameters.items() if name not in OF_PAPERS]
run.__signature__ = Signature([signature(run).parameters["recipe"], *COMMON])  # type: ignore[attr-defined]
run.__annotations__ |= {each.name: each.annotation for each in COMMON}


def _plan(asked: SimpleNamespace) -> None:
    """Show what recipes take, without data or torch. asked: as reproduce() takes it."""
    from ..reproduce import recipe as recipes
    from ..reproduce.plan import planned
    from . import method_facts
    from .planned import show

    if not asked.plan or asked.all == bool(asked.recipe):
        what = (
            "--all says nothing without --plan"
            if asked.all and not asked.plan
            else "--plan needs a name, or --all"
        )
        raise UsageError(what, "fedcli reproduce fedheal-table3 --plan, or reproduce --all --plan")
    files = (
        [*recipes.names().values()] if asked.recipe is None else recipes.recipes_of(asked.recipe)
    )
    made = planned(
        files, asked.scale, method_facts.lookup(), seeds=asked.seeds, only=tuple(asked.only)
    )
    show(made, asked.scale, asked.json, asked.recipe)


def _list(as_json: bool) -> None:
    from ..reproduce import recipe as recipes

    known = {name: recipes.load(path) for name, path in recipes.names().items()}
    if as_json:
        show_json(
            {
                name: {
                    "title": of.title,
                    "paper": of.paper,
                    "rows": [row.name for row in of.rows],
                    "seeds": list(of.seeds),
                    "datasets": sorted({chain.dataset for chain in of.chains.values()}),
                    "cells": len(of.seeds) * sum(len(row.data) for row in of.rows),
                }
                for name, of in known.items()
            }
        )
        return
    rows = [[name, str(len(of.rows)), str(len(of.seeds)), of.title] for name, of in known.items()]
    terminal.table(["recipe", "rows", "seeds", "what it rebuilds"], rows)
