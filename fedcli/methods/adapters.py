"""The factors of low-rank adapters in theta, see models/adapted.py, and the average of their
products.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..models.layout import Layout


@dataclass(frozen=True)
class Roles:
    """The factors of one adapter by their names in theta; S is "" where it has none."""

    A: str
    B: str
    S: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the factors that it has."""
        return (self.A, self.B, self.S) if self.S else (self.A, self.B)


def roles(layout: Layout) -> list[Roles]:
    """Every adapter of a network, by the names of its factors and never by their shapes."""
    adapters = []
    for name in layout.shapes:
        if name.endswith(".A"):
            stem = name.removesuffix(".A")
            s = f"{stem}.S"
            adapters.append(Roles(name, f"{stem}.B", s if s in layout.shapes else ""))
    return adapters


@dataclass(frozen=True)
class Factors:
    """One adapter of several models.

    S is all 1 where the adapter has none, and has G = 1 where groups share it.
    """

    A: Tensor  # [K, in, r]
    S: Tensor  # [K, G, r]
    B: Tensor  # [K, r, out]


def product_mean(
    models: Factors, weights: Tensor, by_group: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The average of the products A diag(S) B, brought back to their rank r.

    The singular vectors are those of the average over models, by `weights` [K], of A diag(mean over
    groups of S) B. A group's own average, by `by_group` [K, G], has off-diagonal entries in their
    basis, which are lost. Returns (A [in, r], S [G, r], B [r, out]) and the squared norms (lost,
    whole) summed over groups. B has rows of the length it starts with, sqrt(out), and S the mean
    size of the models', so that the next gradients keep their size.
    """
    a = models.A.double()
    s = models.S.double()
    b = models.B.double()
    rank, outputs = b.shape[1:]
    inputs_basis, a = torch.linalg.qr(a.movedim(0, 1).flatten(1))  # [in, p], [p, K r]
    outputs_basis, b = torch.linalg.qr(b.flatten(0, 1).T)  # [out, q], [q, K r]

    def core(terms: Tensor) -> Tensor:
        """sum over models of A diag(terms) B within the two bases: [..., K, r] -> [..., p, q]."""
        diagonals_of_terms = terms.flatten(-2)
        scaled = a * diagonals_of_terms[..., None, :]
        return scaled @ b.T

    shared = weights[:, None] * s.mean(1)  # [K, r]
    u, sigma, v = torch.linalg.svd(core(shared), full_matrices=False)
    u = _to_rank(u.T, rank).T  # [p, r]
    sigma = _to_rank(sigma, rank)  # [r]
    v = _to_rank(v, rank)  # [r, q]
    by_model = by_group[..., None] * s  # [K, G, r]
    groups = core(by_model.movedim(1, 0))  # [G, p, q]
    diagonals = torch.einsum("pr,gpq,rq->gr", u, groups, v)  # [G, r]
    size = s.abs().mean().clamp_min(1e-6)  # of nothing but zeros
    alive = sigma > 1e-9 * sigma[0]  # a direction that is not there starts afresh: A = 0, S = size
    divisor = sigma.where(alive, torch.ones_like(sigma))
    kept_size = size * diagonals / divisor
    new_s = torch.where(alive, kept_size, size)
    factors = sigma * alive / (size * outputs**0.5)
    new_a = (inputs_basis @ u) * factors
    new_b = v @ outputs_basis.T * outputs**0.5
    whole = groups.square().sum()
    lost = whole - (diagonals * alive).square().sum()
    return (new_a, new_s, new_b), (lost, whole)


def _to_rank(values: Tensor, rank: int) -> Tensor:
    """The first `rank` entries, then zeros: a layer may be narrower than its adapter."""
    entries = values[:rank]
    missing = rank - len(entries)
    zeros = entries.new_zeros(missing, *entries.shape[1:])
    return torch.cat([entries, zeros])
