"""fedcli prepare, partition, corrupt, train, evaluate, report and predict: one stage each."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..options import Flag
from ..stages.evaluation_options import EvaluateOptions, PredictOptions, ReportOptions
from ..stages.options import CorruptOptions, PartitionOptions, PrepareOptions, TrainOptions
from ..system import terminal
from .shell.common import Json, give, refuse_sealed, refuse_sealed_folder, refuse_together, write
from .shell.shown import show, show_groups, show_json, show_rows, show_tables

if TYPE_CHECKING:
    from ..bench.estimate import Estimate

NAMED = 10  # unreadable files that are listed
FORMATS = "table", "markdown", "latex", "csv", "json", "html"
DRAWN = "svg", "pdf", "png"
FILE, FOLDER = Flag("FILE"), Flag("DIR")


def prepare(options: PrepareOptions, json: Json = False) -> None:
    """Read and resize the images of a dataset.

    What is written is one file of 8-bit images, which every later command reads.

    With --clients or --dirichlet it is partitioned too, with --corrupt also corrupted; the last
    manifest written is printed.

    Example: fedcli prepare rsna-ich --raw kaggle --corrupt gaussian --ratio 0.2
    """
    from ..stages import prepare as stage

    show(stage.run(options).path, json)


def partition(options: PartitionOptions, json: Json = False) -> None:
    """Divide the training images among hospitals, the clients.

    Images are not copied: which client has which image is written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is --dirichlet 1 over its usual
    number of clients; with --clients, --balanced or --keep-units alone it is --dirichlet 1 too.

    Examples: fedcli partition --by center; fedcli partition --dirichlet 1.0 --clients 20
    """
    from ..stages import partition as stage

    show(stage.run(options).path, json)


def corrupt(options: CorruptOptions, json: Json = False) -> None:
    """Add noise to the images or labels of some clients.

    A copy of the test images is made noisy in the same way, so that models are scored on both.

    --ratio takes the last clients of the roster; --on names them. Kinds: gaussian-noise, shot-noise, impulse-noise,
    speckle-noise, brightness, contrast, saturate, defocus-blur, glass-blur, motion-blur, zoom-blur, gaussian-blur,
    snow, frost, fog, spatter, elastic-transform, pixelate, jpeg-compression.

    On a corruption manifest it adds to it, so that clients may differ in kind and severity. Then each test image is
    corrupted as one of these clients, drawn by the seed, and each client is also scored on all test images corrupted as
    its own.

    labels, in place of a kind, changes training labels of these clients: each with the chance --rate, --kind symmetric
    to any other class, pair to the next one, asymmetric as --flip says. Validation and test images keep their labels.
    What it makes is a partition.

    attributes, in place of a kind, hides --hide of a --share of patients in training, at every client or those that
    --on names. What it makes is a partition too.

    Examples: fedcli corrupt gaussian --ratio 0.2; fedcli corrupt motion-blur --on vidir_modern;
    fedcli corrupt --client vienna_dias=gaussian:1 --client vidir_modern=motion-blur:4;
    fedcli corrupt labels --kind symmetric --rate 0.3 --on rosendahl;
    fedcli corrupt attributes --hide sex --share 0.3
    """
    from ..stages import corrupt as stage

    show(stage.run(options).path, json)


def train(
    options: TrainOptions,
    dry_run: Annotated[
        bool, "measure a few steps, say how long the run would take and how much memory, write nothing"
    ] = False,
    json: Json = False,
) -> None:
    """Train a method on the images of all clients.

    A run can be killed at any moment; the same command with --resume goes on and ends at the same bytes.

    Examples: fedcli train fedism-plus --rounds 5; fedcli train fedheal --set tau=0.4 --set rule=paper
    """
    from ..stages import train as stage

    refuse_together(dry_run=dry_run, resume=options.resume)
    if not dry_run:
        show(stage.run(options).path, json)
        return
    needs = stage.run_estimate(options)
    if options.then:
        console.warn(f"{options.then} starts from the finished run, so it is not in these numbers")
    if not needs.fits:
        console.warn("this needs more memory than is free: lower --batch-size, or give a smaller --model")
    _show_estimate(needs, options.method or "", json)


def _show_estimate(needs: "Estimate", method: str, as_json: bool) -> None:
    """Print what a run would take."""
    from dataclasses import asdict

    from ..bench.estimate import span

    if as_json:
        show_json({**asdict(needs), "fits": needs.fits})
        return
    parts = [(name, seconds, f"{100 * seconds / needs.total_seconds:.0f} %") for name, seconds in needs.seconds.items()]
    parts += [("total", needs.total_seconds, "100 %"), ("one round", needs.seconds_per_round, "")]
    lines = [[name, f"{seconds:,.2f}", share] for name, seconds, share in parts]
    rounds = console.counted(needs.rounds, "round", "rounds")
    terminal.table([f"{method}, {rounds}", "seconds", "share"], lines)
    sizes = {**needs.bytes, "peak": needs.peak_bytes, "free": needs.free_bytes}
    lines = [[name, f"{size / 1e6:,.1f}" if size else "-"] for name, size in sizes.items()]
    terminal.table(["memory", "MB"], lines)
    on = f" on {needs.processes} processes" if needs.processes > 1 else ""
    console.say(
        f"about {span(needs.total_seconds)}{on}, from {needs.measured_steps} measured steps; nothing was written"
    )


def evaluate(options: EvaluateOptions, json: Json = False, quiet: bool = False) -> None:
    """Score a run, for all and by client and patient group.

    Test images are scored clean and, where clients have noisy images, noisy.

    Examples: fedcli evaluate --by sex --by 'sex*age'; fedcli evaluate --shots 700,70; fedcli evaluate --export csv;
    fedcli evaluate --corrupt gaussian --severity 1..5; fedcli evaluate --clinical;
    fedcli evaluate --on fedcli-work/datasets/*/dataset.json
    """
    from ..reporting import by_severity, choice, clinical, cross_site
    from ..reporting.columns import SHOWN
    from ..reporting.rows import rows
    from ..stages import evaluate as stage

    scores = stage.run(options)
    if not quiet:
        own = list(scores.manifest.options.get("metrics", {}))
        lines = rows([scores.path], metrics=[*SHOWN, *own])
        show_rows(lines, sys.stderr)
        show_groups(scores.path, sys.stderr, own)
        known = [("", lines[0].scores)]
        points = clinical.tables(known) if options.clinical else ()  # not those of another evaluation of the run
        parts = choice.tables(lines), by_severity.tables(known), cross_site.tables(known), points
        show_tables([table for part in parts for table in part], sys.stderr)
    if json:
        show_json({"path": str(scores.path), "manifest": {**asdict(scores.manifest), "body": scores.body}})
    else:
        show(scores.path, json)


def predict(
    options: PredictOptions,
    format: Annotated[
        Literal["csv", "json"], "csv: a row per file; json lists unreadable ones too", Flag("csv|json")
    ] = "csv",
    out: Annotated[Path | None, "write there; default: stdout", Flag("FILE")] = None,
) -> None:
    """Classify image files with the model of a run.

    Each gets probabilities, the most likely class and decisions at chosen thresholds.

    Files are read and prepared as the run's own images were, as its manifests say. Where some cannot be read they are
    listed, the others are scored, and the exit code is 1.

    Examples: fedcli predict RUN DIR; fedcli predict RUN DIR --format json --out predictions.json;
    fedcli predict RUN DIR --positive mel --rule sensitivity=0.95
    """
    from ..stages import predict as stage

    if out is not None:
        refuse_sealed(out)
    made = stage.run(options)
    for point in made.predicted.operating:
        images = console.counted(point.images, "validation image", "validation images")
        console.say(f"{point.name}: from a probability of {point.threshold:.4g}, chosen on {images}")
    give(made.to(format), out)
    unreadable = made.predicted.unreadable
    for file, why in unreadable[:NAMED]:
        console.warn(f"{file}: {why}")
    if unreadable:
        (file, why), total = unreadable[0], len(unreadable) + len(made.predicted.files)
        raise FedcliError(
            f"{len(unreadable)} of {total} files cannot be read, such as {file}: {why}", "the others are scored"
        )


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
    """Show the scores of runs in tables or on a page.

    A run that has no scores yet is evaluated first. Runs that differ in nothing but the
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
