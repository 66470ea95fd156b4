"""Checks that JSON that somebody may have edited has the shape that its readers rely on.

A shape is a type, a tuple of shapes of which one must fit, [shape] for a list, {str: shape} for any
keys, or a dict of named keys, which must be there unless their name ends in "?"; further keys are
not looked at.
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


def check(
    value: Any,
    shape: Any,
    file: object,
    hint: str,
    *,
    whole: bool = True,
) -> None:
    """Raises FedcliError that names the file and the first key that has another shape or, if whole,
    is missing.
    """
    misfit = _misfit(value, shape, "", whole)
    if misfit:
        raise FedcliError(f"{file}: {misfit}", hint)


def read_json(path: Path, shape: Any, hint: str = "") -> Any:
    """The content of a JSON file. Raises FedcliError where it is damaged, or has another shape."""
    try:
        content = json.loads(read_text(path, hint))
    except (ValueError, RecursionError) as error:
        raise FedcliError(f"{path} is damaged: {error}"[:300], hint) from None
    check(content, shape, f"{path} is damaged", hint)
    return content


def _misfit(value: Any, shape: Any, path: str, whole: bool) -> str:
    """The fault, "" where there is none. path: the keys that lead to the value."""
    if type(value) is int and abs(value) > LARGEST:
        return f"{path or 'it'} is {str(value)[:10]}..., a number too large"
    if isinstance(shape, tuple):
        if type(value) in shape or (value is None and None in shape):  # of most values, and fast
            return ""
        fits = any(not _misfit(value, allowed, path, whole) for allowed in shape)
    elif isinstance(shape, list):
        fits = isinstance(value, list)
        for index, item in enumerate(value if fits else ()):
            misfit = _misfit(item, shape[0], f"{path}[{index}]", whole)
            if misfit:
                return misfit
    elif isinstance(shape, dict):
        if isinstance(value, dict):
            return _misfit_of_object(
                value,
                shape,
                f"{path}." if path else "",
                whole,
            )
        fits = False
    elif shape is None:
        fits = value is None
    else:
        fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    return "" if fits else _sentence(value, shape, path)


def _misfit_of_object(value: dict, shape: dict, path: str, whole: bool) -> str:
    keys = value if str in shape else shape
    for key in keys:
        name = key if str in shape else key.removesuffix("?")
        if name in value:
            misfit = _misfit(
                value[name],
                shape[str if str in shape else key],
                path + name,
                whole,
            )
            if misfit:
                return misfit
        elif name == key and whole:
            return f"{path}{name} is missing"
    return ""


def _sentence(value: Any, shape: Any, path: str) -> str:
    kinds = []
    for allowed in shape if isinstance(shape, tuple) else (shape,):
        kind = type(allowed) if isinstance(allowed, list | dict) else allowed
        kinds.append(NAMED.get(kind, "nothing"))
    return f"{path or 'it'} is {str(value)[:40]!r}, not {' or '.join(dict.fromkeys(kinds))}"
