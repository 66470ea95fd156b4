"""Flags of the stages that a recipe may set, and what stands in their place where a path is not known yet."""

import re
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError, nearest
from ..options import Option
from ..stages.options import STAGES

OF_OTHERS = {  # flags of prepare that have stages of their own
    "prepare": {"clients", "dirichlet", "val", "corrupt", "severity", "ratio", "on"}
}
BRACED = re.compile(r"\{([\w.-]+)\}")
MARK = "\ufdd0"  # a character of no text, so of no path
ASKED = re.compile(f"{MARK}(\\w+){MARK}")


def flags(stage: str) -> dict[str, Option]:
    """The flags of a stage that a recipe may set, by name as typed and without the dashes."""
    others = OF_OTHERS.get(stage, set())
    return {
        field.typed: field
        for field in STAGES[stage].declared()
        if not field.flag.local and not field.flag.argument and field.typed not in others
    }


def known(stage: str, name: str) -> Option:
    """A flag that a recipe may set. Raises UsageError for any other."""
    name = name.replace("_", "-")
    if name in OF_OTHERS.get(stage, ()):
        raise UsageError(f"{stage} takes no {name} in a recipe", "write it under partition or corrupt")
    if name in {field.typed for field in STAGES[stage].declared() if field.flag.local}:
        raise UsageError(f"{stage} takes no {name} in a recipe", "fedcli reproduce sets it itself")
    if name not in flags(stage):
        raise UsageError(f"{stage} has no flag {name!r}", nearest(name, flags(stage)))
    return flags(stage)[name]


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
