"""An update with noise, and how much all of them together reveal of a client.

A client's update is the difference of its model to the one it received, cut at the norm C, with
normal noise of standard deviation `noise` C on every number. Exchanging any of the client's images,
even all, moves a cut update by at most 2 C. So k answers reveal as much as one with
noise / (2 sqrt(k)) standard deviations, whose delta for an epsilon is known exactly:

    delta = Phi(1 / 2s - epsilon s) - exp(epsilon) Phi(-1 / 2s - epsilon s)
    s = noise / (2 sqrt(k))

Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018,
arXiv 1805.06530, Theorem 8; that k normal mechanisms are one: Dong, Roth and Su, arXiv 1905.02383,
Corollary 3.3. Cutting and noise on the update of a client: Geyer, Klein and Nabi, 2017, arXiv
1712.07557, where the server adds the noise to the sum; here each client adds its own, so that all
that a server rule makes of the updates is covered, and no server has to be trusted. With fewer
clients in a round nothing is taken off for chance: epsilon is that of a client that takes part each
time. The numbers of images, which weigh a model, are not covered. Normal numbers of float64 have
gaps, through which exact values could in principle be told (Mironov, CCS 2012); this is not
defended against.
"""

import math

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError

LARGEST_EPSILON = 1e4


def epsilon(noise: float, answers: int, delta: float) -> float:
    """Epsilon: a bound on what so many answers together reveal.

    noise: in units of the norm that updates are cut at.
    """
    if not answers:
        return 0.0
    s = noise / (2 * math.sqrt(answers))
    low = 0.0
    high = LARGEST_EPSILON
    if _delta(s, high) > delta:
        return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        if _delta(s, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _delta(s: float, epsilon: float) -> float:
    """The delta of Theorem 8."""
    # takes a sixth of a second, which training without noise need not wait for
    from scipy.special import log_ndtr

    positive = log_ndtr(1 / (2 * s) - epsilon * s)
    negative = epsilon + log_ndtr(-1 / (2 * s) - epsilon * s)
    difference = min(negative - positive, 0.0)
    return float(np.exp(positive) * -np.expm1(difference))


def noised_model(
    theta: Tensor,
    start: Tensor,
    clip: float,
    noise: float,
    seed: int,
) -> Tensor:
    """The model [P] of a client that received `start`, its update cut and noised.

    Raises FedcliError for an update that is not finite.

    seed: of the noise, which must be secret where it protects somebody.
    """
    update = (theta - start).double().cpu().numpy()  # [P]
    norm = float(np.linalg.norm(update))
    if not math.isfinite(norm):
        raise FedcliError("its update is not finite (NaN or infinity)", "lower --lr")
    generator = np.random.Generator(np.random.PCG64(seed))
    draws = generator.standard_normal(len(update))
    factor = min(1.0, clip / max(norm, 1e-12))
    update = update * factor + noise * clip * draws
    return start + torch.from_numpy(update).to(start)
