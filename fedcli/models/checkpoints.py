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


def part(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def fill(module: nn.Module, tensors: Tensors, what: str, hint: str, elsewhere: tuple[str, ...] = ()) -> None:
    """Put tensors into a module, all but those that come from elsewhere. Raises FedcliError with `what` in front."""
    expected = {name: tensor for name, tensor in module.state_dict().items() if name not in elsewhere}
    for name, tensor in expected.items():
        if name not in tensors and not name.endswith("num_batches_tracked"):
            raise FedcliError(f"{what}{name} is missing", hint)
        if name in tensors and not _fits(tensors[name], tensor):
            raise FedcliError(f"{what}{name} has shape {tuple(tensors[name].shape)}, not {tuple(tensor.shape)}", hint)
    if unknown := [name for name in tensors if name not in expected]:
        raise FedcliError(f"{what}{unknown[0]} is unknown", hint)
    module.load_state_dict({name: t.view_as(expected[name]) for name, t in tensors.items()}, strict=False)


def _fits(given: Tensor, expected: Tensor) -> bool:
    return given.shape == expected.shape or given.numel() == expected.numel() == 1  # logit_scale: [] or [1]
