"""A stage's options as the signature of its command: each flag is declared once, there."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..options import Option, Options
from . import complete
from . import options as o


def command(options: type[Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose flags are a stage's options, and what the function itself declares after them.

    The function gets the options as its first argument. Only what was typed is taken, so that a default stands in one
    place.
    """

    def declare(run: Callable[..., None]) -> Callable[..., None]:
        own = list(signature(run).parameters.values())[1:]
        for parameter in own:
            about = parameter.annotation.__metadata__[0]
            about.rich_help_panel = about.rich_help_panel or o.OUTPUT

        @wraps(run)
        def called(context: typer.Context, **given: Any) -> None:
            rest = {parameter.name: given.pop(parameter.name) for parameter in own}
            run(typed(options, context, given), **rest)

        first = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        declared = [_parameter(options, field) for field in options.declared()]
        parameters = [first, *declared, *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own)]
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return called

    return declare


def typed(options: type[Options], context: typer.Context, given: dict[str, Any]) -> Options:
    """The options that a command line means. Raises UsageError."""
    flags = {}
    for field in options.declared():
        if getattr(context.get_parameter_source(field.name), "name", "") in ("COMMANDLINE", "DEFAULT_MAP"):
            value = given[field.name]
            flags[field.name] = o.piped() if value == "-" and field.path and field.flag.argument else value
    return options.from_flags(flags)


def parsed(options: type[Options], words: Sequence[str]) -> Any:
    """The options that the flags of a stage mean, typed behind another command. Raises UsageError."""
    made: list[Options] = []
    line = typer.Typer(add_completion=False)
    line.command()(command(options)(made.append))
    try:
        typer.main.get_command(line).main(list(words), standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the parser's own errors have it
            raise
        hint = f"`fedcli {options.stage} --help` lists its flags"
        raise UsageError(f"{options.stage} {' '.join(words)}: {error.format_message()}", hint) from None
    return made[0]


def _parameter(options: type[Options], option: Option) -> Parameter:
    """A flag as typer declares it."""
    flag, metavar, default = option.flag, option.flag.metavar or None, option.default
    value: Any = Path if option.path and not flag.argument else option.kind
    if option.shape in ("several", "table"):
        value, default = list[str], None
        metavar = metavar or ("KEY=VALUE" if option.shape == "table" else None)
    if default is MISSING:
        default = None if option.optional else Parameter.empty
    if default is None:
        value = value | None
    about: dict[str, Any] = {
        "metavar": metavar, "help": option.meaning, "rich_help_panel": flag.panel or options.panel,
        "autocompletion": complete.OF.get((options.stage, option.name)),
    }  # fmt: skip
    declared: Any = typer.Argument(**about) if flag.argument else typer.Option(f"--{option.typed}", **about)
    return Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value, declared])
