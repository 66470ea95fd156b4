"""fedcli report."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import console
from ..errors import UsageError, nearest
from ..stages.evaluation_options import ReportOptions
from . import complete
from . import options as o
from .declare import command
from .shown import show_rows

FORMATS = ("table", "markdown", "latex", "csv", "json", "html")


@command(ReportOptions)
def report(
    options: ReportOptions,
    format: Annotated[
        str,
        typer.Option(
            help="table, markdown, latex, csv, json, or html: one file with tables, figures and lineage",
            autocompletion=complete.one_of(*FORMATS),
        ),
    ] = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="write there; default: stdout, and of html report.html in --work"),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="also write every number of every run there: a CSV file, a line per number"),
    ] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Compare runs in one table; a run that has no scores yet is evaluated first. Runs that differ in nothing but the
    seed are one row.

    Examples: fedcli report fedcli-work/runs/fedavg-* --format markdown; fedcli report --format html --out page.html
    """
    if format not in FORMATS:
        raise UsageError(f"--format {format!r} is unknown", nearest(format, FORMATS))
    if json and format != "table":
        raise UsageError(f"--json and --format {format} exclude each other", "give one of them")
    out = out or (Path(options.work) / "report.html" if format == "html" else None)
    for file in filter(None, (out, export)):
        o.refuse_sealed(file)  # before anything is evaluated
    from ..reporting.long import comma_separated
    from ..stages import report as stage

    made = stage.run(options)
    if export:
        o.write(export, comma_separated(made.scores))
        console.say(f"wrote {export}")
    if out is None and format == "table" and not json:
        show_rows(made.rows, sys.stdout)
        return
    text = made.to("json" if json else "markdown" if format == "table" else format)
    if out is None:
        print(text, end="")
        return
    o.write(out, text)
    console.result(str(out))
