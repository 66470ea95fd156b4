"""Words of a line that name methods, and the one that names their data."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from ... import extensions
from ...errors import UsageError


def methods_and_data(words: Sequence[str]) -> tuple[list[str], str | None]:
    """The methods among words, and the data: a path or -. Raises UsageError for two of these."""
    extensions.allow(words)
    methods: list[str] = []
    paths: list[str] = []
    for position, word in enumerate(words):
        is_method = _is_method(word, is_first=position == 0)
        (methods if is_method else paths).append(word)
    missing = [path for path in paths if not (_is_path(path) or Path(path).exists())]
    if len(paths) > 1 and missing:
        sentence = f"{missing[0]!r} is no method, no manifest and no value of an option"
        raise UsageError(sentence, "`fedcli train --help=all` lists the values of options")
    if len(paths) > 1:
        sentence = f"{paths[0]} and {paths[1]} are two manifests"
        raise UsageError(sentence, "train on one of them, then on the other")
    return methods, paths[0] if paths else None


def _is_path(word: str) -> bool:
    return word in ("", "-") or os.sep in word or word.endswith(".json")


def _is_method(word: str, *, is_first: bool) -> bool:
    """Tell whether a word names a method, be it mistyped. A file that has a method's name is
    written ./NAME.
    """
    from ...methods import METHODS, resolve

    if any(extensions.is_file(half) for half in word.split("+")):
        return True
    if _is_path(word):
        return False
    try:
        resolve(word)
    except UsageError:
        if Path(word).exists():
            return False
        close = get_close_matches(word.lower(), METHODS, 1, 0.6)
        return is_first or "+" in word or bool(close)
    return True
