"""DP-SGD on a client: each image's gradient cut at a norm, noise on their sum, and what all steps reveal of an image.

Source: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, "Deep learning with differential privacy", CCS 2016,
arXiv 1607.00133, Algorithm 1; the account is that of Mironov, Talwar and Zhang, "Renyi differential privacy of the
sampled Gaussian mechanism", 2019, arXiv 1908.10530, and its conversion that of Canonne, Kamath and Steinke, NeurIPS
2020, arXiv 2004.00010, Proposition 12.

    g = (1 / B) (sum_i g_i min(1, C / ||g_i||) + noise C N(0, 1))          over the images of a step

A step takes each of the client's n images with chance q = B / n, independently of the others (Poisson sampling), as the
account assumes: B, the batch size, is what a step has on average, and a step may have no image at all. With as many
steps as an epoch of full batches would have, ceil(n / B). Shuffled batches of B would reveal as much by no proof of
this kind, so they are not used. With m(x) = 1 - q + q exp((2 x - 1) / 2 noise^2), k steps have

    R(a) = k / (a - 1) log E m(x)^a,  x ~ N(0, noise^2)
    epsilon = min over a of R(a) + log(1 - 1 / a) - log(a delta) / (a - 1)

which holds for data that have one image more or less. What else is made of images is not covered: the number of images,
batch-norm statistics (so networks with batch norm are refused), losses and scores in the record. Several images of one
patient count singly. Gradients are computed one by one with torch.func; the noise follows from a seed of the run, which
makes this a simulation.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..data import transforms
from ..data.shard import Batch, Shard
from ..errors import UsageError
from ..methods.contract import ClientRound
from ..models import MODELS
from ..models.network import Network, frozen_parts, slow_attention
from ..seeds import derive

ORDERS = [1 + x / 20 for x in range(1, 200)] + [*range(11, 64), *(2**k for k in range(6, 12))]
LITTLE = 0.05  # noise below which the account counts every image as drawn
AT_ONCE = 2**26  # numbers of the gradients of single images that are held at a time
FEW = 2**18  # numbers of a network that is quicker with parameters of its own for each image

Loss = Callable[[Network, Batch, ClientRound], Tensor]


def rate(images: int, batch_size: int) -> float:
    """q, the chance of an image to be in a step."""
    return min(1.0, batch_size / images)


def steps_of_epoch(images: int, batch_size: int) -> int:
    return -(-images // batch_size)


def epsilon(noise: float, q: float, steps: int, delta: float) -> float:
    """Epsilon: a bound on what so many steps together reveal of one image."""
    if not steps:
        return 0.0
    best = math.inf
    for order in ORDERS:
        renyi = steps * _log_moment(noise, q, order) / (order - 1)
        if delta**2 + math.expm1(-renyi) > 0:  # so little that delta alone covers it
            return 0.0
        best = min(best, renyi + math.log1p(-1 / order) - math.log(order * delta) / (order - 1))
    return max(best, 0.0)


def _log_moment(noise: float, q: float, order: float) -> float:
    """log E m(x)^a, by the trapezoidal rule, which is exact to rounding for so smooth a function."""
    if q == 1 or noise < LITTLE:  # without chance it is no less
        return order * (order - 1) / (2 * noise**2)
    step = min(noise, max(noise**2, noise / 10)) / 20
    x = np.arange(-12 * noise, order + 12 * noise, step)
    log_m = np.logaddexp(np.log1p(-q), math.log(q) + (2 * x - 1) / (2 * noise**2))
    exponent = order * log_m - x**2 / (2 * noise**2)
    top = exponent.max()
    total = np.exp(exponent - top).sum() * step
    return float(top + math.log(total) - math.log(noise * math.sqrt(2 * math.pi)))


def poisson_turns(
    shard: Shard, size: int, *, shuffle: int, augment: int
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The steps of one epoch, as Shard.turns() has them: places [B] with B as it falls, and draws of augmentation."""
    stream = torch.Generator().manual_seed(shuffle)
    device, q = shard.rows.device, rate(len(shard), size)
    for step in range(steps_of_epoch(len(shard), size)):
        chosen = torch.rand(len(shard), generator=stream, dtype=torch.float64) < q
        at = transforms.sent(chosen.nonzero().squeeze(1), device)
        chance = None
        if shard.kind != "none":
            chance = transforms.draw(
                len(at), derive("augment of a step", augment, step), device
            )  # [B, 4]
        yield at, chance


def check_norms(net: Network, name: str) -> None:
    """Refuse batch norm that trains, which mixes the images of a step. Raises UsageError.

    name: of the network.
    """
    still = {module for part in frozen_parts(net).values() for module in part.modules()}
    if any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and m not in still for m in net.modules()
    ):
        with_groups = f"{name}-gn" if f"{name}-gn" in MODELS else "cnn-gn"
        what = f"{name} has batch norm, which mixes the images of a step, so --dp-sgd cannot cut each one's gradient"
        hint = f"--model {with_groups} has GroupNorm in its place; --bn freeze and --freeze-backbone work too"
        raise UsageError(what, hint)


class _LossOf(nn.Module):
    """The loss of one image as a module, whose parameters torch.func can exchange."""

    def __init__(self, net: Network, loss: Loss, client: ClientRound):
        super().__init__()
        self.net, self.loss, self.client = net, loss, client

    def forward(self, x: Tensor, y: Tensor, at: Tensor) -> Tensor:
        return self.loss(self.net, Batch(x[None], y[None], at[None]), self.client)


@dataclass(frozen=True)
class PrivateGradient:
    """Leaves the private gradient of a batch in a network."""

    clip: float  # C, the norm at which an image's gradient is cut
    noise: float  # standard deviation of the noise, in units of clip
    size: float  # B, the images of a step on average

    def __call__(self, net: Network, loss: Loss, batch: Batch, client: ClientRound) -> Tensor:
        """The mean loss over the batch, for the record; 0 for an empty one."""
        weights, grad = client.layout.all_trainable  # [Q + T] live
        total, losses = torch.zeros_like(grad), torch.zeros((), device=grad.device)
        images = torch.arange(len(batch.y), device=grad.device)
        for at in images.split(max(1, AT_ONCE // len(grad))) if len(images) else ():
            with slow_attention():  # that of a frozen part is in eval mode
                each, lost = self._single(
                    net, loss, Batch(batch.x[at], batch.y[at], batch.at[at]), client
                )  # [B, Q + T]
            total += (self.clip / each.norm(dim=1).clamp_min(1e-12)).clamp_max(1) @ each
            losses += lost.sum()
        seed = derive("dp-sgd noise", client.seed, client.round, client.name, client.steps)
        draws = torch.from_numpy(
            np.random.Generator(np.random.PCG64(seed)).standard_normal(len(grad))
        )
        grad.copy_((total + self.noise * self.clip * draws.to(total)) / self.size)
        return losses / max(len(batch.y), 1)

    def _single(
        self, net: Network, loss: Loss, batch: Batch, client: ClientRound
    ) -> tuple[Tensor, Tensor]:
        """The gradient of each image [B, Q + T], in the order of the layout, and its loss [B]."""
        module = _LossOf(net, loss, client)
        ordered = sorted(
            ((name, p) for name, p in module.named_parameters() if p.requires_grad),
            key=lambda named: named[1].data_ptr(),
        )
        live = {name: p.detach() for name, p in ordered}

        def of_one(parameters: dict[str, Tensor], x: Tensor, y: Tensor, at: Tensor) -> Tensor:
            return torch.func.functional_call(module, parameters, (x, y, at))

        if sum(p.numel() for p in live.values()) > FEW:
            graded = torch.func.grad_and_value(
                of_one
            )  # its first use imports a compiler, which takes a second
            mapped = torch.func.vmap(graded, in_dims=(None, 0, 0, 0), randomness="different")
            grads, losses = mapped(live, batch.x, batch.y, batch.at)
            return torch.cat([grads[name].flatten(1) for name in live], 1), losses
        own = {
            name: p.expand(len(batch.y), *p.shape).requires_grad_() for name, p in live.items()
        }  # [B, ...]
        losses = torch.func.vmap(of_one, randomness="different")(
            own, batch.x, batch.y, batch.at
        )  # [B]
        each = torch.autograd.grad(losses.sum(), list(own.values()), materialize_grads=True)
        return torch.cat([gradient.flatten(1) for gradient in each], 1), losses.detach()
