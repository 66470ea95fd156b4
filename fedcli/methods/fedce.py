"""FedCE: a client weighs more the less the others, and a model without it, can stand in for it.

Source: Jiang et al., CVPR 2023, arXiv 2303.16520; as adapted in FedISM+, arXiv 2503.09587.
Each round, with c the weights behind the last global model (uniform at first):
1. b_k: balanced accuracy, on the client's images, of the global model with its own last model taken
   out, (theta - c_k theta_k) / (1 - c_k); 0 in the first round.
2. cos_k: cosine of the client's update and the c-weighted sum of all others', trainable part.
3. M_k = 1 - mean b_k and G_k = 1 - mean cos_k over the rounds so far, each divided by its sum.
4. their product (mode=times) or sum (mode=plus), divided by its sum, weighs this round's models.

                       released (default; FFL4MIA)          original
    b_k measured on    the client's training images         its validation part, where it has one
    weights            the mean of step 4 over all rounds   step 4 of this round

The default is what printed the FedCE rows; both its choices are sound. With no validation part the
original measures on training images, and column `validation_images` of rounds.jsonl says 0. The
original counts Dice where we count balanced accuracy, and lifts small shares to 0.001. How we
differ: guards of ours, where both codes divide by 0: a zero update, or others that add up to zero,
has cosine 0; a sum below 1e-9 gives uniform shares; a lone client has b_k = 0. b_k is measured on
the fixed view.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from . import probes
from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Tensors
from .fedavg import Plain
from .helpers import average, by_row, entries, gram, normalised
from .registry import register


@dataclass(frozen=True)
class Contribution(Aggregator):
    """Weights by estimated contribution."""

    cost = {"forward": 1}

    mode: Annotated[Literal["times", "plus"], "how the two contributions are put together"] = (
        "times"
    )
    rule: Annotated[
        Literal["released", "original"],
        "the mean over all rounds, on training images, or this round's, on validation images",
    ] = "released"

    full_participation = True

    def measure_global(self, net: Network, client: ClientRound) -> None:
        model = client.layout.flat  # [P]
        part = client.shard
        if self.rule == "original":
            count = client.validation_images
            client.report["validation_images"] = torch.tensor(count, device=model.device)
            if client.val is not None and count:
                part = client.val
        without = model.new_zeros((), dtype=torch.float64)
        c = 1.0
        if "fedce_last" in client.memory:
            c = float(client.shared["contribution"][client.row])
        if 1 - c > 1e-9:
            # of the live net, so that a client's own batch-norm statistics stay its own
            received = model.clone()
            model.sub_(client.memory["fedce_last"], alpha=c).div_(1 - c)
            without = probes.balanced_accuracy(net, client, part)
            model.copy_(received)
        client.report["without_me"] = without  # b_k

    def measure_local(self, net: Network, client: ClientRound) -> None:
        client.memory["fedce_last"] = client.layout.read()

    def broadcast(self, memory: Tensors) -> Tensors:
        return entries(memory, "contribution")

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        rows = updates.rows
        t = updates.round
        c = by_row(memory, "contribution", updates, 1 / updates.roster)  # [N]
        cosine = by_row(memory, "cosine", updates, 0.0)
        without = by_row(memory, "without_me", updates, 0.0)
        cosine[rows] += cosines(theta, updates, c[rows])
        without[rows] += updates["without_me"].double()
        g = shares(1 - cosine / t)
        m = shares(1 - without / t)
        contributions = g * m if self.mode == "times" else g + m
        c = shares(contributions)
        if self.rule == "released":
            total = by_row(memory, "shares", updates, 0.0) + c
            memory["shares"] = total
            c = total / t
        memory["cosine"] = cosine
        memory["without_me"] = without
        memory["contribution"] = c
        return average(updates.theta, c[rows]), c[rows]


def cosines(theta: Tensor, updates: ClientUpdates, c: Tensor) -> Tensor:
    """Cosine of each update and the c-weighted sum of all others, float64 [K]."""
    g = gram(theta, updates)  # [K, K]
    repeated = c.cpu().expand(len(g), -1)
    others = repeated.clone()
    others = others.fill_diagonal_(0)  # [K, K], row k leaves out k
    products = others @ g  # [K, K]
    dot = products.diagonal()
    squared = (products * others).sum(1)
    lengths = (g.diagonal() * squared.clamp_min(0)).sqrt()
    cosines = dot / lengths.where(lengths > 0, 1)
    defined = torch.where(lengths > 0, cosines, 0)
    return defined.to(c.device)


def shares(contribution: Tensor) -> Tensor:
    """Contributions [N] divided by their sum; uniform where that is nothing but rounding."""
    return normalised(contribution, smallest=1e-9)


register(
    "fedce",
    Plain(),
    Contribution(),
    label="FedCE",
    about="gives more weight to hospitals that the others cannot replace",
    families="hospital",
)
