"""MOON: features stay near the global model's and away from the client's own last model's.

Source: Li, He and Song, CVPR 2021, arXiv 2103.16257, Eqs. 3-4 and Algorithm 1.
How we differ, and why:
- features are those before the classifier; the paper puts a two-layer projection head under it,
  which makes the network another one than that of the other methods in a table. projection=256 has
  it, as the paper and Fed-MAS's code.
- the global and the last local model see the same augmented batch, in eval mode and without
  gradient. Codes run them in training mode, which changes the batch-norm statistics they are
  compared with.
- in a client's first round there is no last model and no term; the benchmark behind FedHEAL's
  tables uses a random network instead.
- one network plays all three parts in turn, which costs copies of [P] but no memory.
The paper tunes mu per dataset: 5 for CIFAR-10, 1 for Tiny-ImageNet. The default is 1: on HAM10000
with the small network 5 holds features near a model that has learned nothing yet (AUC 57 after five
rounds, 70 with 1).
"""

from dataclasses import dataclass
from typing import Annotated

import torch.nn.functional as F
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .helpers import features_of
from .mixins import LinearHeadOnly
from .registry import register


class ProjectedBackbone(nn.Module):
    """A backbone whose features pass through a two-layer head: [B, D] -> [B, width]."""

    def __init__(self, body: nn.Module, features: int, width: int):
        super().__init__()
        self.body = body
        inner = nn.Linear(features, features)
        outer = nn.Linear(features, width)
        self.projection = nn.Sequential(
            inner,
            nn.ReLU(),
            outer,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(self.body(x))


@dataclass(frozen=True)
class Contrast(LinearHeadOnly, Local):
    """Cross-entropy plus mu times the model-contrastive loss."""

    cost = {"step": 1, "look": 2}

    mu: Annotated[float, "strength of the contrast, >= 0; 0 is FedAvg"] = 1.0
    temperature: Annotated[float, "of the contrast, > 0"] = 0.5
    projection: Annotated[
        int, "width of a two-layer projection head under the classifier, >= 0; 0 has none"
    ] = 0

    works_without_server = False
    trains_backbone = True

    def extend(self, net: Network) -> None:
        if self.projection:
            width = net.head.in_features  # D
            classes = net.head.out_features  # C
            net.backbone = ProjectedBackbone(
                net.backbone,
                width,
                self.projection,
            )
            net.head = nn.Linear(self.projection, classes)

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        # [P] with the client's own statistics under --bn local
        client.scratch["global"] = client.layout.read()

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        if "previous" not in client.memory:
            return super().loss(net, batch, client)
        models = client.scratch["global"], client.memory["previous"]
        z_global, z_previous = features_of(net, batch.x, client, *models)
        z = net.features(batch.x)  # [B, D]
        to_global = F.cosine_similarity(z, z_global)
        to_previous = F.cosine_similarity(z, z_previous)
        nearer = to_global - to_previous  # [B]
        losses = F.softplus(-nearer / self.temperature)  # Eq. 3, one exponential divided out
        supervised = cross_entropy(net.head(z), batch.y, client)
        return supervised + self.mu * losses.mean()  # Eq. 4

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.memory["previous"] = client.layout.read()  # [P]


register(
    "moon",
    Contrast(),
    Mean(),
    label="MOON",
    about="keeps features near the shared model's and away from the hospital's last ones",
    families="drift",
)
