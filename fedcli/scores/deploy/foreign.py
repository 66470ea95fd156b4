"""New images beside the training images: those that differ so much that a probability says nothing about them.

Two comparisons, both with training images of the run. Brightness, contrast and colour of the pixels must lie in the
range of the training images. And the features that the network's head reads are scaled to length 1 and must be as near
to those of training images as these are to one another: the distance to the k-th nearest, as in Sun, Ming, Zhu and Li,
Out-of-Distribution Detection with Deep Nearest Neighbors, ICML 2022. A threshold that a share of the training images
exceeds, each measured without itself, replaces the paper's, whose 5 % would be too many false alarms.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch

from ...data.shard import Shard
from ...runs import finished as runs
from ...runs.finished import Run

PIXELS, MOST, FEWEST = (
    6_000_000,
    2000,
    50,
)  # pixels of training images that are compared, most and fewest images
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
FAR = "its features are far from those of the training images"


@dataclass(frozen=True)
class Known:
    """Facts of training images.

    Attributes:
        low, high: float64 [3], the ranges of brightness, contrast and colour, in grey levels.
        features: float32 [N, D] of length 1; of few images none, and only the ranges are compared.
        farthest: a distance to the k-th neighbour that few training images exceed.
    """

    low: np.ndarray
    high: np.ndarray
    features: np.ndarray
    farthest: float = np.inf

    @classmethod
    def of(cls, run: Run, client: str | None = None) -> "Known":
        """Of a sample of a run's training images, or of a client's; the model is the one in run.net."""
        shards = (
            [run.data.train[client]]
            if client
            else [run.data.train[name] for name in run.data.roster]
        )
        rows = torch.cat([shard.rows for shard in shards]).unique()
        side = shards[0].images.shape[-1]
        count = min(len(rows), MOST, max(PIXELS // side**2, 2 * FEWEST))
        if not count:
            return cls(np.full(3, -np.inf), np.full(3, np.inf), np.zeros((0, 1), np.float32))
        chosen = rows[torch.linspace(0, len(rows) - 1, count, device=rows.device).long()]
        shard = _without_labels(shards[0], chosen)
        pixels = shard.images[chosen.to(shard.images.device)].permute(0, 2, 3, 1).cpu().numpy()
        facts = pixel_facts(pixels)
        room = MARGIN * np.ptp(facts, 0) + 1
        features = features_of(run, shard) if count >= FEWEST else np.zeros((0, 1), np.float32)
        farthest = (
            float(np.quantile(_distances(features, features, 1), 1 - ALARMS))
            if len(features)
            else np.inf
        )
        low = np.maximum(
            facts.min(0) - room, facts.min(0) / 2
        )  # an image without any colour is below half of little
        return cls(low, facts.max(0) + room, features, farthest)

    @property
    def comparable(self) -> bool:
        """True where there are training images to compare with."""
        return bool(np.isfinite(self.low).all())

    def reasons(self, facts: np.ndarray, features: np.ndarray) -> list[list[str]]:
        """For each of N images, its differences from the training images in words.

        facts: [N, 3] of pixel_facts(). features: [N, D] of features_of().
        """
        said = [
            [
                words[0] if value < low else words[1]
                for words, value, low, high in zip(FACTS, row, self.low, self.high)
                if not low <= value <= high
            ]
            for row in facts
        ]
        if len(self.features):
            for reasons, distance in zip(said, _distances(features, self.features, 0), strict=True):
                if not distance <= self.farthest:
                    reasons.append(FAR)
        return said


def pixel_facts(images: np.ndarray) -> np.ndarray:
    """Float64 [N, 3] of uint8 [N, H, W, C]: mean and standard deviation of the greys, and the mean distance of the
    channels from one another."""
    greys = images.mean(3, dtype=np.float32)
    return np.stack(
        [greys.mean((1, 2)), greys.std((1, 2)), np.ptp(images, 3).mean((1, 2))], 1
    ).astype(np.float64)


@torch.inference_mode()
def features_of(run: Run, shard: Shard) -> np.ndarray:
    """The vectors that the head of run.net reads of a shard's images, scaled to length 1: float32 [N, D]."""
    out: list[torch.Tensor] = []
    for features in runs.features(run, shard):
        vectors = features.float().flatten(1, -2).mean(1) if features.ndim > 2 else features.float()
        out.append(torch.nn.functional.normalize(vectors, dim=1))
    return torch.cat(out).cpu().numpy()


def _without_labels(shard: Shard, rows: torch.Tensor) -> Shard:
    """Images of the pool by row, as predict sees new ones."""
    groups = {name: torch.full_like(rows, -1) for name in shard.groups}
    return replace(
        shard,
        rows=rows,
        y=torch.zeros_like(rows),
        ids=np.arange(len(rows)),
        groups=groups,
        derived={},
    )


def _distances(features: np.ndarray, known: np.ndarray, itself: int) -> np.ndarray:
    """Of each vector of length 1 [N, D] to the k-th nearest known one [N]. itself: 1 where it is one of them."""
    squared = 2 - 2 * features @ known.T
    return np.sqrt(
        np.partition(squared, NEIGHBOUR - 1 + itself, 1)[:, NEIGHBOUR - 1 + itself].clip(0)
    )
