"""QMIX: agents that share one small Q-network, mixed into one value that rises with each of theirs.

Source: Rashid, Samvelyan, Schroeder de Witt, Farquhar, Foerster and Whiteson, ICML 2018, arXiv
1803.11485, section 4; the mixer has the form of the authors' PyMARL. Part of FedMRL, and no method
by itself.
- an agent is one client, a step one round, and there is no recurrence: an agent sees the numbers of
  its client, who it is and what it chose last. The state is the numbers of all clients.
- targets are those of double Q-learning; no step ends an episode, since the reward of a run's last
  round would come after the run.
- everything lies on the CPU, whatever trains the clients: nets this small are no faster elsewhere,
  and choose the same beside any device. Weights are flat vectors, so that they are saved as they
  are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from ..seeds import derive
from .contract import Tensors

FEATURES = 4  # numbers seen of each client
HIDDEN = 64  # units of the agents and hypernetworks
EMBED = 32  # units of the mixer
RATE = 1e-3  # of Adam
BETAS = (0.9, 0.999)  # of Adam
STEPS = 16  # gradient steps of one round
BATCH = 32  # transitions a step
CLIP = 10.0  # largest gradient norm
CAPACITY = 1000  # transitions kept
COPY = 5  # rounds from one copy of the target network to the next

Layers = dict[str, tuple[int, ...]]  # name -> shape of the weight, the number of its inputs last


@dataclass(frozen=True)
class Learner:
    """Weights of some layers, and Adam's moments of them."""

    weights: Tensor  # [Q]
    mean: Tensor  # [Q]
    square: Tensor  # [Q]
    steps: Tensor  # int64, a scalar

    @classmethod
    def start(cls, layers: Layers, seed: int) -> "Learner":
        """Weights and biases uniform within 1 / sqrt(inputs), as linear layers start by default."""
        draw = torch.Generator().manual_seed(seed)
        parts = []
        for shape in layers.values():
            biases = prod(shape[:-1])
            count = prod(shape) + biases
            draws = torch.rand(count, generator=draw)
            uniform = 2 * draws - 1
            bound = shape[-1] ** 0.5
            parts.append(uniform / bound)
        weights = torch.cat(parts)
        zeros = torch.zeros_like(weights)
        return cls(weights, zeros, zeros.clone(), torch.tensor(0))

    @classmethod
    def recall(cls, memory: Tensors, name: str) -> "Learner":
        """The learner that keep() put into memory under this name."""
        parts = [memory[f"{name}_{field}"].cpu() for field in cls.__dataclass_fields__]
        return cls(*parts)

    def keep(self, memory: Tensors, name: str) -> None:
        """Put all tensors into memory, under names that begin with this one."""
        for field in self.__dataclass_fields__:
            memory[f"{name}_{field}"] = getattr(self, field)

    def descend(
        self, loss: Callable[[Tensor], Tensor], clip: float = torch.inf
    ) -> tuple["Learner", Tensor]:
        """One step of Adam on loss(weights), and the loss before it."""
        weights = self.weights.clone().requires_grad_()
        with torch.enable_grad():
            value = loss(weights)
            (gradient,) = torch.autograd.grad(value, weights)
        factor = (clip / gradient.norm()).clamp_max(1)
        gradient = gradient * factor  # a gradient of 0 stays 0
        steps = self.steps + 1
        beta1, beta2 = BETAS
        mean = beta1 * self.mean + (1 - beta1) * gradient
        square = beta2 * self.square + (1 - beta2) * gradient.square()
        unbiased_mean = mean / (1 - beta1 ** int(steps))
        unbiased_square = square / (1 - beta2 ** int(steps))
        scale = unbiased_square.sqrt() + 1e-8
        moved = self.weights - RATE * unbiased_mean / scale
        return Learner(moved, mean, square, steps), value.detach()


def unpacked(weights: Tensor, layers: Layers) -> dict[str, tuple[Tensor, Tensor]]:
    """The weight and the bias of each layer, as views into weights [Q]."""
    sizes = []
    for shape in layers.values():
        sizes += [prod(shape), prod(shape[:-1])]
    pieces = weights.split(sizes)
    parts = {}
    pairs = zip(layers, pieces[::2], pieces[1::2], strict=True)
    for name, weight, bias in pairs:
        shape = layers[name]
        parts[name] = weight.view(shape), bias.view(shape[:-1])
    return parts


def perceptron(
    layers: dict[str, tuple[Tensor, Tensor]],
    x: Tensor,
    *names: str,
) -> Tensor:
    """Linear layers with ReLU between them."""
    for name in names[:-1]:
        x = F.linear(x, *layers[name]).relu()
    return F.linear(x, *layers[names[-1]])


@dataclass(frozen=True)
class Transitions:
    """Records of M rounds: their states, the agents' choices in them, and the outcome."""

    state: Tensor  # [M, N, 4] before the choice
    last: Tensor  # int64 [M, N], the choice before that
    action: Tensor  # int64 [M, N]
    reward: Tensor  # [M]
    after: Tensor  # [M, N, 4] the state that followed

    def __len__(self) -> int:
        return len(self.reward)

    def __getitem__(self, rounds: Tensor) -> "Transitions":
        return Transitions(
            self.state[rounds],
            self.last[rounds],
            self.action[rounds],
            self.reward[rounds],
            self.after[rounds],
        )


@dataclass(frozen=True)
class Qmix:
    """N agents with A actions each: the form of the networks, and what they learn from."""

    agents: int
    actions: int
    gamma: float

    @property
    def layers(self) -> Layers:
        n = self.agents
        state = FEATURES * self.agents
        return {
            "agent_in": (HIDDEN, FEATURES + n + self.actions),
            "agent_middle": (HIDDEN, HIDDEN),
            "agent_out": (self.actions, HIDDEN),
            "mix_in": (HIDDEN, state),  # hypernetwork of the mixer's first weight
            "mix_out": (n * EMBED, HIDDEN),
            "bias": (EMBED, state),  # of its first bias
            "sum_in": (HIDDEN, state),  # of its second weight
            "sum_out": (EMBED, HIDDEN),
            "value_in": (EMBED, state),  # of its second bias
            "value_out": (1, EMBED),
        }

    def utilities(self, weights: Tensor, state: Tensor, last: Tensor) -> Tensor:
        """Q_h of every action: [Q], [M, N, 4], [M, N] -> [M, N, A]."""
        layers = unpacked(weights, self.layers)
        identity = torch.eye(self.agents)
        agent = identity.expand(len(state), -1, -1)
        action = F.one_hot(last, self.actions).float()
        inputs = torch.cat([state, agent, action], 2)  # [M, N, 4 + N + A]
        return perceptron(
            layers,
            inputs,
            "agent_in",
            "agent_middle",
            "agent_out",
        )

    def total(self, weights: Tensor, chosen: Tensor, state: Tensor) -> Tensor:
        """Q_tot: [Q], the Q_h of the chosen actions [M, N], [M, N, 4] -> [M].

        Weights that act on the Q_h are absolute values, so Q_tot rises with each of them.
        """
        layers = unpacked(weights, self.layers)
        state = state.flatten(1)
        mix = perceptron(layers, state, "mix_in", "mix_out").abs()  # [M, N E]
        bias = perceptron(layers, state, "bias")  # [M, E]
        mixing = mix.view(-1, self.agents, EMBED)
        mixed = chosen[:, :, None] * mixing  # [M, N, E]
        embedded = F.elu(mixed.sum(1) + bias)  # [M, E]
        second = perceptron(layers, state, "sum_in", "sum_out").abs()  # [M, E]
        value = perceptron(layers, state, "value_in", "value_out")  # [M, 1]
        mixed_sum = (embedded * second).sum(1)
        return mixed_sum + value[:, 0]

    @torch.no_grad()
    def target(
        self,
        weights: Tensor,
        older: Tensor,
        records: Transitions,
    ) -> Tensor:
        """Targets of Q_tot [M]: the newer weights choose the next actions, the older ones value
        them.
        """
        after = records.after
        next_utilities = self.utilities(weights, after, records.action)
        best = next_utilities.argmax(2, keepdim=True)
        older_utilities = self.utilities(older, after, records.action)
        worth = older_utilities.gather(2, best)[:, :, 0]
        total = self.total(older, worth, after)
        return records.reward + self.gamma * total

    def loss(
        self,
        weights: Tensor,
        older: Tensor,
        records: Transitions,
    ) -> Tensor:
        """Huber loss of the temporal difference."""
        utilities = self.utilities(weights, records.state, records.last)  # [M, N, A]
        actions = records.action[:, :, None]
        chosen = utilities.gather(2, actions)[:, :, 0]
        total = self.total(weights, chosen, records.state)
        return F.huber_loss(total, self.target(weights, older, records))

    def train(
        self, learner: Learner, older: Tensor, records: Transitions, seed: int
    ) -> tuple[Learner, Tensor]:
        """A round's gradient steps on transitions drawn from all, and their mean loss."""
        draw = torch.Generator().manual_seed(seed)
        losses = []
        for _ in range(STEPS):
            order = torch.randperm(len(records), generator=draw)
            batch = records[order[:BATCH]]
            loss_of = partial(self.loss, older=older, records=batch)
            learner, loss = learner.descend(loss_of, CLIP)
            losses.append(loss)
        return learner, torch.stack(losses).mean()

    def choose(
        self,
        weights: Tensor,
        state: Tensor,
        last: Tensor,
        *,
        epsilon: float,
        seed: int,
    ) -> Tensor:
        """An action each, int64 [N]: the best known, or one at random with probability epsilon."""
        draw = torch.Generator().manual_seed(seed)
        anything = torch.randint(self.actions, (self.agents,), generator=draw)
        explores = torch.rand(self.agents, generator=draw) < epsilon
        with torch.no_grad():
            utilities = self.utilities(weights, state[None], last[None])[0]  # [N, A]
        return torch.where(explores, anything, utilities.argmax(1))


@dataclass(frozen=True)
class Moment:
    """The round of a run, t from 1; agents learn after `warmup` of them. seed: of the run."""

    round: int
    rounds: int
    warmup: int
    seed: int


def next_actions(
    agents: Qmix,
    memory: Tensors,
    state: Tensor,
    reward: Tensor,
    *,
    start: int,
    now: Moment,
) -> Tensor:
    """One round of all agents: remember, learn, choose. Returns the actions of the next round,
    int64 [N].

    state: [N, 4] of this round.
    reward: of the round before, whose model was measured in this one.
    start: every agent's action in the first round.
    """
    if "qmix_weights" not in memory:
        learner = Learner.start(agents.layers, derive("qmix", now.seed))
        learner.keep(memory, "qmix")
        memory["qmix_target"] = memory["qmix_weights"].clone()
    states, rewards, actions = _extended(memory, state, reward, start)
    learner = Learner.recall(memory, "qmix")
    older = memory["qmix_target"].cpu()
    records = transitions(states, rewards, actions)
    if now.round > now.warmup and len(records):
        seed = derive("replay", now.seed, now.round)
        learner, loss = agents.train(learner, older, records, seed)
        learner.keep(memory, "qmix")
        memory["qmix_loss"] = loss
    if now.round % COPY == 0:
        memory["qmix_target"] = learner.weights.clone()
    epsilon = exploration(now.round, now.rounds, now.warmup)
    event = derive("epsilon", now.seed, now.round)
    chosen = agents.choose(
        learner.weights,
        state,
        actions[-1],
        epsilon=epsilon,
        seed=event,
    )
    memory["epsilon"] = torch.tensor(epsilon, dtype=torch.float64)
    memory["qmix_states"] = states
    memory["qmix_rewards"] = rewards
    memory["qmix_actions"] = torch.cat([actions, chosen[None]])
    return chosen


def exploration(t: int, rounds: int, warmup: int) -> float:
    """The chance of a random action in round t.

    It is 1 while the agents do not learn, and then falls to 0.05 in a line over the first half of
    the remaining rounds.
    """
    remaining = max(rounds - warmup, 1)
    chance = 1 - 0.95 * 2 * (t - warmup) / remaining
    return min(1.0, max(0.05, chance))


def transitions(
    states: Tensor,
    rewards: Tensor,
    actions: Tensor,
) -> Transitions:
    """All that is complete, from L rounds: states [L, N, 4], rewards [L] of the rounds before,
    actions [L, N] in them.

    The action chosen on the state of a round is that of the next, and its reward is known in the
    one after.
    """
    actions_before = actions[:-2]
    return Transitions(
        states[:-2],
        actions_before,
        actions[1:-1],
        rewards[2:],
        states[1:-1],
    )


def _extended(
    memory: Tensors, state: Tensor, reward: Tensor, start: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The history with this round's numbers, cut to what the newest transitions need."""
    states = state[None].float()
    rewards = reward[None].float()
    actions = torch.full((1, len(state)), start)
    if "qmix_states" in memory:
        states = torch.cat([memory["qmix_states"].cpu(), states])
        rewards = torch.cat([memory["qmix_rewards"].cpu(), rewards])
        actions = memory["qmix_actions"].cpu()
    newest = slice(-CAPACITY - 2, None)
    return states[newest], rewards[newest], actions[newest]
