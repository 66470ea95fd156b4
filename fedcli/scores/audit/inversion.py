"""Gradient inversion: the images of a batch, looked for by the gradient that a hospital would send of it.

Source: Geiping, Bauermeister, Dröge and Moeller, "Inverting gradients", NeurIPS 2020, arXiv 2003.14053, Eq. 4:

    argmin over x in [0, 1]^n of  1 - <grad L(x, y), g> / (||grad L(x, y)|| ||g||) + alpha TV(x)

by Adam on the signs of the gradient, with its step cut to a tenth after 3/8, 5/8 and 7/8 of the iterations. As there,
the attacker knows the labels and the network, which answers in evaluation mode, and g is of one batch: a worst case,
since a client of FedAvg sends the sum of many steps. One start, where the authors take the best of several. Under
--dp-sgd the gradient of each image is cut and the sum has the run's noise; under --dp-noise the whole gradient is cut
at its full norm, so that the noise is no larger beside it than in the run.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ... import console
from ...data import transforms
from ...data.shard import Shard
from ...methods.losses import each_loss
from ...methods.mixins import GroupViews, views_of
from ...models.network import Network
from ...runs.finished import Run
from ...seeds import derive

STEP = 0.1  # of Adam, in units of normalised pixels
ALPHA = 1e-2  # weight of the total variation
MOST = 100.0  # dB of two images that are the same

Gradient = Callable[[Tensor], Tensor]


def sent(run: Run, net: Network, shard: Shard, at: Tensor, seed: int) -> Tensor:
    """The gradient [T] that a hospital sends of its images at these places [B], as private as the run was."""
    batch, privacy = shard.batch(at), run.manifest.body.get("privacy")
    losses = _losses(run, net, shard, at, batch.x)  # [B]
    if not privacy:
        return _gradient(run, net, losses.mean())
    clip, single = privacy["clip"], privacy.get("of") == "image"
    each = [
        _gradient(run, net, loss, keep=True) for loss in (losses if single else [losses.mean()])
    ]
    scales = [clip / max(g.norm().item(), clip if single else 1e-12) for g in each]
    total = torch.stack([scale * g for scale, g in zip(scales, each, strict=True)]).sum(0)
    noise = np.random.Generator(np.random.PCG64(derive("audit noise", seed))).standard_normal(
        len(total)
    )
    return total + privacy["noise"] * clip * torch.from_numpy(noise).to(total)


def _losses(run: Run, net: Network, shard: Shard, at: Tensor, x: Tensor) -> Tensor:
    if isinstance(run.method.local, GroupViews):
        run.method.local.set_groups(net, shard, at, views_of(run.method.local)[0])
    return each_loss(net(x), shard.y[at.to(shard.y.device)])


def _gradient(
    run: Run, net: Network, loss: Tensor, *, graph: bool = False, keep: bool = False
) -> Tensor:
    """[T], of the weights that travel."""
    weights = [p for name, p in net.named_parameters() if name in run.layout.weights]
    grads = torch.autograd.grad(
        loss, weights, create_graph=graph, retain_graph=graph or keep, materialize_grads=True
    )
    return torch.cat([g.reshape(-1) for g in grads])


def reconstructed(
    run: Run, net: Network, shard: Shard, at: Tensor, *, iterations: int, label: str, seed: int
) -> tuple[Tensor, float]:
    """Pixels in [0, 1] that give a hospital's gradient of its images at these places [B, C, H, W], and the cosine
    distance between the two gradients."""
    net.eval()
    target, shape = sent(run, net, shard, at, seed), shard.batch(at).x.shape
    return invert(
        lambda x: _gradient(run, net, _losses(run, net, shard, at, x).mean(), graph=True),
        target,
        shape,
        iterations=iterations,
        label=label,
        seed=seed,
    )


def invert(
    gradient: Gradient,
    target: Tensor,
    shape: torch.Size,
    *,
    iterations: int,
    label: str = "",
    seed: int = 0,
) -> tuple[Tensor, float]:
    """The same of any gradient [T] of inputs of this shape."""
    stream = torch.Generator().manual_seed(derive("gradient inversion", seed))
    x = torch.randn(shape, generator=stream).to(target.device).requires_grad_()
    low, high = (
        transforms.normalised(torch.full(shape, edge, device=x.device)) for edge in (0.0, 1.0)
    )
    adam = torch.optim.Adam([x], lr=STEP)
    steps = torch.optim.lr_scheduler.MultiStepLR(
        adam, [iterations * part // 8 for part in (3, 5, 7)]
    )
    for _ in console.progress(range(iterations), label=label, total=iterations):
        cost = _distance(gradient(x), target) + ALPHA * _variation(x)  # Eq. 4
        x.grad = torch.autograd.grad(cost, x)[0].sign()
        adam.step()
        steps.step()
        with torch.no_grad():
            x.copy_(x.clamp(low, high))
    return transforms.to_pixels(x.detach()), _distance(gradient(x), target).item()


def _distance(g: Tensor, target: Tensor) -> Tensor:
    return 1 - torch.nn.functional.cosine_similarity(g, target, dim=0)


def _variation(x: Tensor) -> Tensor:
    return x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean()


def psnr(first: np.ndarray, second: np.ndarray) -> float:
    """Peak signal to noise ratio of two images with pixels in [0, 1], in dB, at most MOST."""
    return float(min(MOST, -10 * np.log10(max(np.mean((first - second) ** 2), 1e-30))))


def matched(originals: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Reconstructions [B, ...] in the order of the originals that they fit best: a gradient has no order."""
    from scipy.optimize import linear_sum_assignment

    table = [[psnr(original, image) for image in found] for original in originals]  # [B, B]
    return found[linear_sum_assignment(table, maximize=True)[1]]
