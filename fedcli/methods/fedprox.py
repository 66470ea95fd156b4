"""FedProx: local training with a proximal term that keeps it near the global model.

Source: Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, MLSys 2020, arXiv 1812.06127, Eq. 2 and
Algorithm 2. How we differ, and why:
- the term's gradient mu (w - w_t) is added to the gradient: the same numbers as Eq. 2's square,
  without a graph.
- the term is on trainable tensors only; batch-norm statistics follow the data.
- the benchmark behind FedHEAL's tables multiplies mu by a further 0.01: its mu of 0.01 is mu=0.0001
  here.
- the recorded training loss is the cross-entropy alone, so that it compares between methods.
The paper tunes mu in {0.001, 0.01, 0.1, 0.5, 1} and names no best for all; 0.01 is in the middle.
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class Prox(Local):
    """Cross-entropy plus mu/2 ||w - w_t||^2."""

    cost = {"step": 1}
    images_in_loss_alone = True

    mu: Annotated[float, "proximal coefficient, >= 0; 0 is FedAvg"] = 0.01

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.scratch["mu"] = self.mu  # FedNova counts it

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        loss = super().gradient(net, batch, client)
        layout = client.layout
        moved = layout.params - client.received
        layout.grad.add_(moved, alpha=self.mu)  # Eq. 2
        return loss


register(
    "fedprox",
    Prox(),
    Mean(),
    label="FedProx",
    about="keeps each hospital's model near the shared one by a penalty",
    families="drift",
)
