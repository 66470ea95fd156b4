"""FedIIC: two contrasts and difficult classes' margins against imbalanced classes.

Source: Wu, Yu, Yang, Cheng and Yan, "FedIIC: towards robust federated learning for class-imbalanced
medical image classification", MICCAI 2023, arXiv 2206.13803, as its authors' code (wnn2000/FedIIC)
computes it; the paper's text was not at hand, so no equation is numbered here.

    loss = CE(logits + m) + k1 intra + k2 inter,    m_c = log(p_c / (l_c^d + 1e-5))

p_c is the client's share of class c, and l_c the mean loss of all clients' images of class c under
the broadcast model. z are projections of length 1 of an image's two views, 2B in a batch, with
classes y:

    intra    supervised contrast among them: logits z_i z_j / max(sqrt(p_yi p_yj), 0.07), over
             all j but i
    inter    cross-entropy of z against C prototypes, temperature 0.1: the projected rows of the
             received classifier, moved apart by steps of 0.1 along the sum over classes of the
             largest cosine to another class

How we differ, and why:
- the second view is the image as it is, where the code draws two augmentations: a step sees one
  draw here.
- l_c is that of the model one round before, since a client sends its sums with its model; in the
  first round it is 1, and a class of which no client of a round has an image keeps its own.
- prototypes move at their own lengths, and are brought to length 1 when they have moved: along the
  slope of cosines a short one turns farther in a step than a long one.
- moving prototypes ends when no two of them agree, where the code's steps are 0 too, and after
  `moves` steps at the latest, as in the code.
- the projector is linear, of two layers, as in the code; its width is 128 where the code has 1024
  for EfficientNet.
A class that the client has no image of has the margin -inf, which takes it out of the classifier's
training.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import probes
from .contract import Batch, ClientRound, ClientUpdates, Local, Network, Tensors, cross_entropy
from .fedavg import Mean
from .mixins import LinearHeadOnly
from .registry import register

COOLEST = 0.07  # smallest temperature of the contrast within a client
TEMPERATURE = 0.1  # of the contrast to prototypes
STEP = 0.1  # of the prototypes' way apart


@dataclass(frozen=True)
class TwoContrasts(LinearHeadOnly, Local):
    """Cross-entropy with margins by class share and difficulty, and two supervised contrasts."""

    cost = {"step": 2, "forward": 1}
    not_recorded = (
        "a step looks at the client's images a second time, by rows that are not recorded"
    )
    own_prior = True
    trains_backbone = True
    works_without_server = False
    needs_one_label = "it contrasts images of one class with images of others"

    k1: Annotated[float, "strength of the contrast within the client, >= 0"] = 2.0
    k2: Annotated[float, "strength of the contrast to the classes' prototypes, >= 0"] = 2.0
    d: Annotated[
        float, "how much a class's loss widens its margin, >= 0; 0: by its share alone"
    ] = 0.25
    width: Annotated[int, "of the projected features, >= 1"] = 128
    moves: Annotated[int, "largest number of steps that move prototypes apart, >= 0"] = 1000

    def extend(self, net: Network) -> None:
        features = net.head.in_features  # D
        inner = nn.Linear(features, features)
        net.projector = nn.Sequential(inner, nn.Linear(features, self.width))

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        y = client.shard.y
        classes = client.shard.classes
        counts = client.shard.class_counts  # [C]
        client.report["class_images"] = counts.double()  # [C]
        client.report["class_losses"] = probes.group_losses(
            net,
            client,
            y,
            classes,
        )  # [C] sums
        share = counts / counts.sum()  # [C] p_c
        ones = torch.ones_like(share, dtype=torch.float64)
        difficulty = client.shared.get("class_difficulty", ones)  # [C] l_c
        powers = difficulty.to(share) ** self.d
        margins = share / (powers + 1e-5)
        with torch.no_grad():
            rows = net.projector(net.head.weight)  # [C, W]
        client.scratch["share"] = share
        client.scratch["margins"] = margins.log()
        client.scratch["prototypes"] = separated(rows, self.moves)

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        as_it_is = client.shard.batch(batch.at).x  # [B, C, H, W]
        features = net.features(torch.cat([batch.x, as_it_is]))  # [2B, D]
        first_view = features[: len(batch.y)]
        logits = net.head(first_view) + client.scratch["margins"]  # [B, C]
        z = F.normalize(net.projector(features), dim=1)  # [2B, W]
        y = batch.y.repeat(2)  # [2B]
        nearness = z @ client.scratch["prototypes"].T  # [2B, C]
        inter = F.cross_entropy(nearness / TEMPERATURE, y)
        intra = contrast(z, y, client.scratch["share"][y])
        supervised = cross_entropy(logits, batch.y, client)
        return supervised + self.k1 * intra + self.k2 * inter

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        images = updates["class_images"].sum(0)  # [C]
        losses = updates["class_losses"].sum(0)  # [C]
        # of classes that nobody has in this round
        old = shared.get("class_difficulty", torch.ones_like(losses))
        fresh = losses / (images + 1e-5)
        shared["class_difficulty"] = torch.where(images > 0, fresh, old)
        return theta


def contrast(z: Tensor, y: Tensor, share: Tensor) -> Tensor:
    """Supervised contrast of vectors of length 1 [N, W] with classes [N]; share: of each one's
    class, [N].
    """
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    temperature = share.outer(share).sqrt().clamp_min(COOLEST)  # [N, N]
    similarity = z @ z.T / temperature
    logits = similarity.masked_fill(itself, -torch.inf)
    same_class = y[:, None] == y
    friends = same_class & ~itself  # [N, N], at least the image's other view
    chances = logits.log_softmax(1).masked_fill(~friends, 0.0)
    means = chances.sum(1) / friends.sum(1)  # [N]
    return -means.mean()


def separated(rows: Tensor, steps: int) -> Tensor:
    """Vectors [C, W] of length 1, moved until no two of them agree."""
    rows = rows.detach().clone()
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    with torch.enable_grad():
        for _ in range(steps):
            rows.requires_grad_()
            unit = F.normalize(rows, dim=1)
            cosines = unit @ unit.T
            nearest = cosines.masked_fill(itself, 0.0).amax(1)  # [C]
            if not bool((nearest > 0).any()):
                break
            (slope,) = torch.autograd.grad(nearest.sum(), rows)
            rows = (rows - STEP * slope).detach()
    return F.normalize(rows.detach(), dim=1)


register(
    "fediic",
    TwoContrasts(),
    Mean(),
    label="FedIIC",
    about="separates rare classes by contrast and by margins that follow their frequency "
    "and difficulty",
    families="rare",
)
