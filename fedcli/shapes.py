"""Checks that JSON that somebody may have edited has the shape that its readers rely on.

A shape is a type, a tuple of shapes of which one must fit, [shape] for a list, {str: shape} for any keys, or a dict of
named keys, which must be there unless their name ends in "?"; further keys are not looked at.
"""

import json
from pathlib import Path
from typing import Any

from .errors import FedcliError
from .io.files import read_text

NUMBER = (int, float)
LARGEST = 2**1000  # of whole numbers: from 2**1024 on they are no float
NAMED = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def check(value: Any, shape: Any, file: object, hint: str, *, whole: bool = True) -> None:
    """Raises FedcliError that names the file and the first key that has another shape or, if whole, is missing."""
    if wrong := _misfit(value, shape, "", whole):
        raise FedcliError(f"{file}: {wrong}", hint)


def read_json(path: Path, shape: Any, hint: str = "") -> Any:
    """The content of a JSON file. Raises FedcliError where it is damaged, or has another shape."""
    try:
        content = json.loads(read_text(path, hint))
    except (ValueError, RecursionError) as error:
        raise FedcliError(f"{path} is damaged: {error}"[:300], hint) from None
    check(content, shape, f"{path} is damaged", hint)
    return content


def _misfit(value: Any, shape: Any, at: str, whole: bool) -> str:
    """The fault, "" where there is none. at: where the value stands."""
    if type(value) is int and abs(value) > LARGEST:
        return f"{at or 'it'} is {str(value)[:10]}..., a number too large"
    if isinstance(shape, tuple):
        if type(value) in shape or (value is None and None in shape):  # of most values, and fast
            return ""
        return (
            ""
            if any(not _misfit(value, allowed, at, whole) for allowed in shape)
            else _sentence(value, shape, at)
        )
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _sentence(value, list, at)
        inside = (_misfit(item, shape[0], f"{at}[{k}]", whole) for k, item in enumerate(value))
        return next(filter(None, inside), "")
    if isinstance(shape, dict):
        return (
            _object(value, shape, at, whole)
            if isinstance(value, dict)
            else _sentence(value, dict, at)
        )
    if shape is None:
        return "" if value is None else _sentence(value, shape, at)
    fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return "" if fits else _sentence(value, shape, at)


def _object(value: dict, shape: dict, at: str, whole: bool) -> str:
    before = f"{at}." if at else ""
    if str in shape:
        inside = (_misfit(item, shape[str], before + key, whole) for key, item in value.items())
        return next(filter(None, inside), "")
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if name not in value and name == key and whole:
            return f"{before}{name} is missing"
        if name in value and (wrong := _misfit(value[name], inner, before + name, whole)):
            return wrong
    return ""


def _sentence(value: Any, shape: Any, at: str) -> str:
    shapes = shape if isinstance(shape, tuple) else (shape,)
    kinds = [type(allowed) if isinstance(allowed, list | dict) else allowed for allowed in shapes]
    names = dict.fromkeys(NAMED.get(kind, "nothing") for kind in kinds)
    return f"{at or 'it'} is {str(value)[:40]!r}, not {' or '.join(names)}"
