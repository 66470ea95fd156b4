"""FedMRL: agents choose each client's proximal coefficient, a fairness term evens out losses, a map
weighs models.

Source: Sahoo, Tripathi, Saha and Mondal, MICCAI 2024, arXiv 2407.05800, Eqs. 3-10.
- a client trains on its loss, mu_h/2 ||w - w_t||^2 and lambda_fair max(0, F_h - F)^2 (Eq. 3); F_h
  is the batch's plain cross-entropy and F the mean of the received models' losses one round before.
- after a round, one agent per client sees label entropy, share of images, and accuracy and loss of
  local training (Eq. 5), and chooses mu_h of the next round from a grid; file qmix.py. Their reward
  is exp(accuracy - zeta) - 1 (Eq. 8).
- local models are averaged by their position on a self-organizing map and their similarity to the
  mean; file som.py.

How we differ from the paper, and why:
- F is the mean over images, held constant. The sum of Eq. 9 makes a client climb its own loss as
  soon as the others' losses exceed 1/2. fair=hinge leaves clients below F alone; with
  fair=symmetric, the square as printed, they unlearn. In the first round F is not known and the
  term is off.
- F is measured in eval mode on the fixed view and the batch's loss as training sees it, with
  dropout and augmentation: where these alone put it above F, the term is a larger learning rate and
  no more. Both are plain losses under --prior too, so that they compare.
- agents are mixed by QMIX, as the text says, not by the sum of Eq. 4, and mu has a grid, since
  Q-learning has no continuous actions. Entropy has its sign back and is a share of log C; the loss
  is seen as log(1 + loss).
- the reward is the accuracy on the clients' validation parts, in proportion to their training
  images; never test data. It is measured in the client's next round, so agents learn one round
  late. Where a client has no validation part its training images are measured, and column
  `validation_images` says 0.
- an absent client's agent sees its last numbers, and chooses as if it took part.
- parts without qmix have a fixed mu, by default the paper's first one; with parts=none mu is 0.
- alpha sums to 1 and there is no 1/H: both, as Eq. 10 has it, would shrink the model by H each
  round.
- a client is compared by its update, to the mean update: whole models (som_input=weights) hardly
  differ. What lies near the consensus weighs more, which is the paper's aim, and is against
  minority clients.

rule=released is what the authors' script computes, once names it lacks are filled in: clients train
plainly, and w <- w + mean_h (1 - mu_h)(w_h - w) with mu_h in (0.5, 0.731). mu_h is the sigmoid of
the mean of H nets with sigmoid outputs, which see the first client's entropy and share and the
accuracy and loss of whoever trained before h, repeated H times; they learn from round 12 on, on the
last round alone. Its fairness value is always 0 and its map unused. Its entropy is the log of the
share of the commonest class (the first in the lists it holds), its reward the accuracy itself, for
which we take validation images where it took test images. Its frozen batch norm has no like here:
statistics are the uniform mean. Its nets start as our linear layers do.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..seeds import derive
from . import probes, qmix, som
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
from .helpers import average, by_row, entries, moved_towards
from .registry import register

Parts = Literal["qmix+fair+som", "qmix+fair", "qmix+som", "fair+som", "qmix", "fair", "som", "none"]
Rule = Literal["paper", "released"]
PARTS = "which of the three are on; none is FedAvg; of rule=paper"
RULE = "the sound reading of the paper, or what the authors' script computes"

FIRST = 1e-5  # every client's mu in the first round
GRIDS = {
    "log": (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.4, 1.0),
    "linear": tuple(i / 10 for i in range(11)),
}


@dataclass(frozen=True)
class FairProx(Local):
    """Cross-entropy, a proximal term, and a penalty on losses above the mean."""

    cost = {"step": 1, "forward": 2}

    parts: Annotated[Parts, PARTS] = "qmix+fair+som"
    fair: Annotated[
        Literal["hinge", "symmetric"],
        "penalty above the mean loss only, or on both sides; of rule=paper",
    ] = "hinge"
    lambda_fair: Annotated[
        float, "strength of the fairness term, >= 0; 0 turns it off; of rule=paper"
    ] = 1.0
    mu: Annotated[
        float, "proximal coefficient where parts leave qmix out, in [0, 1]; of rule=paper"
    ] = FIRST
    rule: Annotated[Rule, RULE] = "paper"

    needs_one_label = "its agents see the accuracy of one class per image"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        zero = client.theta.new_zeros((), dtype=torch.float64)
        client.scratch["mu"] = self.proximal(client)
        for name in ("correct", "loss", "images"):
            client.scratch[name] = zero.clone()
        if self.rule == "paper" and "fair" in self.parts:
            client.report["loss_before"] = probes.mean_loss(net, client)

    def proximal(self, client: ClientRound) -> Tensor:
        """mu_h of this round, a float64 scalar."""
        if "qmix" in self.parts and self.rule == "paper" and "mu" in client.shared:
            mu = client.shared["mu"][client.row]  # agents live on the CPU
            return mu.double().to(client.theta.device)
        fixed = FIRST if "qmix" in self.parts else self.mu
        if self.rule == "released" or self.parts == "none":
            fixed = 0.0
        return client.theta.new_tensor(fixed, dtype=torch.float64)

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        logits = net(batch.x)
        layout = client.layout
        mu = client.scratch["mu"]
        supervised = cross_entropy(logits, batch.y, client)
        plain = supervised if client.plain_loss else F.cross_entropy(logits, batch.y)
        self.objective(supervised, plain, client).backward()
        moved = layout.params - client.received  # [T]
        layout.grad.addcmul_(moved, mu.float())  # Eq. 3, second term
        is_right = logits.argmax(1) == batch.y
        client.scratch["correct"] += is_right.sum()
        client.scratch["loss"] += plain.detach().double() * len(batch.y)
        client.scratch["images"] += len(batch.y)
        return supervised.detach()

    def objective(
        self,
        supervised: Tensor,
        plain: Tensor,
        client: ClientRound,
    ) -> Tensor:
        """The supervised loss, and the fairness term where it is on and F is known."""
        if self.rule == "released" or "fair" not in self.parts or "mean_loss" not in client.shared:
            return supervised
        above = plain - client.shared["mean_loss"]
        if self.fair == "hinge":
            above = above.clamp_min(0)
        return supervised + self.lambda_fair * above.square()  # Eqs. 3 and 9

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts
        scratch = client.scratch
        entropy = released_entropy if self.rule == "released" else label_entropy
        correct = scratch["correct"].double()
        client.report["training_accuracy"] = correct / scratch["images"]
        client.report["training_loss"] = scratch["loss"] / scratch["images"]
        client.report["label_entropy"] = entropy(counts)
        client.report["mu"] = scratch["mu"]


@dataclass(frozen=True)
class AgentsAndMap(Aggregator):
    """QMIX chooses the proximal coefficients of the next round, a self-organizing map the weights
    of this one.
    """

    cost = {}

    parts: Annotated[Parts, PARTS] = "qmix+fair+som"
    grid: Annotated[
        Literal["log", "linear"],
        "what mu is chosen from: 0, 1e-5, .. 0.1, 0.4, 1, or 0, 0.1, .. 1; of rule=paper",
    ] = "log"
    zeta: Annotated[float, "accuracy with a reward of 0, in [0, 1]; of rule=paper"] = 0.95
    gamma: Annotated[float, "worth of the next round's reward to this one's, in [0, 1)"] = 0.99
    warmup: Annotated[int, "rounds before the agents learn, >= 0"] = 10
    som_input: Annotated[
        Literal["delta", "weights"], "what the map is of: updates, or whole models; of rule=paper"
    ] = "delta"
    alpha_by_size: Annotated[bool, "weights count training images too; of rule=paper"] = False
    alpha_temperature: Annotated[
        float, "evenness of the weights, > 0; below 1 sharpens them; of rule=paper"
    ] = 1.0
    alpha_floor: Annotated[
        float, "share of all weight that is shared out evenly, in [0, 1]; of rule=paper"
    ] = 0.0
    rule: Annotated[Rule, RULE] = "paper"

    needs_one_label = "its agents see the label entropy of one class per image"

    def warning(self, rounds: int, validation: bool) -> str:
        if self.rule == "paper" and "qmix" not in self.parts:
            return ""
        warnings = []
        if rounds < 2 * self.warmup:
            warnings.append(self._late_learning())
        if not validation:
            warnings.append(
                "clients have no validation part, so its reward is training accuracy: "
                "partition with --val 0.1"
            )
        return "; ".join(warnings)

    def _late_learning(self) -> str:
        start = self.warmup + 1
        if self.rule == "paper":
            return f"its agents learn from round {start} on and choose at random before"
        return f"its nets learn from round {start + 1} on and answer untrained before"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        if self.rule == "paper" and "qmix" not in self.parts:
            return
        count = client.validation_images
        shard = client.val if client.val and count else client.shard
        client.report["validation_accuracy"] = accuracy(net, shard)
        client.report["validation_images"] = torch.tensor(count, device=client.theta.device)

    def broadcast(self, memory: Tensors) -> Tensors:
        return entries(memory, "mu", "mean_loss")

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        if self.rule == "released":
            return damped(
                theta,
                updates,
                memory,
                warmup=self.warmup,
                gamma=self.gamma,
            )
        if "fair" in self.parts:
            losses = updates.base * updates["loss_before"].double()  # [K]
            memory["mean_loss"] = losses.sum()  # F of Eq. 9, as in Eq. 1
        if "qmix" in self.parts:
            self.choose(updates, memory)
        weights = self.alpha(theta, updates, memory) if "som" in self.parts else updates.base
        return average(updates.theta, weights), weights  # Eq. 10, without 1/H

    def choose(self, updates: ClientUpdates, memory: Tensors) -> None:
        """Every agent's mu for the next round."""
        grid = torch.tensor(GRIDS[self.grid], dtype=torch.float64)  # [A]
        state = observed(updates, memory, updates["training_loss"].log1p()).float()
        gain = mean_accuracy(updates) - self.zeta
        reward = torch.exp(gain) - 1  # Eq. 8
        agents = qmix.Qmix(updates.roster, len(grid), self.gamma)
        start = int((grid - FIRST).abs().argmin())
        now = qmix.Moment(
            updates.round,
            updates.rounds,
            self.warmup,
            updates.seed,
        )
        chosen = qmix.next_actions(
            agents,
            memory,
            state,
            reward,
            start=start,
            now=now,
        )
        memory["reward"] = reward
        memory["mu"] = grid[chosen]

    def alpha(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        memory: Tensors,
    ) -> Tensor:
        """Weights [K] from the map."""
        moving = updates.layout.trainable
        start = theta[:moving]
        local = updates.theta[:, :moving]
        delta = self.som_input == "delta"
        mean_move = local.mean(0) - start if delta else start
        toward = mean_move.double()  # [T]
        bucket, sign = som.projection(moving, updates.seed, theta.device)
        sketches = []
        similarities = []
        for model in local:  # one at a time, or [K, T] again
            client = (model - start if delta else model).double()  # [T]
            sketches.append(som.sketch(client, bucket, sign))
            similarities.append(som.similarity(client, toward))
        x = torch.stack(sketches).cpu()  # [K, D]
        similarity = torch.stack(similarities).cpu()  # [K]
        rows = updates.rows.cpu()
        order = som.order(
            rows,
            updates.roster,
            seed=updates.seed,
            round=updates.round,
        )
        neurons = memory["som"].cpu() if "som" in memory else som.start(x, updates.seed)
        neurons = som.train(neurons, x[order], similarity[order], updates.round)
        memory["som"] = neurons
        weights_of_map = som.nearness(neurons, x) * similarity
        weight = weights_of_map.to(theta.device)
        if self.alpha_by_size:
            weight = weight * updates.n
        return som.shares(
            weight,
            temperature=self.alpha_temperature,
            floor=self.alpha_floor,
        )


def label_entropy(counts: Tensor) -> Tensor:
    """Entropy of class counts [C] as a share of its largest value log C, a float64 scalar; 0 for a
    lone class.
    """
    p = counts.double() / counts.sum()
    largest = math.log(max(len(counts), 2))
    return -torch.xlogy(p, p).sum() / largest  # Eq. 6


def released_entropy(counts: Tensor) -> Tensor:
    """The script's formula in its place: every class's share times the log of the commonest one's,
    summed.
    """
    return (counts.max().double() / counts.sum()).log()


@torch.no_grad()
def accuracy(net: Network, shard: Shard) -> Tensor:
    """Share of a shard's images that net gets right, in eval mode, a float64 scalar."""
    net.eval()
    right = shard.y.new_zeros((), dtype=torch.int64)
    for batch in shard.in_order():
        is_right = net(batch.x).argmax(1) == batch.y
        right += is_right.sum()
    return right.double() / len(shard)


def mean_accuracy(updates: ClientUpdates) -> Tensor:
    """Accuracy of the model that the round began with, over the clients' validation parts, a
    scalar.
    """
    return (updates.base * updates["validation_accuracy"]).sum().cpu()


def observed(updates: ClientUpdates, memory: Tensors, loss: Tensor) -> Tensor:
    """Observations of every client [N, 4], with this round's loss [K]. Eqs. 5-7."""
    images = kept("images", updates.n, updates, memory)
    entropy = kept("label_entropy", updates["label_entropy"], updates, memory)
    accuracies = kept(
        "training_accuracy",
        updates["training_accuracy"],
        updates,
        memory,
    )
    losses = kept("training_loss", loss, updates, memory)
    features = [entropy, images / images.sum(), accuracies, losses]
    return torch.stack(features, 1).cpu()


def kept(
    name: str,
    values: Tensor,
    updates: ClientUpdates,
    memory: Tensors,
) -> Tensor:
    """values [K] over the roster [N]: an absent client has its last, 0 before its first round."""
    column = by_row(memory, name, updates, 0.0)
    column[updates.rows] = values.double()
    memory[name] = column
    return column


def damped(
    theta: Tensor,
    updates: ClientUpdates,
    memory: Tensors,
    *,
    warmup: int,
    gamma: float,
) -> tuple[Tensor, Tensor]:
    """rule=released: the mean of the local models, each moved back towards the global one by its
    mu_h.
    """
    released = released_mu(updates, memory, warmup=warmup, gamma=gamma)
    mu = released.to(theta.device)
    memory["mean_mu"] = mu.mean()
    share = (1 - mu) / len(mu)  # [K]
    even = torch.full_like(mu, 1 / len(mu))
    mean = average(updates.theta, even)
    mean[: updates.layout.trainable] = moved_towards(theta, updates, share)
    return mean, share / share.sum()


def released_mu(
    updates: ClientUpdates,
    memory: Tensors,
    *,
    warmup: int,
    gamma: float,
) -> Tensor:
    """Answers of the script's nets, float64 [K]; they learn of the round before, and remember this
    one.
    """
    nets = Released(updates.roster, gamma)
    if "released_weights" not in memory:
        learner = qmix.Learner.start(nets.layers, derive("released", updates.seed))
        learner.keep(memory, "released")
        memory["released_state"] = torch.zeros(updates.roster, 4)
    learner = qmix.Learner.recall(memory, "released")
    reward = mean_accuracy(updates)
    before = memory["released_state"].cpu()  # [N, 4]
    if updates.round - 1 > warmup:
        learner, memory["released_loss"] = learner.descend(
            lambda weights: nets.loss(weights, before, reward.float())
        )
        learner.keep(memory, "released")
    state = observed(updates, memory, updates["training_loss"]).float()
    latest = state[updates.rows.cpu(), 2:]  # [K, 2] accuracy and loss
    # [K, 2] the content of the first row when each client came
    of_last_round = before[:1, 2:]
    past = torch.cat([of_last_round, latest[:-1]])
    start = state[:1, :2]
    fixed = start.expand(len(past), 2)
    first_rows = torch.cat([fixed, past], 1)  # [K, 4]
    # every client writes into the first row
    state[0, 2:] = latest[-1]
    state[1:, 2:] = 0.0
    memory["released_state"] = state
    memory["reward"] = reward
    return nets.mu(learner.weights, first_rows)


@dataclass(frozen=True)
class Released:
    """The script's nets over N clients: one per client, a critic and what it calls a mixer."""

    agents: int
    gamma: float

    @property
    def layers(self) -> qmix.Layers:
        state = 4 * self.agents
        return {
            "agent_in": (self.agents, 64, state),
            "agent_middle": (self.agents, 64, 64),
            "agent_out": (self.agents, 1, 64),
            "critic_in": (128, state),
            "critic_middle": (128, 128),
            "critic_out": (1, 128),
            "mixer_in": (128, 1),
            "mixer_out": (1, 128),
        }

    def outputs(self, weights: Tensor, x: Tensor) -> Tensor:
        """Answers of every net to x [M, 4 N]: [M, N] in (0, 1)."""
        layers = qmix.unpacked(weights, self.layers)
        x = x[:, None].expand(-1, self.agents, -1)  # [M, N, 4 N]
        for name in ("agent_in", "agent_middle", "agent_out"):
            weight, bias = layers[name]
            x = torch.einsum("noi,mni->mno", weight, x) + bias
            x = x.relu() if name != "agent_out" else x.sigmoid()
        return x[:, :, 0]

    def mu(self, weights: Tensor, first_rows: Tensor) -> Tensor:
        """float64 [K] in (0.5, 0.731) for the first client's row [K, 4] as it was before each
        client.
        """
        answers = self.outputs(weights, first_rows.repeat(1, self.agents))  # [K, N]
        return answers.double().mean(1).sigmoid()

    def loss(self, weights: Tensor, state: Tensor, reward: Tensor) -> Tensor:
        """Squared distance of each net to a target that learns as well, and sees neither the next
        state nor mu.
        """
        layers = qmix.unpacked(weights, self.layers)
        x = state.reshape(1, -1)
        critic = qmix.perceptron(
            layers,
            x,
            "critic_in",
            "critic_middle",
            "critic_out",
        )
        mixed = qmix.perceptron(layers, critic, "mixer_in", "mixer_out")
        target = reward + self.gamma * mixed.sigmoid()  # [1, 1]
        return (target - self.outputs(weights, x)).square().mean()


register(
    "fedmrl",
    FairProx(),
    AgentsAndMap(),
    label="FedMRL",
    about="learns how strongly to bind each hospital to the shared model, and evens out "
    "their losses",
    families="hospital",
)
