"""Random deals: even samples, uneven sizes, label shards, and label skew by Dirichlet draws; and
all to one client.

all         One client has every image, as a hospital that prepares its own; nothing is drawn.
iid         Every client a random share.
quantity    Li, Diao, Chen and He, ICDE 2022, arXiv 2102.02079, section IV.D: q ~ Dir(beta), client
            j gets a share q_j of all images at random, so that classes are on average as in the
            whole. Their code draws q again until each client has ten images, which need not end;
            here q is drawn once, and the partition's own minimum refuses a client that is too
            small.
shards      McMahan et al. 2017, arXiv 1602.05629, section 3: the images sorted by class, cut into
            equal pieces, a few for each client; here the pieces are even up to one image.
dirichlet   Yurochkin et al. 2019, arXiv 1905.12022, class by class. A class is cut by systematic
            sampling: a client gets its share rounded up or down (the usual floor gives the last
            client the rest).
dirichlet-balanced  The usual recipe closes clients that hold N/K images and redraws until each has
            ten, which need not end. We draw the plain [K, C] table once, scale its rows and columns
            in turn (Sinkhorn) to the wanted client sizes and the class counts, and round it so that
            both hold exactly. The sizes are even up to one image or, with a minimum, the plain ones
            shrunk to lift the small ones to it.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy import ndarray

from .scheme import Images, Parts, Random, Scheme, client_names, cut, register

SCALINGS = 100  # Sinkhorn rounds; what is left after them, the rounding mends


@register("all")
@dataclass(frozen=True, kw_only=True)
class All(Scheme):
    """One client with all images, such as a hospital with its own."""

    def assign(self, images: Images) -> Parts:
        (client,) = client_names(1)
        return {client: np.arange(len(images))}

    def advice(self) -> str:
        return "more images"


@register("iid")
@dataclass(frozen=True, kw_only=True)
class Iid(Random):
    """Every client a random share, even up to one image."""

    def owners(self, images: Images) -> ndarray:
        owner = np.empty(len(images), np.int64)
        order = images.rng.permutation(len(images))
        turns = np.arange(len(images))
        owner[order] = turns % self.clients
        return owner


@register("quantity")
@dataclass(frozen=True, kw_only=True)
class QuantityDeal(Random):
    """Client sizes in shares drawn from Dir(beta), images at random."""

    beta: Annotated[
        float, "Dirichlet concentration of sizes, > 0; 0.1 is very uneven, 100 nearly even"
    ] = 0.5

    def owners(self, images: Images) -> ndarray:
        rng = images.rng
        q = rng.dirichlet(np.full(self.clients, self.beta))  # [K]
        return rng.permutation(cut(q, len(images), rng))

    def advice(self) -> str:
        beta = max(10, 10 * self.beta)
        return f"--set beta={beta:g}, fewer --clients, or another --seed"


@register("shards")
@dataclass(frozen=True, kw_only=True)
class ShardDeal(Random):
    """Each client a few shards of the images sorted by class."""

    shards: Annotated[int, "label shards per client, >= 1"] = 2

    def least(self, images: Images) -> int:
        return self.shards

    def owners(self, images: Images) -> ndarray:
        count = self.clients * self.shards
        rng = images.rng
        order = rng.permutation(len(images))
        order = order[np.argsort(images.y[order], kind="stable")]
        places = np.arange(len(images)) * count
        shard = places // len(images)
        client_of_shard = rng.permutation(count) // self.shards
        owner = np.empty(len(images), np.int64)
        owner[order] = client_of_shard[shard]
        return owner


@register("dirichlet")
@dataclass(frozen=True, kw_only=True)
class Dirichlet(Random):
    """Each class in shares drawn from Dir(alpha)."""

    alpha: Annotated[float, "Dirichlet concentration, > 0; 0.1 is very uneven, 100 nearly even"] = (
        1.0
    )

    def owners(self, images: Images) -> ndarray:
        owner = np.empty(len(images), np.int64)
        rng = images.rng
        for label in np.unique(images.y):
            rows = rng.permutation(np.flatnonzero(images.y == label))
            shares = rng.dirichlet(np.full(self.clients, self.alpha))
            owner[rows] = cut(shares, len(rows), rng)
        return owner

    def advice(self) -> str:
        alpha = max(10, 10 * self.alpha)
        return f"--dirichlet {alpha:g}, fewer --clients, another --seed, or --balanced"


@register("dirichlet-balanced")
@dataclass(frozen=True, kw_only=True)
class DirichletBalanced(Dirichlet):
    """Dirichlet class shares for clients of equal size, or of at least the minimum."""

    def least(self, images: Images) -> int:
        return images.minimum

    def owners(self, images: Images) -> ndarray:
        y = images.y
        rng = images.rng
        labels, counts = np.unique(y, return_counts=True)  # [C]
        alphas = np.full(self.clients, self.alpha)
        shares = rng.dirichlet(alphas, len(labels))  # [C, K]
        plain = shares.T * counts  # [K, C] images expected
        expected = plain.sum(1)
        sizes = _sizes(expected, len(y), images.minimum or None)  # [K]
        table = np.maximum(plain, 1e-9)  # a zero could never be scaled up
        for _ in range(SCALINGS):
            table *= counts / table.sum(0)
            factors = sizes / table.sum(1)
            table *= factors[:, None]
        whole_table = _whole_table(table, sizes, counts)
        clients = np.arange(self.clients)
        owner = np.empty(len(y), np.int64)
        for label, column in zip(labels, whole_table.T, strict=True):
            rows = rng.permutation(np.flatnonzero(y == label))
            owner[rows] = np.repeat(clients, column)
        return owner

    def advice(self) -> str:
        return "fewer --clients"


def _sizes(plain: ndarray, total: int, minimum: int | None) -> ndarray:
    """Client sizes [K]: the plain ones, shrunk to lift each to the minimum; all even for None."""
    count = len(plain)
    smallest = total / count if minimum is None else minimum
    spare = np.maximum(plain - smallest, 0)
    if not spare.any():
        spare = np.ones(count)
    needed = total - count * smallest
    sizes = smallest + spare * needed / spare.sum()
    return _whole(sizes, total, np.full(count, total))


def _whole(numbers: ndarray, total: int, limit: ndarray) -> ndarray:
    """Whole numbers [K] in proportion to others, none above its limit, that sum to total; largest
    remainders first."""
    exact = numbers * (total / numbers.sum())
    floors = np.floor(exact + 1e-9).astype(np.int64)
    whole = np.minimum(floors, limit)
    while lacking := total - whole.sum():
        free = np.flatnonzero(whole < limit)
        by_remainder = np.argsort((whole - exact)[free], kind="stable")
        whole[free[by_remainder][:lacking]] += 1
    return whole


def _whole_table(
    table: ndarray,
    sizes: ndarray,
    counts: ndarray,
) -> ndarray:
    """Whole numbers [K, C] near table with row sums `sizes` and column sums `counts`.

    Class by class, a client is given what its running total lacks, so that rounding errors do not
    add up.
    """
    running_total = np.cumsum(table, axis=1)
    running_total[:, -1] = sizes
    whole = np.zeros(table.shape, np.int64)
    for c, count in enumerate(counts):
        dealt = whole.sum(1)
        still_due = running_total[:, c] - dealt
        lacking = np.maximum(still_due, 1e-9)
        whole[:, c] = _whole(lacking, count, sizes - dealt)
    return whole
