"""Low-rank adapters beside frozen layers: how they compute, how they are put in, how their product is averaged.

Source: Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Wang and Chen, "LoRA: low-rank adaptation of large language models", ICLR
2022, arXiv 2106.09685, section 4.1; singular values by group are Eq. 2 of FairLoRA, see fairlora.py.

    y = W0 x + s ((x A) * w) B    A [in, r] = 0, B [r, out] ~ N(0, 1), s = alpha / r

w is 1 (LoRA), S [r] (SVD-LoRA), or a mean of the rows of S [G, r] by an image's group shares (FairLoRA).
The factor that starts at 0 is A, on the side of the input, as in FairLoRA's text and code. LoRA itself starts A at
random and B at 0; with B of variance 1 the gradients of A are larger here.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.layout import Layout
from ..models.network import Groups


class Adapted(nn.Module):
    """A frozen linear layer or convolution with an adapter beside it; the layer's tensors keep their names.

    In a convolution x is what the kernel sees of the image, so `in` is channels times the kernel's pixels: A is a
    convolution like the layer's own to r channels, and B a linear layer over them.

    Args:
        base: nn.Linear, or an nn.Conv2d of one group that pads with zeros.
        singular: what S starts with: None for no S, [r], or [G, r].
        groups: which holds the group shares of a forward pass; with S [G, r] only.
    """

    def __init__(
        self,
        base: nn.Linear | nn.Conv2d,
        rank: int,
        alpha: float,
        singular: Tensor | None = None,
        groups: Groups | None = None,
    ):
        super().__init__()
        if isinstance(base, nn.Conv2d) and (base.groups, base.padding_mode) != (1, "zeros"):
            raise TypeError(f"{base} is not a convolution of one group that pads with zeros")
        self.kernel = tuple(base.weight.shape[1:])  # (in,), or (channels, height, width) of a convolution
        outputs, inputs = len(base.weight), math.prod(self.kernel)
        if isinstance(base, nn.Conv2d):
            self.steps: tuple[Any, ...] = base.stride, base.padding, base.dilation
        self.weight, self.bias = base.weight, base.bias
        self.weight.requires_grad_(False)
        if self.bias is not None:
            self.bias.requires_grad_(False)
        self.A = nn.Parameter(torch.zeros(inputs, rank))  # [in, r]
        self.B = nn.Parameter(torch.randn(rank, outputs))  # [r, out]
        self.S = None if singular is None else nn.Parameter(singular.clone())  # [r] or [G, r]
        self.scale, self.groups = alpha / rank, groups

    def forward(self, x: Tensor) -> Tensor:
        if len(self.kernel) == 3:
            low = F.conv2d(x, self.A.T.unflatten(1, self.kernel), None, *self.steps)  # [B, r, H, W]
            added = F.conv2d(self.weighed(low, 1), self.B.T[:, :, None, None])
            return F.conv2d(x, self.weight, self.bias, *self.steps) + self.scale * added
        added = self.weighed(x @ self.A, -1) @ self.B
        return F.linear(x, self.weight, self.bias) + self.scale * added

    def weighed(self, low: Tensor, dimension: int) -> Tensor:
        """x A times the singular values of each image, where `dimension` is that of the rank."""
        if self.S is None:
            return low
        w = self.singular(self.S, len(low))  # [B, r], or [1, r] for all
        shape = [len(w)] + [1] * (low.ndim - 1)
        shape[dimension] = w.shape[1]
        return low * w.view(shape)

    def singular(self, s: Tensor, images: int) -> Tensor:
        """The singular values s, of each of so many images [B, r], or the same for all [1, r]. FairLoRA Eq. 2.

        A volume comes as several images, its slabs, one after another. Raises ValueError where the counts do not fit.
        """
        if self.groups is None:
            return s[None]
        if self.groups.shares is None:
            return s.mean(0, keepdim=True)
        w = self.groups.shares @ s  # [B, r]
        if images % len(w):
            raise ValueError(f"{images} images cannot be those of {len(w)} group shares")
        return w.repeat_interleave(images // len(w), 0)


def adapt(
    body: nn.Module,
    names: list[str],
    rank: int,
    alpha: float,
    singular: Tensor | None = None,
    groups: Groups | None = None,
) -> None:
    """Put an adapter beside each of these layers of body; arguments as those of Adapted."""
    for name in names:
        above, _, own = name.rpartition(".")
        layer = body.get_submodule(name)
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            raise TypeError(f"{name} is neither a linear layer nor a convolution")
        adapted = Adapted(layer, rank, alpha, singular, groups)
        setattr(body.get_submodule(above), own, adapted)


@dataclass(frozen=True)
class Roles:
    """The factors of one adapter by their names in theta; S is "" where it has none."""

    A: str
    B: str
    S: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.A, self.B, self.S) if name)


def roles(layout: Layout) -> list[Roles]:
    """Every adapter of a network, by the names of its factors and never by their shapes."""
    stems = [name.removesuffix(".A") for name in layout.shapes if name.endswith(".A")]
    return [Roles(f"{k}.A", f"{k}.B", f"{k}.S" if f"{k}.S" in layout.shapes else "") for k in stems]


@dataclass(frozen=True)
class Factors:
    """One adapter of several models. S [K, G, r] is all 1 where it has none and has G = 1 where groups share it."""

    A: Tensor  # [K, in, r]
    S: Tensor  # [K, G, r]
    B: Tensor  # [K, r, out]


def product_mean(
    models: Factors, weights: Tensor, by_group: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The average of the products A diag(S) B, brought back to their rank r.

    The singular vectors are those of the average over models, by `weights` [K], of A diag(mean over groups of S) B. A
    group's own average, by `by_group` [K, G], has off-diagonal entries in their basis, which are lost.
    Returns (A [in, r], S [G, r], B [r, out]) and the squared norms (lost, whole) summed over groups. B has rows of the
    length it starts with, sqrt(out), and S the mean size of the models', so that the next gradients keep their size.
    """
    a, s, b = models.A.double(), models.S.double(), models.B.double()
    rank, outputs = b.shape[1:]
    left, a = torch.linalg.qr(a.movedim(0, 1).flatten(1))  # [in, p], [p, K r]
    right, b = torch.linalg.qr(b.flatten(0, 1).T)  # [out, q], [q, K r]

    def core(terms: Tensor) -> Tensor:
        """sum over models of A diag(terms) B within the two bases: [..., K, r] -> [..., p, q]."""
        return (a * terms.flatten(-2)[..., None, :]) @ b.T

    u, sigma, v = torch.linalg.svd(core(weights[:, None] * s.mean(1)), full_matrices=False)
    u, sigma, v = _to_rank(u.T, rank).T, _to_rank(sigma, rank), _to_rank(v, rank)  # [p, r], [r], [r, q]
    groups = core((by_group[..., None] * s).movedim(1, 0))  # [G, p, q]
    within = torch.einsum("pr,gpq,rq->gr", u, groups, v)  # [G, r] the diagonals
    size = s.abs().mean().clamp_min(1e-6)  # of nothing but zeros
    alive = sigma > 1e-9 * sigma[0]  # a direction that is not there starts afresh: A = 0, S = size
    new_s = torch.where(alive, size * within / sigma.where(alive, torch.ones_like(sigma)), size)
    new_a = (left @ u) * (sigma * alive / (size * outputs**0.5))
    new_b = v @ right.T * outputs**0.5
    whole = groups.square().sum()
    return (new_a, new_s, new_b), (whole - (within * alive).square().sum(), whole)


def _to_rank(values: Tensor, rank: int) -> Tensor:
    """The first `rank` entries, zeros after the last one: a layer may be narrower than its adapter."""
    kept = values[:rank]
    return torch.cat([kept, kept.new_zeros(rank - len(kept), *kept.shape[1:])])
