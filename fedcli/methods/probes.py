"""Numbers a client can measure on its own shard.

All are measured on its training images, or over another shard where one is given, in eval mode, on
the fixed view: no augmentation, no logit adjustment. Losses are means of plain cross-entropy, of
several labels per image of the binary one. Each leaves the network as it was, but for its mode.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from ..labels import NO, YES
from .contract import Aggregator, ClientRound, Network, Shard
from .losses import each_loss, plain_loss


@torch.no_grad()
def mean_loss(net: Network, client: ClientRound, shard: Shard | None = None) -> Tensor:
    """Mean loss of net on the client's images, a scalar."""
    net.eval()
    shard = client.shard if shard is None else shard
    losses = (plain_loss(net(b.x), b.y) for b in shard.in_order())
    return sum(losses, start=torch.zeros((), device=client.theta.device)) / len(shard)


class LossBefore(Aggregator):
    """A rule that reads each client's mean loss under the model that it received, the column
    loss_before [K].
    """

    cost = {"forward": 1}
    needs = "scalars"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        client.report["loss_before"] = mean_loss(net, client)


@torch.no_grad()
def balanced_accuracy(net: Network, client: ClientRound, shard: Shard | None = None) -> Tensor:
    """Share of correct predictions, averaged over the classes the shard has, a float64 scalar.

    Of several labels per image the mean over labels, of images that have one and of images that do
    not.
    """
    net.eval()
    shard = client.shard if shard is None else shard
    if shard.multi_label:
        return _balanced_over_labels(net, shard)
    correct = torch.zeros(shard.classes, dtype=torch.float64, device=shard.y.device)  # [C]
    for batch in shard.in_order():
        correct += batch.y[net(batch.x).argmax(1) == batch.y].bincount(minlength=shard.classes)
    have = shard.class_counts > 0
    return (correct[have] / shard.class_counts[have]).mean()


def _balanced_over_labels(net: Network, shard: Shard) -> Tensor:
    """A label that all images or none have counts by its one rate."""
    correct, images = torch.zeros(
        2, 2, shard.classes, dtype=torch.float64, device=shard.y.device
    )  # [2, L] each
    for batch in shard.in_order():
        says = net(batch.x) >= 0  # [B, L]
        for answer in (NO, YES):
            at = batch.y == answer
            correct[answer] += (at & (says == bool(answer))).sum(0)
            images[answer] += at.sum(0)
    return (correct[images > 0] / images[images > 0]).mean()


@torch.no_grad()
def group_losses(net: Network, client: ClientRound, groups: Tensor, count: int) -> Tensor:
    """Sums of the losses of the client's images in each of `count` groups, float64 [G]; groups [N],
    -1 is in none.
    """
    net.eval()
    total = torch.zeros(
        count + 1, dtype=torch.float64, device=groups.device
    )  # the last for unknown ones
    for batch in client.shard.in_order():
        losses = each_loss(net(batch.x), batch.y).double()  # [B]
        member = F.one_hot(
            groups[batch.at] % (count + 1), count + 1
        ).double()  # [B, G + 1]; -1 becomes the last
        total += losses @ member
    return total[:count]


@torch.no_grad()
def group_predictions(net: Network, client: ClientRound, groups: Tensor, count: int) -> Tensor:
    """Images by group, class and predicted class, float64 [G, C, C], of those whose group [N] is
    known.

    Raises UsageError for several labels per image.
    """
    if client.shard.multi_label:
        raise UsageError(
            "images of several labels have no one predicted class", "--set gap=accuracy needs none"
        )
    net.eval()
    classes = client.shard.classes
    total = torch.zeros(
        count + 1, classes, classes, dtype=torch.float64, device=groups.device
    )  # last: unknown
    for batch in client.shard.in_order():
        cell = ((groups[batch.at] % (count + 1)) * classes + batch.y) * classes + net(
            batch.x
        ).argmax(1)  # [B]
        total += cell.bincount(minlength=total.numel()).view_as(total)
    return total[:count]


def gradient(net: Network, client: ClientRound, batch_size: int = 64) -> tuple[Tensor, Tensor]:
    """Mean loss, and its gradient [T] as a fresh vector, over the client's whole shard."""
    net.eval()
    client.layout.zero_grad()
    total = torch.zeros((), device=client.theta.device)
    for batch in client.shard.in_order(batch_size):
        loss = plain_loss(net(batch.x), batch.y) / len(client.shard)
        loss.backward()
        total += loss.detach()
    gradient = client.layout.grad.clone()
    client.layout.zero_grad()
    return total, gradient


def ascend(net: Network, client: ClientRound, rho: float) -> tuple[Tensor, Tensor]:
    """Mean loss at theta, and at theta + rho * g / ||g||, the worst direction. FedISM+ Eqs. 9-10."""
    here, g = gradient(net, client)
    keep = client.layout.params.clone()  # [T]
    client.layout.params.addcmul_(g, rho / (g.norm() + 1e-12))
    there = mean_loss(net, client)
    client.layout.params.copy_(keep)
    return here, there
