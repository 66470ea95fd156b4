"""A metric: a function of weighted images, with what tables, pages and lists say of it; and the
metrics there are.

A score is a metric of weights of one, a group's of weights of 0 and 1, a resample's of counts; a
site's tally has the same sums without the images. So each metric is written once, of such sums
(sums.Sums, several_labels.LabelSums), and everything that lists metrics asks the registry.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from numpy import ndarray

# what a metric may need of the images
CLASSES = "classes"
TWO = "two classes"
LABELS = "several labels"
GROUPS = "groups"  # instead of images: a table of decisions of each group, see parity.py

# what a metric may depend on
RIGHT = "right"
DECISIONS = "decisions"
PROBABILITIES = "probabilities"

# of a metric that is shown everywhere
HEADLINE: dict[str, Any] = {
    "headline": True,
    "compared": True,
    "resampled": True,
}

# ends the name of a metric of groups that is a mean over classes, each against all others
OF_EACH = "_ovr_macro"
# ends the name of a metric from outside the package that is better when low
LOW_ENDINGS = ("_error", "_cost", "_loss", "attack_success")


Function = TypeVar("Function", bound=Callable[[Any], Any])
Scores = dict[str, float | None]  # name of a metric -> its value, None where it has no meaning


@dataclass(frozen=True)
class Metric:
    """A score on the 0..1 scale.

    Attributes:
        name: its id in files and on the command line.
        title: its name in words. meaning: a sentence for a reader who does not know it.
        needs: CLASSES (more than two), TWO and LABELS as far as such images have it; or GROUPS.
        of: the sums of weighted images -> float64 [B], one for each set of weights, NaN where it
            has no meaning; of groups a number or None.
        sees: the part of a model's answer that it depends on: whether it is RIGHT, the DECISIONS,
            or the PROBABILITIES.
        better: "high" or "low".
        headline: clients are compared by it. compared: groups are. resampled: it has intervals and
            paired tests. HEADLINE sets all three.
        every_class: it needs images of every class, so that few of the rarest make it uncertain.
    """

    name: str
    title: str
    meaning: str
    needs: tuple[str, ...]
    of: Callable[[Any], Any]
    sees: str = DECISIONS
    better: str = "high"
    headline: bool = False
    compared: bool = False
    resampled: bool = False
    every_class: bool = True

    def value(self, plan: Any, weights: ndarray | None = None) -> ndarray:
        """The metric [B] of images that count as often as weights [N, B] say; None: once each."""
        return self.of(plan.sums(weights))


_registry: dict[str, Metric] = {}
_own: ContextVar[tuple[Metric, ...]] = ContextVar("own", default=())


def metric(
    name: str,
    title: str,
    meaning: str,
    *,
    needs: tuple[str, ...] = (CLASSES, TWO),
    **features: Any,
) -> Callable[[Function], Function]:
    """Register the function below it.

    features: sees, better, headline, compared, resampled and every_class, as of Metric.
    """

    def register(function: Function) -> Function:
        assert name not in _registry, name
        registered.cache_clear()
        _registry[name] = Metric(
            name,
            title,
            meaning,
            needs,
            function,
            **features,
        )
        return function

    return register


def get(name: str) -> Metric:
    """A metric by its name, of fedcli or one that is asked for. Raises KeyError."""
    return _registry.get(name) or {metric.name: metric for metric in own()}[name]


def names(*needs: str, **features: bool) -> tuple[str, ...]:
    """The names of all metrics of images, or of those with these needs and features.

    features: `headline=True` and the like.
    """
    return tuple(entry.name for entry in registered(*needs, **features))


@cache
def registered(*needs: str, **features: bool) -> tuple[Metric, ...]:
    """The metrics that names() names, in the order in which they are listed."""
    kinds = set(needs or (CLASSES, TWO, LABELS))
    chosen = []
    for entry in _registry.values():
        matches = all(getattr(entry, name) == value for name, value in features.items())
        if matches and not kinds.isdisjoint(entry.needs):
            chosen.append(entry)
    return tuple(chosen)


@contextmanager
def with_own(metrics: Sequence[Metric]) -> Iterator[None]:
    """Within it, images of known groups have these metrics from outside the package too."""
    before = _own.set(tuple(metrics))
    try:
        yield
    finally:
        _own.reset(before)


def own() -> tuple[Metric, ...]:
    """The metrics from outside the package that are asked for."""
    return _own.get()


def title(name: str) -> str:
    """The words for a metric; one's own as it is called."""
    if name in _registry:
        return _registry[name].title
    averaged = _registry.get(name.removesuffix(OF_EACH))
    if averaged:
        return f"{averaged.title}, mean over classes"
    return name.replace("_", " ")


def needs_every_class(name: str) -> bool:
    """True of a metric that needs images of every class, and of one's own metrics."""
    entry = _registry.get(name) or _registry.get(f"{name}_macro")  # of one label
    return entry is None or entry.every_class


def better_low(name: str) -> bool:
    """True of a metric that is better when low; of one's own metrics the name says so."""
    entry = _registry.get(name) or _registry.get(name.removesuffix(OF_EACH))
    if entry:
        return entry.better == "low"
    return name.endswith(LOW_ENDINGS)
