"""Metrics of one's own: a function of probabilities, labels and groups, with intervals and groups as all scores have.

    function(probabilities float64 [N, C], labels int [N], groups: attribute -> the value of each image [N]) -> number

Of several labels per image the labels are [N, C] of 0, 1, and 2 where it is not known.

One whose name ends in _error, _cost or _loss is better when low. It is called for each model and set of images that has
scores: a version, a group, a client; and once more in each resample of the patients.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import extensions, metrics
from ..errors import FedcliError, UsageError, nearest
from ..provenance import Code

Values = dict[str, np.ndarray]  # attribute -> the value of each image, "" where it is unknown
Function = Callable[[np.ndarray, np.ndarray, Values], float]


@dataclass(frozen=True, kw_only=True)
class OwnMetric(metrics.Metric):
    """A metric with its name in tables. code: where its function comes from."""

    code: Code


def is_own(name: str) -> bool:
    """True of a word that names a metric from outside the package."""
    return extensions.is_file(name) or (
        not is_taken(name) and extensions.offered("metrics", name) is not None
    )


def is_taken(name: str) -> bool:
    """True of the name of a metric of fedcli."""
    return name in metrics.METRICS or name.startswith(metrics.PARITY)


def named(name: str) -> OwnMetric:
    """A metric by PATH.py, PATH.py:FUNCTION or the name that a package gives it. Raises FedcliError, UsageError."""
    if extensions.is_file(name):
        function, code = extensions.function(name, "metrics")
        name = function.__name__
    elif offered := extensions.offered("metrics", name):
        function, code = offered
    else:
        known = ["./mine.py", *extensions.packages("metrics")]
        raise UsageError(f"no metric of one's own is called {name!r}", nearest(name, known))
    if is_taken(name):
        raise UsageError(
            f"fedcli has a metric {name!r} already", f"give the function of {code} another name"
        )
    about = "from outside the package"
    return OwnMetric(
        name,
        metrics.title(name),
        about,
        (),
        partial(_value, function, f"{code}: {name}"),
        code=code,
    )


def _value(function: Function, name: str, sums: Any) -> np.ndarray:
    """In each set of weights [B], NaN for no image, and where the function returns NaN or None."""
    plan, images = sums.plan, np.arange(len(sums.plan.y))
    values = {
        attribute: np.array([names[g] if g >= 0 else "" for g in places], dtype=object)
        for attribute, (places, names) in plan.groupings.items()
    }
    chosen = (
        [images] if sums.weights is None else (np.repeat(images, times) for times in sums.weights.T)
    )
    answers = (
        function(
            plan.chance[at],
            plan.y[at],
            {attribute: column[at] for attribute, column in values.items()},
        )
        if len(at)
        else None
        for at in chosen
    )
    return np.array([_number(answer, name) for answer in answers])


def _number(answer: Any, name: str) -> float:
    """NaN for None and what is not finite. Raises FedcliError for what is no number."""
    try:
        number = np.nan if answer is None else float(answer)
    except (TypeError, ValueError):
        what = f"{name} returned a {type(answer).__name__}, not a number"
        raise FedcliError(what, "return a float, or None where it has no meaning") from None
    return number if np.isfinite(number) else np.nan


@contextmanager
def asked_for(names: Sequence[str]) -> Iterator[list[str]]:
    """Within it, runs are scored by these metrics too; gives their names in tables."""
    asked = {own.name: own for own in map(named, names)}
    with metrics.with_own(list(asked.values())):
        yield list(asked)


def recorded() -> dict[str, Any]:
    """Their record in the options of scores; {} where none is asked for."""
    codes = {own.name: own.code.recorded for own in metrics.own() if isinstance(own, OwnMetric)}
    return {"metrics": codes} if codes else {}
