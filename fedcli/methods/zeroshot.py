"""Zero-shot CLIP: images are compared with the texts of the class names, and nothing is trained.

Source: Radford, Kim, Hallacy, Ramesh, Goh, Agarwal, Sastry, Askell, Mishkin, Clark, Krueger and
Sutskever, "Learning transferable visual models from natural language supervision", ICML 2021, arXiv
2103.00020, section 3.1. With x the pooled image and t_c the text "a photo of a NAME." of class c,
both of length 1, logit_c = scale x . t_c. It is the row under a table of methods that train CLIP:
how far they get from where they started. It needs CLIP's weights (--weights openai, or a file):
with random ones its answers are chance, and a run says so. How we differ, and why:
- one prompt; the paper also averages the texts of many, and words them for the dataset.
- class names are those of the dataset, with a blank for an underscore. A name that is a code means
  nothing to CLIP.
- a run has one round, in which clients only measure their loss. The scale is the one number that
  seems to train, since a model needs one; the server keeps it as it was.
Volumes are refused: CLIP has no weights for the projection of their slices.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..models.clip_text import MeanDirection
from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
)
from .registry import register


class ClassTexts(nn.Module):
    """scale times the cosine between an image and each class text [C, D]."""

    def __init__(self, texts: Tensor, log_scale: Tensor):
        super().__init__()
        self.texts = nn.Parameter(texts, requires_grad=False)
        self.log_scale = nn.Parameter(log_scale.detach().clone())

    def forward(self, direction: Tensor) -> Tensor:
        return self.log_scale.exp() * direction @ self.texts.T  # [B, C]


@dataclass(frozen=True)
class NoTraining(Local):
    """CLIP as it is."""

    cost = "nothing trains"
    model = "clip"
    freezes = True
    head = "prompts"
    own_loss = True
    needs_one_label = "it chooses one of the class texts by a softmax"

    def extend(self, net: Network) -> None:
        if not hasattr(net, "text_tower"):
            problem = "zero-shot classification needs a CLIP network"
            raise UsageError(problem, "--model clip-vit-b16")
        if net.backbone.slices is not None:
            problem = "CLIP has no weights for volumes, so it cannot classify them untrained"
            raise UsageError(problem, "train promptfl")
        text = net.text_tower()
        net.requires_grad_(False)
        net.tokens = net.backbone.pooled = True
        net.backbone = MeanDirection(net.backbone)
        net.head = ClassTexts(text.plain(), text.logit_scale)

    def warning(self, net: Network, rounds: int) -> str:
        if net.start:
            return ""
        return "CLIP has random weights, so its zero-shot answers are chance: give --weights openai"

    @torch.no_grad()
    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        return self.loss(net, batch, client)


@dataclass(frozen=True)
class Unchanged(Aggregator):
    """The model as it was."""

    cost = "nothing trains"
    needs = "sums"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        return theta, updates.base


register(
    "zero-shot",
    NoTraining(),
    Unchanged(),
    label="Zero-shot CLIP",
    aliases=("clip-zero-shot",),
    about="compares images with the class names by CLIP; nothing is trained",
    families="large",
    default_training={"rounds": 1},
)
