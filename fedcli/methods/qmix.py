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
HIDDEN, EMBED = 64, 32  # units of the agents and hypernetworks, and of the mixer
# Adam
RATE = 1e-3
BETAS = (0.9, 0.999)
STEPS, BATCH, CLIP = (
    16,
    32,
    10.0,
)  # of one round: gradient steps, transitions a step, largest gradient norm
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
        """Weights and biases uniform within 1 / sqrt(inputs), the default start of a linear layer."""
        draw = torch.Generator().manual_seed(seed)
        parts = [
            (2 * torch.rand(prod(shape) + prod(shape[:-1]), generator=draw) - 1) / shape[-1] ** 0.5
            for shape in layers.values()
        ]
        weights = torch.cat(parts)
        return cls(weights, torch.zeros_like(weights), torch.zeros_like(weights), torch.tensor(0))

    @classmethod
    def recall(cls, memory: Tensors, name: str) -> "Learner":
        return cls(*(memory[f"{name}_{field}"].cpu() for field in cls.__dataclass_fields__))

    def keep(self, memory: Tensors, name: str) -> None:
        memory.update(
            {f"{name}_{field}": getattr(self, field) for field in self.__dataclass_fields__}
        )

    def descend(
        self, loss: Callable[[Tensor], Tensor], clip: float = torch.inf
    ) -> tuple["Learner", Tensor]:
        """One step of Adam on loss(weights), and the loss before it."""
        weights = self.weights.clone().requires_grad_()
        with torch.enable_grad():
            value = loss(weights)
            (gradient,) = torch.autograd.grad(value, weights)
        gradient = gradient * (clip / gradient.norm()).clamp_max(1)  # a gradient of 0 stays 0
        steps = self.steps + 1
        mean = BETAS[0] * self.mean + (1 - BETAS[0]) * gradient
        square = BETAS[1] * self.square + (1 - BETAS[1]) * gradient.square()
        first, second = (1 - beta ** int(steps) for beta in BETAS)
        moved = self.weights - RATE * (mean / first) / ((square / second).sqrt() + 1e-8)
        return Learner(moved, mean, square, steps), value.detach()


def unpacked(weights: Tensor, layers: Layers) -> dict[str, tuple[Tensor, Tensor]]:
    """The weight and the bias of each layer, as views into weights [Q]."""
    pieces = iter(
        weights.split(
            [size for shape in layers.values() for size in (prod(shape), prod(shape[:-1]))]
        )
    )
    return {
        name: (next(pieces).view(shape), next(pieces).view(shape[:-1]))
        for name, shape in layers.items()
    }


def perceptron(layers: dict[str, tuple[Tensor, Tensor]], x: Tensor, *names: str) -> Tensor:
    """Linear layers with ReLU between them."""
    for name in names[:-1]:
        x = F.linear(x, *layers[name]).relu()
    return F.linear(x, *layers[names[-1]])


@dataclass(frozen=True)
class Transitions:
    """Records of M rounds: their states, what the agents chose in them, and what came of it."""

    state: Tensor  # [M, N, 4] before the choice
    last: Tensor  # int64 [M, N], the choice before that
    action: Tensor  # int64 [M, N]
    reward: Tensor  # [M]
    after: Tensor  # [M, N, 4] the state that followed

    def __len__(self) -> int:
        return len(self.reward)

    def __getitem__(self, at: Tensor) -> "Transitions":
        return Transitions(
            self.state[at], self.last[at], self.action[at], self.reward[at], self.after[at]
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
        who = torch.eye(self.agents).expand(len(state), -1, -1)
        seen = torch.cat(
            [state, who, F.one_hot(last, self.actions).float()], 2
        )  # [M, N, 4 + N + A]
        return perceptron(
            unpacked(weights, self.layers), seen, "agent_in", "agent_middle", "agent_out"
        )

    def total(self, weights: Tensor, chosen: Tensor, state: Tensor) -> Tensor:
        """Q_tot: [Q], the Q_h of the chosen actions [M, N], [M, N, 4] -> [M].

        Weights that act on the Q_h are absolute values, so Q_tot rises with each of them.
        """
        layers = unpacked(weights, self.layers)
        state = state.flatten(1)
        first = perceptron(layers, state, "mix_in", "mix_out").abs().view(-1, self.agents, EMBED)
        second = perceptron(layers, state, "sum_in", "sum_out").abs()  # [M, E]
        embedded = F.elu(
            (chosen[:, :, None] * first).sum(1) + perceptron(layers, state, "bias")
        )  # [M, E]
        return (embedded * second).sum(1) + perceptron(layers, state, "value_in", "value_out")[:, 0]

    def target(self, weights: Tensor, older: Tensor, seen: Transitions) -> Tensor:
        """Targets of Q_tot [M]: the newer weights choose the next actions, the older ones value
        them.
        """
        with torch.no_grad():
            best = self.utilities(weights, seen.after, seen.action).argmax(2, keepdim=True)
            worth = self.utilities(older, seen.after, seen.action).gather(2, best)[:, :, 0]
            return seen.reward + self.gamma * self.total(older, worth, seen.after)

    def loss(self, weights: Tensor, older: Tensor, seen: Transitions) -> Tensor:
        """Huber loss of the temporal difference."""
        chosen = self.utilities(weights, seen.state, seen.last).gather(2, seen.action[:, :, None])[
            :, :, 0
        ]
        return F.huber_loss(
            self.total(weights, chosen, seen.state), self.target(weights, older, seen)
        )

    def train(
        self, learner: Learner, older: Tensor, seen: Transitions, seed: int
    ) -> tuple[Learner, Tensor]:
        """A round's gradient steps on transitions drawn from all, and their mean loss."""
        draw = torch.Generator().manual_seed(seed)
        losses = []
        for _ in range(STEPS):
            batch = seen[torch.randperm(len(seen), generator=draw)[:BATCH]]
            learner, loss = learner.descend(partial(self.loss, older=older, seen=batch), CLIP)
            losses.append(loss)
        return learner, torch.stack(losses).mean()

    def choose(
        self, weights: Tensor, state: Tensor, last: Tensor, *, epsilon: float, seed: int
    ) -> Tensor:
        """An action each, int64 [N]: the best known, or one at random with probability epsilon."""
        draw = torch.Generator().manual_seed(seed)
        anything = torch.randint(self.actions, (self.agents,), generator=draw)
        explores = torch.rand(self.agents, generator=draw) < epsilon
        with torch.no_grad():
            best = self.utilities(weights, state[None], last[None])[0].argmax(1)
        return torch.where(explores, anything, best)


@dataclass(frozen=True)
class Moment:
    """The round of a run, t from 1; agents learn after `warmup` of them. seed: of the run."""

    round: int
    rounds: int
    warmup: int
    seed: int


def next_actions(
    agents: Qmix, memory: Tensors, state: Tensor, reward: Tensor, *, first: int, now: Moment
) -> Tensor:
    """One round of all agents: remember, learn, choose. Returns the actions of the next round,
    int64 [N].

    state: [N, 4] of this round.
    reward: of the round before, whose model was measured in this one.
    first: every agent's action in the first round.
    """
    if "qmix_weights" not in memory:
        Learner.start(agents.layers, derive("qmix", now.seed)).keep(memory, "qmix")
        memory["qmix_target"] = memory["qmix_weights"].clone()
    states, rewards, actions = _extended(memory, state, reward, first)
    learner = Learner.recall(memory, "qmix")
    older = memory["qmix_target"].cpu()
    seen = transitions(states, rewards, actions)
    if now.round > now.warmup and len(seen):
        learner, loss = agents.train(learner, older, seen, derive("replay", now.seed, now.round))
        learner.keep(memory, "qmix")
        memory["qmix_loss"] = loss
    if now.round % COPY == 0:
        memory["qmix_target"] = learner.weights.clone()
    epsilon = exploration(now.round, now.rounds, now.warmup)
    event = derive("epsilon", now.seed, now.round)
    chosen = agents.choose(learner.weights, state, actions[-1], epsilon=epsilon, seed=event)
    memory["epsilon"] = torch.tensor(epsilon, dtype=torch.float64)
    memory["qmix_states"], memory["qmix_rewards"] = states, rewards
    memory["qmix_actions"] = torch.cat([actions, chosen[None]])
    return chosen


def exploration(round: int, rounds: int, warmup: int) -> float:
    """The chance of a random action: 1 while the agents do not learn, then down to 0.05 in a line
    over the first half of the rounds that are left.
    """
    return min(1.0, max(0.05, 1 - 0.95 * 2 * (round - warmup) / max(rounds - warmup, 1)))


def transitions(states: Tensor, rewards: Tensor, actions: Tensor) -> Transitions:
    """All that is complete, from L rounds: states [L, N, 4], rewards [L] of the rounds before,
    actions [L, N] in them.

    The action chosen on the state of a round is that of the next, and its reward is known in the
    one after.
    """
    return Transitions(states[:-2], actions[:-2], actions[1:-1], rewards[2:], states[1:-1])


def _extended(
    memory: Tensors, state: Tensor, reward: Tensor, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The history with this round's numbers, cut to what the newest transitions need."""
    states = state[None].float()
    rewards = reward[None].float()
    actions = torch.full((1, len(state)), first)
    if "qmix_states" in memory:
        states = torch.cat([memory["qmix_states"].cpu(), states])
        rewards = torch.cat([memory["qmix_rewards"].cpu(), rewards])
        actions = memory["qmix_actions"].cpu()
    newest = slice(-CAPACITY - 2, None)
    return states[newest], rewards[newest], actions[newest]
