"""Ditto: a personal model beside the global one, held near it.

Source: Li, Hu, Beirami and Smith, ICML 2021, arXiv 2012.04221, Eq. 1 and Algorithm 1.
The global track is FedAvg to the last bit, dropout included; only the clients' own models differ.
- the personal model v_i takes one step for each global step, on the same minibatch and with the same
  dropout; its anchor is the broadcast model, and it starts from the first one that a client gets.
- its steps come from a fresh `solver` at the run's learning rate. A method does not see the run's
  optimizer, and the paper's plain SGD hardly moves at the learning rates of Adam. solver=sgd is the paper.
- weight decay acts on the global track alone: the anchor is what holds v_i.
- the paper's scripts use strength 1, its text also picks among {0.1, 1, 2} on validation data.
Three models come out: the global one, each client's own (memory "model"), and the mean of those,
weighted by image count, which is the model of FedHEAL's Table 3. The mean is never sent to anybody.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from torch import Tensor, nn

from .fedavg import Mean
from .method import Local, Visit, register

if TYPE_CHECKING:
    from ..data.load import Batch

SOLVERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True)
class TwoTracks(Local):
    """Plain steps of the global track, each after a proximal step of the personal one."""

    strength: Annotated[float, "pull of the personal model to the global one (lambda), >= 0; 0 is local training"] = 1.0
    solver: Annotated[Literal["adam", "sgd"], "optimizer of the personal model"] = "adam"

    alone = False
    eager = "the personal step has an optimizer and a random stream of its own"

    passes = {"step": 2}

    def begin(self, net: nn.Module, visit: Visit) -> None:
        model = visit.memory["model"].clone() if "model" in visit.memory else visit.layout.read()  # [P] v_i
        moving = nn.Parameter(model[: visit.layout.trainable])  # a view of it
        solver = SOLVERS[self.solver]([moving], lr=visit.lr, fused=True)
        visit.scratch.update(model=model, moving=moving, solver=solver)

    def gradient(self, net: nn.Module, batch: "Batch", visit: Visit) -> Tensor:
        live = visit.layout.read()
        with torch.random.fork_rng([live.device] if live.is_cuda else []):
            self.personal_step(net, batch, visit)
        visit.layout.load(live)
        visit.layout.zero_grad()
        return super().gradient(net, batch, visit)

    def personal_step(self, net: nn.Module, batch: "Batch", visit: Visit) -> None:
        layout, model, moving = visit.layout, visit.scratch["model"], visit.scratch["moving"]
        layout.load(model)
        super().gradient(net, batch, visit)
        anchor = visit.theta[: layout.trainable]
        moving.grad = layout.grad + self.strength * (layout.moving - anchor)  # Eq. 1
        model[layout.trainable :] = layout.buffers  # statistics of its own
        visit.scratch["solver"].step()

    def end(self, net: nn.Module, visit: Visit) -> None:
        visit.memory["model"] = visit.scratch["model"]


register(
    "ditto", TwoTracks(), Mean(), label="Ditto", about="FedAvg, and beside it a personal model held near the global one"
)
