"""Fed-MAS: clients learn from a frozen public network, and their distance from it gives their
weights.

Source: Elbatel, Wang, Marti, Fu and Li, "Federated model aggregation via self-supervised priors for
highly imbalanced medical image classification", 2023, arXiv 2307.14959, Eqs. 1-5 and Algorithm 1. A
projector maps the student's features to the teacher's; l = 2 - 2 cos of the two (Eq. 1). Clients
minimise the balanced softmax loss plus lambda_f times l (Eq. 4). w_k is the mean of l over a
client's images of class k under the model it received (Eq. 2), what_k the sum over epochs of that
mean while it trains (section 2.2), and the client's rescue factor, one number, is its weight in the
average (Eq. 5), however many images it has.

                      paper (default)       released (the authors' code)
    rescue factor     sum_k w_k what_k      the same, after dividing w and what by their sums
    flat divergences  K_c w what            1 / K_c, for K_c classes that the client has
    local loss        Eq. 4                 plus that of a linear layer on the projection

So the two rules treat clients with few classes in opposite ways: at equal divergence `paper` gives
them less. The teacher is the network of --teacher; the paper's is MoCo-v2's ResNet-50. Without one
it is the backbone as the run starts: supervised on ImageNet with --weights imagenet, random with no
weights at all, which is for tests. How we differ from the paper's text:
- what_k divides by images, as Eq. 2 does; Algorithm 1 adds up whatever the batches give.
- it is silent on classes that a client lacks: they add 0 here.
How we differ from the authors' code:
- the teacher is frozen. Theirs is in training mode for one pass of the first round, which moves its
  batch-norm statistics to a client's images, and only where aggregation is by rescue factor.
- w_k is measured on one fixed view of all images. Theirs draws augmentations and drops the last
  batch.
- Adam's learning rate is an option (theirs is 3e-4 whatever is asked). Gradients cut at norm 5 and
  an optimizer that a client keeps from round to round, as theirs, are --optimizer clip=5 and
  --optimizer keep, which the recipes set.
- a client sends the rescue factor and the means of its two losses over the round (the curves of
  figure 5); theirs sends w and what by class, which reveal what classes it has. by_class=true sends
  these too, for figure 2(a).
- lambda_f=0 leaves the divergence as it is; theirs then measures the supervised loss in its place.
- where training images are not augmented, and with teacher_view=clean, the teacher's features are
  computed once.
delay and by_count together are the code's mas_DRW: FedAvg for the first 0.8 of the rounds, then
weights in proportion to rescue factor times images. `kd` is the client half under FedAvg's average
(Table 2).
"""

import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Shard,
    Tensors,
    cross_entropy,
)
from .fedavg import Mean
from .helpers import average, late_start
from .mixins import LearnsFromTeacher, LinearHeadOnly
from .priors import offset
from .registry import register

# columns by class, followed by its number
RECEIVED = "w_class_"
TRAINED = "w_hat_class_"


@dataclass(frozen=True)
class Distilled(LearnsFromTeacher, LinearHeadOnly, Local):
    """Balanced softmax, with features kept near those of a frozen teacher through a projector."""

    cost = "it has a teacher"

    lambda_f: Annotated[
        float, "weight of the divergence from the teacher, >= 0; 0 trains as BSM-FL does"
    ] = 3.0
    prior: Annotated[
        Literal["bsm", "none", "fedlc", "logit-adjust"],
        "what the client's class counts add to its training logits",
    ] = "bsm"
    teacher_view: Annotated[
        Literal["same", "clean"],
        "the teacher sees the augmented image, or the one without augmentation, once",
    ] = "same"
    rule: Annotated[
        Literal["paper", "released"], "Eq. 4, or with a classifier on the projection"
    ] = "paper"

    own_prior = True

    needs_one_label = "its divergences are means over the images of one class"

    def extend(self, net: Network) -> None:
        width = net.head.in_features  # D
        classes = net.head.out_features  # C
        if net.teacher is None:
            net.teacher = copy.deepcopy(net.backbone)
            net.teacher.width = width
        net.teacher.requires_grad_(False).eval()
        inner = nn.Linear(width, width)
        outer = nn.Linear(width, net.teacher.width)
        net.projector = nn.Sequential(
            inner,
            nn.BatchNorm1d(width),
            nn.ReLU(),
            outer,
        )
        if self.rule == "released":
            net.auxiliary = nn.Linear(net.teacher.width, classes)

    def warning(self, net: Network, rounds: int) -> str:
        side = getattr(net.teacher, "trained_at", None)
        if side and net.side < side // 2:
            return f"the teacher sees images of {net.side} pixels and was trained at {side}"
        if net.start or side:
            return ""
        return (
            "the teacher is the model's own random starting weights, which is for tests: give "
            "--teacher or --weights"
        )

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts  # [C]
        client.offset = None if self.prior == "none" else offset(self.prior, counts)  # [C]
        # [C] over images and epochs
        client.scratch["divergence"] = torch.zeros_like(counts, dtype=torch.float64)
        client.scratch["draws"] = torch.zeros_like(counts, dtype=torch.float64)  # [C] images
        # L_sup and L_f, summed over steps
        client.scratch["losses"] = torch.zeros(2, device=counts.device)
        if client.shard.kind == "none" or self.teacher_view == "clean":
            client.per_image["reference"] = fixed_view(net, client.shard)  # [N, W]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        z = net.features(batch.x)  # [B, D]
        projection = net.projector(z)  # [B, W]
        distances = divergence(projection, self.reference(net, batch, client))  # [B]
        fixed = distances.detach()
        client.scratch["divergence"].index_add_(0, batch.y, fixed.double())
        client.scratch["draws"].index_add_(0, batch.y, torch.ones_like(fixed).double())
        supervised = cross_entropy(net.head(z), batch.y, client)
        batch_losses = torch.stack([supervised.detach(), fixed.mean()])
        client.scratch["losses"] += batch_losses
        if self.rule == "released":
            auxiliary_logits = net.auxiliary(projection)
            supervised = supervised + cross_entropy(auxiliary_logits, batch.y, client)
        return supervised + self.lambda_f * distances.mean()  # Eq. 4

    def reference(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        """The teacher's features of a training batch, [B, W]."""
        if "reference" in batch.per_image:
            return batch.per_image["reference"]
        return teacher_features(net, batch.x)


@dataclass(frozen=True)
class Rescue(Aggregator):
    """Average local models by their clients' rescue factors. For Distilled clients."""

    cost = "it has a teacher"
    needs = "scalars"

    rule: Annotated[
        Literal["paper", "released"], "Eqs. 3 and 4, or the factor and loss of the code"
    ] = "paper"
    delay: Annotated[float, "share of rounds that average by image count first, in [0, 1)"] = 0.0
    by_count: Annotated[bool, "multiply the rescue factor by the number of training images"] = False
    by_class: Annotated[
        bool, "also send w and what of every class, for the record; they reveal a client's classes"
    ] = False

    needs_one_label = "its weights come from divergences by class"

    def warning(self, rounds: int, validation: bool) -> str:
        if not self.delay:
            return ""
        plain_rounds = int(Fraction(str(self.delay)) * rounds)
        return late_start(plain_rounds + 1, rounds, "rescue factors weigh")

    @torch.no_grad()
    def measure_global(self, net: Network, client: ClientRound) -> None:
        net.eval()
        reference = fixed_view(net, client.shard)  # [N, W]
        total = torch.zeros_like(client.scratch["divergence"])  # [C]
        for batch in client.shard.in_order():
            projection = net.projector(net.features(batch.x))  # [B, W]
            distances = divergence(projection, reference[batch.at])  # [B]
            total.index_add_(0, batch.y, distances.double())
        client.scratch["divergence_received"] = total

    def measure_local(self, net: Network, client: ClientRound) -> None:
        n = client.shard.class_counts.clamp_min(1)  # [C]; a class without images has sums of 0
        received = client.scratch["divergence_received"] / n  # [C] w_k, Eq. 2
        draws = client.scratch["draws"]  # [C]
        epochs = draws.sum() / len(client.shard)
        # [C] in an epoch: n_k, unless classes are drawn equally often
        draws_per_epoch = torch.where(draws > 0, draws / epochs, 1)
        trained = client.scratch["divergence"] / draws_per_epoch  # [C] what_k
        client.report["rescue_factor"] = rescue_factor(
            received,
            trained,
            self.rule,
        )
        means = client.scratch["losses"] / max(client.steps, 1)
        client.report["supervised_loss"] = means[0]
        client.report["divergence_loss"] = means[1]
        if self.by_class:
            for k in range(len(n)):
                client.report[f"{RECEIVED}{k}"] = received[k]
                client.report[f"{TRAINED}{k}"] = trained[k]

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        weights = self.weights(updates)
        return average(updates.theta, weights), weights  # Eq. 5

    def weights(self, updates: ClientUpdates) -> Tensor:
        """[K] in sum 1; by image count during the delay, or where factors are all 0 or one is not
        finite.
        """
        factor = updates["rescue_factor"].double()  # [K]
        if self.by_count:
            factor = factor * updates.n
        total = factor.sum()
        delay = Fraction(str(self.delay))
        early = updates.round <= delay * updates.rounds
        if early or not 0 < total < torch.inf:
            return updates.base
        return factor / total


def divergence(projection: Tensor, reference: Tensor) -> Tensor:
    """[B, W], [B, W] -> [B] in [0, 4]. Eq. 1; rounding could leave it below 0."""
    cosine = F.cosine_similarity(projection, reference)
    return (2 - 2 * cosine).clamp_min(0)


def rescue_factor(received: Tensor, trained: Tensor, rule: str) -> Tensor:
    """The factor, a scalar, from w [C] and w-hat [C], 0 for absent classes; 0 where rule=released
    meets 0/0.
    """
    if rule == "released":
        received = shares(received)
        trained = shares(trained)
    return received @ trained  # Eq. 3


def shares(values: Tensor) -> Tensor:
    """Values [C] >= 0 divided by their sum; 0 where all are."""
    tiny = torch.finfo(values.dtype).tiny
    return values / values.sum().clamp_min(tiny)


@torch.no_grad()
def teacher_features(net: Network, x: Tensor) -> Tensor:
    """The teacher's features: float32 [B, W]."""
    with torch.autocast(x.device.type, torch.bfloat16, enabled=net.bf16):
        return net.teacher(x).float()


def fixed_view(net: Network, shard: Shard) -> Tensor:
    """The teacher's features of a shard without augmentation, computed once: float32 [N, W]."""
    teacher, features = shard.derived.get("teacher", (None, None))
    if teacher is not net.teacher:
        batches = [teacher_features(net, batch.x) for batch in shard.in_order()]
        features = torch.cat(batches)
        shard.derived["teacher"] = net.teacher, features
    return features


register(
    "fed-mas",
    Distilled(),
    Rescue(),
    label="Fed-MAS",
    about="learns rare classes with help of a pretrained network, and weighs hospitals by "
    "how far they are from it",
    families="rare hospital",
)
register(
    "kd",
    Distilled(),
    Mean(),
    label="BSM-FL w/ KD",
    about="the local half of Fed-MAS: learns rare classes with help of a pretrained network",
    families="rare",
)
