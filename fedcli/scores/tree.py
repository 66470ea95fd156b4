"""The shape of scores.json: every number that evaluation gives of a run, and what it means.

A scores.json is a manifest; its body is a `Scores`, and the body's `legend` says what each number is. Scores run from
0 to
1; None where a score has no meaning.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from .choice import Candidate
from .parts import (
    VERSIONS,
    ByGroup,
    Curves,
    External,
    Groups,
    GroupScores,
    Interval,
    Number,
    OfLabel,
    OverRounds,
    Score,
    Summary,
)
from .schema import Names, encode, flat, omitted


@dataclass(frozen=True, kw_only=True)
class Quality:
    """The scores of a run's models as one view shows them the images."""

    versions: Annotated[dict[str, Summary], Names("version")]
    intervals: Annotated[
        dict[str, dict[str, Interval]],
        Names("version", "resampled"),
        "95 % intervals, percentile or BCa, of the last round's model, from bootstrap resamples of whole patients "
        "(or lesions), or of images where the dataset names no patients; in `groups`, of each group's own images; "
        "`value` is that round's score, and bounds are null where there is one patient only",
    ] = field(default_factory=dict)
    groups: Annotated[
        ByGroup,
        Names("attribute", "model"),
        "last_round holds every group; over_rounds has worst group, gap, population std and average over groups of "
        "each round; each has every group over rounds; across is the average and the sample std (ddof 1) over groups "
        "of their means over rounds. Attributes may be crossed: race*sex; a combination without a test image is no "
        "group there. Groups in `clients` are those of the client's own test part, by the model that the client is "
        "scored with",
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Best:
    """The global model of the round that was best on the clients' validation images; validation: its score there."""

    round: int
    metric: str
    validation: float
    versions: Annotated[dict[str, Score], Names("version")]
    groups: Annotated[dict[str, dict[str, GroupScores]], Names("attribute", "model")]


@dataclass(frozen=True)
class Shots:
    """Mean recall of classes by their training images; classes: group -> class -> training images."""

    upper: int
    lower: int
    classes: dict[str, dict[str, int]]
    skipped: list[str]
    versions: Annotated[dict[str, dict[str, OverRounds]], Names("version", "shot")]


@dataclass(frozen=True)
class OwnModels:
    """Clients' own models on the whole test sets."""

    versions: Annotated[dict[str, Summary], Names("model")] = flat(lambda key: key in VERSIONS)
    groups: Annotated[ByGroup, Names("attribute", "model")] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Client:
    """One client; part: "own" test part or "whole" test set."""

    version: str
    part: str
    count: int = 0
    classes_missing: list[int] = field(default_factory=list)
    metrics: Annotated[dict[str, OverRounds], Names("metric")] = flat()
    corruption: Annotated[
        str, "kind and severity of a corrupted client's images and of those it is scored on, where clients differ"
    ] = omitted(str)
    global_model: Annotated[
        Summary | None, "the global model on the images of a client that has a model of its own"
    ] = omitted()
    groups: Annotated[dict[str, Groups], Names("attribute")] = omitted(dict)


@dataclass(frozen=True)
class Among:
    """One metric over clients."""

    mean: Number = None
    std: Number = None
    worst: Number = None
    per_round: Annotated[dict[str, list[float] | None], Names("among")] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AtSeverity:
    """The global model on all test images under one corruption."""

    kind_in_training: bool
    severity_in_training: bool
    scores: Summary
    intervals: Annotated[dict[str, Interval], Names("resampled")] = field(default_factory=dict)
    groups: Annotated[dict[str, Groups], Names("attribute")] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """Hash and options of a stage of the data."""

    sha256: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Traffic:
    """Bytes to and from a client in a round."""

    down: Number = None
    up: Number = None


@dataclass(frozen=True, kw_only=True)
class Scores(Quality):
    """All that is known of a run: what it was, and its scores.

    Attributes:
        data: "dataset", "partition" and "corruption"; None for a stage that is not there.
        view: the name of the first way in which the method is shown images; `views` are the other ways.
    """

    method: str
    label: str
    rule: str
    settings: dict[str, Any]
    options: dict[str, Any]
    dataset: str
    data: dict[str, Stage | None]
    rounds: int
    roster_size: int
    model: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] | None = None
    warning: str = ""
    kept_rounds: list[int] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    personal_models: bool = False
    sample: bool = omitted(bool)
    single_site: Annotated[
        bool,
        "every client trained alone, so there is no global model: `versions`, `groups` and `shots` are of the clients' "
        "own models, each on the images of its own test part where the parts make up the whole test set, else the mean "
        "over clients of each one's score on the whole test set, where a worst group's name is null if clients differ; "
        "`warning` says which",
    ] = False
    view: str = ""
    bytes: Annotated[
        Traffic,
        "bytes to and from a client in a round, mean over clients and rounds: the model, and what the method sends "
        "beside it",
    ] = Traffic()
    views: Annotated[
        dict[str, Quality],
        Names("any"),
        "other ways than `view` in which the method can be shown test images; `view` uses the images' groups, here no "
        "image's group is used, and unknown groups are scored as all others are",
    ] = field(default_factory=dict)
    severities: Annotated[
        dict[str, dict[str, AtSeverity]],
        Names("any", "any"),
        "kind -> severity -> the run's models on all test images under that corruption, as `evaluate --corrupt` asked; "
        "nothing was trained for it. kind_in_training: whether clients trained on images of this kind; "
        "severity_in_training: of this severity too",
    ] = omitted(dict)
    curves: Annotated[
        dict[str, Curves],
        "of an evaluation over sites, by version of the test images; by group, and by client on its own images. "
        "at_false_positives: of two classes, the lowest threshold on the chance of the second whose false positive "
        "rate on these images is no higher, and the rates there; it describes the model and is no threshold for use, "
        "since test images chose it. reliability: the 15 bins of calibration_error",
    ] = omitted(dict)
    best_on_validation: Annotated[
        Best | None,
        "the global model of the round that was best on the clients' validation parts, the first of equals; test "
        "images are not used to choose it. null where the partition has no validation parts",
    ] = None
    candidates: Annotated[
        list[Candidate],
        "as `evaluate --choose` asked: the kept models on the clients' validation images, one of which the rule made "
        "best_on_validation",
    ] = omitted(list)
    external: Annotated[
        External | None,
        "the test images that `evaluate --on` asked for in place of the run's own; every score is on them, `dataset` "
        "and `data` are what the run was trained on, and no image there belongs to a client",
    ] = omitted()
    cross_site: Annotated[
        dict[str, dict[str, Score]],
        Names("any", "any"),
        "as `evaluate --cross-site` asked: whose model -> whose own clean test images -> scores of the last round",
    ] = omitted(dict)
    clinical: Annotated[
        dict[str, Any] | None,
        "as `evaluate --clinical` asked: thresholds from validation images carried to test images, calibration, "
        "decision curves and conformal sets of the last round's model",
    ] = omitted()
    shots: Annotated[
        Shots | None,
        "the global model's mean recall of classes by training images of all clients: head above `upper`, tail below "
        "`lower`, medium between; a class without a test image is skipped; all is the mean of the groups that have a "
        "score",
    ] = None
    train_images: Annotated[int, "training images of all clients, where no `shots` count them"] = omitted(int)
    labels: Annotated[
        dict[str, dict[str, OfLabel]],
        Names("version", "any"),
        "of several labels per image each one by itself, at a threshold of 1/2: version -> label; images: test images "
        "that have it; groups are of the last round's model",
    ] = omitted(dict)
    personal: Annotated[
        dict[str, OwnModels],
        Names("own"),
        "where clients keep models of their own: `personal` is the mean over clients of each one's model on the whole "
        "test set, `mean_personal` the model that is their mean by image count; versions and groups are the global "
        "one's. A client that never took part has the global model. Their `groups` are as the global model's, without "
        "intervals; of `personal` a worst group's name is null if clients differ",
    ] = field(default_factory=dict)
    clients: Annotated[
        dict[str, Client],
        Names("any"),
        "a client's own test part where it has one, else the whole test set; corrupted images for corrupted clients, "
        "clean for others; by the client's own model if personal_models, else by the global one",
    ] = field(default_factory=dict)
    among_clients: Annotated[
        dict[str, Among],
        Names("headline"),
        "mean, population std and minimum over clients in each round (per_round), then the mean over rounds; null "
        "where all clients share model and images",
    ] = field(default_factory=dict)
    among_clients_global: Annotated[
        dict[str, Among],
        Names("headline"),
        "among_clients with global_model in place of a client's own; std and worst are null where clients share "
        "images. The mean of own models is what Fed-MAS calls pFL (a client's model on the client's images); its gFL "
        "is the global model on all test images: versions. Fed-MAS reports the best round of each, here no round is "
        "chosen",
    ] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """As JSON holds it."""
        return encode(self)
