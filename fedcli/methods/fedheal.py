"""FedHEAL: keep the part of each update that agrees in sign over its client's rounds; favour clients that move far.

Source: Chen, Huang and Ye, CVPR 2024, arXiv 2405.16585, Eqs. 5-12 and Algorithm 1.
Paper and released code differ; rule=released (default) is what produced the printed tables:

                        released                              paper
    history             past rounds only (Eq. 5)              with the current one (Alg. 1, Eq. 6)
    kept if             consistency > tau                     consistency >= tau (Eq. 9)
    a zero change       counts as a fall                      counts as a rise (Eq. 5)
    distance            sum of the norms of the tensors       squared norm of the whole (Eq. 11)
    weights carried on  as a running sum                      normalised (Eq. 12)

How we differ from both, and why:
- tau is an exact fraction and histories are whole numbers: the code's running float proportion drifts
  and flips coordinates at ties.
- batch-norm statistics are averaged with p and never masked: a statistic is no direction of descent.
- partial participation works (the code stops with a KeyError): history and delta p count a client's own
  rounds, and p_k follows (1/N + sum of own delta p) / (1 + own rounds), which is the released rule when
  all take part.
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

from .contract import Aggregator, ClientUpdates, Tensors
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

    def aggregate(
        self, theta: Tensor, updates: ClientUpdates, memory: Tensors
    ) -> tuple[Tensor, Tensor]:
        t = updates.layout.trainable
        keep = self.consistent(theta, updates, memory) if self.parts != "fael" else None  # [K, T]
        # [K]
        p = self.weigh(theta, updates, memory, keep) if self.parts != "fphl" else updates.base
        total = torch.zeros_like(theta[:t])  # [T]
        moved = torch.zeros_like(theta[:t])  # [T]
        for k, weight in enumerate(p.tolist()):  # by rows: no second [K, P]
            delta = updates.theta[k, :t] - theta[:t]
            share = weight * keep[k] if keep is not None else torch.full_like(delta, weight)
            total += share
            moved.addcmul_(share, delta)
        out = average(updates.theta, p)  # its buffers are what we want
        out[:t] = theta[:t] + moved / total.where(total > 0, 1)  # Eq. 9; 0 where nobody kept it
        return out, p

    def consistent(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Tensor:
        """Eqs. 5-7: which coordinates of each update go the way most of its client's rounds went,
        bool [K, T].
        """
        t = updates.layout.trainable
        released = self.rule == "released"
        small = (
            torch.uint8
            if updates.rounds <= 255
            else torch.int16
            if updates.rounds <= 32767
            else torch.int32
        )
        rises = RowTable.of(
            memory.get("rises", RowTable((updates.roster, t), small, theta.device))
        )  # [N, T]
        seen = memory.get("seen", torch.zeros(updates.roster, dtype=torch.int64)).clone()  # [N]
        keep = torch.empty(len(updates.rows), t, dtype=torch.bool, device=theta.device)
        changed = {}
        for k, row in enumerate(updates.rows.tolist()):
            up = updates.theta[k, :t] > theta[:t] if released else updates.theta[k, :t] >= theta[:t]
            before = rises[row]
            agree = torch.where(up, before, int(seen[row]) - before)  # past rounds with this sign
            keep[k] = agree >= self.needed(int(seen[row]))
            changed[row] = before + up  # Eq. 6
        seen[updates.rows.cpu()] += 1
        memory["rises"] = rises.replaced(changed)  # type: ignore[assignment]
        memory["seen"] = seen
        return keep

    def histograms(self, memory: Tensors) -> Tensors:
        """Figure 2: in what share of its rounds a client moved each coordinate the way it moved it
        most often.
        """
        if "rises" not in memory:
            return {}
        counts = torch.zeros(len(memory["seen"]), BINS, dtype=torch.int64)  # [N, bins]
        for row, seen in enumerate(memory["seen"].tolist()):
            if seen:
                rises = torch.bincount(
                    memory["rises"][row].cpu(), minlength=seen + 1
                )  # coordinates by number of rises
                number = torch.arange(seen + 1)
                often = torch.maximum(number, seen - number)
                counts[row].index_add_(0, (often * BINS + seen - 1) // seen - 1, rises)
        return {"consistency": counts}

    def needed(self, past: int) -> int:
        """The number of past rounds that must agree: consistency > tau, or >= tau with the current
        round counted.
        """
        tau = Fraction(str(self.tau))
        if self.rule == "paper":
            return max(0, ceil(tau * (past + 1)) - 1)  # Eqs. 7, 9
        return floor(tau * past) + 1 if past else 0

    def weigh(
        self, theta: Tensor, updates: ClientUpdates, memory: Tensors, keep: Tensor | None
    ) -> Tensor:
        """Eqs. 11-12: weights [K] that follow each client's kept distance."""
        rows = updates.rows
        start = 1 / updates.roster
        increment = by_row(memory, "increment", updates, 0.0)  # delta p, [N]
        p = by_row(
            memory, "p", updates, start
        )  # paper: p itself; released: 1/N + the sum of own increments
        rounds = by_row(memory, "rounds", updates, 1.0)  # 1 + own rounds
        distance = self.distances(theta, updates, keep)  # [K]
        if distance.sum() > 0:
            before = p[rows].sum()
            increment[rows] = (1 - self.beta) * increment[
                rows
            ] + self.beta * distance / distance.sum()
            p[rows] += increment[rows]
            rounds[rows] += 1
            if self.rule == "paper":
                p[rows] *= before / p[rows].sum()  # Eq. 12, within the mass these clients had
        memory["increment"], memory["p"], memory["rounds"] = increment, p, rounds
        weights = p[rows] if self.rule == "paper" else p[rows] / rounds[rows]
        return weights / weights.sum()

    def distances(self, theta: Tensor, updates: ClientUpdates, keep: Tensor | None) -> Tensor:
        """Eq. 11: how far the kept part of each update goes, float64 [K]."""
        t = updates.layout.trainable
        spans = [updates.layout.spans[name] for name in updates.layout.weights]
        out = []
        for k in range(len(updates.rows)):
            kept = updates.theta[k, :t] - theta[:t]  # [T]
            kept = kept * keep[k] if keep is not None else kept
            norms = torch.stack(
                [torch.linalg.vector_norm(kept[span], dtype=torch.float64) for span in spans]
            )
            out.append(norms.sum() if self.rule == "released" else norms.square().sum())
        return torch.stack(out)


register(
    "fedheal",
    Plain(),
    Harmonized(),
    label="FedHEAL",
    about="keeps updates that agree in sign over rounds; favours clients that move far",
    families="domain",
)
