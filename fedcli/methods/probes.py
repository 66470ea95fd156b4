"""Numbers a client can measure on its own shard.

All are taken over its training images, or over another shard where one is given, in eval mode, on the
fixed view: no augmentation, no logit adjustment. Losses are means of plain cross-entropy. Each leaves
the network as it found it, but for its mode.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .method import Visit

if TYPE_CHECKING:
    from ..data.load import Shard


@torch.no_grad()
def mean_loss(net: nn.Module, visit: Visit, shard: "Shard | None" = None) -> Tensor:
    """Mean loss of net on the client's images, a scalar."""
    net.eval()
    shard = visit.shard if shard is None else shard
    total = sum(F.cross_entropy(net(b.x), b.y, reduction="sum") for b in shard.in_order())
    return total / len(shard)


@torch.no_grad()
def balanced_accuracy(net: nn.Module, visit: Visit, shard: "Shard | None" = None) -> Tensor:
    """Share of right answers, averaged over the classes the shard has, a float64 scalar."""
    net.eval()
    shard = visit.shard if shard is None else shard
    right = torch.zeros(shard.classes, dtype=torch.float64, device=shard.y.device)  # [C]
    for batch in shard.in_order():
        right += batch.y[net(batch.x).argmax(1) == batch.y].bincount(minlength=shard.classes)
    have = shard.class_counts > 0
    return (right[have] / shard.class_counts[have]).mean()


def gradient(net: nn.Module, visit: Visit, batch_size: int = 64) -> tuple[Tensor, Tensor]:
    """Mean loss, and its gradient [T] as a fresh vector, over the client's whole shard."""
    net.eval()
    visit.layout.zero_grad()
    total = torch.zeros((), device=visit.theta.device)
    for batch in visit.shard.in_order(batch_size):
        loss = F.cross_entropy(net(batch.x), batch.y, reduction="sum") / len(visit.shard)
        loss.backward()
        total += loss.detach()
    found = visit.layout.grad.clone()
    visit.layout.zero_grad()
    return total, found


def uphill(net: nn.Module, visit: Visit, rho: float) -> tuple[Tensor, Tensor]:
    """Mean loss at theta, and at theta + rho * g / ||g||, the worst direction. FedISM+ Eqs. 9-10."""
    here, g = gradient(net, visit)
    keep = visit.layout.moving.clone()  # [T]
    visit.layout.moving.addcmul_(g, rho / (g.norm() + 1e-12))
    there = mean_loss(net, visit)
    visit.layout.moving.copy_(keep)
    return here, there
