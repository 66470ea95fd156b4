"""Attacks of hostile clients who see the updates of the honest ones, and send one together.

D [H, T] are the updates of the H honest clients of a round, mu and sigma [T] the mean and the
standard deviation of each number over them; s is `strength`:

    alie          mu - s sigma
    ipm           -s mu
    min-max       mu - s gamma mu / ||mu||, with the largest gamma for which, at s = 1, no honest
                  update is farther from what is sent than the two honest ones that are farthest
                  apart: max_i ||sent - D_i|| <= max_ij ||D_i - D_j||

Sources: alie: Baruch, Baruch and Goldberg, "A little is enough: circumventing defenses for
distributed learning", NeurIPS 2019, arXiv 1902.06156, Algorithm 3. ipm: Xie, Koyejo and Gupta,
"Fall of empires: breaking Byzantine-tolerant SGD by inner product manipulation", UAI 2019, arXiv
1903.03936, section 4. min-max: Shejwalkar and Houmansadr, "Manipulating the Byzantine: optimizing
model poisoning attacks and defenses for federated learning", NDSS 2021, doi
10.14722/ndss.2021.24498, section IV-C. The papers'
texts were not at hand.

How we differ, and why:
- alie's authors estimate mu and sigma from the hostile clients, and choose s by the number of
  clients: s = Phi^-1((n - m - k) / (n - m)) for m hostile ones of n, k = floor(n / 2 + 1) - m. One
  hostile hospital has no deviation of its own, and of few hospitals this s is about 0 or below; so
  mu and sigma are those of the honest ones, and s is given.
- min-max: gamma is the root of a quadratic equation, which the authors find by halving; the
  direction is their inverse unit vector, of the three that they try.
"""

import torch
from torch import Tensor


def alie(honest: Tensor, s: float) -> Tensor:
    """The mean [T] of updates [H, T], s standard deviations lower in every number."""
    sigma = honest.std(0, correction=0)  # [T]; 0 of one client
    return honest.mean(0) - s * sigma  # Alg. 3


def ipm(honest: Tensor, s: float) -> Tensor:
    """The reversed mean [T] of updates [H, T], times s."""
    return -s * honest.mean(0)


def min_max(honest: Tensor, s: float) -> Tensor:
    """The farthest point [T] from the mean of updates [H, T], against its direction, that is no
    outlier among them.
    """
    mean = honest.mean(0)  # [T]
    length = mean.norm().clamp_min(1e-30)
    direction = -mean / length  # [T] nabla_p; 0 of a mean of 0
    offsets = mean - honest  # [H, T]
    along = offsets @ direction  # [H]
    distances = torch.cdist(honest, honest, compute_mode="donot_use_mm_for_euclid_dist")
    farthest = distances.max()
    squares = offsets.square().sum(1)  # [H]
    room = farthest**2 - squares + along**2  # [H]
    roots = room.clamp_min(0).sqrt() - along  # [H] of ||offset + gamma direction|| = farthest
    gamma = roots.min()
    return mean + s * gamma * direction  # Eq. 3
