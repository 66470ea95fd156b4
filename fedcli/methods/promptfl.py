"""PromptFL: a frozen CLIP; clients learn the words before the class names, and only those travel.

Source: Guo, Guo, Wang, Tang and Xu, IEEE Transactions on Mobile Computing 2023, arXiv 2208.11625,
Algorithm 1; as a rival in FairFedMed, arXiv 2508.00873, whose code this follows.
One context of 4 tokens, shared by all classes, stands before every class name. With t_c the class's
text and x_m the image's M patches, all of length 1,

    logit_c = scale / M * sum_m x_m . t_c        averaged over the slabs of a volume

How this differs from PromptFL's own paper, as it was run in FairFedMed: patches stand in for the
pooled token, which our towers leave out; 4 tokens instead of 16 (option length); one local epoch
instead of 5 (--epochs); and by image count instead of a plain mean. There is no rule=original for
that reason.
How we differ from FairFedMed's code, and why:
- the projection of a volume's slices trains and travels as in FairLoRA. The code leaves it at its
  random start for prompt methods alone, so that they see volumes through noise: that is
  rule=released.
- every client takes part unless --participation says otherwise (theirs: 2 of 3 in each round).
- weights are float32, theirs float16; each round starts a fresh optimizer, theirs share one and its
  momentum.
A mean of cosines with a text is the text's product with the mean of the unit patches. That mean is
the image's feature here, so that where nothing in the tower trains and images are not augmented it
is computed once for the whole run.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from ..models.clip_text import prompted
from .contract import Local, Network
from .fedavg import Mean
from .registry import register

DEFAULT_TRAINING = {
    "optimizer": "sgd",
    "lr": 1e-3,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "rounds": 50,
}


@dataclass(frozen=True)
class Prompted(Local):
    """Train one context; all else is frozen."""

    cost = "little of the network trains"

    length: Annotated[int, "learned tokens before a class name, >= 1"] = 4
    rule: Annotated[
        Literal["paper", "released"], "released leaves a volume's slice projection at random"
    ] = "paper"

    model = "clip"
    freezes = True
    head = "prompts"

    needs_one_label = "it chooses one of the class texts by a softmax"

    def extend(self, net: Network) -> None:
        prompted(net, self.length, slices=self.rule == "paper")


register(
    "promptfl",
    Prompted(),
    Mean(),
    label="PromptFL",
    about="trains only words before the class names of a frozen CLIP network",
    families="large",
    default_training=DEFAULT_TRAINING,
)
