"""q-FFL: clients weigh in proportion to their loss to the power q.

Source: Li, Sanjabi, Beirami and Smith, ICLR 2020, arXiv 1905.10497, Eq. 2 and Algorithm 2
(q-FedAvg); as a rule on weights in FedISM+, arXiv 2503.09587.

                weights                 step
    paper       n_k F_k^q  (default)    the weighted mean
    released    F_k^q                   the weighted mean (FFL4MIA; the printed tables)
    original    F_k^q                   q-FedAvg: the weighted mean update, times s
    s = 1 / sum_k w_k (1 + q ||D_k||^2 / (lr F_k)),  D_k = theta_k - theta over the trainable part

How we differ: F_k is plain cross-entropy of the broadcast model on the client's training images,
plus 1e-10. The last line is Algorithm 2 with L = 1/lr, common to all, written as a direction and a
length, so that it goes with any base; batch-norm statistics are averaged with w and not shortened.
Why it is not the default: for an lr of 1e-3 and usual updates s is below 0.01 and training stalls,
which the printed tables do not show. Why n_k stands in the default: q = 0 is then the base method.
Powers are taken of F_k / max F, which changes nothing but keeps a large q from running out of
range. Under secure aggregation no one knows max F: there the powers are of F_k itself, which a
large q can still take out of range.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, ClientUpdates, Tensors
from .fedavg import Plain
from .helpers import average
from .mixins import ClientPart, WeighsBySums
from .probes import LossBefore
from .registry import register


@dataclass(frozen=True)
class QFair(WeighsBySums, LossBefore):
    """Weights by loss ** q."""

    q: Annotated[float, "exponent, >= 0; 0 ignores losses, large follows the worst client"] = 1.0
    rule: Annotated[
        Literal["paper", "released", "original"], "n_k F^q, F^q, or the literal q-FedAvg step"
    ] = "paper"

    @property
    def one_rate(self) -> bool:  # type: ignore[override]
        """True where the step is divided by the learning rate."""
        return self.rule == "original"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        f = updates["loss_before"].double() + 1e-10  # [K] F_k
        weights = (f / f.max()) ** self.q
        if self.rule == "paper":
            weights = weights * updates.base
        weights = weights / weights.sum()
        out = average(updates.theta, weights)
        if self.rule == "original":
            moving = slice(updates.layout.trainable)
            lengths = []
            for row in updates.theta:
                update = row[moving] - theta[moving]  # [T]
                lengths.append(update.square().sum())
            squared = torch.stack(lengths).double()  # [K]
            divisor = updates.lr * f
            h = 1 + self.q * squared / divisor  # [K] over F^q L
            s = 1 / (weights @ h)  # Alg. 2, sum F^q L / sum h
            out[moving] = theta[moving].lerp(out[moving], float(s))
        return out, weights

    @property
    def sums(self) -> int:
        """No number with `original`, whose step also needs the length of each update."""
        return int(self.rule != "original")

    def number(self, client: ClientPart, sums: Sequence[Tensor]) -> Tensor:
        f = client.columns["loss_before"].double() + 1e-10
        return f**self.q * client.base if self.rule == "paper" else f**self.q


register(
    "qffl",
    Plain(),
    QFair(),
    label="q-FFL",
    aliases=("q-fedavg",),
    about="gives more weight to hospitals with a high loss; q sets how much more",
    families="hospital",
)
