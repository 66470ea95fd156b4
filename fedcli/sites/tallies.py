"""Counts that a site may say of a model instead of its logits.

They can be added, and every score follows from them.

A tally counts images by true and predicted class, and by true class and the chance that the model
gives to a class, in 2,048 bins. An AUC counts two images in one bin as a tie: it is off by at most
half of the share of such pairs, which resolution() gives. The calibration error takes chances in
steps of 1/2048.

A site leaves out small cells: the images of a class with fewer than `smallest` of them from all
tallies, and those of a class in a group from that group's tally. Others are left out with them, so
that no sum over the classes of a group or over the groups of a class gives a small cell away; see
hidden_cells(). The site names the groups that lack a cell, and not which: their scores are hidden,
not scores of few images.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from ..data.shard import Shard
from ..metrics.of_images import score_of
from ..metrics.probabilities import probabilities
from ..metrics.sums import BINS, UPPER, Sums
from .description import hidden

FINE = 2048  # bins of a chance
HALF = FINE // 2  # the bin that begins at one half
NOTHING = 1e-30  # by which a logit is larger and no chance is
Array = np.ndarray
Arrays = dict[str, Array]
Attributes = dict[str, list[str]]  # name -> values
ALL = "all"
CLEAN, CORRUPTED = "clean", "corrupted"  # versions of the test images
RATES = 0.01, 0.05, 0.1, 0.2  # false positive rates at which the true positive rate is wanted


@dataclass(frozen=True)
class Tally:
    """The counts of one model's answers on some images; all int64."""

    table: Array  # [C, C] images by true and predicted class
    # [C, C, FINE] images by true class, the class whose chance it is, and the bin of that chance
    chances: Array
    # [C, BINS, 3] by true class, of the most likely class: images, those it is right of, sum of
    # chances in 1/FINE
    top: Array
    positive: Array  # [C, BINS, 3] the same of class 1

    @classmethod
    def of(cls, logits: Array, y: Array) -> "Tally":
        """The counts of logits [N, C] with labels [N].

        Raises FedcliError for logits that are not finite.
        """
        chance = probabilities(logits)  # [N, C]
        count, classes = chance.shape
        guess = np.asarray(logits).argmax(1)  # [N]
        tally = cls.nothing(classes)
        np.add.at(tally.table, (y, guess), 1)
        fine = np.minimum((chance * FINE).astype(np.int64), FINE - 1)  # [N, C]
        np.add.at(tally.chances, (y[:, None], np.arange(classes), fine), 1)
        of_guess = chance[np.arange(count), guess]
        of_class_1 = chance[:, min(1, classes - 1)]
        _calibrate(tally.top, of_guess, guess == y, y)
        _calibrate(tally.positive, of_class_1, y == 1, y)
        return tally

    @classmethod
    def nothing(cls, classes: int) -> "Tally":
        """The counts of no image."""
        table = np.zeros((classes, classes), np.int64)
        chances = np.zeros((classes, classes, FINE), np.int64)
        top, positive = np.zeros((2, classes, BINS, 3), np.int64)
        return cls(table, chances, top, positive)

    @classmethod
    def of_arrays(
        cls,
        arrays: Arrays,
        classes: int,
        at_most: int,
    ) -> "Tally | None":
        """The tally with these arrays, of at most so many images; None where it cannot be that."""
        empty = vars(cls.nothing(classes))
        if arrays.keys() != empty.keys():
            return None
        for name, array in arrays.items():
            if array.shape != empty[name].shape or array.dtype != empty[name].dtype:
                return None
            if (array < 0).any() or (array > at_most * FINE).any():  # else sums run over
                return None
        tally = cls(**arrays)
        images = tally.table.sum(1)  # [C]
        if images.sum() > at_most or (tally.chances.sum(2) != images[:, None]).any():
            return None
        right = tally.table.diagonal()
        of_class_1 = np.where(np.arange(classes) == 1, images, 0)
        fits = _fits(tally.top, images, right) and _fits(tally.positive, images, of_class_1)
        return tally if fits else None

    def __add__(self, other: "Tally") -> "Tally":
        arrays = {name: array + vars(other)[name] for name, array in vars(self).items()}
        return Tally(**arrays)

    def without(self, classes: Iterable[int]) -> "Tally":
        """The tally of the images of all other classes."""
        tally = deepcopy(self)
        for array in vars(tally).values():
            array[[*classes]] = 0
        return tally

    @property
    def images(self) -> int:
        return int(self.table.sum())

    def score(self) -> dict:
        """The scores that metrics.score() gives of the logits."""
        sums = _TallySums(self)
        return {
            **score_of(sums),
            "count": self.images,
            "classes_missing": sums.missing(),
        }

    def resolution(self) -> float:
        """The most by which an AUC of two classes may be off.

        It is half of the largest share of pairs of images in one bin.
        """
        _, ties = self.wins()
        images = self.table.sum(1)
        pairs = np.outer(images, images)
        return float((ties / np.maximum(2 * pairs, 1)).max())

    def wins(self) -> tuple[Array, Array]:
        """The wins of metrics.sums.Sums [C, C], and the pairs of images that tie [C, C]."""
        wins = np.zeros(self.table.shape)
        ties = np.zeros(self.table.shape)
        for a, b in permutations(range(len(self.table)), 2):
            images = self.chances[a, a]  # [FINE]
            others = self.chances[b, a]  # [FINE]
            others_below = np.cumsum(others) - others
            ties[a, b] = images @ others
            wins[a, b] = images @ others_below + ties[a, b] / 2
        return wins, ties

    def rebuilt(self) -> tuple[Array, Array]:
        """Logits [N, C] and labels [N] of as many images, class by class, with the same decisions.

        Of two classes they have the same chances too, up to their bins. Of more, counts do not say
        which chances are of one image, so every image is sure of its decision.
        """
        if len(self.table) == 2:
            return self._rebuilt_of_two_classes()
        y, guess = _rows_and_columns(self.table)
        return np.eye(len(self.table))[guess], y

    def _rebuilt_of_two_classes(self) -> tuple[Array, Array]:
        """rebuilt(), where images at exactly one half, in the bin HALF, are decided for class 0."""
        y, bins = _rows_and_columns(self.chances[:, 1])
        chance = (bins + 0.5) / FINE
        logits = np.log(np.stack([1 - chance, chance], 1))
        for true_class in (0, 1):
            below_half = self.chances[true_class, 1, :HALF].sum()
            decided_for_0 = max(0, self.table[true_class, 0] - below_half)
            at_half = np.flatnonzero((y == true_class) & (bins == HALF))
            logits[at_half] = 0.0, NOTHING
            logits[at_half[:decided_for_0]] = 0.0
        return logits, y

    def reliability(self) -> list[tuple[int, float, float]]:
        """Images, mean chance and share that is right in each bin of the most likely class."""
        rows = []
        for images, right, chances in self.top.sum(0).tolist():
            count = max(images, 1)
            rows.append((images, chances / FINE / count, right / count))
        return rows

    def true_positives_at(self, false_positives: float) -> tuple[float, float, float] | None:
        """The lowest threshold on the chance of class 1 whose false positive rate is no higher.

        Returns (threshold, false positive rate, true positive rate) there; None for more than two
        classes, or where one of them has no image.
        """
        negatives, positives = self.chances[:2, 1]  # [FINE] each
        has_both = negatives.sum() and positives.sum()
        if len(self.table) != 2 or not has_both:
            return None
        above = np.cumsum(negatives[::-1])[::-1]
        rates = np.append(above, 0) / negatives.sum()  # at threshold k / FINE
        k = int(np.flatnonzero(rates <= false_positives)[0])
        true_positives = positives[k:].sum() / positives.sum()
        return k / FINE, float(rates[k]), float(true_positives)


def _rows_and_columns(counts: Array) -> Array:
    """The row and the column of each image that a table counts: int64 [2, N]."""
    return np.indices(counts.shape).reshape(2, -1).repeat(counts.ravel(), axis=1)


def _calibrate(bins: Array, chance: Array, right: Array, y: Array) -> None:
    """Count images in bins [C, BINS, 3] by chances [N], whether they are right [N], labels [N]."""
    places = np.searchsorted(UPPER, chance).clip(max=BINS - 1)
    ones = np.ones(len(chance))
    steps = np.rint(chance * FINE)
    summands = np.stack([ones, right, steps], 1)  # [N, 3]
    np.add.at(bins, (y, places), summands.astype(np.int64))


def _fits(bins: Array, images: Array, right: Array) -> bool:
    """Tell whether bins [C, BINS, 3] can be those of so many images [C], so many right [C]."""
    count, hits, chance = np.moveaxis(bins, 2, 0)  # [C, BINS] each
    counts_differ = (count.sum(1) != images).any()
    hits_differ = (hits.sum(1) != right).any()
    if counts_differ or hits_differ or (hits > count).any():
        return False
    edges = np.arange(BINS + 1) * FINE / BINS
    lowest = np.floor(edges[:-1]) * count
    highest = np.ceil(edges[1:]) * count
    return bool(((lowest <= chance) & (chance <= highest)).all())


class _TallySums(Sums):
    """The sums of a tally's images, each counted once."""

    def __init__(self, tally: Tally):
        self._sort(tally.table[..., None])
        self.wins = tally.wins()[0][..., None]
        self.distance_top = _distance(tally.top)
        self.distance_positive = _distance(tally.positive)


def _distance(bins: Array) -> Array:
    """The sum of chances minus the images that are right in each bin [BINS, 1]."""
    _, right, chances = bins.sum(0).T
    return (chances / FINE - right)[:, None]


Tallies = dict[str, Tally]  # ALL, or "attribute/place of the value" -> the tally


@dataclass(frozen=True)
class Answer:
    """The counts that a site says of one model."""

    # CLEAN and, where it has corrupted test images, CORRUPTED -> the tallies of those images
    versions: dict[str, Tallies]
    corrupted: bool  # whether the client's own images are corrupted
    left_out: int  # images that are in no tally
    hidden_classes: frozenset[int]  # classes that are left out of every tally
    hidden_groups: frozenset[str]  # keys of the groups whose tally lacks images of another class
    groups: dict[str, dict[str, int | None]]  # attribute -> value -> its images; None: hidden
    smallest: int  # smaller cells are hidden

    @property
    def images(self) -> int:
        """All test images of the site."""
        return self.left_out + self.versions[CLEAN][ALL].images


def tallied(
    logits: Array, shard: Shard, attributes: Attributes, smallest: int
) -> tuple[Tallies, list[str]]:
    """The counts of logits [N, C] on a shard that may leave, and the keys of incomplete groups."""
    y = shard.y.cpu().numpy()
    classes = logits.shape[1]
    is_hidden = _hidden_classes(y, classes, smallest)  # [C]
    is_shown = ~is_hidden[y]  # [N]
    tallies = {ALL: Tally.of(logits[is_shown], y[is_shown])}
    hidden_groups = []
    for name, values in attributes.items():
        groups = shard.groups[name].cpu().numpy()  # [N], -1 unknown: the last column of cells
        images = np.zeros((classes, len(values) + 1), np.int64)
        np.add.at(images, (y, groups), 1)
        secret = hidden_cells(images, smallest, is_hidden)  # [C, G + 1]
        for g in range(len(values)):
            key = f"{name}/{g}"
            members = is_shown & (groups == g) & ~secret[y, g]
            tallies[key] = Tally.of(logits[members], y[members])
            if secret[~is_hidden, g].any():
                hidden_groups.append(key)
    return tallies, hidden_groups


def _hidden_classes(y: Array, classes: int, smallest: int) -> Array:
    """Marks of the classes whose number of images a description hides: bool [C]."""
    images = np.bincount(y, minlength=classes).tolist()
    counts = hidden(dict(enumerate(images)), smallest)
    return np.array([count is None for count in counts.values()])


def hidden_cells(images: Array, smallest: int, hidden_classes: Array) -> Array:
    """Marks of the cells that may not leave: bool [C, G + 1].

    Those are the small ones, those of hidden classes, and others, until the hidden cells of each
    class and of each group are several and hold `smallest` images: a description may show the sum
    of all of them. Cells of classes and groups that lack one already are hidden first, since these
    have no scores in any case.

    images: of each class in each group [C, G + 1], the last: in no group. hidden_classes: bool [C].
    """
    is_small = images < smallest
    secret = (images > 0) & (is_small | hidden_classes[:, None])
    shown_classes = np.flatnonzero(~hidden_classes)
    lines: list[tuple[Any, int]] = [(np.s_[c, :], 0) for c in shown_classes]
    lines += [(np.s_[:, g], 1) for g in range(images.shape[1])]
    while True:
        before = secret.copy()
        for line, axis in lines:
            safe = _safe(secret, hidden_classes)
            _hide_more(
                images[line],
                secret[line],
                safe[line],
                secret.any(axis),
                smallest,
            )
        if (secret == before).all():
            return secret


def _safe(secret: Array, hidden_classes: Array) -> Array:
    """Marks of the hidden cells that nobody can derive.

    A cell is derived where it is the only hidden one of a class or group, or becomes so as others
    are derived. Nobody knows the sum of a hidden class.
    """
    safe = secret
    while True:
        alone_in_class = (safe.sum(1) == 1) & ~hidden_classes
        rest = safe & ~alone_in_class[:, None]
        rest &= rest.sum(0) != 1
        if (rest == safe).all():
            return safe
        safe = rest


def _hide_more(
    images: Array,
    secret: Array,
    safe: Array,
    is_incomplete: Array,
    smallest: int,
) -> None:
    """Mark one more cell of a class or group, where its hidden cells do not protect one another.

    Arrays are [K]. secret: changed here. safe: the hidden cells that nobody can derive.
    is_incomplete: the classes or groups across this one that have a hidden cell.
    """
    hides_enough = safe.sum() > 1 and images[safe].sum() >= smallest
    if not secret.any() or hides_enough:
        return
    candidates = np.flatnonzero((images > 0) & ~secret)
    if len(candidates):
        next_class = min(candidates, key=lambda k: (not is_incomplete[k], images[k]))
        secret[next_class] = True


def to_arrays(versions: dict[str, Tallies]) -> Arrays:
    """The arrays of tallies as they are sent, by names such as "clean/sex/0/table"."""
    arrays = {}
    for version, tallies in versions.items():
        for key, tally in tallies.items():
            for name, array in vars(tally).items():
                arrays[f"{version}/{key}/{name}"] = array
    return arrays


def groups_of(attributes: Attributes) -> dict[str, tuple[str, str]]:
    """Key of each group's tally -> its attribute and value."""
    groups = {}
    for name, values in attributes.items():
        for g, value in enumerate(values):
            groups[f"{name}/{g}"] = name, value
    return groups
