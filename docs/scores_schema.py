"""The JSON Schema of scores.json, from the dataclasses that write it."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from fedcli.scores.scores import OPTIONAL, RunScores

PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}


def body() -> dict[str, Any]:
    """The schema of a body: an object for each dataclass below Scores, under $defs, and the
    legend.
    """
    whole = _object(RunScores)
    whole["properties"]["legend"] = {"type": "object", "additionalProperties": {"type": "string"}}
    whole["required"].append("legend")
    return whole


def definitions() -> dict[str, Any]:
    """Name of a dataclass -> the schema of its objects."""
    return {kind.__name__: _object(kind) for kind in dict.fromkeys(_below(RunScores))}


def _object(kind: Any) -> dict[str, Any]:
    properties = {name: _of_type(hint) for name, hint in _hints(kind).items()}
    about = cleandoc(kind.__doc__ or "")
    return {
        "description": about,
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in OPTIONAL],
        "additionalProperties": False,
    }


def _hints(kind: Any) -> dict[str, Any]:
    """Field -> type; but for the table, which is a file of its own."""
    hints = get_type_hints(kind)
    return {part.name: hints[part.name] for part in fields(kind) if part.name != "table"}


def _of_type(kind: Any) -> dict[str, Any]:
    if kind is Any:
        return {}
    if is_dataclass(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, UnionType):
        return {"anyOf": [_of_type(allowed) for allowed in get_args(kind)]}
    if get_origin(kind) is list:
        return {"type": "array", "items": _of_type(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _of_type(get_args(kind)[1])}
    return {"type": PLAIN[kind]}


def _below(kind: Any) -> Iterator[Any]:
    """Every dataclass that a type holds, at any depth."""
    for inner in _hints(kind).values() if is_dataclass(kind) else get_args(kind):
        if is_dataclass(inner):
            yield inner
        yield from _below(inner)
