"""Options from environment variables and from a fedcli.toml in the folder at hand, for what was not typed.

work = "results"          # of every command that has --work, --device or --jobs; FEDCLI_WORK, FEDCLI_DEVICE and
device = "cuda"           # FEDCLI_JOBS come before the file
[train]                   # the flags of one command
rounds = 50
set = { tau = 0.4 }

Whoever made the folder at hand wrote the file, so it does not say where a command writes or what a command trusts; its
folder of results lies beside it. Flag.access declares which options these are.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from ... import console
from ...errors import UsageError, nearest
from ...io import toml_text
from ...options import Option, text

FILE = Path("fedcli.toml")
COMMON = "work", "device", "jobs"
OPTIONS = "options"  # attribute of a command's function: its options by name
TYPED = {  # access -> the decision that only the command line takes
    "": "what becomes of a path",
    "writes": "where a command writes",
    "trusts": "what a command trusts",
    "typed": "that this is done",
    "results": "that results lie outside the folder at hand",
}


def read(commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Command -> parameter -> value, as click reads defaults. Raises UsageError for what no command knows."""
    given = toml_text.read(FILE, "mend that line, or move the file away") if FILE.is_file() else {}
    known = {name: _flags(command, everything=name in given) for name, command in commands.items()}
    common = {key: value for key, value in given.items() if not isinstance(value, dict)}
    if odd := [key for key in common if key not in COMMON]:
        raise UsageError(
            f"{FILE}: {odd[0]!r} is no option of every command",
            f"known: {', '.join(COMMON)}, or [COMMAND]",
        )
    of_variables = {name: os.environ[variable] for name, variable in _variables()}
    tables = {name: table for name, table in given.items() if isinstance(table, dict)}
    for name, table in tables.items():
        if name not in known:
            raise UsageError(f"{FILE}: {name!r} is no command", nearest(name, known))
        if odd := [key for key in table if key.replace("-", "_") not in known[name]]:
            flags = [flag.replace("_", "-") for flag in known[name]]
            raise UsageError(f"{FILE}: {name} has no flag {odd[0]!r}", nearest(odd[0], flags))
    defaults = {}
    for name, options in known.items():
        table = {key.replace("-", "_"): value for key, value in tables.get(name, {}).items()}
        values = common | table | of_variables
        defaults[name] = {key: _typed(value) for key, value in values.items() if key in options}
    return defaults


def _flags(command: Any, *, everything: bool) -> set[str]:
    """The options of a command, of a group those of all its commands; of a group that the file does not name those that
    are common, for which its commands need not be loaded.

    Not lists of arguments, whose words may name code.
    """
    is_group = hasattr(command, "list_commands")
    if is_group and not everything:
        return set(command.common)
    commands = (
        [command.get_command(None, name) for name in command.list_commands(None)]
        if is_group
        else [command]
    )
    options = [
        p for one in commands for p in one.params if p.param_type_name == "option" or p.nargs == 1
    ]
    return {p.name for p in options}


def origin(name: str) -> str:
    """Where the value of an option that was not typed comes from."""
    return dict(_variables()).get(name, str(FILE))


def say(context: typer.Context) -> None:
    """Name the options of this call that were not typed.

    Raises UsageError for a path of the file that only the command line may name.
    """
    options: dict[str, Option] = getattr(context.command.callback, OPTIONS, {})
    for parameter in context.command.params:
        name = parameter.name or ""
        if getattr(context.get_parameter_source(name), "name", "") == "DEFAULT_MAP":
            value = context.params.get(name)
            words = list(map(text, value)) if isinstance(value, list | tuple) else [text(value)]
            if name in options and origin(name) == str(FILE):
                _check(options[name], words, context.command_path)
            console.say(f"--{name.replace('_', '-')} {' '.join(words)} from {origin(name)}")


def _check(option: Option, words: list[str], command: str) -> None:
    """Refuse a value of the file that only the command line may give. Raises UsageError."""
    name = option.typed.split()[0]  # --out of --out and -o
    for word in words:
        if _is_typed_only(option, word):
            what = f"only the command line decides {TYPED[option.access or '']}"
            typed = f"{command} {_as_typed(option, name, word)}"
            raise UsageError(
                f"{FILE} sets {name} to {word!r}, but {what}", f"if you want it, type: {typed}"
            )


def _is_typed_only(option: Option, word: str) -> bool:
    if option.access in (None, "reads") or word == text(False):
        return False
    if option.access == "results":
        return not _is_within(word)
    if ":" not in option.flag.metavar:
        return True
    where = word.partition(":")[2]  # of NAME:WHERE, where a number is no path
    return bool(where) and not where.isdecimal()


def _is_within(path: str) -> bool:
    """Tell whether a path leads into the folder of the file."""
    return Path(os.path.realpath(path)).is_relative_to(Path.cwd().resolve())


def _as_typed(option: Option, name: str, word: str) -> str:
    """The words that give an option this value."""
    if option.flag.argument:
        return shlex.quote(word)
    if option.shape == "switch":
        return f"--{name}"
    between = "=" if option.flag.alone else " "
    return f"--{name}{between}{shlex.quote(word)}"


def _variables() -> Iterator[tuple[str, str]]:
    """(option, variable) of the variables that are set."""
    for name in COMMON:
        if os.environ.get(variable := f"FEDCLI_{name.upper()}"):
            yield name, variable


def _typed(value: Any) -> Any:
    """A value as click takes it: texts, and KEY=VALUE for a table."""
    if isinstance(value, dict):
        return [f"{key}={text(item)}" for key, item in value.items()]
    return (
        [text(item) for item in value]
        if isinstance(value, list)
        else value
        if value is True
        else text(value)
    )
