"""How sure a score is: scores in resamples of the test patients, their intervals and p.

Source: the bootstrap and its percentile interval are Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapters 6 and 13, with whole patients drawn (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
section 3.8).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import FedcliError
from ..labels import NO, UNKNOWN, YES
from ..metrics import label_probabilities, mean_recall, probabilities
from ..seeds import derive
from .statistics import sign_floor

METRICS = "accuracy", "balanced_accuracy", "f1_macro", "auc_ovo_macro"  # and auc_binary, of two classes
OF_LABELS = (  # of several labels per image
    "auc_macro",
    "balanced_accuracy_macro",
    "f1_macro",
    "exact_match_accuracy",
    "hamming_accuracy",
)
LEVEL = 0.95
CHUNK = 2**19  # image weights at a time, 2 MiB: they stay in a cache, and memory does not grow with resamples


def draw(units: np.ndarray | int, resamples: int, seed: int) -> np.ndarray:
    """How often each resample holds each image: int16 [B, N].

    units: [N], the patient of each image; all images of a patient are drawn together, as many patients as there are,
        with replacement. A number stands for that many images of a patient each.
    Equal arguments give equal draws, which is what pairs two models on the same images.
    """
    parts = list(_draws(units, resamples, seed))
    return np.concatenate(parts, 1).T.astype(np.int16)


def _draws(units: np.ndarray | int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """The transposed draws [N, b] a few at a time; how many at a time changes no number.

    They are integers wide enough for the number of pairs of images that a resample can hold, twice.
    """
    places = np.arange(units) if isinstance(units, int) else np.unique(units, return_inverse=True)[1]  # [N]
    if not len(places):
        raise FedcliError("there is no image to draw", "evaluate on a test set with images")
    count = int(places.max()) + 1
    most = count * int(np.bincount(places).max())  # images of a resample
    dtype = np.int32 if most * most < 2**31 else np.int64
    chance = np.random.default_rng(derive("bootstrap", seed))
    step = max(1, CHUNK // len(places))
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        drawn = chance.integers(count, size=(b, count)) + count * np.arange(b)[:, None]
        times = np.bincount(drawn.ravel(), minlength=b * count).reshape(b, count)  # [b, U]
        yield times.T.astype(dtype)[places]


def bootstrap(
    logits: np.ndarray,
    y: np.ndarray,
    units: np.ndarray | None = None,
    *,
    resamples: int = 1000,
    seed: int,
    groups: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Scores of logits [N, C] against labels y, [N] or [N, C], in resamples of the patients: {metric: float64 [B]}.

    units: [N], the patient of each image; None draws images one by one.
    groups: [N], -1 for none; then each metric is [B, G], of the images of each group 0..G-1, in the same resamples.

    A class that a resample holds no image of is left out of that resample's score, as metrics.score leaves a class
    out that the test set holds no image of; a score without meaning there (an AUC of one class, a group without an
    image) is NaN in that resample and `interval` passes over it.
    """
    (table,) = bootstrap_all([logits], y, units, resamples=resamples, seed=seed, groups=groups)
    return table


def bootstrap_all(
    tables: Sequence[np.ndarray],
    y: np.ndarray,
    units: np.ndarray | None = None,
    *,
    resamples: int = 1000,
    seed: int,
    groups: np.ndarray | None = None,
) -> list[dict[str, np.ndarray]]:
    """bootstrap() of each of several models' logits on the same images; the resamples are drawn once."""
    parts = _members(groups, len(y))
    plan = _Plan if y.ndim == 1 else _LabelsPlan
    plans = [[plan.of(logits[at], y[at]) for at in parts] for logits in tables]
    drawn: list[list[list[dict[str, np.ndarray]]]] = [[] for _ in tables]
    for weights in _draws(len(y) if units is None else units, resamples, seed):
        each = [weights if groups is None else weights[at] for at in parts]
        for plan, scores in zip(plans, drawn, strict=True):
            scores.append([part.scores(held) for part, held in zip(plan, each, strict=True)])
    return [_joined(scores, groups is not None) for scores in drawn]


def weighted(logits: np.ndarray, y: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of images that count so often each: weights int32 [N, B] -> {metric: float64 [B]}, NaN without meaning."""
    return (_Plan if y.ndim == 1 else _LabelsPlan).of(logits, y).scores(weights)


def _joined(drawn: list[list[dict[str, np.ndarray]]], by_group: bool) -> dict[str, np.ndarray]:
    """Scores of some resamples at a time, by group -> {metric: [B, G], or [B] without groups}."""
    names = drawn[0][0] if drawn else ()
    table = {name: np.concatenate([np.stack([scores[name] for scores in each], 1) for each in drawn]) for name in names}
    return {name: column if by_group else column[:, 0] for name, column in table.items()}


def interval(values: np.ndarray, level: float = LEVEL) -> tuple[float | None, float | None]:
    """Percentile interval of resampled values [B]; NaN are passed over, (None, None) where nothing else is there."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None, None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bootstrap_p(differences: np.ndarray, units: int) -> float | None:
    """Two-sided p of a resampled difference [B]: twice the smaller share on either side of zero, zero on both.

    One is added to both counts, so that B resamples give no p below 2 / (B + 1).
    units: patients that differ at all; p is no less than their sign_floor, for resamples of few patients hold the same
        ones again and again and cannot show how others would differ.
    """
    known = differences[~np.isnan(differences)]
    if not len(known):
        return None
    fewer = min((known <= 0).sum(), (known >= 0).sum())
    return min(1.0, max(2 * (int(fewer) + 1) / (len(known) + 1), sign_floor(units)))


def _members(groups: np.ndarray | None, count: int) -> list[np.ndarray]:
    if groups is None:
        return [np.arange(count)]
    return [np.flatnonzero(groups == g) for g in range(max(int(groups.max(initial=-1)) + 1, 1))]


@dataclass(frozen=True)
class _Area:
    """Where one class's images stand among those of all others, by the class's own score.

    own: [n] images of the class, its score rising. other: [m] all others, class by class.
    below, upto: [m] how many of own score less, and less or the same. starts: where each class of other begins.
    """

    own: np.ndarray
    other: np.ndarray
    below: np.ndarray
    upto: np.ndarray
    starts: np.ndarray
    classes: np.ndarray  # of each block of other


@dataclass(frozen=True)
class _Plan:
    """All that the weights do not change: images are sorted once for any number of resamples."""

    classes: int
    order: np.ndarray  # [N] images by cell of the table of true and predicted classes
    starts: np.ndarray  # where each cell that occurs begins in that order
    cells: np.ndarray  # its place in the flattened table
    areas: dict[int, _Area]  # of each class with an image

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray) -> "_Plan":
        chance = probabilities(logits)  # [N, C], the scores that metrics.score ranks by
        guess, classes = np.asarray(logits).argmax(1), chance.shape[1]
        cell = y.astype(np.int64) * classes + guess
        cells, starts = np.unique(np.sort(cell), return_index=True)
        areas = {int(c): _area(chance[:, c], y, int(c)) for c in np.unique(y)}
        return cls(classes, np.argsort(cell, kind="stable"), starts, cells, areas)

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Weights [N, b] -> {metric: float64 [b]}; NaN where a score has no meaning."""
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
            table = self._table(weights)
            return self._decisions(table) | self._aucs(weights, table.sum(1))

    def _table(self, weights: np.ndarray) -> np.ndarray:
        """Weights by true and predicted class: [C, C, b]."""
        table = np.zeros((self.classes**2, weights.shape[1]))
        if len(self.cells):
            table[self.cells] = np.add.reduceat(weights[self.order], self.starts, axis=0, dtype=weights.dtype)
        return table.reshape(self.classes, self.classes, -1)

    def _decisions(self, table: np.ndarray) -> dict[str, np.ndarray]:
        hits, true, predicted = np.einsum("ccb->cb", table), table.sum(1), table.sum(0)  # [C, b]
        return {
            "accuracy": hits.sum(0) / true.sum(0),
            "balanced_accuracy": mean_recall(hits / true),
            "f1_macro": _mean(2 * hits / (true + predicted), true + predicted > 0),
        }

    def _aucs(self, weights: np.ndarray, n: np.ndarray) -> dict[str, np.ndarray]:
        """Hand and Till's mean over pairs of classes that both have an image; n: weight of each class [C, b]."""
        wins = np.zeros((self.classes, self.classes, weights.shape[1]))
        for c, area in self.areas.items():
            if len(area.other):
                wins[c, area.classes] = _wins(area, weights)
        first, second = np.triu_indices(self.classes, 1)
        both = n[first] * n[second]  # [P, b]
        areas = {"auc_ovo_macro": _mean((wins[first, second] + wins[second, first]) / (2 * both), both > 0)}
        return areas | ({"auc_binary": wins[1, 0] / both[0]} if self.classes == 2 else {})


@dataclass(frozen=True)
class _LabelsPlan:
    """The same of several labels per image.

    Attributes:
        areas: of each label that some images have and others do not; None of another.
        cells: float64 [4, L, N] 1 where an image has a label and is said to, or not, and where it has it not and is
            said to, or not; 0 where that is not known.
        whole: whether all known labels of an image are right, [2, N]: 1 where so, and 1 where any is known.
    """

    areas: list[_Area | None]
    cells: np.ndarray
    whole: np.ndarray

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray) -> "_LabelsPlan":
        label_probabilities(logits)  # refuses what is not finite
        has, has_not, said = y == YES, y == NO, np.asarray(logits) >= 0  # [N, L]
        areas = []
        for k in range(y.shape[1]):
            known = np.flatnonzero(y[:, k] != UNKNOWN)
            area = _area(logits[known, k], has[known, k].astype(np.int64), 1)
            own, other = known[area.own], known[area.other]
            areas.append(replace(area, own=own, other=other) if len(own) and len(other) else None)
        cells = np.stack([has & said, has & ~said, has_not & said, has_not & ~said]).transpose(0, 2, 1)
        right = (has == said) | (y == UNKNOWN)
        any_known = (y != UNKNOWN).any(1)
        return cls(areas, cells.astype(float), np.stack([right.all(1) & any_known, any_known]).astype(float))

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Weights [N, b] -> {metric: float64 [b]}; NaN where a score has no meaning."""
        held = weights.astype(float)
        hit, missed, wrong, passed = self.cells @ held  # [L, b] each
        yes, no = hit + missed, wrong + passed
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
            balanced = (hit / yes + passed / no) / 2
            either = 2 * hit + missed + wrong
            exact, known = self.whole @ held  # [b]
            return {
                "auc_macro": self._auc(weights, yes * no),
                "balanced_accuracy_macro": _mean(balanced, yes * no > 0),
                "f1_macro": _mean(2 * hit / either, either > 0),
                "exact_match_accuracy": exact / known,
                "hamming_accuracy": (hit + passed).sum(0) / (yes + no).sum(0),
            }

    def _auc(self, weights: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Mean over labels of which both kinds of images are drawn; pairs: [L, b] weight of all pairs."""
        wins = np.zeros(pairs.shape)
        for k, area in enumerate(self.areas):
            if area is not None:
                wins[k] = _wins(area, weights)[0]
        return _mean(wins / pairs, pairs > 0)


def _area(score: np.ndarray, y: np.ndarray, c: int) -> _Area:
    own, other = np.flatnonzero(y == c), np.flatnonzero(y != c)
    own, other = own[np.argsort(score[own])], other[np.lexsort((score[other], y[other]))]
    below, upto = (np.searchsorted(score[own], score[other], side) for side in ("left", "right"))
    classes, starts = np.unique(y[other], return_index=True)
    return _Area(own, other, below, upto, starts, classes)


def _wins(area: _Area, weights: np.ndarray) -> np.ndarray:
    """Weight of the pairs in which the class's own image ranks first, by the other's class [c, b]; a tie is half."""
    upto = np.zeros((len(area.own) + 1, weights.shape[1]), weights.dtype)  # weight of the lowest 0, 1, ... n
    np.cumsum(weights[area.own], axis=0, dtype=weights.dtype, out=upto[1:])
    above = 2 * upto[-1] - upto[area.below] - upto[area.upto]  # [m, b] twice
    return np.add.reduceat(above * weights[area.other], area.starts, axis=0, dtype=weights.dtype) / 2


def _mean(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is there: [K, b] -> [b]."""
    return np.where(there, values, 0).sum(0) / there.sum(0)
