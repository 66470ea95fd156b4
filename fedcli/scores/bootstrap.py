"""How sure a score is: scores in resamples of the test patients, their intervals and p.

Source: the bootstrap and its percentile interval are Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
chapters 6 and 13, with whole patients drawn (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
section 3.8).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import FedcliError
from ..labels import NO, UNKNOWN, YES
from ..metrics import apart, label_probabilities, mean_recall, probabilities
from ..seeds import derive
from .ranked_pairs import Ranking, mirrored, total
from .statistics import sign_floor

METRICS = "accuracy", "balanced_accuracy", "f1_macro", "auc_ovo_macro"
OF_TWO = "auc_binary"  # of two classes, beside these
OF_LABELS = (  # of several labels per image
    "auc_macro",
    "balanced_accuracy_macro",
    "f1_macro",
    "exact_match_accuracy",
    "hamming_accuracy",
)
WITH_TEST = tuple(dict.fromkeys([*METRICS, OF_TWO, *OF_LABELS]))  # all that have paired tests, and so marks
LEVEL = 0.95
CHUNK = 2**19  # image weights at a time, 2 MiB: they stay in a cache, and memory does not grow with resamples
KEPT = 2**26  # bytes of draws that are kept for the next run on the same test images


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
    dtype = _wide(most)
    step, alone = max(1, CHUNK // len(places)), count == len(places) and isinstance(units, int)
    drawn = _times(count, resamples, seed, step)
    for times in _kept(count, resamples, seed, step) if count * resamples <= KEPT else drawn:
        yield times.astype(dtype) if alone else times.astype(dtype)[places]


def _times(count: int, resamples: int, seed: int, step: int) -> Iterator[np.ndarray]:
    """How often each resample holds each of so many patients: [U, b], `step` resamples at a time."""
    chance = np.random.default_rng(derive("bootstrap", seed))
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        drawn = chance.integers(count, size=(b, count)) + count * np.arange(b)[:, None]
        times = np.bincount(drawn.ravel(), minlength=b * count).reshape(b, count)  # [b, U]
        yield np.ascontiguousarray(times.T, np.min_scalar_type(times.max()))


@lru_cache(maxsize=1)
def _kept(count: int, resamples: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
    """The same, remembered: runs that are compared have one test set, and drawing takes as long as scoring."""
    return tuple(_times(count, resamples, seed, step))


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
    parts = _members(groups, y)
    plan = _Plan if y.ndim == 1 else _LabelsPlan
    plans = [[plan.of(logits[at], y[at]) for at in parts] for logits in tables]
    drawn: list[list[list[dict[str, np.ndarray]]]] = [[] for _ in tables]
    for weights in _draws(len(y) if units is None else units, resamples, seed):
        each = [weights[at] for at in parts]
        for plan, scores in zip(plans, drawn, strict=True):
            scores.append([part.scores(drawn_weights) for part, drawn_weights in zip(plan, each, strict=True)])
    return [_joined(scores, groups is not None) for scores in drawn]


def weighted(logits: np.ndarray, y: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of images that count so often each: weights [N, B], whole numbers or whether an image counts ->
    {metric: float64 [B]}, NaN without meaning."""
    most = int(weights.sum(0, dtype=np.int64).max(initial=0))
    plan = (_Plan if y.ndim == 1 else _LabelsPlan).of(logits, y)
    return plan.scores(weights.astype(_wide(most), copy=False))


def _wide(most: int) -> type:
    """Integers wide enough for the pairs of so many images, twice."""
    return np.int32 if most * most < 2**31 else np.int64


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
    known = apart(differences[~np.isnan(differences)], 0.0)
    if not len(known):
        return None
    fewer = min((known <= 0).sum(), (known >= 0).sum())
    return min(1.0, max(2 * (int(fewer) + 1) / (len(known) + 1), sign_floor(units)))


def _members(groups: np.ndarray | None, y: np.ndarray) -> list[np.ndarray]:
    """The images of each group, class after class, so that the weights of a class lie together."""
    order = np.argsort(y, kind="stable") if y.ndim == 1 else np.arange(len(y))
    if groups is None:
        return [order]
    return [order[groups[order] == g] for g in range(max(int(groups.max(initial=-1)) + 1, 1))]


@dataclass(frozen=True)
class _Plan:
    """All that the weights do not change: images are sorted once for any number of resamples.

    Attributes:
        cells: of each cell of the table of true and predicted classes that occurs, its place in the flattened table
            and its images.
        rankings: of each class with images, by the class's own score, among those of each other class.
        mirrored: whether two classes rank all images in opposite orders, so that one ranking says what both do.
    """

    classes: int
    cells: list[tuple[int, np.ndarray]]
    rankings: dict[int, Ranking]
    mirrored: bool

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray) -> "_Plan":
        chance = probabilities(logits)  # [N, C], the scores that metrics.score ranks by
        guess, classes = np.asarray(logits).argmax(1), chance.shape[1]
        cell = y.astype(np.int64) * classes + guess
        order = np.argsort(cell, kind="stable")
        present, starts = np.unique(cell[order], return_index=True)
        cells = list(zip(present.tolist(), np.split(order, starts[1:])))  # no cell, one empty part: of no image
        each = {int(c): np.flatnonzero(y == c) for c in np.unique(y)}
        two = classes == len(each) == 2 and mirrored(chance[:, 0], chance[:, 1])
        rankings = {
            c: Ranking.of(chance[:, c], own, {other: at for other, at in each.items() if other != c})
            for c, own in each.items()
            if c or not two
        }
        return cls(classes, cells, rankings, two)

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Weights [N, b] -> {metric: float64 [b]}; NaN where a score has no meaning."""
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
            table = self._table(weights)
            return self._decisions(table) | self._aucs(weights, table.sum(1))

    def _table(self, weights: np.ndarray) -> np.ndarray:
        """Weights by true and predicted class: [C, C, b]."""
        table = np.zeros((self.classes**2, weights.shape[1]))
        for place, images in self.cells:
            table[place] = total(weights[images])
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
        for c, ranking in self.rankings.items():
            for other, lost in ranking.lost(weights).items():
                wins[c, other] = n[c] * n[other] - lost
        if self.mirrored:
            wins[0, 1] = wins[1, 0]
        first, second = np.triu_indices(self.classes, 1)
        both = n[first] * n[second]  # [P, b]
        areas = {"auc_ovo_macro": _mean((wins[first, second] + wins[second, first]) / (2 * both), both > 0)}
        return areas | ({"auc_binary": wins[1, 0] / both[0]} if self.classes == 2 else {})


@dataclass(frozen=True)
class _LabelsPlan:
    """The same of several labels per image.

    Attributes:
        rankings: of the images with each label among those without it; None where either are none.
        cells: float64 [4, L, N] 1 for a true positive, false negative, false positive and true negative; 0 where the
            label is not known.
        whole: whether all known labels of an image are right, [2, N]: 1 where so, and 1 where any is known.
    """

    rankings: list[Ranking | None]
    cells: np.ndarray
    whole: np.ndarray

    @classmethod
    def of(cls, logits: np.ndarray, y: np.ndarray) -> "_LabelsPlan":
        label_probabilities(logits)  # refuses what is not finite
        has, has_not, predicted = y == YES, y == NO, np.asarray(logits) >= 0  # [N, L]
        rankings = []
        for k in range(y.shape[1]):
            own, other = np.flatnonzero(has[:, k]), np.flatnonzero(has_not[:, k])
            rankings.append(Ranking.of(logits[:, k], own, {0: other}) if len(own) and len(other) else None)
        cells = np.stack([has & predicted, has & ~predicted, has_not & predicted, has_not & ~predicted])  # [4, N, L]
        right = (has == predicted) | (y == UNKNOWN)
        any_known = (y != UNKNOWN).any(1)
        return cls(
            rankings,
            cells.transpose(0, 2, 1).astype(float),
            np.stack([right.all(1) & any_known, any_known]).astype(float),
        )

    def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Weights [N, b] -> {metric: float64 [b]}; NaN where a score has no meaning."""
        counts = weights.astype(float)
        hit, missed, wrong, passed = self.cells @ counts  # [L, b] each
        yes, no = hit + missed, wrong + passed
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 is the NaN that is meant
            balanced = (hit / yes + passed / no) / 2
            either = 2 * hit + missed + wrong
            exact, known = self.whole @ counts  # [b]
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
        for k, ranking in enumerate(self.rankings):
            if ranking is not None:
                wins[k] = pairs[k] - ranking.lost(weights)[0]
        return _mean(wins / pairs, pairs > 0)


def _mean(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is there: [K, b] -> [b]."""
    return np.where(there, values, 0).sum(0) / there.sum(0)
