"""New images that differ so much from the training images that a probability means nothing.

Two comparisons, both with training images of the run. Brightness, contrast and colour of the pixels
must lie in the range of the training images. And the features that the network's head reads are
scaled to length 1 and must be as near to those of training images as these are to one another: the
distance to the k-th nearest, as in Sun, Ming, Zhu and Li, Out-of-Distribution Detection with Deep
Nearest Neighbors, ICML 2022. A threshold that a share of the training images exceeds, each measured
without itself, replaces the paper's, whose 5 % would be too many false alarms.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from ...data.shard import Shard
from ...runs import finished as runs
from ...runs.finished import FinishedRun

PIXELS = 6_000_000  # of training images that are compared
MOST = 2000  # training images that are compared
FEWEST = 50  # training images whose features are compared
NEIGHBOUR = 5  # k; the paper's 10 at one hundredth of ImageNet, of fewer images here
ALARMS = 0.005  # share of training images beyond the threshold
MARGIN = 0.1  # of a range of training images, on both sides
FACTS = (  # of an image: below and above those of all training images
    ("darker than every training image", "brighter than every training image"),
    (
        "with less contrast than every training image",
        "with more contrast than every training image",
    ),
    ("with less colour than every training image", "with more colour than every training image"),
)
FAR = "its features are far from the training images' features"
NO_FEATURES = np.zeros((0, 1), np.float32)
Array = np.ndarray


@dataclass(frozen=True)
class Known:
    """Facts of training images.

    Attributes:
        low, high: float64 [3], the ranges of brightness, contrast and colour, in grey levels.
        features: float32 [N, D] of length 1; of few images none, and only the ranges are compared.
        farthest: a distance to the k-th neighbour that few training images exceed.
    """

    low: Array
    high: Array
    features: Array
    farthest: float = np.inf

    @classmethod
    def of(cls, run: FinishedRun, client: str | None = None) -> "Known":
        """The facts of a sample of a run's training images, or of a client's.

        The model is the one in run.net.
        """
        clients = [client] if client else run.data.roster
        shards = [run.data.train[name] for name in clients]
        rows = torch.cat([shard.rows for shard in shards]).unique()
        side = shards[0].images.shape[-1]
        affordable = max(PIXELS // side**2, 2 * FEWEST)
        count = min(len(rows), MOST, affordable)
        if not count:
            lowest = np.full(3, -np.inf)
            highest = np.full(3, np.inf)
            return cls(lowest, highest, NO_FEATURES)
        steps = torch.linspace(0, len(rows) - 1, count, device=rows.device)
        chosen = rows[steps.long()]
        shard = _without_labels(shards[0], chosen)
        images = shard.images[chosen.to(shard.images.device)]
        facts = pixel_facts(images.permute(0, 2, 3, 1).cpu().numpy())
        margin = MARGIN * np.ptp(facts, 0) + 1
        # an image without any colour is below half of little
        lowest = facts.min(0)
        low = np.maximum(lowest - margin, lowest / 2)
        high = facts.max(0) + margin
        if count < FEWEST:
            return cls(low, high, NO_FEATURES)
        features = features_of(run, shard)
        farthest = np.quantile(_distances(features, features, 1), 1 - ALARMS)
        return cls(low, high, features, float(farthest))

    @property
    def comparable(self) -> bool:
        """True where there are training images to compare with."""
        return bool(np.isfinite(self.low).all())

    def reasons(self, facts: Array, features: Array) -> list[list[str]]:
        """For each of N images, its differences from the training images in words.

        facts: [N, 3] of pixel_facts(). features: [N, D] of features_of().
        """
        reasons = [self._out_of_range(row) for row in facts]
        if len(self.features):
            distances = _distances(features, self.features, 0)
            for of_image, distance in zip(reasons, distances, strict=True):
                if not distance <= self.farthest:
                    of_image.append(FAR)
        return reasons

    def _out_of_range(self, facts: Array) -> list[str]:
        """The facts [3] of one image that no training image has, in words."""
        words = []
        for (below, above), value, low, high in zip(FACTS, facts, self.low, self.high, strict=True):
            if value < low:
                words.append(below)
            elif not value <= high:
                words.append(above)
        return words


def pixel_facts(images: Array) -> Array:
    """Mean and standard deviation of the greys, and the mean distance of the channels.

    images: uint8 [N, H, W, C]. Returns float64 [N, 3].
    """
    greys = images.mean(3, dtype=np.float32)
    colour = np.ptp(images, 3).mean((1, 2))
    means = greys.mean((1, 2))
    deviations = greys.std((1, 2))
    facts = np.stack([means, deviations, colour], 1)
    return facts.astype(np.float64)


@torch.inference_mode()
def features_of(run: FinishedRun, shard: Shard) -> Array:
    """The features of a shard's images as run.net's head reads them: float32 [N, D] of length 1."""
    parts: list[torch.Tensor] = []
    for features in runs.features(run, shard):
        vectors = features.float()
        if vectors.ndim > 2:
            vectors = vectors.flatten(1, -2).mean(1)
        parts.append(torch.nn.functional.normalize(vectors, dim=1))
    return torch.cat(parts).cpu().numpy()


def _without_labels(shard: Shard, rows: torch.Tensor) -> Shard:
    """Images of the pool by row, as predict sees new ones."""
    unknown_groups = {name: torch.full_like(rows, -1) for name in shard.groups}
    unlabelled = torch.zeros_like(rows)
    return replace(
        shard,
        rows=rows,
        y=unlabelled,
        ids=np.arange(len(rows)),
        groups=unknown_groups,
        derived={},
    )


def _distances(features: Array, training: Array, itself: int) -> Array:
    """The distance of each vector of length 1 [N, D] to the k-th nearest training one [N].

    itself: 1 where it is one of them.
    """
    squared = 2 - 2 * features @ training.T
    neighbour = NEIGHBOUR - 1 + itself
    nearest = np.partition(squared, neighbour, 1)[:, neighbour]
    return np.sqrt(nearest.clip(0))
