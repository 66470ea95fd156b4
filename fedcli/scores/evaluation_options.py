"""The options of what reads runs: evaluate, predict, report and compare."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

from ..common_options import (
    INPUT,
    MACHINE,
    OUTPUT,
    RUNS,
    WORK,
    Device,
    Groups,
    Out,
    Seed,
    Shots,
    Timeout,
    Track,
    Work,
)
from ..options import COMMON, Flag, Options, Source

TO_REPORT = Flag(panel=OUTPUT)


@dataclass(frozen=True)
class EvaluateOptions(Options):
    """A run scored on the clean and the corrupted test set, per client and per group."""

    stage: ClassVar[str] = "evaluate"
    run: Annotated[
        Source | None,
        "a run, or its name or method; default: the newest under --work, - reads stdin",
        INPUT,
    ] = None
    _: KW_ONLY
    by: Annotated[Groups, COMMON] = ()
    shots: Annotated[Shots, COMMON] = None
    corrupt: Annotated[
        Sequence[str],
        "also score the test images under this corruption, or under all of a modality, such as "
        "dermoscopy, which needs no training; may be repeated",
        Flag("KIND", marks=("images",)),
        COMMON,
    ] = ()
    severity: Annotated[
        Sequence[str],
        "of --corrupt, or of the run's own kind: 1 to 5, or 1..5; may be repeated; default: all "
        "five",
        Flag("N", marks=("images",)),
        COMMON,
    ] = ()
    on: Annotated[
        Source | None,
        "score the test images of this dataset, partition or corruption manifest instead "
        "of the run's own: another hospital, another dataset",
        Flag("MANIFEST", access="reads", marks=("tests", "at_hand")),
        COMMON,
    ] = None
    map_classes: Annotated[
        Source | None,
        "with --on: CSV with the columns theirs and ours, a line for each of its classes; an "
        "empty cell leaves a class out; default: classes of equal names",
        Flag("FILE", access="reads", marks=("tests",)),
    ] = None
    all_images: Annotated[
        bool,
        "with --on DATASET: all of its images, not its test part alone",
        Flag(marks=("tests",)),
    ] = False
    adapt: Annotated[
        Sequence[str],
        "also score the last round's model adapted to the test images, without their "
        "labels: bn, by their batch-norm statistics, prior, by EM of their class prior, "
        "temperature, by validation images; may be repeated",
        Flag("NAME", marks=("at_hand",)),
    ] = ()
    cross_site: Annotated[
        bool,
        "also score every client's own model on every client's own test images",
        Flag(marks=("at_hand",)),
    ] = False
    clinical: Annotated[
        bool,
        "also operating points with thresholds chosen on validation images, calibration, decision "
        "curves and conformal sets",
        Flag(marks=("at_hand",)),
        COMMON,
    ] = False
    positive: Annotated[
        Sequence[str],
        "with --clinical: a class to describe; may be repeated; default: the second of "
        "two, or each of more",
        Flag("CLASS"),
    ] = ()
    rule: Annotated[
        Sequence[str],
        "with --clinical: what a threshold is chosen for: youden, sensitivity=S or specificity=S; "
        "may be repeated; default: youden, sensitivity 0.9 and 0.95, specificity 0.8, 0.9 and 0.95",
        Flag("RULE"),
    ] = ()
    cost: Annotated[
        float | None,
        "with --clinical: also the threshold of least cost, if a missed image costs N false "
        "alarms, > 0",
    ] = None
    interval: Annotated[
        Literal["percentile", "bca"],
        "95 % intervals of bootstrap resamples: their percentiles, or bca, corrected for bias and "
        "skewness, which takes longer",
        TO_REPORT,
    ] = "percentile"
    choose: Annotated[
        str | None,
        "how best_on_validation is chosen, on the clients' validation images: by the "
        "overall score, by worst-group (min-max) or by dto, the distance to the best "
        "score of every group; needs `partition --val 0.2`; default: overall, of all "
        "rounds",
        Flag("RULE", panel=OUTPUT, marks=("at_hand",)),
    ] = None
    export: Annotated[
        str | None,
        "also write the last round's predictions next to the scores, a row per image",
        Flag("csv", local=True, panel=OUTPUT, marks=("images",)),
        COMMON,
    ] = None
    metric: Annotated[
        Sequence[str],
        "a metric of your own: ./mine.py:NAME, or a package's; may be repeated",
        Flag("FILE", local=True, panel=OUTPUT, access="reads", marks=("at_hand", "images")),
    ] = ()
    engine: Annotated[
        str | None,
        "evaluate at sites, which send counts: socket:DIR",
        Flag("NAME:WHERE", local=True, panel=MACHINE, access="trusts"),
    ] = None
    timeout: Timeout = 600.0
    track: Track = None
    device: Annotated[Device, COMMON] = "cpu"
    work: Work = WORK
    out: Out = None

    @property
    def more(self) -> dict[str, Any]:
        """Options that scores.json records as they are, where they are given."""
        options: dict[str, Any] = {}
        if self.cross_site:
            options["cross_site"] = True
        if self.choose:
            options["choose"] = self.choose
        if self.adapt:
            options["adapt"] = sorted(set(self.adapt))
        if self.interval != "percentile":
            options["interval"] = self.interval
        if self.clinical:
            options["clinical"] = {
                "positive": sorted(self.positive),
                "cost": self.cost,
                "rules": list(self.rule),
            }
        return options


@dataclass(frozen=True)
class PredictOptions(Options):
    """A run's model on image files, prepared as the run's own images were."""

    stage: ClassVar[str] = "predict"
    run: Annotated[
        Source | None, "a run, or its name or method; - reads its path from stdin", INPUT
    ]
    files: Annotated[
        Sequence[Source],
        "images, folders of them, DICOM files",
        Flag("FILE", True, local=True, access="reads"),
    ]
    _: KW_ONLY
    client: Annotated[
        str | None, "the model of this client, if clients keep models of their own"
    ] = None
    data: Annotated[
        Source | None,
        "of a run that was trained at sites: the partition of one of them, by which files are "
        "prepared and whose validation images choose thresholds",
        Flag("MANIFEST", access="reads"),
    ] = None
    positive: Annotated[
        Sequence[str],
        "also decide for this class at a threshold chosen on the run's validation images; may be "
        "repeated; default: the operating points of its evaluate --clinical, if there are any",
        Flag("CLASS"),
    ] = ()
    rule: Annotated[
        Sequence[str],
        "what the threshold is chosen for: youden, sensitivity=S or specificity=S; may be "
        "repeated; default: as evaluate --clinical has it",
        Flag("RULE"),
    ] = ()
    cost: Annotated[
        float | None,
        "also the threshold of least cost, if a missed image costs N false alarms, > 0",
    ] = None
    device: Device = "cpu"
    work: Work = WORK


@dataclass(frozen=True)
class AuditOptions(Options):
    """Attacks on the models of a run, for what they give away about its patients."""

    stage: ClassVar[str] = "audit"
    run: Annotated[
        Source | None,
        "a run, or its name or method; default: the newest under --work, - reads stdin",
        INPUT,
    ] = None
    _: KW_ONLY
    shadow: Annotated[
        Sequence[Source],
        "a run of the same settings that left some of the images out, for LiRA; may be repeated: "
        "each image should be left out by two or more, as `partition --val 0.5 --seed N` does",
        Flag("RUN", local=True, access="reads"),
    ] = ()
    batch: Annotated[int, "images of the gradient that is inverted, in [1, 8]"] = 1
    iterations: Annotated[int, "of the inversion, for each of two models, in [1, 100000]"] = 1500
    client: Annotated[
        str | None, "whose gradient is inverted; default: the client with fewest training images"
    ] = None
    seed: Seed = 0
    device: Device = "cpu"
    work: Work = WORK
    out: Out = None


@dataclass(frozen=True)
class ReportOptions(Options):
    """Runs compared in one table, a row per system."""

    stage: ClassVar[str] = "report"
    panel: ClassVar[str] = OUTPUT
    runs: Annotated[
        Sequence[Source],
        "runs or scores, or names or methods; default: the newest under --work and all on its data",
        RUNS,
    ] = ()
    _: KW_ONLY
    by: Annotated[Groups, COMMON] = ()
    shots: Shots = None
    corrupt: Annotated[
        Sequence[str],
        "also errors under this corruption, or under all of a modality, and their mean relative to "
        "--against (mCE); may be repeated",
        Flag("KIND"),
    ] = ()
    severity: Annotated[
        Sequence[str],
        "of --corrupt, or of the run's own kind: 1 to 5, or 1..5; may be repeated; default: all "
        "five",
        Flag("N"),
    ] = ()
    metric: Annotated[
        Sequence[str],
        "a score to show, such as f1_macro; may be repeated; default: two of them",
        Flag("NAME"),
        COMMON,
    ] = ()
    columns: Annotated[
        Sequence[str],
        "show only these columns, by a word of their heads, such as clean,noisy or gap; "
        "may be repeated",
        Flag("WORD,..."),
    ] = ()
    at: Annotated[
        Literal["last5", "last", "best"],
        "last5, the mean over the last five rounds, last, or best: chosen on validation images",
        COMMON,
    ] = "last5"
    choose: Annotated[
        str | None,
        "choose the model of each run, and the run of several, by a score on the "
        "clients' validation images (`partition --val 0.2`): overall, worst-group "
        "(min-max) or dto, the distance to the best score of every group",
        Flag("RULE"),
    ] = None
    interval: Annotated[
        Literal["percentile", "bca"],
        "95 % intervals of bootstrap resamples of the test patients: percentiles, or bca",
    ] = "percentile"
    spread: Annotated[
        Literal["pooled", "runs"],
        "± of runs that differ only in the seed: pooled over the rounds of all runs, or "
        "over the runs' means",
    ] = "pooled"
    separate: Annotated[bool, "a row for every run, even if only the seed differs"] = False
    against: Annotated[
        str,
        "test all others against this one, which is the first row and the reference of the mCE "
        "after `evaluate --corrupt`; default: FedAvg, or the first",
        Flag("METHOD"),
        COMMON,
    ] = ""
    minutes: Annotated[bool, "also how long each run trained"] = False
    bytes: Annotated[bool, "also the MB that a client receives and sends in a round"] = False
    quality: Annotated[
        str | None,
        "also scores by quarters of this measure of the test images: noise, snr, sharpness, "
        "contrast, brightness, entropy or blockiness, and how much of each gap between groups it "
        "explains",
        Flag("MEASURE"),
    ] = None
    samples: Annotated[
        bool,
        "of html: also training images of each client and class, clean and corrupted, at "
        "the top of the page; whoever gets the page then gets images of patients",
    ] = False
    section: Annotated[
        Sequence[str],
        "also this section of an installed package; may be repeated",
        Flag("NAME"),
    ] = ()
    work: Work = WORK


@dataclass(frozen=True)
class CompareOptions(Options):
    """Two systems against each other."""

    stage: ClassVar[str] = "compare"
    runs: Annotated[
        Sequence[Source],
        "two names or methods, to compare their newest comparable runs; or runs, scores "
        "or folders of runs of two systems (a method in one setting, with one seed or "
        "several); default: the newest method and FedAvg, or the one before it",
        RUNS,
    ] = ()
    _: KW_ONLY
    metric: Annotated[
        Sequence[str],
        "a score to compare, such as accuracy, or a function of your own, ./mine.py; may be "
        "repeated; default: two of them",
        Flag("NAME"),
    ] = ()
    by: Groups = ()
    resamples: Annotated[int, "bootstrap resamples of the test patients, >= 100"] = 2000
    interval: Annotated[
        Literal["percentile", "bca"],
        "95 % intervals of bootstrap resamples of the test patients: percentile, or bca, which "
        "takes longer",
    ] = "percentile"
    seed: Seed = 0
    work: Work = WORK
