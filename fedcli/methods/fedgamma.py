"""FedGAMMA: sharpness-aware local steps, each corrected as in SCAFFOLD.

Source: Dai, Yang, Sun, Liu, Li and Tao, "FedGAMMA: federated learning with global sharpness-aware
minimization", IEEE TNNLS 2023, doi 10.1109/TNNLS.2023.3304453: the perturbed gradient of FedSAM in
the place of SCAFFOLD's gradient.

    w~ = w + rho g / ||g||,    w <- w - lr (g~ + c - c_i)    g~: gradient at w~, same batch

c_i is the mean of the client's g~ over the round, c that of all; how they are kept, and the options
control, rule and weights, are scaffold's. rho = 0 is SCAFFOLD. How we differ, and why:
- c_i is a mean of gradients, as in scaffold here; the code has it from the distance gone, which is
  rule=released.
- the code takes the steps of the first client's image count for those of all, all clients count the
  same there (control=uniform, weights=uniform), and the corrected gradient is cut at norm 10
  (--optimizer clip=10).
- the second pass moves no batch-norm statistics.
The paper's text was not at hand. The code is that of FL-Simulator (woodenchild95/FL-Simulator).
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from .contract import Batch, ClientRound, Network
from .fedavg import WeightedMean
from .fedism import Sharp
from .registry import register
from .scaffold import Controlled


@dataclass(frozen=True)
class ControlledSharp(Controlled):
    """Steps along g~ + c - c_i."""

    cost = {"step": 2}

    rho: Annotated[float, "perturbation radius, in units of theta, >= 0; 0 is SCAFFOLD"] = 0.05

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        sharp = Sharp(alpha=0.0)
        # g~ is left in the layout
        loss = sharp.gradient_at_distance(net, batch, client, self.rho)
        client.scratch["total"] += client.layout.grad
        client.layout.grad.add_(client.scratch["correction"])  # g~ + c - c_i
        return loss


register(
    "fedgamma",
    ControlledSharp(),
    WeightedMean(),
    label="FedGAMMA",
    about="robust (sharpness-aware) steps that are corrected as in SCAFFOLD",
    families="drift",
)
