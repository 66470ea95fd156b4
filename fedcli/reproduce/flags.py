"""Flags of the stages in a recipe: those it may set, their values, and what stands for a path that is not known yet."""

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..errors import UsageError, nearest
from ..options import Option
from ..stages.options import STAGES

Flags = dict[str, Any]
OF_OTHERS = (
    "clients",
    "dirichlet",
    "val",
    "corrupt",
    "severity",
    "ratio",
    "on",
)  # flags of prepare that later stages have
BRACED = re.compile(r"\{([\w.-]+)\}")
MARK = "\ufdd0"  # a character of no text, so of no path
ASKED = re.compile(f"{MARK}(\\w+){MARK}")
MOST = 2**63 - 1  # of a TOML number


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """A mistake that is found inside is told with this place before it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{where}: {error.sentence}", error.hint) from None


def one_of(what: str, word: str, names: Collection[str]) -> str:
    """The word, if it is one of the names. Raises UsageError."""
    if word not in names:
        raise UsageError(f"{what} {word!r} is unknown", nearest(word, names))
    return word


def flags(stage: str) -> dict[str, Option]:
    """The flags of a stage that a recipe may set, by name as typed and without the dashes."""
    return {
        field.typed: field
        for field in STAGES[stage].declared()
        if not (
            field.flag.local
            or field.flag.argument
            or (stage == "prepare" and field.typed in OF_OTHERS)
        )
    }


def checked(stage: str, given: Flags) -> Flags:
    """Flags of a stage as a recipe gives them, checked by name and kind; `kind` of corrupt is its argument.

    Those of "set" are a method's options. Raises UsageError for one that the stage does not have, or a value that it
    cannot take.
    """
    for name, value in given.items():
        if stage == "set":
            check_value(value, name)
        elif stage == "train" and name == "set":
            raise UsageError(
                "a method's options stand in its row", "write set = { ... } in the row itself"
            )
        elif stage == "train" and name == "seed":
            raise UsageError("the seeds of training stand above", "write seeds = [0, 1, 2]")
        elif (stage, name) == ("corrupt", "kind"):
            from ..data.corruption.corrupt import full_kind

            if not isinstance(value, str):
                raise UsageError("kind is not a text", 'write kind = "gaussian"')
            full_kind(value)
        else:
            _check_flag(stage, name.replace("_", "-"), value)
    if stage == "set":
        return given
    spelled = {name.replace("-", "_"): value for name, value in given.items()}
    if len(spelled) < len(given):
        raise UsageError("a flag is there with a dash and with an underscore", "write it once")
    return spelled


def check_value(value: Any, name: str) -> None:
    """Raise UsageError for what cannot be one value of a flag or an option."""
    if not isinstance(value, bool | int | float | str):
        kind = (
            "a table"
            if isinstance(value, dict)
            else "a list"
            if isinstance(value, list)
            else "a date or time"
        )
        raise UsageError(f"{name} is {kind}, not one value", "give a number or a text")
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{name} is {value}", "give a number")
    if isinstance(value, int) and not -MOST - 1 <= value <= MOST:
        raise UsageError(f"{name} is a number of more than 64 bits", "write a smaller one")
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    if isinstance(value, str) and re.match(r"-(?![\d.])", value):
        raise UsageError(
            f"{name}: {value!r} begins with a dash", "what begins so is a flag, not a value"
        )
    if isinstance(value, str) and not value.isprintable():
        hint = "write it in signs that can be seen"
        raise UsageError(f"{name} holds a character that cannot be seen: {value!r}", hint)


def _check_flag(stage: str, name: str, value: Any) -> None:
    if stage == "prepare" and name in OF_OTHERS:
        raise UsageError(
            f"{stage} takes no {name} in a recipe", "write it under partition or corrupt"
        )
    if name in {field.typed for field in STAGES[stage].declared() if field.flag.local}:
        raise UsageError(f"{stage} takes no {name} in a recipe", "fedcli reproduce sets it itself")
    if name not in flags(stage):
        raise UsageError(f"{stage} has no flag {name!r}", nearest(name, flags(stage)))
    shape = flags(stage)[name].shape
    if value is False:
        return
    if (shape == "switch") != (value is True):
        hint = (
            "write true or false" if shape == "switch" else "give it one, or false to leave it out"
        )
        raise UsageError(
            f"{name} {'takes no value' if shape == 'switch' else 'needs a value'}", hint
        )
    if isinstance(value, list) and shape == "one":
        raise UsageError(
            f"{name} takes one value, not a list", "a row for each value is written vary = { ... }"
        )
    if isinstance(value, dict) and name != "set":
        raise UsageError(f"{name} is a table, not a value", "give a number or a text")
    if isinstance(value, list | dict) and not value:
        raise UsageError(f"{name} is empty", "give it a value, or leave it out")
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    ):
        check_value(item, name)


def files_in(value: Any) -> set[str]:
    """Names of the recipe's files that flags stand for."""
    named = (name.removesuffix(".name") for name in BRACED.findall(str(value)))
    return {name.removeprefix("files.") for name in named if name.startswith("files.")}


def asked(variable: str) -> str:
    """A text that stands for a path which was not given; a script has the shell's variable there."""
    return f"{MARK}{variable}{MARK}"


def variable(name: str, kind: str = "") -> str:
    """The shell's name for a dataset's folder, or for a file: kind is then "file"."""
    return re.sub(r"\W", "_", f"{name}_{kind}" if kind else name).upper()


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
            raise UsageError(f"{value!r}: {{{name}}} stands for nothing", nearest(name, fills))
    return BRACED.sub(lambda match: fills[match[1]], value)
