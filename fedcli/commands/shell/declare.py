"""Functions as commands: their parameters are flags, declared as the fields of a stage's options are.

`def ls(work: Annotated[Path, "folder of results"] = WORK)` has the flag --work; its value is read and checked by
fedcli/options.py, and typer is given texts alone. Where the first parameter is a stage's options, their fields are
flags too, and the function gets them as one object. Every command has --quiet, --verbose and --debug besides.
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


def command(run: Run) -> Run:
    """A function as typer takes it. Only what was typed is taken, so that a default stands in one place."""
    parameters = list(signature(run).parameters.values())
    first = parameters[0].annotation if parameters else None
    stage = first if isinstance(first, type) and issubclass(first, Options) else None
    own = [
        option_of(parameter)
        for parameter in parameters[bool(stage) :]
        if parameter.name not in EVERYWHERE
    ]
    return with_flags(run, own, stage)


def option_of(parameter: Parameter) -> Option:
    """A parameter as the option that its annotation declares."""
    default = MISSING if parameter.default is Parameter.empty else parameter.default
    return Option.of(parameter.name, parameter.annotation, default)


def with_flags(run: Run, options: Iterable[Option], stage: type[Options] | None = None) -> Run:
    """A command that calls run() with these options by name, and first with those of a stage, as one object.

    Where run() has a parameter `quiet` or `debug`, it gets that too. Words without a flag are its own where it declares
    such a parameter, and then not those of the stage.
    """
    own, asked = list(options), EVERYWHERE.keys() & getattr(run, "__annotations__", {}).keys()
    words = any(option.flag.argument for option in own)
    of_stage = [
        option
        for option in (stage.declared() if stage else ())
        if not (words and option.flag.argument)
    ]

    @wraps(run)
    def called(context: typer.Context, **given: Any) -> None:
        values = {
            option.name: None if option.default is MISSING else option.default for option in own
        }
        values |= _typed(own, context, given) | {name: given[name] for name in asked}
        run(*([stage.from_flags(_typed(of_stage, context, given))] if stage else []), **values)

    panel = OUTPUT if stage and stage.panel else ""
    flags = [_parameter(option, stage.stage, stage.panel) for option in of_stage] if stage else []
    flags += [_parameter(option, getattr(run, "__name__", ""), panel) for option in own]
    first = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *flags, *EVERYWHERE.values()]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    setattr(called, defaults.OPTIONS, {option.name: option for option in (*of_stage, *own)})
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def parsed(stage: type[Options], words: Sequence[str]) -> Any:
    """The options that the flags of a stage mean, typed behind another command. Raises UsageError."""
    made: list[Options] = []
    line = typer.Typer(add_completion=False)
    line.command()(with_flags(made.append, (), stage))
    try:
        typer.main.get_command(line).main(list(words), standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own errors have it
            raise
        hint = f"`fedcli {stage.stage} --help` lists its flags"
        raise UsageError(
            f"{stage.stage} {' '.join(words)}: {error.format_message()}", hint
        ) from None
    return made[0]


def piped() -> str:
    """A path that another command printed. Raises UsageError."""
    if sys.stdin and (path := sys.stdin.readline(LONGEST_PATH).strip()):
        return path
    raise UsageError(
        "stdin holds no path", "pipe the output of another fedcli command into this one"
    )


def _typed(
    options: Iterable[Option], context: typer.Context, given: dict[str, Any]
) -> dict[str, Any]:
    """Values of the options that were typed, or stand in a file or a variable. Raises UsageError."""
    values = {}
    for option in options:
        source = getattr(context.get_parameter_source(option.name), "name", "")
        if source in ("COMMANDLINE", "DEFAULT_MAP"):
            value = given[option.name]
            value = piped() if value == "-" and option.path and option.flag.argument else value
            name = option.typed if option.flag.argument else f"--{option.typed}"
            try:
                values[option.name] = option.read(value, name, FLAG)
            except UsageError as error:
                if source == "COMMANDLINE":
                    raise
                where = f" (this value is from {defaults.origin(option.name)})"
                raise UsageError(error.sentence + where, error.hint) from None
    return values


def _parameter(option: Option, command: str, panel: str) -> Parameter:
    """A flag as typer declares it: a text, several texts or a switch."""
    flag, default = option.flag, option.default
    several = option.shape in ("several", "table")
    value: Any = list[str] if several else bool if option.shape == "switch" else str
    if several or (default is MISSING and option.optional):
        default = None
    elif default is MISSING:
        default = Parameter.empty
    if default is None:
        value = value | None
    choices = "|".join(map(str, option.choices))
    kind = "path" if option.path or option.kind is Path else option.kind.__name__
    metavar = "KEY=VALUE" if option.shape == "table" else choices if flag.argument else f"<{kind}>"
    about: dict[str, Any] = {
        "metavar": flag.metavar or metavar or None,
        "help": option.meaning,
        "rich_help_panel": flag.panel or panel or None,
        "show_default": default not in ("", {}),
        "autocompletion": complete.of(command, option),
    }
    names = f"--{option.typed}".split()  # --out and -o
    declared: Any = typer.Argument(**about) if flag.argument else typer.Option(*names, **about)
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value, declared]
    )


def _switch(name: str, meaning: str, switched: Callable[[typer.Context], object]) -> Parameter:
    def callback(context: typer.Context, value: bool) -> bool:
        if value:
            switched(context)
        return value

    declared = typer.Option(f"--{name}", callback=callback, help=meaning, rich_help_panel=OUTPUT)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, declared]
    )


EVERYWHERE = {
    "quiet": _switch("quiet", "no progress and no notes on stderr", lambda _: console.be_quiet()),
    "verbose": _switch(
        "verbose",
        "details besides, such as how fast a training was",
        lambda _: console.be_verbose(),
    ),
    "debug": _switch(
        "debug",
        "show the traceback of an error",
        lambda context: context.meta.update({DEBUG: True}),
    ),
}
