"""DP-SGD on a client: clipped gradients of single images, noise on their sum, and the account.

Source: Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang, "Deep learning with differential
privacy", CCS 2016, arXiv 1607.00133, Algorithm 1; the account is that of Mironov, Talwar and Zhang,
"Renyi differential privacy of the sampled Gaussian mechanism", 2019, arXiv 1908.10530, and its
conversion that of Canonne, Kamath and Steinke, NeurIPS 2020, arXiv 2004.00010, Proposition 12.

    g = (1 / B) (sum_i g_i min(1, C / ||g_i||) + noise C N(0, 1))          over the images of a step

A step takes each of the client's n images with chance q = B / n, independently of the others
(Poisson sampling), as the account assumes: B, the batch size, is the number of images of a step on
average, and a step may have no image at all. There are as many steps as an epoch of full batches
would have, ceil(n / B). Shuffled batches of B would reveal as much by no proof of this kind, so
they are not used. With m(x) = 1 - q + q exp((2 x - 1) / 2 noise^2), k steps have

    R(a) = k / (a - 1) log E m(x)^a,  x ~ N(0, noise^2)
    epsilon = min over a of R(a) + log(1 - 1 / a) - log(a delta) / (a - 1)

which holds for data that have one image more or less. All else that is made of images is not
covered: the number of images, batch-norm statistics (so networks with batch norm are refused),
losses and scores in the record. Several images of one patient count singly. Gradients are computed
one by one with torch.func; the noise follows from a seed of the run, which makes this a simulation.
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

LOW_ORDERS = [1 + x / 20 for x in range(1, 200)]
HIGH_ORDERS = [2**k for k in range(6, 12)]
ORDERS = [*LOW_ORDERS, *range(11, 64), *HIGH_ORDERS]
LITTLE = 0.05  # noise below which the account counts every image as drawn
AT_ONCE = 2**26  # numbers of the gradients of single images that are in memory at a time
FEW = 2**18  # numbers of a network that is quicker with parameters of its own for each image

Loss = Callable[[Network, Batch, ClientRound], Tensor]


def rate(images: int, batch_size: int) -> float:
    """The chance q of an image to be in a step."""
    return min(1.0, batch_size / images)


def steps_of_epoch(images: int, batch_size: int) -> int:
    """The steps ceil(n / B) of one pass."""
    return -(-images // batch_size)


def epsilon(
    noise: float,
    q: float,
    steps: int,
    delta: float,
) -> float:
    """Epsilon: a bound on what so many steps together reveal of one image."""
    if not steps:
        return 0.0
    smallest = math.inf
    for order in ORDERS:
        renyi = steps * _log_moment(noise, q, order) / (order - 1)
        if delta**2 + math.expm1(-renyi) > 0:  # so little that delta alone covers it
            return 0.0
        of_delta = math.log(order * delta) / (order - 1)
        smallest = min(smallest, renyi + math.log1p(-1 / order) - of_delta)
    return max(smallest, 0.0)


def _log_moment(noise: float, q: float, order: float) -> float:
    """The number log E m(x)^a, by the trapezoidal rule.

    The rule is exact to rounding for so smooth a function.
    """
    variance_twice = 2 * noise**2
    if q == 1 or noise < LITTLE:  # without chance it is no less
        return order * (order - 1) / variance_twice
    step = min(noise, max(noise**2, noise / 10)) / 20
    x = np.arange(-12 * noise, order + 12 * noise, step)
    log_drawn = math.log(q) + (2 * x - 1) / variance_twice
    log_m = np.logaddexp(np.log1p(-q), log_drawn)
    exponent = order * log_m - x**2 / variance_twice
    top = exponent.max()
    total = np.exp(exponent - top).sum() * step
    log_density = math.log(noise * math.sqrt(2 * math.pi))
    return float(top + math.log(total) - log_density)


def poisson_turns(
    shard: Shard,
    size: int,
    *,
    shuffle: int,
    augment: int,
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The steps of one epoch, as Shard.turns() has them: indices [B], and draws of augmentation.

    B differs from step to step.
    """
    stream = torch.Generator().manual_seed(shuffle)
    device = shard.rows.device
    count = len(shard)
    q = rate(count, size)
    for step in range(steps_of_epoch(count, size)):
        is_drawn = torch.rand(count, generator=stream, dtype=torch.float64) < q
        indices = transforms.sent(is_drawn.nonzero().squeeze(1), device)
        chance = None
        if shard.kind != "none":
            seed = derive("augment of a step", augment, step)
            chance = transforms.draw(len(indices), seed, device)  # [B, 4]
        yield indices, chance


def check_norms(net: Network, name: str) -> None:
    """Refuse batch norm that trains, which mixes the images of a step. Raises UsageError.

    name: of the network.
    """
    frozen = {module for part in frozen_parts(net).values() for module in part.modules()}
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module not in frozen:
            with_groups = f"{name}-gn" if f"{name}-gn" in MODELS else "cnn-gn"
            raise UsageError(
                f"{name} has batch norm, which mixes the images of a step, so --dp image cannot "
                "cut each one's gradient",
                f"--model {with_groups} has GroupNorm in its place; --bn freeze and "
                "--freeze-backbone work too",
            )


class _LossOf(nn.Module):
    """The loss of one image as a module, whose parameters torch.func can exchange."""

    def __init__(self, net: Network, loss: Loss, client: ClientRound):
        super().__init__()
        self.net = net
        self.loss = loss
        self.client = client

    def forward(self, x: Tensor, y: Tensor, index: Tensor) -> Tensor:
        batch = Batch(x[None], y[None], index[None])
        return self.loss(self.net, batch, self.client)


@dataclass(frozen=True)
class PrivateGradient:
    """Leaves the private gradient of a batch in a network."""

    clip: float  # C, the norm at which an image's gradient is cut
    noise: float  # standard deviation of the noise, in units of clip
    size: float  # B, the images of a step on average

    def __call__(
        self,
        net: Network,
        loss: Loss,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        """The mean loss over the batch, for the record; 0 for an empty one, which is counted."""
        _, grad = client.layout.all_trainable  # [Q + T] live
        total = torch.zeros_like(grad)
        loss_sum = torch.zeros((), device=grad.device)
        count = len(batch.y)
        client.empty_steps += not count
        images = torch.arange(count, device=grad.device)
        at_once = max(1, AT_ONCE // len(grad))
        parts = images.split(at_once) if count else ()
        for indices in parts:
            part = Batch(batch.x[indices], batch.y[indices], batch.at[indices])
            with slow_attention():  # that of a frozen part is in eval mode
                gradients, losses = self._single(net, loss, part, client)  # [B, Q + T], [B]
            norms = gradients.norm(dim=1).clamp_min(1e-12)
            total += (self.clip / norms).clamp_max(1) @ gradients
            loss_sum += losses.sum()
        seed = derive(
            "dp-sgd noise",
            client.seed,
            client.round,
            client.name,
            client.steps,
        )
        generator = np.random.Generator(np.random.PCG64(seed))
        draws = torch.from_numpy(generator.standard_normal(len(grad)))
        grad.copy_((total + self.noise * self.clip * draws.to(total)) / self.size)
        return loss_sum / max(count, 1)

    def _single(
        self,
        net: Network,
        loss: Loss,
        batch: Batch,
        client: ClientRound,
    ) -> tuple[Tensor, Tensor]:
        """The gradient of each image [B, Q + T], in the order of the layout, and its loss [B]."""
        module = _LossOf(net, loss, client)
        trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        trained.sort(key=_address)
        live = {name: parameter.detach() for name, parameter in trained}

        def of_one(
            parameters: dict[str, Tensor],
            x: Tensor,
            y: Tensor,
            index: Tensor,
        ) -> Tensor:
            return torch.func.functional_call(module, parameters, (x, y, index))

        numbers = sum(parameter.numel() for parameter in live.values())
        if numbers > FEW:
            # its first use imports a compiler, which takes a second
            graded = torch.func.grad_and_value(of_one)
            mapped = torch.func.vmap(
                graded,
                in_dims=(None, 0, 0, 0),
                randomness="different",
            )
            by_name, losses = mapped(live, batch.x, batch.y, batch.at)
            return torch.cat([by_name[name].flatten(1) for name in live], 1), losses
        copies = {}  # [B, ...]
        for name, parameter in live.items():
            copy = parameter.expand(len(batch.y), *parameter.shape)
            copies[name] = copy.requires_grad_()
        mapped_loss = torch.func.vmap(of_one, randomness="different")
        losses = mapped_loss(copies, batch.x, batch.y, batch.at)  # [B]
        inputs = list(copies.values())
        gradients = torch.autograd.grad(
            losses.sum(),
            inputs,
            materialize_grads=True,
        )
        return torch.cat([gradient.flatten(1) for gradient in gradients], 1), losses.detach()


def _address(item: tuple[str, Tensor]) -> int:
    """The address of a parameter, by which the layout orders them."""
    _, parameter = item
    return parameter.data_ptr()
