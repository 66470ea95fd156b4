"""Files that a person names for a result: nothing that fedcli did not write is lost by them.

A file is replaced while it is what fedcli wrote, byte for byte: the sha256 of every such file is a
line of `written` in the user's cache. Any other file needs force. A pipe, a device and /dev/stdout
are written into; a link is refused.
"""

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from ..errors import FedcliError, UsageError
from .files import appending, replacing, sha256

STREAM = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/(self|\d+)/fd/\d+")
WRITTEN = "written"  # in the user's cache
HINT = "give another name, or --force to replace it"


def user_cache() -> Path | None:
    """The folder of fedcli's in the user's cache, be it there or not; None for an account without a
    home.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - Path's raises where an account has no home
    cache = Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache")
    return cache / "fedcli" if cache.is_absolute() else None


def is_stream(path: Path) -> bool:
    """Tell whether a path leads to a pipe, a device or an open file of this process, which keeps no
    result.
    """
    if STREAM.fullmatch(str(path)):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:  # such as a dangling link
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def refuse_sealed(out: Path, *, folder: bool = False) -> None:
    """Raise UsageError for a folder where a file is to be written or the other way, and for a path
    among the files of a run, which are hashed when it ends.
    """
    if str(out) == "-" and not folder:
        raise UsageError("- is no file", "leave it out to print")
    if out.is_dir() and not folder:
        raise UsageError(f"{out} is a folder", "give the name of a file")
    if folder and out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file", "give a folder")
    path = out.resolve()
    for above in (path, *path.parents):
        if (above / "settings.json").is_file():
            hint = f"give a {'folder' if folder else 'file'} elsewhere"
            raise UsageError(f"{out} lies in the folder of a run, whose files are sealed", hint)


def check(path: Path, *, force: bool = False) -> None:
    """Refuse a path at which there is something that a result may not replace. Raises
    FedcliError.
    """
    if is_stream(path):
        return
    if path.is_symlink():
        raise FedcliError(f"{path} is a link", "give the name of a file, or remove the link")
    if path.is_file() and not force:
        _check_file(path)


def write(path: Path, result: bytes, *, force: bool = False) -> None:
    """Write a result into a stream, or as a whole file, with its folder. Raises FedcliError as
    check() does.
    """
    if is_stream(path):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(handle, "wb") as stream:
            stream.write(result)
        return
    check(path, force=force or _holds(path, result))
    _remember(hashlib.sha256(result).hexdigest())
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(result)


def _check_file(path: Path) -> None:
    if not path.stat().st_mode & stat.S_IWUSR:
        raise FedcliError(f"{path} is there already, and is read-only", HINT)
    if sha256(path) not in _written():
        changed = "is not as fedcli wrote it, if it ever did"
        raise FedcliError(f"{path} is there already, and {changed}", HINT)


def _holds(path: Path, result: bytes) -> bool:
    if not path.is_file() or path.stat().st_size != len(result):
        return False
    return path.read_bytes() == result


def _written() -> set[str]:
    """The sha256 of every file that fedcli wrote where this person told it to."""
    cache = user_cache()
    if cache is None:
        return set()
    try:
        return set((cache / WRITTEN).read_text(encoding="ascii").split())
    except (OSError, ValueError):  # absent or damaged: then --force is needed
        return set()


def _remember(digest: str) -> None:
    cache = user_cache()
    if cache is None or digest in _written():
        return
    with suppress(OSError, FedcliError):  # it may not be written: then --force is needed next time
        cache.mkdir(parents=True, exist_ok=True)
        with appending(cache / WRITTEN) as file:
            file.write(f"{digest}\n")
