"""A command whose help lists its options under headings."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

from ... import extensions
from ...common_options import MACHINE, OUTPUT
from . import defaults

OPTIONS = "Options"
PANELS = "Training", "Method", "Data", MACHINE, OUTPUT
MANY = 15  # options, from which on a list needs headings
ANYWHERE = [  # of the whole program, wherever they stand in the line
    ("--log-file FILE", "also append every message with its time to this file"),
    ("--code FILE", extensions.CODE),
]


class Command(TyperCommand):
    """Options under headings where there are many; those that were not typed are named when it
    runs.
    """

    def format_options(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        formatter: Any,
    ) -> None:
        arguments: list[Any] = []
        options: list[tuple[str, Any]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == "argument":
                arguments.append(_untyped(record))
            elif record:
                options.append((_panel(parameter), record))
        has_headings = len(options) >= MANY
        sections: dict[str, list[Any]] = {"Arguments": arguments, OPTIONS: []}
        sections |= {panel: [] for panel in PANELS}
        for panel, record in options:
            sections.setdefault(panel if has_headings else OPTIONS, []).append(record)
        sections[OUTPUT if has_headings else OPTIONS] += ANYWHERE
        for title, lines in sections.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def parse_args(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        args: list[str],
    ) -> list[str]:
        """Read the words. A flag that may be alone gets its value behind =, so that it takes no
        word of the arguments.
        """
        values = {}
        for option in getattr(self.callback, defaults.OPTIONS, {}).values():
            if option.flag.alone:
                values[f"--{option.typed}"] = option.flag.alone
        end = args.index("--") if "--" in args else len(args)
        words = [f"{word}={values[word]}" if word in values else word for word in args[:end]]
        return super().parse_args(ctx, [*words, *args[end:]])

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # its own click's
        defaults.say(ctx)
        extensions.allow(_typed(ctx))
        return super().invoke(ctx)


def _panel(parameter: Any) -> str:
    """The heading of an option in help."""
    if "--help" in parameter.opts:
        return OUTPUT
    return getattr(parameter, "rich_help_panel", None) or OPTIONS


def _typed(ctx: typer.Context) -> Iterator[str]:
    """Words typed for options and for single arguments; not for lists of files, which a shell's
    pattern may fill.
    """
    for parameter in ctx.command.params:
        name = parameter.name or ""
        is_list = parameter.param_type_name != "option" and parameter.nargs != 1
        if is_list or defaults.source(ctx, name) != defaults.TYPED_HERE:
            continue
        value = ctx.params[name]
        yield from map(str, value if isinstance(value, list | tuple) else [value])


def _untyped(record: tuple[str, str]) -> tuple[str, str]:
    """An argument without the type of its value, which its text says."""
    name, text = record
    return name.split(" <")[0].split("...")[0], text
