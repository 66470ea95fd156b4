"""fedcli report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from .. import console
from ..errors import UsageError, nearest
from ..options import Flag
from ..stages.evaluation_options import ReportOptions
from .shell.common import Json, give, refuse_sealed, refuse_sealed_folder, write
from .shell.shown import show_rows, show_tables

FORMATS = ("table", "markdown", "latex", "csv", "json", "html")
DRAWN = "svg", "pdf", "png"
FILE, FOLDER = Flag("FILE"), Flag("DIR")


def report(
    options: ReportOptions,
    format: Annotated[
        str,
        "table, markdown, latex, csv, json, or html: one file with tables, figures and lineage; with --figures also "
        "svg, pdf, png, separated by commas",
    ] = "table",
    out: Annotated[Path | None, "write there; default: stdout, and of html report.html in --work", FILE] = None,
    export: Annotated[
        Path | None, "also write every number of every run there: a CSV file, a line per number", FILE
    ] = None,
    figures: Annotated[
        Path | None,
        "also draw ROC, precision and recall, reliability and decision curves by group and client, confusion matrices, "
        "forest plots and more there, as svg or as --format says, with their captions; of html also on the page",
        FOLDER,
    ] = None,
    draw: Annotated[
        Sequence[str],
        "of --figures only those with this text in their names, such as roc, forest or overall-and-worst; may be "
        "repeated",
        Flag("TEXT"),
    ] = (),
    card: Annotated[
        Path | None, "also write a model card and a dataset card of one run there, as markdown and html", FOLDER
    ] = None,
    evidence: Annotated[
        Path | None,
        "also write there which manifest answers each item of CLAIM, TRIPOD+AI, STARD-AI, FUTURE-AI and the AI Act: "
        "json and html",
        FOLDER,
    ] = None,
    json: Json = False,
) -> None:
    """Compare runs in one table; a run that has no scores yet is evaluated first. Runs that differ in nothing but the
    seed are one row.

    Examples: fedcli report fedcli-work/runs/fedavg-* --format markdown; fedcli report --format html --out page.html;
    fedcli report --figures figures --format svg,pdf; fedcli report --figures figures --draw overall-and-worst;
    fedcli report --card cards --evidence evidence
    """
    format, drawn = _formats(format, figures is not None)
    if json and format != "table":
        raise UsageError(f"--json and --format {format} exclude each other", "give one of them")
    if draw and not figures:
        raise UsageError("--draw chooses among figures", "add --figures DIR, a folder for them")
    out = out or (Path(options.work) / "report.html" if format == "html" else None)
    for file in filter(None, (out, export)):
        refuse_sealed(file)  # before anything is evaluated
    for folder in filter(None, (figures, card, evidence)):
        refuse_sealed_folder(folder)
    from ..reporting.long import comma_separated
    from ..stages import report as stage

    made = stage.run(options)
    if export:
        write(export, comma_separated(made.scores))
        console.say(f"wrote {export}")
    if figures:
        made.figures(figures, drawn, draw)
        console.say(f"wrote {figures}")
    for written in [*(made.cards(card) if card else ()), *(made.evidence(evidence) if evidence else ())]:
        console.say(f"wrote {written}")
    if out is None and format == "table" and not json:
        show_rows(made.rows)
        show_tables([*made.choices, *made.operating])
        if made.without_operating:
            console.say(made.without_operating)
        return
    kind = "json" if json else "markdown" if format == "table" else format
    text = made.to(kind, figures=figures is not None, draw=draw)
    give(text, out)


def _formats(asked: str, draws: bool) -> tuple[str, list[str]]:
    """The format of the table and those of the figures. Raises UsageError."""
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in (*FORMATS, *DRAWN):
            raise UsageError(f"--format {name!r} is unknown", nearest(name, [*FORMATS, *DRAWN]))
    drawn = [name for name in dict.fromkeys(names) if name in DRAWN]
    tables = [name for name in dict.fromkeys(names) if name in FORMATS]
    if drawn and not draws:
        raise UsageError(f"--format {drawn[0]} is of figures", "add --figures DIR, a folder for them")
    if len(tables) > 1:
        raise UsageError(f"--format {tables[0]} and {tables[1]} are two formats of one table", "give one of them")
    return tables[0] if tables else "table", drawn or ["svg"]
