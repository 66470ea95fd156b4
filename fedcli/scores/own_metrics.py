"""Metrics of one's own, with intervals and groups as all scores have.

    function(probabilities float64 [N, C], labels int [N],
             groups: attribute -> the value of each image [N]) -> number

Of several labels per image the labels are [N, C] of 0, 1, and 2 where it is not known.

One whose name ends in _error, _cost or _loss is better when low. It is called for each model and
set of images that has scores: a version, a group, a client; and once more in each resample of the
patients.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import extensions, metrics
from ..errors import FedcliError, UsageError, nearest
from ..metrics.metric import PROBABILITIES
from ..provenance import Code

Array = np.ndarray
Values = dict[str, Array]  # attribute -> the value of each image, "" where it is unknown
Function = Callable[[Array, Array, Values], float]


@dataclass(frozen=True, kw_only=True)
class OwnMetric(metrics.Metric):
    """A metric with its name in tables. code: where its function comes from; typed: its name as
    named() reads it.
    """

    code: Code
    typed: str


def is_own(name: str) -> bool:
    """True of a word that names a metric from outside the package."""
    if extensions.is_file(name):
        return True
    return not is_taken(name) and extensions.offered("metrics", name) is not None


def is_taken(name: str) -> bool:
    """True of the name of a metric of fedcli."""
    return name in metrics.METRICS or name.startswith(metrics.PARITY)


def named(name: str) -> OwnMetric:
    """A metric by PATH.py, PATH.py:FUNCTION or the name that a package gives it.

    Raises FedcliError, UsageError.
    """
    typed = name
    if extensions.is_file(name):
        function, code = extensions.function(name, "metrics")
        name = function.__name__
    else:
        offered = extensions.offered("metrics", name)
        if not offered:
            names = ["./mine.py", *extensions.packages("metrics")]
            raise UsageError(f"no metric of one's own is called {name!r}", nearest(name, names))
        function, code = offered
    if is_taken(name):
        hint = f"give the function of {code} another name"
        raise UsageError(f"fedcli has a metric {name!r} already", hint)
    value = partial(_value, function, f"{code}: {name}")
    return OwnMetric(
        name,
        metrics.title(name),
        "from outside the package",
        (),
        value,
        sees=PROBABILITIES,
        code=code,
        typed=typed,
    )


def _value(function: Function, name: str, sums: Any) -> Array:
    """The metric in each set of weights [B]; NaN for no image and for None."""
    plan = sums.plan
    images = np.arange(len(plan.y))
    values: Values = {}
    for attribute, (codes, groups) in plan.groupings.items():
        words = [*groups, ""]  # the last stands for an unknown one, -1
        values[attribute] = np.array([words[code] for code in codes], dtype=object)
    resamples: Iterable[Array] = [images]
    if sums.weights is not None:
        resamples = (np.repeat(images, times) for times in sums.weights.T)
    numbers = []
    for members in resamples:
        answer = None
        if len(members):
            of_members = {attribute: column[members] for attribute, column in values.items()}
            answer = function(plan.chance[members], plan.y[members], of_members)
        numbers.append(_number(answer, name))
    return np.array(numbers)


def _number(answer: Any, name: str) -> float:
    """A metric's answer, NaN for None and what is not finite. Raises FedcliError for no number."""
    try:
        number = np.nan if answer is None else float(answer)
    except (TypeError, ValueError):
        fault = f"{name} returned a {type(answer).__name__}, not a number"
        raise FedcliError(fault, "return a float, or None if it has no meaning") from None
    return number if np.isfinite(number) else np.nan


@contextmanager
def asked_for(names: Sequence[str]) -> Iterator[list[str]]:
    """Within it, runs are scored by these metrics too; gives their names in tables."""
    by_name = {}
    for name in names:
        metric = named(name)
        by_name[metric.name] = metric
    with metrics.with_own(list(by_name.values())):
        yield list(by_name)


def names() -> list[str]:
    """The names of these metrics as they were typed; none where none is asked for."""
    return [metric.typed for metric in metrics.own() if isinstance(metric, OwnMetric)]


def recorded() -> dict[str, Any]:
    """The record of these metrics in the options of scores; {} where none is asked for."""
    codes = {}
    for metric in metrics.own():
        if isinstance(metric, OwnMetric):
            codes[metric.name] = metric.code.recorded
    return {"metrics": codes} if codes else {}
