"""Files that one process holds at a time; a lock ends with its process, also one that is killed."""

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import FedcliError
from .files import not_a_link

RENAMING = "renaming"  # stands in the name of a lock where the name of a folder of a process' own has random digits


@contextmanager
def held(
    path: Path, sentence: str, hint: str, *, told: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Hold a lock file. Where another process holds it, raises FedcliError with these words, or with `told` tells
    them and waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _file_lock(path).acquire(timeout=0)
    except Timeout:
        if told is None:
            raise FedcliError(sentence, hint) from None
        told(f"{sentence}: waiting for it")
        lock = _file_lock(path).acquire()
    with lock:
        yield


def is_held(path: Path) -> bool:
    """Tell whether another process holds a lock file that is there."""
    if not path.is_file():
        return False
    try:
        with _file_lock(path).acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def renaming(folder: Path) -> Iterator[None]:
    """Hold a lock beside a folder for a moment, after whoever holds it, and remove it."""
    path = folder.with_name(f".{folder.name}.{RENAMING}.lock")
    with _file_lock(path):
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()  # while it is held: whoever waits sees that it is gone, and makes another


def _file_lock(path: Path) -> FileLock:
    """Raises FedcliError for a link or a pipe in its place, which is not ours to write to."""
    return FileLock(not_a_link(path, "remove it, or give another folder"), thread_local=False)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder beside the target, locked until it is renamed or left; those of killed processes go first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    path = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.tmp"
    with FileLock(path.with_suffix(".lock"), thread_local=False):
        try:
            path.mkdir()  # not mkdtemp, whose folders nobody else may read
            yield path
        finally:
            _clear(path)  # after a rename there is no folder left to remove


def remove_abandoned(folder: Path) -> None:
    """Remove what killed processes have left beside a target: their folders and locks, known by their names."""
    abandoned = re.compile(rf"\.{re.escape(folder.name)}\.([0-9a-f]{{8}}|{RENAMING})\.lock")
    for old in [path for path in folder.parent.iterdir() if abandoned.fullmatch(path.name)]:
        with (
            suppress(Timeout, OSError),
            FileLock(old, thread_local=False).acquire(timeout=0),
        ):  # else its process lives
            _clear(old.with_suffix(".tmp"))


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if (
        folder.exists()
    ):  # too many files are open, say: the lock stays, so that the next process removes both
        return
    folder.with_suffix(".lock").unlink(missing_ok=True)
