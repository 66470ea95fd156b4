"""Operating points, calibration and conformal sets: what a clinic asks of a model beside how well it ranks.

Thresholds, temperature and quantiles are chosen on the clients' validation images, never on test images, and carried to
the test images: from all clients together (pooled), from each client for its own test part, or from each group of an
attribute for its members.

Sources: temperature scaling: Guo et al., ICML 2017, arXiv 1706.04599. Split conformal sets with the score 1 - p of the
true class: Sadinle, Lei and Wasserman, JASA 114, 2019; by group: Mondrian sets, Vovk et al., Algorithmic Learning in a
Random World, 2005, chapter 4. Quadratic kappa: Cohen, Psychol. Bull. 70, 1968. Matthews correlation of several classes:
Gorodkin, Comput. Biol. Chem. 28, 2004.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..errors import UsageError
from ..metrics import Groupings, Task, calibration_error, chances, groupings_at, probabilities
from ..metrics.parity import decided, parity
from ..runs import finished as runs
from ..runs.finished import Run
from . import binary, permutation
from .clinical_parts import (
    CLIENT,
    POOLED,
    Agreement,
    Clinical,
    Covered,
    Described,
    OfClass,
    Operating,
    Point,
    Rate,
    Scaled,
)

RULES = (
    ("youden", None), ("sensitivity", 0.9), ("sensitivity", 0.95),
    ("specificity", 0.8), ("specificity", 0.9), ("specificity", 0.95),
)  # fmt: skip
TESTED = "balanced_accuracy", "auc_ovo_macro", "balanced_accuracy_macro", "auc_macro"  # gaps in them
LEVEL = 0.9  # of conformal sets
Grouping = tuple[np.ndarray, list[str]]
Rule = tuple[str, float | None]


@dataclass(frozen=True)
class Images:
    """Some images as the last round's model sees them.

    Attributes:
        logits: [N, C]. y: [N], or [N, L] of several labels per image.
        groupings: attribute -> place of each image's group [N], -1 unknown, and the groups' names.
        client: [N], place in the roster of the client whose image it is, -1 of none.
    """

    logits: np.ndarray
    y: np.ndarray
    groupings: Groupings
    client: np.ndarray

    @property
    def chances(self) -> np.ndarray:
        return chances(self.logits, self.y)

    def of(self, c: int) -> "Images":
        """The same for one class: y is 1 for it and logits are its probability [n]; without images of which a label
        is not known."""
        at, label = Task.of(self.y).of_class(self.y, c)
        return Images(self.chances[at, c], label, groupings_at(self.groupings, at), self.client[at])

    def members(self, choice: str, roster: Sequence[str]) -> Grouping:
        """The division that a choice of thresholds makes."""
        return (self.client, list(roster)) if choice == CLIENT else self.groupings[choice]


def rules(asked: Sequence[str], cost: float | None) -> list[Rule]:
    """The rules asked for, such as "sensitivity=0.95", else all, and that of a cost. Raises UsageError."""
    if cost is not None and not 0 < cost < float("inf"):
        raise UsageError(
            f"--cost {cost} is not above 0", "give how many false alarms a missed image of the class costs"
        )
    chosen = [_rule(text) for text in asked] or list(RULES)
    return [*dict.fromkeys(chosen), *([("cost", cost)] if cost else [])]


def titled(rule: Rule) -> str:
    """A rule as it is typed and recorded."""
    name, value = rule
    return name if value is None else f"{name}={value:g}"


def _rule(text: str) -> Rule:
    name, _, value = text.partition("=")
    if text == "youden":
        return text, None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if name not in ("sensitivity", "specificity") or not 0 < number < 1:
        raise UsageError(f"--rule {text!r} is none", "write youden, sensitivity=0.95 or specificity=0.9")
    return name, number


def scores(
    run: Run, tables: dict[str, np.ndarray], groupings: dict[str, Grouping], names: list[str], wanted: list[Rule]
) -> Clinical:
    """Everything about the last round's logits [N, C] of each version of the test images."""
    y = run.data.test["clean"].y.cpu().numpy()
    owner = np.full(len(y), -1)
    for place, client in enumerate(run.data.roster):
        owner[run.data.client_test[client]] = place
    tests = {version: Images(table, y, groupings, owner) for version, table in tables.items()}
    chosen = validation(run, {name: values for name, (_, values) in groupings.items()})
    roster = run.data.roster
    single = tests if y.ndim == 1 else {}  # of several labels per image there is no one decision
    units = run.data.test_patients if run.data.test_patients is not None else np.arange(len(y))
    return Clinical(
        len(chosen.y),
        {
            name: {
                version: _class(run.data.classes.index(name), images, chosen, roster, wanted)
                for version, images in tests.items()
            }
            for name in names
        },
        {version: agreement(images.logits.argmax(1), y, len(run.data.classes)) for version, images in single.items()},
        {version: scaled(chosen, images) for version, images in single.items() if len(chosen.y) and len(y)},
        {version: list(_conformal(chosen, images)) for version, images in single.items() if len(chosen.y) and len(y)},
        {
            name: {version: permutation.gaps(table, y, units, grouping, TESTED) for version, table in tables.items()}
            for name, grouping in groupings.items()
        },
        {v: permutation.subgroups(images.logits.argmax(1) == y, units, groupings) for v, images in single.items()},
    )


def validation(
    run: Run, values: dict[str, list[str]], client: str | None = None, round: int | str | None = None
) -> Images:
    """The clients' validation images, by the global model, or each client's own where all trained alone.

    values: attribute -> its groups; of the attributes that these images have. client: its images by its own model.
    round: a kept one; default: the last.
    """
    whose = run.data.roster if client is None else [client]
    parts = {name: run.data.val[name] for name in whose if len(run.data.val.get(name, ()))}
    if not parts:
        y = run.data.test["clean"].y.cpu().numpy()[:0]
        return Images(np.zeros((0, len(run.data.classes))), y, {}, np.zeros(0, np.int64))
    alone, last = runs.trains_alone(run), run.rounds[-1] if round is None else round
    logits = [runs.predict(run, last, shard, name if alone or client else None) for name, shard in parts.items()]
    known = [name for name in values if all(name in shard.groups for shard in parts.values())]
    columns = {name: np.concatenate([shard.groups[name].cpu().numpy() for shard in parts.values()]) for name in known}
    owner = [np.full(len(shard), run.data.roster.index(name)) for name, shard in parts.items()]
    y = np.concatenate([shard.y.cpu().numpy() for shard in parts.values()])
    groupings = {name: (columns[name], values[name]) for name in known}
    return Images(np.concatenate(logits), y, groupings, np.concatenate(owner))


def _class(c: int, images: Images, chosen: Images, roster: Sequence[str], wanted: list[Rule]) -> OfClass:
    images, chosen = images.of(c), chosen.of(c)
    score, label = images.logits, images.y

    def each(of: Callable[[np.ndarray], object], grouping: Grouping, empty: bool) -> dict:
        place, names = grouping
        return {name: of(place == k) for k, name in enumerate(names) if empty or (place == k).any()}

    def describe(at: np.ndarray) -> Described:
        return described(score[at], label[at])

    operating = list(_operating(images, chosen, roster, wanted)) if len(chosen.y) else []
    return OfClass(
        described(score, label),
        {name: each(describe, grouping, True) for name, grouping in images.groupings.items()},
        each(describe, (images.client, list(roster)), False),
        operating,
    )


def _operating(images: Images, chosen: Images, roster: Sequence[str], wanted: list[Rule]) -> Iterator[Operating]:
    """images, chosen: Images.of() one class."""
    score, label, from_score, from_label = images.logits, images.y, chosen.logits, chosen.y
    by_client = [CLIENT] if (images.client >= 0).any() else []
    for rule, value in wanted:
        pooled = binary.threshold_of(rule, value, from_score, from_label)
        if pooled is None:  # the validation images are all of this class, or none is
            continue
        for choice in (POOLED, *by_client, *chosen.groupings):
            limits: dict[str, float | None] = {"": pooled}
            at_image = np.full(len(score), pooled)  # [N]
            if choice != POOLED:
                (place, names), (where, _) = chosen.members(choice, roster), images.members(choice, roster)
                for k, name in enumerate(names):
                    at = place == k
                    limits[name] = own = binary.threshold_of(rule, value, from_score[at], from_label[at])
                    at_image[where == k] = pooled if own is None else own
            yield _at(titled((rule, value)), choice, limits, images, roster, score - at_image, label)


def _at(
    rule: str, choice: str, limits: dict[str, float | None], images: Images, roster: Sequence[str], above: np.ndarray,
    label: np.ndarray,
) -> Operating:  # fmt: skip
    """above: score minus the image's threshold [N]."""

    def point(at: np.ndarray, name: str) -> Point:
        return _point(binary.Counts.at(above[at], label[at], 0.0), limits.get(name, limits[""]))

    groups, differences = {}, {}
    for attribute, (place, names) in images.groupings.items():
        own = attribute == choice
        groups[attribute] = {name: point(place == k, name if own else "") for k, name in enumerate(names)}
        differences[attribute] = parity(decided((above >= 0).astype(np.int64), label, place, 2, len(names)))
    clients = {
        name: point(images.client == k, name if choice == CLIENT else "")
        for k, name in enumerate(roster)
        if (images.client == k).any()
    }
    everyone = np.ones(len(label), bool)
    return Operating(rule, choice, limits, point(everyone, ""), groups, clients, differences)


def _point(counts: binary.Counts, threshold: float | None) -> Point:
    rates = {name: rate(*pair) for name, pair in counts.rates.items()}
    return Point(threshold, **rates, selected=rate(*counts.selected), matthews_correlation=counts.matthews)


def rate(counted: int, total: int) -> Rate:
    return Rate(binary.share(counted, total), *binary.wilson(counted, total), counted, total)


def described(score: np.ndarray, label: np.ndarray) -> Described:
    """Of probabilities [N] of one class and labels [N], 1 for it."""
    parts, line = binary.brier_parts(score, label), binary.calibration_line(score, label)
    off, resolution, uncertainty = parts if parts else (None, None, None)
    slope, intercept = line if line else (None, None)
    return Described(
        len(score), int(label.sum()), float(label.mean()) if len(label) else None,
        binary.average_precision(score, label), binary.sensitivity_at(0.95, score, label), binary.brier(score, label),
        off, resolution, uncertainty, slope, intercept,
        [list(part) for part in binary.reliability(score, label)],
        [list(line) for line in binary.net_benefit(score, label)],
        binary.calibration_index(score, label),
    )  # fmt: skip


def scaled(chosen: Images, images: Images) -> Scaled:
    """Temperature fitted by the likelihood of validation images, and test scores with logits divided by it."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return _likelihood(chosen.logits / np.exp(log_temperature), chosen.y)

    fitted = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8})
    temperature = float(np.exp(fitted.x))
    both = [images.logits.astype(np.float64), images.logits / temperature]
    chances = [probabilities(logits) for logits in both]
    right, at = images.logits.argmax(1) == images.y, np.arange(len(images.y))
    truth = np.eye(images.logits.shape[1])[images.y]
    return Scaled(
        temperature,
        [_likelihood(logits, images.y) for logits in both],
        [calibration_error(p[at, p.argmax(1)], right) for p in chances],
        [float(((p - truth) ** 2).sum(1).mean()) for p in chances],
    )


def _likelihood(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log likelihood."""
    chance = probabilities(logits)[np.arange(len(y)), y]
    return float(-np.log(np.maximum(chance, np.finfo(float).tiny)).mean())


def _conformal(chosen: Images, images: Images) -> Iterator[Covered]:
    """Sets by one quantile, and by one for each group of an attribute."""
    score = 1 - chosen.chances[np.arange(len(chosen.y)), chosen.y]
    pooled = quantile(score)
    yield _covered(POOLED, {"": pooled}, np.full(len(images.y), pooled), images)
    for attribute, (place, names) in chosen.groupings.items():
        where = images.groupings[attribute][0]
        limits, at_image = {"": pooled}, np.full(len(images.y), pooled)
        for k, name in enumerate(names):
            limits[name] = quantile(score[place == k])
            at_image[where == k] = limits[name]
        yield _covered(attribute, limits, at_image, images)


def quantile(score: np.ndarray) -> float:
    """The ceil((n + 1) LEVEL)-th smallest score; 1, which lets every class into a set, where there are too few."""
    k = ceil((len(score) + 1) * LEVEL)
    return float(np.sort(score)[k - 1]) if k <= len(score) else 1.0


def _covered(choice: str, limits: dict[str, float], limit: np.ndarray, images: Images) -> Covered:
    inside = 1 - images.chances <= limit[:, None]  # [N, C]
    covered, size = inside[np.arange(len(images.y)), images.y], inside.sum(1)
    groups = {
        attribute: {name: rate(int(covered[place == k].sum()), int((place == k).sum())) for k, name in enumerate(names)}
        for attribute, (place, names) in images.groupings.items()
    }
    sizes = {
        attribute: {
            name: float(size[place == k].mean()) if (place == k).any() else None for k, name in enumerate(names)
        }
        for attribute, (place, names) in images.groupings.items()
    }
    return Covered(
        LEVEL, choice, dict(limits), rate(int(covered.sum()), len(covered)), float(size.mean()), groups, sizes
    )


def agreement(guess: np.ndarray, y: np.ndarray, classes: int) -> Agreement:
    """Matthews correlation and quadratic kappa of decisions [N] against labels [N]; None where one is constant."""
    table = np.bincount(y * classes + guess, minlength=classes**2).reshape(classes, classes).astype(float)
    true, predicted, n = table.sum(1), table.sum(0), table.sum()
    spread = (n * n - (true**2).sum()) * (n * n - (predicted**2).sum())
    matthews = float((table.trace() * n - true @ predicted) / spread**0.5) if spread > 0 else None
    weight = (np.arange(classes)[:, None] - np.arange(classes)) ** 2
    expected = (weight * np.outer(true, predicted)).sum() / n if n else 0.0
    return Agreement(matthews, float(1 - (weight * table).sum() / expected) if expected else None)
