"""Metrics, by explicit import: each is a function of weighted images, in the file of its kind."""

# importing registers; the order is that of `fedcli metrics`
from . import (  # isort: skip  # noqa: F401
    decisions,
    areas,
    calibration,
    several_labels,
    parity,
)
from .arithmetic import apart, gap, mean_of_known
from .calibration import calibration_error
from .metric import (
    CLASSES,
    GROUPS,
    LABELS,
    TWO,
    Metric,
    better_low,
    get,
    names,
    needs_every_class,
    own,
    registered,
    title,
    with_own,
)
from .of_images import (
    balanced_accuracy,
    chances,
    of_labels,
    plan,
    recalls,
    resampled,
    score,
    score_of,
)
from .probabilities import label_probabilities, probabilities
from .sums import Grouping, Groupings, groupings_at
from .task import Plan, Task

METRICS = names()  # of images
PARITY = names(GROUPS)  # between groups
RESAMPLED = names(resampled=True)  # all that have intervals and paired tests, and so marks

__all__ = [
    "CLASSES",
    "GROUPS",
    "LABELS",
    "METRICS",
    "PARITY",
    "RESAMPLED",
    "TWO",
    "Grouping",
    "Groupings",
    "Metric",
    "Plan",
    "Task",
    "apart",
    "balanced_accuracy",
    "better_low",
    "calibration_error",
    "chances",
    "gap",
    "get",
    "groupings_at",
    "label_probabilities",
    "mean_of_known",
    "names",
    "needs_every_class",
    "of_labels",
    "own",
    "plan",
    "probabilities",
    "recalls",
    "registered",
    "resampled",
    "score",
    "score_of",
    "title",
    "with_own",
]
