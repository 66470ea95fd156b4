"""Options from environment variables and from a fedcli.toml in the folder at hand, for what was not
typed.

work = "results"          # of every command that has --work, --device or --jobs; FEDCLI_WORK,
FEDCLI_DEVICE and
device = "cuda"           # FEDCLI_JOBS come before the file
[train]                   # the flags of one command
rounds = 50
set = { tau = 0.4 }

Whoever made the folder at hand wrote the file, so it does not say where a command writes or what a
command trusts; its folder of results lies beside it. Flag.access declares which options these are.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from ... import console, extensions
from ...errors import UsageError, nearest
from ...io import toml_text
from ...options import Option, text

FILE = Path("fedcli.toml")
COMMON = "work", "device", "jobs"
OPTIONS = "options"  # attribute of a command's function: its options by name
TYPED_HERE = "COMMANDLINE"  # names that click has for where a value comes from
SET_ELSEWHERE = "DEFAULT_MAP"
TYPED = {  # access -> the decision that only the command line takes
    "": "what becomes of a path",
    "writes": "where a command writes",
    "trusts": "what a command trusts",
    "typed": "that this is done",
    "results": "that results lie outside the folder at hand",
}


def read(commands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Command -> parameter -> value, as click reads defaults.

    Raises UsageError for what no command knows; those of installed packages are not imported for
    it.
    """
    file = toml_text.read(FILE, "mend that line, or move the file away") if FILE.is_file() else {}
    common: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    for key, value in file.items():
        if isinstance(value, dict):
            tables[key] = value
        elif key in COMMON:
            common[key] = value
        else:
            sentence = f"{FILE}: {key!r} is no option of every command"
            raise UsageError(sentence, f"known: {', '.join(COMMON)}, or [COMMAND]")
    variables = {name: os.environ[variable] for name, variable in _variables()}
    if not file and not variables:
        return {}
    names = list(commands)
    for name, table in tables.items():
        if name not in names:
            raise UsageError(f"{FILE}: {name!r} is no command", nearest(name, names))
        if name not in extensions.packages("commands"):
            _check_flags(name, table, commands[name])
    defaults = {}
    for name in names:
        table = {key.replace("-", "_"): value for key, value in tables.get(name, {}).items()}
        values = common | table | variables
        defaults[name] = {key: _typed(value) for key, value in values.items()}
    return defaults


def _check_flags(name: str, table: dict[str, Any], command: Any) -> None:
    """Refuse a key of the file that is no flag of the command. Raises UsageError."""
    flags = [flag.replace("_", "-") for flag in _flags(command)]
    for key in table:
        if key.replace("_", "-") not in flags:
            raise UsageError(f"{FILE}: {name} has no flag {key!r}", nearest(key, flags))


def _flags(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group; not lists of arguments, whose words
    may name code.
    """
    commands = [command]
    if hasattr(command, "list_commands"):
        commands = [command.get_command(None, name) for name in command.list_commands(None)]
    flags = set()
    for each_command in commands:
        for parameter in each_command.params:
            if parameter.param_type_name == "option" or parameter.nargs == 1:
                flags.add(parameter.name)
    return flags


def origin(name: str) -> str:
    """The variable or the file from which the value of an option that was not typed comes."""
    return dict(_variables()).get(name, str(FILE))


def source(context: typer.Context, name: str) -> str:
    """The name that click has for where the value of a parameter comes from."""
    return getattr(context.get_parameter_source(name), "name", "")


def say(context: typer.Context) -> None:
    """Name the options of this call that were not typed.

    Raises UsageError for a path of the file that only the command line may name.
    """
    options: dict[str, Option] = getattr(context.command.callback, OPTIONS, {})
    for parameter in context.command.params:
        name = parameter.name or ""
        if source(context, name) != SET_ELSEWHERE:
            continue
        value = context.params.get(name)
        values = value if isinstance(value, list | tuple) else [value]
        words = [text(item) for item in values]
        if name in options and origin(name) == str(FILE):
            _check(options[name], words, context.command_path)
        console.say(f"--{name.replace('_', '-')} {' '.join(words)} from {origin(name)}")


def _check(option: Option, words: list[str], command: str) -> None:
    """Refuse a value of the file that only the command line may give. Raises UsageError."""
    name = option.typed.split()[0]  # --out of --out and -o
    for word in words:
        if _is_typed_only(option, word):
            decision = TYPED[option.access or ""]
            sentence = (
                f"{FILE} sets {name} to {word!r}, but only the command line decides {decision}"
            )
            line = f"{command} {_as_typed(option, name, word)}"
            raise UsageError(sentence, f"if you want it, type: {line}")


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
    separator = "=" if option.flag.alone else " "
    return f"--{name}{separator}{shlex.quote(word)}"


def _variables() -> Iterator[tuple[str, str]]:
    """(option, variable) of the variables that are set."""
    for name in COMMON:
        variable = f"FEDCLI_{name.upper()}"
        if os.environ.get(variable):
            yield name, variable


def _typed(value: Any) -> Any:
    """A value as click takes it: texts, and KEY=VALUE for a table."""
    if isinstance(value, dict):
        return [f"{key}={text(item)}" for key, item in value.items()]
    if isinstance(value, list):
        return [text(item) for item in value]
    return value if value is True else text(value)
