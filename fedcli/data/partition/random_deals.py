"""Random deals: even samples, uneven sizes, and label shards.

iid         Every client a random share.
quantity    Li, Diao, Chen and He, ICDE 2022, arXiv 2102.02079, section IV.D: q ~ Dir(beta), client j gets a share q_j
            of all images at random, so that classes are on average as in the whole. Their code draws q again until
            each client has ten images, which need not end; here q is drawn once, and the partition's own minimum
            refuses a client that is too small.
shards      McMahan et al. 2017, arXiv 1602.05629, section 3: the images sorted by class, cut into equal pieces, a few
            for each client; here the pieces are even up to one image.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from .scheme import Images, Random, by_owner, cut, register


@register("iid")
@dataclass(frozen=True, kw_only=True)
class Iid(Random):
    """Every client a random share, even up to one image."""

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        self.check_room(images)
        return self.named(iid(len(images), self.clients, images.rng))


@register("quantity")
@dataclass(frozen=True, kw_only=True)
class Quantity(Random):
    """Client sizes in shares drawn from Dir(beta), images at random."""

    beta: Annotated[float, "Dirichlet concentration of sizes, > 0; 0.1 is very uneven, 100 nearly even"] = 0.5

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        self.check_room(images)
        rng = images.rng
        q = rng.dirichlet(np.full(self.clients, self.beta))  # [K]
        owner = rng.permutation(cut(q, len(images), rng))  # [N]
        return self.named(by_owner(owner, self.clients))

    def advice(self) -> str:
        return f"--set beta={max(10, 10 * self.beta):g}, fewer --clients, or another --seed"


@register("shards")
@dataclass(frozen=True, kw_only=True)
class Shards(Random):
    """Each client a few shards of the images sorted by class."""

    shards: Annotated[int, "label shards per client, >= 1"] = 2

    def assign(self, images: Images) -> dict[str, np.ndarray]:
        self.check_room(images, self.shards)
        return self.named(label_shards(images.y, self.clients, self.shards, images.rng))


def iid(images: int, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Shuffle and deal out, even up to one."""
    owner = np.empty(images, np.int64)
    owner[rng.permutation(images)] = np.arange(images) % clients
    return by_owner(owner, clients)


def label_shards(y: np.ndarray, clients: int, shards_per_client: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Sort by class, cut into clients x shards_per_client shards, deal these out at random."""
    shards = clients * shards_per_client
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    owner = np.empty(len(y), np.int64)
    owner[order] = (rng.permutation(shards) // shards_per_client)[np.arange(len(y)) * shards // len(y)]
    return by_owner(owner, clients)
