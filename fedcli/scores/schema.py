"""Frozen dataclasses as JSON objects and back, and what stands where in them.

A field is a key of the object. `Names(...)` in a field's annotation says which keys its dict has, a word per level;
`flat()` puts the keys of a dict beside the other keys of its object; `omitted()` leaves a key out where it is empty.
A text in an annotation says what the number is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True)
class Names:
    """Keys of a dict, by a word for each of its levels, such as "attribute", "version"."""

    levels: tuple[str, ...]

    def __init__(self, *levels: str):
        object.__setattr__(self, "levels", levels)


def flat(takes: Callable[[str], bool] = lambda key: True) -> Any:
    """A dict whose keys stand beside its object's other fields. takes: which of the keys left over are its own."""
    return field(default_factory=dict, metadata={"flat": takes})


def omitted(kind: Callable[[], Any] = NoneType) -> Any:
    """A field that the JSON object does not have where it is empty."""
    return field(default_factory=kind, metadata={"omitted": True})


def encode(value: Any) -> Any:
    """A dataclass, or lists and dicts of them, as JSON values."""
    if isinstance(value, dict) or is_dataclass(value):
        return {key: encode(item) for key, item in children(value).items()}
    return [encode(item) for item in value] if isinstance(value, list) else value


def children(value: Any) -> Mapping[str, Any]:
    """Parts directly below a dataclass or dict, by its key in the JSON object; {} below anything else."""
    if isinstance(value, dict):
        return value
    below: dict[str, Any] = {}
    for part in fields(value) if is_dataclass(value) else ():
        item = getattr(value, part.name)
        if "flat" in part.metadata:
            below |= item
        elif item or "omitted" not in part.metadata:
            below[part.name] = item
    return below


def decode(kind: type[T], data: Any) -> T:
    """The inverse of encode. Raises KeyError for a key that is missing or not known, TypeError for another shape."""
    return _decoder(kind)(data)


@cache  # a run's scores hold a thousand objects of ten types
def _decoder(kind: Any) -> Callable[[Any], Any]:
    kind = bare(kind)
    if _is_plain(kind):
        return lambda data: data
    if is_dataclass(kind):
        return _object(kind)
    inner = get_args(kind)
    if get_origin(kind) is dict:
        of_value = _decoder(inner[1])
        return lambda data: {key: of_value(item) for key, item in data.items()}
    of_item = _decoder(inner[0])
    if get_origin(kind) is list:
        return lambda data: [of_item(item) for item in data]
    return lambda data: None if data is None else of_item(data)


def _object(kind: Any) -> Callable[[Any], Any]:
    hints = types(kind)
    own = {part.name: _decoder(hints[part.name]) for part in fields(kind) if "flat" not in part.metadata}
    beside = [part for part in fields(kind) if "flat" in part.metadata]
    required = {p.name for p in fields(kind) if p.default is MISSING and p.default_factory is MISSING}

    def made(data: Any) -> Any:
        if not isinstance(data, dict):
            raise TypeError(f"{kind.__name__} is {type(data).__name__}")
        values = {name: own[name](item) for name, item in data.items() if name in own}
        left = {key: item for key, item in data.items() if key not in own}
        for part in beside:
            taken = {key: left.pop(key) for key in list(left) if part.metadata["flat"](key)}
            values[part.name] = _decoder(hints[part.name])(taken)
        if wrong := [*left, *sorted(required - values.keys())]:
            raise KeyError(wrong[0])
        return kind(**values)

    return made


@cache
def _is_plain(kind: Any) -> bool:
    """Tell whether nothing below holds a dataclass."""
    return not any(True for _ in dataclasses_in(kind))


def dataclasses_in(kind: Any) -> Iterator[Any]:
    """The dataclasses that a type names, such as the values of a dict."""
    kind = bare(kind)
    if is_dataclass(kind):
        yield kind
    for inner in get_args(kind):
        yield from dataclasses_in(inner)


def _optional(kind: Any) -> bool:
    return isinstance(kind, UnionType) and NoneType in get_args(kind)


def bare(kind: Any) -> Any:
    """A type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


@cache
def types(kind: Any) -> dict[str, Any]:
    """Field -> annotated type."""
    return get_type_hints(kind, include_extras=True)
