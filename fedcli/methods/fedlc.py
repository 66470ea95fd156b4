"""FedLC: logits are calibrated by a margin that is larger for the classes a client has few images
of.

Source: Zhang, Li, Li, Xu, Wu, Ding and Wu, "Federated learning with label distribution skew via
logits calibration", ICML 2022, arXiv 2209.00189. Cross-entropy of logits - tau n_k^(-1/4), n_k the
client's images of class k.
- the paper leaves the true class out of the softmax's denominator. Such a loss falls without end as
  one logit grows, and others report that training with it collapses; here, as in the code of
  Fed-MAS, the softmax is whole.
- it is computed in log space, which does not overflow.
- a class the client has no image of counts as 1e-8 images, which lowers its logit by 100 tau;
  absent=mask takes it out of the softmax.
- tau is 0.5 as in Fed-MAS; other benchmarks take 1. Between two classes the client has, the margin
  then differs by less than half a logit, as n^(-1/4) lies in (0, 1]: far less than the log-ratio of
  their counts that `bsm` adds.
- `--prior fedlc` gives the same loss, with these defaults, to any other method.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from .contract import ClientRound, Local, Network
from .fedavg import Mean
from .priors import offset
from .registry import register


@dataclass(frozen=True)
class LoweredByMargins(Local):
    """Cross-entropy after each logit is lowered by its class's margin."""

    cost = {"step": 1}

    tau: Annotated[float, "strength of the margin, >= 0; 0 is FedAvg"] = 0.5
    absent: Annotated[
        Literal["floor", "mask"], "a class without images: 1e-8 of them, or taken out"
    ] = "floor"

    own_prior = True

    needs_one_label = "its margins are in one softmax over all classes"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts
        client.offset = offset(
            "fedlc",
            counts,
            tau=self.tau,
            absent=self.absent,
        )  # [C]


register(
    "fedlc",
    LoweredByMargins(),
    Mean(),
    label="FedLC",
    about="demands a larger margin of rare classes, so that they are not overlooked",
    families="rare",
)
