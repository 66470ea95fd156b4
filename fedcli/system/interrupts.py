"""A signal to end, remembered: whatever a library makes of it, the command ends as interrupted."""

import atexit
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN = 0.05  # seconds
INTERRUPTED = 130  # exit code
TO_END = signal.SIGINT, signal.SIGTERM
_came = False


def came() -> bool:
    """Tell whether this process was asked to end."""
    return _came


def listen() -> None:
    """Have SIGTERM, a scheduler's, end a command as Ctrl-C does; where a shell ignores Ctrl-C, it
    stays ignored.
    """
    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end)
    sys.unraisablehook = _unraisable
    # until the process is gone: Python gives its handlers back first, and exit codes would be the
    # signal's
    atexit.register(signal.pthread_sigmask, signal.SIG_BLOCK, TO_END)


def end(number: int, frame: FrameType | None) -> None:
    """The handler of a signal to end. Raises KeyboardInterrupt."""
    global _came
    _came = True
    signal.default_int_handler(number, frame)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals to end wait until the block is over; a process forked within calls let_through() once
    it expects them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TO_END)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """In a process that was forked within held_back()."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TO_END)


@contextmanager
def left_to_parent() -> Iterator[None]:
    """Processes that a library starts within hear no Ctrl-C: this one ends them, and they print no
    traceback.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # which alone may say what a signal does
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _unraisable(ignored: Any) -> None:
    """Python drops an error inside a destructor: an interrupt comes again, others are shown to
    programmers only.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        main = threading.main_thread().ident or 0
        threading.Timer(
            AGAIN, signal.pthread_kill, (main, signal.SIGTERM)
        ).start()  # SIGINT may be ignored
    elif sys.warnoptions:
        sys.__unraisablehook__(ignored)
