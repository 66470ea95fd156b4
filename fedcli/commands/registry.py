"""Commands by name: each is a function in a file and a line in COMMANDS.

A command is imported when it is called or listed in help, so that the others cost nothing. A
package adds one by an entry point of the group fedcli.commands: a function whose parameters are
declared as they are here, or a typer app.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import typer

from .. import console, extensions
from ..leaves import is_installed
from ..provenance import message_of
from .shell import declare
from .shell.panels import Command


@dataclass(frozen=True)
class Entry:
    """One command of fedcli.

    Attributes:
        heading: of its line in `fedcli --help`.
        module: the module that has a function of the command's name.
        needs: a module that nothing else needs; without it the command is not listed.
        group: name of a class in the module, of a command that has commands below it.
        shared_line: sentence of the line in help that commands of one kind share.
    """

    heading: str
    module: str
    needs: str = ""
    group: str = ""
    shared_line: str = ""

    def is_complete(self) -> bool:
        """Tell whether the command, and what it alone needs, is installed."""
        return is_installed(self.module) and (not self.needs or is_installed(self.needs))


LISTS = "List all, or show one by NAME."
COMMANDS = {
    "demo": Entry("Begin", "fedcli.commands.demo"),
    "prepare": Entry("Data", "fedcli.commands.stages"),
    "partition": Entry("Data", "fedcli.commands.stages"),
    "corrupt": Entry("Data", "fedcli.commands.stages"),
    "train": Entry("Train and score", "fedcli.commands.stages"),
    "evaluate": Entry("Train and score", "fedcli.commands.stages"),
    "predict": Entry("Train and score", "fedcli.commands.stages"),
    "reproduce": Entry("Train and score", "fedcli.commands.reproduce"),
    "report": Entry("Compare", "fedcli.commands.stages"),
    "compare": Entry("Compare", "fedcli.commands.compare"),
    "plot": Entry("Compare", "fedcli.commands.plot", group="Figures"),
    "open": Entry("Compare", "fedcli.commands.open"),
    "ls": Entry("Compare", "fedcli.commands.ls"),
    "rm": Entry("Compare", "fedcli.commands.rm"),
    "inspect": Entry("Compare", "fedcli.commands.inspect"),
    "methods": Entry("Look up", "fedcli.commands.methods", shared_line=LISTS),
    "datasets": Entry("Look up", "fedcli.commands.datasets", shared_line=LISTS),
    "models": Entry("Look up", "fedcli.commands.lists", shared_line=LISTS),
    "metrics": Entry("Look up", "fedcli.commands.lists", shared_line=LISTS),
    "corruptions": Entry("Look up", "fedcli.commands.corruptions", shared_line=LISTS),
    "site": Entry("Use at hospitals", "fedcli.sites.command"),
    "export": Entry("Use at hospitals", "fedcli.commands.export"),
    "audit": Entry("For authors", "fedcli.commands.compare", needs="fedcli.stages.audit"),
    "new": Entry("For authors", "fedcli.commands.new"),
    "check": Entry("For authors", "fedcli.commands.check"),
    "bench": Entry("For authors", "fedcli.commands.bench"),
}


@cache
def load(name: str) -> Any:
    """A command of fedcli as typer has it, imported at the first call."""
    entry = COMMANDS[name]
    module = import_module(entry.module)
    kind = getattr(module, entry.group, Command)
    return _command(getattr(module, name), name, entry.heading, kind)


def _command(
    run: declare.Run,
    name: str,
    heading: str,
    kind: type = Command,
) -> Any:
    return declare.built(
        declare.command(run),
        cls=kind,
        name=name,
        rich_help_panel=heading,
    )


@cache
def of_package(name: str) -> Any:
    """A command of an installed package; None, and a warning, where it cannot be used."""
    offered = extensions.installed("commands").get(name)
    if offered is None:
        return None
    run, code = offered
    heading = f"From {code}"
    try:
        if not isinstance(run, typer.Typer):
            return _command(run, name, heading)
        command: Any = typer.main.get_command(run)
    except Exception as error:
        console.warn(f"the command {name} of {code} cannot be used: {message_of(error)}")
        return None
    command.rich_help_panel = heading
    # fedcli.toml decides nothing for flags that do not declare what they open
    command.context_settings = {**command.context_settings, "default_map": {}}
    return command


def names() -> list[str]:
    """The commands of fedcli that are complete, in the order of help."""
    return [name for name, entry in COMMANDS.items() if entry.is_complete()]


class CommandsByName(Mapping[str, Any]):
    """Every command of fedcli, then of installed packages; imported where it is looked up.

    A command of a package that cannot be used has a name here, and is not there when it is looked
    up.
    """

    def __getitem__(self, name: str) -> Any:
        command = None
        if name not in COMMANDS:
            command = of_package(name)
        elif COMMANDS[name].is_complete():
            command = load(name)
        if command is None:
            raise KeyError(name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*names(), *extensions.packages("commands")]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sections(self) -> dict[str, list[tuple[str, str]]]:
        """Heading -> lines of help: the name of a command, or of those that share a line, and
        what it does.
        """
        names_by_line: dict[tuple[str, str], list[str]] = {}
        for name in self:
            command = self.get(name)
            if command is None:
                continue
            sentence = " ".join((command.help or "").split("\n\n")[0].split())
            if name in COMMANDS:
                sentence = COMMANDS[name].shared_line or sentence
            names_by_line.setdefault((command.rich_help_panel, sentence), []).append(name)
        lines: dict[str, list[tuple[str, str]]] = {}
        for (heading, sentence), names in names_by_line.items():
            lines.setdefault(heading, []).append((", ".join(names), sentence))
        return lines
