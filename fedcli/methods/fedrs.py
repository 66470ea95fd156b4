"""FedRS: a softmax that restrains the classes which a client has no image of.

Source: Li and Zhan, "FedRS: federated learning with restricted softmax for label distribution
non-IID data", KDD 2021, doi 10.1145/3447548.3467254, Eqs. 6-7.

    loss = -log softmax(s * logits)_y

so that images of other classes push a class's weights away s_c times as hard.

    paper       s_c = 1 for a class that the client has, alpha for one that it has not
    released    s_c = alpha + (1 - alpha) n_c / max n, as in the first author's code, which
                restrains rare classes too

alpha = 1 is FedAvg. 0.5 is the paper's. How we differ: the logits' biases are scaled too; the
paper's classifier has none. Checked against that code (lxcnju/FedRepo) and FedDecorr's authors'
(rule=paper); the paper's text was not at hand, so the numbers of its equations are not checked.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class Restricted(Local):
    """Cross-entropy over logits of which those of missing classes are scaled."""

    cost = {"step": 1}
    # a prior takes missing classes out of the softmax, and with them all that FedRS changes
    own_prior = True
    needs_one_label = "it restrains classes in one softmax"

    alpha: Annotated[
        float, "scale of the logits of classes that the client has not, in [0, 1]; 1 is FedAvg"
    ] = 0.5
    rule: Annotated[
        Literal["paper", "released"],
        "classes that the client has count equally, or by their images",
    ] = "paper"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        counts = client.shard.class_counts  # [C]
        present = (counts > 0).float() if self.rule == "paper" else counts / counts.max()
        client.scratch["scale"] = self.alpha + (1 - self.alpha) * present.float()  # [C]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        scaled_logits = net(batch.x) * client.scratch["scale"]
        return cross_entropy(
            scaled_logits,
            batch.y,
            client,
        )  # Eq. 7


register(
    "fedrs",
    Restricted(),
    Mean(),
    label="FedRS",
    about="restrains at each hospital the classes that it does not have",
    families="drift",
)
