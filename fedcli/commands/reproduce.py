"""fedcli reproduce: the tables of recipes."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .. import console
from ..errors import FedcliError, UsageError
from ..options import COMMON, Flag
from ..reproduction.reproduce_options import ReproduceOptions
from ..system import terminal
from . import cells
from .cells import DryRun
from .shell import common as o
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..reproduction.recipe import Recipe

INTERRUPTED = 130  # exit code

Fetch = Annotated[
    bool,
    "download its data sets and its authors' files into WORK/downloads, where they are found, and "
    "run nothing",
    Flag(access="typed"),
]
PlanOnly = Annotated[
    bool,
    "show what it takes, without data: downloads and licences, hours on named "
    "devices, memory; run nothing",
]
EveryRecipe = Annotated[bool, "with --plan: of every recipe"]


def reproduce(
    options: ReproduceOptions,
    dry_run: Annotated[DryRun, COMMON] = "",
    fetch: Annotated[Fetch, COMMON] = False,
    accept_licence: o.AcceptLicence = False,
    plan: Annotated[PlanOnly, COMMON] = False,
    all: EveryRecipe = False,  # noqa: A002  # the name of its flag
    json: Annotated[o.Json, COMMON] = False,
    debug: bool = False,
) -> None:
    """Reproduce a published table, or run your own recipe.

    Every cell is trained, scored, and printed next to the published number.

    A cell is a row on one data set with one seed. You can stop the command at any moment; the same
    command continues, and finished cells are kept. Started again while it runs, here or on another
    machine that shares the folder --work, it takes cells that no other process is working on.
    Without --raw, --scale smoke runs on synthetic samples, in seconds; with --raw it prepares the
    whole folder first, as the other scales do.

    The name of a paper, such as fedheal, runs all its recipes and writes one page about them. Your
    own experiment is a file in the format of recipes/README.md.

    Examples: fedcli reproduce ham10000-noise --raw HAM10000 --jobs 2;
    fedcli reproduce fedheal-table2 --scale smoke; fedcli reproduce fedheal --plan;
    fedcli reproduce my.toml --jobs 2
    """
    o.refuse_together(plan=plan, fetch=fetch, dry_run=dry_run)
    o.refuse_together(plan=plan, fetch=fetch, cells=options.cells)
    if plan or all:  # and the list, before anything imports torch
        _plan(options, with_plan=plan, every_recipe=all, as_json=json)
    elif fetch:
        _fetch(options, accepted=accept_licence, as_json=json)
    elif options.recipe is None:
        _list(json)
    else:
        _rebuild(options, dry_run=dry_run, as_json=json, debug=debug)


def _rebuild(
    options: ReproduceOptions,
    *,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Play the cells of a recipe, or of all recipes of a paper. dry_run: where scripts go; "" for
    none."""
    from ..reproduction.rebuild import check
    from ..reproduction.recipe import paper_of

    o.refuse_together(dry_run=dry_run, json=as_json)
    o.refuse_together(dry_run=dry_run, cells=options.cells)
    check(options)
    paper = paper_of(options.recipe or "")
    if paper:
        _paper(paper, options, dry_run=dry_run, as_json=as_json, debug=debug)
    else:
        _play(options, dry_run=dry_run, as_json=as_json, debug=debug)


def _play(
    options: ReproduceOptions,
    *,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> bool:
    """Train and score the cells of a recipe; False where other processes end its table."""
    from ..reproduction import jobs, rebuild
    from ..reproduction.script import Script

    chosen = rebuild.chosen_cells(options)
    if dry_run:
        devices = jobs.spread(options.device, options.jobs, options.at_once)
        work = Path(options.work)
        script = Script(
            chosen.recipe,
            chosen.cells,
            work,
            chosen.samples,
            devices=devices,
        )
        cells.scripted(script, dry_run)
        return True
    table = rebuild.ready(chosen, options, debug=debug)
    outcomes = cells.run_cells(
        table.recipe,
        table.shared,
        table.workplace,
        table.folder,
        as_json=as_json,
        **table.about_cells,
    )
    return bool(outcomes)


def _fetch(options: ReproduceOptions, *, accepted: bool, as_json: bool) -> None:
    from ..reproduction import recipe as recipes
    from ..reproduction.raw import fetch

    if options.recipe is None:
        raise UsageError("--fetch needs a name", "`fedcli reproduce` lists all")
    tables = [recipes.load(path) for path in recipes.recipes_of(options.recipe)]
    work = Path(options.work)
    by_hand = fetch(tables, options.raw, work, accepted=accepted)
    words = ["fedcli", "reproduce", options.recipe]
    for text in options.raw:
        if "=" in text:
            words += ["--raw", text]
    for name in by_hand:
        words += ["--raw", f"{name}=DIR"]
    if work != o.DEFAULT_WORK:
        words += ["--work", str(work)]
    folder = str(work / "downloads")
    if as_json:
        show_json({"folder": folder, "by_hand": by_hand, "next": shlex.join(words)})
        return
    console.say(f"next: {shlex.join(words)}")
    console.result(folder)


def _paper(
    name: str,
    options: ReproduceOptions,
    *,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Play all recipes of a paper, those that can be, and write one page about them.

    Raises FedcliError where not all was played, after the page is written.
    """
    from ..reporting import writers
    from ..reproduction import rebuild
    from ..reproduction import recipe as recipes
    from ..reproduction.tables import paper

    tables = [recipes.load(path) for path in recipes.recipes_of(name)]
    reasons, failed = _play_all(
        tables,
        options,
        dry_run=dry_run,
        as_json=as_json,
        debug=debug,
    )
    if dry_run:
        return
    parts = []
    for table in tables:
        folder = rebuild.folder_of(options, table)
        parts.append(paper.Rebuilt(table, folder, reasons.get(table.name, "")))
    parts.sort(key=lambda part: "table" not in part.recipe.name)
    folder = Path(options.work) / "reproduce" / f"{name}-{options.scale}"
    page = paper.write(folder, parts, options.scale)
    if as_json:
        bodies = {}
        for part in parts:
            bodies[part.recipe.name] = part.results.body() if part.results else None
        show_json(bodies)
    else:
        overview = paper.overview(parts)
        print(paper.title(parts, options.scale))
        writers.show(overview)
        writers.say([overview.legend, *paper.sentences(parts), *paper.not_run(parts)])
    console.say(f"written: {page}")
    if failed:
        names = ", ".join(failed)
        raise FedcliError(f"{len(failed)} of {len(parts)} recipes were not completed: {names}")


def _play_all(
    tables: "Sequence[Recipe]",
    options: ReproduceOptions,
    *,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> tuple[dict[str, str], list[str]]:
    """Play recipes one after another.

    Returns a sentence for each table that was not played whole, and the names of those that failed.
    Raises where --only chooses no cell of any of them.
    """
    from ..reproduction import rebuild
    from ..reproduction.expand import NoCellError
    from ..reproduction.raw import shared_out
    from ..reproduction.tables.paper import ELSEWHERE

    reasons: dict[str, str] = {}
    failed: list[str] = []
    stamps = {}  # of the tables that other processes end, before they were played here
    texts = shared_out(tables, options.raw, options.file)
    for table, (raw, file) in zip(tables, texts, strict=True):
        console.say(f"{table.name}: {table.title}")
        table_options = replace(options, recipe=table.name, raw=raw, file=file)
        stamp = _stamp(rebuild.folder_of(options, table))
        try:
            with redirect_stdout(sys.stderr) if as_json else nullcontext():
                if not _play(table_options, dry_run=dry_run, as_json=False, debug=debug):
                    stamps[table.name] = stamp
        except NoCellError as error:  # of --only; another table of the paper may have such cells
            reasons[table.name] = error.sentence
            if len(reasons) - len(failed) == len(tables):
                raise
        except FedcliError as fault:
            if fault.code == INTERRUPTED:
                raise
            console.fail(f"{table.name}: {fault.sentence}", fault.hint)
            reasons[table.name] = fault.sentence
            failed.append(table.name)
    for table in tables:
        if stamps.get(table.name) == _stamp(rebuild.folder_of(options, table)):
            reasons[table.name] = ELSEWHERE
    return reasons, failed


def _stamp(folder: Path) -> int:
    """The time of a table's results.json; 0 where there is none."""
    file = folder / "results.json"
    return file.stat().st_mtime_ns if file.is_file() else 0


def _plan(
    options: ReproduceOptions,
    *,
    with_plan: bool,
    every_recipe: bool,
    as_json: bool,
) -> None:
    """Show what recipes take, without data or torch."""
    from ..reproduction import recipe as recipes
    from ..reproduction.plan import planned
    from . import method_facts
    from .planned import show

    hint = "fedcli reproduce fedheal-table3 --plan, or reproduce --all --plan"
    if not with_plan:
        raise UsageError("--all has no effect without --plan", hint)
    if every_recipe == bool(options.recipe):
        raise UsageError("--plan needs a name, or --all", hint)
    files = list(recipes.names().values())
    if options.recipe is not None:
        files = recipes.recipes_of(options.recipe)
    plan = planned(
        files,
        options.scale,
        method_facts.lookup(),
        seeds=options.seeds,
        only=tuple(options.only),
    )
    show(plan, options.scale, as_json, options.recipe)


def _list(as_json: bool) -> None:
    from ..reproduction import recipe as recipes

    tables = {name: recipes.load(path) for name, path in recipes.names().items()}
    if as_json:
        show_json({name: _described(table) for name, table in tables.items()})
        return
    rows_by_folder: dict[str, list[list[str]]] = {}
    for name, table in tables.items():
        folder = name.rpartition("/")[0]
        line = [name, str(len(table.rows)), str(len(table.seeds)), table.title]
        rows_by_folder.setdefault(folder, []).append(line)
    for folder, rows in rows_by_folder.items():
        if folder:
            print(f"\n{folder.upper()}")
        terminal.table(["recipe", "rows", "seeds", "what it rebuilds"], rows)


def _described(table: "Recipe") -> dict[str, Any]:
    """A recipe in the JSON of the list."""
    return {
        "title": table.title,
        "paper": table.paper,
        "rows": [row.name for row in table.rows],
        "seeds": list(table.seeds),
        "datasets": sorted({chain.dataset for chain in table.chains.values()}),
        "cells": len(table.seeds) * sum(len(row.data) for row in table.rows),
    }
