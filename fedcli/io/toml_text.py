"""TOML files, whose size and nesting are bounded before they are parsed: the parser bounds
neither.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from ..errors import FedcliError, UsageError
from .files import read_text

LARGEST = 2**20  # characters of a file
DEEPEST = 32  # brackets in brackets, or parts of a dotted name
_TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\[{]|[\]}]|[.,=\n]',
    re.S,
)


def read(path: Path, hint: str = "mend that line") -> dict[str, Any]:
    """The table in a file. Raises FedcliError, UsageError."""
    try:
        text = read_text(path, hint, "utf-8-sig")  # Windows' editors begin with a byte order mark
        if len(text) > LARGEST:
            raise UsageError(f"{path} has more than {LARGEST} characters", hint)
        if "\\u0000" in text or "\\U00000000" in text:
            raise ValueError("it holds zero bytes")
        _check_depth(text)
        return tomllib.loads(text)
    except FedcliError:
        raise
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}"[:300], hint) from None


def _check_depth(text: str) -> None:
    """Raises ValueError."""
    depth = parts = 0
    for token in _TOKENS.findall(text):
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth = max(0, depth - 1)
        if token == ".":
            parts += 1
        elif token in "[{]},=\n":
            parts = 0
        if max(depth, parts) >= DEEPEST:
            raise ValueError(f"it nests more than {DEEPEST} deep")
