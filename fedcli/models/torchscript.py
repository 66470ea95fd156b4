"""The tensors of a TorchScript archive, such as OpenAI's ViT-B-32.pt, without running anything in
it.

torch.jit.load would compile the code that lies beside the tensors, and
torch.load(weights_only=True) refuses the classes of that code. Here the table of the archive
(data.pkl) is read by an unpickler that knows four kinds of name only, each for something that keeps
what it is given: a module, a tensor, its storage's type, a list or dict. The code is not read.
Tested on archives that torch.jit.save writes; OpenAI's own file was not at hand.
"""

import io
import math
import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import FedcliError
from ..io.pickles import UNTRUSTED, check_operations, damaged

STORAGES = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "DoubleStorage": torch.float64,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
DEEPEST = 100  # modules within modules
TABLE = "data.pkl"


class _Unknown(Exception):
    """A name that the table of a network's tensors does not need."""


class _Module:
    """An object of any class of the archive's own code; its tensors and modules come with BUILD."""

    def __init__(self, *_: Any):
        self.attributes: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.attributes = state


def _tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    *_: Any,
) -> Tensor:
    """A tensor over a storage. Raises ValueError where it would reach beyond it."""
    if not isinstance(storage, Tensor) or math.prod(size) > max(len(storage), 1):
        raise ValueError("a tensor is larger than what is stored of it")
    return torch.as_strided(storage, size, stride, offset)


CALLED = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("collections", "OrderedDict"): dict,
}


def _content(archive: zipfile.ZipFile, name: str, packed: str) -> bytes:
    """The bytes of an entry. Raises ValueError where they are compressed, to any size."""
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(packed)
    return archive.read(entry)


class _OnlyTensors(pickle.Unpickler):
    def __init__(self, data: bytes, archive: zipfile.ZipFile, root: str):
        super().__init__(io.BytesIO(data))
        self.archive = archive
        self.root = root
        self.storages: dict[str, bytearray] = {}  # each is read once, however often it is named

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.".startswith("__torch__."):
            return _Module
        dtype = STORAGES.get(name)
        if module == "torch" and dtype:
            return dtype
        if module == "torch.jit._pickle" and name.startswith("build_"):
            return list
        if (module, name) not in CALLED:
            raise _Unknown(f"{module}.{name}")
        return CALLED[module, name]

    def persistent_load(self, saved: Any) -> Tensor:
        """A storage as a flat tensor, from ("storage", type, number, device, length)."""
        kind, dtype, key, _, count = saved
        if kind != "storage" or not isinstance(dtype, torch.dtype) or not str(key).isdecimal():
            raise ValueError("it names a storage that is none")
        if key not in self.storages:
            content = _content(
                self.archive,
                f"{self.root}data/{key}",
                "its storages are packed",
            )
            self.storages[key] = bytearray(content)
        data = self.storages[key]
        return torch.frombuffer(data, dtype=dtype)[:count] if data else torch.empty(0, dtype=dtype)


def is_archive(names: Iterable[str]) -> bool:
    """Tell whether a zip file with entries of these names is a TorchScript archive."""
    return any(name.endswith("/constants.pkl") for name in names)


def read(path: Path) -> dict[str, Tensor]:
    """Every tensor of the network by its name, as its state_dict has it. Raises FedcliError."""
    tensors: dict[str, Tensor] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            _collect(_network(path, archive), "", tensors, 0)
    except _Unknown as name:
        sentence = f"{path} holds a table that calls {name}, not only modules and tensors"
        raise FedcliError(sentence, UNTRUSTED) from None
    except FedcliError:
        raise
    except Exception as error:
        raise damaged(path, error) from None
    return tensors


def _network(path: Path, archive: zipfile.ZipFile) -> Any:
    """The object of the archive's table, with its tensors. Raises FedcliError, and what a damaged
    table leads to.
    """
    roots = []
    for name in archive.namelist():
        if name.endswith(f"/{TABLE}") and name.count("/") == 1:
            roots.append(name.removesuffix(TABLE))
    data = _content(archive, f"{roots[0]}{TABLE}", "its table is packed")
    check_operations(path, data, "a table")
    return _OnlyTensors(data, archive, roots[0]).load()


def _collect(
    module: Any,
    prefix: str,
    tensors: dict[str, Tensor],
    depth: int,
) -> None:
    if (
        not isinstance(module, _Module)
        or not isinstance(module.attributes, dict)
        or depth > DEEPEST
    ):
        raise ValueError("it holds no network")
    for name, value in module.attributes.items():
        if isinstance(value, Tensor):
            tensors[f"{prefix}{name}"] = value
        elif isinstance(value, _Module):
            _collect(value, f"{prefix}{name}.", tensors, depth + 1)
