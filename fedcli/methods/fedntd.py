"""FedNTD: local models keep what the global model says of the classes that an image does not have.

Source: Lee, Jeong, Shin, Bae and Yun, "Preservation of the global knowledge by not-true
distillation in federated learning", NeurIPS 2022, arXiv 2106.03097. With z the logits, z_g those of
the global model and both without the true class y, q = softmax(z / tau) and q_g = softmax(z_g /
tau) over the other C - 1 classes, an image's loss is

    cross-entropy + beta tau^2 KL(q_g || q)

so that local training does not forget classes that a client has few images of.
How we differ, and why:
- the factor tau^2 is that of the authors' code (Lee-Gihun/FedNTD), as is usual in distillation; at
  tau = 1, the default, it changes nothing.
- the global model sees the same augmented batch in eval mode; that code leaves it in training mode.
- of two classes one is not true, whose softmax is 1 whatever the logits: FedNTD is then FedAvg, and
  a run says so.
The paper's text was not at hand, so its equations are not numbered here and the defaults are those
of PFLlib.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .helpers import logits_of
from .registry import register


@dataclass(frozen=True)
class NotTrue(Local):
    """Cross-entropy, and the distance to the global model's opinion of the classes that are not
    true.
    """

    cost = {"step": 1, "look": 1}
    needs_one_label = "it leaves the one true class out"
    works_without_server = False

    beta: Annotated[float, "strength of the distillation, >= 0; 0 is FedAvg"] = 1.0
    tau: Annotated[float, "temperature of both softmaxes, > 0"] = 1.0

    def warning(self, net: Network, rounds: int) -> str:
        if len(net.class_names) > 2:
            return ""
        return "of two classes only one is not true, so FedNTD is FedAvg"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        # [P] with the client's own statistics under --bn local
        client.scratch["global"] = client.layout.read()

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        z = net(batch.x)  # [B, C]
        z_g = logits_of(net, client.scratch["global"], batch.x, client)  # [B, C]
        others = not_true(z.shape[1], batch.y)  # [B, C - 1]
        scaled = z.gather(1, others) / self.tau
        log_q = scaled.log_softmax(1)
        scaled_global = z_g.gather(1, others) / self.tau
        log_q_g = scaled_global.log_softmax(1)
        distance = F.kl_div(
            log_q,
            log_q_g,
            reduction="batchmean",
            log_target=True,
        )
        loss = cross_entropy(z, batch.y, client)
        return loss + self.beta * self.tau**2 * distance


def not_true(classes: int, y: Tensor) -> Tensor:
    """The other classes of each image, rising: [B] -> int64 [B, C - 1]."""
    positions = torch.arange(classes - 1, device=y.device)
    others = positions.expand(len(y), -1)
    return others + (others >= y[:, None])


register(
    "fedntd",
    NotTrue(),
    Mean(),
    label="FedNTD",
    about="keeps at each hospital what the shared model knows about classes that are rare there",
    families="drift",
)
