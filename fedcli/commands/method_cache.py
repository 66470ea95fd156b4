"""What `fedcli methods NAME` shows of fedcli's own methods, kept beside their compiled files: asking imports torch.

It is made from the methods themselves when it is first asked for, and again when any file of fedcli has changed.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import __version__
from ..io.files import write_text

PACKAGE = Path(__file__).parent.parent
Kept = dict[str, dict[str, Any]]  # name, label or alias in small letters -> what is shown


def places() -> list[Path]:
    """Where it may be kept: with the package, or where that may not be written, with the user."""
    stats = [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(PACKAGE.rglob("*.py"))]
    key = hashlib.sha256(repr((__version__, stats)).encode()).hexdigest()[:16]
    home = os.path.expanduser("~")  # noqa: PTH111 - Path's raises where an account has no home
    user = Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache")
    folders = [PACKAGE / "methods" / "__pycache__", *([user / "fedcli"] if user.is_absolute() else [])]
    return [folder / f"methods-{key}.json" for folder in folders]


def read(name: str) -> dict[str, Any] | None:
    """What is shown of a method; None where the methods have to be asked."""
    for path in places():
        with contextlib.suppress(OSError, ValueError, AttributeError):  # absent, or changed by somebody
            return json.loads(path.read_text(encoding="utf-8")).get(name.lower())
    return None


def keep(make: Callable[[], Kept]) -> None:
    """Write what is shown of all methods, in place of what was kept for other files."""
    kept = None
    for path in places():
        try:
            for old in path.parent.glob("methods-*.json"):
                old.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = kept or json.dumps(make())
            write_text(path, kept)
        except OSError:  # may not be written there
            continue
        return
