"""Operating points, calibration and conformal sets, beside how well a model ranks.

Thresholds, temperature and quantiles are chosen on the clients' validation images, never on test
images, and carried to the test images: from all clients together (pooled), from each client for its
own test part, or from each group of an attribute for its members.

Sources: temperature scaling: Guo et al., ICML 2017, arXiv 1706.04599. Split conformal sets with the
score 1 - p of the true class: Sadinle, Lei and Wasserman, JASA 114, 2019; by group: Mondrian sets,
Vovk et al., Algorithmic Learning in a Random World, 2005, chapter 4. Quadratic kappa: Cohen,
Psychol. Bull. 70, 1968. Matthews correlation of several classes: Gorodkin, Comput. Biol. Chem. 28,
2004.
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
from ...runs.finished import FinishedRun
from ..clinical_shape import BEFORE_AFTER, CLIENT, POOLED
from ..facts import ScoredImages
from ..statistics import permutation
from . import binary

RULES = (
    ("youden", None),
    ("sensitivity", 0.9),
    ("sensitivity", 0.95),
    ("specificity", 0.8),
    ("specificity", 0.9),
    ("specificity", 0.95),
)
TESTED = (  # metrics whose gaps are tested
    "balanced_accuracy",
    "auc_ovo_macro",
    "balanced_accuracy_macro",
    "auc_macro",
)
LEVEL = 0.9  # of conformal sets
Array = np.ndarray
Rule = tuple[str, float | None]
Limits = dict[str, float | None]  # member of a choice, "" of all together -> its limit
Facts = dict[str, Any]  # numbers by name, of one of the shapes in clinical_shape.py
Measure = Callable[[Array, str, str], Any]  # of marked images [N], their attribute and group


@dataclass(frozen=True)
class Seen:
    """Some images as the last round's model sees them.

    Attributes:
        logits: [N, C]. y: [N], or [N, L] of several labels per image.
        groupings: attribute -> index of each image's group [N], -1 unknown, and the groups' names.
        client: [N], index in the roster of the client whose image it is, -1 of none.
        roster: the clients' names.
    """

    logits: Array
    y: Array
    groupings: Groupings
    client: Array
    roster: Sequence[str] = ()

    @property
    def chances(self) -> Array:
        return chances(self.logits, self.y)

    @property
    def images(self) -> Array:
        """The index of each image [N]."""
        return np.arange(len(self.y))

    def of(self, c: int) -> "Seen":
        """The images whose label of one class is known, for that class alone.

        y is 1 for the class, and logits are its probability [n].
        """
        members, label = Task.of(self.y).of_class(self.y, c)
        groupings = groupings_at(self.groupings, members)
        chance = self.chances[members, c]
        return Seen(chance, label, groupings, self.client[members], self.roster)

    def divided(self, choice: str) -> Grouping:
        """The division that a choice of thresholds makes: each image's part [N], and the names."""
        if choice == CLIENT:
            return self.client, list(self.roster)
        return self.groupings[choice]


def rules(texts: Sequence[str], cost: float | None) -> list[Rule]:
    """The rules of texts such as "sensitivity=0.95", else all, and that of a cost.

    Raises UsageError.
    """
    if cost is not None and not 0 < cost < inf:
        hint = "give how many false alarms a missed image of the class costs"
        raise UsageError(f"--cost {cost} is not above 0", hint)
    chosen = [rule_of(text) for text in texts] or list(RULES)
    distinct: list[Rule] = list(dict.fromkeys(chosen))
    if cost is not None:
        distinct.append(("cost", cost))
    return distinct


def titled(rule: Rule) -> str:
    """A rule as it is typed and recorded."""
    name, value = rule
    return name if value is None else f"{name}={value:g}"


def rule_of(text: str, *, recorded: bool = False) -> Rule:
    """The inverse of titled().

    recorded: it may be of a cost too, which is not typed as a rule. Raises UsageError.
    """
    name, _, value = text.partition("=")
    if text == "youden":
        return text, None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    limits = {"sensitivity": 1.0, "specificity": 1.0}
    if recorded:
        limits["cost"] = inf
    if not 0 < number < limits.get(name, 0.0):
        hint = "write youden, sensitivity=0.95 or specificity=0.9"
        raise UsageError(f"--rule {text!r} is none", hint)
    return name, number


def scores(
    run: FinishedRun,
    tables: Mapping[str, Array],
    tested: ScoredImages,
    names: Sequence[str],
    chosen_rules: Sequence[Rule],
) -> Facts:
    """Everything about the last round's logits [N, C] of each version of the test images, as SHAPE.

    names: the classes that are described.
    """
    y = tested.y
    groupings = tested.groupings
    units = tested.units
    if units is None:
        units = np.arange(len(y))
    owner = np.full(len(y), -1)
    for row, client in enumerate(run.data.roster):
        owner[run.data.client_test[client]] = row
    tests = {}
    for version, logits in tables.items():
        tests[version] = Seen(logits, y, groupings, owner, run.data.roster)
    values = {name: groups for name, (_, groups) in groupings.items()}
    chosen = validation(run, values)
    facts: Facts = {"validation": len(chosen.y), "classes": {}, "agreement": {}}
    facts |= {"temperature": {}, "conformal": {}, "gaps": {}, "subgroups": {}}
    for name in names:
        c = tested.classes.index(name)
        described = {v: _class(c, images, chosen, chosen_rules) for v, images in tests.items()}
        facts["classes"][name] = described
    for version, images in tests.items():
        if y.ndim == 2:  # of several labels per image there is no one decision
            break
        guess = images.logits.argmax(1)
        facts["agreement"][version] = agreement(guess, y, len(tested.classes))
        facts["subgroups"][version] = permutation.subgroups(
            guess == y,
            units,
            groupings,
        )
        if len(chosen.y) and len(y):
            facts["temperature"][version] = scaled(chosen, images)
            facts["conformal"][version] = list(conformal(chosen, images))
    for name, grouping in groupings.items():
        gaps = {}
        for version, logits in tables.items():
            gaps[version] = permutation.gaps(logits, y, units, grouping, TESTED)
        facts["gaps"][name] = gaps
    return facts


def validation(
    run: FinishedRun,
    values: dict[str, list[str]],
    client: str | None = None,
    kept_round: int | str | None = None,
) -> Seen:
    """The clients' validation images by the global model.

    Where all trained alone they are by each client's own model. values: attribute -> its groups; of
    the attributes that these images have. client: its images by its own model. kept_round: default:
    the last.
    """
    clients = run.data.roster if client is None else [client]
    shards = {}
    for name in clients:
        shard = run.data.val.get(name)
        if shard is not None and len(shard):
            shards[name] = shard
    if not shards:
        y = run.data.test["clean"].y.cpu().numpy()[:0]
        return Seen(
            np.zeros((0, len(run.data.classes))),
            y,
            {},
            np.zeros(0, np.int64),
        )
    if kept_round is None:
        kept_round = run.rounds[-1]
    by_own_model = runs.trains_alone(run) or client
    logits = []
    owners = []
    for name, shard in shards.items():
        logits.append(runs.predict(run, kept_round, shard, name if by_own_model else None))
        client_index = run.data.roster.index(name)
        owners.append(np.full(len(shard), client_index))
    labels = [shard.y.cpu().numpy() for shard in shards.values()]
    groupings = {}
    for name, groups in values.items():
        if all(name in shard.groups for shard in shards.values()):
            columns = [shard.groups[name].cpu().numpy() for shard in shards.values()]
            groupings[name] = (np.concatenate(columns), groups)
    y = np.concatenate(labels)
    return Seen(
        np.concatenate(logits),
        y,
        groupings,
        np.concatenate(owners),
        run.data.roster,
    )


def _class(
    c: int,
    images: Seen,
    chosen: Seen,
    chosen_rules: Sequence[Rule],
) -> Facts:
    """One class against all others on one version of the test images."""
    images = images.of(c)
    chosen = chosen.of(c)

    def measure(members: Array, *_: str) -> Facts:
        return describe(images.logits[members], images.y[members])

    facts = _by_part(measure, images)
    facts["operating"] = []
    if len(chosen.y):
        facts["operating"] = list(_operating(images, chosen, chosen_rules))
    return facts


def _by_part(measure: Measure, images: Seen) -> Facts:
    """A measure of all images, of those of each group, and of those of each client that has any.

    measure: called with the images' marks [N], the attribute or CLIENT and the group's or client's
    name, "" for all.
    """
    everything = np.ones(len(images.y), bool)
    facts: Facts = {
        "overall": measure(everything, "", ""),
        "groups": {},
        "clients": {},
    }
    for attribute, (codes, names) in images.groupings.items():
        groups = {}
        for code, name in enumerate(names):
            groups[name] = measure(codes == code, attribute, name)
        facts["groups"][attribute] = groups
    for row, name in enumerate(images.roster):
        members = images.client == row
        if members.any():
            facts["clients"][name] = measure(members, CLIENT, name)
    return facts


def _carried(
    choose: Callable[[Any], float | None],
    pooled: float,
    choice: str,
    chosen: Seen,
    images: Seen,
) -> tuple[Limits, Array]:
    """The limits of a choice by member, "" of all together, and that of each test image [N].

    choose: the limit for marked validation images; where there is none, the pooled one, which is of
    all, stands in.
    """
    limits: Limits = {"": pooled}
    limit_of_image = np.full(len(images.y), pooled)
    if choice == POOLED:
        return limits, limit_of_image
    chosen_codes, names = chosen.divided(choice)
    codes, _ = images.divided(choice)
    for code, name in enumerate(names):
        limit = choose(chosen_codes == code)
        limits[name] = limit
        if limit is not None:
            limit_of_image[codes == code] = limit
    return limits, limit_of_image


def _operating(
    images: Seen,
    chosen: Seen,
    chosen_rules: Sequence[Rule],
) -> Iterator[Facts]:
    """The decisions by each rule and choice; images, chosen: Seen.of() one class."""
    choices = [POOLED, *chosen.groupings]
    if (images.client >= 0).any():
        choices.insert(1, CLIENT)
    for rule in chosen_rules:
        choose = partial(threshold, rule, chosen)
        pooled = choose()
        if pooled is None:  # the validation images are all of this class, or none is
            continue
        for choice in choices:
            limits, limit_of_image = _carried(
                choose,
                pooled,
                choice,
                chosen,
                images,
            )
            called = images.logits >= limit_of_image
            decisions = _decisions(choice, limits, called, images)
            yield {"rule": titled(rule), "choice": choice} | decisions


def threshold(
    rule: Rule,
    images: Seen,
    members: Any = slice(None),
) -> float | None:
    """The threshold that a rule chooses on marked images, which are Seen.of() one class."""
    name, value = rule
    return binary.threshold_of(
        name,
        value,
        images.logits[members],
        images.y[members],
    )


def _decisions(
    choice: str,
    limits: Limits,
    called: Array,
    images: Seen,
) -> Facts:
    """Rates of all images and of each part at the limits of a choice.

    called: [N], the images that are called positive.
    """
    ill = images.y == 1

    def measure(members: Array, attribute: str, name: str) -> Facts:
        limit = limits[""]
        if attribute == choice:
            limit = limits.get(name, limit)
        return binary.point(called[members], ill[members], limit)

    facts = {
        "thresholds": limits,
        **_by_part(measure, images),
        "differences": {},
    }
    guess = called.astype(np.int64)
    for attribute, (codes, names) in images.groupings.items():
        decisions = decided(guess, images.y, codes, 2, len(names))
        facts["differences"][attribute] = parity(decisions)
    return facts


def describe(score: Array, label: Array) -> Facts:
    """Quality and honesty of probabilities [N] of one class; labels [N] are 1 for it."""
    off, resolution, uncertainty = binary.brier_parts(score, label) or (None, None, None)
    slope, intercept = binary.calibration_line(score, label) or (None, None)
    prevalence = float(label.mean()) if len(label) else None
    bins = [list(part) for part in binary.reliability(score, label)]
    benefits = [list(line) for line in binary.net_benefit(score, label)]
    return {
        "count": len(score),
        "positives": int(label.sum()),
        "prevalence": prevalence,
        "average_precision": binary.average_precision(score, label),
        "sensitivity_at_specificity_95": binary.sensitivity_at(0.95, score, label),
        "brier": binary.brier(score, label),
        "brier_reliability": off,
        "brier_resolution": resolution,
        "brier_uncertainty": uncertainty,
        "calibration_slope": slope,
        "calibration_intercept": intercept,
        "integrated_calibration_index": binary.calibration_index(score, label),
        "bins": bins,
        "net_benefit": benefits,
    }


def scaled(chosen: Seen, images: Seen) -> Facts:
    """Temperature, and test scores before and after logits are divided by it."""
    divisor = temperature(chosen)
    before = _calibration(images.logits.astype(np.float64), images)
    after = _calibration(images.logits / divisor, images)
    facts: Facts = {"temperature": divisor}
    for name, first_value, second_value in zip(BEFORE_AFTER, before, after, strict=True):
        facts[name] = [first_value, second_value]
    return facts


def _calibration(logits: Array, images: Seen) -> tuple[float, float | None, float]:
    """The scores of BEFORE_AFTER by these logits [N, C]."""
    p = probabilities(logits)
    right = images.logits.argmax(1) == images.y
    truth = np.eye(logits.shape[1])[images.y]
    error = calibration_error(p[images.images, p.argmax(1)], right)
    brier = ((p - truth) ** 2).sum(1).mean()
    return _likelihood(logits, images), error, float(brier)


def temperature(chosen: Seen) -> float:
    """The divisor of logits that makes the labels of validation images most likely."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return _likelihood(chosen.logits / np.exp(log_temperature), chosen)

    options = {"xatol": 1e-8}
    minimum = minimize_scalar(
        loss,
        bounds=(-3, 3),
        method="bounded",
        options=options,
    )
    return float(np.exp(minimum.x))


def _likelihood(logits: Array, images: Seen) -> float:
    """The negative log likelihood of the images' labels."""
    chance = probabilities(logits)[images.images, images.y]
    likelihood = np.maximum(chance, np.finfo(float).tiny)
    return float(-np.log(likelihood).mean())


def conformal(chosen: Seen, images: Seen) -> Iterator[Facts]:
    """Sets by one quantile, and by one for each group of an attribute."""
    score = 1 - chosen.chances[chosen.images, chosen.y]
    images = replace(images, roster=())

    def choose(members: Array) -> float:
        return quantile(score[members])

    for choice in (POOLED, *chosen.groupings):
        limits, limit_of_image = _carried(
            choose,
            quantile(score),
            choice,
            chosen,
            images,
        )
        in_set = 1 - images.chances <= limit_of_image[:, None]
        facts = {"level": LEVEL, "choice": choice, "quantiles": limits}
        yield facts | _covered(in_set, images)


def _covered(in_set: Array, images: Seen) -> Facts:
    """Coverage and size of sets; in_set: [N, C], the classes in each image's set."""
    covered = in_set[images.images, images.y]
    size = in_set.sum(1)

    def share(members: Array, *_: str) -> Facts:
        hits = int(covered[members].sum())
        total = int(members.sum())
        return binary.rate(hits, total)

    def mean_size(members: Array, *_: str) -> float | None:
        return float(size[members].mean()) if members.any() else None

    coverage = _by_part(share, images)
    sizes = _by_part(mean_size, images)
    return {
        "coverage": coverage["overall"],
        "groups": coverage["groups"],
        "set_size": sizes["overall"],
        "set_sizes": sizes["groups"],
    }


def quantile(score: Array) -> float:
    """The ceil((n + 1) LEVEL)-th smallest score.

    1, which lets every class into a set, where there are too few.
    """
    k = ceil((len(score) + 1) * LEVEL)
    if k > len(score):
        return 1.0
    return float(np.sort(score)[k - 1])


def agreement(guess: Array, y: Array, classes: int) -> Facts:
    """Matthews correlation and quadratic kappa of decisions [N] against labels [N].

    None where one is constant.
    """
    cell_index = y * classes + guess
    cells = np.bincount(cell_index, minlength=classes**2)
    table = cells.reshape(classes, classes).astype(float)
    true = table.sum(1)
    predicted = table.sum(0)
    n = table.sum()
    variance_of_true = n * n - (true**2).sum()
    sum_of_squares = (predicted**2).sum()
    spread = variance_of_true * (n * n - sum_of_squares)
    correlation = None
    if spread > 0:
        covariance = table.trace() * n - true @ predicted
        correlation = float(covariance / spread**0.5)
    numbers = np.arange(classes)
    weight = (numbers[:, None] - numbers) ** 2
    expected = (weight * np.outer(true, predicted)).sum() / n if n else 0.0
    kappa = None
    if expected:
        kappa = float(1 - (weight * table).sum() / expected)
    return {"matthews_correlation": correlation, "quadratic_kappa": kappa}
