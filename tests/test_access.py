"""Folders, files and sockets that belong to somebody else: what is missed for want of a permission is named."""

import errno
import os
import socket
from contextlib import contextmanager, suppress

import pytest
from run_folders import a_line, a_run

from fedcli.commands.ls import ls
from fedcli.data import last_used, manifest
from fedcli.errors import FedcliError, of_system
from fedcli.runs.folder import unfinished
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.sites.sockets import Connections
from fedcli.sites.transport.sockets import listening
from fedcli.stages import collect
from fedcli.stages.plot import runs_of

NOBODY = 65534


@contextmanager
def shut(path, mode=0o000):
    """The path without its permissions, for a process that root, whom nothing is forbidden, has turned into nobody."""
    before = path.stat().st_mode
    root = not os.geteuid()
    for above in path.resolve().parents:  # else nobody could not come here
        if above.stat().st_uid == os.geteuid() and above.stat().st_mode & 0o011 != 0o011:
            above.chmod(above.stat().st_mode | 0o011)
    path.chmod(mode)
    try:
        os.seteuid(NOBODY) if root else None
    except OSError:
        path.chmod(before)
        pytest.skip("this root may not become somebody else")
    try:
        yield
    finally:
        os.seteuid(0) if root else None
        path.chmod(before)


@pytest.fixture
def work(tmp_path):
    for label in ("FedAvg", "FedHEAL"):
        a_run(tmp_path / "work" / "runs" / label.lower(), [a_line(1)], label=label)
    return tmp_path / "work"


def test_a_manifest_that_may_not_be_read_is_not_called_something_else(work):
    path = work / "runs" / "fedavg" / "run.json"
    with (
        shut(path),
        pytest.raises(FedcliError, match=r"run\.json cannot be read: Permission denied") as raised,
    ):
        manifest.read(path)
    assert "not a fedcli manifest" not in raised.value.sentence


@pytest.mark.parametrize(
    "looks",
    [
        lambda work: last_used.newest(work, "run"),
        lambda work: unfinished(work, None),
        lambda work: runs_of([], work, every=False),
    ],
)
def test_a_folder_that_may_not_be_entered_is_not_taken_for_an_empty_one(looks, work):
    with suppress(FedcliError):
        looks(work)  # imports what it needs, which nobody might not
    with shut(work / "runs"), pytest.raises(FedcliError) as raised:
        looks(work)
    assert raised.value.sentence == f"Permission denied: {work / 'runs'}"


def test_ls_names_what_it_may_not_list(work, capsys):
    (work / "partitions").mkdir()
    ls(work)  # imports what it needs, which nobody might not
    with shut(work / "partitions"):
        ls(work)
    printed = capsys.readouterr()
    assert f"left out {work / 'partitions'}: Permission denied" in printed.err
    assert "fedheal" in printed.out


def test_one_run_that_may_not_be_entered_is_left_out_and_named(work, capsys):
    with shut(work / "runs" / "fedavg"):
        expected = [work / "runs" / "fedheal" / "run.json"]
        assert last_used.every(work / "runs", "run") == expected
    result = f"left out {work / 'runs' / 'fedavg'}: Permission denied"
    assert result in capsys.readouterr().err


def test_a_report_leaves_out_the_runs_that_it_may_not_score(work, capsys, monkeypatch):
    def scored(path, options, place=""):
        if path.parent.name == "fedavg":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path.parent / "scores"))
        return path, False

    monkeypatch.setattr(collect, "scores_of", scored)
    monkeypatch.setattr(collect.RunScores, "of", lambda facts, path: facts)
    monkeypatch.setattr(collect, "check", lambda path, options: None)
    runs = last_used.every(work / "runs", "run")
    assert collect.scores_under(work, EvaluateOptions()) == runs[1:]
    folder = runs[0].parent
    sentence = f"left out {folder}: Read-only file system: {folder / 'scores'}"
    assert sentence in capsys.readouterr().err
    with pytest.raises(OSError, match="Read-only"):
        collect.scores_of_all(runs, EvaluateOptions())


def test_a_refusal_of_the_system_says_what_to_do(tmp_path):
    (tmp_path / "full").mkdir()
    with shut(tmp_path / "full", 0o555), pytest.raises(PermissionError) as raised:
        (tmp_path / "full" / "a.txt").write_text("")
    refused = of_system(raised.value)
    assert str(tmp_path / "full" / "a.txt") in refused.sentence
    assert "--out" in refused.hint


def test_a_socket_in_a_folder_of_somebody_else_is_refused_by_name(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    refused = pytest.raises(FedcliError, match=f"no socket can be made in {folder}: Permission")
    with shut(folder, 0o555), refused, listening(folder / "a.sock"):
        pass


def test_a_coordinator_says_that_a_site_belongs_to_another_account(tmp_path):
    path = tmp_path / "north.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with shut(path), Connections(tmp_path) as connections:
            connections.wait_for(["north"], 30)
            result = list(connections([("north", ({}, {}))], 1))
            assert result == [("north", f"this account may not open {path}")]
