"""Files that are whole or not there: hashed, read with a bound, written beside and renamed, never
through a link.
"""

import codecs
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from ..errors import FedcliError, UsageError
from ..system import interrupts

SETTLED = 2 * 10**9  # nanoseconds
LARGEST_TEXT = 2**29  # bytes of a table, record or manifest; images and arrays are not read as text
NO_LOCKS = errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP  # of a disk without them
WIDE = "utf-16", "utf-32"  # encodings with zero bytes in every text
PASSING = errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ETIMEDOUT, errno.ESTALE
T = TypeVar("T")


def settled(path: Path) -> tuple[int, ...] | None:
    """A stamp that differs once a file was changed; None where a clock tick may hide a change right
    after another.
    """
    try:
        status = path.stat()
    except OSError:  # whoever reads the file says what is wrong
        return None
    changed = status.st_mtime_ns, status.st_ctime_ns
    if time.time_ns() - max(changed) < SETTLED:
        return None
    # ctime: a program that copies may put mtime back
    return status.st_dev, status.st_ino, status.st_size, *changed


def remembered(count: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A decorator: what is read of a file is read again once it may have changed. count: answers
    that are remembered.
    """

    def once(read: Callable[..., T]) -> Callable[..., T]:
        @lru_cache(count)
        def of_stamp(_stamp: tuple[int, ...], path: Path, *how: Any) -> T:
            return read(path, *how)

        @wraps(read)
        def of_file(path: Path, *how: Any) -> T:
            stamp = settled(path)
            return of_stamp(stamp, path, *how) if stamp else read(path, *how)

        return of_file

    return once


@remembered(1024)
def sha256(path: Path) -> str:
    """Hex digest of a file's bytes; a large file that has not been touched since is hashed once per
    process.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def may_pass(error: Exception) -> bool:
    """Tell whether an error says something of the system, the disk or a signal at this moment, and
    not of a file.
    """
    return interrupts.came() or (isinstance(error, OSError) and error.errno in PASSING)


def regular(path: Path, hint: str = "") -> Path:
    """The path itself. Raises FedcliError where it is absent or no regular file: a pipe or device
    may never end.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FedcliError(f"no such file: {path}", hint) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise FedcliError(f"{path} cannot be read: {reason}", hint) from None
    if not stat.S_ISREG(mode):
        raise FedcliError(f"{path} is not a regular file", hint)
    return path


def on_one_line(path: Path) -> Path:
    """The path itself, which can be printed as a line. Raises UsageError where it has several."""
    if len(str(path).splitlines()) > 1:
        hint = "give another --work or --out: a result is printed as a line"
        raise UsageError(f"{str(path)!r} has a line break", hint)
    return path


def read_text(path: Path, hint: str = "", encoding: str = "utf-8") -> str:
    """The text of a regular file. Raises FedcliError where it is too large, unreadable or not in
    this encoding.
    """
    regular(path, hint)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_TEXT + 1)
        if len(data) > LARGEST_TEXT:
            raise FedcliError(
                f"{path} has more than {LARGEST_TEXT >> 20} MiB, too much for a text file", hint
            )
        if b"\0" in data and not codecs.lookup(encoding).name.startswith(WIDE):
            raise FedcliError(f"{path} holds zero bytes, which no text does", hint)
        text = data.decode(encoding)
        if "\0" in text:
            raise FedcliError(f"{path} holds zero bytes, which no text does", hint)
        return text
    except OSError as error:
        raise FedcliError(f"{path} cannot be read: {error.strerror or error}", hint) from None
    except UnicodeDecodeError as error:
        raise FedcliError(
            f"{path} is not {encoding.removesuffix('-sig')} text: {error.reason}", hint
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write beside, fsync, rename: path holds the old text or the new one, never half. Its folder
    is made too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside path that takes its place when the block ends without an error; its name is
    file.name.

    A link at path is replaced, and not what it leads to.
    """
    path = Path(path)
    _remove_abandoned(path)
    temporary, file = _new(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)  # while it is locked: nobody takes it for an abandoned one
    except OSError as error:
        if error.filename in (
            None,
            str(temporary),
        ):  # a full disk does not say what was being written
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    flush(path.parent)


def _new(path: Path) -> tuple[Path, BinaryIO]:
    """A file of its own, locked until it is closed, under a name that nobody could have
    prepared.
    """
    while True:
        temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.tmp")
        file = temporary.open("x+b")
        try:
            locked = flock(file)
        except OSError:
            file.close()
            temporary.unlink(missing_ok=True)
            raise
        # another may have taken it for abandoned before the lock
        if locked is not False and temporary.exists():
            return temporary, file
        file.close()


def _remove_abandoned(path: Path) -> None:
    """Remove what killed processes left beside path; what a living one writes is locked."""
    name = re.compile(rf"\.{re.escape(path.name[:200])}\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):  # a folder that cannot be listed
        for old in [
            entry
            for entry in path.parent.iterdir()
            if name.fullmatch(entry.name) and entry.is_file()
        ]:
            with suppress(OSError), old.open("rb") as file:
                if flock(file):
                    old.unlink()


def flock(file: BinaryIO | int, *, wait: bool = False) -> bool | None:
    """Lock an open file; False where it is held, None on a file system without locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:  # nothing on it is taken for abandoned
            return None
        raise
    return True


def appending(path: Path) -> TextIO:
    """A text file opened to add lines. Raises FedcliError where a link stands in its place."""
    return not_a_link(path, "remove it: fedcli replaces only its own files").open(
        "a", encoding="utf-8"
    )


def not_a_link(path: Path, hint: str) -> Path:
    """The path itself, to be written to. Raises FedcliError for a link, a pipe or a folder, which
    is not ours.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FedcliError(f"{path} is a link or no regular file", hint)
    return path


def sync(folder: Path) -> None:
    """Flush every file of a folder to the disk."""
    with flushing(folder):
        pass


@contextmanager
def flushing(folder: Path) -> Iterator[None]:
    """Flush the files that a folder has to the disk while the block runs, such as one that hashes
    them.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(1) as disk:
        flushed = disk.map(flush, files)
        yield
        list(flushed)  # raises what went wrong
    flush(folder)


def flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
