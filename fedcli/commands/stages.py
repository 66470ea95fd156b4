"""fedcli prepare, partition, corrupt, train, evaluate, report and predict: one stage each."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..common_options import OUTPUT
from ..errors import FedcliError, UsageError
from ..options import Flag
from ..reproduction.reproduce_options import Seeds
from ..scores.evaluation_options import EvaluateOptions, PredictOptions, ReportOptions
from ..stages.options import (
    AttackOptions,
    CorruptOptions,
    PartitionOptions,
    PrepareOptions,
    TrainOptions,
)
from .cells import train_several
from .shell.common import (
    BriefJson,
    FailIf,
    Force,
    check_named,
    fill,
    formats,
    give,
    refuse_broken,
    refuse_sealed,
    refuse_together,
    write,
    write_named,
)
from .shell.declare import piped
from .shell.shown import dumped, show, show_json, show_rows, show_tables

if TYPE_CHECKING:
    from ..reporting.clinical import Topic
    from ..reporting.row import Row

NAMED = 10  # unreadable files that are listed
FILE, FOLDER = Flag("FILE", access="writes"), Flag("DIR", access="writes")


def prepare(options: PrepareOptions, json: BriefJson = "") -> None:
    """Read and resize the images of a dataset.

    What is written is one file of 8-bit images, which every later command reads. With --clients or --dirichlet it is
    partitioned too, with --corrupt also corrupted; the last manifest written is printed.

    Example: fedcli prepare rsna-ich --raw kaggle --corrupt gaussian --ratio 0.2
    """
    from ..data import glance
    from ..stages import prepare as stage

    show(lambda: stage.run(options).path, json, glance.say)


def partition(options: PartitionOptions, json: BriefJson = "") -> None:
    """Divide the training images among hospitals, the clients.

    Images are not copied: which client has which image is written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is --dirichlet 1 over its usual
    number of clients; with --clients, --balanced or --keep-units alone it is --dirichlet 1 too. --clients 1 gives all
    images to one client.

    Examples: fedcli partition --by center; fedcli partition --dirichlet 1.0 --clients 20
    """
    from ..stages import partition as stage

    show(lambda: stage.run(options).path, json)


def corrupt(options: CorruptOptions, json: BriefJson = "") -> None:
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

    show(lambda: stage.run(options).path, json)


def attack(options: AttackOptions, json: BriefJson = "") -> None:
    """Have some clients poison their data or send false updates.

    What it makes is a partition. Test images stay as they are. Of a backdoor, `fedcli evaluate` also says how many test
    images of other classes are called the target once they have its patch.

    Examples: fedcli attack --kind sign-flip --clients 1; fedcli attack --kind scale --strength 5 --on rosendahl;
    fedcli attack --kind label-flip --flip mel=nv --on rosendahl; fedcli attack --kind backdoor --target nv
    """
    from ..stages import corrupt as stage

    show(lambda: stage.run_attack(options).path, json)


def train(
    options: TrainOptions,
    methods: Annotated[
        Sequence[str],
        "one, or several, or base+addon; `fedcli methods` lists all; then the path of a corruption, partition or "
        "dataset manifest, default the newest under --work; - reads it from stdin",
        Flag("METHOD... [DATA]", argument=True),
    ] = (),
    seeds: Seeds = None,
    dry_run: Annotated[
        bool,
        "measure a few steps, say how long the run would take and how much memory, write nothing",
    ] = False,
    json: BriefJson = "",
    debug: bool = False,
) -> None:
    """Train a method on the images of all clients.

    Several methods and seeds are trained side by side on the cores, a run for each.
    A run can be killed at any moment; the same command with --resume goes on and ends at the same bytes. Several go on
    without it, and what is finished is not trained again.

    Examples: fedcli train fedism-plus --rounds 5; fedcli train fedheal --set tau=0.4 --set rule=paper;
    fedcli train fedavg fedheal fedism-plus --seeds 3
    """
    from ..reproduction.several import methods_and_data
    from ..stages import train as stage

    named, data = methods_and_data(methods)
    options = replace(
        options, method=next(iter(named), None), data=piped() if data == "-" else data
    )
    if len(named) > 1 or seeds is not None:
        if not named:
            raise UsageError(
                "which methods?", "write for example fedcli train fedavg fedheal --seeds 3"
            )
        train_several(named, options, seeds, dry_run=dry_run, as_json=bool(json), debug=debug)
        return
    refuse_together(dry_run=dry_run, resume=options.resume)
    if not dry_run:
        show(lambda: stage.run(options, typed=True).path, json)
        return
    needs = stage.run_estimate(options)
    if options.then:
        console.warn(f"{options.then} starts from the finished run, so it is not in these numbers")
    if not needs.fits:
        console.warn(
            "this needs more memory than is free: lower --batch-size, or give a smaller --model"
        )
    if json:
        show_json({**asdict(needs), "fits": needs.fits})
        return
    from ..reporting import writers

    for table in needs.tables():
        writers.show(table)
    console.say(*needs.words())


def evaluate(
    options: EvaluateOptions,
    show_more: Annotated[
        Sequence[str],
        "with --clinical: also these tables, with commas between: thresholds, transfer, calibration, net-benefit, "
        "conformal, agreement, gaps, subgroups, or all",
        Flag("NAME", typed="show", local=True, panel=OUTPUT),
    ] = (),
    fail_if: FailIf = (),
    json: BriefJson = "",
    quiet: bool = False,
) -> None:
    """Score a run, for all and by client and patient group.

    Test images are scored clean and, where clients have noisy images, noisy. Numbers are means over the last five
    rounds; `fedcli report --at last` shows the last round's, in tables and on the page.

    Examples: fedcli evaluate --by sex --by 'sex*age'; fedcli evaluate --shots 700,70; fedcli evaluate --export csv;
    fedcli evaluate --corrupt gaussian --severity 1..5; fedcli evaluate --clinical;
    fedcli evaluate --on fedcli-work/datasets/*/dataset.json; fedcli evaluate --by sex --fail-if 'gap(sex) > 30'
    """
    from ..reporting import clinical, pipelines
    from ..reporting.columns import SHOWN
    from ..reporting.rows import rows
    from ..stages import evaluate as stage

    asked, topics = pipelines.limits(fail_if), clinical.read(show_more)
    if topics and not options.clinical:
        raise UsageError("--show is about operating points", "add --clinical")
    with console.warnings_kept() as warned:
        scores = stage.run(options)
        own = list(scores.manifest.options.get("metrics", {}))
        read = json or asked or not quiet
        lines = rows([scores.path], metrics=[*SHOWN, *own]) if read else []
    broken = pipelines.broken(asked, lines)
    if not quiet:
        _show_scores(lines, own, topics if options.clinical else None)
    if json == "full":
        body = {**asdict(scores.manifest), "body": scores.body}
        show_json({"path": str(scores.path), "warnings": warned, "manifest": body})
    elif json:
        show_json(
            pipelines.of_row(lines[0])
            | {"path": str(scores.path), "warnings": warned, "broken": broken}
        )
    else:
        console.result(str(scores.path))
    refuse_broken(broken)


def _show_scores(lines: "list[Row]", own: list[str], topics: "list[Topic] | None") -> None:
    """Print the tables of one run, with its own metrics, on stderr.

    topics: what --show names; None where operating points were not asked for, but another evaluation may have them.
    """
    from ..reporting import by_group, choice, clinical, further, writers

    show_rows(lines, sys.stderr, between=False)
    run = lines[0].scored[0]
    show_tables(
        (table for metric in ("", *own) for table in by_group.tables(run, metric)), sys.stderr
    )
    writers.say(by_group.legend(run.scores, own) if run.scores.groups else (), sys.stderr)
    known = [("", lines[0].scores)]
    parts = (
        choice.tables(lines),
        further.by_severity(known),
        further.cross_site(known),
        further.adapted(known),
    )
    show_tables([table for part in parts for table in part], sys.stderr)
    if topics is not None and run.scores.clinical:
        show_tables(clinical.by_class(run.scores), sys.stderr)
        writers.say([clinical.INTERVALS], sys.stderr)
        show_tables(clinical.tables(known, topics), sys.stderr)
        writers.say([] if topics else [clinical.MORE], sys.stderr)


def predict(
    options: PredictOptions,
    format: Annotated[
        Literal["csv", "json"], "both name unreadable files with the reason", Flag("csv|json")
    ] = "csv",
    out: Annotated[Path | None, "write there; default: stdout", FILE] = None,
    force: Force = False,
) -> None:
    """Classify image files with the model of a run.

    Each gets probabilities, the most likely class and decisions at thresholds that were chosen on validation images of
    the same data.

    Files are read and prepared as the run's own images were, as its manifests say. The column `foreign` says how an
    image differs from the training images, so that its probabilities mean little; it gets no decision. Where files
    cannot be read they have rows with the reason, the others are scored, and the exit code is 1.

    Examples: fedcli predict RUN DIR; fedcli predict RUN DIR --format json --out predictions.json;
    fedcli predict RUN DIR --positive mel --rule sensitivity=0.95
    """
    from ..stages import predict as stage

    if out is not None:
        check_named(out, force=force)
    made = stage.run(options)
    for point in made.predicted.operating:
        images = console.counted(point.images, "validation image", "validation images")
        console.say(
            f"{point.name}: from a probability of {point.threshold:.4g}, chosen on {images} of "
            f"{point.source}"
        )
    give(made.to(format), out, force=force)
    unreadable = made.predicted.unreadable
    for file, why in unreadable[:NAMED]:
        console.warn(f"{file}: {why}")
    if unreadable:
        (file, why), total = unreadable[0], len(unreadable) + len(made.predicted.files)
        raise FedcliError(
            f"{len(unreadable)} of {total} files cannot be read, such as {file}: {why}",
            "the others are scored",
        )


def report(
    options: ReportOptions,
    format: Annotated[
        str,
        "table, markdown, latex, csv, json, or html: one file with tables, figures and lineage; with --figures also "
        "svg, pdf, png, separated by commas",
    ] = "table",
    out: Annotated[
        Path | None, "write there; default: stdout, and of html report.html in --work", FILE
    ] = None,
    export: Annotated[
        Path | None,
        "also write every number of every run there: a CSV file, a line per number",
        FILE,
    ] = None,
    figures: Annotated[
        Path | None,
        "also draw there scores by group with intervals, overall score against worst group, scores by severity, the "
        "most confident errors and the flow of images, as svg or as --format says; of html also on the page; all: "
        "every figure, into figures under --work",
        FOLDER,
    ] = None,
    draw: Annotated[
        Sequence[str],
        "figures in place of the usual ones: all, or those with this text in their names, as roc; may be repeated; "
        "without --figures into figures under --work",
        Flag("TEXT"),
    ] = (),
    card: Annotated[
        Path | None,
        "also write a model card and a dataset card of one run there, as markdown and html",
        FOLDER,
    ] = None,
    evidence: Annotated[
        Path | None,
        "also write there which manifest answers each item of CLAIM, TRIPOD+AI, STARD-AI, FUTURE-AI and the AI Act: "
        "json and html",
        FOLDER,
    ] = None,
    force: Force = False,
    fail_if: FailIf = (),
    json: BriefJson = "",
) -> None:
    """Show the scores of runs in tables or on a page.

    A run that has no scores yet is evaluated first. Runs that differ in nothing but the seed are one row.

    Examples: fedcli report fedcli-work/runs/fedavg-* --format markdown; fedcli report --format html --out page.html;
    fedcli report --figures figures --format svg,pdf; fedcli report --figures all;
    fedcli report --card cards --evidence evidence
    """
    figures, draw = (None, [*draw, "all"]) if str(figures) == "all" else (figures, draw)
    typed_figures = figures is not None
    figures = figures or (Path(options.work) / "figures" if draw else None)
    format, drawn = formats(format, figures is not None)
    if json and format != "table":
        raise UsageError(f"--json and --format {format} exclude each other", "give one of them")
    page = Path(options.work) / "report.html" if format == "html" and out is None else None
    for file in filter(None, (out, export)):
        check_named(file, force=force)  # before anything is evaluated
    for folder in filter(None, (figures, card, evidence)):
        refuse_sealed(folder, folder=True)
    from ..reporting import clinical, pipelines, writers
    from ..stages import report as stage

    asked = pipelines.limits(fail_if)
    with console.warnings_kept() as warned:
        made = stage.run(options)
        broken = pipelines.broken(asked, made.rows) if asked or json == "short" else []
    if card or evidence:
        made.one_row("a card" if card else "evidence")  # before anything is written
    if export:
        text = pipelines.comma_separated(made.scores)
        write_named(export, text.encode(), force=force)
        console.say(f"wrote {export}")
    if figures and typed_figures:
        fill(figures, lambda folder: made.figures(folder, drawn, draw), force=force)
    elif figures:
        made.figures(figures, drawn, draw)
    if figures:
        console.say(f"wrote {figures}")
    for written in fill(card, made.cards, force=force) if card else ():
        console.say(f"wrote {written}")
    for written in fill(evidence, made.evidence, force=force) if evidence else ():
        console.say(f"wrote {written}")
    if page:
        write(page, made.to(format, figures=figures is not None, draw=draw))
        console.result(str(page))
    elif out is None and format == "table" and not json:
        show_rows(made.rows)
        show_tables(
            [*made.ranks, *made.choices, *(made.by_quality.tables if made.by_quality else ())]
        )
        writers.say(
            f"{sentence}." for sentence in (made.by_quality.text if made.by_quality else ())
        )
        writers.say([clinical.elsewhere(made.rows)])
    elif json == "short":
        rows = [pipelines.of_row(row) for row in made.rows if not row.is_view]
        said = {"quality": list(made.by_quality.text)} if made.by_quality else {}
        give(
            dumped({"rows": rows, "warnings": warned, "broken": broken} | said) + "\n",
            out,
            force=force,
        )
    else:
        kind = "json" if json else "markdown" if format == "table" else format
        give(made.to(kind, figures=figures is not None, draw=draw), out, force=force)
    refuse_broken(broken)
