"""A self-organizing map of the clients' models: who lies near what the map has learned weighs more.

Source: Kohonen, Proceedings of the IEEE 1990, doi 10.1109/5.58325; as used in FedMRL, arXiv
2407.05800, section 3.3. Part of FedMRL, and no method by itself. The map is 5 x 5 neurons of at
most 1024 numbers; it is float64 and lies on the CPU, so that it is the same beside any device. A
round draws each neuron to the clients one by one, and then asks how near to each client the map is:

    m <- m + lr_t s_h exp(-g^2 / (2 sigma_t^2)) (x_h - m)
    kappa_h = mean over neurons of exp(-||m - x_h||^2 / (2 b^2))

with g the distance on the grid to the nearest neuron, and b^2 the median of ||m - x_h||^2 over
neurons and clients, so that no scale matters.
What FedMRL leaves open: sigma_t = max(2 e^-0.1t, 0.5) and lr_t = max(0.5 e^-0.1t, 0.05), t from 0;
the nearest of equal neurons is the first, row by row; clients come in an order drawn anew each
round, or the last would always be nearest; the map starts at the clients of the first round plus
noise, not at uniform numbers, which lie nowhere near.
"""

import math

import torch
from torch import Tensor

from ..seeds import derive
from .helpers import normalised

SIDE = 5  # the map is SIDE x SIDE
WIDTH = 1024  # numbers that stand for a model
NOISE = 0.1  # of the first map, in root mean squares of what it starts from


def projection(
    size: int,
    seed: int,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """A bucket int64 [T] and a sign [T] for each of T numbers: random ones, or its own where T <=
    WIDTH.

    This is a count sketch: inner products keep their mean, as under a dense projection, whose
    matrix would be WIDTH x T.
    """
    if size <= WIDTH:
        bucket = torch.arange(size)
        sign = torch.ones(size, dtype=torch.int8)
    else:
        draw = torch.Generator().manual_seed(derive("sketch", seed))
        bucket = torch.randint(WIDTH, (size,), generator=draw)
        bits = torch.randint(2, (size,), generator=draw, dtype=torch.int8)
        sign = 2 * bits - 1
    return bucket.to(device), sign.to(device)


def sketch(x: Tensor, bucket: Tensor, sign: Tensor) -> Tensor:
    """x [T] as float64 [min(T, WIDTH)]."""
    size = min(len(x), WIDTH)
    short = x.new_zeros(size, dtype=torch.float64)
    return short.index_add_(0, bucket, x.double() * sign)


def similarity(x: Tensor, to: Tensor) -> Tensor:
    """(1 + cosine) / 2 of two vectors, a float64 in [0, 1]; 1/2 where one of them is zero."""
    x = x.double()
    to = to.double()
    length = x.norm() * to.norm()
    if length > 0:
        cosines = x @ to / length
        cosine = cosines.clamp(-1, 1)
        return (1 + cosine) / 2
    return torch.full_like(length, 0.5)


def start(x: Tensor, seed: int) -> Tensor:
    """The first map [M, D]: the clients x [K, D] assigned to the neurons one after another, plus
    noise.
    """
    m = SIDE * SIDE
    draw = torch.Generator().manual_seed(derive("som", seed))
    noise = torch.randn(m, x.shape[1], generator=draw, dtype=torch.float64)
    assigned = x[torch.arange(m) % len(x)]
    size = x.square().mean().sqrt()
    return assigned + NOISE * size * noise


def order(rows: Tensor, roster: int, *, seed: int, round: int) -> Tensor:
    """Positions of the round's clients, in the order in which the map meets them."""
    draw = torch.Generator().manual_seed(derive("som-order", seed, round))
    ranks = torch.randperm(roster, generator=draw)
    return ranks[rows].argsort()


def train(neurons: Tensor, x: Tensor, similarity: Tensor, t: int) -> Tensor:
    """The map [M, D] after clients x [K, D] with their similarity [K], in this order.

    t: the round, from 1.
    """
    decay = math.exp(-0.1 * (t - 1))
    sigma = max(2 * decay, 0.5)
    rate = max(0.5 * decay, 0.05)
    side = torch.arange(SIDE)
    position = torch.cartesian_prod(side, side).double()  # [M, 2]
    for client, s in zip(x, similarity):
        nearest = squared(neurons, client).argmin()  # the first of equals
        across = squared(position, position[nearest])  # [M] on the grid
        variance = 2 * sigma**2
        pull = rate * s * torch.exp(-across / variance)  # [M]
        toward_client = client - neurons
        neurons = neurons + pull[:, None] * toward_client
    return neurons


def squared(points: Tensor, point: Tensor) -> Tensor:
    """Squared distances [M] of points [M, D] from one [D]."""
    return (points - point).square().sum(1)


def nearness(neurons: Tensor, x: Tensor) -> Tensor:
    """kappa [K] in (0, 1]: how near clients x [K, D] are to the map [M, D]; 1 where all distances
    are 0.
    """
    distance = torch.stack([squared(neurons, client) for client in x])  # [K, M]
    middle = distance.quantile(0.5)
    if middle <= 0:  # more than half of all are on the spot: no scale for the rest
        return torch.ones(len(x), dtype=torch.float64)
    ratio = -distance / (2 * middle)
    return torch.exp(ratio).mean(1)


def shares(weight: Tensor, *, temperature: float, floor: float) -> Tensor:
    """weight [K] >= 0 as shares that sum to 1.

    temperature: 1 is in proportion; more evens out, less sharpens.
    floor: what is shared out evenly beforehand.
    """
    count = len(weight)
    scaled = weight / weight.max().clamp_min(1e-300)
    share = normalised(scaled ** (1 / temperature))
    return floor / count + (1 - floor) * share
