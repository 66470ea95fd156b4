"""FedNoRo: clients whose labels look noisy are found by their losses, learn from the global model,
and count for less.

Source: Wu, Yu, Jiang, Cheng and Yan, "FedNoRo: towards noise-robust federated learning by
addressing class imbalance and label noise heterogeneity", IJCAI 2023, arXiv 2305.05230, as its
authors' code (wnn2000/FedNoRo) computes it; the paper's text was not at hand, so no equation is
numbered here.

    stage 1   the first rounds: logit adjustment by the client's class shares, and models averaged
              by image count
    between   each client's mean loss of each class is scaled over clients to [0, 1] per class; a
              class that it lacks counts as the lowest. Two Gaussians are fitted to these losses,
              nine times. Each fit calls noisy the clients of the Gaussian with the larger mean;
              the set of clients that most fits agree on is taken
    stage 2   clean clients train as before; noisy ones on (1 - v) NLL + v KL(q || p), with p the
              adjusted softmax and q that of the received model at temperature 0.8; v rises to
              `strength` as exp(-5 (1 - progress)^2)
    weights   in stage 2 they are n_k exp(-D_k): D_k is the smallest distance of a noisy client's
              model to a clean one's, over the largest such distance, and 0 for clean clients

Distances are sums over tensors of the norm of the difference, buffers included. The code's 10
rounds of stage 1 and 49 until v is full, of 100, are shares of the rounds here.
How we differ, and why:
- the losses are those of the model one round before stage 1 ends, since a client sends them with
  its model.
- of a class that nobody has, or that all find equally hard, every client has 0. With all clients or
  none found noisy, or of one client, there is one stage.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from . import probes
from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
    cross_entropy,
)
from .helpers import average, entries, logits_of
from .priors import offset
from .registry import register

FITS = 9  # of two Gaussians, whose majority counts
TEMPERATURE = 0.8  # of the received model's softmax


@dataclass(frozen=True)
class LearnsFromGlobal(Local):
    """Logit adjustment; at a noisy client also distillation from the received model."""

    cost = {"step": 1, "look": 1, "forward": 1}
    own_prior = True
    own_loss = True
    works_without_server = False
    needs_one_label = "it adjusts one softmax over all classes"

    strength: Annotated[
        float, "largest share v of the distillation at noisy clients, in [0, 1]"
    ] = 0.8
    ramp: Annotated[float, "share of the rounds at whose end v is full, in (0, 1]"] = 0.49

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        shard = client.shard
        losses = probes.group_losses(net, client, shard.y, shard.classes)
        client.offset = offset("logit-adjust", shard.class_counts)  # [C]
        client.report["class_images"] = shard.class_counts.double()  # [C]
        client.report["class_losses"] = losses  # [C]
        noisy = client.shared.get("noisy")  # [N] of the roster
        if noisy is not None and noisy[client.row]:
            remaining = 1 - self.progress(client)
            share = self.strength * float(np.exp(-5 * remaining**2))
            client.scratch["share"] = client.theta.new_tensor(share)
            client.scratch["teacher"] = client.layout.read()

    def progress(self, client: ClientRound) -> float:
        """The share of the ramp that is over, from the beginning of stage 2."""
        begun = float(client.shared["begun"])
        end = self.ramp * client.rounds
        if end <= begun:
            return 1.0
        rounds_done = client.round - 1 - begun
        progress = rounds_done / (end - begun)
        return min(max(progress, 0.0), 1.0)

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        if "share" not in client.scratch:
            return cross_entropy(net(batch.x), batch.y, client)
        logits = logits_of(net, client.scratch["teacher"], batch.x, client)  # [B, C]
        soft = (logits / TEMPERATURE).softmax(1)  # [B, C] q
        adjusted = net(batch.x) + client.offset
        return distilled(adjusted, batch.y, soft, client.scratch["share"])


def distilled(
    adjusted: Tensor,
    y: Tensor,
    soft: Tensor,
    share: Tensor,
) -> Tensor:
    """(1 - v) NLL + v KL of logits [B, C], labels [B] and soft labels [B, C], a scalar; classes
    taken out count 0.
    """
    log_p = adjusted.log_softmax(1)
    log_p = log_p.masked_fill(log_p.isinf(), 0.0)
    kl = F.kl_div(log_p, soft, reduction="batchmean")
    true_loss = F.nll_loss(log_p, y)
    return share * kl + (1 - share) * true_loss


@dataclass(frozen=True)
class DistanceAware(Aggregator):
    """By image count; in stage 2 a noisy client counts the less, the farther its model is from
    every clean one.
    """

    cost = {}
    full_participation = True

    warm_up: Annotated[
        float, "share of the rounds that stage 1 takes, in [0, 1]; 1: all of them"
    ] = 0.1

    def broadcast(self, memory: Tensors) -> Tensors:
        return entries(memory, "noisy", "begun")

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        weights = updates.base
        if "noisy" in memory:
            noisy = memory["noisy"][updates.rows]  # [K]
            if noisy.any() and not noisy.all():
                nearness = torch.exp(-distances(updates, noisy))
                weights = weights * nearness
                weights = weights / weights.sum()
        elif self.warm_up < 1 and updates.round >= max(1, round(self.warm_up * updates.rounds)):
            device = theta.device
            noisy = torch.zeros(updates.roster, dtype=torch.bool, device=device)
            of_round = noisy_clients(updates["class_losses"], updates["class_images"])
            noisy[updates.rows] = of_round.to(device)
            memory["noisy"] = noisy
            memory["begun"] = torch.tensor(updates.round, device=device)
        return average(updates.theta, weights), weights


def noisy_clients(losses: Tensor, images: Tensor) -> Tensor:
    """bool [K] from the summed losses and images of each client's classes [K, C]."""
    n = images.cpu()
    mean_losses = losses.cpu() / n.clamp_min(1)
    means = np.where(n > 0, mean_losses, np.nan)  # [K, C]
    missing = np.isnan(means)
    lowest = np.where(missing, np.inf, means).min(0)  # [C]
    is_known = np.isfinite(means).any(0)
    lowest = np.where(is_known, lowest, 0.0)
    means = np.where(missing, lowest, means)
    least = means.min(0)
    span = means.max(0) - least
    divisor = np.where(span > 0, span, 1.0)
    scaled = (means - least) / divisor
    if len(scaled) < 2 or not span.any():
        return torch.zeros(len(scaled), dtype=torch.bool)
    # importing it takes a second, which every command would pay
    from sklearn.mixture import GaussianMixture

    votes: Counter[tuple[bool, ...]] = Counter()
    for fit in range(FITS):
        mixture = GaussianMixture(n_components=2, random_state=fit).fit(scaled)
        noisiest = mixture.means_.sum(1).argmax()
        vote = mixture.predict(scaled) == noisiest  # [K]
        votes[tuple(vote.tolist())] += 1
    majority, _ = votes.most_common(1)[0]
    return torch.tensor(majority)


def distances(updates: ClientUpdates, noisy: Tensor) -> Tensor:
    """D [K], float64: the distance of noisy clients from the nearest clean one, over the largest;
    0 for clean ones.
    """
    out = noisy.new_zeros(len(noisy), dtype=torch.float64)
    spans = updates.layout.spans.values()
    clean = updates.theta[~noisy]  # [K', P]
    for k in noisy.nonzero().flatten().tolist():
        differences = clean - updates.theta[k]  # [K', P]
        tensor_norms = [differences[:, span].norm(dim=1) for span in spans]
        norms = torch.stack(tensor_norms)  # [tensors, K']
        out[k] = norms.double().sum(0).min()
    return out / out.max().clamp_min(1e-12)


register(
    "fednoro",
    LearnsFromGlobal(),
    DistanceAware(),
    label="FedNoRo",
    about="finds hospitals with wrong labels by their losses and lets them count for less",
    families="noise",
)
