"""Computations of several methods: averages, logits of another model, state by client, inner
products, still norms.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .contract import ClientRound, ClientUpdates, Network, Tensors


def average(theta: Tensor, weights: Tensor) -> Tensor:
    """sum_k weights_k theta_k: [K, P], [K] -> [P]."""
    return weights.to(theta.dtype) @ theta


def moved_towards(
    theta: Tensor,
    updates: ClientUpdates,
    shares: Tensor,
) -> Tensor:
    """theta + sum_k shares_k (theta_k - theta) of the trained numbers [T]; shares [K]."""
    t = updates.layout.trainable
    stay = (1 - shares.sum()).to(theta.dtype)
    mean = average(updates.theta[:, :t], shares)
    return stay * theta[:t] + mean


def normalised(shares: Tensor, smallest: float = 0.0) -> Tensor:
    """Shares [N], those below 0 cut off, divided by their sum; uniform where that is not above
    `smallest`.
    """
    shares = shares.clamp_min(0)
    total = shares.sum()
    if total > smallest:
        return shares / total
    return torch.full_like(shares, 1 / len(shares))


def entries(memory: Tensors, *names: str) -> Tensors:
    """The entries of a memory with these names, of which the first round may have none."""
    return {name: memory[name] for name in names if name in memory}


def cut_to_norm(gradient: Tensor, largest: float) -> None:
    """Shorten a gradient in place to this norm, where it is longer."""
    factor = largest / (gradient.norm() + 1e-6)
    gradient.mul_(factor.clamp_max(1))


def by_row(
    memory: Tensors,
    name: str,
    updates: ClientUpdates,
    start: float,
) -> Tensor:
    """A fresh copy of a rule's column over the roster [N], `start` in the first round."""
    if name in memory:
        return memory[name].clone()
    device = updates.theta.device
    return torch.full(
        (updates.roster,),
        start,
        dtype=torch.float64,
        device=device,
    )


def gram(
    theta: Tensor,
    updates: ClientUpdates,
    others: list[Tensor] | None = None,
) -> Tensor:
    """Inner products of the updates theta - theta_k, then of `others`, vectors [T]: float64 [M, M]
    on the CPU.

    By blocks of columns: a second table [K, P] would not fit beside the first.
    """
    others = others or []
    m = len(updates.rows) + len(others)
    total = theta.new_zeros(m, m, dtype=torch.float64)
    columns = torch.arange(updates.layout.trainable)
    for part in columns.split(max(1, 2**22 // m)):
        first_column = int(part[0])
        end = int(part[-1]) + 1
        span = slice(first_column, end)
        moved = theta[span] - updates.theta[:, span]
        rows = [moved]
        rows += [vector[None, span] for vector in others]
        block = torch.cat(rows).double()  # [M, block]
        total += block @ block.T
    return total.cpu()


def logits_of(
    net: Network,
    theta: Tensor,
    x: Tensor,
    client: ClientRound,
) -> Tensor:
    """Logits [B, C] of a batch's images x under a model [P], such as the global one.

    In eval mode; numbers and modes of net stay as they were.
    """
    return _outputs(net, net, x, client, [theta])[0]


def features_of(
    net: Network,
    x: Tensor,
    client: ClientRound,
    *models: Tensor,
) -> list[Tensor]:
    """Features [B, D] of x under each model [P], in eval mode. Leaves numbers and modes of net as
    they were.
    """
    return _outputs(net, net.features, x, client, models)


@torch.no_grad()
def _outputs(
    net: Network,
    part: Callable[[Tensor], Tensor],
    x: Tensor,
    client: ClientRound,
    models: Sequence[Tensor],
) -> list[Tensor]:
    live = client.layout.read()
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    outputs = []
    for theta in models:
        client.layout.load(theta)
        outputs.append(part(x))
    client.layout.load(live)
    for module, training in modes:  # one by one: under --bn freeze they differ
        module.training = training
    return outputs


def is_frozen(net: Network) -> bool:
    """Tell whether no number of the backbone is trained."""
    return not any(parameter.requires_grad for parameter in net.backbone.parameters())


@contextmanager
def still_batchnorm(net: nn.Module) -> Iterator[None]:
    """Within it, batch statistics are used but the running ones do not move."""
    kind = nn.modules.batchnorm._BatchNorm
    norms = [module for module in net.modules() if isinstance(module, kind)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def late_start(start: int, rounds: int, event: str) -> str:
    """A warning where an event begins so late that a mean over the last five rounds is of two
    kinds of round; "" elsewhere.
    """
    averaged = max(rounds - 4, 1)  # the first round that is averaged
    if start <= averaged:
        return ""
    means = f"scores are means over rounds {averaged} to {rounds}"
    return f"{event} from round {start} on, and {means}"
