"""Models whose decisions are no better than chance: their other scores must not be read without that."""

from collections.abc import Sequence

from ..errors import FedcliError
from ..evaluation.parts import MODELS
from ..evaluation.scores import Scores
from .answers import one_class
from .systems import Scored

METRIC = "balanced_accuracy"
ADVICE = "train for more rounds or with another --lr"


def at_chance(runs: Sequence[Scored]) -> str:
    """On which images the decisions of these runs are no better than chance, in words; "" where they are better.

    A run counts where the lower bound of its interval is not above chance, which is one divided by the classes that the
    test images have.
    """
    parts = [part for version in MODELS if (part := _of_version(runs, version))]
    return f"{' and '.join(parts)}: {ADVICE}" if parts else ""


def _of_version(runs: Sequence[Scored], version: str) -> str:
    stuck = [run for run in runs if _is_stuck(run.scores, version)]
    if not stuck:
        return ""
    score, chance = stuck[0].scores.intervals[version][METRIC].value, _chance(stuck[0].scores, version)
    answers = _one_class(stuck, version)
    which = f" of {'; '.join(run.which for run in stuck)}" if len(stuck) < len(runs) else ""
    why = f", as it {answers}" if answers else ""
    return (
        f"decisions{which} on {version} images are no better than chance ({METRIC} {100 * (score or 0):.2f} %, "
        f"chance {100 * chance:.2f} %{why})"
    )


def _is_stuck(scores: Scores, version: str) -> bool:
    interval = scores.intervals.get(version, {}).get(METRIC)
    seen = len(scores.classes) - len(scores.versions[version].classes_missing) if version in scores.versions else 0
    return seen > 1 and interval is not None and interval.low is not None and interval.low <= 1 / seen


def _chance(scores: Scores, version: str) -> float:
    return 1 / (len(scores.classes) - len(scores.versions[version].classes_missing))


def _one_class(runs: Sequence[Scored], version: str) -> str:
    """That the models answer one class for every image; "" where they do not, or have no predictions beside them."""
    try:
        return one_class(runs, version)
    except FedcliError:
        return ""
