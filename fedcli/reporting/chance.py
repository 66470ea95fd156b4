"""Models whose decisions are not shown to be better than chance: no other score may be read without that."""

from collections.abc import Sequence

from ..errors import FedcliError
from ..metrics import apart
from ..scores.parts import MODELS
from ..scores.scores import Scores
from .answers import one_class
from .systems import Scored

METRIC, OF_LABELS = "balanced_accuracy", "balanced_accuracy_macro"  # the second of several labels per image
ADVICE = "train for more rounds or with another --lr"


def at_chance(runs: Sequence[Scored]) -> str:
    """On which images the decisions of these runs may be no better than chance, in words; "" where they are better.

    A run counts where the lower bound of its interval is not above chance, which is one divided by the classes that the
    test images have, or 1/2 of several labels per image.
    """
    parts = [part for version in MODELS if (part := _of_version(runs, version))]
    return f"{' and '.join(parts)}: {ADVICE}" if parts else ""


def _of_version(runs: Sequence[Scored], version: str) -> str:
    stuck = [run for run in runs if _is_stuck(run.scores, version)]
    if not stuck:
        return ""
    metric = _metric(stuck[0].scores)
    intervals = [run.scores.intervals[version][metric] for run in stuck]
    texts = [", ".join(f"{100 * (of or 0):.2f}" for of in each) for each in zip(*((i.value, i.low) for i in intervals))]
    numbers = f"{metric} {texts[0]} %, lower end of the 95 % interval {texts[1]} %"
    chance = f"chance {100 / _classes_seen(stuck[0].scores, version):.2f} %"
    which = f" of {'; '.join(run.which for run in stuck)}" if len(stuck) < len(runs) else ""
    inside = "; ".join(filter(None, [f"{numbers}, {chance}", _one_class(stuck, version)]))
    return f"decisions{which} on {version} images are not shown to be better than chance ({inside})"


def _is_stuck(scores: Scores, version: str) -> bool:
    interval = scores.intervals.get(version, {}).get(_metric(scores))
    if interval is None or interval.low is None:
        return False
    seen = _classes_seen(scores, version)
    return seen > 1 and bool(apart(interval.low, 1 / seen) <= 0)


def _metric(scores: Scores) -> str:
    return OF_LABELS if scores.several_labels else METRIC


def _classes_seen(scores: Scores, version: str) -> int:
    """How many classes the test images have; of each label two: with it and without."""
    if scores.several_labels:
        return 2
    return len(scores.classes) - len(scores.versions[version].classes_missing)


def _one_class(runs: Sequence[Scored], version: str) -> str:
    """That the models answer one class for every image; "" where they do not, or have no predictions beside them."""
    try:
        return one_class(runs, version)
    except FedcliError:
        return ""
