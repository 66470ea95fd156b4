"""FedRS: a softmax that restrains the classes which a client has no image of.

Source: Li and Zhan, "FedRS: federated learning with restricted softmax for label distribution non-IID data", KDD 2021,
doi 10.1145/3447548.3467254, Eqs. 6-7.

    loss = -log softmax(s * logits)_y,    s_c = 1 for a class that the client has, alpha for one that it has not

so that images of other classes push the missing classes' weights away alpha times as hard. alpha = 1 is FedAvg. 0.5 is
the paper's. The logits' biases are scaled too; the paper's classifier has none.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch
from torch import Tensor

from .contract import ClientRound, Local, cross_entropy
from .fedavg import Mean
from .registry import register

if TYPE_CHECKING:
    from ..data.shard import Batch
    from ..models.network import Network


@dataclass(frozen=True)
class Restricted(Local):
    """Cross-entropy over logits of which those of missing classes are scaled."""

    needs_one_label = "it restrains classes in one softmax"

    alpha: Annotated[float, "scale of the logits of classes that the client has not, in [0, 1]; 1 is FedAvg"] = 0.5

    def on_round_start(self, net: "Network", client: ClientRound) -> None:
        client.scratch["scale"] = torch.where(client.shard.class_counts > 0, 1.0, self.alpha)  # [C]

    def loss(self, net: "Network", batch: "Batch", client: ClientRound) -> Tensor:
        return cross_entropy(net(batch.x) * client.scratch["scale"], batch.y, client)  # Eq. 7


register("fedrs", Restricted(), Mean(), label="FedRS", about="a softmax that restrains classes the client has not")
