"""FedHEAL: keep the part of each update that agrees in sign over its client's rounds; favour
clients that move far.

Source: Chen, Huang and Ye, CVPR 2024, arXiv 2405.16585, Eqs. 5-12 and Algorithm 1.
Paper and released code differ; rule=released (default) is what produced the printed tables:

                        released                              paper
    history             past rounds only (Eq. 5)              with the current one (Alg. 1, Eq. 6)
    kept if             consistency > tau                     consistency >= tau (Eq. 9)
    a zero change       counts as a fall                      counts as a rise (Eq. 5)
    distance            sum of the norms of the tensors       squared norm of the whole (Eq. 11)
    weights carried on  as a running sum                      normalised (Eq. 12)

How we differ from both, and why:
- tau is an exact fraction and histories are whole numbers: the code's running float proportion
  drifts and flips coordinates at ties.
- batch-norm statistics are averaged with p and never masked: a statistic is no direction of
  descent.
- partial participation works (the code stops with a KeyError): history and delta p count a client's
  own rounds, and p_k follows (1/N + sum of own delta p) / (1 + own rounds), which is the released
  rule when all take part.
- when no client moves, weights stay as they are; the code divides by zero.
- a coordinate that no client keeps stays as it is, as in the code; the paper leaves 0/0 open.
parts=fphl filters with the base weights n_k/n; parts=fael weighs without a filter.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average, by_row
from .mixins import Histograms
from .registry import register
from .row_table import RowTable

BINS = 10  # of a histogram, so that after ten rounds each bin holds one share


@dataclass(frozen=True)
class Harmonized(Histograms, Aggregator):
    """FPHL (parameter filter) and FAEL (weights by distance)."""

    cost = {}

    tau: Annotated[float, "share of rounds that must agree to keep a coordinate, in [0, 1)"] = 0.3
    beta: Annotated[
        float, "share of this round's distances in the change of the weights, in [0, 1]"
    ] = 0.4
    parts: Annotated[Literal["both", "fphl", "fael"], "the filter, the weights, or both"] = "both"
    rule: Annotated[
        Literal["released", "paper"], "history, ties and distance as in the code or the text"
    ] = "released"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        t = updates.layout.trainable
        keep = None
        if self.parts != "fael":
            keep = self.consistent(theta, updates, memory)  # [K, T]
        p = updates.base  # [K]
        if self.parts != "fphl":
            p = self.weigh(theta, updates, memory, keep)
        total = torch.zeros_like(theta[:t])  # [T]
        moved = torch.zeros_like(theta[:t])  # [T]
        for k, weight in enumerate(p.tolist()):  # by rows: no second [K, P]
            local = updates.theta[k, :t]
            delta = local - theta[:t]
            share = torch.full_like(delta, weight)
            if keep is not None:
                share = weight * keep[k]
            total += share
            moved.addcmul_(share, delta)
        out = average(updates.theta, p)  # its buffers are what we want
        divisor = total.where(total > 0, 1)
        out[:t] = theta[:t] + moved / divisor  # Eq. 9; 0 where nobody kept it
        return out, p

    def consistent(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        memory: Tensors,
    ) -> Tensor:
        """Eqs. 5-7: bool [K, T], True for coordinates of each update that go the way most of its
        client's rounds went.
        """
        t = updates.layout.trainable
        kind = smallest_type(
            updates.rounds
        )  # a resumed run may have more rounds than it began with
        empty = RowTable((updates.roster, t), kind, theta.device)
        rises = RowTable.of(memory.get("rises", empty)).typed(kind)  # [N, T]
        no_rounds = torch.zeros(updates.roster, dtype=torch.int64)
        rounds = memory.get("seen", no_rounds).clone()  # [N] past rounds of each client
        keep = torch.empty(
            len(updates.rows),
            t,
            dtype=torch.bool,
            device=theta.device,
        )
        changed = {}
        for k, row in enumerate(updates.rows.tolist()):
            local = updates.theta[k, :t]
            up = local > theta[:t] if self.rule == "released" else local >= theta[:t]
            past = int(rounds[row])
            before = rises[row]
            agree = torch.where(up, before, past - before)  # past rounds with this sign
            keep[k] = agree >= self.needed(past)
            changed[row] = before + up  # Eq. 6
        rounds[updates.rows.cpu()] += 1
        memory["rises"] = rises.replaced(changed)  # type: ignore[assignment]
        memory["seen"] = rounds
        return keep

    def histograms(self, memory: Tensors) -> Tensors:
        """Figure 2: the share of its rounds in which a client moved each coordinate the way it
        moved it most often.
        """
        if "rises" not in memory:
            return {}
        rounds = memory["seen"].tolist()
        counts = torch.zeros(len(rounds), BINS, dtype=torch.int64)  # [N, bins]
        for row, past in enumerate(rounds):
            if not past:
                continue
            rises = memory["rises"][row].cpu()
            coordinates = torch.bincount(rises, minlength=past + 1)  # by number of rises
            number = torch.arange(past + 1)
            often = torch.maximum(number, past - number)
            numerator = often * BINS + past - 1
            bins = numerator // past - 1
            counts[row].index_add_(0, bins, coordinates)
        return {"consistency": counts}

    def needed(self, past: int) -> int:
        """The number of past rounds that must agree: consistency > tau, or >= tau with the current
        round counted.
        """
        tau = Fraction(str(self.tau))
        if self.rule == "paper":
            rank = ceil(tau * (past + 1))
            return max(0, rank - 1)  # Eqs. 7, 9
        return floor(tau * past) + 1 if past else 0

    def weigh(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        memory: Tensors,
        keep: Tensor | None,
    ) -> Tensor:
        """Eqs. 11-12: weights [K] that follow each client's kept distance."""
        rows = updates.rows
        start = 1 / updates.roster
        increment = by_row(memory, "increment", updates, 0.0)  # delta p, [N]
        # paper: p itself; released: 1/N + the sum of own increments
        p = by_row(memory, "p", updates, start)
        rounds = by_row(memory, "rounds", updates, 1.0)  # 1 + own rounds
        distance = self.distances(theta, updates, keep)  # [K]
        total = distance.sum()
        if total > 0:
            before = p[rows].sum()
            fresh = self.beta * distance / total
            increment[rows] = (1 - self.beta) * increment[rows] + fresh
            p[rows] += increment[rows]
            rounds[rows] += 1
            if self.rule == "paper":
                p[rows] *= before / p[rows].sum()  # Eq. 12, within the mass these clients had
        memory["increment"] = increment
        memory["p"] = p
        memory["rounds"] = rounds
        weights = p[rows] if self.rule == "paper" else p[rows] / rounds[rows]
        return weights / weights.sum()

    def distances(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        keep: Tensor | None,
    ) -> Tensor:
        """Eq. 11: how far the kept part of each update goes, float64 [K]."""
        t = updates.layout.trainable
        spans = [updates.layout.spans[name] for name in updates.layout.weights]
        norm = torch.linalg.vector_norm
        out = []
        for k in range(len(updates.rows)):
            local = updates.theta[k, :t]
            update = local - theta[:t]  # [T]
            if keep is not None:
                update = update * keep[k]
            tensor_norms = [norm(update[span], dtype=torch.float64) for span in spans]
            norms = torch.stack(tensor_norms)
            if self.rule == "paper":
                norms = norms.square()
            out.append(norms.sum())
        return torch.stack(out)


def smallest_type(largest: int) -> torch.dtype:
    """The smallest type of whole numbers up to this one."""
    if largest <= 255:
        return torch.uint8
    return torch.int16 if largest <= 32767 else torch.int32


register(
    "fedheal",
    Plain(),
    Harmonized(),
    label="FedHEAL",
    about="keeps what hospitals with different scanners agree on, and helps those that are "
    "far from the average",
    families="domain first",
)
