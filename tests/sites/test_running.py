"""The process of a site can be stopped from another terminal."""

import json
import os
import signal

import pytest
from typed_lines import fedcli

from fedcli.errors import FedcliError
from fedcli.io.locks import held
from fedcli.sites import running


@pytest.fixture
def ended(monkeypatch):
    """The signals that processes are sent; the site that gets one leaves its folder."""
    signals = []

    def kill(number, sign):
        signals.append((number, sign))
        monkeypatch.setattr(running, "is_held", lambda path: False)

    monkeypatch.setattr(running.os, "kill", kill)
    return signals


def test_a_site_that_runs_is_stopped(tmp_path, ended):
    folder = tmp_path / "site" / "north"
    with running.running(folder):
        code, _, err = fedcli("site", "stop", "--work", tmp_path)
    assert code == 0, err
    assert ended == [(os.getpid(), signal.SIGTERM)]
    assert f"the site of {folder} was stopped" in err
    assert not (folder / running.PROCESS).exists()


def test_the_site_of_a_name_is_meant_where_several_run(tmp_path, ended):
    with running.running(tmp_path / "site" / "north"), running.running(tmp_path / "site" / "south"):
        code, _, err = fedcli("site", "stop", "--work", tmp_path)
        assert code == 2
        assert "several sites run: north and south" in err
        assert fedcli("site", "stop", "--name", "south", "--work", tmp_path)[0] == 0
    assert len(ended) == 1


def test_where_no_site_runs_that_is_said(tmp_path, ended):
    for words in ([], ["--name", "north"], ["--state", tmp_path / "north"]):
        code, _, err = fedcli("site", "stop", *words, "--work", tmp_path)
        assert code == 1
        assert "no site runs that keeps its memory" in err
    assert ended == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not say which process it is"),
        ("[1]", "does not say which process it is"),
        ('{"machine": "other", "process": 1}', "runs on another machine"),
    ],
)
def test_no_process_is_guessed(tmp_path, ended, text, sentence):
    with held(tmp_path / running.LOCK, "", ""):
        (tmp_path / running.PROCESS).write_text(text)
        with pytest.raises(FedcliError, match=sentence):
            running.stop(tmp_path)
    assert ended == []


def test_the_process_that_is_written_down_is_this_one(tmp_path):
    with running.running(tmp_path):
        written = json.loads((tmp_path / running.PROCESS).read_text())
        assert written["process"] == os.getpid()
        with (
            pytest.raises(FedcliError, match="another process is a site"),
            running.running(tmp_path),
        ):
            pass
