"""Tasks and reports as messages that any engine can carry: scalars that JSON can hold, and arrays.

A field that is a tensor becomes an array of its name, a field of tensors by name becomes arrays
such as shared/NAME or columns/NAME. The `memory`, which a client keeps between rounds, is never
packed: it stays where the client is. An engine whose workers keep nothing sends it beside the
message, see to_arrays().
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...errors import FedcliError
from ...methods.contract import Tensors
from ..client import ClientReport, ClientTask

Scalars = dict[str, Any]  # that JSON can hold
Arrays = dict[str, np.ndarray]
Message = tuple[Scalars, Arrays]
Content = TypeVar("Content", ClientTask, ClientReport)

STAY = ("memory", "out", "table", "is_global")  # fields that are never packed
KINDS = {str: "a text", int: "a whole number"}  # of scalars


class MessageError(FedcliError):
    """A message that holds no task or report."""


def pack(content: ClientTask | ClientReport) -> Message:
    """A task or a report as a message; its memory is left out."""
    scalars: Scalars = {}
    arrays: Arrays = {}
    for field in fields(content):
        value = getattr(content, field.name)
        if field.name in STAY:
            continue
        if isinstance(value, Tensor):
            arrays[field.name] = _array(value)
        elif isinstance(value, dict):
            for name, tensor in value.items():
                arrays[f"{field.name}/{name}"] = _array(tensor)
        else:
            scalars[field.name] = value
    return scalars, arrays


def unpack(
    kind: type[Content],
    message: Message,
    memory: Tensors | None = None,
    device: str = "cpu",
) -> Content:
    """The task or report of a message, with this memory; scalars without a field are ignored.

    Raises MessageError where a field is missing, or is no number, text or tensor as it should be.
    """
    scalars, arrays = message
    values: dict[str, Any] = {"memory": memory or {}}
    for field in fields(kind):
        name = field.name
        if field.type in KINDS:
            values[name] = _scalar(kind, name, field.type, scalars)
        elif field.type is Tensor:
            if name not in arrays:
                title = kind.__name__.lower().removeprefix("client")
                raise MessageError(f"a {title} arrived without its array {name!r}")
            values[name] = _tensor(arrays[name], device)
        elif name not in STAY:
            values[name] = tensors_below(f"{name}/", arrays, device)
    return kind(**values)


def tensors_below(prefix: str, arrays: Arrays, device: str = "cpu") -> Tensors:
    """The arrays whose names begin so as tensors, by the rest of their names."""
    tensors = {}
    for name, array in arrays.items():
        if name.startswith(prefix):
            tensors[name.removeprefix(prefix)] = _tensor(array, device)
    return tensors


def to_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """Tensors by name as arrays, which share their numbers where they are on the CPU."""
    return {name: _array(tensor) for name, tensor in tensors.items()}


def to_tensors(arrays: Mapping[str, np.ndarray], device: str = "cpu") -> Tensors:
    """Arrays by name as tensors that may be written to."""
    return {name: _tensor(array, device) for name, array in arrays.items()}


def _array(tensor: Tensor) -> np.ndarray:
    values = tensor.detach().cpu().numpy()
    return np.asarray(values, order="C")  # ascontiguousarray makes a vector of a scalar


def _tensor(array: np.ndarray, device: str) -> Tensor:
    """A tensor of an array's numbers, copied where an engine's array must not be written to."""
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array).to(device)


def _scalar(
    kind: type,
    name: str,
    type_: Any,
    scalars: Scalars,
) -> Any:
    value = scalars.get(name)
    if not isinstance(value, type_) or isinstance(value, bool):
        fault = "without one"
        if name in scalars:
            fault = f"with {str(value)[:40]!r}"
        title = kind.__name__.lower().removeprefix("client")
        raise MessageError(f"the {name} of a {title} is {KINDS[type_]}; one arrived {fault}")
    return value
