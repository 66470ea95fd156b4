"""Where something comes from that is not fedcli's own, as manifests record it, and how its errors are said."""

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
    sha256: str = (
        ""  # of the file; of a package's module; of the source, where it was typed into a session
    )
    version: str = ""  # of the package
    revision: str = ""  # of what a package read from the Hugging Face hub
    path: Path | None = field(
        default=None, compare=False
    )  # of a file that a command line named; it decides nothing

    @property
    def recorded(self) -> dict[str, str]:
        """As manifests say it, without its place."""
        about = {
            "file" if self.path else "package": self.name,
            "version": self.version,
            "sha256": self.sha256,
        }
        about["revision"] = self.revision
        return {key: value for key, value in about.items() if value}

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


def of_source(*made: Any) -> Code | None:
    """Where objects come from whose classes belong neither to fedcli nor to a file that a command line named."""
    ours = __name__.partition(".")[0] + "."
    classes = [
        cls
        for each in made
        for cls in type(each).__mro__
        if not f"{cls.__module__}.".startswith((ours, "builtins."))
    ]
    return of_functions(*classes) if classes else None


def of_functions(*made: Any) -> Code:
    """The same of functions or classes themselves."""
    texts = []
    for each in made:
        if isinstance(each, partial):
            texts.append(f"{each.func.__qualname__}{each.args}")
            continue
        try:
            texts.append(inspect.getsource(each))
        except (OSError, TypeError):  # typed into a session that keeps no source
            inside = [each, *vars(each).values()] if hasattr(each, "__dict__") else []
            texts.append(
                repr([value.__code__.co_code for value in inside if inspect.isfunction(value)])
            )
    return Code(
        getattr(made[0], "func", made[0]).__module__,
        hashlib.sha256("\n".join(texts).encode()).hexdigest(),
    )


def other_code(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The files and packages, by the half of a method or the network that they hold, whose code is another now."""
    if "sha256" in old or "sha256" in new:  # of a dataset or a scheme, which has one alone
        old, new = {"": old}, {"": new}
    changed = [
        old.get(name) or new[name]
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    return [f"{about.get('file') or about.get('package')}, which was changed" for about in changed]


def first_line(documented: Any) -> str:
    """The first line that somebody's function or class says of itself."""
    lines = (inspect.getdoc(documented) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else "it says nothing of itself"


def in_line(number: int | None) -> str:
    return f", line {number}" if number else ""


def words_of(error: BaseException, most: int = LONG) -> str:
    """The first words of an error in one line of at most so many characters."""
    return " ".join(str(error).split())[:most]


def kind_and_words(error: BaseException) -> str:
    """Type and first words of a library's error, for the end of a sentence."""
    return f"{type(error).__name__}: {words_of(error, LONG // 2)}"


def message_of(error: BaseException) -> str:
    """Type and words of an error in one line."""
    words = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())
    return f"{type(error).__name__}: {words[:LONG]}{'...' * (len(words) > LONG)}"
