"""Where something comes from that is not fedcli's own, as manifests record it, and how its errors
are said.
"""

import hashlib
import inspect
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import FedcliError

LONG = 200  # characters of somebody else's error that a sentence repeats
version_of = cache(version)  # of an installed package, whose description takes milliseconds to read


class OwnCodeError(FedcliError):
    """A fault in code from outside the package, with its file and line."""


@dataclass(frozen=True)
class Code:
    """Where something comes from that is not fedcli's own."""

    name: str  # of the file, or of the installed package
    # of the file; of a package's module; of the source, where it was typed into a session
    sha256: str = ""
    version: str = ""  # of the package
    revision: str = ""  # of what a package read from the Hugging Face hub
    # of a file that a command line named; it decides nothing
    path: Path | None = field(default=None, compare=False)

    @property
    def recorded(self) -> dict[str, str]:
        """The entry of a manifest, without the place of a file."""
        entry = {"file" if self.path else "package": self.name}
        for key in ("version", "sha256", "revision"):
            if getattr(self, key):
                entry[key] = getattr(self, key)
        return entry

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def of_source(*objects: Any) -> Code | None:
    """Where objects come from whose classes belong neither to fedcli nor to a file that a command
    line named.
    """
    ours = __name__.partition(".")[0] + "."
    classes = []
    for instance in objects:
        for cls in type(instance).__mro__:
            if not f"{cls.__module__}.".startswith((ours, "builtins.")):
                classes.append(cls)
    return of_functions(*classes) if classes else None


def of_functions(*functions: Any) -> Code:
    """Where functions or classes come from, with the sha256 of their source."""
    texts = []
    for function in functions:
        if isinstance(function, partial):
            texts.append(f"{function.func.__qualname__}{function.args}")
            continue
        try:
            texts.append(inspect.getsource(function))
        except (OSError, TypeError):  # typed into a session that keeps no source
            members = [function, *vars(function).values()] if hasattr(function, "__dict__") else []
            codes = [member.__code__.co_code for member in members if inspect.isfunction(member)]
            texts.append(repr(codes))
    module = getattr(functions[0], "func", functions[0]).__module__
    return Code(module, hashlib.sha256("\n".join(texts).encode()).hexdigest())


def other_code(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The files and packages whose code is another now, each in a few words.

    old, new: entries by the half of a method or the network that they are of; or one of a dataset
    or a scheme.
    """
    if "sha256" in old or "sha256" in new:
        return other_code({"": old}, {"": new})
    changed = []
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            code = old.get(name) or new[name]
            changed.append(f"{code.get('file') or code.get('package')}, which was changed")
    return changed


def first_line(documented: Any) -> str:
    """The first line that somebody's function or class says of itself."""
    lines = (inspect.getdoc(documented) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else "it says nothing of itself"


def in_line(number: int | None) -> str:
    """The end of a file's name where the line is known."""
    return f", line {number}" if number else ""


def words_of(error: object, length: int = LONG) -> str:
    """The first words of an error, or of its text, in one line of at most so many characters."""
    return " ".join(str(error).split())[:length]


def kind_and_words(error: BaseException) -> str:
    """Type and first words of a library's error, for the end of a sentence."""
    return f"{type(error).__name__}: {words_of(error, LONG // 2)}"


def message_of(error: BaseException) -> str:
    """Type and words of an error in one line."""
    words = words_of(error.msg if isinstance(error, SyntaxError) else error, LONG + 1)
    if len(words) > LONG:
        words = f"{words[:LONG]}..."
    return f"{type(error).__name__}: {words}"
