"""CCVR: after a finished run, the classifier is trained on features drawn from the clients'
Gaussians of each class.

Source: Luo, Chen, Hu, Zhang, Liang and Feng, "No fear of heterogeneity: classifier calibration for
federated learning with non-IID data", NeurIPS 2021, arXiv 2106.05001, section 4. Each client k
sends, for each class c, its n_kc images, and the mean mu_kc and covariance S_kc of their features
under the finished model. With N_c = sum_k n_kc the server has

    mu_c = sum_k n_kc / N_c mu_kc
    S_c  = sum_k ((n_kc - 1) S_kc + n_kc mu_kc mu_kc^T) / (N_c - 1) - N_c / (N_c - 1) mu_c mu_c^T

which are those of all images of the class, and made of sums over the clients alone. It draws
`features` virtual features of each from N(mu_c, S_c), trains a classifier on them by cross-entropy,
and puts it on the features as they are: `fedcli train fedavg --then ccvr`.
How we differ, and why:
- the classifier starts afresh; training it is a convex problem, in which the start is soon
  forgotten. SGD by epochs, head_lr and batch, as under `creff`; the paper's numbers are not
  checked, since its text was not at hand, and its equations are not numbered here.
- a class that no client has is left out, and one with a single image is drawn as that image's
  features.
- the clients' own pass over their images trains nothing; its loss, of the received classifier, is
  for the record. A round repeats the calibration with other draws; one is the paper's.
A client sends C D^2 numbers, and they say which classes it has and how its features spread: with C
= 8 and D = 512 it is 8 MB, once.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..seeds import derive
from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
)
from .creff import head_index, trained_head
from .crt import Retrained
from .mixins import ContinuesRun
from .registry import register


@dataclass(frozen=True)
class Still(Local):
    """No training: the features of the finished run, under a linear classifier."""

    cost = "it continues a finished run"
    own_prior = own_loss = freezes = True
    needs_one_label = "each Gaussian is of one class"

    extend = Retrained.extend

    @torch.no_grad()
    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        return self.loss(net, batch, client)


@dataclass(frozen=True)
class ByVirtualFeatures(ContinuesRun, Aggregator):
    """A classifier trained on virtual features."""

    cost = "it continues a finished run"
    needs = "sums"

    features: Annotated[int, "virtual features of each class, in [1, 10000]"] = 500
    epochs: Annotated[int, "of training the classifier, >= 1"] = 30
    head_lr: Annotated[float, "learning rate of the classifier, in (0, 1000]"] = 0.01
    batch: Annotated[int, "features per step of the classifier, in [1, 1000000]"] = 32

    @torch.no_grad()
    def measure_global(self, net: Network, client: ClientRound) -> None:
        net.eval()
        shard = client.shard
        features = [net.features(batch.x) for batch in shard.in_order()]
        z = torch.cat(features)  # [N, D]
        means = torch.zeros(shard.classes, z.shape[1]).to(z)  # [C, D]
        covariances = []
        for c in range(shard.classes):
            theirs = z[shard.y == c]  # [n_kc, D]
            n = len(theirs)
            means[c] = theirs.sum(0) / max(n, 1)
            centred = theirs - means[c]
            scatter = centred.T @ centred
            covariances.append(scatter / max(n - 1, 1))  # [D, D] S_kc
        client.report["class_images"] = shard.class_counts  # [C]
        client.report["class_means"] = means
        client.report["class_covariances"] = torch.stack(covariances)  # [C, D, D]

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        n = updates["class_images"].double()  # [K, C]
        means = updates["class_means"].double()  # [K, C, D]
        covariances = updates["class_covariances"].double()  # [K, C, D, D]
        mean, covariance, present = of_all(n, means, covariances)
        seed = derive("ccvr features", updates.seed, updates.round)
        virtual = self.draws(mean, covariance, seed).float()  # [C, M, D]
        seed = derive("ccvr head", updates.seed, updates.round)
        head = trained_head(
            virtual,
            present,
            seed,
            epochs=self.epochs,
            batch=self.batch,
            lr=self.head_lr,
        )
        index = head_index(updates.layout)  # [C, D+1]
        return theta.index_copy(0, index.flatten(), head.flatten()), updates.base

    def draws(self, mean: Tensor, covariance: Tensor, seed: int) -> Tensor:
        """Virtual features [C, M, D] of the Gaussians [C, D], [C, D, D]."""
        shape = len(mean), self.features, mean.shape[1]
        stream = torch.Generator().manual_seed(seed)
        noise = torch.randn(shape, generator=stream, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(covariance)  # [C, D], [C, D, D]
        deviations = values.clamp_min(0).sqrt()
        scaled = vectors * deviations[:, None]
        root = scaled @ vectors.mT  # symmetric, so that no sign is left open
        offsets = noise.to(mean.device) @ root
        return mean[:, None] + offsets


def of_all(
    n: Tensor,
    means: Tensor,
    covariances: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [C, D] and covariance [C, D, D] of each class over all clients; bool [C], True for a
    class that has an image.

    From n [K, C], means [K, C, D] and covariances [K, C, D, D].
    """
    total = n.sum(0)  # [C] N_c
    weighted = n[:, :, None] * means  # [K, C, D]
    at_least_one = total.clamp_min(1)[:, None]
    mean = weighted.sum(0) / at_least_one  # mu_c
    weights = (n - 1).clamp_min(0)[:, :, None, None]
    inside = weights * covariances
    apart = means - mean
    between = torch.einsum("kc,kcd,kce->cde", n, apart, apart)  # last two terms of S_c, centred
    degrees = (total - 1).clamp_min(1)
    freedom = degrees[:, None, None]
    covariance = (inside.sum(0) + between) / freedom
    return mean, covariance, total > 0


register(
    "ccvr",
    Still(),
    ByVirtualFeatures(),
    label="CCVR",
    about="second stage after a finished run: retrains the classifier on features drawn "
    "from class statistics",
    families="rare",
    default_training={"rounds": 1},
)
