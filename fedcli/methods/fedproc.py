"""FedProc: features learn to separate the shared class means, then the classifier is trained.

Source: Mu, Shen, Cheng, Geng, Fu, Zhang and Zhang, Future Generation Computer Systems 2023, arXiv
2109.12273. The loss is a_t contrast + (1 - a_t) cross-entropy, a_t = 1 - t/(T-1) with t from 0; the
contrast is a softmax over the cosines of a feature with every prototype, without temperature. How
we differ, and why:
- prototypes are FedProto's here: class means of the trained local model on one fixed view, averaged
  by images of the class, the last one kept where no client has a class. The paper's projection
  network is left out, as the network is that of the other methods in a table.
- while there are no prototypes (the first round) the loss is cross-entropy.
- images of a class without a prototype take no part in the contrast's mean.
- rule=released is the benchmark behind FedHEAL's tables: the means of all clients count the same,
  and the first round, which has a_t = 1 and no prototypes, learns nothing.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .contract import Batch, ClientRound, Network, cross_entropy
from .fedavg import Mean
from .fedproto import Prototypes
from .registry import register


@dataclass(frozen=True)
class ContrastFirst(Prototypes):
    """From contrast with prototypes to cross-entropy, in a straight line over the run."""

    cost = {"step": 1, "forward": 1}

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        share = 1 - (client.round - 1) / max(client.rounds - 1, 1)  # a_t
        # tensors, so that a recorded step serves every round; full() does not wait for a GPU
        device = client.theta.device
        client.scratch["contrast"] = torch.full((), share, device=device)
        client.scratch["supervised"] = torch.full((), 1 - share, device=device)

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        if "prototypes" not in client.shared:
            loss = super().loss(net, batch, client)
            return client.scratch["supervised"] * loss if self.rule == "released" else loss
        z = net.features(batch.x)  # [B, D]
        met = client.shared["prototype_known"]  # [C]
        prototypes = F.normalize(client.shared["prototypes"])
        cosines = F.normalize(z) @ prototypes.T  # [B, C]
        cosines = cosines.masked_fill(~met, float("-inf"))
        has_prototype = met[batch.y]  # [B]
        target = batch.y.where(has_prototype, -100)  # which cross-entropy ignores
        total = F.cross_entropy(cosines, target, reduction="sum")
        contrast = total / has_prototype.sum().clamp_min(1)
        supervised = cross_entropy(net.head(z), batch.y, client)
        return client.scratch["contrast"] * contrast + client.scratch["supervised"] * supervised


register(
    "fedproc",
    ContrastFirst(),
    Mean(),
    label="FedProc",
    about="trains features to separate the shared class means, then the classifier",
    families="drift",
)
