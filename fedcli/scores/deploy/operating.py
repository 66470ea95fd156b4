"""Decisions for new images: thresholds that were chosen on a run's validation images.

They are those of its finished `evaluate --clinical` on the data at hand, or are chosen at once
where a class or a rule is asked for. The threshold of a client's own model is chosen on that
client's validation images.
"""

from collections.abc import Sequence
from itertools import product

from ... import console
from ...errors import UsageError
from ...runs.finished import FinishedRun
from ...runs.initial import data_of
from ..clinical import points as clinical
from ..clinical.chosen import OperatingPoint, chosen_here, chosen_points
from ..clinical_shape import positives


def points(
    run: FinishedRun,
    client: str | None,
    positive: Sequence[str] = (),
    rule: Sequence[str] = (),
    cost: float | None = None,
) -> list[OperatingPoint]:
    """The operating points of a run, or of a client's own model, for these classes and rules.

    cost: of a missed image in false alarms. Without any of them the points are those that were
    evaluated, if any. Raises FedcliError, UsageError.
    """
    is_requested = bool(positive or rule or cost is not None)
    if is_requested:
        several = run.data.test["clean"].y.ndim == 2
        names = positives(run.data.classes, positive, several=several)
        choices = list(product(names, clinical.rules(rule, cost)))
    else:
        evaluated = _evaluated(run)
        if client is None or not evaluated:
            return evaluated
        choices = []
        for point in evaluated:
            choices.append((point.positive, clinical.rule_of(point.rule, recorded=True)))
    images = clinical.validation(run, {}, client)
    if not len(images.y):
        _no_validation(client, is_requested)
        return []
    chosen = []
    without = []
    for name, way in choices:
        threshold = clinical.threshold(way, images.of(run.data.classes.index(name)))
        if threshold is None:
            without.append(name)
        else:
            title = clinical.titled(way)
            image_count = len(images.y)
            chosen.append(OperatingPoint(name, title, threshold, image_count, *_data(run)))
    for name in dict.fromkeys(without):
        console.warn(f"no threshold for {name}: the validation images are all of it, or none is")
    return chosen


def _no_validation(client: str | None, is_requested: bool) -> None:
    """Refuse a threshold that was requested, without images to choose it on; else warn."""
    if is_requested:
        whose = f"{client} has" if client else "the clients have"
        raise UsageError(
            f"{whose} no validation images, so no threshold can be chosen",
            "make the partition again with fedcli partition --val 0.2 and train, or leave "
            "--positive and --rule out",
        )
    console.warn(
        f"no operating points: {client} has no validation images that could choose its thresholds"
    )


def _evaluated(run: FinishedRun) -> list[OperatingPoint]:
    """The thresholds that finished evaluations chose on the data at hand.

    Those of other data are named and left out.
    """
    _, sha256 = _data(run)
    usable = []
    others = []
    for point in chosen_points(run.path):
        if point.positive not in run.data.classes:
            continue
        if point.sha256 == sha256:
            usable.append(point)
        else:
            others.append(point.source)
    if others and not usable:
        sources = console.listed(list(dict.fromkeys(others)))
        console.warn(
            f"no decision: thresholds were chosen on validation images of {sources} and are for "
            "these data alone; --positive and --rule choose one for the data at hand"
        )
    return usable


def _data(run: FinishedRun) -> tuple[str, str]:
    """Name and hash of the data whose validation images are at hand."""
    return chosen_here(run.path, run.images or data_of(run.path))
