"""Pairs of images of two classes under many sets of weights at once: in how many the class's own
image ranks first.

All is counted in whole numbers, so no order of adding changes a digit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from .arithmetic import add_up

Rows = ndarray | slice


@dataclass(frozen=True)
class Ranking:
    """The images of one class among those of others, by a score.

    Attributes:
        own: [n] images of the class, its score rising.
        others: of each other class, its images; and for each of them [m] how many of own score
            less, and less or the same.
    """

    own: ndarray
    others: dict[int, tuple[Rows, ndarray, ndarray]]

    @classmethod
    def of(
        cls,
        score: ndarray,
        members: ndarray,
        others: Mapping[int, ndarray],
    ) -> "Ranking":
        """The ranking by score [N] of a class's members among those of each other class.

        members and others are positions of images, rising.
        """
        order = np.argsort(score[members], kind="stable")
        members = members[order]
        rising = score[members]
        ranks = {}
        for c, images in others.items():
            scores = score[images]
            below = np.searchsorted(rising, scores, "left")
            same = np.searchsorted(rising, scores, "right")
            ranks[c] = _rows(images), below, same
        return cls(members, ranks)

    def lost(self, weights: ndarray) -> dict[int, ndarray]:
        """Weight of the pairs in which the class's own image does not rank first; a tie is half.

        weights: whole numbers [N, b], wide enough for the weight of all pairs -> {other class:
        float64 [b]}.
        """
        shape = len(self.own) + 1, weights.shape[1]
        upto = np.zeros(shape, weights.dtype)  # weight of the lowest 0, 1, ... n
        rising = upto[1:]  # a view
        # clip: "raise" would copy the table once more
        np.take(weights, self.own, axis=0, out=rising, mode="clip")
        add_up(rising)
        lost = {}
        for c, (rows, below, same) in self.others.items():
            counts = weights[rows]  # [m, b]
            not_higher = upto.take(same, axis=0, mode="clip")
            behind = np.einsum(
                "mb,mb->b",
                not_higher,
                counts,
            )
            tied = np.flatnonzero(below != same)
            equals = upto[same[tied]] - upto[below[tied]]
            ties = np.einsum("mb,mb->b", equals, counts[tied])
            lost[c] = behind - ties / 2
        return lost


def won(scores: ndarray, other: ndarray) -> float:
    """Pairs of one of scores and one of other, both rising, in which the first is higher; a tie is
    half.
    """
    lower = other.searchsorted(scores, "left").sum()
    lower_or_equal = other.searchsorted(scores, "right").sum()
    return (lower + lower_or_equal) / 2


def mirrored(score: ndarray, other: ndarray) -> bool:
    """True where one score falls wherever the other rises, and is equal wherever that is equal."""
    _, ranks = np.unique(score, return_inverse=True)
    _, mirror = np.unique(-other, return_inverse=True)
    return np.array_equal(ranks, mirror)


def wide(images: int) -> type:
    """Integers wide enough for the pairs of so many images, twice."""
    return np.int32 if images * images < 2**31 else np.int64


def _rows(images: ndarray) -> Rows:
    """A slice where the positions follow on each other: what it selects is not copied."""
    if not len(images):
        return images
    start = int(images[0])
    stop = int(images[-1]) + 1
    return slice(start, stop) if stop - start == len(images) else images
