"""Robust rules: the server averages so that a few hostile or broken clients cannot decide the
model.

D_k = theta_k - theta is the update of client k, K clients are in the round, and f of them are
assumed to be hostile: f = hostile K, rounded up, but fewer than half of them. p_k = n_k / n.

    median            each number is the median of the clients' numbers
    trimmed-mean      each number is the mean of the clients' numbers without the f largest and
                      the f smallest
    krum              the model of one client, that with the smallest sum of squared distances to
                      its K - f - 2 nearest
    multi-krum        the mean of the K - f models for which this sum is smallest
    rfa               the geometric median: argmin_z sum_k p_k ||z - theta_k||
    norm-clipping     theta + sum_k p_k D_k min(1, M / ||D_k||)

They protect from false numbers alone. An update with a number that is not finite (NaN or infinity)
ends the run under every rule, with an error that names the client.

Source: Yin, Chen, Ramchandran and Bartlett, "Byzantine-robust distributed learning: towards optimal
statistical rates", ICML 2018, arXiv 1803.01498, Definitions 1 and 2, of median and trimmed-mean.
Blanchard, El Mhamdi, Guerraoui and Stainer, "Machine learning with adversaries: Byzantine tolerant
gradient descent", NeurIPS 2017, arXiv 1703.02757, section 4, of krum and multi-krum. Pillutla,
Kakade and Harchaoui, "Robust aggregation for federated learning", IEEE TSP 2022, arXiv 1912.13445,
Algorithm 2, the smoothed Weiszfeld algorithm, of rfa. Sun, Kairouz, Suresh and McMahan, "Can you
really backdoor federated learning?", 2019, arXiv 1911.07963, section 4, of norm-clipping. The
papers' texts were not at hand.

How we differ, and why:
- clients send models after several local steps, where Yin and Blanchard have one gradient of each.
- median, trimmed-mean, krum and multi-krum count clients alike whatever their images, as in the
  papers: a hospital may lie about their number. Against FedAvg this alone gives small hospitals
  more weight; trimmed-mean with hostile=0 is that mean and nothing else.
- krum is proved for K >= 2f + 3. With fewer clients it is computed all the same, over at least one
  neighbour.
- norm-clipping has M = norm; 0, the default, takes the median of the round's ||D_k||, as no number
  suits all networks. A hostile majority in one round decides that median. With follow, M moves from
  round to round instead: M <- M exp(-follow (b - 1/2)), with b the share of clients with ||D_k|| <=
  M, from the lower median of the first round on, or of the first round where that is above 0. This
  is Algorithm 1, without its noise, of Andrew, Thakkar, McMahan and Ramaswamy, "Differentially
  private learning with adaptive clipping", NeurIPS 2021, arXiv 1905.03871. No round changes M by
  more than a factor of exp(follow / 2), and as long as most clients are honest, it returns to their
  lengths.
- after norm-clipping Sun et al. add noise to the model; here --dp client adds it at each client.
- distances and norms are those of the trained numbers. Batch-norm statistics are averaged with the
  same weights, under median and trimmed-mean number by number, under norm-clipping with p_k.

The recorded weights are the share that a client has in the new model: under median and trimmed-mean
the mean over all numbers of its share in each. So a run shows which hospital a rule leaves out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, gram, moved_towards
from .registry import register

Hostile = Annotated[
    float, "share of clients that are assumed to be hostile, rounded up to a number, in [0, 0.5)"
]
BLOCK = 2**22  # numbers of the table [K, P] that are sorted at a time


@dataclass(frozen=True)
class Middle(Aggregator):
    """The mean of each number over the clients in its middle."""

    cost = {}

    def cut(self, clients: int) -> int:
        """The number of clients that are left out at either end."""
        # Yin Def. 1: of an even number of clients the mean of the middle two
        return (clients - 1) // 2

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        k = len(updates.rows)
        cut = self.cut(k)
        middle = slice(cut, k - cut)
        out = torch.empty_like(theta)  # [P]
        counts = torch.zeros_like(updates.base)  # [K] numbers of each client in the middle
        for span in blocks(updates.theta):
            block = updates.theta[:, span]
            numbers, order = block.sort(dim=0, stable=True)  # [K, block]
            out[span] = numbers[middle].mean(0)  # Def. 2
            counts += order[middle].flatten().bincount(minlength=k)
        return out, counts / counts.sum()


@dataclass(frozen=True)
class TrimmedMean(Middle):
    """The mean of each number without a share of the clients at either end."""

    hostile: Hostile = 0.2

    def cut(self, clients: int) -> int:
        return number(self.hostile, clients)


@dataclass(frozen=True)
class Krum(Aggregator):
    """The model in the densest part of the clients' models."""

    cost = {}
    several: ClassVar[bool] = False  # multi-krum: all but the hostile clients are chosen

    hostile: Hostile = 0.2

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        k = len(updates.rows)
        f = number(self.hostile, k)
        distances = squared_distances(gram(theta, updates))  # [K, K]
        neighbours = max(k - f - 2, 1)
        ranked = distances.sort(dim=1).values  # [K, K], its own 0 first
        nearest = ranked[:, 1 : 1 + neighbours]  # [K, k - f - 2]
        scores = nearest.sum(1)  # [K] s(i), section 4
        count = k - f if self.several else 1
        chosen = scores.argsort(stable=True)[:count]
        weights = torch.zeros_like(updates.base)  # [K]
        weights[chosen.to(weights.device)] = 1 / len(chosen)
        return average(updates.theta, weights), weights


@dataclass(frozen=True)
class MultiKrum(Krum):
    """The mean of all models but those farthest from their neighbours."""

    several = True


@dataclass(frozen=True)
class GeometricMedian(Aggregator):
    """The point with the smallest sum of distances to the models."""

    cost = {}

    iterations: Annotated[int, "R: steps of the smoothed Weiszfeld algorithm, >= 1"] = 3
    smallest: Annotated[float, "nu: distance below which a model counts as this near, > 0"] = 1e-6

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        products = gram(theta, updates)  # [K, K]
        p = updates.base.cpu()  # [K]
        weights = p  # [K] of the point z = sum_k weights_k theta_k, which starts at the mean
        for _ in range(self.iterations):
            distances = distances_to_sum(products, weights)  # [K] ||z - theta_k||
            beta = p / distances.clamp_min(self.smallest)  # Alg. 2
            weights = beta / beta.sum()
        weights = weights.to(updates.base.device)
        return average(updates.theta, weights), weights


@dataclass(frozen=True)
class NormClipping(Aggregator):
    """The mean of updates none of which is longer than a limit."""

    cost = {}

    norm: Annotated[
        float,
        "M: length at which an update is cut, >= 0; 0 takes the median of the round's updates",
    ] = 0.0
    follow: Annotated[
        float,
        "eta_C: step of M from round to round towards the median, in [0, 1], where norm is 0; "
        "0 takes each round's own median; 0.2 is the source's",
    ] = 0.0

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        norms = gram(theta, updates).diagonal().sqrt()  # [K] ||D_k||
        norms = norms.to(updates.base.device)
        longest = self.norm or self._median(norms, memory)
        factors = shortened(norms, longest)  # [K] 1 / max(1, ||D_k|| / M), section 4
        moved = updates.base * factors  # [K]
        out = average(updates.theta, updates.base)  # [P], of which the buffers stay
        out[: updates.layout.trainable] = moved_towards(theta, updates, moved)
        return out, moved / moved.sum()

    def _median(self, norms: Tensor, memory: Tensors) -> Tensor:
        """M of this round by the lengths [K] of its updates; remembers that of the next."""
        if not self.follow:
            return norms.quantile(0.5)
        median = lower_median(norms)
        longest = memory.get("longest", median)
        longest = torch.where(longest > 0, longest, median)  # a factor moves no 0
        is_cut = norms > longest
        share = 1 - is_cut.double().mean()  # b
        exponent = -self.follow * (share - 0.5)
        memory["longest"] = longest * exponent.exp()  # Andrew Alg. 1
        return longest


def number(hostile: float, clients: int) -> int:
    """f: the clients that are assumed to be hostile, fewer than half."""
    rounded_up = ceil(hostile * clients - 1e-9)  # 0.2 * 15 is 3.0000000000000004
    return min(rounded_up, (clients - 1) // 2)


def squared_distances(products: Tensor) -> Tensor:
    """||D_i - D_j||^2 [K, K] from inner products [K, K]; 0 of a client to itself."""
    norms = products.diagonal()
    sums_of_squares = norms[:, None] + norms
    distances = (sums_of_squares - 2 * products).clamp_min(0)
    return distances.fill_diagonal_(0)


def distances_to_sum(products: Tensor, shares: Tensor) -> Tensor:
    """Distances [M] of vectors to the sum of their shares [M], from inner products [M, M]."""
    inner = products @ shares  # [M]
    squared = products.diagonal() - 2 * inner + shares @ inner
    return squared.clamp_min(0).sqrt()


def shortened(lengths: Tensor, longest: Tensor | float) -> Tensor:
    """Factors [K] that leave no vector of these lengths [K] longer than the longest."""
    return torch.where(lengths > longest, longest / lengths, 1.0)


def lower_median(lengths: Tensor) -> Tensor:
    """The median of lengths [K]; of an even number the smaller one of the middle two."""
    return lengths.quantile(0.5, interpolation="lower")


def blocks(table: Tensor) -> Iterator[slice]:
    """Spans of the columns of a table [K, P]."""
    step = max(1, BLOCK // len(table))
    for start in range(0, table.shape[1], step):
        yield slice(start, start + step)


register(
    "median",
    Plain(),
    Middle(),
    label="Median",
    about="takes the median of the hospitals' models, which a few false ones hardly move",
    families="hostile",
)
register(
    "trimmed-mean",
    Plain(),
    TrimmedMean(),
    label="Trimmed mean",
    about="leaves out extreme values before averaging, which a few false updates hardly move",
    families="hostile",
)
register(
    "krum",
    Plain(),
    Krum(),
    label="Krum",
    about="takes the model that is closest to most others, and so ignores outliers",
    families="hostile",
)
register(
    "multi-krum",
    Plain(),
    MultiKrum(),
    label="Multi-Krum",
    about="averages the models that are closest to most others, and so ignores outliers",
    families="hostile",
)
register(
    "rfa",
    Plain(),
    GeometricMedian(),
    label="RFA",
    about="takes the geometric median of the models, which a few false ones hardly move",
    families="hostile",
)
register(
    "norm-clipping",
    Plain(),
    NormClipping(),
    label="Norm clipping",
    about="shortens long updates, so that no hospital dominates the average",
    families="hostile",
)
