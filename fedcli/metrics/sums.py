"""The images of one model, sorted once for any weights, and the sums over weighted images that metrics are made of.

Weights are whole numbers [N, B]: how often each image counts, in each of B sets. None stands for one set of ones, which
is what the score of a model is; it is summed without a table of weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .arithmetic import total
from .metric import CLASSES, TWO
from .probabilities import probabilities
from .ranking import Ranking, mirrored, won

BINS = (
    15  # of equal width, of calibration errors: (0, 1/15], (1/15, 2/15], ...; the first holds 0 too
)
UPPER = np.arange(1, BINS + 1) / BINS  # edges of the bins
Weights = np.ndarray | None
Grouping = tuple[
    np.ndarray, list[str]
]  # of each image the place of its group among the values, -1 unknown: [N]
Groupings = Mapping[str, Grouping]  # attribute -> its groups


def groupings_at(groupings: Groupings, at: np.ndarray | slice) -> Groupings:
    """The groups of some of the images."""
    return {name: (places[at], values) for name, (places, values) in groupings.items()}


class Decisions:
    """Images by class, in each of B sets of weights: of it, predicted to be, and both [C, B]; of labels likewise."""

    groupings: Groupings | None = None
    hits: np.ndarray
    true: np.ndarray
    predicted: np.ndarray

    @cached_property
    def some(self) -> np.ndarray:
        """The classes that have an image or are predicted: bool [C, B]."""
        return self.true + self.predicted > 0

    @cached_property
    def f1(self) -> np.ndarray:
        """Of each class [C, B], 0 where it has no meaning: as scikit-learn takes it."""
        return 2 * self.hits / np.maximum(self.true + self.predicted, 1)

    @cached_property
    def precision(self) -> np.ndarray:
        """As f1."""
        return self.hits / np.maximum(self.predicted, 1)

    @cached_property
    def recall(self) -> np.ndarray:
        """As f1."""
        return self.hits / np.maximum(self.true, 1)

    def over_classes(self, values: np.ndarray) -> np.ndarray:
        """The mean over classes that have an image or are predicted: [C, B] -> [B]."""
        return (values * self.some).sum(0) / self._classes

    @cached_property
    def _classes(self) -> np.ndarray:
        return self.some.sum(0)


class Sums(Decisions):
    """The sums of weighted images of one label each, in each of B sets of weights.

    Attributes:
        table: [C, C, B], images by true and predicted class.
        images: [B], all of them.
        wins: [C, C, B], pairs of an image of class a and one of b in which a's own score ranks first, a tie is half.
        distance_top, distance_positive: [BINS, B], in each bin the probabilities minus the images that are right, of
            the most likely class, and of class 1.
    """

    def __init__(self, plan: "ClassesPlan", weights: Weights = None):
        self.plan, self.weights, self.groupings = plan, weights, plan.groupings
        self._sort(plan.table(weights))

    def _sort(self, table: np.ndarray) -> None:
        self.table, self.hits = table, table.diagonal().T  # [C, B]
        self.true, self.predicted = table.sum(1), table.sum(0)  # [C, B]
        self.images = self.true.sum(0)  # [B]

    @cached_property
    def wins(self) -> np.ndarray:
        return self.plan.wins(self.weights, self.true)

    @cached_property
    def distance_top(self) -> np.ndarray:
        guess, chance = self.plan.guess, self.plan.chance
        return distance(chance[np.arange(len(guess)), guess], guess == self.plan.y, self.weights)

    @cached_property
    def distance_positive(self) -> np.ndarray:
        return distance(self.plan.chance[:, 1], self.plan.y == 1, self.weights)

    @property
    def needs(self) -> str:
        """The kind of these images, as metrics need it."""
        return TWO if len(self.table) == 2 else CLASSES

    @cached_property
    def auc(self) -> np.ndarray:
        """Of each class against all others [C, B], NaN where either have no image."""
        return self.wins.sum(1) / (self.true * (self.images - self.true))

    def missing(self) -> list[int]:
        """The classes without an image in the first set of weights."""
        return np.flatnonzero(self.true[:, 0] == 0).tolist()


@dataclass(frozen=True)
class ClassesPlan:
    """Images of one label each: all that the weights do not change.

    Attributes:
        chance: [N, C], the probabilities by which images are ranked. guess: [N], the most likely class.
        groupings: for metrics from outside the package; None where they are not asked for.
    """

    logits: np.ndarray
    y: np.ndarray
    chance: np.ndarray
    guess: np.ndarray
    groupings: Groupings | None = None

    @classmethod
    def of(
        cls, logits: np.ndarray, y: np.ndarray, groupings: Groupings | None = None
    ) -> "ClassesPlan":
        """Raises FedcliError for logits that are not finite."""
        logits = np.asarray(logits)
        return cls(logits, y, probabilities(logits), logits.argmax(1), groupings)

    @property
    def classes(self) -> int:
        return self.chance.shape[1]

    def sums(self, weights: Weights = None) -> Sums:
        return Sums(self, weights)

    @cached_property
    def members(self) -> dict[int, np.ndarray]:
        """The images of each class that has one, rising."""
        return {int(c): np.flatnonzero(self.y == c) for c in np.flatnonzero(np.bincount(self.y))}

    @cached_property
    def cells(self) -> list[tuple[int, np.ndarray]]:
        """Of each cell of the table that occurs its place in the flattened table, and its images."""
        cell = self.y.astype(np.int64) * self.classes + self.guess
        order = np.argsort(cell, kind="stable")
        present, starts = np.unique(cell[order], return_index=True)
        return list(
            zip(present.tolist(), np.split(order, starts[1:]))
        )  # no cell, one empty part: of no image

    @cached_property
    def mirrored(self) -> bool:
        """True where two classes rank all images in opposite orders, so that one ranking says what both do."""
        return self.classes == len(self.members) == 2 and mirrored(
            self.chance[:, 0], self.chance[:, 1]
        )

    @cached_property
    def rankings(self) -> dict[int, Ranking]:
        """Of each class with images, by the class's own score, among those of each other class."""
        return {
            c: Ranking.of(
                self.chance[:, c],
                own,
                {other: at for other, at in self.members.items() if other != c},
            )
            for c, own in self.members.items()
            if c or not self.mirrored
        }

    def table(self, weights: Weights) -> np.ndarray:
        """As of Sums."""
        if weights is None:
            cells = np.bincount(self.y * self.classes + self.guess, minlength=self.classes**2)
            return cells.reshape(self.classes, self.classes, 1)
        table = np.zeros((self.classes**2, weights.shape[1]))
        for place, images in self.cells:
            table[place] = total(weights[images])
        return table.reshape(self.classes, self.classes, -1)

    def wins(self, weights: Weights, true: np.ndarray) -> np.ndarray:
        """As of Sums. true: [C, B] weight of each class."""
        wins = np.zeros((self.classes, self.classes, true.shape[1]))
        if weights is None:
            rising = {
                c: np.sort(self.chance[at].T, axis=1) for c, at in self.members.items()
            }  # each [C, n]
            for a in rising:
                for b in rising:
                    if a != b:
                        wins[a, b] = won(rising[a][a], rising[b][a])
            return wins
        for c, ranking in self.rankings.items():
            for other, lost in ranking.lost(weights).items():
                wins[c, other] = true[c] * true[other] - lost
        if self.mirrored:
            wins[0, 1] = wins[1, 0]
        return wins


def distance(chance: np.ndarray, right: np.ndarray, weights: Weights = None) -> np.ndarray:
    """Sum of chance [N] minus right [N] in each bin: [BINS, B]."""
    place = np.minimum(
        UPPER.searchsorted(chance), BINS - 1
    )  # [N]; float rounding may bring a chance above 1
    off = chance - right
    if weights is None:
        return np.bincount(place, off, BINS)[:, None]
    return np.stack([off[place == k] @ weights[place == k] for k in range(BINS)])
