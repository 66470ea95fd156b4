"""Parts of fedcli that a method can be trained with: an add-on, clients alone, DP-SGD, secure aggregation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import UsageError


class Fit(NamedTuple):
    """One thing that a method fits or not; why: the reason where it does not."""

    what: str
    fits: bool
    why: str


def fits(method: Any) -> list[Fit]:
    """Everything that a method can or cannot be trained with, by the checks that `train` makes itself."""
    from ..federation.engines import found
    from ..methods import resolve
    from ..runs.rules import UNCOVERED
    from ..runs.train_options import TrainOptions

    alone = method.local.works_without_server and method.aggregator.works_without_server
    fits = [Fit("--single-site", alone, "" if alone else "its clients need what others send")]
    private = UNCOVERED.found(TrainOptions(), method, {})
    fits.append(Fit("--dp-sgd", not private, UNCOVERED.sentence.format(m=method) if private else ""))
    secagg: Any = found("flower-secagg")
    fits.append(_tried("--engine flower-secagg:DIR", lambda: secagg.check(method, 0)))
    if "+" in method.name:
        return fits
    as_base = _tried("an add-on, as in BASE+ADDON", lambda: resolve(f"{method.typed}+fedheal"))
    as_addon = _tried("a base method, as its add-on", lambda: resolve(f"fedprox+{method.typed}"))
    return [as_base, as_addon, *fits]


def _tried(what: str, check: Callable[[], object]) -> Fit:
    try:
        check()
    except UsageError as error:
        return Fit(what, False, error.sentence)
    return Fit(what, True, "")
