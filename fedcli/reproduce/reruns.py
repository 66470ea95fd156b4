"""Why a cell that was done is trained again: what its training or its data has now that they had not then."""

import json
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..errors import FedcliError
from ..stages.train import resolved
from .expand import Cell
from .forecast import begun, is_done, settled
from .jobs import Outcome, Place
from .record import Row

STAGES = "corruption", "partition", "dataset"


def announce(cells: list[Cell], sources: dict[tuple, Path | Outcome], place: Place, folder: Path) -> None:
    """Say it on stderr for each such cell. folder: of the reproduction, with the results of the last time."""
    if not (before := _scores(folder / "results.json", place.work)):
        return
    runs = begun(place.work)
    for cell in cells:
        old, source = before.get((cell.row, f"{cell.data}, seed {cell.seed}")), sources[cell.chain]
        if not old or not isinstance(source, Path):
            continue
        if not is_done(resolved(cell.train), source, runs) and (why := _changed(cell, source, old)):
            console.say(f"{cell.name} is trained again: {why}")


def _scores(results: Path, work: Path) -> dict[tuple[str, str], Path]:
    """(row, data and seed) -> scores.json of the last time."""
    if not results.is_file():
        return {}
    try:
        rows = [Row.model_validate(row) for row in json.loads(results.read_text(encoding="utf-8"))["rows"]]
    except (ValueError, KeyError, TypeError):
        console.warn(f"{results} cannot be read: it is written again, without saying what has changed since")
        return {}
    return {(row.name, at): work / path for row in rows for at, path in row.scores.items()}


def _changed(cell: Cell, source: Path, scores: Path) -> str:
    """Differences, such as "lr is 0.001, was 0.003"; "" where that cannot be seen."""
    try:
        run = manifest.above(scores, "run")
        changes = _unlike(settled(resolved(cell.train)), settled(manifest.read(run).options))
        for stage in STAGES:
            mine, other = _of(source, stage), manifest.parent(run, stage)
            if mine and other:
                changes += _unlike(manifest.read(mine).options, manifest.read(other).options)
        return ", ".join(changes)
    except FedcliError:  # the old result was removed in part: nothing to compare with
        return ""


def _of(source: Path, stage: str) -> Path | None:
    return source if manifest.read(source).kind == stage else manifest.parent(source, stage)


def _unlike(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    changes = []
    for key in sorted(now.keys() | then.keys()):
        value, other = now.get(key), then.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            changes += _unlike(value, other)
        elif value != other:
            changes.append(f"{key} is {value}, was {other}")
    return changes
