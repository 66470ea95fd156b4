"""fedcli report."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..errors import FedcliError, UsageError, nearest
from . import options as o
from .evaluate import Shots

FORMATS = ("table", "markdown", "csv", "json")


def report(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN...", help="runs or scores; default: every run under --work")
    ] = None,
    format: Annotated[str, typer.Option(help="table, markdown, csv or json")] = "table",  # noqa: A002
    by: o.By = None,
    shots: Shots = None,
    minutes: Annotated[bool, typer.Option("--minutes", help="also how long each run trained")] = False,
    bytes: Annotated[  # noqa: A002
        bool, typer.Option("--bytes", help="also what travels between the server and a client in a round")
    ] = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Compare runs in one table; a run that has no scores yet is evaluated first.

    Example: fedcli report fedcli-work/runs/fedavg-* fedcli-work/runs/fedheal-* --format markdown
    """
    from ..evaluation.report import legend, render, rows, table_cells

    if format not in FORMATS:
        raise UsageError(f"--format {format!r} is unknown", nearest(format, FORMATS))
    if json and format != "table":
        raise UsageError(f"--json and --format {format} exclude each other", "give one of them")
    scores = [_scores(path, by or [], shots) for run in runs or _all_runs(work) for path in _inside(Path(run))]
    found = rows(scores, minutes=minutes, traffic=bytes)
    if json or format != "table":
        print(render(found, "json" if json else format), end="")
        return
    columns, lines = table_cells(found)
    console.table(columns, lines, file=sys.stdout)
    console.say(legend(columns, found))


def _all_runs(work: Path) -> list[str]:
    from ..data import manifest

    manifest.newest(work, "run")  # says what to do when there is none
    return [str(p) for p in sorted(work.glob("runs/*/run.json"))]


def _inside(path: Path) -> list[Path]:
    """A run, or the runs in a folder of runs or under a work folder."""
    if not path.is_dir() or any((path / name).is_file() for name in ("run.json", "scores.json", "settings.json")):
        return [path]
    found = sorted([*path.glob("*/run.json"), *path.glob("runs/*/run.json")])
    if not found:
        raise FedcliError(f"{path} holds no finished run", "give a run's folder, or a folder of runs")
    return found


def _scores(path: Path, by: list[str], shots: str | None) -> Path:
    """The scores of a run that answer this question; made now if they are not there."""
    from ..data import manifest
    from ..evaluation.evaluate import evaluate

    if path.is_dir() and (path / "run.json").is_file():
        path = path / "run.json"
    path = manifest.find(path, *(() if path.is_file() else ("scores",)))
    if manifest.read(path, "run", "scores").kind == "scores":
        return path
    made_by = o.command("evaluate", by=by, shots=shots)
    return evaluate(path, by=by, shots=shots, out=None, device="cpu", made_by=made_by)
