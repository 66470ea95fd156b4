"""LDAM-DRW: margins that are wider for rare classes, and late in training weights that favour them.

Source: Cao, Wei, Gaidon, Arechiga and Ma, "Learning imbalanced datasets with
label-distribution-aware margin loss", NeurIPS 2019, arXiv 1906.07413, section 3 and Algorithm 1; as
a local loss in Fed-MAS (arXiv 2307.14959). With n_k the client's images of class k:

    logits   z_k = s cos(feature, w_k): a cosine classifier without bias, s = 30
    margin   z_y - s m_y for the true class,  m_k = 0.5 n_k^(-1/4) / max_j n_j^(-1/4)
    weights  1 for the first int(0.8 T) rounds, then in proportion to (1 - beta) / (1 - beta^n_k),
             with a sum of the number of classes present

The loss is the weighted cross-entropy divided by the sum of the batch's weights. A class the client
has no image of has margin and weight 0. How we differ:
- the network scores s cos, not the bare cosine, so that its probabilities at test have the scale it
  was trained with; the ranking of classes is the same.
- the code switches in epochs, by epoch // int(0.8 T) from epoch 0, and divides by 0 for one; here
  it is in rounds, and a lone round is weighted.
- a weight vector of the classifier starts with length 1 in a random direction.
- counts are the client's own. The classifier is another one than that of the other methods of a
  table, so a rule that works on a linear head refuses this method.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .helpers import late_start
from .losses import effective_weights
from .registry import register


class CosineHead(nn.Linear):
    """scale times the cosine between a feature and each class's weight vector."""

    def __init__(self, width: int, classes: int, scale: float):
        super().__init__(width, classes, bias=False)
        self.scale = scale

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.weight.copy_(F.normalize(torch.randn_like(self.weight)))

    def forward(self, z: Tensor) -> Tensor:
        weights = F.normalize(self.weight)
        cosines = F.linear(F.normalize(z), weights)
        return self.scale * cosines  # [B, C]; a zero feature scores 0


@dataclass(frozen=True)
class Margins(Local):
    """Cross-entropy with a margin on the true class, re-weighted by class in the last rounds."""

    cost = {"step": 1}

    max_margin: Annotated[
        float, "margin of the client's rarest class, as a difference of cosines, >= 0"
    ] = 0.5
    scale: Annotated[float, "of the cosines (s), > 0"] = 30.0
    beta: Annotated[
        float,
        "of the effective numbers behind the weights, in [0, 1); 0 gives all classes the same "
        "weight",
    ] = 0.9999
    start: Annotated[
        float, "share of the rounds before classes are weighted, in [0, 1]; 1 is never"
    ] = 0.8

    own_prior = True
    own_loss = True
    head = "cosine"

    needs_one_label = "its margin is for an image's one class"

    def warning(self, net: Network, rounds: int) -> str:
        start = self.plain_rounds(rounds) + 1
        if not 1 < start <= rounds:
            return ""
        return late_start(start, rounds, "classes are weighted")

    def extend(self, net: Network) -> None:
        net.head = CosineHead(
            net.head.in_features,
            net.head.out_features,
            self.scale,
        )

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts
        late = client.round > self.plain_rounds(client.rounds)  # Alg. 1, the deferred weights
        client.scratch["margin"] = margins(counts, self.max_margin)  # [C]
        client.scratch["weight"] = effective_weights(counts, self.beta if late else 0.0)  # [C]

    def plain_rounds(self, rounds: int) -> int:
        """The number of rounds before classes are weighted."""
        return int(Fraction(str(self.start)) * rounds)  # exact: 0.29 * 100 is below 29 in float64

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        logits = net(batch.x)  # [B, C]
        labels = batch.y[:, None]
        true = torch.zeros_like(logits).scatter_(1, labels, 1)  # [B, C]
        margin = self.scale * client.scratch["margin"] * true
        lowered = logits - margin  # section 3, the margin
        # torch divides by the sum of the weights
        return F.cross_entropy(
            lowered,
            batch.y,
            weight=client.scratch["weight"],
        )


def margins(counts: Tensor, largest: float) -> Tensor:
    """float32 [C] from class counts [C]: `largest` for the rarest class, 0 for an absent one."""
    n = counts.double()
    powers = n.pow(-0.25)
    raw = powers.masked_fill(n == 0, 0.0)
    return (largest * raw / raw.max()).float()


register(
    "ldam",
    Margins(),
    Mean(),
    label="LDAM-DRW",
    about="demands wider margins of rare classes, and gives them more weight late in training",
    families="rare",
    aliases=("ldam-drw", "ldam-fl"),
)
