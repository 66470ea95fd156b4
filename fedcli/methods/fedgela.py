"""FedGELA: a classifier that is fixed for all as a simplex, and scaled by each client's own class
shares in training.

Source: Fan, Zhang, Yao, Han, Zhang and Wang, "Federated learning with bilateral curation for
partially class-disjoint data", NeurIPS 2023, arXiv 2405.18972, as its authors' code
(MediaBrain-SJTU/FedGELA) computes it. With z the features, BN a batch norm, P [D, C] random
orthonormal columns and 1 a vector of ones:

    M = sqrt(C / (C - 1)) P (I - 1 1' / C)            an equiangular tight frame: C unit vectors
                                                      with cosines -1 / (C - 1)
    client    cross-entropy of e_c M_c' BN(z) / T     e_c = C n_kc / n_k; a class without images
                                                      has the logit 0
    global    logits M' BN(z) / T                     the client's own model, scored beside it,
                                                      keeps its e_c

M never moves. Where a client has as many images of each class, e = 1, which is FedAvg under a fixed
classifier. How we differ, and why:
- the paper's text was not at hand. The code's script has T = 0.2, its README a call with 0.00001; T
  is the script's.
- the code puts two more layers before the batch norm; here it stands on the network's own features,
  of which there must be as many as classes.
- only the largest logit counts in the code's tests; ours divide by T there too, as probabilities
  are scored.
- the code cuts gradients at norm 20 (--optimizer clip=20), and keeps a client's best model by its
  test images; we keep the last. M travels with the model. Noise on updates (--dp client) moves it.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError
from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .registry import register


class SimplexHead(nn.Module):
    """Batch norm of the features, then their products with the corners of a simplex."""

    def __init__(self, width: int, classes: int, temperature: float):
        super().__init__()
        self.in_features = width
        self.out_features = classes
        self.temperature = temperature
        self.norm = nn.BatchNorm1d(width)
        self.corners = nn.Parameter(simplex(width, classes))  # [C, D]; the method holds it still

    def forward(self, z: Tensor) -> Tensor:
        products = F.linear(self.norm(z), self.corners)
        return products / self.temperature  # [B, C]


def simplex(width: int, classes: int) -> Tensor:
    """M' [C, D]: unit vectors in a random plane, each as far from all others."""
    random_matrix = torch.rand(width, classes, dtype=torch.float64)
    basis = torch.linalg.qr(random_matrix).Q  # [D, C] P
    identity = torch.eye(classes, dtype=torch.float64)
    centred = identity - 1 / classes
    scale = math.sqrt(classes / (classes - 1))
    corners = scale * basis @ centred  # [D, C]
    return corners.T.float()


@dataclass(frozen=True)
class FixedSimplex(Local):
    """Features trained under a fixed classifier, whose logits are scaled by the client's class
    shares.
    """

    cost = {"step": 1}
    own_prior = True
    head = "simplex"
    works_without_server = False
    needs_one_label = "it scales the classes of one softmax by their shares"

    temperature: Annotated[float, "by which logits are divided, > 0"] = 0.2

    def extend(self, net: Network) -> None:
        width = net.head.in_features
        classes = net.head.out_features
        if width < classes:
            problem = (
                "fedgela needs a feature for each class, "
                f"and the network has {width} for {classes} classes"
            )
            raise UsageError(problem, "take a wider network, see fedcli models")
        net.head = SimplexHead(width, classes, self.temperature)

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts  # [C]
        scaled = len(counts) * counts / counts.sum()
        client.scratch["shares"] = scaled.float()  # e

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        scaled_logits = net(batch.x) * client.scratch["shares"]
        return cross_entropy(
            scaled_logits,
            batch.y,
            client,
        )

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        span = self._hold_still(client)
        loss = super().gradient(net, batch, client)
        client.layout.grad[span].zero_()
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        span = self._hold_still(client)
        shares = client.scratch["shares"]
        model = client.layout.read()  # [P]
        corners = shares[:, None] * net.head.corners.detach()
        model[span] = corners.flatten()
        client.memory["model"] = model

    def _hold_still(self, client: ClientRound) -> slice:
        """Put the corners back, which weight decay moves; returns their span in theta."""
        span = client.layout.spans["head.corners"]
        client.layout.flat[span] = client.theta[span]
        return span


register(
    "fedgela",
    FixedSimplex(),
    Mean(),
    label="FedGELA",
    about="uses fixed class directions, scaled at each hospital by how often its classes occur",
    families="drift",
)
