"""Counts that a site may say of a model instead of its logits: they can be added, and every score follows from them.

A tally counts images by true and predicted class, and by true class and the chance that the model gives to a class, in
2,048 bins. An AUC counts two images in one bin as a tie: it is off by at most half of the share of such pairs, which
resolution() gives. The calibration error takes chances in steps of 1/2048.

A site leaves out small cells: the images of a class with fewer than `smallest` of them from all tallies, and those of a
class in a group from that attribute's tallies; see description.hidden() for what is left out beside them.
"""

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
    top: (
        np.ndarray
    )  # [BINS, 3] of the most likely class: images, those it is right of, sum of chances in 1/FINE
    positive: np.ndarray  # [BINS, 3] the same of class 1

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
        top = _calibrated(chance[np.arange(count), guess], guess == y)
        return cls(table, chances, top, _calibrated(chance[:, min(1, classes - 1)], y == 1))

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
        images, right = made.table.sum(1), np.trace(made.table)  # [C]
        alike = (made.chances.sum(2) == images[:, None]).all() and images.sum() <= most
        of_one = images[1:2].sum()
        binned = _fits(made.top, images.sum(), right) and _fits(made.positive, images.sum(), of_one)
        return made if alike and binned else None

    def arrays(self) -> Arrays:
        """By the names of the attributes."""
        return dict(vars(self))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(**{name: array + vars(other)[name] for name, array in vars(self).items()})

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
            for n, right, total in self.top
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


def _calibrated(chance: np.ndarray, right: np.ndarray) -> np.ndarray:
    """int64 [BINS, 3] from chances [N] and whether they are right [N]."""
    place = np.searchsorted(np.arange(1, BINS + 1) / BINS, chance).clip(max=BINS - 1)
    out = np.zeros((BINS, 3), np.int64)
    np.add.at(
        out,
        place,
        np.stack([np.ones(len(chance)), right, np.rint(chance * FINE)], 1).astype(np.int64),
    )
    return out


def _fits(bins: np.ndarray, images: int, right: int) -> bool:
    """Tell whether bins [BINS, 3] can be those of so many images, of which so many are right."""
    count, hits, chance = bins.T  # [BINS] each
    edges = np.arange(BINS + 1) * FINE / BINS
    between = (np.floor(edges[:-1]) * count <= chance) & (chance <= np.ceil(edges[1:]) * count)
    return bool(
        count.sum() == images and hits.sum() == right and (hits <= count).all() and between.all()
    )


class _Sums(Sums):
    """The sums of a tally's images, each counted once."""

    def __init__(self, tally: Tally):
        self._sort(tally.table[..., None])
        self.wins = tally._wins()[0][..., None]
        self.distance_top, self.distance_positive = (
            (bins[:, 2] / FINE - bins[:, 1])[:, None] for bins in (tally.top, tally.positive)
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


def tallied(
    logits: np.ndarray, shard: Shard, attributes: dict[str, list[str]], smallest: int
) -> tuple[Tallies, int]:
    """Tallies of logits [N, C] on a shard, and how many images are in none of them."""
    y = shard.y.cpu().numpy()
    shown = ~_in_hidden_cell(y, smallest)  # [N]
    made = {ALL: Tally.of(logits[shown], y[shown])}
    for name, values in attributes.items():
        groups = shard.groups[name].cpu().numpy()
        known = shown.copy()
        for c in np.unique(y):
            known[y == c] &= ~_in_hidden_cell(groups[y == c], smallest)
        for g in range(len(values)):
            at = known & (groups == g)
            made[f"{name}/{g}"] = Tally.of(logits[at], y[at])
    return made, int((~shown).sum())


def _in_hidden_cell(values: np.ndarray, smallest: int) -> np.ndarray:
    """Marks of images with a value, class or group [N], that too few others have: bool [N]."""
    cells = {str(value): int((values == value).sum()) for value in np.unique(values)}
    return np.isin(
        values, [int(value) for value, count in hidden(cells, smallest).items() if count is None]
    )


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
