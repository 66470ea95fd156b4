"""What one process holds, another cannot take; what a killed one held is free."""

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import forked
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

POSIX = "fcntl", "resource", "pwd", "grp", "termios"


def python(code: str, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)


def without(*names: str) -> None:
    """A module that is None in sys.modules cannot be imported, as on a system that has none."""
    sys.modules.update(dict.fromkeys(names))
    warnings.filterwarnings("ignore", "only soft file lock is available")


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


def test_a_chain_of_stages_runs_where_there_is_no_fcntl(tmp_path):
    lines = "prepare toy --jobs 1", "partition --iid --clients 2", "train fedavg --rounds 1 --jobs 1", "evaluate"

    def work():
        without("fcntl")
        from fedcli.commands.app import app

        for line in lines:
            app(line.split(), prog_name="fedcli", standalone_mode=False)

    ended = forked.run(work, tmp_path, anew=True)
    assert ended.returncode == 0, ended.stderr
    assert [Path(line).name for line in ended.stdout.splitlines()] == [
        "dataset.json", "partition.json", "run.json", "scores.json",
    ]  # fmt: skip
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".lock", ".tmp")]


def test_no_module_asks_for_posix_when_it_is_imported():
    def work():
        without(*POSIX)
        import fedcli

        root = Path(fedcli.__file__).parent
        for path in root.rglob("*.py"):
            if path.name != "__main__.py":
                name = ".".join(("fedcli", *path.relative_to(root).with_suffix("").parts))
                importlib.import_module(name.removesuffix(".__init__"))

    ended = forked.run(work, anew=True)
    assert ended.returncode == 0, ended.stderr
