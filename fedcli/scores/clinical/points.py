"""Operating points, calibration and conformal sets: what a clinic asks of a model beside how well it ranks.

Thresholds, temperature and quantiles are chosen on the clients' validation images, never on test images, and carried to
the test images: from all clients together (pooled), from each client for its own test part, or from each group of an
attribute for its members.

Sources: temperature scaling: Guo et al., ICML 2017, arXiv 1706.04599. Split conformal sets with the score 1 - p of the
true class: Sadinle, Lei and Wasserman, JASA 114, 2019; by group: Mondrian sets, Vovk et al., Algorithmic Learning in a
Random World, 2005, chapter 4. Quadratic kappa: Cohen, Psychol. Bull. 70, 1968. Matthews correlation of several classes:
Gorodkin, Comput. Biol. Chem. 28, 2004.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from typing import Any

import numpy as np

from ...errors import UsageError
from ...metrics import (
    Grouping,
    Groupings,
    Task,
    calibration_error,
    chances,
    groupings_at,
    probabilities,
)
from ...metrics.parity import decided, parity
from ...runs import finished as runs
from ...runs.finished import Run
from ..facts import Images
from ..statistics import permutation
from . import binary
from .shape import BEFORE_AFTER, CLIENT, POOLED

RULES = (
    ("youden", None),
    ("sensitivity", 0.9),
    ("sensitivity", 0.95),
    ("specificity", 0.8),
    ("specificity", 0.9),
    ("specificity", 0.95),
)
TESTED = (
    "balanced_accuracy",
    "auc_ovo_macro",
    "balanced_accuracy_macro",
    "auc_macro",
)  # gaps in them
LEVEL = 0.9  # of conformal sets
Rule = tuple[str, float | None]
Facts = dict[str, Any]  # numbers by name, of one of the shapes in shape.py


@dataclass(frozen=True)
class Seen:
    """Some images as the last round's model sees them.

    Attributes:
        logits: [N, C]. y: [N], or [N, L] of several labels per image.
        groupings: attribute -> place of each image's group [N], -1 unknown, and the groups' names.
        client: [N], place in the roster of the client whose image it is, -1 of none. roster: the clients' names.
    """

    logits: np.ndarray
    y: np.ndarray
    groupings: Groupings
    client: np.ndarray
    roster: Sequence[str] = ()

    @property
    def chances(self) -> np.ndarray:
        return chances(self.logits, self.y)

    def of(self, c: int) -> "Seen":
        """The same for one class: y is 1 for it and logits are its probability [n]; without images of which a label
        is not known."""
        at, label = Task.of(self.y).of_class(self.y, c)
        return Seen(
            self.chances[at, c],
            label,
            groupings_at(self.groupings, at),
            self.client[at],
            self.roster,
        )

    def divided(self, choice: str) -> Grouping:
        """The place of each image in the division that a choice of thresholds makes [N], and the parts' names."""
        return (self.client, list(self.roster)) if choice == CLIENT else self.groupings[choice]


def rules(asked: Sequence[str], cost: float | None) -> list[Rule]:
    """The rules asked for, such as "sensitivity=0.95", else all, and that of a cost. Raises UsageError."""
    if cost is not None and not 0 < cost < inf:
        hint = "give how many false alarms a missed image of the class costs"
        raise UsageError(f"--cost {cost} is not above 0", hint)
    chosen = [rule_of(text) for text in asked] or list(RULES)
    return [*dict.fromkeys(chosen), *([("cost", cost)] if cost else [])]


def titled(rule: Rule) -> str:
    """A rule as it is typed and recorded."""
    name, value = rule
    return name if value is None else f"{name}={value:g}"


def rule_of(text: str, *, recorded: bool = False) -> Rule:
    """The inverse of titled(). recorded: it may be of a cost too, which is not typed as a rule. Raises UsageError."""
    name, _, value = text.partition("=")
    if text == "youden":
        return text, None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    most = {"sensitivity": 1.0, "specificity": 1.0, "cost": inf if recorded else 0.0}.get(name, 0.0)
    if not 0 < number < most:
        raise UsageError(
            f"--rule {text!r} is none", "write youden, sensitivity=0.95 or specificity=0.9"
        )
    return name, number


def scores(
    run: Run,
    tables: Mapping[str, np.ndarray],
    tested: Images,
    names: Sequence[str],
    wanted: Sequence[Rule],
) -> Facts:
    """Everything about the last round's logits [N, C] of each version of the test images, as shape.SHAPE."""
    y, groupings, classes, roster = tested.y, tested.groupings, tested.classes, run.data.roster
    owner = np.full(len(y), -1)
    for place, client in enumerate(roster):
        owner[run.data.client_test[client]] = place
    tests = {version: Seen(table, y, groupings, owner, roster) for version, table in tables.items()}
    chosen = validation(run, {name: values for name, (_, values) in groupings.items()})
    single = tests if y.ndim == 1 else {}  # of several labels per image there is no one decision
    both = single if len(chosen.y) and len(y) else {}
    units = np.arange(len(y)) if tested.units is None else tested.units
    return {
        "validation": len(chosen.y),
        "classes": {
            name: {
                v: _class(classes.index(name), seen, chosen, wanted) for v, seen in tests.items()
            }
            for name in names
        },
        "agreement": {
            v: agreement(seen.logits.argmax(1), y, len(classes)) for v, seen in single.items()
        },
        "temperature": {v: scaled(chosen, seen) for v, seen in both.items()},
        "conformal": {v: list(conformal(chosen, seen)) for v, seen in both.items()},
        "gaps": {
            name: {
                v: permutation.gaps(table, y, units, grouping, TESTED)
                for v, table in tables.items()
            }
            for name, grouping in groupings.items()
        },
        "subgroups": {
            v: permutation.subgroups(seen.logits.argmax(1) == y, units, groupings)
            for v, seen in single.items()
        },
    }


def validation(
    run: Run,
    values: dict[str, list[str]],
    client: str | None = None,
    round: int | str | None = None,
) -> Seen:
    """The clients' validation images, by the global model, or each client's own where all trained alone.

    values: attribute -> its groups; of the attributes that these images have. client: its images by its own model.
    round: a kept one; default: the last.
    """
    whose = run.data.roster if client is None else [client]
    parts = {name: run.data.val[name] for name in whose if len(run.data.val.get(name, ()))}
    if not parts:
        y = run.data.test["clean"].y.cpu().numpy()[:0]
        return Seen(np.zeros((0, len(run.data.classes))), y, {}, np.zeros(0, np.int64))
    alone, last = runs.trains_alone(run), run.rounds[-1] if round is None else round
    logits = [
        runs.predict(run, last, shard, name if alone or client else None)
        for name, shard in parts.items()
    ]
    known = [name for name in values if all(name in shard.groups for shard in parts.values())]
    columns = {
        name: np.concatenate([shard.groups[name].cpu().numpy() for shard in parts.values()])
        for name in known
    }
    owner = [np.full(len(shard), run.data.roster.index(name)) for name, shard in parts.items()]
    y = np.concatenate([shard.y.cpu().numpy() for shard in parts.values()])
    groupings = {name: (columns[name], values[name]) for name in known}
    return Seen(np.concatenate(logits), y, groupings, np.concatenate(owner), run.data.roster)


def _class(c: int, images: Seen, chosen: Seen, wanted: Sequence[Rule]) -> Facts:
    """One class against all others on one version of the test images."""
    images, chosen = images.of(c), chosen.of(c)
    described = _by_part(lambda at, *_: describe(images.logits[at], images.y[at]), images)
    return described | {
        "operating": list(_operating(images, chosen, wanted)) if len(chosen.y) else []
    }


def _by_part(of: Callable[[np.ndarray, str, str], Any], images: Seen) -> Facts:
    """Of all images, of those of each group, and of those of each client that has any.

    of: called with the images' marks [N], the attribute or CLIENT and the group's or client's name, "" for all.
    """
    groups = {
        attribute: {name: of(place == k, attribute, name) for k, name in enumerate(names)}
        for attribute, (place, names) in images.groupings.items()
    }
    owners = {name: images.client == k for k, name in enumerate(images.roster)}
    clients = {name: of(at, CLIENT, name) for name, at in owners.items() if at.any()}
    return {
        "overall": of(np.ones(len(images.y), bool), "", ""),
        "groups": groups,
        "clients": clients,
    }


def _carried(
    choose: Callable[[Any], float | None], pooled: float, choice: str, chosen: Seen, images: Seen
) -> tuple[dict[str, float | None], np.ndarray]:
    """The limits of a choice by member, "" of all together, and that of each test image [N].

    choose: the limit for marked validation images; where there is none, the pooled one, which is of all, stands in.
    """
    limits: dict[str, float | None]
    limits, limit = {"": pooled}, np.full(len(images.y), pooled)
    if choice != POOLED:
        (place, names), (where, _) = chosen.divided(choice), images.divided(choice)
        for k, name in enumerate(names):
            limits[name] = own = choose(place == k)
            limit[where == k] = pooled if own is None else own
    return limits, limit


def _operating(images: Seen, chosen: Seen, wanted: Sequence[Rule]) -> Iterator[Facts]:
    """images, chosen: Seen.of() one class."""
    by_client = [CLIENT] if (images.client >= 0).any() else []
    for rule in wanted:
        choose = partial(threshold, rule, chosen)
        if (
            pooled := threshold(rule, chosen)
        ) is None:  # the validation images are all of this class, or none is
            continue
        for choice in (POOLED, *by_client, *chosen.groupings):
            limits, limit = _carried(choose, pooled, choice, chosen, images)
            yield {"rule": titled(rule), "choice": choice} | _at(
                choice, limits, images.logits >= limit, images
            )


def threshold(rule: Rule, images: Seen, at: Any = slice(None)) -> float | None:
    """The threshold that a rule chooses on marked images, which are Seen.of() one class."""
    return binary.threshold_of(*rule, images.logits[at], images.y[at])


def _at(choice: str, limits: dict[str, float | None], called: np.ndarray, images: Seen) -> Facts:
    """Rates of all images and of each part at the limits of a choice, above which images are called positive [N]."""

    def point(at: np.ndarray, attribute: str, name: str) -> Facts:
        return binary.point(
            called[at],
            images.y[at] == 1,
            limits.get(name if attribute == choice else "", limits[""]),
        )

    differences = {
        attribute: parity(decided(called.astype(np.int64), images.y, place, 2, len(names)))
        for attribute, (place, names) in images.groupings.items()
    }
    return {"thresholds": limits, **_by_part(point, images), "differences": differences}


def describe(score: np.ndarray, label: np.ndarray) -> Facts:
    """Quality and honesty of probabilities [N] of one class; labels [N] are 1 for it."""
    off, resolution, uncertainty = binary.brier_parts(score, label) or (None, None, None)
    slope, intercept = binary.calibration_line(score, label) or (None, None)
    return {
        "count": len(score),
        "positives": int(label.sum()),
        "prevalence": float(label.mean()) if len(label) else None,
        "average_precision": binary.average_precision(score, label),
        "sensitivity_at_specificity_95": binary.sensitivity_at(0.95, score, label),
        "brier": binary.brier(score, label),
        "brier_reliability": off,
        "brier_resolution": resolution,
        "brier_uncertainty": uncertainty,
        "calibration_slope": slope,
        "calibration_intercept": intercept,
        "integrated_calibration_index": binary.calibration_index(score, label),
        "bins": [list(part) for part in binary.reliability(score, label)],
        "net_benefit": [list(line) for line in binary.net_benefit(score, label)],
    }


def scaled(chosen: Seen, images: Seen) -> Facts:
    """Temperature, and test scores before and after logits are divided by it."""
    divisor = temperature(chosen)
    right, at = images.logits.argmax(1) == images.y, np.arange(len(images.y))
    truth = np.eye(images.logits.shape[1])[images.y]

    def measured(logits: np.ndarray) -> tuple[float, float | None, float]:
        p = probabilities(logits)
        error = calibration_error(p[at, p.argmax(1)], right)
        return _likelihood(logits, images.y), error, float(((p - truth) ** 2).sum(1).mean())

    both = measured(images.logits.astype(np.float64)), measured(images.logits / divisor)
    return {
        "temperature": divisor,
        **dict(zip(BEFORE_AFTER, map(list, zip(*both, strict=True)), strict=True)),
    }


def temperature(chosen: Seen) -> float:
    """The number by which logits are divided so that the labels of validation images are most likely."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return _likelihood(chosen.logits / np.exp(log_temperature), chosen.y)

    return float(
        np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8}).x)
    )


def _likelihood(logits: np.ndarray, y: np.ndarray) -> float:
    chance = probabilities(logits)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(chance, np.finfo(float).tiny)).mean())


def conformal(chosen: Seen, images: Seen) -> Iterator[Facts]:
    """Sets by one quantile, and by one for each group of an attribute."""
    score, images = (
        1 - chosen.chances[np.arange(len(chosen.y)), chosen.y],
        replace(images, roster=()),
    )
    for choice in (POOLED, *chosen.groupings):
        limits, limit = _carried(
            lambda at: quantile(score[at]), quantile(score), choice, chosen, images
        )
        covered = _covered(1 - images.chances <= limit[:, None], images)
        yield {"level": LEVEL, "choice": choice, "quantiles": limits} | covered


def _covered(inside: np.ndarray, images: Seen) -> Facts:
    """inside: [N, C], the classes in each image's set."""
    covered, size = inside[np.arange(len(images.y)), images.y], inside.sum(1)
    coverage = _by_part(lambda at, *_: binary.rate(int(covered[at].sum()), int(at.sum())), images)
    sizes = _by_part(lambda at, *_: float(size[at].mean()) if at.any() else None, images)
    return {
        "coverage": coverage["overall"],
        "groups": coverage["groups"],
        "set_size": sizes["overall"],
        "set_sizes": sizes["groups"],
    }


def quantile(score: np.ndarray) -> float:
    """The ceil((n + 1) LEVEL)-th smallest score; 1, which lets every class into a set, where there are too few."""
    k = ceil((len(score) + 1) * LEVEL)
    return float(np.sort(score)[k - 1]) if k <= len(score) else 1.0


def agreement(guess: np.ndarray, y: np.ndarray, classes: int) -> Facts:
    """Matthews correlation and quadratic kappa of decisions [N] against labels [N]; None where one is constant."""
    table = (
        np.bincount(y * classes + guess, minlength=classes**2)
        .reshape(classes, classes)
        .astype(float)
    )
    true, predicted, n = table.sum(1), table.sum(0), table.sum()
    spread = (n * n - (true**2).sum()) * (n * n - (predicted**2).sum())
    weight = (np.arange(classes)[:, None] - np.arange(classes)) ** 2
    expected = (weight * np.outer(true, predicted)).sum() / n if n else 0.0
    return {
        "matthews_correlation": float((table.trace() * n - true @ predicted) / spread**0.5)
        if spread > 0
        else None,
        "quadratic_kappa": float(1 - (weight * table).sum() / expected) if expected else None,
    }
