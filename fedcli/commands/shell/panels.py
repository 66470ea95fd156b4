"""A command whose help lists its options under headings."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

from ... import extensions
from ...common_options import MACHINE, OUTPUT
from . import defaults

PANELS = "Training", "Method", "Data", MACHINE, OUTPUT
MANY = 15  # options, from which on a list needs headings
ANYWHERE = [  # of the whole program, wherever they stand in the line
    ("--log-file FILE", "also append every message with its time to this file"),
    ("--code FILE", extensions.CODE),
]


class Command(TyperCommand):
    """Options under headings where there are many; those that were not typed are named when it runs."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # its own click's
        known = [(p, record) for p in self.get_params(ctx) if (record := p.get_help_record(ctx))]
        options = [(p, record) for p, record in known if p.param_type_name != "argument"]
        sections: dict[str, list[Any]] = {title: [] for title in ("Arguments", "Options", *PANELS)}
        sections["Arguments"] = [
            _untyped(record) for p, record in known if p.param_type_name == "argument"
        ]
        for p, record in options:
            panel = (
                OUTPUT if "--help" in p.opts else getattr(p, "rich_help_panel", None) or "Options"
            )
            sections[panel if len(options) >= MANY else "Options"].append(record)
        sections[OUTPUT if len(options) >= MANY else "Options"] += ANYWHERE
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # its own click's
        """A flag that may stand alone has its value behind = alone, so that it takes no word from the arguments."""
        options = getattr(self.callback, defaults.OPTIONS, {}).values()
        alone = {f"--{each.typed}": each.flag.alone for each in options if each.flag.alone}
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
        if source == "COMMANDLINE" and (
            parameter.param_type_name == "option" or parameter.nargs == 1
        ):
            value = ctx.params[name]
            yield from map(str, value if isinstance(value, list | tuple) else [value])


def _untyped(record: Any) -> tuple[str, str]:
    """An argument without the type of its value, which its text says."""
    name, text = record
    return name.split(" <")[0].split("...")[0], text
