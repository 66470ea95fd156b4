"""FedOTP: one prompt is shared, one stays with the client, and transport plans give each the
patches that suit it.

Source: Li, Huang, Wang and Shi, "Global and local prompts cooperation via optimal transport for
federated learning", CVPR 2024, arXiv 2403.00041; as a rival in FairFedMed, arXiv 2508.00873, whose
code this follows. CLIP is frozen. With x_m the M patches of an image and t_cn the text of class c
under prompt n, all of length 1,

    C[m, n] = 1 - x_m . t_cn        T minimises <T, C> - eps H(T)
    logit_c = scale * sum_mn T[m, n] x_m . t_cn        averaged over the slabs of a volume

under sum_n T[m, n] <= 1 / M and sum_m T[m, n] = tau / N: a share 1 - tau of the image suits neither
prompt and is left out. tau=1 leaves nothing out, which is balanced Sinkhorn. See transport.py; no
gradient goes through T. Context 0 is averaged by image count; context 1 never leaves the client,
which keeps it while it is absent. A client is scored with its own; the global model that is scored
has the mean of the local contexts by image count, and is sent to no client. How we differ from the
authors' code, and why:
- their first round trains all clients, so that each owns a local prompt when it is tested. Here a
  client that has not been there yet starts from the one initial local prompt, and --participation
  holds from the first round.
- plans are computed in float32, by logarithms and to a tolerance. Their loop in half precision
  divides 0 by 0 at eps = 0.01; at eps = 0.1 its early stop changes scores by about 1e-5.
- the projection of a volume's slices trains and travels, see promptfl.py; rule=released leaves it
  at random.
FairFedMed ran 50 rounds on photographs and 30 on volumes. 32 images, 7 classes, 196 patches: plans
take 12 ms on one core.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from torch import Tensor, nn

from ..models.clip_text import freeze
from ..models.network import Network
from .fedavg import Mean
from .promptfl import DEFAULT_TRAINING, Prompted
from .registry import register
from .transport import transport_plan

if TYPE_CHECKING:
    from ..models.clip_text import PromptHead


class TransportHead(nn.Module):
    """Logits [B, C] of tokens [B, S, M, D]: cosines with every prompt's text, weighted by transport
    plans.
    """

    def __init__(self, prompts: "PromptHead", tau: float, eps: float):
        super().__init__()
        self.prompts = prompts
        self.tau = tau
        self.eps = eps

    def forward(self, tokens: Tensor) -> Tensor:
        similarity = self.prompts.similarity(tokens)  # [B, S, C, M, N]
        cost = 1 - similarity.detach()
        plan = transport_plan(cost, self.tau, self.eps)
        weighted = plan * similarity
        matched = weighted.sum((-2, -1))  # [B, S, C]
        return self.prompts.scale * matched.mean(1)


@dataclass(frozen=True)
class Transported(Prompted):
    """Train a shared and an own context, to which transport plans give the patches; all else is
    frozen.
    """

    not_recorded = (
        "a transport plan is done when it has settled, and checking that waits for the GPU"
    )

    tau: Annotated[
        float, "share of an image that is matched, in (0, 1]; 1 is balanced transport"
    ] = 0.8
    eps: Annotated[
        float, "strength of the entropy, in units of cosine, > 0; FedOTP on few images: 0.01"
    ] = 0.1

    def extend(self, net: Network) -> None:
        freeze(net, slices=self.rule == "paper")
        prompts = net.make_prompts(2, self.length)
        net.head = TransportHead(
            prompts,
            self.tau,
            self.eps,
        )

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        return ("head.prompts.context.1",)


register(
    "fedotp",
    Transported(),
    Mean(),
    label="FedOTP",
    about="trains a shared and a local prompt of CLIP, matched to parts of the image",
    families="large",
    default_training=DEFAULT_TRAINING,
)
