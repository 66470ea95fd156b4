"""Runs of sweeps that validation images did not choose. No command takes one of them unless its
folder is named: test scores would else choose in place of the validation images.

A sweep that shows test scores of the chosen value alone writes its name into the file of each of
its cells, and once it has ended the chosen rows into its results.json.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import console
from ..errors import FedcliError
from ..io.files import read_text

CELLS, SWEEPS, RESULTS = "cells", "sweeps", "results.json"  # below the work folder
SWEEP = "sweep"  # key of a cell's file
SCORES = re.compile(r"runs/([^/\0]+)/scores/[^/\0]+/scores\.json")
HINT = "give the command of the sweep again, which goes on, or name the folder of a run"


def folders(work: Path) -> dict[Path, Path]:
    """The folder of each such run under a work folder, and that of its sweep."""
    sweep_by_run: dict[Path, Path] = {}
    for path in work.glob(f"{CELLS}/*.json"):
        cell = _read(path)
        name = cell.get(SWEEP)
        if isinstance(name, str) and not (work / SWEEPS / name / RESULTS).is_file():
            for run in _runs(work, cell.values()):
                sweep_by_run[run] = work / SWEEPS / name
    for path in work.glob(f"{SWEEPS}/*/{RESULTS}"):
        for row in _rows_not_chosen(_read(path)):
            for run in _runs(work, row["scores"].values()):
                sweep_by_run[run] = path.parent
    return sweep_by_run


def without(paths: list[Path], work: Path) -> list[Path]:
    """These manifests but for those in the folders of such runs, which are counted.

    Raises FedcliError where no other is left.
    """
    sweep_by_run = folders(work)
    if not sweep_by_run:
        return paths
    chosen = []
    rejected = []
    for path in paths:
        runs = [folder for folder in path.absolute().parents if folder.resolve() in sweep_by_run]
        if runs:
            rejected.append(runs[0])
        else:
            chosen.append(path)
    if not rejected:
        return paths
    sweep = sweep_by_run[rejected[-1].resolve()]
    count = console.counted(len({*rejected}), "run", "runs")
    if not chosen:
        raise FedcliError(f"{sweep} has not chosen {count}, such as {rejected[-1]}", HINT)
    console.say(f"left out {count} that {sweep} did not choose; name a run's folder to take it")
    return chosen


def _rows_not_chosen(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a results.json whose test scores it does not show."""
    names = results.get("chosen")
    rows = results.get("rows")
    if not isinstance(names, list) or not isinstance(rows, list):
        return
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("scores"), dict):
            continue
        if row.get("name") not in names:
            yield row


def _read(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is none, as of a file that another process writes or
    that is damaged: its sweep then plays the cell, or writes the table, again.
    """
    try:
        facts = json.loads(read_text(path))
    except (FedcliError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _runs(work: Path, texts: Iterable[Any]) -> Iterator[Path]:
    """The folders of runs, of the paths of their scores below the work folder."""
    for text in texts:
        match = SCORES.fullmatch(text) if isinstance(text, str) else None
        if match:
            yield (work / "runs" / match[1]).resolve()
