"""A command that was asked to end ends as interrupted, whatever a library made of the signal."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import forked
import pytest

from fedcli.commands import ls
from fedcli.io.files import may_pass
from fedcli.system import interrupts

SIGNALS = signal.SIGINT, signal.SIGTERM


def interrupted(monkeypatch, work, handler=signal.default_int_handler):
    """The end of `fedcli ls` with this function as its work. handler: of Ctrl-C, as Python starts."""

    def command():
        signal.signal(signal.SIGINT, handler)  # a worker of pytest ignores it
        forked.main("fedcli ls")

    monkeypatch.setattr(ls, "_entries", lambda *_: work())
    return forked.run(command)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("error", [ValueError, OSError, MemoryError])
def test_another_error_that_a_library_made_of_a_signal_is_an_interrupt(monkeypatch, number, error):
    def library():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            assert may_pass(ValueError("of a signal, and not of a file"))
            raise error("Invalid affine transformation matrix") from None

    ended = interrupted(monkeypatch, library)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (130, "error: interrupted")


def test_a_process_of_a_library_hears_no_ctrl_c():
    before = signal.getsignal(signal.SIGINT)
    with interrupts.left_to_parent():
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child.send_signal(signal.SIGINT)
    child.communicate(b"\n")
    assert child.returncode == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_in_a_thread_a_process_of_a_library_is_started_as_ever():
    def start():
        with interrupts.left_to_parent():
            return subprocess.run([sys.executable, "-c", ""]).returncode

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(start).result() == 0


@pytest.mark.parametrize(
    ("number", "handler"),
    [
        *((number, signal.default_int_handler) for number in SIGNALS),
        (signal.SIGTERM, signal.SIG_IGN),
    ],
)
def test_a_signal_inside_a_destructor_comes_again(monkeypatch, number, handler):
    class Handle:
        def __del__(self):
            signal.raise_signal(number)

    def library():
        Handle()
        time.sleep(600)  # longer than a test may take: it has to be interrupted

    ended = interrupted(monkeypatch, library, handler)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (130, "error: interrupted")


def test_another_error_inside_a_destructor_is_not_shown(monkeypatch):
    class Handle:
        def __del__(self):
            raise ValueError("of no interest")

    def library():
        Handle()
        raise OSError("of the command")

    ended = interrupted(monkeypatch, library)
    assert (ended.returncode, ended.stderr) == (1, "error: of the command\n")


EARLY = """
import signal, sys
import fedcli.__main__ as started

class Interrupting:
    def find_spec(self, name, *_):
        if name == "fedcli.commands.app":
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.{handler})
sys.meta_path.insert(0, Interrupting())
sys.argv = ["fedcli", "--version"]
started.main()
"""


def test_ctrl_c_while_modules_are_imported_is_a_sentence():
    ended = subprocess.run(
        [sys.executable, "-c", EARLY.format(handler="default_int_handler")], capture_output=True
    )
    assert (ended.returncode, ended.stdout) == (130, b"")
    assert ended.stderr == b"interrupted before anything was begun; run the same command again\n"


def test_a_shell_that_ignores_ctrl_c_keeps_ignoring_it():
    ended = subprocess.run(
        [sys.executable, "-c", EARLY.format(handler="SIG_IGN")], capture_output=True
    )
    assert ended.returncode == 0
    assert ended.stdout.startswith(b"fedcli ")


LATE = """
import os, signal
from fedcli.system import interrupts
class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)
interrupts.listen()
late = Late()
"""


def test_a_signal_while_python_ends_changes_no_exit_code():
    ended = subprocess.run(
        [sys.executable, "-c", LATE + "raise SystemExit(130)"], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "")
