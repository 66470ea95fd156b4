"""Functions as commands: their parameters are flags, declared as the fields of a stage's options
are.

`def ls(work: Annotated[Path, "folder of results"] = WORK)` has the flag --work; its value is read
and checked by fedcli/options.py, and typer is given texts alone. Where the first parameter is a
stage's options, their fields are flags too, and the function gets them as one object. Every command
has --quiet, --verbose and --debug besides.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import console
from ...common_options import OUTPUT
from ...errors import UsageError
from ...options import FLAG, Option, Options
from . import complete, defaults

DEBUG = "fedcli.debug"  # key of the context's notes that all commands of a call share
LONGEST_PATH = 65536  # characters that are read of a stream, which may have no end
Run = Callable[..., None]


def built(run: Run, **settings: Any) -> Any:
    """The command that calls a function which typer takes. settings: as typer has them."""
    line = typer.Typer(add_completion=False, rich_markup_mode=None)
    line.command(**settings)(run)
    return typer.main.get_command(line)


def command(run: Run) -> Run:
    """The function as typer takes it. It gets what was typed, else its own defaults."""
    parameters = list(signature(run).parameters.values())
    stage = None
    if parameters:
        annotation = parameters[0].annotation
        if isinstance(annotation, type) and issubclass(annotation, Options):
            stage = annotation
            del parameters[0]
    options = [option_of(parameter) for parameter in parameters if parameter.name not in EVERYWHERE]
    return with_flags(run, options, stage)


def option_of(parameter: Parameter) -> Option:
    """A parameter as the option that its annotation declares. Raises TypeError where it has
    none.
    """
    if parameter.annotation is Parameter.empty:
        raise TypeError(f"{parameter.name} is not declared as Annotated[TYPE, MEANING]")
    default = MISSING if parameter.default is Parameter.empty else parameter.default
    return Option.of(parameter.name, parameter.annotation, default)


def with_flags(
    run: Run,
    options: Iterable[Option],
    stage: type[Options] | None = None,
) -> Run:
    """A function that calls run() with these options by name, and before them with those of a
    stage, as one object.

    Where run() has a parameter `quiet` or `debug`, it gets that too. Words without a flag are its
    own where it declares such a parameter, and then not those of the stage.
    """
    options = list(options)
    stage_options = _options_of(stage, options) if stage else []
    switches = EVERYWHERE.keys() & getattr(run, "__annotations__", {}).keys()

    @wraps(run)
    def called(context: typer.Context, **typed: Any) -> None:
        values: dict[str, Any] = {}
        for option in options:
            values[option.name] = None if option.default is MISSING else option.default
        values |= _read(options, context, typed)
        for switch in switches:
            values[switch] = typed[switch]
        if stage is None:
            run(**values)
        else:
            run(stage.from_flags(_read(stage_options, context, typed)), **values)

    parameters = [Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    panel = ""
    if stage:
        parameters += [_parameter(option, stage.stage, stage.panel) for option in stage_options]
        panel = OUTPUT if stage.panel else ""
    name = getattr(run, "__name__", "")
    parameters += [_parameter(option, name, panel) for option in options]
    parameters += EVERYWHERE.values()
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    options_by_name = {option.name: option for option in (*stage_options, *options)}
    setattr(called, defaults.OPTIONS, options_by_name)
    return called


def _options_of(stage: type[Options], options: Sequence[Option]) -> list[Option]:
    """The options of a stage that have flags; without its arguments where a command has arguments
    of its own.
    """
    flags = [option for option in stage.declared() if not option.flag.within]
    if any(option.flag.argument for option in options):
        return [option for option in flags if not option.flag.argument]
    return flags


def parsed(stage: type[Options], words: Sequence[str]) -> Any:
    """The options that the flags of a stage mean, typed behind another command. Raises
    UsageError.
    """
    parsed_options: list[Options] = []
    command = built(with_flags(parsed_options.append, (), stage))
    try:
        command.main(list(words), standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own errors have it
            raise
        sentence = f"{stage.stage} {' '.join(words)}: {error.format_message()}"
        hint = f"`fedcli {stage.stage} --help` lists its flags"
        raise UsageError(sentence, hint) from None
    return parsed_options[0]


def piped() -> str:
    """A path that another command printed. Raises UsageError."""
    path = sys.stdin.readline(LONGEST_PATH).strip() if sys.stdin else ""
    if not path:
        hint = "pipe the output of another fedcli command into this one"
        raise UsageError("stdin holds no path", hint)
    return path


def _read(
    options: Iterable[Option], context: typer.Context, typed: dict[str, Any]
) -> dict[str, Any]:
    """Values of the options that were typed, or are set in a file or a variable. Raises
    UsageError.
    """
    values = {}
    for option in options:
        source = defaults.source(context, option.name)
        if source not in (defaults.TYPED_HERE, defaults.SET_ELSEWHERE):
            continue
        value = typed[option.name]
        name = f"--{option.typed}"
        if option.flag.argument:
            name = option.typed
            if value == "-" and option.path:
                value = piped()
        try:
            if value == "" or (isinstance(value, list) and "" in value):
                empty = f"the argument {name}" if option.flag.argument else name
                raise UsageError(f"{empty} is empty", "give it a value, or leave it out")
            values[option.name] = option.read(value, name, FLAG)
        except UsageError as error:
            if source == defaults.TYPED_HERE:
                raise
            origin = defaults.origin(option.name)
            sentence = f"{error.sentence} (this value is from {origin})"
            raise UsageError(sentence, error.hint) from None
    return values


def _parameter(option: Option, command: str, panel: str) -> Parameter:
    """A flag as typer declares it: a text, several texts or a switch."""
    kind, default = _type_and_default(option)
    settings: dict[str, Any] = {
        "metavar": _metavar(option) or None,
        "help": option.meaning,
        "rich_help_panel": option.flag.panel or panel or None,
        "show_default": default not in ("", {}),
        "autocompletion": complete.of(command, option),
    }
    declared: Any
    if option.flag.argument:
        declared = typer.Argument(**settings)
    else:
        names = f"--{option.typed}".split()  # --out and -o
        declared = typer.Option(*names, **settings)
    return _keyword(option.name, Annotated[kind, declared], default)


def _type_and_default(option: Option) -> tuple[Any, Any]:
    """The type that typer reads, and the default that it shows; of several texts none."""
    kind: Any = bool if option.shape == "switch" else str
    default = option.default
    if option.shape in ("several", "table"):
        kind = list[str]
        default = None
    if default is MISSING:
        default = None if option.optional else Parameter.empty
    return (kind | None if default is None else kind), default


def _metavar(option: Option) -> str:
    """Text for the value of a flag in help."""
    if option.flag.metavar:
        return option.flag.metavar
    if option.shape == "table":
        return "KEY=VALUE"
    if option.flag.argument:
        return "|".join(map(str, option.choices))
    return "<path>" if option.path or option.kind is Path else f"<{option.kind.__name__}>"


def _keyword(name: str, annotation: Any, default: Any) -> Parameter:
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=annotation,
    )


def _switch(
    name: str,
    meaning: str,
    switched: Callable[[typer.Context], object],
) -> Parameter:
    """A switch of every command; switched() is called with the context where it is given."""

    def callback(context: typer.Context, value: bool) -> bool:
        if value:
            switched(context)
        return value

    declared = typer.Option(
        f"--{name}",
        callback=callback,
        help=meaning,
        rich_help_panel=OUTPUT,
    )
    return _keyword(name, Annotated[bool, declared], False)


def _debug(context: typer.Context) -> None:
    context.meta[DEBUG] = True


MEANINGS = {
    "quiet": "no progress and no notes on stderr",
    "verbose": "more details, such as the speed of training",
    "debug": "show the traceback of an error",
}
EVERYWHERE = {
    "quiet": _switch("quiet", MEANINGS["quiet"], lambda _: console.be_quiet()),
    "verbose": _switch("verbose", MEANINGS["verbose"], lambda _: console.be_verbose()),
    "debug": _switch("debug", MEANINGS["debug"], _debug),
}
