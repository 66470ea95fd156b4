"""Decisions for new images: thresholds that were chosen on a run's validation images.

They are those of its finished `evaluate --clinical`, or are chosen at once where a class or a rule is asked for. The
threshold of a client's own model is chosen on that client's validation images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ... import console
from ...data import manifest
from ...errors import UsageError
from ...runs.finished import Run
from ..clinical import points as clinical
from ..clinical.shape import POOLED, check, positives, select
from ..existing import evaluations


@dataclass(frozen=True)
class OperatingPoint:
    """An image is called `positive` where its probability of it is at least the threshold.

    images: validation images that the threshold was chosen on.
    """

    positive: str
    rule: str
    threshold: float
    images: int

    @property
    def name(self) -> str:
        return f"{self.positive} at {self.rule}"

    @property
    def recorded(self) -> dict[str, Any]:
        """For json."""
        return {**vars(self), "chosen_on": "validation"}

    def decide(self, chances: np.ndarray, classes: Sequence[str]) -> list[bool]:
        """Of probabilities [N, C]."""
        return (chances[:, classes.index(self.positive)] >= self.threshold).tolist()


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
            chosen.append(OperatingPoint(name, clinical.titled(way), threshold, len(images.y)))
    for name in without:
        console.warn(f"no threshold for {name}: the validation images are all of it, or none is")
    return chosen


def _evaluated(run: Run) -> list[OperatingPoint]:
    """The pooled thresholds of every finished `evaluate --clinical` of this run, each once."""
    digest, chosen = manifest.sha256(run.path), dict[tuple[str, str], OperatingPoint]()
    for path, known in evaluations(run.path.parent / "scores"):
        if "clinical" in known.options and digest in known.parents.values():
            described = check(manifest.verify(path, "scores").body.get("clinical"), path)
            for (name, version), each in select(described, "classes/*/*/operating/*"):
                threshold = each["thresholds"].get("")
                usable = (
                    version == "clean" and each["choice"] == POOLED and name in run.data.classes
                )
                if usable and threshold is not None:
                    point = OperatingPoint(name, each["rule"], threshold, described["validation"])
                    chosen[name, each["rule"]] = point
    return list(chosen.values())
