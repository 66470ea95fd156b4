"""Operating points and calibration in scores.json: its dataclasses, and of which classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import UsageError, nearest
from .parts import Number

POOLED, CLIENT = "pooled", "client"  # choices of thresholds; others are an attribute


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % Wilson interval; counted of total images. None of no image."""

    value: Number
    low: Number
    high: Number
    counted: int
    total: int


@dataclass(frozen=True)
class Point:
    """Decisions at one threshold. selected: share of images at or above it."""

    threshold: Number
    sensitivity: Rate
    specificity: Rate
    ppv: Rate
    npv: Rate
    selected: Rate
    matthews_correlation: Number


@dataclass(frozen=True)
class Operating:
    """One rule with thresholds from one choice of validation images, carried to the test images.

    Attributes:
        rule: "youden", "sensitivity=0.95", "specificity=0.9" or "cost=5".
        choice: "pooled", "client", or the attribute whose groups have a threshold each. Test images that no threshold
            of their own is known for have the pooled one.
        thresholds: "" for the pooled one, else by client or group; null where its validation images have one label.
        differences: attribute -> demographic parity, equalized odds and average odds differences of the decisions.
    """

    rule: str
    choice: str
    thresholds: dict[str, Number]
    overall: Point
    groups: dict[str, dict[str, Point]] = field(default_factory=dict)
    clients: dict[str, Point] = field(default_factory=dict)
    differences: dict[str, dict[str, Number]] = field(default_factory=dict)


@dataclass(frozen=True)
class Described:
    """Quality and honesty of the probabilities of one class on some images.

    Attributes:
        sensitivity_at_specificity_95: a point of these images' own ROC curve, so no threshold is carried to them.
        brier_reliability, brier_resolution, brier_uncertainty: Murphy's parts over ten bins.
        calibration_slope, calibration_intercept: 1 and 0 are ideal.
        integrated_calibration_index: mean distance of the probabilities from the smoothed share that they came true in;
            None of fewer than ten images.
        bins: mean probability, share of the class, images, of each bin that holds any.
        net_benefit: threshold probability, net benefit of the model, and of treating all.
    """

    count: int
    positives: int
    prevalence: Number
    average_precision: Number
    sensitivity_at_specificity_95: Number
    brier: Number
    brier_reliability: Number
    brier_resolution: Number
    brier_uncertainty: Number
    calibration_slope: Number
    calibration_intercept: Number
    bins: list[list[float]]
    net_benefit: list[list[float]]
    integrated_calibration_index: Number = None


@dataclass(frozen=True)
class OfClass:
    """One class against all others on one version of the test images."""

    overall: Described
    groups: dict[str, dict[str, Described]] = field(default_factory=dict)
    clients: dict[str, Described] = field(default_factory=dict)
    operating: list[Operating] = field(default_factory=list)


@dataclass(frozen=True)
class Scaled:
    """Temperature scaling fitted on validation images: scores on test images before and after."""

    temperature: float
    negative_log_likelihood: list[float]
    calibration_error_top_label: list[Number]
    brier: list[Number]


@dataclass(frozen=True)
class Covered:
    """A set of classes for each image that holds the true one with a chance of at least `level`.

    Attributes:
        choice: "pooled", or the attribute whose groups have a quantile each.
        coverage: share of images whose set holds their class; by group as attribute -> group.
        set_size: mean number of classes in a set.
    """

    level: float
    choice: str
    quantiles: dict[str, Number]
    coverage: Rate
    set_size: Number
    groups: dict[str, dict[str, Rate]] = field(default_factory=dict)
    set_sizes: dict[str, dict[str, Number]] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """Decisions, which are the most likely class, against labels: chance-corrected measures of all classes."""

    matthews_correlation: Number
    quadratic_kappa: Number


@dataclass(frozen=True)
class GapTest:
    """The gap between best and worst group, and its p over deals of the groups among patients and their images."""

    gap: float
    p: Number
    deals: int


@dataclass(frozen=True)
class Subgroup:
    """Images of one value of an attribute, or of two attributes' values crossed.

    Attributes:
        difference: accuracy of the subgroup minus that of all others. p_holm: adjusted for all subgroups tested.
    """

    attribute: str
    group: str
    images: int
    accuracy: float
    difference: float
    p: Number
    p_holm: Number


@dataclass(frozen=True)
class Clinical:
    """Operating points, calibration and conformal sets of the last round's model.

    Attributes:
        validation: images of the clients' validation parts, on which alone thresholds, temperature and quantiles are
            chosen; 0 where there are none, and then there are none of these.
        classes: class -> version of the test images.
        gaps: attribute -> version -> metric: permutation tests. subgroups: of at least 30 images, the least accurate
            first; of one label per image.
    """

    validation: int
    classes: dict[str, dict[str, OfClass]]
    agreement: dict[str, Agreement] = field(default_factory=dict)
    temperature: dict[str, Scaled] = field(default_factory=dict)
    conformal: dict[str, list[Covered]] = field(default_factory=dict)
    gaps: dict[str, dict[str, dict[str, GapTest]]] = field(default_factory=dict)
    subgroups: dict[str, list[Subgroup]] = field(default_factory=dict)


def positives(classes: list[str], asked: Sequence[str], *, several: bool = False) -> list[str]:
    """The classes that are described: those asked for, else the second of two, else all. Raises UsageError.

    several: an image may have several of them, which are labels then.
    """
    for name in asked:
        if name not in classes:
            raise UsageError(f"--positive {name!r} is no class", nearest(name, classes))
    return [name for name in classes if name in asked] or (
        classes[1:] if len(classes) == 2 and not several else classes
    )
