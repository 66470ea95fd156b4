"""Code that the words of a command allow: only they, or the arguments of a call from Python, may
name code.

What any file says beyond them is refused: a manifest, settings, a recipe, fedcli.toml, a message.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from .errors import UsageError

_words: ContextVar[frozenset[str]] = ContextVar("words", default=frozenset())  # of the command
# of code that they name
_files: ContextVar[frozenset[str]] = ContextVar("files", default=frozenset())
_naming: ContextVar[str] = ContextVar("naming", default="a file")  # the file that names code


@contextmanager
def named_by(file: Path) -> Iterator[None]:
    """Within it, a refusal says which file names what the command does not."""
    before = _naming.set(str(file))
    try:
        yield
    finally:
        _naming.reset(before)


def allow(words: Iterable[str | os.PathLike[str]]) -> None:
    """Take these words of the command: they, and what is in them between = , and +, may name
    code.
    """
    texts = frozenset(os.fspath(word) for word in words)
    _words.set(_words.get() | texts)
    _files.set(_files.get().union(*map(_files_in, texts)))


def words() -> frozenset[str]:
    """The words that may name code, for another process of the same command."""
    return _words.get()


@contextmanager
def allowed(words: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Within it, these words may name code too."""
    before_words = _words.set(_words.get())
    before_files = _files.set(_files.get())
    try:
        allow(words)
        yield
    finally:
        _words.reset(before_words)
        _files.reset(before_files)


def _files_in(word: str) -> Iterator[str]:
    """The files of code that a word of a command may mean."""
    for end in re.finditer(r"\.py(?=[:=,+]|$)", word):
        for cut in re.finditer("^|[=,+]", word[: end.start()]):
            yield _real(word[cut.end() : end.end()])


def _real(path: str | Path) -> str:
    return os.path.realpath(path) if "\0" not in str(path) else str(path)


def check_named(name: str, kind: str) -> None:
    """Refuse a name that the command does not say. kind: of the thing, in words. Raises
    UsageError.
    """
    pattern = rf"(?:^|[=,+:]){re.escape(name)}(?:$|[=,+:@])"
    if not any(re.search(pattern, word) for word in _words.get()):
        raise _unnamed(name, f"{kind}, which is not used")


def _unnamed(name: str | Path, refusal: str) -> UsageError:
    sentence = f"{_naming.get()} names {name}, {refusal}: the command does not name it"
    return UsageError(sentence, f"if you know what it does: --code {name}")


def files_named() -> list[Path]:
    """The files of code that the command names."""
    return [Path(file) for file in sorted(_files.get()) if Path(file).is_file()]


def check_file(path: Path) -> None:
    """Refuse a file of code that the command does not name. Raises UsageError."""
    if _real(path) not in _files.get():
        raise _unnamed(path, "which holds code and is not run")
