"""Parts of scores.json: one model's scores, those of several rounds, of groups, and intervals."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from .. import metrics
from ..metrics import Groupings
from ..metrics.several_labels import OF_LABEL
from .schema import Names, decode, flat, omitted

Number = float | None
SHOT_GROUPS = "head", "medium", "tail"  # classes with many, some and few training images
MODELS = "clean", "corrupted"  # versions of the test images that models are shown
VERSIONS = *MODELS, "average"
AMONG = "mean", "std", "worst"  # of a metric, over clients
ANY = "*"


@dataclass(frozen=True)
class OverRounds:
    """One metric over the kept rounds."""

    last: Annotated[Number, "the last round's model"]
    mean_last5: Annotated[Number, "mean over the rounds in kept_rounds: the last five, or all of a shorter run"]
    std_last5: Annotated[Number, "population standard deviation (ddof 0) over the same rounds; null for a single round"]
    per_round: list[Number]


@dataclass(frozen=True)
class Score:
    """One model on some images: every metric, and the indices of the classes without an image."""

    count: int
    classes_missing: list[int]
    metrics: Annotated[dict[str, Number], Names("metric")] = flat()

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None) -> "Score":
        """As metrics.score(). Raises FedcliError for logits that are not finite."""
        return decode(cls, metrics.score(logits, y, groupings))


@dataclass(frozen=True)
class Summary:
    """Scores on the same images over the kept rounds."""

    count: int = 0
    classes_missing: Annotated[list[int], "indices into classes; they are left out of the AUC"] = field(
        default_factory=list
    )
    metrics: Annotated[dict[str, OverRounds], Names("metric")] = flat()


@dataclass(frozen=True)
class Interval:
    """Interval of the last round's score; units: how many patients, lesions or images were drawn; method: "bca", else
    percentile."""

    value: Number
    low: Number
    high: Number
    level: float
    resamples: int
    unit: str
    units: int
    method: str = omitted(str)


@dataclass(frozen=True)
class Group:
    """One model on the images of one group."""

    small: Annotated[bool, "a group of fewer than 30 images, or without a class that the test set has"]
    reason: str
    count: int = 0
    classes_missing: list[int] = field(default_factory=list)
    metrics: Annotated[dict[str, Number], Names("metric")] = flat()


@dataclass(frozen=True)
class Extreme:
    """The worst or best group; group: None where several models answer and differ in it."""

    group: str | None
    score: Number


@dataclass(frozen=True)
class Between:
    """One metric between the groups of one model; None where fewer than two groups have it."""

    worst: Extreme | None
    best: Extreme | None
    gap: Number
    std: Number
    average: Number


@dataclass(frozen=True)
class GroupScores:
    """One model on each group of an attribute, and between the groups; unknown: images in no group."""

    groups: Annotated[dict[str, Group], Names("any")]
    overall: Score | None = None
    unknown: int = 0
    between: Annotated[dict[str, Between], Names("compared")] = field(default_factory=dict)
    es_auc_ovo_macro: Number = None
    es_auc_macro: Number = omitted()
    undefined_rates: list[str] = field(default_factory=list)
    differences: Annotated[dict[str, Number], Names("difference")] = flat()


@dataclass(frozen=True)
class BetweenRounds:
    """One metric between groups, of each round and then over rounds."""

    worst: OverRounds
    gap: OverRounds
    std: OverRounds | None = None
    average: OverRounds | None = None


@dataclass(frozen=True)
class GroupsOverRounds:
    """Differences between groups, over rounds."""

    es_auc_ovo_macro: OverRounds | None = None
    es_auc_macro: OverRounds | None = omitted()
    differences: Annotated[dict[str, OverRounds], Names("difference")] = flat(
        lambda key: key.startswith(metrics.PARITY)
    )
    metrics: Annotated[dict[str, BetweenRounds], Names("compared")] = flat()


@dataclass(frozen=True)
class Across:
    """Over groups, of each group's mean over rounds."""

    average: Number
    std_sample: Number


@dataclass(frozen=True)
class Groups:
    """The groups of one attribute on one version of the test images."""

    last_round: GroupScores
    over_rounds: GroupsOverRounds
    each: Annotated[dict[str, dict[str, OverRounds]], Names("compared", "any")] = field(default_factory=dict)
    across: Annotated[dict[str, Across], Names("compared")] = field(default_factory=dict)
    intervals: Annotated[dict[str, dict[str, Interval]], Names("resampled", "any")] = omitted(dict)


@dataclass(frozen=True)
class LabelGroups:
    """One of several labels between the groups of an attribute; auc: of each group."""

    auc: Annotated[dict[str, Number], Names("any")]
    between: Between
    differences: Annotated[dict[str, Number], Names("difference")]


@dataclass(frozen=True, kw_only=True)
class OfLabel:
    """One of several labels on one version of the test images; groups: of each attribute, by the last round's model."""

    images: int
    metrics: Annotated[dict[str, OverRounds], Names("of_label")] = flat(lambda key: key in OF_LABEL)
    groups: Annotated[dict[str, LabelGroups], Names("attribute")] = omitted(dict)


@dataclass(frozen=True)
class External:
    """Test images that are not the run's own.

    Attributes:
        part: "test", or "all" images of a dataset.
        left_out: images of classes that the run does not have.
        classes: class there -> class of the run, "" for none.
        held_out: attribute and value of the site that a partition keeps for testing; {} where there is none.
    """

    kind: str
    dataset: str
    sha256: str
    part: str
    images: int
    left_out: int
    classes: dict[str, str]
    held_out: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        images = "image" if self.images == 1 else "images"
        left_out = f" ({self.left_out} of other classes left out)" if self.left_out else ""
        return f"scored on {self.images} {images} of {self.dataset}{left_out}, in place of the run's own test images"


ByGroup = dict[str, dict[str, Groups]]  # attribute -> version


@dataclass(frozen=True)
class RocPoint:
    """Where class 1 is predicted from this chance on."""

    threshold: Number
    false_positive_rate: Number
    true_positive_rate: Number


@dataclass(frozen=True)
class ReliabilityBin:
    """Images whose most likely class has a chance in one of 15 bins of equal width."""

    images: int
    mean_chance: Number
    share_right: Number


@dataclass(frozen=True)
class Curve:
    """Of the last round's model on some images; at_false_positives: largest false positive rate -> point."""

    at_false_positives: dict[str, RocPoint]
    reliability: list[ReliabilityBin]


@dataclass(frozen=True)
class Curves:
    """On one version of the test images."""

    overall: Curve
    groups: dict[str, dict[str, Curve]] = field(default_factory=dict)
    clients: dict[str, Curve] = field(default_factory=dict)
