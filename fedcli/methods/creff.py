"""CReFF: the server re-trains the classifier on features that it makes up to fit the clients'
gradients.

Source: Shang, Lu, Huang and Wang, "Federated learning on heterogeneous and long-tailed data via
classifier re-training with federated features", IJCAI 2022, arXiv 2204.13399.
Each round a client sends, for each of its classes, the mean gradient of cross-entropy with respect
to the re-trained classifier of the round before. The server averages them by class over the clients
that have it, moves 100 features of each class so that their gradient points the same way, and
trains a fresh classifier on those. That classifier on the averaged backbone is the model that is
scored and kept; the averaged classifier is the one that travels and trains on, so the models that
travel are FedAvg's to the last bit.
How we differ from the authors' code, and why:
- a client's gradient is exact, over all its images of the class on the fixed view. The code
  averages ten draws of at most 32 augmented images, which is this with noise.
- in the first round the gradients are those of the received classifier; the code draws a random
  one.
- gradients of a linear softmax classifier are written out: mean of (p - y) f. Nothing else changes
  by that.
- a class without gradients this round leaves its features as they are, as in the code. A class that
  no client has had so far has no part in the classifier's training either: its features are noise.
- the code adds 1e-6 to the product of lengths under a cosine, which stops rows of small gradients;
  we do not.
A client sends C C (D + 1) numbers more, and they reveal which classes it has. Column
`creff_mismatch` of the server is the mean of 1 - cos after matching. With C = 23 and D = 512 a
round costs the server 1.5 s on one core.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FedcliError
from ..seeds import derive
from .contract import Aggregated, Aggregator, ClientRound, ClientUpdates, Layout, Network, Tensors
from .fedavg import Plain
from .helpers import average, entries
from .mixins import LinearHeadOnly, ScoredModel
from .registry import register

# of the gradients of a classifier's weight [C, C, D] and bias [C, C], by class
Directions = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class FederatedFeatures(LinearHeadOnly, ScoredModel, Aggregator):
    """Average the models; then match features to class gradients and train a classifier on them for
    scoring.
    """

    cost = {"forward": 1}
    needs = "sums"

    features: Annotated[int, "made-up features per class, in [1, 10000]"] = 100
    steps: Annotated[int, "of gradient matching per round, >= 0; 0 leaves the features random"] = (
        100
    )
    feature_lr: Annotated[float, "learning rate of the features, in (0, 1000]"] = 0.1
    epochs: Annotated[int, "of training the classifier per round, >= 1"] = 300
    head_lr: Annotated[float, "learning rate of the classifier, in (0, 1000]"] = 0.01
    batch: Annotated[int, "features per step of the classifier, in [1, 1000000]"] = 32

    needs_one_label = "its synthetic features are each of one class"

    @torch.no_grad()
    def measure_global(self, net: Network, client: ClientRound) -> None:
        net.eval()
        received = client.theta[head_index(client.layout)]
        head = client.shared.get("creff_head", received)  # [C, D+1]
        features = [net.features(batch.x) for batch in client.shard.in_order()]
        f = torch.cat(features)  # [N, D]
        client.report["creff_gradient"] = class_gradients(
            f,
            client.shard.y,
            head,
        )  # [C, C, D+1]
        client.report["creff_has"] = client.shard.class_counts > 0  # [C]

    def broadcast(self, memory: Tensors) -> Tensors:
        return entries(memory, "creff_head")

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        index = head_index(updates.layout)  # [C, D+1]
        head = memory.get("creff_head", theta[index])  # the one that the clients' gradients are of
        has = updates["creff_has"]  # [K, C]
        sent = updates["creff_gradient"]  # [K, C, C, D+1]
        total = (sent * has[:, :, None, None]).sum(0)  # [C, C, D+1]
        counts = has.sum(0).clamp_min(1)
        mean = total / counts[:, None, None]  # [C, C, D+1]
        target = directions(mean)
        if "creff_features" in memory:
            start = memory["creff_features"]
        else:
            start = self.noise(head, updates.seed)
        features = self.matched(start, head, target)  # [C, M, D]
        present = has.any(0)  # [C]
        met = present | memory.get("creff_seen", present)  # [C]
        compared = present.sum() * (len(head) + 1)
        memory["creff_mismatch"] = mismatch(features, head, target) / compared  # for the record
        memory["creff_features"] = features
        memory["creff_seen"] = met
        memory["creff_index"] = index
        seed = derive("creff head", updates.seed, updates.round)
        memory["creff_head"] = trained_head(
            features,
            met,
            seed,
            epochs=self.epochs,
            batch=self.batch,
            lr=self.head_lr,
        )
        if not memory["creff_head"].isfinite().all():
            problem = f"the re-trained classifier is not finite after round {updates.round}"
            raise FedcliError(problem, "lower --lr, or --set feature_lr or head_lr")
        return average(updates.theta, updates.base), updates.base

    def scored(self, theta: Tensor, memory: Tensors) -> Tensor:
        if "creff_head" not in memory:
            return theta
        index = memory["creff_index"].flatten()
        return theta.index_copy(0, index, memory["creff_head"].flatten())

    def noise(self, head: Tensor, seed: int) -> Tensor:
        """The features [C, M, D] of the first round."""
        classes, inputs = head.shape  # C, D+1
        stream = torch.Generator().manual_seed(derive("creff features", seed))
        noise = torch.randn(
            classes,
            self.features,
            inputs - 1,
            generator=stream,
        )
        return noise.to(head.device)

    def matched(
        self,
        features: Tensor,
        head: Tensor,
        target: Directions,
    ) -> Tensor:
        """Features [C, M, D] moved by SGD so that their class gradients point in the target's
        directions.
        """
        features = features.clone().requires_grad_()
        for _ in range(self.steps):
            (slope,) = torch.autograd.grad(mismatch(features, head, target), features)
            features.data.sub_(slope, alpha=self.feature_lr)
        return features.detach()


def trained_head(
    features: Tensor,
    present: Tensor,
    seed: int,
    *,
    epochs: int,
    batch: int,
    lr: float,
) -> Tensor:
    """A fresh classifier [C, D+1] trained by SGD on features [C, M, D] of the present classes, bool
    [C].
    """
    stream = torch.Generator().manual_seed(seed)
    classes, count, width = features.shape
    f = with_one(features[present].flatten(0, 1))  # [N, D+1]
    labels = present.nonzero().squeeze(1).repeat_interleave(count)  # [N]
    y = F.one_hot(labels, classes).to(f)  # [N, C]
    draws = torch.rand(classes, width + 1, generator=stream)
    uniform = 2 * draws - 1
    head = uniform.to(f.device) / width**0.5
    for _ in range(epochs):
        order_on_cpu = torch.randperm(len(f), generator=stream)
        order = order_on_cpu.to(f.device)
        inputs = f.index_select(0, order).split(batch)
        targets = y[order].split(batch)
        for x, true in zip(inputs, targets, strict=True):
            probabilities = (head @ x.T).softmax(0)
            residual = probabilities.sub_(true.T)  # [C, B] p - y
            head.addmm_(residual, x, alpha=-lr / len(x))
    return head


def head_index(layout: Layout) -> Tensor:
    """int64 [C, D+1]: the index in theta of each number of the classifier, its bias in the last
    column.
    """
    weight = layout.spans["head.weight"]
    bias = layout.spans["head.bias"]
    numbers = torch.arange(layout.size, device=layout.flat.device)
    of_weight = numbers[weight].view(layout.shapes["head.weight"])  # [C, D]
    of_bias = numbers[bias][:, None]  # [C, 1]
    return torch.cat([of_weight, of_bias], 1)


def with_one(f: Tensor) -> Tensor:
    """[N, D] -> [N, D+1], so that the bias is a weight like the others."""
    return F.pad(f, (0, 1), value=1.0)


def class_gradients(f: Tensor, y: Tensor, head: Tensor) -> Tensor:
    """Gradient [C, C, D+1] of mean cross-entropy over each class's features with respect to the
    head [C, D+1].

    A class without features has 0.
    """
    f = with_one(f)
    order = y.argsort(stable=True)
    counts = y.bincount(minlength=len(head)).tolist()
    answers = (f @ head.T).softmax(1)
    residual = answers - F.one_hot(y, len(head))  # [N, C] p - y
    residuals = residual[order].split(counts)
    inputs = f[order].split(counts)
    gradients = []
    for r, x, n in zip(residuals, inputs, counts, strict=True):
        outer = r.T @ x
        gradients.append(outer / max(n, 1))
    return torch.stack(gradients)


def mismatch(features: Tensor, head: Tensor, target: Directions) -> Tensor:
    """Distance of the features' class gradients from the target's directions: [C, M, D], [C, D+1]
    -> a scalar.

    It is the sum of 1 - cos over each row of a class's weight gradient and its bias gradient; where
    the target has none, 0 is added.
    """
    identity = torch.eye(len(head), device=head.device)
    true = identity[:, None]  # [C, 1, C]
    weights = head[:, :-1]
    bias = head[:, -1]
    logits = features @ weights.T + bias  # [C, M, C]
    residual = logits.softmax(2) - true  # [C, M, C] p - y
    # [C, C, D], [C, C]; M times the mean, which makes no difference to a direction
    gradients = residual.mT @ features, residual.sum(1)
    parts = []
    for gradient, direction in zip(gradients, target, strict=True):
        off = direction - F.normalize(gradient, dim=-1)
        parts.append((direction * off).sum())
    return torch.stack(parts).sum()


def directions(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients [C, C, D+1] as rows of length 1: those of the weight [C, C, D], and of the bias [C,
    C]; 0 stays 0.
    """
    weights = gradient[..., :-1]
    bias = gradient[..., -1]
    return F.normalize(weights, dim=-1), F.normalize(bias, dim=-1)


register(
    "creff",
    Plain(),
    FederatedFeatures(),
    label="CReFF",
    about="retrains the classifier with all classes in balance, without sharing images",
    families="rare",
)
