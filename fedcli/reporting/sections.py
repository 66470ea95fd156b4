"""Sections of a report that plug in: those of leaves, and those of installed packages.

A package offers one by an entry point of the group fedcli.sections: a function that gets the
systems of the report, a list of SystemRow, and returns a Section. `fedcli report --section NAME`
asks for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module

from .. import console, extensions
from ..errors import UsageError, nearest
from ..leaves import is_installed
from ..provenance import message_of
from .rows import SystemRow
from .table import Section


def of_leaf(module: str, systems: Sequence[SystemRow]) -> Iterator[Section]:
    """The section that a module of this room writes, if the module was not deleted."""
    path = f"{__package__}.{module}"
    if is_installed(path):
        yield import_module(path).section(systems)


def check(names: Sequence[str]) -> None:
    """Raises UsageError for a name of which no installed package offers a section."""
    for name in names:
        if extensions.offered("sections", name) is None:
            hint = nearest(name, extensions.installed("sections"))
            raise UsageError(f"no installed package offers a section {name!r}", hint)


def of_packages(names: Sequence[str], systems: Sequence[SystemRow]) -> Iterator[Section]:
    """The sections of these names; one that fails is left out with a warning."""
    for name in names:
        section, code = extensions.installed("sections")[name]
        try:
            written = section(list(systems))
            if not isinstance(written, Section):
                raise TypeError(f"{type(written).__name__} is no Section")
        except Exception as error:
            reason = message_of(error)
            console.warn(f"the section {name} of {code} is left out: {reason}")
            continue
        tables = [replace(table, title=table.title or written.title) for table in written.tables]
        yield replace(written, name=f"package-{name}", tables=tables)
