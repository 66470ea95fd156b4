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
def mean_loss(
    net: Network,
    client: ClientRound,
    shard: Shard | None = None,
) -> Tensor:
    """Mean loss of net on the client's images, a scalar."""
    net.eval()
    shard = client.shard if shard is None else shard
    total = torch.zeros((), device=client.theta.device)
    for batch in shard.in_order():
        total = total + plain_loss(net(batch.x), batch.y)
    return total / len(shard)


class LossBefore(Aggregator):
    """A rule that reads each client's mean loss under the received model, the column loss_before
    [K].
    """

    cost = {"forward": 1}
    needs = "scalars"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        client.report["loss_before"] = mean_loss(net, client)


@torch.no_grad()
def balanced_accuracy(
    net: Network,
    client: ClientRound,
    shard: Shard | None = None,
) -> Tensor:
    """Share of correct predictions, averaged over the classes the shard has, a float64 scalar.

    For several labels per image it is the mean over labels, of images that have one and of images
    that do not.
    """
    net.eval()
    shard = client.shard if shard is None else shard
    if shard.multi_label:
        return _balanced_over_labels(net, shard)
    correct = shard.y.new_zeros(shard.classes, dtype=torch.float64)  # [C]
    for batch in shard.in_order():
        right = net(batch.x).argmax(1) == batch.y  # [B]
        correct += batch.y[right].bincount(minlength=shard.classes)
    counts = shard.class_counts
    present = counts > 0
    recalls = correct[present] / counts[present]
    return recalls.mean()


def _balanced_over_labels(net: Network, shard: Shard) -> Tensor:
    """A label that all images or none have counts by its one rate."""
    correct = shard.y.new_zeros(2, shard.classes, dtype=torch.float64)  # [2, L]
    images = torch.zeros_like(correct)  # [2, L]
    for batch in shard.in_order():
        positive = net(batch.x) >= 0  # [B, L]
        for answer in (NO, YES):
            true = batch.y == answer
            right = true & (positive == bool(answer))
            correct[answer] += right.sum(0)
            images[answer] += true.sum(0)
    present = images > 0
    rates = correct[present] / images[present]
    return rates.mean()


@torch.no_grad()
def group_losses(
    net: Network,
    client: ClientRound,
    groups: Tensor,
    count: int,
) -> Tensor:
    """Sums of the losses of the client's images in each of `count` groups, float64 [G].

    groups: [N], -1 is in none.
    """
    net.eval()
    bins = count + 1  # the last for unknown ones
    total = groups.new_zeros(bins, dtype=torch.float64)
    for batch in client.shard.in_order():
        losses = each_loss(net(batch.x), batch.y).double()  # [B]
        group = groups[batch.at] % bins  # [B]; -1 becomes the last
        member = F.one_hot(group, bins).double()  # [B, G + 1]
        total += losses @ member
    return total[:count]


@torch.no_grad()
def group_predictions(
    net: Network,
    client: ClientRound,
    groups: Tensor,
    count: int,
) -> Tensor:
    """Images by group, class and predicted class, float64 [G, C, C]; groups [N], -1 is in none.

    Raises UsageError for several labels per image.
    """
    if client.shard.multi_label:
        problem = "images of several labels have no one predicted class"
        raise UsageError(problem, "--set gap=accuracy needs none")
    net.eval()
    classes = client.shard.classes
    shape = count + 1, classes, classes  # the last group for unknown ones
    total = groups.new_zeros(shape, dtype=torch.float64)
    for batch in client.shard.in_order():
        group = groups[batch.at] % (count + 1)  # [B]; -1 becomes the last
        guess = net(batch.x).argmax(1)  # [B]
        group_and_class = group * classes + batch.y
        cell = group_and_class * classes + guess  # [B]
        total += cell.bincount(minlength=total.numel()).view_as(total)
    return total[:count]


def gradient(
    net: Network,
    client: ClientRound,
    batch_size: int = 64,
) -> tuple[Tensor, Tensor]:
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


def ascend(
    net: Network,
    client: ClientRound,
    rho: float,
) -> tuple[Tensor, Tensor]:
    """Mean loss at theta, and at theta + rho * g / ||g||, the worst direction. Eqs. 9-10."""
    params = client.layout.params
    loss, g = gradient(net, client)
    theta = params.clone()  # [T]
    factor = rho / (g.norm() + 1e-12)
    params.addcmul_(g, factor)
    worst = mean_loss(net, client)
    params.copy_(theta)
    return loss, worst
