"""Logit adjustment: each client trains with logits shifted by the logarithm of its own class
shares.

Source: Menon, Jayasumana, Rawat, Jain, Veit and Kumar, "Long-tail learning via logit adjustment",
ICLR 2021, arXiv 2007.07314, Eq. 10. Cross-entropy of logits + tau log(n_k / n).
How we differ, and why:
- the shares are the client's own, as in FedISM+ (arXiv 2503.09587); the paper has those of one
  whole training set.
- a class the client has no image of is taken out of the softmax: its logarithm is -inf. `bsm` keeps
  it at a floor, and is the same as this with tau = 1 where no class is absent.
- `--prior logit-adjust` gives the same loss, with tau = 1, to any other method, and
  `--prior logit-adjust-all` that with the shares of all clients, as in the paper.
"""

from dataclasses import dataclass
from typing import Annotated

from .contract import ClientRound, Local, Network
from .fedavg import Mean
from .priors import offset
from .registry import register


@dataclass(frozen=True)
class Adjusted(Local):
    """Cross-entropy after tau times the logarithm of each class's share is added to its logit."""

    cost = {"step": 1}

    tau: Annotated[float, "temperature of the prior, >= 0; 0 only takes absent classes out"] = 1.0

    own_prior = True

    needs_one_label = "it adjusts one softmax over all classes"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts
        client.offset = offset("logit-adjust", counts, tau=self.tau)  # [C] Eq. 10


register(
    "logit-adjust",
    Adjusted(),
    Mean(),
    label="Logit adjustment",
    about="corrects each hospital's loss for its class frequencies, so that rare diseases "
    "are not missed",
    families="rare first",
    aliases=("logit-adjustment",),
)
