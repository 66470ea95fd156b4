"""Files that one process holds at a time; a lock ends with its process, also one that is killed.

Some network disks grant no locks. Work goes on there without them, and a warning says so once for
each disk; what a killed process left is not removed, as nobody can tell whether it lives. A file
that stands for the lock would be worse: one that a killed process left on another machine could not
be told from one in use.
"""

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from .. import console
from ..errors import FedcliError
from .files import NO_LOCKS, not_a_link

# stands in the name of a lock where the name of a folder of a process' own has random digits
RENAMING = "renaming"
LOCK = ".lock"  # in a folder, held by the process that works in it


_disks_without_locks: set[int] = set()  # device numbers of those that were warned of


@contextmanager
def held(
    path: Path,
    sentence: str,
    hint: str,
    *,
    tell: Callable[[str], object] | None = None,
) -> Iterator[None]:
    """Hold a lock file. Where another process holds it, raises FedcliError with these words, or
    with `tell` tells them and waits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(path, timeout=0))
        except Timeout:
            if tell is None:
                raise FedcliError(sentence, hint) from None
            tell(f"{sentence}: waiting for it")
            stack.enter_context(_locked(path))
        yield


def is_held(path: Path) -> bool:
    """Tell whether another process holds a lock file that is there; no on a disk without locks."""
    if not path.is_file():
        return False
    try:
        with _locked(path, timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def renaming(folder: Path) -> Iterator[None]:
    """Hold a lock beside a folder for a moment, after whoever holds it, and remove it."""
    path = folder.with_name(f".{folder.name}.{RENAMING}.lock")
    with _locked(path):
        try:
            yield
        finally:
            with suppress(OSError):
                # while it is held: whoever waits sees that it is gone, and makes another
                path.unlink()


@contextmanager
def _locked(path: Path, timeout: float = -1) -> Iterator[None]:
    """Hold a lock file; on a disk without locks only warn. timeout: seconds to wait for it, -1 for
    ever.

    Raises Timeout; FedcliError for a link or a pipe in its place, which is not ours to write to.
    """
    lock = _file_lock(not_a_link(path, "remove it, or give another folder"))
    try:
        lock.acquire(timeout=timeout)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        _warn_of_no_locks(path.parent)
    try:
        yield
    finally:
        lock.release()


def _file_lock(path: Path) -> FileLock:
    return FileLock(path, thread_local=False, fallback_to_soft=False)


def _warn_of_no_locks(folder: Path) -> None:
    device = folder.stat().st_dev
    if device in _disks_without_locks:
        return
    _disks_without_locks.add(device)
    console.warn(f"{folder} is on a disk without file locks: only one process at a time may use it")


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder beside the target, locked until it is renamed or left; those of killed processes
    go first.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    path = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.tmp"
    with _locked(path.with_suffix(".lock")):
        try:
            path.mkdir()  # not mkdtemp, whose folders nobody else may read
            yield path
        finally:
            _clear(path)  # after a rename there is no folder left to remove


def remove_abandoned(folder: Path) -> None:
    """Remove what killed processes have left beside a target: their folders and locks, known by
    their names.
    """
    abandoned = re.compile(rf"\.{re.escape(folder.name)}\.([0-9a-f]{{8}}|{RENAMING})\.lock")
    for path in list(folder.parent.iterdir()):
        if not abandoned.fullmatch(path.name):
            continue
        # else its process lives, or the disk has no locks
        with suppress(Timeout, OSError), _file_lock(path).acquire(timeout=0):
            _clear(path.with_suffix(".tmp"))


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if (
        folder.exists()
    ):  # too many files are open, say: the lock stays, so that the next process removes both
        return
    folder.with_suffix(".lock").unlink(missing_ok=True)
