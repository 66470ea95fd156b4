"""Ditto: a personal model beside the global one, held near it.

Source: Li, Hu, Beirami and Smith, ICML 2021, arXiv 2012.04221, Eq. 1 and Algorithm 1.
The global track is FedAvg to the last bit, dropout included; only the clients' own models differ.
- the personal model v_i takes one step for each global step, on the same minibatch and with the
  same dropout; its anchor is the broadcast model, and it starts from the first one that a client
  gets.
- its steps come from a fresh `solver` at the run's learning rate. A method does not see the run's
  optimizer, and the paper's plain SGD hardly moves at the learning rates of Adam. solver=sgd is the
  paper.
- weight decay and clip and keep of --optimizer act on the global track alone: the anchor is what
  holds v_i, and its solver starts afresh in each round.
- the paper's scripts use strength 1, its text also picks among {0.1, 1, 2} on validation data.
Three models come out: the global one, each client's own (memory "model"), and the mean of those,
weighted by image count, which is the model of FedHEAL's Table 3. The mean is never sent to anybody.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .registry import register
from .solvers import Solver


@dataclass(frozen=True)
class BesideTheGlobal(Local):
    """A personal step before each plain step, of which the plain one notices nothing."""

    works_without_server = False

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        live = client.layout.read()
        with torch.random.fork_rng([live.device] if live.is_cuda else []):
            self.personal_step(net, batch, client)
        client.layout.load(live)
        client.layout.zero_grad()
        return super().gradient(net, batch, client)

    def personal_step(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> None:
        """On the minibatch of the plain step; net holds the local model, and may be left with any
        other.
        """
        raise TypeError(f"{type(self).__name__} has no personal_step()")


@dataclass(frozen=True)
class TwoTracks(BesideTheGlobal):
    """Plain steps of the global track, each after a proximal step of the personal one."""

    cost = {"step": 2}
    one_rate = True
    not_recorded = "the personal step has an optimizer and a random stream of its own"

    strength: Annotated[
        float, "proximal coefficient of the personal model (lambda), >= 0; 0 is local training"
    ] = 1.0
    solver: Annotated[Literal["adam", "sgd"], "optimizer of the personal model"] = "adam"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        model = client.layout.read()  # [P] v_i
        if "model" in client.memory:
            model = client.memory["model"].clone()
        moving = nn.Parameter(model[: client.layout.trainable])  # a view of it
        solver = Solver(self.solver, [moving], client.lr)
        client.scratch.update(model=model, moving=moving, solver=solver)

    def personal_step(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> None:
        layout = client.layout
        model = client.scratch["model"]
        moving = client.scratch["moving"]
        layout.load(model)
        Local.gradient(self, net, batch, client)
        anchor = client.received
        from_anchor = layout.params - anchor
        moving.grad = layout.grad + self.strength * from_anchor  # Eq. 1
        model[layout.trainable :] = layout.buffers  # statistics of its own
        client.scratch["solver"].step()

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.memory["model"] = client.scratch["model"]


register(
    "ditto",
    TwoTracks(),
    Mean(),
    label="Ditto",
    about="gives each hospital its own model, which stays close to the shared one",
    families="personal",
)
