"""BSM-FL: each client trains with a softmax that is balanced for its own class counts.

Source: Ren, Yu, Sheng, Ma, Zhao, Yi and Li, "Balanced meta-softmax for long-tailed visual
recognition", NeurIPS 2020, arXiv 2007.10740, Theorem 1; as a local loss in Fed-MAS (arXiv
2307.14959). Cross-entropy of logits + log(n_k / n). How we differ, and why:
- the counts are the client's own; the paper trains in one place with all of them. Its meta sampler
  is left out, as in Fed-MAS.
- a class the client has no image of counts as a share of 1e-12. `logit-adjust` removes it from the
  softmax instead.
- the prior is computed in float64 and added in float32, where the code of Fed-MAS turns all logits
  into float64.
- `--prior bsm` gives the same loss to any other method.
"""

from dataclasses import dataclass

from .contract import ClientRound, Local, Network
from .fedavg import Mean
from .priors import offset
from .registry import register


@dataclass(frozen=True)
class BalancedSoftmax(Local):
    """Cross-entropy after the logarithm of each class's share is added to its logit."""

    cost = {"step": 1}
    own_prior = True

    needs_one_label = "it balances one softmax over all classes"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.offset = offset("bsm", client.shard.class_counts)  # [C]


register(
    "bsm",
    BalancedSoftmax(),
    Mean(),
    label="BSM-FL",
    about="corrects each hospital's loss for how often its classes occur, so that rare "
    "diseases are not missed",
    families="rare",
    aliases=("bsm-fl", "balanced-softmax"),
)
