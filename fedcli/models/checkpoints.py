"""The tensors of a network's backbone in a file that others wrote, under whatever name they put it.

torchvision's and timm's files name tensors as the network does. Others keep the network in a part of a larger one:
    visual.trunk.NAME       an open_clip model with timm's tower, such as BiomedCLIP
    visual.NAME             any other open_clip model, such as PubMedCLIP
    backbone.NAME           the teacher of a DINOv2 training
    module.NAME             a network that was trained on several GPUs
timm itself translates the original names of DINOv2, CLIP and others, and resizes position embeddings to another side.
"""

import sys
from collections import Counter
from typing import Any

from torch import Tensor, nn

from ..errors import FedcliError

Tensors = dict[str, Tensor]


def of_backbone(backbone: nn.Module, tensors: Tensors, file: str) -> Tensors:
    """The tensors under the prefix that most of the backbone's own names have. Raises FedcliError."""
    return _translated(backbone, _without_prefix(set(backbone.state_dict()), tensors, file), file)


def _without_prefix(known: set[str], tensors: Tensors, file: str) -> Tensors:
    counts: Counter[str] = Counter()
    for name in tensors:
        places = [0, *(at + 1 for at, letter in enumerate(name) if letter == ".")]
        counts.update(name[:at] for at in places if name[at:] in known)
    most = max(counts.values(), default=0)
    prefixes = [prefix for prefix, count in counts.items() if count == most]
    if 2 * most < len(known) or "" in prefixes:
        return tensors
    if len(prefixes) > 1:
        both = " and ".join(prefixes[:2])
        raise FedcliError(f"{file} holds several networks, such as {both}", "save one of them: net.state_dict()")
    return {name.removeprefix(prefixes[0]): tensors[name] for name in tensors if name.startswith(prefixes[0])}


def _translated(backbone: nn.Module, tensors: Tensors, file: str) -> Tensors:
    """With the names and sizes of timm's network, where the backbone is one."""
    module = type(backbone).__module__
    translate: Any = getattr(sys.modules[module], "checkpoint_filter_fn", None) if module.startswith("timm.") else None
    if translate is None:
        return tensors
    try:
        return dict(translate(dict(tensors), backbone))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise FedcliError(
            f"timm cannot read {file} as its network: {message}", "give weights of this network"
        ) from error
