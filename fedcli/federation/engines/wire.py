"""Tasks and reports as messages that any engine can carry: scalars that JSON can hold, and arrays by name.

A field that is a tensor becomes an array of its name, a field of tensors by name becomes arrays such as shared/NAME or
columns/NAME. What a client keeps between rounds, its `memory`, is never packed: it stays where the client is. An engine
whose workers keep nothing sends it beside the message, see to_arrays().
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...errors import FedcliError
from ...methods.contract import Tensors
from ..client import Report, Task

Scalars = dict[str, Any]  # what JSON can hold
Arrays = dict[str, np.ndarray]
Message = tuple[Scalars, Arrays]
Content = TypeVar("Content", Task, Report)

STAY = ("memory", "out", "table")  # fields that are never packed
KINDS = {str: "a text", int: "a whole number"}  # of scalars


class MessageError(FedcliError):
    """A message that holds no task or report."""


def pack(content: Task | Report) -> Message:
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
            arrays |= {f"{field.name}/{name}": array for name, array in to_arrays(value).items()}
        else:
            scalars[field.name] = value
    return scalars, arrays


def unpack(
    kind: type[Content], message: Message, memory: Tensors | None = None, device: str = "cpu"
) -> Content:
    """The task or report that a message holds, with this memory; scalars that it has no field for are ignored.

    Raises MessageError where a field is missing, or is no number, text or tensor as it should be.
    """
    scalars, arrays = message
    values: dict[str, Any] = {"memory": memory or {}}
    for field in fields(kind):
        if field.type in KINDS:
            values[field.name] = _scalar(kind, field.name, field.type, scalars)
        elif field.type is Tensor:
            if field.name not in arrays:
                raise MessageError(
                    f"a {kind.__name__.lower()} arrived without its array {field.name!r}"
                )
            values[field.name] = _tensor(arrays[field.name], device)
        elif field.name not in STAY:
            prefix = f"{field.name}/"
            inside = {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }
            values[field.name] = to_tensors(inside, device)
    return kind(**values)


def to_arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    """Tensors by name as arrays, which share their numbers where they are on the CPU."""
    return {name: _array(tensor) for name, tensor in tensors.items()}


def to_tensors(arrays: Mapping[str, np.ndarray], device: str = "cpu") -> Tensors:
    """Arrays by name as tensors that may be written to."""
    return {name: _tensor(array, device) for name, array in arrays.items()}


def _array(tensor: Tensor) -> np.ndarray:
    return np.asarray(
        tensor.detach().cpu().numpy(), order="C"
    )  # ascontiguousarray makes a vector of a scalar


def _tensor(array: np.ndarray, device: str) -> Tensor:
    """Some engines hand out arrays that must not be written to, which are copied."""
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)


def _scalar(kind: type, name: str, type_: Any, scalars: Scalars) -> Any:
    value = scalars.get(name)
    if not isinstance(value, type_) or isinstance(value, bool):
        what = "without one" if name not in scalars else f"with {str(value)[:40]!r}"
        raise MessageError(
            f"the {name} of a {kind.__name__.lower()} is {KINDS[type_]}; one arrived {what}"
        )
    return value
