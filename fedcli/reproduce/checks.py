"""Checks of what the flags and options of a recipe hold, beyond being tables of values."""

import math
import re
from collections.abc import Collection
from typing import Any

from ..errors import UsageError, nearest
from . import flags as stage_flags

Flags = dict[str, Any]
STAGES = ("prepare", "partition", "corrupt", "train", "evaluate")
MOST = 2**63 - 1  # of a TOML number


def flags(stage: str, given: Flags) -> Flags:
    """Flags of a stage as a recipe gives them, checked by name and kind; `kind` of corrupt is its argument.

    Raises UsageError for one that the stage does not have, or a value that it cannot take.
    """
    for name, value in given.items():
        if stage == "train" and name == "set":
            raise UsageError("a method's options stand in its row", "write set = { ... } in the row itself")
        if stage == "train" and name == "seed":
            raise UsageError("the seeds of training stand above", "write seeds = [0, 1, 2]")
        if (stage, name) == ("corrupt", "kind"):
            _kind(value)
            continue
        _flag(stage, name.replace("_", "-"), value)
    spelled = {name.replace("-", "_"): value for name, value in given.items()}
    if len(spelled) < len(given):
        raise UsageError("a flag is there with a dash and with an underscore", "write it once")
    return spelled


def options(given: Flags) -> Flags:
    """A method's options: each a number, a text, true or false."""
    for name, value in given.items():
        value_of(value, name)
    return given


def value_of(value: Any, name: str) -> None:
    """Raise UsageError for what cannot be one value of a flag or an option."""
    if not isinstance(value, bool | int | float | str):
        kind = "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a date or time"
        raise UsageError(f"{name} is {kind}, not one value", "give a number or a text")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name} is {value}", "give a number")
    if isinstance(value, int) and not -MOST - 1 <= value <= MOST:
        raise UsageError(f"{name} is a number of more than 64 bits", "write a smaller one")
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    if isinstance(value, str) and re.match(r"-(?![\d.])", value):
        raise UsageError(f"{name}: {value!r} begins with a dash", "what begins so is a flag, not a value")
    if isinstance(value, str) and not value.isprintable():
        raise UsageError(
            f"{name} holds a character that cannot be seen: {value!r}", "write it in signs that can be seen"
        )


def _flag(stage: str, name: str, value: Any) -> None:
    """Raise UsageError for a value that this flag cannot take."""
    shape = stage_flags.known(stage, name).shape
    if value is False:
        return
    if (shape == "switch") != (value is True):
        hint = "write true or false" if shape == "switch" else "give it one, or false to leave it out"
        raise UsageError(f"{name} {'takes no value' if shape == 'switch' else 'needs a value'}", hint)
    if isinstance(value, list) and shape == "one":
        raise UsageError(f"{name} takes one value, not a list", "a row for each value is written vary = { ... }")
    if isinstance(value, dict) and name != "set":
        raise UsageError(f"{name} is a table, not a value", "give a number or a text")
    if isinstance(value, list | dict) and not value:
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        value_of(item, name)


def _kind(kind: Any) -> None:
    from ..data.corruption.corrupt import full_kind

    if not isinstance(kind, str):
        raise UsageError("kind is not a text", 'write kind = "gaussian"')
    full_kind(kind)


def known(what: str, word: str, names: Collection[str]) -> str:
    """The word, if it is one of the names. Raises UsageError."""
    if word not in names:
        raise UsageError(f"{what} {word!r} is unknown", nearest(word, names))
    return word


def different(what: str, names: list[str]) -> None:
    """Raises UsageError where two of a kind have one name."""
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise UsageError(f"two {what}s are named {twice[0]!r}", f"give each {what} its own name")
