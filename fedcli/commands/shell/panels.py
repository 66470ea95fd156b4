"""A command whose help shows its most used options first, and all of them under headings."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

from ... import extensions
from ...common_options import HEADINGS, SHOWN_FIRST
from . import declare, defaults

OPTIONS = "Options"
USUAL = "Most used"
MANY = 15  # options, from which on a list needs headings
ANYWHERE = [  # of the whole program, wherever they stand in the line
    ("--log-file FILE", "also append every message with its time to this file"),
    ("--code FILE", extensions.CODE),
]
HELP = "--help"
WHOLE_HELP = "--help=all"
SHOWS_ALL = "fedcli.help"  # key of the context's notes where the whole help was asked for
Record = tuple[str, str]  # an option as it is typed, and its meaning


class Command(TyperCommand):
    """Help with the options that are used most, or with all of them under headings where there
    are many. Options that were not typed are named when the command runs.
    """

    def format_options(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        formatter: Any,
    ) -> None:
        arguments: list[Record] = []
        usual: dict[str, Record] = {}
        by_heading: dict[str, list[Record]] = {heading: [] for heading in (OPTIONS, *HEADINGS)}
        declared = getattr(self.callback, defaults.OPTIONS, {})
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or _is_global(parameter):
                continue
            if parameter.param_type_name == "argument":
                arguments.append(_untyped(record))
                continue
            if parameter.name in declared and declared[parameter.name].common:
                usual[parameter.name] = record
            heading = getattr(parameter, "rich_help_panel", None) or OPTIONS
            by_heading.setdefault(heading, []).append(record)
        by_heading = {heading: records for heading, records in by_heading.items() if records}
        sections: dict[str, list[Record]] = {"Arguments": arguments}
        is_short = bool(usual) and not ctx.meta.get(SHOWS_ALL)
        if is_short:
            order = SHOWN_FIRST.get(str(ctx.command.name), ())
            first = {name: usual[name] for name in order if name in usual}
            sections[USUAL] = list((first | usual).values())
        elif sum(map(len, by_heading.values())) >= MANY:
            sections |= by_heading
        else:
            sections[OPTIONS] = [record for records in by_heading.values() for record in records]
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        formatter.write_paragraph()
        if is_short:
            count = sum(map(len, by_heading.values())) - len(usual)
            formatter.write_text(_rest(ctx.command_path, count, list(by_heading)))
        formatter.write_text(_global_options())

    def parse_args(  # type: ignore[override]  # its own click's
        self,
        ctx: typer.Context,
        args: list[str],
    ) -> list[str]:
        """Read the words. A flag that may be alone gets its value behind =, so that it takes no
        word of the arguments.
        """
        flags = {}
        for option in getattr(self.callback, defaults.OPTIONS, {}).values():
            if option.flag.alone:
                flags[f"--{option.typed}"] = option.flag
        end = args.index("--") if "--" in args else len(args)
        words: list[str] = []
        for word in args[:end]:
            before = words[-1] if words else ""
            if before in flags and re.fullmatch(flags[before].follows, word):
                words[-1] = f"{before}={word}"
            else:
                words.append(word)
        words = [f"{word}={flags[word].alone}" if word in flags else word for word in words]
        return super().parse_args(ctx, [*words, *args[end:]])

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # its own click's
        defaults.say(ctx)
        extensions.allow(_typed(ctx))
        return super().invoke(ctx)


def _is_global(parameter: Any) -> bool:
    """Tell whether every command has the option, so that its help need not explain it."""
    return parameter.name in declare.EVERYWHERE or HELP in parameter.opts


def _rest(command: str, count: int, headings: list[str]) -> str:
    """A sentence on the options that the short help leaves out."""
    named = ", ".join(heading for heading in headings if heading != OPTIONS)
    about = f": {named}" if named else ""
    return f"{command} {WHOLE_HELP} lists {count} more options{about}."


def _global_options() -> str:
    """A line on the options of every command."""
    names = [f"--{name}" for name in declare.EVERYWHERE]
    names += [typed for typed, _ in ANYWHERE]
    return f"Every command also takes {', '.join(names)}: see fedcli --help."


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
