"""Frozen dataclasses out of the JSON objects that dataclasses.asdict() made of them."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def decode(kind: type[T], data: Any) -> T:
    """The inverse of asdict(). Raises KeyError, TypeError or AttributeError for another shape."""
    decoder: Callable[[Any], T] = _decoder(kind)  # type: ignore[arg-type]  # a class is hashable
    return decoder(data)


@cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    if is_dataclass(kind):
        return _object(kind)
    inner = [_decoder(part) for part in get_args(kind)]
    if get_origin(kind) is dict:
        return lambda data: {key: inner[1](item) for key, item in data.items()}
    if get_origin(kind) is list:
        return lambda data: [inner[0](item) for item in data]
    if isinstance(kind, UnionType):
        return lambda data: None if data is None else inner[0](data)
    return lambda data: data


def _object(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    decoders = {part.name: _decoder(hints[part.name]) for part in fields(kind)}
    return lambda data: kind(**{name: decoders[name](item) for name, item in data.items()})
