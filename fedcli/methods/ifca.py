"""IFCA: clustered federated learning; every client trains that of several models which fits its
images best.

Source: Ghosh, Chung, Yin and Ramchandran, "An efficient framework for clustered federated
learning", NeurIPS 2020, arXiv 2006.04088, Algorithm 1 with model averaging. The server keeps J
models. In each round a client receives all, picks the one of the lowest mean loss on its training
images, trains it and sends it back with its number; each model becomes the mean of those that were
trained from it, and one that nobody picked stays.

    shared=nothing    J whole models
    shared=features   the paper's weight sharing: J classifiers over features that all clients
                      average

The received model of a client's choice is scored as that client's own. The model that is scored as
the global one, for a hospital without images to choose by, is that of the cluster with the most
training images. How we differ, and why:
- the first model starts as the run's network and each other one with the numbers of every trained
  tensor in an order of its own, which has the law of another random start. Pretrained features lose
  their meaning so: use shared=features. The paper's theory wants starts near the clusters, its
  experiments try several random ones.
- means are by training images, as in FedAvg, where the paper counts its equal clients alike.
- clients' own models of round t come from the model of round t - 1, as under local-finetune.
- batch-norm statistics belong to a cluster's model, those of shared=features to all, and --bn local
  does not keep them.
The server learns which clients are alike. J = 1 is FedAvg.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..seeds import derive
from .contract import (
    Aggregated,
    Aggregator,
    ClientRound,
    ClientUpdates,
    Cost,
    Layout,
    Local,
    Network,
    Tensors,
)
from .helpers import average, entries
from .probes import mean_loss
from .registry import register


@dataclass(frozen=True)
class _Clusters:
    """Options of both halves."""

    clusters: Annotated[int, "J, models that clients choose among, in [1, 100]"] = 2
    shared: Annotated[Literal["nothing", "features"], "what all clusters have in common"] = (
        "nothing"
    )

    def models(
        self,
        theta: Tensor,
        state: Mapping[str, Tensor],
        layout: Layout,
        seed: int,
    ) -> Tensor:
        """All models [J, P]: theta, and the others as state has them; at first each in an order of
        its own.
        """
        if "ifca_others" in state:
            others = state["ifca_others"]
            largest = int(state["ifca_largest"])
            smaller = others[:largest]
            larger = others[largest:]
            return torch.cat([smaller, theta[None], larger])
        models = theta.repeat(self.clusters, 1)
        for j in range(1, self.clusters):
            stream = torch.Generator().manual_seed(derive("ifca start", seed, j))
            for name in layout.weights:
                if self.shared == "nothing" or name.startswith("head."):
                    span = layout.spans[name]
                    order = torch.randperm(span.stop - span.start, generator=stream)
                    order = order.to(theta.device)
                    models[j, span] = theta[span][order]
        return models


@dataclass(frozen=True)
class LowestLoss(_Clusters, Local):
    """Plain local training of the model that fits the client's images best."""

    not_recorded = "its first step starts from another model than the global one"
    works_without_server = False

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return {"step": 1, "forward": self.clusters}

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        models = self.models(
            client.theta,
            client.shared,
            client.layout,
            client.seed,
        )  # [J, P]
        losses = []
        for model in models:
            client.layout.load(model)
            losses.append(mean_loss(net, client))
        chosen = torch.stack(losses).argmin()  # Alg. 1, the cluster estimate
        client.layout.load(models[chosen])
        client.memory["model"] = client.layout.read()
        client.report["cluster"] = F.one_hot(chosen, self.clusters)  # [J]


@dataclass(frozen=True)
class ClusterMeans(_Clusters, Aggregator):
    """The mean of the models of each cluster; that of the largest is the global model."""

    cost = {}
    needs = "scalars"

    def broadcast(self, memory: Tensors) -> Tensors:
        return entries(memory, "ifca_others", "ifca_largest")

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        models = self.models(theta, memory, updates.layout, updates.seed)  # [J, P]
        n = updates.n[:, None] * updates["cluster"]  # [K, J]
        images = n.sum(0)  # [J]
        weights = n / images.clamp_min(1)  # [K, J]
        clusters = (images > 0).nonzero()[:, 0]
        for j in clusters.tolist():
            models[j] = average(updates.theta, weights[:, j])  # Alg. 1, the averages
        largest = images.argmax()
        p = weights[:, largest]  # [K]
        if self.shared == "features":
            p = updates.base
            mean = average(updates.theta, p)  # [P]
            separate = mean.new_zeros(len(mean), dtype=torch.bool)  # [P]
            for name in updates.layout.weights:
                separate[updates.layout.spans[name]] = name.startswith("head.")
            models = torch.where(separate, models, mean)
        clusters = torch.arange(self.clusters, device=models.device)
        memory["ifca_others"] = models[clusters != largest]
        memory["ifca_largest"] = largest
        return models[largest], p


register(
    "ifca",
    LowestLoss(),
    ClusterMeans(),
    label="IFCA",
    aliases=("clustered-fl",),
    about="trains several models; each hospital uses the one that fits its images best",
    families="personal domain",
)
