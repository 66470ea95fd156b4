"""A command whose help lists its options under headings."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

from ... import extensions
from ...common_options import MACHINE, OUTPUT
from . import defaults

PANELS = "Training", "Method", "Data", MACHINE, OUTPUT
ALONE = "alone"  # what a function holds: flags, and their values where they stand alone
MANY = 15  # options, from which on a list needs headings
ANYWHERE = [  # of the whole program, wherever they stand in the line
    ("--log-file FILE", "also append every message with its time to this file"),
    ("--code FILE", extensions.CODE),
]


class Command(TyperCommand):
    """Options under headings where there are many; those that were not typed are named when it runs."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # its own click's
        records = {_name(parameter): parameter.get_help_record(ctx) for parameter in self.get_params(ctx)}
        arguments = [p.name for p in self.get_params(ctx) if p.param_type_name == "argument"]
        options = [name for name in records if name not in arguments and records[name]]
        panels = {_name(p): getattr(p, "rich_help_panel", None) or "Options" for p in self.get_params(ctx)}
        panels["help"] = OUTPUT
        sections: dict[str, list[Any]] = {"Arguments": [_untyped(records[name]) for name in arguments if records[name]]}
        for panel in ("Options", *PANELS) if len(options) >= MANY else ("Options",):
            sections[panel] = [records[n] for n in options if len(options) < MANY or panels[n] == panel]
        sections[list(sections)[-1]] += ANYWHERE
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own click's
        """A flag that may stand alone has its value behind = alone, so that it takes no word from the arguments."""
        alone: dict[str, str] = getattr(self.callback, ALONE, {})
        end = args.index("--") if "--" in args else len(args)
        words = [f"{word}={alone[word]}" if word in alone else word for word in args[:end]]
        return super().parse_args(ctx, [*words, *args[end:]])

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # its own click's
        defaults.say(ctx)
        extensions.allow(_typed(ctx))
        return super().invoke(ctx)


def _typed(ctx: typer.Context) -> Iterator[str]:
    """Words typed for options and for single arguments; not for lists of files, which a shell's pattern may fill."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        source = getattr(ctx.get_parameter_source(name), "name", "")
        if source == "COMMANDLINE" and (parameter.param_type_name == "option" or parameter.nargs == 1):
            value = ctx.params[name]
            yield from map(str, value if isinstance(value, list | tuple) else [value])


def _untyped(record: Any) -> tuple[str, str]:
    """An argument without the type of its value, which its text says."""
    name, text = record
    return name.split(" <")[0].split("...")[0], text


def _name(parameter: Any) -> str | None:
    """Some versions of click call --help otherwise."""
    return "help" if "--help" in parameter.opts else parameter.name
