"""Pieces of work that processes of one machine, or of several on a shared file system, take one by
one.

A claim is a file that its process locks (flock) and touches every BEAT seconds. A process that is
killed loses the lock at once, so others on its machine take the piece over at once. Whether a lock
holds between machines depends on the file system (NFS 4, CephFS and GPFS: yes; BeeGFS and Lustre:
as they are mounted), so a claim of another machine counts as given back only when nobody has
touched it for SILENT seconds of the clock of whoever looks: no two clocks are compared. Taking over
is the creation of a file with the next number, which one process alone succeeds in.
"""

import json
import os
import platform
import signal
import threading
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from .. import console
from ..system.apple import kernel_value
from .files import flock

BEAT = 10.0  # seconds
SILENT = 120.0  # seconds; NFS may show a file's time up to 60 s late
MAIN = threading.main_thread().ident or 0
# equal for all processes of a machine, containers too
BOOT = Path("/proc/sys/kernel/random/boot_id")


class Claims(AbstractContextManager["Claims"]):
    """Pieces of work that this process has claimed in a folder; all are given back when the block
    ends.
    """

    def __init__(self, folder: Path, purpose: str = ""):
        """purpose: what the claims of this process are for, which others can read."""
        self.folder = folder
        self.purpose = purpose
        self._held: dict[str, tuple[Path, int]] = {}  # name -> the file, and its open descriptor
        # a claim of another machine: its time, and since when it has it
        self._seen: dict[Path, tuple[int, float]] = {}
        self._ended = threading.Event()
        self._made: list[Path] = []  # folders, which go where nothing came into them

    def take(self, name: str) -> bool:
        """Claim a piece of work; False where another process has it."""
        before = self._files(name)
        if before and not self._is_dead(before[-1]):
            return False
        for folder in (self.folder, *self.folder.parents):
            if not folder.exists():
                self._made.append(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.{_number(before[-1]) + 1 if before else 0}"
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        # another was first, or took the empty folder away
        except (FileExistsError, FileNotFoundError):
            return False
        flock(file, wait=True)  # whoever looks at the empty file holds it for a moment
        os.write(file, json.dumps({"machine": machine(), "about": self.purpose}).encode())
        self._held[name] = path, file
        if {*self._files(name)} - {*before, path}:  # another machine took it over at the same time
            self.give_back(name)
            return False
        for old in before:
            old.unlink(missing_ok=True)
        if len(self._held) == 1:
            threading.Thread(target=self._beat, args=(self._ended,), daemon=True).start()
        return True

    def give_back(self, name: str) -> None:
        """End a claim of this process."""
        path, file = self._held.pop(name)
        with suppress(OSError):
            # while it is locked: whoever waits for the lock sees that it is gone
            path.unlink(missing_ok=True)
        os.close(file)
        if not self._held:
            self._ended.set()
            self._ended = threading.Event()

    def holder(self, name: str) -> str:
        """The purpose of another process's claim; "" where there is none, or it has not said so
        yet.
        """
        with suppress(OSError, IndexError):
            return _said(self._files(name)[-1].read_bytes()[:4096], "about")
        return ""

    def __exit__(self, *_: object) -> None:
        for name in [*self._held]:
            self.give_back(name)
        for folder in (self.folder, *self._made):
            with suppress(OSError):
                folder.rmdir()

    def _files(self, name: str) -> list[Path]:
        """The claims of a name, the one that counts last."""
        paths = [path for path in self.folder.glob(f"{name}.*") if path.suffix[1:].isdecimal()]
        return sorted(paths, key=_number)

    def _is_dead(self, path: Path) -> bool:
        """Tell whether the process of a claim is gone, or its machine silent."""
        with suppress(OSError), open(path, "r+b", buffering=0, opener=_never_waiting) as file:
            locked = flock(file.fileno())
            claim = os.read(file.fileno(), 4096)
            status = os.fstat(file.fileno())
            if locked is False or not status.st_nlink:
                return False
            if locked and _said(claim, "machine") == machine():
                return True
            now = time.monotonic()
            stamp, since = self._seen.get(path, (None, now))
            if stamp != status.st_mtime_ns:
                self._seen[path] = status.st_mtime_ns, now
                return False
            return now - since > SILENT
        return False  # given back at this moment

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            for path, _ in [*self._held.values()]:
                with suppress(OSError):
                    if path.exists():
                        os.utime(path)
                        continue
                    if path not in [claim for claim, _ in self._held.values()]:
                        continue  # given back at this moment
                    stopped = "this process stood still, and another one has taken its work over"
                    console.warn(f"{path} is gone: {stopped}")
                    # to the command line, which saves what there is, or to a program that calls
                    # fedcli
                    handled = callable(signal.getsignal(signal.SIGTERM))
                    signal.pthread_kill(MAIN, signal.SIGTERM if handled else signal.SIGINT)
                    return


def _never_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def machine() -> str:
    """The name of this machine since it was started."""
    with suppress(OSError):
        return BOOT.read_text(encoding="ascii").strip()
    return kernel_value("kern.bootsessionuuid") or platform.node()


def _said(claim: bytes, key: str) -> str:
    """A word of a claim; "" of one that is just being made."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return str(json.loads(claim)[key])
    return ""


def _number(path: Path) -> int:
    return int(path.suffix[1:])
