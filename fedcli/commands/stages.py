"""fedcli prepare, partition, corrupt, train, evaluate, report and predict: one stage each."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..common_options import OUTPUT, Seeds
from ..errors import FedcliError, UsageError
from ..io import outputs
from ..leaves import require
from ..options import COMMON, Flag, Source
from ..runs.train_options import TrainOptions
from ..scores.evaluation_options import EvaluateOptions, PredictOptions, ReportOptions
from ..stages.options import (
    CorruptOptions,
    PartitionOptions,
    PrepareOptions,
)
from .shell.common import (
    DRY_RUN_ALONE,
    BriefJson,
    FailIf,
    Force,
    check_named,
    fill,
    formats,
    give,
    refuse_broken,
    refuse_together,
    write,
    write_named,
)
from .shell.declare import piped
from .shell.shown import dumped, show, show_json, show_report, show_tables
from .shell.words import methods_and_data

if TYPE_CHECKING:
    from ..reporting.clinical import Topic
    from ..reporting.rows import SystemRow
    from ..reporting.table import ReportTable
    from ..stages.report import Report

NAMED = 10  # unreadable files that are listed
FILE = Flag("FILE", access="writes")
FOLDER = Flag("DIR", access="writes")


def prepare(options: PrepareOptions, json: BriefJson = "") -> None:
    """Read and resize the images of a dataset.

    The result is one file of 8-bit images, which every later command reads. With --clients or
    --dirichlet the dataset is also partitioned, with --corrupt also corrupted; the last manifest
    written is printed.

    Example: fedcli prepare rsna-ich --raw kaggle --corrupt gaussian --ratio 0.2
    """
    from ..data import glance
    from ..stages import prepare as stage

    show(lambda: stage.run(options).path, json, glance.say)


def partition(options: PartitionOptions, json: BriefJson = "") -> None:
    """Divide the training images among hospitals, the clients.

    Images are not copied: the partition lists the images of each client.

    Without a scheme the dataset's own sites are the clients if it has any, else --dirichlet 1 over
    its usual number of clients is used; so it is with --clients, --balanced or --keep-units alone.
    --clients 1 gives all images to one client.

    Examples: fedcli partition --by center; fedcli partition --dirichlet 1.0 --clients 20
    """
    from ..stages import partition as stage

    show(lambda: stage.run(options).path, json)


def corrupt(options: CorruptOptions, json: BriefJson = "") -> None:
    """Add noise or artefacts to images, or noise to labels.

    A copy of the test images is made noisy in the same way, so that models are scored on both.

    --ratio takes the last clients of the roster; --on names them. Kinds: gaussian-noise,
    motion-blur, contrast-down, hair, low-dose and others; `fedcli corruptions` lists them, and
    ./mine.py:NAME is a function of your own.

    --match NAME chooses the kind and strength that make the images as noisy as another client's, or
    equal in another --quality: sharpness, contrast or brightness.

    Given a corruption manifest, it adds to that corruption, so that clients may differ in kind and
    severity. Then each test image is corrupted like one of these clients, drawn by the seed, and
    each client is also scored on all test images corrupted like its own.

    labels, instead of a kind, changes training labels of these clients: each with the chance
    --rate, --kind symmetric to any other class, pair to the next one, asymmetric by --flip.
    Validation and test images keep their labels. The result is a partition.

    attributes, instead of a kind, hides --hide for a --share of the training patients, at every
    client or at the ones that --on names. The result is a partition too.

    clients, instead of a kind, makes some clients poison their training data or send false updates,
    by --kind. The result is a partition too, and test images do not change. For a backdoor, `fedcli
    evaluate` also shows how many test images of other classes the model assigns to the target when
    they have its patch.

    Examples: fedcli corrupt gaussian --ratio 0.2; fedcli corrupt motion-blur --on vidir_modern;
    fedcli corrupt --client vienna_dias=gaussian:1 --client vidir_modern=motion-blur:4;
    fedcli corrupt labels --kind symmetric --rate 0.3 --on rosendahl;
    fedcli corrupt attributes --hide sex --share 0.3; fedcli corrupt clients --kind sign-flip
    """
    from ..stages import corrupt as stage

    show(lambda: stage.run(options).path, json)


Methods = Annotated[
    Sequence[str],
    "one, or several, or base+addon; `fedcli methods` lists all; then the path of a corruption, "
    "partition or dataset manifest, default the newest under --work; - reads it from stdin",
    Flag("METHOD... [DATA]", argument=True),
]
Estimate = Annotated[
    str,
    "measure a few steps, show how long it would take and how much memory, write "
    "nothing; with --over, --dry-run=DIR writes a script for each run into this "
    "folder instead",
    Flag("[=DIR]", alone=DRY_RUN_ALONE, access="writes"),
]
Over = Annotated[
    Sequence[str],
    "train once for each of these values of an option, of the method or of this command, and show "
    "the scores in a table; hold-out=all leaves each hospital out of training in turn and tests on "
    "it; may be repeated",
    Flag("KEY=VALUE,..."),
    COMMON,
]
AllTests = Annotated[
    bool,
    "with --over: show test scores of every value, even if validation images choose one",
]


def train(
    options: TrainOptions,
    methods: Methods = (),
    seeds: Annotated[Seeds, COMMON] = None,
    over: Over = (),
    test: AllTests = False,
    dry_run: Estimate = "",
    json: BriefJson = "",
    debug: bool = False,
) -> None:
    """Train a method on the images of all clients.

    Several methods, seeds and values of --over are trained side by side on the cores, a run for
    each. A run can be killed at any moment; the same command with --resume continues it and ends
    with the same bytes. With several methods, seeds or values, repeat the command: it continues,
    and finished runs are kept.

    With --over, the clients' validation images choose among the values if there are any, and only
    the chosen value's test scores are shown.

    Examples: fedcli train fedism-plus --rounds 5; fedcli train fedheal --set tau=0.4 --set
    rule=paper; fedcli train fedavg fedheal fedism-plus --seeds 3; fedcli train fedism-plus --over
    q=0.5,1,2 --seeds 3; fedcli train fedavg --over hold-out=all
    """
    from ..stages import train as stage

    names, data = methods_and_data(methods)
    if data == "-":
        data = piped()
    options = replace(options, method=names[0] if names else None, data=data)
    if over or len(names) > 1 or seeds is not None:
        _train_several(
            names,
            options,
            over,
            seeds,
            all_tests=test,
            dry_run=dry_run,
            as_json=bool(json),
            debug=debug,
        )
        return
    if test:
        raise UsageError("--test is about the values of --over", "leave it out")
    _refuse_folder(dry_run)
    refuse_together(dry_run=dry_run, resume=options.resume)
    if dry_run:
        _estimate(options, as_json=bool(json))
    else:
        show(lambda: stage.run(options, typed=True).path, json)


def _train_several(
    names: Sequence[str],
    options: TrainOptions,
    over: Sequence[str],
    seeds: str | None,
    *,
    all_tests: bool,
    dry_run: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Train a run for each method, seed and value. Raises FedcliError, UsageError."""
    require("fedcli.reproduction", "train of several runs")
    from .cells import train_over, train_several

    if not names:
        raise UsageError(
            "which methods?", "write for example fedcli train fedavg fedheal --seeds 3"
        )
    if not over:
        _refuse_folder(dry_run)
        train_several(
            names,
            options,
            seeds,
            dry_run=bool(dry_run),
            as_json=as_json,
            debug=debug,
        )
        return
    train_over(
        names,
        options,
        over,
        seeds,
        all_tests=all_tests,
        dry_run=dry_run,
        as_json=as_json,
        debug=debug,
    )


def _refuse_folder(dry_run: str) -> None:
    """Raise UsageError where scripts are asked for that only --over has."""
    if dry_run not in ("", DRY_RUN_ALONE):
        sentence = f"--dry-run={dry_run} writes scripts of the runs of --over"
        raise UsageError(sentence, "give --dry-run alone, or add --over KEY=VALUE,...")


def _estimate(options: TrainOptions, *, as_json: bool) -> None:
    """Say how long a run would take and how much memory."""
    from ..reporting import writers
    from ..stages import train as stage

    needs = stage.run_estimate(options)
    if options.then:
        console.warn(f"{options.then} starts from the finished run, so it is not in these numbers")
    if not needs.fits:
        console.warn(
            "this needs more memory than is free: lower --batch-size, or give a smaller --model"
        )
    if as_json:
        show_json({**asdict(needs), "fits": needs.fits})
        return
    for table in needs.tables():
        writers.show(table)
    console.say(*needs.words())


Tables = Annotated[
    Sequence[str],
    "with --clinical: also these tables, with commas between: thresholds, transfer, calibration, "
    "net-benefit, conformal, agreement, gaps, subgroups, or all",
    Flag("NAME", typed="show", local=True, panel=OUTPUT),
]


def evaluate(
    options: EvaluateOptions,
    show_more: Tables = (),
    fail_if: Annotated[FailIf, COMMON] = (),
    json: Annotated[BriefJson, COMMON] = "",
    quiet: bool = False,
) -> None:
    """Score a run, for all and by client and patient group.

    Test images are scored clean and, if clients have noisy images, also noisy. Numbers are means
    over the last five rounds; `fedcli report --at last` shows the last round's, in tables and on
    the page.

    Examples: fedcli evaluate --by sex --by 'sex*age'; fedcli evaluate --shots 700,70; fedcli
    evaluate --export csv; fedcli evaluate --corrupt gaussian --severity 1..5; fedcli evaluate
    --clinical;
    fedcli evaluate --on fedcli-work/datasets/*/dataset.json; fedcli evaluate --by sex --fail-if
    'gap(sex) > 30'
    """
    from ..reporting import clinical, pipelines
    from ..reporting.columns import SHOWN
    from ..reporting.rows import rows
    from ..stages import evaluate as stage

    limits = pipelines.limits(fail_if)
    topics = clinical.read(show_more)
    if topics and not options.clinical:
        raise UsageError("--show is about operating points", "add --clinical")
    lines: list[SystemRow] = []
    with console.warnings_kept() as warnings:
        scores = stage.run(options)
        own_metrics = list(scores.manifest.options.get("metrics", {}))
        if json or limits or not quiet:
            lines = rows([scores.path], metrics=[*SHOWN, *own_metrics])
    broken = pipelines.broken(limits, lines)
    if not quiet:
        _show_scores(lines, own_metrics, topics if options.clinical else None)
    facts = {"path": str(scores.path), "warnings": warnings}
    if json == "full":
        show_json(facts | {"manifest": asdict(scores.manifest) | {"body": scores.body}})
    elif json:
        show_json({**pipelines.of_row(lines[0]), **facts, "broken": broken})
    else:
        console.result(str(scores.path))
    refuse_broken(broken)


def _show_scores(
    lines: "list[SystemRow]",
    own_metrics: list[str],
    topics: "list[Topic] | None",
) -> None:
    """Print the tables of one run, with its own metrics, on stderr.

    topics: tables that --show names; None without --clinical, though another evaluation may have
    them.
    """
    from ..reporting import choice, clinical, robustness, single_runs, writers
    from ..reporting.tables import report as tabled

    file = sys.stderr
    show_report(tabled(lines), file, between=False)
    run = lines[0].scored[0]
    scores = [("", lines[0].scores)]
    group_tables: list[ReportTable] = []
    for metric in ("", *own_metrics):
        group_tables += single_runs.by_group(run, metric)
    show_tables(group_tables, file)
    if run.scores.groups:
        writers.say(single_runs.legend(run.scores, own_metrics), file)
    tables = [
        *choice.tables(lines),
        *robustness.tables(lines),
        *single_runs.by_severity(scores),
        *single_runs.cross_site(scores),
        *single_runs.adapted(scores),
    ]
    show_tables(tables, file)
    if topics is not None and run.scores.clinical:
        show_tables(clinical.by_class(run.scores), file)
        writers.say([clinical.intervals(run.scores)], file)
        show_tables(clinical.tables(scores, topics), file)
        if not topics:
            writers.say([clinical.MORE], file)


PredictionFormat = Annotated[
    Literal["csv", "json"], "both name unreadable files with the reason", Flag("csv|json")
]
PredictionFile = Annotated[Path | None, "write there; default: stdout", FILE]


def _check_format(out: Path, format: str) -> None:
    """Raise UsageError for a file whose name says that it has the other format."""
    suffix = out.suffix.lower().removeprefix(".")
    if suffix in ("csv", "json") and suffix != format:
        hint = f"add --format {suffix}, or let its name end in .{format}"
        raise UsageError(f"--out {out} is written as {format}", hint)


def _check_no_input(out: Path, files: Sequence[Source]) -> None:
    """Raise UsageError where predictions would replace one of the images."""
    for file in files:
        if out.is_file() and Path(file).is_file() and out.samefile(file):
            raise UsageError(f"--out {out} is one of the images", "give another name")


def predict(
    options: PredictOptions,
    format: PredictionFormat = "csv",  # the name of its flag
    out: PredictionFile = None,
    force: Force = False,
) -> None:
    """Classify image files with the model of a run.

    The output has the probabilities of each image, the most likely class, and decisions at
    thresholds that were chosen on validation images of the same data.

    Files are read and prepared like the run's own images. The column `foreign` shows how an image
    differs from the training images; its probabilities then mean little, and it gets no decision. A
    file that cannot be read gets a row with the reason, the others are scored, and the exit code is
    1.

    Examples: fedcli predict RUN DIR; fedcli predict RUN DIR --format json --out predictions.json;
    fedcli predict RUN DIR --positive mel --rule sensitivity=0.95
    """
    from ..stages import predict as stage

    if out is not None:
        _check_format(out, format)
        check_named(out, force=force)
        _check_no_input(out, options.files)
    predictions = stage.run(options)
    unreadable = predictions.predicted.unreadable
    if out is not None:
        _check_no_input(out, predictions.predicted.files)
        _check_no_input(out, [file for file, _ in unreadable])
    for point in predictions.predicted.operating:
        images = console.counted(
            point.images,
            "validation image",
            "validation images",
        )
        console.say(
            f"{point.name}: from a probability of {point.threshold:.4g}, chosen on {images} of "
            f"{point.source}"
        )
    give(predictions.to(format), out, force=force)
    for file, reason in unreadable[:NAMED]:
        console.warn(f"{file}: {reason}")
    if unreadable:
        file, reason = unreadable[0]
        total = len(unreadable) + len(predictions.predicted.files)
        sentence = f"{len(unreadable)} of {total} files cannot be read, such as {file}: {reason}"
        raise FedcliError(sentence, "the others are scored")


ReportFormat = Annotated[
    str,
    "table, markdown, latex, csv, json, or html: one file with tables, figures and lineage; with "
    "--figures also svg, pdf, png, separated by commas",
]
ReportFile = Annotated[
    Path | None, "write there; default: stdout, and of html report.html in --work", FILE
]
Numbers = Annotated[
    Path | None, "also write every number of every run there: a CSV file, a line per number", FILE
]
FigureFolder = Annotated[
    Path | None,
    "also draw there scores by group with intervals, overall score against worst group, scores by "
    "severity, the most confident errors and the flow of images, as svg or as --format says; of "
    "html also on the page; all: every figure, into figures under --work",
    FOLDER,
]
FigureNames = Annotated[
    Sequence[str],
    "figures instead of the usual ones: all, or the ones with this text in their "
    "names, such as roc; may be repeated; without --figures into figures under --work",
    Flag("TEXT"),
]
CardFolder = Annotated[
    Path | None,
    "also write a model card and a dataset card of one run there, as markdown and html",
    FOLDER,
]
EvidenceFolder = Annotated[
    Path | None,
    "also write there which manifest answers each item of CLAIM, TRIPOD+AI, STARD-AI, FUTURE-AI "
    "and the AI Act: json and html",
    FOLDER,
]


def report(  # noqa: C901 - a flag a step
    options: ReportOptions,
    format: Annotated[ReportFormat, COMMON] = "table",  # the name of its flag
    out: Annotated[ReportFile, COMMON] = None,
    export: Numbers = None,
    figures: Annotated[FigureFolder, COMMON] = None,
    draw: FigureNames = (),
    card: Annotated[CardFolder, COMMON] = None,
    evidence: Annotated[EvidenceFolder, COMMON] = None,
    force: Force = False,
    fail_if: Annotated[FailIf, COMMON] = (),
    json: Annotated[BriefJson, COMMON] = "",
) -> None:
    """Show the scores of runs in tables or on a page.

    A run without scores is evaluated first. Runs that differ only in the seed form one row.

    Examples: fedcli report fedcli-work/runs/fedavg-* --format markdown; fedcli report --format html
    --out page.html; fedcli report --figures figures --format svg,pdf; fedcli report --figures all;
    fedcli report --card cards --evidence evidence
    """
    from ..reporting import pipelines
    from ..stages import report as stage

    work = Path(options.work)
    if str(figures) == "all":
        figures = None
        draw = [*draw, "all"]
    folder = figures
    if draw:
        folder = figures or work / "figures"
    table_format, figure_formats = formats(format, folder is not None)
    if json:
        if table_format != "table":
            sentence = f"--json and --format {table_format} exclude each other"
            raise UsageError(sentence, "give one of them")
        table_format = "json"
    if options.samples and table_format != "html":
        raise UsageError("--samples is about a page", "add --format html")
    _check_targets((out, export), (folder, card, evidence), force=force)
    limits = pipelines.limits(fail_if)
    broken: list[str] = []
    with console.warnings_kept() as warnings:
        result = stage.run(options)
        if card or evidence:  # all options, before anything is written or shown
            result.one_system("a card" if card else "evidence")
        result.check_figures(draw)
        broken = pipelines.broken(limits, result.rows)
    if export:
        text = pipelines.comma_separated(result.scores)
        write_named(export, text.encode(), force=force)
    _say_wrote(export)
    if figures:
        fill(
            figures,
            lambda scratch: result.figures(scratch, figure_formats, draw),
            force=force,
        )
    elif folder:
        result.figures(folder, figure_formats, draw)
    _say_wrote(folder)
    _write_documents(result, card, evidence, force=force)
    if json == "short":
        give(_brief(result, warnings, broken), out, force=force)
    elif table_format == "table" and out is None:
        _show_report(result)
    else:
        _give_report(
            result,
            table_format,
            out,
            work,
            figures=folder is not None,
            draw=draw,
            force=force,
        )
    refuse_broken(broken)


def _say_wrote(target: Path | None) -> None:
    if target:
        console.say(f"wrote {target}")


def _write_documents(
    result: "Report",
    card: Path | None,
    evidence: Path | None,
    *,
    force: bool,
) -> None:
    """Write the cards and the evidence into the folders that were named."""
    for target, draw_into in ((card, result.cards), (evidence, result.evidence)):
        if target:
            for path in fill(target, draw_into, force=force):
                console.say(f"wrote {path}")


def _give_report(
    result: "Report",
    table_format: str,
    out: Path | None,
    work: Path,
    *,
    figures: bool,
    draw: Sequence[str],
    force: bool,
) -> None:
    """Write the report as markdown, TeX, CSV, JSON or a page, whose usual place is under --work."""
    kind = "markdown" if table_format == "table" else table_format
    text = result.to(kind, figures=figures, draw=draw)
    if out is None and kind == "html":
        page = work / "report.html"
        write(page, text)
        console.result(str(page))
    else:
        give(text, out, force=force)


def _check_targets(
    files: Sequence[Path | None],
    folders: Sequence[Path | None],
    *,
    force: bool,
) -> None:
    """Refuse a target that may not be written, before anything is evaluated."""
    for file in filter(None, files):
        check_named(file, force=force)
    for folder in filter(None, folders):
        outputs.refuse_sealed(folder, folder=True)


def _brief(result: "Report", warnings: list[str], broken: list[str]) -> str:
    """JSON of the numbers that people look at."""
    from ..reporting import pipelines, robustness

    rows = [pipelines.of_row(row) for row in result.rows if not row.is_view]
    body: dict[str, object] = {
        "rows": rows,
        "warnings": warnings,
        "broken": broken,
    }
    robustness_facts = robustness.facts(result.rows, result.options.against)
    if robustness_facts:
        body["robustness"] = robustness_facts
    if result.by_quality:
        body["quality"] = list(result.by_quality.text)
    return dumped(body) + "\n"


def _show_report(result: "Report") -> None:
    """Print the tables of a report."""
    from ..reporting import clinical, writers

    tables = [*result.ranks, *result.robustness, *result.choices]
    sentences: list[str] = []
    if result.by_quality:
        tables += result.by_quality.tables
        sentences = [f"{sentence}." for sentence in result.by_quality.text]
    for section in result.of_packages:
        tables += section.tables
        sentences += section.text
    show_report(result.tabled)
    show_tables(tables)
    writers.say([*sentences, clinical.elsewhere(result.rows)])
