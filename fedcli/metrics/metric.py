"""A metric: a function of weighted images, with what tables, pages and lists say of it; and the metrics there are.

A score is a metric of weights of one, a group's of weights of 0 and 1, a resample's of counts; a site's tally has the
same sums without the images. So each metric is written once, of such sums (sums.Sums, several_labels.LabelSums), and
everything that lists metrics asks the registry.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

CLASSES, TWO, LABELS = (
    "classes",
    "two classes",
    "several labels",
)  # what a metric may need of the images
RIGHT, DECISIONS, PROBABILITIES = (
    "right",
    "decisions",
    "probabilities",
)  # what a metric may depend on
GROUPS = "groups"  # instead of images: a table of decisions of each group, see parity.py
OF_EACH = "_ovr_macro"  # ends the name of a metric of groups that is a mean over classes, each against all others


Function = TypeVar("Function", bound=Callable[[Any], Any])


@dataclass(frozen=True)
class Metric:
    """A score on the 0..1 scale.

    Attributes:
        name: its id in files and on the command line.
        title: its name in words. meaning: a sentence for a reader who does not know it.
        needs: CLASSES (more than two), TWO and LABELS as far as such images have it; or GROUPS.
        of: the sums of weighted images -> float64 [B], one for each set of weights, NaN where it has no meaning; of
            groups a number or None.
        sees: what of a model's answer it depends on: whether it is RIGHT, the DECISIONS, or the PROBABILITIES.
        better: "high" or "low".
        headline: whether clients are compared by it. compared: whether groups are. resampled: whether it has intervals
            and paired tests.
        every_class: whether it needs images of every class, so that few of the rarest make it uncertain.
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

    def value(self, plan: Any, weights: np.ndarray | None = None) -> np.ndarray:
        """Of images that count so often each: weights [N, B], one each where None -> [B]."""
        return self.of(plan.sums(weights))


_registry: dict[str, Metric] = {}
_own: ContextVar[tuple[Metric, ...]] = ContextVar("own", default=())


def metric(
    name: str, title: str, meaning: str, *, needs: tuple[str, ...] = (CLASSES, TWO), **about: Any
) -> Callable[[Function], Function]:
    """Register the function below it. about: sees, better, headline, compared, resampled and every_class, as of Metric."""

    def register(function: Function) -> Function:
        assert name not in _registry, name
        registered.cache_clear()
        _registry[name] = Metric(name, title, meaning, needs, function, **about)
        return function

    return register


def get(name: str) -> Metric:
    """A metric of fedcli by its name. Raises KeyError."""
    return _registry[name]


def names(*needs: str, **about: bool) -> tuple[str, ...]:
    """The names of all metrics of images, of those of such data, or of those with `headline=True` and the like."""
    return tuple(each.name for each in registered(*needs, **about))


@cache
def registered(*needs: str, **about: bool) -> tuple[Metric, ...]:
    """The metrics themselves, in the order in which they are listed."""
    return tuple(
        each
        for each in _registry.values()
        if {*(needs or (CLASSES, TWO, LABELS))} & {*each.needs}
        and all(getattr(each, what) == asked for what, asked in about.items())
    )


@contextmanager
def with_own(own: Sequence[Metric]) -> Iterator[None]:
    """Within it, images of known groups have these metrics from outside the package too."""
    before = _own.set(tuple(own))
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
    each = _registry.get(name.removesuffix(OF_EACH))
    return f"{each.title}, mean over classes" if each else name.replace("_", " ")


def needs_every_class(name: str) -> bool:
    """True of a metric that needs images of every class; of one's own metrics nothing else is known."""
    known = _registry.get(name) or _registry.get(f"{name}_macro")  # of one label
    return known is None or known.every_class


def better_low(name: str) -> bool:
    """True of a metric that is better when low; of one's own metrics the name says so."""
    known = _registry.get(name) or _registry.get(name.removesuffix(OF_EACH))
    return (
        known.better == "low"
        if known
        else name.endswith(("_error", "_cost", "_loss", "attack_success"))
    )
