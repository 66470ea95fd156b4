"""Gradient inversion: the images of a batch, looked for by the gradient that a hospital would send
of it.

Source: Geiping, Bauermeister, Dröge and Moeller, "Inverting gradients", NeurIPS 2020, arXiv
2003.14053, Eq. 4:

    argmin over x in [0, 1]^n of  1 - <grad L(x, y), g> / (||grad L(x, y)|| ||g||) + alpha TV(x)

by Adam on the signs of the gradient, with its step cut to a tenth after 3/8, 5/8 and 7/8 of the
iterations. As there, the attacker knows the labels and the network, which answers in evaluation
mode, and g is of one batch: a worst case, since a client of FedAvg sends the sum of many steps. One
start, where the authors take the best of several. Under --dp image the gradient of each image is
cut and the sum has the run's noise; under --dp client the whole gradient is cut at its full norm,
so that the noise is no larger beside it than in the run.
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
from ...runs.finished import FinishedRun
from ...seeds import derive

STEP = 0.1  # of Adam, in units of normalised pixels
ALPHA = 1e-2  # weight of the total variation
MOST = 100.0  # dB of two images that are the same

Gradient = Callable[[Tensor], Tensor]


def sent(
    run: FinishedRun,
    net: Network,
    shard: Shard,
    places: Tensor,
    seed: int,
) -> Tensor:
    """The gradient [T] that a hospital sends of its images at these places [B], as private as the
    run was.
    """
    losses = _losses(run, net, shard, places, shard.batch(places).x)  # [B]
    privacy = run.manifest.body.get("privacy")
    if not privacy:
        return _gradient(run, net, losses.mean())
    clip = privacy["clip"]
    least_norm = clip
    if privacy.get("of") != "image":
        losses = losses.mean()[None]
        least_norm = 1e-12
    gradients = []
    for loss in losses:
        gradient = _gradient(run, net, loss)
        gradients.append(clip / max(gradient.norm().item(), least_norm) * gradient)
    total = torch.stack(gradients).sum(0)
    random = np.random.Generator(np.random.PCG64(derive("audit noise", seed)))
    noise = torch.from_numpy(random.standard_normal(len(total))).to(total)
    return total + privacy["noise"] * clip * noise


def _losses(
    run: FinishedRun,
    net: Network,
    shard: Shard,
    places: Tensor,
    x: Tensor,
) -> Tensor:
    if isinstance(run.method.local, GroupViews):
        view = views_of(run.method.local)[0]
        run.method.local.set_groups(net, shard, places, view)
    return each_loss(net(x), shard.y[places.to(shard.y.device)])


def _gradient(
    run: FinishedRun,
    net: Network,
    loss: Tensor,
    *,
    is_derived: bool = False,
) -> Tensor:
    """The gradient [T] of the weights that travel. is_derived: it is derived once more."""
    weights = [p for name, p in net.named_parameters() if name in run.layout.weights]
    gradients = torch.autograd.grad(
        loss,
        weights,
        retain_graph=True,
        create_graph=is_derived,
        materialize_grads=True,
    )
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def reconstructed(
    run: FinishedRun,
    net: Network,
    shard: Shard,
    places: Tensor,
    *,
    iterations: int,
    label: str,
    seed: int,
) -> tuple[Tensor, float]:
    """Pixels in [0, 1] that give a hospital's gradient of its images at these places [B, C, H, W],
    and the cosine distance between the two gradients.
    """
    net.eval()

    def gradient(x: Tensor) -> Tensor:
        loss = _losses(run, net, shard, places, x).mean()
        return _gradient(run, net, loss, is_derived=True)

    target = sent(run, net, shard, places, seed)
    shape = shard.batch(places).x.shape
    return invert(
        gradient,
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
    """Pixels in [0, 1] of this shape whose gradient is the nearest to a target [T], and their
    cosine distance.
    """
    stream = torch.Generator().manual_seed(derive("gradient inversion", seed))
    x = torch.randn(shape, generator=stream).to(target.device).requires_grad_()
    low = transforms.normalised(torch.full(shape, 0.0, device=x.device))
    high = transforms.normalised(torch.full(shape, 1.0, device=x.device))
    adam = torch.optim.Adam([x], lr=STEP)
    milestones = [iterations * part // 8 for part in (3, 5, 7)]
    steps = torch.optim.lr_scheduler.MultiStepLR(adam, milestones)
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


def psnr(image: np.ndarray, other: np.ndarray) -> float:
    """Peak signal to noise ratio of two images with pixels in [0, 1], in dB, at most MOST."""
    error = max(np.mean((image - other) ** 2), 1e-30)
    return float(min(MOST, -10 * np.log10(error)))


def matched(originals: np.ndarray, rebuilt: np.ndarray) -> np.ndarray:
    """Reconstructions [B, ...] in the order of the originals that they fit best: a gradient has no
    order.
    """
    from scipy.optimize import linear_sum_assignment

    fits = np.empty((len(originals), len(rebuilt)))
    for pair in np.ndindex(fits.shape):
        fits[pair] = psnr(originals[pair[0]], rebuilt[pair[1]])
    return rebuilt[linear_sum_assignment(fits, maximize=True)[1]]
