"""Pairs of images of two classes under many sets of weights at once: in how many the class's own image ranks first.

All is counted in whole numbers, so no order of adding changes a digit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arithmetic import add_up

Rows = np.ndarray | slice


@dataclass(frozen=True)
class Ranking:
    """The images of one class among those of others, by a score.

    Attributes:
        own: [n] images of the class, its score rising.
        others: of each other class, its images; and for each of them [m] how many of own score less, and less or the
            same.
    """

    own: np.ndarray
    others: dict[int, tuple[Rows, np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, score: np.ndarray, own: np.ndarray, others: Mapping[int, np.ndarray]) -> "Ranking":
        """score: [N]. own, and those of each other class: places of images, rising."""
        own = own[np.argsort(score[own], kind="stable")]
        rising = score[own]
        return cls(
            own,
            {
                c: (
                    _rows(at),
                    np.searchsorted(rising, score[at], "left"),
                    np.searchsorted(rising, score[at], "right"),
                )
                for c, at in others.items()
            },
        )

    def lost(self, weights: np.ndarray) -> dict[int, np.ndarray]:
        """Weight of the pairs in which the class's own image does not rank first; a tie is half.

        weights: whole numbers [N, b], wide enough for the weight of all pairs -> {other class: float64 [b]}.
        """
        upto = np.zeros(
            (len(self.own) + 1, weights.shape[1]), weights.dtype
        )  # weight of the lowest 0, 1, ... n
        np.take(
            weights, self.own, axis=0, out=upto[1:], mode="clip"
        )  # clip: "raise" would copy the table once more
        add_up(upto[1:])
        lost = {}
        for c, (rows, below, same) in self.others.items():
            counts = weights[rows]  # [m, b]
            behind = np.einsum("mb,mb->b", upto.take(same, axis=0, mode="clip"), counts)
            tied = np.flatnonzero(below != same)
            ties = np.einsum("mb,mb->b", upto[same[tied]] - upto[below[tied]], counts[tied])
            lost[c] = behind - ties / 2
        return lost


def won(own: np.ndarray, other: np.ndarray) -> float:
    """Pairs of one of own and one of other scores, both rising, in which the first is higher; a tie is half."""
    return (other.searchsorted(own, "left").sum() + other.searchsorted(own, "right").sum()) / 2


def mirrored(first: np.ndarray, second: np.ndarray) -> bool:
    """True where one score falls wherever the other rises, and is equal wherever that is equal."""
    ranks, mirror = (np.unique(score, return_inverse=True)[1] for score in (first, -second))
    return np.array_equal(ranks, mirror)


def wide(most: int) -> type:
    """Integers wide enough for the pairs of so many images, twice."""
    return np.int32 if most * most < 2**31 else np.int64


def _rows(at: np.ndarray) -> Rows:
    """A slice where the places follow on each other: what it selects is not copied."""
    following = len(at) and at[-1] - at[0] + 1 == len(at)
    return slice(int(at[0]), int(at[-1]) + 1) if following else at
