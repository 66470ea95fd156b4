"""FedFV: remove from each update what conflicts with another client's, then average.

Source: Wang, Fan, Qi, Wen, Wang and Yu, IJCAI 2021, arXiv 2104.14937, Algorithms 1-3.
With g_k = theta - theta_k and clients in the order of their loss at theta, smallest first:
1. internal (Alg. 2): each g_k, but for the share `protect` (alpha) with the largest losses, loses
   its part along every g_j it conflicts with, <g_k, g_j> < 0, in that order; then they are
   averaged.
2. external (Alg. 3), from round tau + 1 on (tau = `lookback`): for each round in reach, oldest
   first, the mean loses its part along the sum of the last updates of clients last seen then, those
   that conflict with it.
3. the mean is stretched to the length of the mean of the g_k.
`rule=original` (default) reaches over rounds t - tau ... t - 1: absent clients only, so none when
all take part, as in the paper and the authors' first code. `released` reaches over t - tau + 1 ...
t, from round tau on, as their later code (flgo): with tau = 1 the participants themselves, in every
round. How we differ from both, and why:
- weights=samples lets the means go by n_k / n: without conflicts it is then FedAvg, bit by bit.
- protect=0 protects no client; ceil((K - 1)(1 - alpha)) alone would protect one.
- a mean of no length (below a millionth of the longest update) is not stretched.
- batch-norm statistics are averaged with n_k / n and never projected: they are no gradients.
All happens in the span of the updates, so it runs on coefficients and one table of inner products,
and the vectors are read twice. Last updates [T] are kept only of clients that a later round can
reach, those of a round with all clients too: a run may go on with fewer (--resume --force
--participation).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, by_row, gram
from .probes import LossBefore
from .registry import register


@dataclass(frozen=True)
class WithoutConflicts(LossBefore):
    """The mean of updates freed of conflicts."""

    needs = "updates"

    protect: Annotated[
        float, "alpha: share of clients, with the largest losses, never projected, in [0, 1]"
    ] = 0.1
    lookback: Annotated[
        int, "tau: past rounds whose clients count as external conflicts, >= 0; 0 is none"
    ] = 1
    weights: Annotated[
        Literal["uniform", "samples"], "how clients count in the means; uniform is the paper's"
    ] = "uniform"
    rule: Annotated[
        Literal["original", "released"], "who is external: the paper's rounds, or the code's"
    ] = "original"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        t = updates.layout.trainable
        k = len(updates.rows)
        p = updates.base  # [K]
        if self.weights == "uniform":
            p = torch.full_like(p, 1 / k)
        past_rounds, past_updates = self.absent(theta, updates, memory)
        g = gram(theta, updates, past_updates)  # [M, M], participants first
        # [M] coefficients: the result is sum_m c_m g_m
        plain = torch.zeros(len(g), dtype=torch.float64)
        plain[:k] = p.cpu()
        c = self.internal(g, plain, updates)
        c = self.external(c, g, updates, past_rounds)
        longest = g.diagonal().max().sqrt()
        if length(c, g) > 1e-6 * longest:
            stretch = length(plain, g) / length(c, g)
            c = c * stretch  # Alg. 1, the line after both
        out = average(updates.theta, c[:k].to(p.device))
        stay = 1 - c[:k].sum().item()
        out[:t] += stay * theta[:t]  # theta - sum_k c_k (theta - theta_k)
        past_shares = c[k:].tolist()
        for share, update in zip(past_shares, past_updates, strict=True):
            out[:t].sub_(update, alpha=share)
        buffers = updates.theta[:, t:]
        out[t:] = average(buffers, updates.base)
        return out, p

    def internal(
        self,
        g: Tensor,
        plain: Tensor,
        updates: ClientUpdates,
    ) -> Tensor:
        """Alg. 2: coefficients [M] of the mean of the projected updates."""
        losses = updates["loss_before"].tolist()
        rank = list(zip(losses, updates.rows.tolist(), strict=True))
        order = sorted(range(len(rank)), key=rank.__getitem__)
        protected = []  # those with the largest losses
        if self.protect > 0:
            share = 1 - Fraction(str(self.protect))
            unprotected = ceil((len(order) - 1) * share)
            protected = order[unprotected:]
        out = torch.zeros_like(plain)
        for i in order:
            c = torch.zeros_like(plain)  # [M] of client i
            c[i] = 1
            if i not in protected:
                self.project(c, g, i, order)
            out += plain[i] * c
        return out

    def project(self, c: Tensor, g: Tensor, i: int, order: list[int]) -> None:
        """Remove from c [M] of client i, in place, its part along each update that it opposes."""
        for j in order:
            dot = c @ g[j]
            if j != i and dot < 0:
                c[j] -= dot / g[j, j]

    def external(
        self,
        c: Tensor,
        g: Tensor,
        updates: ClientUpdates,
        past: list[int],
    ) -> Tensor:
        """Alg. 3: remove from c [M] what conflicts with each past round in reach.

        past: the rounds of the updates after the participants'.
        """
        rounds_of_updates = [updates.round] * len(updates.rows) + past
        rounds = torch.tensor(rounds_of_updates)  # [M] of each update
        start, last = self.reach(updates.round)
        if start < 1:
            return c
        for t in range(start, last + 1):
            conflicts = g @ c < 0
            opposed = (rounds == t) & conflicts
            against = opposed.double()  # [M]
            dot = against @ g @ c
            if dot < 0:
                factor = dot / (against @ g @ against)
                c = c - factor * against
        return c

    def reach(self, t: int) -> tuple[int, int]:
        """The first and the last round that round t looks back on."""
        if self.rule == "original":
            return t - self.lookback, t - 1
        return t - self.lookback + 1, t

    def absent(
        self, theta: Tensor, updates: ClientUpdates, memory: Tensors
    ) -> tuple[list[int], list[Tensor]]:
        """Rounds and last updates [T] of absent clients in reach; keeps this round's updates for
        later ones.
        """
        t = updates.layout.trainable
        rows = updates.rows.tolist()
        last = by_row(memory, "seen", updates, 0.0)  # [N], 0 before a client's first round
        last[updates.rows] = 0
        start, _ = self.reach(updates.round)
        past_rounds = []
        past_updates = []
        for row, past in enumerate(last.tolist()):
            if past >= max(1, start):
                past_rounds.append(int(past))
                past_updates.append(memory[f"update_{row}"])
        last[updates.rows] = float(updates.round)
        memory["seen"] = last
        next_start, _ = self.reach(updates.round + 1)
        for row, past in enumerate(last.tolist()):
            if past < next_start:
                memory.pop(f"update_{row}", None)
            elif row in rows:
                local = updates.theta[rows.index(row), :t]
                memory[f"update_{row}"] = theta[:t] - local
        return past_rounds, past_updates


def length(c: Tensor, g: Tensor) -> Tensor:
    """Norm of sum_m c_m g_m."""
    return (c @ g @ c).clamp_min(0).sqrt()


register(
    "fedfv",
    Plain(),
    WithoutConflicts(),
    label="FedFV",
    about="removes from each update what would harm the other hospitals",
    families="hospital",
)
