"""Counts that a site may say of a model instead of its logits: they can be added, and every score follows from them.

A tally counts images by true and predicted class, and by true class and the chance that the model gives to a class, in
2,048 bins. An AUC counts two images in one bin as a tie: it is off by at most half of the share of such pairs, which
resolution() gives. The calibration error takes chances in steps of 1/2048.

A site leaves out small cells: the images of a class with fewer than `smallest` of them from all tallies, and those of a
class in a group from that group's tally. Others are left out with them, so that no sum over the classes of a group or
over the groups of a class gives a small cell away; see hidden_cells(). The site names the groups that lack a cell, and
not which: their scores are hidden, not scores of few images.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from ..data.shard import Shard
from ..metrics.of_images import score_of
from ..metrics.probabilities import probabilities
from ..metrics.sums import BINS, Sums
from .description import hidden

FINE = 2048  # bins of a chance
HALF = FINE // 2  # the bin that begins at one half
NOTHING = 1e-30  # by which a logit is larger and no chance is
Arrays = dict[str, np.ndarray]
ALL = "all"
CLEAN, CORRUPTED = "clean", "corrupted"  # versions of the test images
RATES = 0.01, 0.05, 0.1, 0.2  # false positive rates at which the true positive rate is asked for


@dataclass(frozen=True)
class Tally:
    """Of one model on some images; all int64."""

    table: np.ndarray  # [C, C] images by true and predicted class
    chances: (
        np.ndarray
    )  # [C, C, FINE] images by true class, the class whose chance it is, and the bin of that chance
    # [C, BINS, 3] by true class, of the most likely class: images, those it is right of, sum of chances in 1/FINE
    top: np.ndarray
    positive: np.ndarray  # [C, BINS, 3] the same of class 1

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray) -> "Tally":
        """Of logits [N, C] and labels [N]. Raises FedcliError for logits that are not finite."""
        chance = probabilities(logits)  # [N, C]
        count, classes = chance.shape
        guess = np.asarray(logits).argmax(1)  # [N]
        table = np.bincount(y * classes + guess, minlength=classes**2).reshape(classes, classes)
        fine = np.minimum((chance * FINE).astype(np.int64), FINE - 1)  # [N, C]
        place = (y[:, None] * classes + np.arange(classes)) * FINE + fine  # [N, C]
        chances = np.bincount(place.ravel(), minlength=classes**2 * FINE).reshape(
            classes, classes, FINE
        )
        top = _calibrated(chance[np.arange(count), guess], guess == y, y, classes)
        of_one = _calibrated(chance[:, min(1, classes - 1)], y == 1, y, classes)
        return cls(table, chances, top, of_one)

    @classmethod
    def nothing(cls, classes: int) -> "Tally":
        """Of no image."""
        return cls.of(np.zeros((0, classes)), np.zeros(0, np.int64))

    @classmethod
    def of_arrays(cls, arrays: Arrays, classes: int, most: int) -> "Tally | None":
        """The tally that arrays() made of at most so many images; None where it cannot be that."""
        forms = [
            {k: (a.shape, a.dtype) for k, a in of.items()}
            for of in (arrays, cls.nothing(classes).arrays())
        ]
        if forms[0] != forms[1]:
            return None
        if any(
            (array < 0).any() or (array > most * FINE).any() for array in arrays.values()
        ):  # else sums run over
            return None
        made = cls(**arrays)
        images, right = made.table.sum(1), made.table.diagonal()  # [C]
        alike = (made.chances.sum(2) == images[:, None]).all() and images.sum() <= most
        of_one = np.where(np.arange(classes) == 1, images, 0)  # [C]
        binned = _fits(made.top, images, right) and _fits(made.positive, images, of_one)
        return made if alike and binned else None

    def arrays(self) -> Arrays:
        """By the names of the attributes."""
        return dict(vars(self))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(**{name: array + vars(other)[name] for name, array in vars(self).items()})

    def without(self, classes: Iterable[int]) -> "Tally":
        """The tally of the images of all other classes."""
        arrays = {name: array.copy() for name, array in vars(self).items()}
        for array in arrays.values():
            array[[*classes]] = 0
        return Tally(**arrays)

    @property
    def images(self) -> int:
        return int(self.table.sum())

    def score(self) -> dict:
        """As score() of the logits."""
        sums = _Sums(self)
        return {**score_of(sums), "count": self.images, "classes_missing": sums.missing()}

    def resolution(self) -> float:
        """By how much an AUC of two classes may be off: half of the largest share of pairs of images in one bin."""
        _, ties = self._wins()
        n = self.table.sum(1)
        return float((ties / np.maximum(2 * np.outer(n, n), 1)).max())

    def _wins(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs won as of sums.Sums [C, C], and pairs that tie [C, C]."""
        wins, ties = np.zeros(self.table.shape), np.zeros(self.table.shape)
        for a, b in permutations(range(len(self.table)), 2):
            own, others = self.chances[a, a], self.chances[b, a]  # [FINE]
            below = np.concatenate([[0], np.cumsum(others)[:-1]])
            ties[a, b] = own @ others
            wins[a, b] = own @ below + ties[a, b] / 2
        return wins, ties

    def rebuilt(self) -> tuple[np.ndarray, np.ndarray]:
        """Logits [N, C] and labels [N] of as many images, class by class, with the same decisions.

        Of two classes with the same chances too, up to their bins, and at one half in the bin HALF, where images at
        exactly one half are decided for class 0; of more, counts do not say which chances are of one
        image, so every image is sure of its decision.
        """
        classes = len(self.table)
        if classes == 2:
            y, place = (
                np.repeat(at.ravel(), self.chances[:, 1].ravel()) for at in np.indices((2, FINE))
            )
            chance = (place + 0.5) / FINE
            logits = np.log(np.stack([1 - chance, chance], 1))
            for c in (0, 1):
                at, below = (
                    np.flatnonzero((y == c) & (place == HALF)),
                    self.chances[c, 1, :HALF].sum(),
                )
                logits[at] = 0.0, NOTHING
                logits[at[: max(0, self.table[c, 0] - below)]] = 0.0
            return logits, y
        y, guess = (
            np.repeat(at.ravel(), self.table.ravel()) for at in np.indices((classes, classes))
        )
        return np.eye(classes)[guess], y

    def reliability(self) -> list[tuple[int, float, float]]:
        """Of each of the BINS bins of the most likely class's chance: images, mean chance, share that is right."""
        return [
            (int(n), float(total / FINE / n), float(right / n)) if n else (0, 0.0, 0.0)
            for n, right, total in self.top.sum(0)
        ]

    def true_positives_at(self, false_positives: float) -> tuple[float, float, float] | None:
        """For two classes, the lowest threshold on the chance of class 1 whose false positive rate is no higher.

        Returns (threshold, false positive rate, true positive rate) there; None where a class has no image.
        """
        negatives, positives = self.chances[:2, 1]  # [FINE] each
        if len(self.table) != 2 or not negatives.sum() or not positives.sum():
            return None
        above = (
            np.concatenate([np.cumsum(negatives[::-1])[::-1], [0]]) / negatives.sum()
        )  # at threshold k / FINE
        k = int(np.flatnonzero(above <= false_positives)[0])
        return k / FINE, float(above[k]), float(positives[k:].sum() / positives.sum())


def _calibrated(chance: np.ndarray, right: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """int64 [C, BINS, 3] from chances [N], whether they are right [N], and labels [N]."""
    place = np.searchsorted(np.arange(1, BINS + 1) / BINS, chance).clip(max=BINS - 1)
    summands = np.stack([np.ones(len(chance)), right, np.rint(chance * FINE)], 1)  # [N, 3]
    out = np.zeros((classes, BINS, 3), np.int64)
    np.add.at(out, (y, place), summands.astype(np.int64))
    return out


def _fits(bins: np.ndarray, images: np.ndarray, right: np.ndarray) -> bool:
    """Tell whether bins [C, BINS, 3] can be those of so many images [C], of which so many are right [C]."""
    count, hits, chance = np.moveaxis(bins, 2, 0)  # [C, BINS] each
    edges = np.arange(BINS + 1) * FINE / BINS
    between = (np.floor(edges[:-1]) * count <= chance) & (chance <= np.ceil(edges[1:]) * count)
    sums = (count.sum(1) == images).all() and (hits.sum(1) == right).all()
    return bool(sums and (hits <= count).all() and between.all())


class _Sums(Sums):
    """The sums of a tally's images, each counted once."""

    def __init__(self, tally: Tally):
        self._sort(tally.table[..., None])
        self.wins = tally._wins()[0][..., None]
        self.distance_top, self.distance_positive = (
            (bins[:, 2] / FINE - bins[:, 1])[:, None]
            for bins in (tally.top.sum(0), tally.positive.sum(0))
        )


Tallies = dict[str, Tally]  # ALL, or "attribute/place of the value" -> the tally


@dataclass(frozen=True)
class Answer:
    """The counts that a site says of one model."""

    # "clean" and, where it has corrupted test images, "corrupted" -> key -> the tally of those images; a key is "all",
    # or attribute and place of the value
    versions: dict[str, Tallies]
    corrupted: bool  # whether the client's own images are corrupted
    left_out: int  # images that are in no tally
    hidden_classes: frozenset[int]  # classes that are left out of every tally
    hidden_groups: frozenset[str]  # keys of the groups whose tally lacks images of another class
    groups: dict[str, dict[str, int | None]]  # attribute -> value -> its images; None: hidden
    smallest: int  # smaller cells are hidden


@dataclass(frozen=True)
class Shown:
    """The counts of one model that may leave a site, and what they leave out."""

    tallies: Tallies
    hidden_groups: list[str]  # keys
    left_out: int  # images that are in no tally


def tallied(
    logits: np.ndarray, shard: Shard, attributes: dict[str, list[str]], smallest: int
) -> Shown:
    """The counts of logits [N, C] on a shard that may leave."""
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
    return Shown(tallies, hidden_groups, int((~is_shown).sum()))


def _hidden_classes(y: np.ndarray, classes: int, smallest: int) -> np.ndarray:
    """Marks of the classes whose number of images a description hides: bool [C]."""
    images = np.bincount(y, minlength=classes).tolist()
    cells = {str(c): count for c, count in enumerate(images)}
    return np.array([count is None for count in hidden(cells, smallest).values()])


def hidden_cells(images: np.ndarray, smallest: int, hidden_classes: np.ndarray) -> np.ndarray:
    """Marks of the cells that may not leave: bool [C, G + 1].

    Those are the small ones, those of hidden classes, and others, until the hidden cells of each class and of each
    group are several and hold `smallest` images: a description may show the sum of all of them. Cells of classes and
    groups that lack one already are hidden first, since these have no scores in any case.

    images: of each class in each group [C, G + 1], the last: in no group. hidden_classes: bool [C].
    """
    secret = (images > 0) & ((images < smallest) | hidden_classes[:, None])
    before = None
    while before is None or (secret != before).any():
        before = secret.copy()
        for c in np.flatnonzero(~hidden_classes):
            safe = secret & ~_derivable(secret, hidden_classes)
            _hide_more(images[c], secret[c], safe[c], secret.any(0), smallest)
        for g in range(images.shape[1]):
            safe = secret & ~_derivable(secret, hidden_classes)
            _hide_more(images[:, g], secret[:, g], safe[:, g], secret.any(1), smallest)
    return secret


def _derivable(secret: np.ndarray, hidden_classes: np.ndarray) -> np.ndarray:
    """Marks of the hidden cells that are the only one of a class or group, or become so as others are derived."""
    safe = secret.copy()
    before = None
    while before is None or (safe != before).any():
        before = safe.copy()
        of_classes = (safe.sum(1) == 1) & ~hidden_classes  # of a hidden class nobody knows the sum
        safe &= ~of_classes[:, None]
        safe &= safe.sum(0) != 1
    return secret & ~safe


def _hide_more(
    images: np.ndarray,
    secret: np.ndarray,
    safe: np.ndarray,
    is_incomplete: np.ndarray,
    smallest: int,
) -> None:
    """Mark one more cell of a class or group, [K] each, where its hidden cells do not protect one another.

    secret: changed here. safe: the hidden cells that cannot be derived. is_incomplete: the lines across this one.
    """
    if not secret.any() or (safe.sum() > 1 and images[safe].sum() >= smallest):
        return
    candidates = np.flatnonzero((images > 0) & ~secret)
    if len(candidates):
        secret[min(candidates, key=lambda k: (not is_incomplete[k], images[k]))] = True


def to_arrays(versions: dict[str, Tallies]) -> Arrays:
    """As they are sent: "clean/sex/0/table" and so on."""
    return {
        f"{version}/{key}/{name}": array
        for version, tallies in versions.items()
        for key, tally in tallies.items()
        for name, array in tally.arrays().items()
    }


def keys(attributes: dict[str, list[str]]) -> list[str]:
    """Of the tallies of these attributes."""
    return [
        ALL,
        *(f"{name}/{g}" for name, values in attributes.items() for g in range(len(values))),
    ]
