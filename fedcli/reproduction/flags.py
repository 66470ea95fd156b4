"""Flags of the stages in a recipe: those it may set, their values, and what stands for a path that
is not known yet."""

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..errors import UsageError, nearest
from ..options import Option
from ..stages.options import STAGES

Flags = dict[str, Any]
BRACED = re.compile(r"\{([\w.-]+)\}")
MARK = "\ufdd0"  # a character of no text, so of no path
PLACEHOLDER = re.compile(f"{MARK}(\\w+){MARK}")
MOST = 2**63 - 1  # of a TOML number


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """Put a place before the sentence of a UsageError that is raised inside."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error.sentence}", error.hint) from None


def one_of(title: str, word: str, names: Collection[str]) -> str:
    """The word, if it is one of the names. Raises UsageError."""
    if word not in names:
        raise UsageError(f"{title} {word!r} is unknown", nearest(word, names))
    return word


def flags(stage: str) -> dict[str, Option]:
    """The flags of a stage that a recipe may set, by name as typed and without the dashes."""
    flags = {}
    for option in STAGES[stage].declared():
        if option.flag.local or option.flag.argument or option.key in _of_later(stage):
            continue
        flags[option.key] = option
    return flags


def _of_later(stage: str) -> list[str]:
    """The flags of prepare that later stages have."""
    if stage != "prepare":
        return []
    return [option.key for option in STAGES[stage].marked("later")]


def checked(stage: str, values: Flags) -> Flags:
    """Flags of a stage as a recipe gives them, checked by name and kind; `kind` of corrupt is its
    argument.

    Those of "set" are a method's options. Raises UsageError for one that the stage does not have,
    or a value that it cannot take.
    """
    if stage == "set":
        for name, value in values.items():
            check_value(value, name)
        return values
    for name, value in values.items():
        _check(stage, name, value)
    spelled = {name.replace("-", "_"): value for name, value in values.items()}
    if len(spelled) < len(values):
        raise UsageError("a flag is there with a dash and with an underscore", "write it once")
    return spelled


def _check(stage: str, name: str, value: Any) -> None:
    if stage == "train" and name == "set":
        hint = "write set = { ... } in the row itself"
        raise UsageError("a method's options belong in its row", hint)
    if stage == "train" and name == "seed":
        raise UsageError("the seeds of training belong above", "write seeds = [0, 1, 2]")
    if stage == "corrupt" and name == "kind":
        from ..data.corruption.corrupt import full_kind

        if not isinstance(value, str):
            raise UsageError("kind is not a text", 'write kind = "gaussian"')
        full_kind(value)
    else:
        _check_flag(stage, name.replace("_", "-"), value)


def check_value(value: Any, name: str) -> None:
    """Raise UsageError for what cannot be one value of a flag or an option."""
    if isinstance(value, str):
        _check_text(value, name)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{name} is {value}", "give a number")
    elif isinstance(value, int):
        least = -MOST - 1
        if not least <= value <= MOST:
            raise UsageError(f"{name} is a number of more than 64 bits", "write a smaller one")
    else:
        kind = "a date or time"
        if isinstance(value, dict):
            kind = "a table"
        elif isinstance(value, list):
            kind = "a list"
        raise UsageError(f"{name} is {kind}, not one value", "give a number or a text")


def _check_text(text: str, name: str) -> None:
    if not text.strip():
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    if re.match(r"-(?![\d.])", text):
        hint = "what begins so is a flag, not a value"
        raise UsageError(f"{name}: {text!r} begins with a dash", hint)
    if not text.isprintable():
        hint = "write it in signs that can be seen"
        raise UsageError(f"{name} holds a character that cannot be seen: {text!r}", hint)


def _check_flag(stage: str, name: str, value: Any) -> None:
    if name in _of_later(stage):
        hint = "write it under partition or corrupt"
        raise UsageError(f"{stage} takes no {name} in a recipe", hint)
    if name in {option.key for option in STAGES[stage].declared() if option.flag.local}:
        raise UsageError(f"{stage} takes no {name} in a recipe", "fedcli reproduce sets it itself")
    options = flags(stage)
    if name not in options:
        raise UsageError(f"{stage} has no flag {name!r}", nearest(name, options))
    if value is not False:
        _check_shape(options[name].shape, name, value)


def _check_shape(shape: str, name: str, value: Any) -> None:
    """Raise UsageError for a value, or one of several, that does not fit a flag's shape; see
    Option.shape."""
    is_switch = shape == "switch"
    if is_switch and value is not True:
        raise UsageError(f"{name} takes no value", "write true or false")
    if value is True and not is_switch:
        raise UsageError(f"{name} needs a value", "give it one, or false to leave it out")
    if isinstance(value, list) and shape == "one":
        hint = "a row for each value is written vary = { ... }"
        raise UsageError(f"{name} takes one value, not a list", hint)
    if isinstance(value, dict) and name != "set":
        raise UsageError(f"{name} is a table, not a value", "give a number or a text")
    if isinstance(value, list | dict) and not value:
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    items = [value]
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, list):
        items = value
    for item in items:
        check_value(item, name)


def files_in(value: Any) -> set[str]:
    """Names of the recipe's files that flags stand for."""
    names = set()
    for word in BRACED.findall(str(value)):
        word = word.removesuffix(".name")
        if word.startswith("files."):
            names.add(word.removeprefix("files."))
    return names


def placeholder(variable: str) -> str:
    """A text that stands for a path which was not given; a script has the shell's variable
    there."""
    return f"{MARK}{variable}{MARK}"


def variable(name: str, kind: str = "") -> str:
    """The shell's name for a dataset's folder, or for a file: kind is then "file"."""
    if kind:
        name = f"{name}_{kind}"
    return re.sub(r"\W", "_", name).upper()


def filled(value: Any, fills: Mapping[str, str]) -> Any:
    """A value of a flag with "{seed}", "{raw}" and others replaced, also in a list or a table.

    Raises UsageError for one that stands for nothing.
    """
    if isinstance(value, dict):
        return {key: filled(item, fills) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, fills) for item in value]
    if not isinstance(value, str):
        return value
    for name in BRACED.findall(value):
        if name not in fills:
            raise UsageError(f"{value!r}: {{{name}}} has no meaning", nearest(name, fills))
    return BRACED.sub(lambda match: fills[match[1]], value)
