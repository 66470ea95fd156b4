"""Decisions for new images: thresholds that were chosen on a run's validation images.

They are those of its finished `evaluate --clinical` on the data at hand, or are chosen at once where a class or a rule
is asked for. The threshold of a client's own model is chosen on that client's validation images.
"""

from collections.abc import Sequence
from itertools import product

from ... import console
from ...errors import UsageError
from ...runs.finished import Run
from ...runs.initial import data_of
from ..clinical import points as clinical
from ..clinical.chosen import OperatingPoint, chosen_here, chosen_points
from ..clinical_shape import positives


def points(
    run: Run,
    client: str | None,
    positive: Sequence[str] = (),
    rule: Sequence[str] = (),
    cost: float | None = None,
) -> list[OperatingPoint]:
    """The operating points of a run, or of a client's own model, for these classes and rules, and for the cost of a
    missed image in false alarms; else those that were evaluated, if any.

    Raises FedcliError, UsageError.
    """
    if asked := bool(positive or rule or cost is not None):
        names = positives(run.data.classes, positive, several=run.data.test["clean"].y.ndim == 2)
        wanted = [*product(names, clinical.rules(rule, cost))]
    else:
        evaluated = _evaluated(run)
        if client is None or not evaluated:
            return evaluated
        wanted = [
            (point.positive, clinical.rule_of(point.rule, recorded=True)) for point in evaluated
        ]
    images = clinical.validation(run, {}, client)
    if not len(images.y) and asked:
        whose = f"{client} has" if client else "the clients have"
        hint = "make the partition again with fedcli partition --val 0.2 and train, or leave --positive and --rule out"
        raise UsageError(f"{whose} no validation images, so no threshold can be chosen", hint)
    if not len(images.y):
        console.warn(
            f"no operating points: {client} has no validation images that could choose its thresholds"
        )
        return []
    chosen, without = [], dict[str, None]()
    for name, way in wanted:
        threshold = clinical.threshold(way, images.of(run.data.classes.index(name)))
        if threshold is None:
            without[name] = None
        else:
            rule_text = clinical.titled(way)
            chosen.append(OperatingPoint(name, rule_text, threshold, len(images.y), *_data(run)))
    for name in without:
        console.warn(f"no threshold for {name}: the validation images are all of it, or none is")
    return chosen


def _evaluated(run: Run) -> list[OperatingPoint]:
    """The thresholds that finished evaluations chose on the data at hand; those of other data are named and left out."""
    _, here = _data(run)
    known = [point for point in chosen_points(run.path) if point.positive in run.data.classes]
    usable = [point for point in known if point.sha256 == here]
    others = dict.fromkeys(point.source for point in known if point.sha256 != here)
    if others and not usable:
        whose = console.listed(list(others))
        console.warn(
            f"no decision: thresholds were chosen on validation images of {whose} and are for these data "
            "alone; --positive and --rule choose one for the data at hand"
        )
    return usable


def _data(run: Run) -> tuple[str, str]:
    """Name and hash of the data whose validation images are at hand."""
    return chosen_here(run.path, run.images or data_of(run.path))
