"""Messages go to the log, on the command line to stderr; a program that configures no logging sees none."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcli import console
from fedcli.commands.app import app
from fedcli.errors import FedcliError

WORK = """
from fedcli import console
console.say("prepared"), console.warn("a small group"), console.status("half way"), console.fail("no room", "make some")
assert list(console.progress([1, 2], label="rounds", total=2)) == [1, 2]
"""
CONFIGURED = "import logging; logging.basicConfig(format='%(levelname)s %(name)s: %(message)s', level='INFO')"


def printed(code: str) -> str:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def test_a_program_that_imports_fedcli_prints_nothing_unless_it_configures_logging():
    assert printed(WORK) == ""
    lines = printed(f"{CONFIGURED}\n{WORK}").splitlines()
    assert lines[:2] == ["INFO fedcli: prepared", "WARNING fedcli: a small group"]
    assert len(lines) == 4


def test_the_lock_files_own_log_stays_silent(tmp_path):
    code = "from pathlib import Path\nfrom fedcli import console\nfrom fedcli.io import locks\n"
    code += "with console.shown(), locks.scratch(Path({})): pass"
    result = printed(code.format(repr(str(tmp_path / "x"))))
    assert result == ""


def test_messages_warnings_and_errors_are_plain_lines_on_stderr(capsys):
    console.say("prepared")
    console.warn("a small group")
    console.fail("no room", "make some")
    assert capsys.readouterr() == (
        "",
        "prepared\nwarning: a small group\nerror: no room\n  hint: make some\n",
    )


def test_quiet_leaves_errors_and_ends_with_the_command(capsys):
    with console.shown():
        console.be_quiet()
        (
            console.say("prepared"),
            console.warn("a small group"),
            console.status("half way"),
            console.fail("no room"),
        )
        result = list(console.progress([1, 2], label="rounds", total=2))
        assert result == [1, 2]
    console.say("done")
    assert capsys.readouterr().err == "error: no room\ndone\n"


def test_a_listener_gets_the_progress_and_a_person_only_the_status(capsys):
    calls = []
    with console.muted(lambda done, total: calls.append((done, total))):
        console.say("prepared")
        console.status("half way")
        result = list(console.progress("abc", label="rounds", total=5, done=2))
        assert result == ["a", "b", "c"]
    assert calls == [(3, 5), (4, 5), (5, 5)]
    assert capsys.readouterr().err == "half way\n"


def test_without_a_terminal_progress_is_one_line_at_its_end(capsys, monkeypatch):
    monkeypatch.setattr(
        console, "time", SimpleNamespace(monotonic=lambda: 7.0)
    )  # a clock that stands
    result = list(console.progress("ab", label="rounds", total=2))
    assert result == ["a", "b"]
    assert capsys.readouterr().err == "rounds 2/2 (0 s)\n"


def test_control_characters_of_names_do_not_reach_the_terminal(capsys):
    console.say("skipped \x1b[2J\x07skin\u202e.jpg of Zürich")
    console.fail("no file \x1b]0;title\x07")
    err = capsys.readouterr().err
    assert (
        err == "skipped \\x1b[2J\\x07skin\\u202e.jpg of Zürich\nerror: no file \\x1b]0;title\\x07\n"
    )


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminal here")
def test_a_status_is_replaced_by_the_next_message(monkeypatch):
    reader, writer = os.openpty()
    with open(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        console.status("half way")
        console.say("done")
        text = b""
        while not text.endswith(b"\n"):
            text += os.read(reader, 200)
        assert text == b"\r\x1b[Khalf way\r\x1b[Kdone\r\n"
    os.close(reader)


def test_a_command_restores_the_log():
    log = logging.getLogger("fedcli")
    before = list(log.handlers), log.level
    with pytest.raises(SystemExit):
        app(["datasets", "--quiet"], prog_name="fedcli")
    assert (log.handlers, log.level) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_a_log_file_that_cannot_be_written_is_said_once_and_a_pipe_is_refused(tmp_path, capsys):
    with console.shown(), console.logged(Path("/dev/full")):
        console.say("one"), console.say("two")
    warning = "warning: nothing more is written to /dev/full: No space left on device"
    assert capsys.readouterr().err.splitlines() == ["one", warning, "two"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FedcliError, match="pipe is a pipe"), console.logged(tmp_path / "pipe"):
        pass
