"""A command that is killed anywhere, and typed again, ends at the bytes of one that was not.

Killed means SIGKILL for all its processes, just before one of its operations on files.
"""

import os
import signal
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from .chain import STAGES, copied, files
from .judge import faults, shown
from .process import run

AUDITED = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.link", "os.symlink", "os.chmod",
}  # fmt: skip


class Operations:
    """Counts what a process does to files, and ends it before operation number `last`."""

    def __init__(self, last: int | None):
        self.last, self.count, self.process = last, 0, 0

    def watch(self) -> None:
        self.process = os.getpid()
        sys.addaudithook(self._heard)
        for owner, name in (
            (os, "fsync"),
            (h5py.File, "__init__"),
            (h5py.File, "close"),
            (h5py.Group, "create_dataset"),
        ):
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, call):
        def counted(*args, **named):
            self._next()
            return call(*args, **named)

        return counted

    def _heard(self, event: str, args: tuple) -> None:
        if event in AUDITED or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            self._next()

    def _next(self) -> None:
        if os.getpid() != self.process:
            return
        self.count += 1
        if self.count == self.last:
            os.killpg(0, signal.SIGKILL)


def operations(words: list[str], folder: Path) -> int:
    """How many operations on files a command does when nothing stops it."""
    reader, writer = os.pipe()
    watched = Operations(None)

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
    assert ended.code == 0 and count > 3, (ended.err, count)
    return count


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_command_typed_again_ends_at_the_same_bytes(stage, chain, count, seed, tmp_path):
    words = STAGES[stage]
    folder = copied(chain.before(stage), tmp_path / "whole")
    most = operations(words, folder)
    wanted = files(folder)
    drawn = np.random.default_rng([seed, len(stage)]).permutation(most)[:count] + 1
    findings = []
    for number in sorted(drawn.tolist()):
        folder = copied(chain.before(stage), tmp_path / "killed")
        killed = run(words, folder, before=Operations(number).watch)
        again = run(words, folder)
        wrong = faults(again)
        if not wrong and again.code:
            wrong = ["refuses to go on"]
        made = files(folder)
        differing = sorted(name for name in {*made, *wanted} if made.get(name) != wanted.get(name))
        if differing:
            wrong.append(f"leaves other files: {', '.join(differing[:4])}")
        if killed.code != -signal.SIGKILL and killed.code:
            wrong.append("is not killed, and fails")
        if wrong:
            findings.append(shown(again, wrong, f"killed before operation {number} of {most}"))
    assert not findings, f"{len(findings)} of {len(drawn)}\n" + "\n".join(findings)
