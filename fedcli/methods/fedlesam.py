"""FedLESAM: sharpness-aware steps whose perturbation is where the global model came from, at the
cost of plain ones.

Source: Fan, Hu, Yao, Niu, Zhang, Sugiyama and Wang, "Locally estimated global perturbations are
better than local perturbations for federated sharpness-aware minimization", ICML 2024, arXiv
2405.18890, Algorithm 1.

    delta = rho (w_old - w) / ||w_old - w||      w: the global model received now; w_old: the one
                                                 received when the client last took part
    every local step: the gradient at the local model + delta

A client has no w_old in its first round, and trains plainly. rho = 0 is FedAvg.
How we differ, and why:
- the authors' code (MediaBrain-SJTU/FedLESAM) takes the server's last update in place of the
  client's w_old, and divides by the sum of the layers' norms, so its perturbation is shorter than
  rho. Where every client takes part the first makes no difference. The numbers of the paper's lines
  are not checked.
- where the two models are equal there is no direction, and the step is plain.
- rho = 0.05 is ours, that of FedSAM here; the paper tunes it by task.
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class AwayFromTheGlobalPath(Local):
    """The gradient is that at a point a step back along the global model's way."""

    cost = {"step": 1}

    rho: Annotated[float, "perturbation radius, in units of theta, >= 0; 0 is FedAvg"] = 0.05

    works_without_server = False

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        w = client.received.clone()  # [T]
        difference = client.memory.get("global", w) - w  # w_old - w
        # Alg. 1, the perturbation
        length = difference.norm() + 1e-12
        client.scratch["delta"] = self.rho * difference / length

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        params = client.layout.params
        local = params.clone()  # [T]
        params.add_(client.scratch["delta"])
        loss = super().gradient(net, batch, client)
        params.copy_(local)
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.memory["global"] = client.received.clone()  # [T] the next w_old


register(
    "fedlesam",
    AwayFromTheGlobalPath(),
    Mean(),
    label="FedLESAM",
    about="robust steps along the shared model's last move, without a second gradient",
    families="drift",
)
