"""Operations on files, counted, so that a command can be killed or can fail before any one of them."""

import errno
import os
import signal
import sys
from pathlib import Path

import h5py

from .process import run

AUDITED = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.utime",
    "os.link",
    "os.symlink",
    "os.chmod",
}
CALLED = (
    (os, "fsync"),
    (h5py.File, "__init__"),
    (h5py.File, "close"),
    (h5py.Group, "create_dataset"),
)
ERRORS = {
    "writing": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE),
    "reading": (errno.EIO, errno.EACCES, errno.ENOENT, errno.ESTALE, errno.EMFILE),
}
LASTING = errno.ENOENT, errno.EACCES


class Operations:
    """Counts what a process does to files; at operation number `last` it is killed, or gets an error of the system.

    reading: count instead the files below this folder that are opened to be read. One that is absent or forbidden
    stays so.
    """

    def __init__(self, last: int | None, error: int = 0, *, reading: Path | None = None):
        self.last, self.error, self.reading, self.count, self.process = last, error, reading, 0, 0
        self.gone = ""  # a file that is absent or forbidden from now on

    def watch(self) -> None:
        self.process = os.getpid()
        sys.addaudithook(self._heard)
        if not self.reading:
            for owner, name in CALLED:
                setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call):
        def counted(*args, **named):
            self._next()
            return call(*args, **named)

        return counted

    def _heard(self, event: str, args: tuple) -> None:
        if event == "open" and isinstance(args[0], int):
            return  # a file that is open already
        if event == "open" and isinstance(args[2], int):
            writes = bool(args[2] & (os.O_WRONLY | os.O_RDWR))
            if (
                not writes
                if self.reading and self._inside(args[0])
                else writes and not self.reading
            ):
                self._next(str(args[0]))
        elif event in AUDITED and not self.reading:
            self._next(str(args[0]))

    def _inside(self, path: object) -> bool:
        return isinstance(path, str | Path) and Path(path).absolute().is_relative_to(
            self.reading or ""
        )

    def _next(self, path: str = "") -> None:
        if os.getpid() != self.process:
            return
        self.count += 1
        if self.count == self.last and self.error in LASTING:
            self.gone = path
        if self.count == self.last or (path and path == self.gone):
            if self.error:
                raise OSError(self.error, os.strerror(self.error), path or None)
            os.killpg(0, signal.SIGKILL)


def operations(words: list[str], folder: Path, *, reading: Path | None = None) -> int:
    """The number of operations on files of a command that nothing stops."""
    reader, writer = os.pipe()
    watched = Operations(None, reading=reading)

    def before() -> None:
        watched.watch()
        leave = os._exit

        def counted_and_left(code: int) -> None:
            if os.getpid() == watched.process:  # not one that it has forked
                os.write(writer, str(watched.count).encode())
            leave(code)

        os._exit = counted_and_left

    ended = run(words, folder, before=before)
    os.close(writer)
    with open(reader, "rb") as pipe:
        count = int(pipe.read() or b"0")
    assert ended.code == 0, (ended.err, count)
    assert count > 1, (ended.err, count)
    return count
