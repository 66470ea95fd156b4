"""FedGA: weight moves to clients who lose most when their model is averaged into the global one.

Source: Zhang, Xu, Yao, Zhang, Tian and Wang, "Federated domain generalization with generalization
adjustment" (FedDG-GA), CVPR 2023, pp. 3954-3963; adapted in FedISM+, arXiv 2503.09587.

                 original (default)               released (FFL4MIA, the printed tables)
    measured on  the client's validation part     its training images
    gap g_k      L_k(global) - L_k(local)         the same, minus its mean
    d            0.2                              0.05
    afterwards   cut to [0, 1], divided by sum    divided by sum, cut at 0

Then w <- w + d (T - t + 1) / T / K * g / max |g|, w starts uniform, t from 1 is the round in which
the new weights are used, and L is plain cross-entropy on the fixed view (the code: random
augmentation). Where the partition gives a client no validation part, `original` measures on its
training images instead; column `validation_images` of rounds.jsonl says on how many it measured, 0
for this case. How we differ from both, and why:
- the gap of a round needs the averaged model, so it comes in the client's next round: all must take
  part.
- the original divides d by 3, its number of clients; we divide by K.
- the original's code can measure accuracy or loss; we measure loss, as FFL4MIA does.
- equal gaps of 0, where the code divides by 0, leave the weights alone.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from . import probes
from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Network, Shard, Tensors
from .fedavg import Plain
from .helpers import average, by_row, normalised
from .registry import register


@dataclass(frozen=True)
class Gap(Aggregator):
    """Weights that climb with the loss gap between global and local model."""

    cost = {"forward": 2}
    needs = "scalars"

    step: Annotated[
        float, "factor on the rule's own d (original 0.2, released 0.05), >= 0; 0 stays uniform"
    ] = 1.0
    rule: Annotated[
        Literal["original", "released"], "validation gaps, or centred training gaps"
    ] = "original"

    full_participation = True

    def warning(self, rounds: int, validation: bool) -> str:
        if self.rule == "released" or validation:
            return ""
        return (
            "clients have no validation part, so gaps are measured on training images: partition "
            "with --val 0.1"
        )

    def measure_global(self, net: Network, client: ClientRound) -> None:
        gap = torch.zeros((), device=client.theta.device)
        if "fedga_loss" in client.memory:
            loss = probes.mean_loss(net, client, self.part(client))
            gap = loss - client.memory["fedga_loss"]
        client.report["gap"] = gap
        if self.rule == "original":
            count = torch.tensor(client.validation_images, device=client.theta.device)
            client.report["validation_images"] = count

    def measure_local(self, net: Network, client: ClientRound) -> None:
        client.memory["fedga_loss"] = probes.mean_loss(
            net,
            client,
            self.part(client),
        )

    def part(self, client: ClientRound) -> Shard:
        """The images a client measures its gap on."""
        if self.rule == "original" and client.val and client.validation_images:
            return client.val
        return client.shard

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        k = len(updates.rows)
        rows = updates.rows
        original = self.rule == "original"
        w = by_row(memory, "weights", updates, 1 / k)  # [N]
        gap = updates["gap"].double()  # [K]
        if not original:
            gap = gap - gap.mean()
        largest = gap.abs().max()
        if largest > 1e-12:
            start = 0.2 if original else 0.05
            remaining = updates.rounds - updates.round + 1
            d = self.step * start * remaining / updates.rounds
            change = d / k * gap / largest
            w[rows] += change
            w = normalised(w.clamp(0, 1)) if original else (w / w.sum()).clamp_min(0)
        memory["weights"] = w
        weights = w[rows] / w.sum()
        return average(updates.theta, weights), weights


register(
    "fedga",
    Plain(),
    Gap(),
    label="FedGA",
    about="gives more weight to hospitals that lose most when the models are averaged",
    families="hospital",
)
