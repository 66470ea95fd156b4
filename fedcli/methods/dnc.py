"""DnC: the server leaves out the clients that lie farthest along the direction in which the models
differ most.

Source: Shejwalkar and Houmansadr, "Manipulating the Byzantine: optimizing model poisoning attacks
and defenses for federated learning", NDSS 2021, doi 10.14722/ndss.2021.24498, section VI, Algorithm
2 (divide and conquer); the paper's text was not at hand.

Of `iterations` random sets of `numbers` trained numbers each, X [K, b] are the models with their
mean subtracted, and v [b] the first right singular vector of X. The c m clients with the largest
scores s_k = (X_k v)^2 are left out. The new model is the mean of those that no set left out.

How we differ, and why:
- m is f as in robust.py, a share of the clients, and c = 1, as the share alone says the same.
- where every client is left out by some set, those that the fewest sets left out are averaged; the
  paper does not say.
- X X^T has s_k as the squares of its first eigenvector, times its eigenvalue, and is only [K, K].
- iterations = 1 and numbers = 10,000 are those of implementations by others.
Clients count alike, whatever their images. Batch-norm statistics are averaged over the same ones.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ..seeds import derive
from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average
from .registry import register
from .robust import Hostile, number


@dataclass(frozen=True)
class DivideAndConquer(Aggregator):
    """The mean of the models without those that random parts of the model show to be outliers."""

    cost = {}

    hostile: Hostile = 0.2
    iterations: Annotated[int, "niters: random sets of numbers, >= 1"] = 1
    numbers: Annotated[int, "b: numbers of the model in a set, all if it has fewer, >= 1"] = 10_000

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        k = len(updates.rows)
        kept = k - number(self.hostile, k)
        times_kept = torch.zeros(k)
        for iteration in range(self.iterations):
            columns = self._drawn(updates, iteration)
            models = updates.theta[:, columns].double()  # [K, b]
            centred = models - models.mean(0)
            products = centred @ centred.T  # [K, K]
            vectors = torch.linalg.eigh(products.cpu()).eigenvectors  # the largest value's is last
            scores = vectors[:, -1].square()  # [K] s_k, as shares of their sum; Alg. 2
            ranked = scores.argsort(stable=True)
            times_kept[ranked[:kept]] += 1
        good = times_kept == times_kept.max()  # [K], the intersection of Alg. 2 unless it is empty
        weights = good.to(updates.base)  # [K]
        weights /= weights.sum()
        return average(updates.theta, weights), weights

    def _drawn(self, updates: ClientUpdates, iteration: int) -> Tensor:
        """Indices [b], rising, of a random set of the trained numbers."""
        trained = updates.layout.trainable
        count = min(self.numbers, trained)
        seed = derive("dnc", updates.seed, updates.round, iteration)
        stream = np.random.default_rng(seed)
        drawn = stream.choice(trained, count, replace=False)
        drawn.sort()
        return torch.from_numpy(drawn).to(updates.theta.device)


register(
    "dnc",
    Plain(),
    DivideAndConquer(),
    label="DnC",
    about="leaves out the hospitals farthest along the direction in which the models differ most",
    families="hostile",
)
