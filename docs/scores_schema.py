"""The JSON Schema of scores.json, from the dataclasses that write it."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from fedcli.scores.schema import bare, dataclasses_in, types
from fedcli.scores.scores import Scores

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def body() -> dict[str, Any]:
    """The schema of a body: an object for each dataclass below Scores, under $defs, and the legend."""
    whole = _object(Scores)
    whole["properties"]["legend"] = {"type": "object", "additionalProperties": {"type": "string"}}
    whole["required"].append("legend")
    return whole


def definitions() -> dict[str, Any]:
    """Name of a dataclass -> the schema of its objects."""
    return {kind.__name__: _object(kind) for kind in dict.fromkeys(_below(Scores))}


def _object(kind: Any) -> dict[str, Any]:
    hints = types(kind)
    properties, required, further = {}, [], []
    for part in fields(kind):
        if part.name == "table":  # a file of its own
            continue
        if "flat" in part.metadata:  # its keys stand beside the fields
            further.append(_schema(get_args(bare(hints[part.name]))[1]))
            continue
        properties[part.name] = _schema(hints[part.name])
        if "omitted" not in part.metadata:
            required.append(part.name)
    others = {"anyOf": further} if len(further) > 1 else further[0] if further else False
    about = cleandoc(kind.__doc__ or "")
    return {
        "description": about, "type": "object", "properties": properties, "required": required,
        "additionalProperties": others,
    }  # fmt: skip


def _schema(hint: Any) -> dict[str, Any]:
    meaning = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
    return _of_type(bare(hint)) | ({"description": meaning[0]} if meaning else {})


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
    """Every dataclass that a dataclass holds, at any depth."""
    for hint in (hint for name, hint in types(kind).items() if name != "table"):
        for inner in dataclasses_in(hint):
            yield inner
            yield from _below(inner)
