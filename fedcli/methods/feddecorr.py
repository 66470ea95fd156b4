"""FedDecorr: a penalty on correlations between features, which keeps local training from using few
of them.

Source: Shi, Liang, Zhang, Tan and Bai, "Towards understanding and mitigating dimensional collapse
in heterogeneous federated learning", ICLR 2023, arXiv 2210.00226, section 4 (its loss L_FedDecorr).

    paper       loss + beta (1 / d^2) ||K||_F^2
    released    loss + beta (B - 1)^2 / B times the mean square of K outside its diagonal

with K [d, d] the correlations of the d features over the batch of B. The authors' code divides x^T
x by B once where its square needs B^2, so its penalty is about B times the paper's. Their beta =
0.1 was chosen with it, so rule=released is the default; the diagonal is 1 and has no gradient.
Checked against that code; the paper's section was not at hand.
beta = 0 is FedAvg. A feature that is the same for the whole batch has correlation 0 with all; in a
batch of one image all do. How we differ: the recorded training loss has no penalty, so that it
compares between methods.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .registry import register

SMALLEST_VARIANCE = 1e-8


@dataclass(frozen=True)
class Decorrelated(Local):
    """Cross-entropy and a penalty on correlated features."""

    cost = {"step": 1}
    trains_backbone = True

    beta: Annotated[float, "strength of the penalty, >= 0; 0 is FedAvg"] = 0.1
    rule: Annotated[
        Literal["released", "paper"], "the penalty of the authors' code, or the text's"
    ] = "released"

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        features = net.features(batch.x)  # [B, d]
        loss = cross_entropy(net.head(features), batch.y, client)
        penalty = released if self.rule == "released" else correlation
        flat_features = features.flatten(1)
        total = loss + self.beta * penalty(flat_features)
        total.backward()
        return loss.detach()


def correlation(features: Tensor) -> Tensor:
    """Mean square of the correlations of features [B, d], a scalar."""
    z = standardised(features, len(features))
    k = z.T @ z / len(z)  # [d, d]
    return k.square().mean()  # (1 / d^2) ||K||_F^2


def released(features: Tensor) -> Tensor:
    """The authors' penalty on features [B, d], a scalar; 0 for one image or one feature."""
    images, width = features.shape
    if min(images, width) < 2:
        return features.sum() * 0
    z = standardised(features, images - 1)
    products = z.T @ z  # [d, d], B - 1 times the correlations
    on_diagonal = products.diagonal().square().sum()
    outside = products.square().sum() - on_diagonal
    pairs = width * (width - 1)
    return outside / pairs / images


def standardised(features: Tensor, degrees: int) -> Tensor:
    """Features [B, d] with mean 0 and variance 1, which is their sum of squares over degrees."""
    centred = features - features.mean(0)
    variance = centred.square().sum(0) / degrees
    return centred / (variance + SMALLEST_VARIANCE).sqrt()


register(
    "feddecorr",
    Decorrelated(),
    Mean(),
    label="FedDecorr",
    about="keeps features from becoming redundant where hospitals have different classes",
    families="drift",
)
