"""What one process holds, another cannot take; what a killed one held is free."""

import subprocess
import sys

import pytest

from fedcli.errors import FedcliError
from fedcli.io.locks import held, scratch

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
        assert other.returncode and "in use" in other.stderr
    with held(path, "it is in use", "wait"):
        pass


def test_a_folder_of_a_killed_process_is_removed_and_one_of_a_living_process_is_not(tmp_path):
    assert python(KILLED, tmp_path / "made").returncode == 9
    left = list(tmp_path.glob("*.tmp"))
    assert [file.name for file in left[0].iterdir()] == ["half"]
    with scratch(tmp_path / "made") as first, scratch(tmp_path / "made") as second:
        assert sorted(tmp_path.glob("*.tmp")) == sorted([first, second])
        second.rename(tmp_path / "made")
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]


def test_a_folder_that_cannot_be_removed_now_is_removed_by_the_next_process(tmp_path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr("shutil.rmtree", lambda *_, **__: None)  # as with too many open files
        with scratch(tmp_path / "made") as first:
            pass
    assert first.exists()
    with scratch(tmp_path / "made") as second:
        assert list(tmp_path.glob("*.tmp")) == [second]
    assert list(tmp_path.iterdir()) == []
