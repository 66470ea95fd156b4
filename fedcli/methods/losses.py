"""Classification losses that any method can train with: class weights, label smoothing, and the
focal loss.

Source: label smoothing is Szegedy et al., CVPR 2016, arXiv 1512.00567, section 7; the focal loss
Lin et al., ICCV 2017, arXiv 1708.02002, Eq. 5; weights by effective numbers Cui et al., CVPR 2019,
arXiv 1901.05555, Eq. 5. With p the softmax of the logits, w the class weights and e the smoothing,
an image of class y has the loss

    (1 - p_y)^gamma ((1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c))

and a batch the sum of these over the sum of w_y, as in torch's cross-entropy. A class that a prior
takes out of the softmax (logit -inf) takes no part in the smoothing, where it would make the loss
infinite: C is then smaller.

Of several labels per image an image has the mean of the binary cross-entropies of its L labels,
with p the sigmoid of the logits; a label that is not known takes no part. The smoothing moves
targets towards 1/2, the focal loss is Lin's Eq. 4 of each label, and class weights count where an
image has the label.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..labels import UNKNOWN, YES

CLASS_WEIGHTS = ("none", "balanced", "effective")


def weighted_cross_entropy(
    logits: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    smoothing: float = 0.0,
    gamma: float = 0.0,
    images: Tensor | None = None,
) -> Tensor:
    """The mean loss of a batch, a scalar.

    logits [B, C], labels y [B], weights of classes [C], and of images [B].
    """
    if not (smoothing or gamma or images is not None):
        return F.cross_entropy(logits, y, weights)
    log_p = logits.log_softmax(1)  # [B, C]
    w = torch.ones_like(log_p[0]) if weights is None else weights  # [C]
    true = -F.nll_loss(log_p, y, reduction="none")  # [B]
    losses = -(1 - smoothing) * w[y] * true  # [B]
    if smoothing:
        present = logits != -torch.inf  # [B, C]
        of_present = log_p.masked_fill(~present, 0)
        spread = (w * of_present).sum(1)  # [B]
        losses = losses - smoothing * spread / present.sum(1)
    if gamma:
        wrong = -true.expm1()  # [B] 1 - p of what is true
        # the power has no gradient at 0 for gamma below 1
        losses = losses * wrong.clamp_min(1e-7) ** gamma
    if images is not None:
        losses = images * losses
    return losses.sum() / w[y].sum()


def binary_cross_entropy(
    logits: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    smoothing: float = 0.0,
    gamma: float = 0.0,
) -> Tensor:
    """The loss of each image [B]: logits [B, L], labels [B, L] (YES, NO, UNKNOWN), weights [L]."""
    has = y == YES
    labelled = (y != UNKNOWN).to(logits.dtype)
    has_label = has.to(logits.dtype)
    target = has_label * (1 - smoothing) + smoothing / 2
    binary = F.binary_cross_entropy_with_logits
    losses = binary(logits, target, pos_weight=weights, reduction="none")  # [B, L]
    if gamma:
        wrong = torch.sigmoid(torch.where(has, -logits, logits))  # 1 - p of what is true
        # the power has no gradient at 0 for gamma below 1
        losses = losses * wrong.clamp_min(1e-7) ** gamma
    return (losses * labelled).sum(1) / labelled.sum(1).clamp_min(1)


def plain_loss(logits: Tensor, y: Tensor) -> Tensor:
    """The sum over images [B] of the loss without weights, smoothing and focus: a scalar."""
    if y.ndim == 2:
        return binary_cross_entropy(logits, y).sum()
    return F.cross_entropy(logits, y, reduction="sum")


def each_loss(logits: Tensor, y: Tensor) -> Tensor:
    """The loss of each image [B] without weights, smoothing and focus."""
    if y.ndim == 2:
        return binary_cross_entropy(logits, y)
    return F.cross_entropy(logits, y, reduction="none")


def class_weights(
    kind: str,
    counts: Tensor,
    negatives: Tensor | None = None,
) -> Tensor | None:
    """float32 [C] from class counts [C]; None for equal weights.

    kind: "none", "balanced" for 1 / n_k, or "effective:BETA", see effective_weights.
    negatives: [L] images without each label, where an image may have several; "balanced" is then
    negatives / n_k.
    """
    name, _, beta = kind.partition(":")
    if name == "none":
        return None
    if name == "effective":
        return effective_weights(counts, float(beta))
    at_least_one = counts.double().clamp_min(1)
    if negatives is None:
        return _scaled(1 / at_least_one, counts)
    one_sided = (counts == 0) | (negatives == 0)
    ratios = negatives / at_least_one
    return ratios.masked_fill(one_sided, 1.0).float()


def effective_weights(counts: Tensor, beta: float) -> Tensor:
    """(1 - beta) / (1 - beta^n_k) as float32 [C] from class counts [C]."""
    at_least_one = counts.double().clamp_min(1)
    effective = 1 - beta**at_least_one
    raw = (1 - beta) / effective
    return _scaled(raw, counts)


def _scaled(raw: Tensor, counts: Tensor) -> Tensor:
    """Weights whose sum is the number of classes present; an absent one has 0."""
    raw = raw.masked_fill(counts == 0, 0.0)
    present = (counts > 0).sum()
    return (raw / raw.sum() * present).float()
