"""Locks: another process cannot take one that is held; one of a killed process is free."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from fedcli.errors import FedcliError
from fedcli.io import locks
from fedcli.io.files import write_text
from fedcli.io.locks import held, is_held, renaming, scratch

KILLED = """
import os, sys
from pathlib import Path
from fedcli.io.locks import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("made")
    os._exit(9)
"""


def python(code: str, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True
    )


def test_a_lock_is_held_by_one_at_a_time(tmp_path):
    path = tmp_path / "folder" / ".lock"
    with held(path, "it is in use", "wait"):
        with pytest.raises(FedcliError, match="it is in use"), held(path, "it is in use", "wait"):
            raise AssertionError("held twice")
        other = python(
            "import sys; from pathlib import Path; from fedcli.io.locks import held\n"
            "with held(Path(sys.argv[1]), 'in use', ''): pass",
            path,
        )
        assert other.returncode
        assert "in use" in other.stderr
    with held(path, "it is in use", "wait"):
        pass


def test_a_folder_of_a_killed_process_is_removed_and_one_of_a_living_process_is_not(tmp_path):
    assert python(KILLED, tmp_path / "made").returncode == 9
    leftovers = list(tmp_path.glob("*.tmp"))
    assert [file.name for file in leftovers[0].iterdir()] == ["half"]
    with scratch(tmp_path / "made") as ours, scratch(tmp_path / "made") as theirs:
        assert sorted(tmp_path.glob("*.tmp")) == sorted([ours, theirs])
        theirs.rename(tmp_path / "made")
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]


def test_a_folder_that_cannot_be_removed_now_is_removed_by_the_next_process(tmp_path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr("shutil.rmtree", lambda *_, **__: None)  # as with too many open files
        with scratch(tmp_path / "made") as stuck:
            pass
    assert stuck.exists()
    with scratch(tmp_path / "made") as fresh:
        assert list(tmp_path.glob("*.tmp")) == [fresh]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def disk_without_locks(request, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "_disks_without_locks", set())
    return tmp_path


def test_a_disk_without_locks_is_worked_on_and_named_once(disk_without_locks, caplog):
    folder = disk_without_locks / "work"
    with held(folder / ".lock", "it is in use", "wait"):
        with held(folder / ".lock", "it is in use", "wait"):
            pass
        assert not is_held(folder / ".lock")
    with scratch(folder / "made") as ours, scratch(folder / "made") as theirs:
        assert ours.is_dir()
        assert theirs.is_dir()
        with renaming(folder / "made"):
            ours.rename(folder / "made")
    write_text(folder / "text", "whole")
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "made", "text"]
    assert [record.message for record in caplog.records] == [
        f"{folder} is on a disk without file locks: only one process at a time may use it"
    ]


def test_another_error_than_of_locks_is_raised(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="Input/output error"), held(tmp_path / ".lock", "", ""):
        raise AssertionError("held")
    with pytest.raises(OSError, match="Input/output error"):
        write_text(tmp_path / "text", "whole")
