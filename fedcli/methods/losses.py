"""Classification losses that any method can train with: class weights, label smoothing, and the focal loss.

Source: label smoothing is Szegedy et al., CVPR 2016, arXiv 1512.00567, section 7; the focal loss Lin et al., ICCV 2017,
arXiv 1708.02002, Eq. 5; weights by effective numbers Cui et al., CVPR 2019, arXiv 1901.05555, Eq. 5. With p the softmax
of the logits, w the class weights and e the smoothing, an image of class y has the loss

    (1 - p_y)^gamma ((1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c))

and a batch the sum of these over the sum of w_y, as in torch's cross-entropy. A class that a prior takes out of the
softmax (logit -inf) takes no part in the smoothing, where it would make the loss infinite: C is then smaller.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CLASS_WEIGHTS = ("none", "balanced", "effective")


def weighted_cross_entropy(
    logits: Tensor, y: Tensor, weights: Tensor | None = None, smoothing: float = 0.0, gamma: float = 0.0,
    images: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean loss of a batch, a scalar: logits [B, C], labels [B], weights [C], and of images [B] where given."""
    if not (smoothing or gamma or images is not None):
        return F.cross_entropy(logits, y, weights)
    log_p = logits.log_softmax(1)  # [B, C]
    w = torch.ones_like(log_p[0]) if weights is None else weights  # [C]
    true = -F.nll_loss(log_p, y, reduction="none")  # [B]
    each = -(1 - smoothing) * w[y] * true
    if smoothing:
        present = logits != -torch.inf  # [B, C]
        each = each - smoothing * (w * log_p.masked_fill(~present, 0)).sum(1) / present.sum(1)
    if gamma:
        each = each * (-true.expm1()).clamp_min(1e-7) ** gamma  # the power has no gradient at 0 for gamma below 1
    return (each if images is None else images * each).sum() / w[y].sum()


def class_weights(kind: str, counts: Tensor) -> Tensor | None:
    """float32 [C] from class counts [C]; None for equal weights.

    kind: "none", "balanced" for 1 / n_k, or "effective:BETA", see effective_weights.
    """
    name, _, beta = kind.partition(":")
    if name == "none":
        return None
    if name == "effective":
        return effective_weights(counts, float(beta))
    return _scaled(1 / counts.double().clamp_min(1), counts)


def effective_weights(counts: Tensor, beta: float) -> Tensor:
    """(1 - beta) / (1 - beta^n_k) as float32 [C] from class counts [C]."""
    return _scaled((1 - beta) / (1 - beta ** counts.double().clamp_min(1)), counts)


def _scaled(raw: Tensor, counts: Tensor) -> Tensor:
    """Weights whose sum is the number of classes present; an absent one has 0."""
    raw = raw.masked_fill(counts == 0, 0.0)
    return (raw / raw.sum() * (counts > 0).sum()).float()
