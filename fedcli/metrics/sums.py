"""The images of one model, sorted once for any weights, and the sums over weighted images that
metrics are made of.

Weights are whole numbers [N, B]: how often each image counts, in each of B sets. None stands for
one set of ones, which is what the score of a model is; it is summed without a table of weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy import ndarray

from .arithmetic import total
from .metric import CLASSES, TWO
from .probabilities import probabilities
from .ranking import Ranking, mirrored, won

# of equal width, of calibration errors: (0, 1/15], (1/15, 2/15], ...; the first holds 0 too
BINS = 15
UPPER = np.arange(1, BINS + 1) / BINS  # edges of the bins
Weights = ndarray | None
# position of each image's group among the values, -1 unknown: [N]; and the values
Grouping = tuple[ndarray, list[str]]
Groupings = Mapping[str, Grouping]  # attribute -> its groups


def groupings_at(groupings: Groupings, images: ndarray | slice) -> Groupings:
    """The groups of some of the images."""
    chosen = {}
    for name, (positions, values) in groupings.items():
        chosen[name] = positions[images], values
    return chosen


class Decisions:
    """Images by class or label, in each of B sets of weights.

    Attributes:
        true, predicted, hits: [C, B] images of it, predicted to be of it, and both.
    """

    groupings: Groupings | None = None
    hits: ndarray
    true: ndarray
    predicted: ndarray

    @cached_property
    def some(self) -> ndarray:
        """The classes that have an image or are predicted: bool [C, B]."""
        return self.true + self.predicted > 0

    @cached_property
    def f1(self) -> ndarray:
        """F1 of each class [C, B], 0 where it has no meaning, as in scikit-learn."""
        true_or_predicted = self.true + self.predicted
        return 2 * self.hits / np.maximum(true_or_predicted, 1)

    @cached_property
    def precision(self) -> ndarray:
        """Precision of each class [C, B], 0 where it has no meaning."""
        return self.hits / np.maximum(self.predicted, 1)

    @cached_property
    def recall(self) -> ndarray:
        """Recall of each class [C, B], 0 where it has no meaning."""
        return self.hits / np.maximum(self.true, 1)

    def over_classes(self, values: ndarray) -> ndarray:
        """The mean over classes that have an image or are predicted: [C, B] -> [B]."""
        return (values * self.some).sum(0) / self._classes

    @cached_property
    def _classes(self) -> ndarray:
        return self.some.sum(0)


class Sums(Decisions):
    """The sums of weighted images of one label each, in each of B sets of weights.

    Attributes:
        table: [C, C, B], images by true and predicted class.
        images: [B], all of them.
        wins: [C, C, B], pairs of an image of class a and one of b in which a's own score ranks
            first, a tie is half.
        distance_top, distance_positive: [BINS, B], in each bin the probabilities minus the images
            that are right, of the most likely class, and of class 1.
    """

    def __init__(self, plan: "ClassesPlan", weights: Weights = None):
        self.plan = plan
        self.weights = weights
        self.groupings = plan.groupings
        self._sort(plan.table(weights))

    def _sort(self, table: ndarray) -> None:
        self.table = table
        self.hits = table.diagonal().T  # [C, B]
        self.true = table.sum(1)  # [C, B]
        self.predicted = table.sum(0)  # [C, B]
        self.images = self.true.sum(0)  # [B]

    @cached_property
    def wins(self) -> ndarray:
        return self.plan.wins(self.weights, self.true)

    @cached_property
    def distance_top(self) -> ndarray:
        plan = self.plan
        images = np.arange(len(plan.guess))
        chance = plan.chance[images, plan.guess]
        return distance(chance, plan.guess == plan.y, self.weights)

    @cached_property
    def distance_positive(self) -> ndarray:
        plan = self.plan
        return distance(plan.chance[:, 1], plan.y == 1, self.weights)

    @property
    def needs(self) -> str:
        """The kind of these images, as metrics need it."""
        return TWO if len(self.table) == 2 else CLASSES

    @cached_property
    def auc(self) -> ndarray:
        """The area under the curve of each class against all others [C, B], NaN where either have
        no image.
        """
        pairs = self.true * (self.images - self.true)
        return self.wins.sum(1) / pairs

    def missing(self) -> list[int]:
        """The classes without an image in the first set of weights."""
        is_empty = self.true[:, 0] == 0
        return np.flatnonzero(is_empty).tolist()


@dataclass(frozen=True)
class ClassesPlan:
    """Images of one label each: all that the weights do not change.

    Attributes:
        chance: [N, C], the probabilities by which images are ranked. guess: [N], the most likely
            class.
        groupings: for metrics from outside the package; None where they are not asked for.
    """

    logits: ndarray
    y: ndarray
    chance: ndarray
    guess: ndarray
    groupings: Groupings | None = None

    @classmethod
    def of(
        cls,
        logits: ndarray,
        y: ndarray,
        groupings: Groupings | None = None,
    ) -> "ClassesPlan":
        """Raises FedcliError for logits that are not finite."""
        logits = np.asarray(logits)
        return cls(
            logits,
            y,
            probabilities(logits),
            logits.argmax(1),
            groupings,
        )

    @property
    def classes(self) -> int:
        return self.chance.shape[1]

    def sums(self, weights: Weights = None) -> Sums:
        return Sums(self, weights)

    @cached_property
    def members(self) -> dict[int, ndarray]:
        """The images of each class that has one, rising."""
        present = np.flatnonzero(np.bincount(self.y))
        return {int(c): np.flatnonzero(self.y == c) for c in present}

    @cached_property
    def cells(self) -> list[tuple[int, ndarray]]:
        """The index in the flattened table, and the images, of each cell that is not empty."""
        cell = self.y.astype(np.int64) * self.classes + self.guess
        order = np.argsort(cell, kind="stable")
        present, starts = np.unique(cell[order], return_index=True)
        images = np.split(order, starts[1:])  # no cell, one empty part: of no image
        return list(zip(present.tolist(), images))

    @cached_property
    def mirrored(self) -> bool:
        """True where two classes rank all images in opposite orders, so that one ranking says what
        both do.
        """
        if self.classes != 2 or len(self.members) != 2:
            return False
        return mirrored(self.chance[:, 0], self.chance[:, 1])

    @cached_property
    def rankings(self) -> dict[int, Ranking]:
        """The images of each class, ranked by its own score among those of each other class."""
        rankings = {}
        for c, images in self.members.items():
            if c == 0 and self.mirrored:
                continue
            others = dict(self.members)
            del others[c]
            rankings[c] = Ranking.of(self.chance[:, c], images, others)
        return rankings

    def table(self, weights: Weights) -> ndarray:
        """Images by true and predicted class [C, C, B], see Sums."""
        classes = self.classes
        if weights is None:
            cell = self.y * classes + self.guess  # [N]
            images = np.bincount(cell, minlength=classes**2)
            return images.reshape(classes, classes, 1)
        table = np.zeros((classes**2, weights.shape[1]))
        for index, members in self.cells:
            table[index] = total(weights[members])
        return table.reshape(classes, classes, -1)

    def wins(self, weights: Weights, true: ndarray) -> ndarray:
        """Pairs of images in which a class's own score ranks first [C, C, B], see Sums.

        true: [C, B] weight of each class.
        """
        wins = np.zeros((self.classes, self.classes, true.shape[1]))
        if weights is None:
            rising = {}  # class -> the scores of its images by each class [C, n]
            for c, images in self.members.items():
                rising[c] = np.sort(self.chance[images].T)
            for a, b in permutations(rising, 2):
                own_scores = rising[a][a]
                other_scores = rising[b][a]
                wins[a, b] = won(own_scores, other_scores)
            return wins
        for c, ranking in self.rankings.items():
            for other, lost in ranking.lost(weights).items():
                pairs = true[c] * true[other]
                wins[c, other] = pairs - lost
        if self.mirrored:
            wins[0, 1] = wins[1, 0]
        return wins


def distance(
    chance: ndarray,
    right: ndarray,
    weights: Weights = None,
) -> ndarray:
    """Sum of chance [N] minus right [N] in each bin: [BINS, B]."""
    # [N]; float rounding may bring a chance above 1
    bins = np.minimum(UPPER.searchsorted(chance), BINS - 1)
    off = chance - right
    if weights is None:
        return np.bincount(bins, off, BINS)[:, None]
    sums = []
    for k in range(BINS):
        images = bins == k
        sums.append(off[images] @ weights[images])
    return np.stack(sums)
