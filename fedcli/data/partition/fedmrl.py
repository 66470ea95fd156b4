"""FedMRL's clients: as the paper says, and as the released code draws them.

Source: arXiv 2407.05800.
fedmrl          Eq. 11: each class in 200 shards, each given to a client with odds of eta for the client's own class and
                a number from N(0.5, 1) for any other. The paper does not say which class is a client's own; here they
                take turns, in random order. Odds are cut to [0, 1] and drawn once per client and class, and every shard
                goes to exactly one client.
fedmrl-authors  Each client, from each class, 200 times five images (in a class of n < 200, n times). No class is a
                client's own and clients share images, so that a client has n (1 - (1 - 5/n)^min(200, n)) of n images,
                and all clients have nearly the same class shares.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from .scheme import Counted, Images, Random, register

SHARDS, DRAW = 200, 5


@register("fedmrl")
@dataclass(frozen=True, kw_only=True)
class Fedmrl(Random):
    """Shards of each class, given out by odds of eta for a client's own class."""

    eta: Annotated[
        float,
        "odds of a client's own class against at most 1 for any other, in [0, 1]; the authors have 1",
    ] = 1.0

    def owners(self, images: Images) -> np.ndarray:
        y, rng, clients = images.y, images.rng, np.arange(self.clients)
        labels = np.unique(y)
        own = rng.permutation(len(labels))[
            clients % len(labels)
        ]  # [H] index of each client's own class
        odds = np.clip(rng.normal(0.5, 1, (self.clients, len(labels))), 0, 1)  # [H, C] Eq. 11
        odds[clients, own] = self.eta
        odds[:, odds.sum(0) == 0] = 1
        owner = np.empty(len(y), np.int64)
        for k, label in enumerate(labels):
            rows = rng.permutation(np.flatnonzero(y == label))
            shards = min(SHARDS, len(rows))
            to = rng.choice(self.clients, shards, p=odds[:, k] / odds[:, k].sum())  # [S]
            owner[rows] = to[np.arange(len(rows)) * shards // len(rows)]
        return owner

    def advice(self) -> str:
        return "fewer --clients, or another --seed"


@register("fedmrl-authors")
@dataclass(frozen=True, kw_only=True)
class FedmrlAuthors(Counted):
    """Nearly identical clients that share images, as FedMRL's authors draw them."""

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        self.check_room(images)
        rng, of_class = (
            images.rng,
            [np.flatnonzero(images.y == label) for label in np.unique(images.y)],
        )
        own = (
            np.concatenate([_drawn(rows, rng) for rows in of_class]) for _ in range(self.clients)
        )
        return self.named([np.sort(rows) for rows in own])

    def advice(self) -> str:
        return "fewer --clients, or another --seed"


def _drawn(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Those of the images of a class that are drawn at least once; within a draw none comes twice."""
    times, each = min(SHARDS, len(rows)), min(DRAW, len(rows))
    return np.unique(np.concatenate([rng.choice(rows, each, replace=False) for _ in range(times)]))
