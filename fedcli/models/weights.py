"""Starting weights from a file or from torchvision, without ever running a pickle's code."""

import argparse
import json
import pickle
import re
import shlex
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import FedcliError, UsageError
from ..io.files import regular
from ..io.hdf5 import Column, below, open_hdf5
from ..provenance import LONG
from . import checkpoints, outside, torchscript
from .network import Network
from .vision import IMAGENET, imagenet

OLD = pickle.dumps(torch.serialization.MAGIC_NUMBER, protocol=2)  # how a file of torch.save began before it was a zip
NUMBERS = (  # torch can do little with the others, such as float8
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16,
    torch.int32, torch.int64,
)  # fmt: skip
PUBLISHED = "imagenet", "pretrained"  # words for the weights that are published with a network
HEADS = "fc.", "classifier.", "head.", "heads.", "AuxLogits.", "aux1.", "aux2."  # they are for other classes
BESIDE = (*HEADS, "decoder", "mask_token")  # the latter of masked autoencoders such as RETFound
CONTAINERS = "state_dict", "model", "teacher", "model_state_dict"  # the key of a checkpoint that holds its tensors


def load_weights(net: Network, name: str, weights: str) -> None:
    """Put starting weights into a network's backbone; the head keeps its seeded ones.

    weights: "imagenet" or "pretrained", or a .pth/.pt/.bin/.safetensors state dict in torchvision's, timm's or
    open_clip's names, see checkpoints.py, or a model of a fedcli run (.h5). Raises FedcliError when it cannot be read
    or does not fit.
    """
    tensors = _published(name, weights) if weights in PUBLISHED else read(Path(weights))
    known = net.backbone.state_dict()
    backbone = checkpoints.of_backbone(net.backbone, tensors, weights)
    backbone = {k: v for k, v in backbone.items() if k in known or not k.startswith(BESIDE)}
    if name == "densenet121":  # the files on torchvision's server predate today's names
        backbone = {re.sub(r"(norm|relu|conv)\.([12])\.", r"\1\2.", k): v for k, v in backbone.items()}
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


def _published(name: str, word: str) -> dict[str, Tensor]:
    try:
        if name in IMAGENET:
            return imagenet(name).get_state_dict(progress=False, check_hash=True)
        tensors = outside.published(name)
    except FedcliError:
        raise
    except (OSError, RuntimeError) as error:  # URLError is the first; the second: nobody publishes them
        place = imagenet(name).url if name in IMAGENET else "them"
        raise FedcliError(
            f"the {word} weights of {name} could not be downloaded: {' '.join(str(error).split())[:LONG]}",
            f"fetch {place} on a machine with a network and pass --weights FILE",
        ) from None
    if tensors is None:
        hint = f"models that have them: {', '.join(IMAGENET)}, and most of torchvision: and timm:"
        raise UsageError(f"there are no {word} weights for {name}", hint)
    return read(tensors) if isinstance(tensors, Path) else tensors


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name; of a checkpoint, those of its state_dict. Raises FedcliError."""
    if path.is_dir():
        raise FedcliError(f"{path} is a folder, not a weights file", "give a .pth, .safetensors or .h5 file")
    regular(path, 'give a weights file, or "imagenet"')
    kind, reader = READERS.get(path.suffix, ("a PyTorch file", _torch_file))
    try:
        tensors = reader(path)
    except FedcliError:
        raise
    except Exception as error:  # each library has its own errors and words; the user needs the one sentence
        raise FedcliError(
            f"{path} is not {kind}, or is damaged", "give a state dict of tensors: .pth, .safetensors, or a run's .h5"
        ) from error
    while isinstance(tensors, dict) and (key := next((k for k in CONTAINERS if isinstance(tensors.get(k), dict)), "")):
        tensors = tensors[key]
    if not isinstance(tensors, dict) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in tensors.items()
    ):
        raise FedcliError(f"{path} holds no state dict of tensors", "save net.state_dict() and pass that file")
    for name, tensor in tensors.items():
        if why := _unusable(tensor):
            raise FedcliError(f"{path}: {name} is {why}", "save the plain, finite tensors of net.state_dict()")
    return tensors


def _unusable(tensor: Tensor) -> str:
    """Why a tensor cannot start a network, "" where it can."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in NUMBERS:
        return f"{tensor.dtype} of layout {tensor.layout} on {tensor.device}, not a plain tensor of numbers"
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():  # as of expand(): any size
        return "larger than the numbers that the file holds for it"
    return "" if bool(torch.isfinite(tensor).all()) else "not finite: it holds NaN or infinity"


def _torch_file(path: Path) -> dict[str, Tensor]:
    if torchscript.is_archive(path):
        return torchscript.read(path)
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if not any(name.endswith("/data.pkl") for name in names) and not _begins(path, OLD):
        begun = _begins(path, b"PK")
        raise FedcliError(
            f"{path} is {'a damaged' if begun and not names else 'not a'} PyTorch file",
            "download or copy it again" if begun and not names else "give a file that torch.save wrote",
        )
    torch.serialization.add_safe_globals([argparse.Namespace])  # a bag of values, in checkpoints of training scripts
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # tensors only: nothing in the file is run
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


def _safetensors_file(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise FedcliError(f"reading {path} needs the package safetensors", "pip install safetensors") from None
    return load_file(path)


def _hdf5_file(path: Path) -> dict[str, Tensor]:
    expected = {"model/*": Column(rank=None)}
    with open_hdf5(path, expected, hint="give the model of a run") as file:
        return {name: torch.from_numpy(data[()]) for name, data in below(file, "model").items()}


READERS: dict[str, tuple[str, Any]] = {
    ".safetensors": ("a safetensors file", _safetensors_file),
    ".h5": ("the model of a run", _hdf5_file),
}
