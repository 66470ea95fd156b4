"""FedDyn: each client's penalty follows its own drift, so that local optima meet at the global one.

Source: Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama, ICLR 2021, arXiv 2111.04263,
Algorithm 1, in the form of the authors' code (alpemreacar/FedDyn): with l_i the sum of a client's
own moves, h_i = -alpha l_i, the penalty alpha/2 ||w - (w_t - l_i)||^2 is FedProx's with a moving
anchor, and -h / alpha is the mean l of all moves. It needs no division by alpha.
How we differ, and why:
- models are averaged by image count, as in any base here. weights=uniform is the paper's mean, in
  which all clients count the same. Under an add-on the weights are the add-on's.
- control=weighted (default): l sums the moves with the weights that made the global model, so that
  the rule's own objective is what it settles at. control=uniform is the paper's l: its fixed point
  is the objective in which all clients count the same, whatever weights the models get.
- the penalty alpha is the same for all; the authors' code divides it by n_i over the mean of n.
- gradients, penalty included, are cut at norm `clip`, as in the authors' code (10).
- l corrects trainable tensors only. It is added after the server rule, never masked or projected.
  It makes up for what a mean of the models lacks: beside a server optimizer (feddyn+fedadam) it
  does not, and a run warns of that.
- the model that is sent out is the one scored; the authors also plot a mean of local models.
- rule=released is the benchmark behind FedHEAL's tables, which builds the penalty from the global
  net's tensors and leaves l out: its gradient is zero, and the method is FedAvg bit for bit.
As alpha goes to 0 local training becomes FedAvg's; the server still adds l, so the method does not.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors
from .fedavg import WeightedMean
from .helpers import average, cut_to_norm
from .registry import register


@dataclass(frozen=True)
class Drifting(Local):
    """Cross-entropy - <h_i, w> + alpha/2 ||w - w_t||^2."""

    alpha: Annotated[float, "strength of the penalty, >= 0"] = 0.01
    clip: Annotated[float, "largest norm of a step's gradient, > 0"] = 10.0
    control: Annotated[
        Literal["weighted", "uniform"], "how clients count in h: as in the model, or all the same"
    ] = "weighted"

    works_without_server = False
    adds_to_mean = True

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        start = client.received  # [T]
        moved = client.memory.get("moved", torch.zeros_like(start))  # l_i
        client.scratch["anchor"] = start - moved  # w_t - l_i

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = super().gradient(net, batch, client)
        self.penalise(client)
        return loss

    def penalise(self, client: ClientRound) -> None:
        """Add the penalty's gradient to that of the loss, and cut their sum at `clip`."""
        grad = client.layout.grad
        from_anchor = client.layout.params - client.scratch["anchor"]
        grad.add_(from_anchor, alpha=self.alpha)
        cut_to_norm(grad, self.clip)

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        start = client.received
        client.report["moved"] = client.layout.params - start  # [T]
        client.memory["moved"] = client.layout.params - client.scratch["anchor"]  # l_i + this move

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        present = len(weights) / updates.roster
        mean_move = average(updates["moved"], self.counted(weights))
        moved = mean_move * present  # [T]
        if "moved" in shared:
            moved = shared["moved"] + moved
        shared["moved"] = moved  # l, which is -h / alpha of Alg. 1
        t = len(moved)
        moved_theta = theta[:t] + moved
        return torch.cat([moved_theta, theta[t:]])  # Alg. 1, theta

    def counted(self, weights: Tensor) -> Tensor:
        """[K] how clients count in the server's state, from their weights in the model [K]."""
        if self.control == "uniform":
            return torch.full_like(weights, 1 / len(weights))
        return weights


@dataclass(frozen=True)
class Dynamic(Drifting):
    """FedDyn, or a benchmark's reading of it."""

    cost = {"step": 1}

    rule: Annotated[
        Literal["original", "released"],
        "the paper, or a benchmark's code, which is FedAvg and takes no account of alpha, clip and "
        "control",
    ] = "original"

    images_in_loss_alone = True

    @property
    def adds_to_mean(self) -> bool:  # type: ignore[override]
        return self.rule == "original"

    def penalise(self, client: ClientRound) -> None:
        if self.rule == "original":
            super().penalise(client)

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        if self.rule == "released":
            return theta
        return super().post_aggregate(theta, updates, weights, shared)


register(
    "feddyn",
    Dynamic(),
    WeightedMean(),
    label="FedDyn",
    about="corrects each hospital's loss so that all of them work towards the same model",
    families="drift",
)
