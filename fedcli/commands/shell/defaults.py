"""Options from environment variables and from a fedcli.toml in the folder at hand, for what was not
typed.

work = "results"          # of every command that has --work, --device or --jobs; FEDCLI_WORK,
FEDCLI_DEVICE and
device = "cuda"           # FEDCLI_JOBS come before the file
[train]                   # the flags of one command
rounds = 50
set = { tau = 0.4 }

Whoever made the folder at hand wrote the file, so it does not say where a command writes, what a
command trusts or which file outside the folder it reads; its folder of results lies beside it.
Flag.access declares which options these are.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ... import console, extensions
from ...errors import FedcliError, UsageError, nearest
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
    "reads": "which file outside the folder at hand is read",
}


def read(
    name: str,
    command: Any,
    names: Sequence[str],
    *,
    forgiving: bool = False,
) -> dict[str, dict[str, Any]]:
    """A command's name -> parameter -> value, as click reads defaults. names: of all commands.

    forgiving: only warn, as where help is asked for. Raises FedcliError, UsageError for a fault in
    what the command reads; of other faults it warns.
    """
    is_of_package = name in extensions.packages("commands")
    flags = set() if is_of_package else _flags(command)
    reads_common = is_of_package or not flags.isdisjoint(COMMON)
    file: dict[str, Any] = {}
    faults: list[Fault] = []
    try:
        file = _file()
    except FedcliError as error:
        faults.append(Fault(error, reads_common))
    common: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    for key, value in file.items():
        if isinstance(value, dict):
            tables[key] = value
        elif key in COMMON:
            common[key] = value
        else:
            faults.append(Fault(_unknown_key(key), reads_common))
    for section in tables.keys() - {*names}:
        hint = nearest(section, names)
        unknown = UsageError(f"{FILE}: {section!r} is no command", hint)
        faults.append(Fault(unknown, hint == nearest(name, [name])))
    table = tables.get(name, {})
    if not is_of_package:
        parts = {} if is_group(command) else _parts(command)
        faults += [Fault(error, True) for error in _unknown_flags(name, table, flags, parts)]
    _end_or_warn(faults, forgiving)
    values = common | {key.replace("-", "_"): value for key, value in table.items()}
    values |= {option: os.environ[variable] for option, variable in _variables()}
    repeated = set() if is_of_package else _repeated(command)
    typed: dict[str, Any] = {}
    for key, value in values.items():
        is_one = key in repeated and not isinstance(value, list | dict | bool)
        typed[key] = _typed([value] if is_one else value)
    return {name: typed} if typed else {}


class Fault(NamedTuple):
    """Something wrong in the file, and whether it is in what a command reads."""

    error: FedcliError
    is_read: bool


def _end_or_warn(faults: Sequence[Fault], forgiving: bool) -> None:
    for fault in faults:
        if fault.is_read and not forgiving:
            raise fault.error
    for fault in faults:
        console.warn(f"{fault.error.sentence}, which is left out; {fault.error.hint}")


def _file() -> dict[str, Any]:
    """The content of the file, nothing where there is none. Raises FedcliError, UsageError."""
    if FILE.is_file():
        return toml_text.read(FILE, "mend that line, or move the file away")
    if os.path.lexists(FILE):
        console.warn(f"{FILE} is a folder or no regular file, so no option is read from it")
    return {}


def _unknown_key(key: str) -> UsageError:
    sentence = f"{FILE}: {key!r} is no option of every command"
    return UsageError(sentence, f"known: {', '.join(COMMON)}, or [COMMAND]")


def _unknown_flags(
    name: str, table: Mapping[str, Any], flags: Iterable[str], parts: Mapping[str, Option]
) -> Iterator[UsageError]:
    """Errors on the keys of a table that are no flags of the command.

    parts: by name, the options whose texts hold them.
    """
    spelt = [flag.replace("_", "-") for flag in flags]
    for key, value in table.items():
        written = key.replace("_", "-")
        if written in spelt:
            continue
        hint = nearest(key, spelt)
        if written in parts:
            option = parts[written]
            own_value = table.get(option.word, "")
            line = option.with_part(written, value, text(own_value))
            hint = f'it is a part of --{option.word}: write {option.word} = "{line}"'
        yield UsageError(f"{FILE}: {name} has no flag {key!r}", hint)


def _parts(command: Any) -> dict[str, Option]:
    """Parts of a command's options, by the names that they have in recipes and behind a colon ->
    the option whose text holds them.
    """
    options: dict[str, Option] = getattr(command.callback, OPTIONS, {})
    by_name = {}
    for option in options.values():
        for part in option.parts:
            by_name[part.word] = option
            by_name[part.key] = option
    return by_name


def _flags(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group; not lists of arguments, whose words
    may name code.
    """
    flags = set()
    for each_command in _commands(command):
        for parameter in each_command.params:
            if parameter.param_type_name == "option" or parameter.nargs == 1:
                flags.add(parameter.name)
    return flags


def _repeated(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group, that may be repeated: one value of
    theirs may stand alone.
    """
    repeated = set()
    for each_command in _commands(command):
        for option in each_command.params:
            if getattr(option, "multiple", False):
                repeated.add(option.name)
    return repeated


def _commands(command: Any) -> list[Any]:
    """The commands of a group; of another command itself."""
    if not is_group(command):
        return [command]
    return [command.get_command(None, name) for name in command.list_commands(None)]


def is_group(command: Any) -> bool:
    """Tell whether a command has commands of its own."""
    return hasattr(command, "list_commands")


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
    if option.access is None or word == text(False):
        return False
    if option.access == "reads":
        path = word.partition("=")[2] if "=" in option.flag.metavar else word
        return not _is_within(path or word) and not Path(path or word).is_dir()
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
