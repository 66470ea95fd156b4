"""FedDecorr: a penalty on correlations between features, which keeps local training from using few of them.

Source: Shi, Liang, Zhang, Tan and Bai, "Towards understanding and mitigating dimensional collapse in heterogeneous
federated learning", ICLR 2023, arXiv 2210.00226, section 4 (its loss L_FedDecorr).

    loss + beta (1 / d^2) ||K||_F^2        K [d, d]: correlations of the d features over the batch

beta = 0.1 is the paper's; 0 is FedAvg. A feature that is the same for the whole batch has correlation 0 with all; in a
batch of one image all do. The recorded training loss has no penalty, so that it compares between methods.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from torch import Tensor

from .contract import ClientRound, Local, cross_entropy
from .fedavg import Mean
from .registry import register

if TYPE_CHECKING:
    from ..data.shard import Batch
    from ..models.network import Network

SMALLEST_VARIANCE = 1e-8


@dataclass(frozen=True)
class Decorrelated(Local):
    """Cross-entropy and a penalty on correlated features."""

    trains_backbone = True

    beta: Annotated[float, "strength of the penalty, >= 0; 0 is FedAvg"] = 0.1

    def gradient(self, net: "Network", batch: "Batch", client: ClientRound) -> Tensor:
        features = net.features(batch.x)  # [B, d]
        loss = cross_entropy(net.head(features), batch.y, client)
        (loss + self.beta * correlation(features.flatten(1))).backward()
        return loss.detach()


def correlation(features: Tensor) -> Tensor:
    """Mean square of the correlations of features [B, d], a scalar."""
    centred = features - features.mean(0)
    z = centred / (centred.square().mean(0) + SMALLEST_VARIANCE).sqrt()
    return (z.T @ z / len(z)).square().mean()  # (1 / d^2) ||K||_F^2


register("feddecorr", Decorrelated(), Mean(), label="FedDecorr", about="a penalty on correlations between features")
