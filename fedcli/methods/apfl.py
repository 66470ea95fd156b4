"""APFL: each client's model is a mixture of the global one and one that it trains for itself, in
proportion alpha.

Source: Deng, Kamani and Mahdavi, "Adaptive personalized federated learning", 2020, arXiv
2003.13461, Algorithm 1. With w the client's copy of the global model, v its own and m = alpha v +
(1 - alpha) w the mixture, on each minibatch

    w <- w - eta grad F(w)                       FedAvg to the last bit, dropout included
    v <- v - eta alpha grad F(m)                 the gradient with respect to v
    alpha <- alpha - eta <v - w, grad F(m)>      with adaptive=true, at a round's first step

alpha is cut to [0, 1]. w is averaged; v and alpha stay with the client, and m is the model that is
scored as its own. alpha = 0 is FedAvg with clients' models after their own training. How we differ,
and why:
- the step on v has an optimizer of its own (solver, at the run's learning rate), as Ditto has;
  solver=sgd is the paper. Weight decay and --optimizer clip are those of w alone.
- the authors' code (MLOPTPSU/FedTorch) mixes outputs of the two networks and not their weights,
  which costs another pass, and adds 0.02 alpha to alpha's gradient; the formulas above are the
  paper's as others cite them. That alpha moves once in a round is the code's.
- batch-norm statistics of the mixture are those of its own passes.
The paper's text was not at hand; the number of the algorithm is not checked.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import nn

from .contract import Batch, ClientRound, Local, Network
from .ditto import BesideTheGlobal
from .fedavg import Mean
from .registry import register
from .solvers import Solver


@dataclass(frozen=True)
class Mixed(BesideTheGlobal):
    """Plain steps of the global track, each after a step of the client's part of the mixture."""

    cost = {"step": 2}
    one_rate = True
    not_recorded = "the step of the client's own part has an optimizer of its own"

    alpha: Annotated[
        float, "share of the client's own part in its mixture, in [0, 1]; where adaptive starts"
    ] = 0.5
    adaptive: Annotated[bool, "move alpha of each client by its gradient, once in a round"] = False
    solver: Annotated[Literal["adam", "sgd"], "optimizer of the client's own part"] = "adam"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        memory = client.memory
        scratch = client.scratch
        v = memory.get("own_part", client.layout.params).clone()  # [T]
        buffers = client.layout.buffers
        if "model" in memory:
            buffers = memory["model"][len(v) :]
        moving = nn.Parameter(v)
        scratch["moving"] = moving
        scratch["alpha"] = memory.get("alpha", v.new_tensor(self.alpha))  # a scalar
        scratch["buffers"] = buffers.clone()
        scratch["first"] = True
        scratch["solver"] = Solver(self.solver, [moving], client.lr)

    def personal_step(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> None:
        layout = client.layout
        scratch = client.scratch
        v = scratch["moving"]
        difference = v.detach() - layout.params  # [T] v - w
        layout.params.add_(scratch["alpha"] * difference)
        layout.buffers.copy_(scratch["buffers"])
        Local.gradient(self, net, batch, client)  # of the mixture
        scratch["buffers"].copy_(layout.buffers)
        v.grad = scratch["alpha"] * layout.grad  # Alg. 1, v
        if self.adaptive and scratch["first"]:
            slope = difference @ layout.grad
            moved = scratch["alpha"] - client.lr * slope  # Alg. 1, alpha
            scratch["alpha"] = moved.clamp(0, 1)
        scratch["first"] = False
        scratch["solver"].step()

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        w = client.layout.params
        v = client.scratch["moving"].detach()
        alpha = client.scratch["alpha"]
        mixture = w + alpha * (v - w)  # [T] Alg. 1, the mixture
        model = torch.cat([mixture, client.scratch["buffers"]])
        client.memory.update(own_part=v, alpha=alpha, model=model)


register(
    "apfl",
    Mixed(),
    Mean(),
    label="APFL",
    about="gives each hospital a mixture of the shared model and its own",
    families="personal",
)
