"""FedMRL's clients: as the paper says, and as the released code draws them.

Source: arXiv 2407.05800.
fedmrl          Eq. 11: each class in 200 shards, each given to a client with odds of eta for the
                client's own class and a number from N(0.5, 1) for any other. The paper does not say
                which class is a client's own; here they take turns, in random order. Odds are cut
                to [0, 1] and drawn once per client and class, and every shard goes to exactly one
                client.
fedmrl-authors  Each client, from each class, 200 times five images (in a class of n < 200, n
                times). No class is a client's own and clients share images, so that a client has n
                (1 - (1 - 5/n)^min(200, n)) of n images, and all clients have nearly the same class
                shares.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy import ndarray

from .scheme import Counted, Images, Parts, Random, register

SHARDS = 200
DRAW = 5  # images


@register("fedmrl")
@dataclass(frozen=True, kw_only=True)
class Fedmrl(Random):
    """Shards of each class, given out by odds of eta for a client's own class."""

    eta: Annotated[
        float,
        "odds of a client's own class against at most 1 for any other, in [0, 1]; the authors "
        "have 1",
    ] = 1.0

    def owners(self, images: Images) -> ndarray:
        y = images.y
        rng = images.rng
        clients = np.arange(self.clients)
        labels = np.unique(y)
        class_order = rng.permutation(len(labels))
        class_of_client = class_order[clients % len(labels)]  # [H]
        drawn_odds = rng.normal(0.5, 1, (self.clients, len(labels)))
        odds = np.clip(drawn_odds, 0, 1)  # [H, C] Eq. 11
        odds[clients, class_of_client] = self.eta
        odds[:, odds.sum(0) == 0] = 1
        owner = np.empty(len(y), np.int64)
        for k, label in enumerate(labels):
            rows = rng.permutation(np.flatnonzero(y == label))
            shards = min(SHARDS, len(rows))
            class_odds = odds[:, k]
            p = class_odds / class_odds.sum()
            client_of_shard = rng.choice(self.clients, shards, p=p)  # [S]
            steps = np.arange(len(rows)) * shards
            shard_of_row = steps // len(rows)
            owner[rows] = client_of_shard[shard_of_row]
        return owner

    def advice(self) -> str:
        return "fewer --clients, or another --seed"


@register("fedmrl-authors")
@dataclass(frozen=True, kw_only=True)
class FedmrlAuthors(Counted):
    """Nearly identical clients that share images, as FedMRL's authors draw them."""

    def assign(self, images: Images) -> Parts:
        self.check_room(images)
        rng = images.rng
        rows_by_class = [np.flatnonzero(images.y == label) for label in np.unique(images.y)]
        parts = []
        for _ in range(self.clients):
            rows = [_draw(class_rows, rng) for class_rows in rows_by_class]
            parts.append(np.sort(np.concatenate(rows)))
        return self.named(parts)

    def advice(self) -> str:
        return "fewer --clients, or another --seed"


def _draw(rows: ndarray, rng: np.random.Generator) -> ndarray:
    """The images of a class that are drawn at least once; within a draw none comes twice."""
    times = min(SHARDS, len(rows))
    size = min(DRAW, len(rows))
    draws = [rng.choice(rows, size, replace=False) for _ in range(times)]
    return np.unique(np.concatenate(draws))
