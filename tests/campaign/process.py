"""A command of fedcli in a process of its own, forked from this one, so that nothing is imported twice."""

import atexit
import contextlib
import gc
import importlib
import io
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import forked
import typer

import fedcli
from fedcli.commands.app import app, main

LATE = (  # what commands import late; a process of another user may not reach it later
    "pandas",
    "torchvision",
    "scipy.stats",
    "sklearn.metrics",
    "skimage.filters",
    "matplotlib.pyplot",
    "PIL.Image",
    "encodings.utf_8_sig",
)
SECONDS = 60  # a command on these data takes less than one; one that takes so long hangs


@dataclass(frozen=True)
class Ended:
    """The end of a command.

    Attributes:
        code: its exit code, or minus the signal that ended it.
        hung: it had to be killed.
    """

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    hung: bool = False

    @property
    def line(self) -> str:
        return "fedcli " + " ".join(self.words)


def warm() -> None:
    """Import everything once, before any command is forked: each would else spend seconds on it."""
    os.environ.pop("FEDCLI_WORK", None)  # each case has a work folder of its own
    for path in sorted(Path(fedcli.__path__[0]).rglob("*.py")):
        if path.name != "__main__.py":
            inside = path.relative_to(fedcli.__path__[0]).with_suffix("").parts
            importlib.import_module(".".join(("fedcli", *inside)).removesuffix(".__init__"))
    for name in LATE:
        importlib.import_module(name)
    typer.main.get_command(
        app
    )  # which conftest.py keeps: in each process it would take as long as a short command
    gc.collect()
    gc.freeze()  # a collection in a child would else copy every page
    atexit.register(gc.unfreeze)


def start(
    words: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], None] = lambda: None,
    env: Mapping[str, str | None] | None = None,
    out: int | None = None,
    err: int | None = None,
    encoding: str = "utf-8",
) -> int:
    """Begin a command in a folder; returns its process. before() is called in it first; env: None removes a name."""

    def rest() -> int:
        os.setsid()  # what it starts can be ended with it
        os.close(begun)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing if out is None else out, 1)
        os.dup2(nothing if err is None else err, 2)
        os.chdir(folder)
        for name, value in (env or {}).items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        before()
        sys.stdin, sys.stdout, sys.stderr = (_stream(k, encoding) for k in range(3))
        return _called(words)

    sys.stdout.flush()
    sys.stderr.flush()
    # else a signal that comes before rest() has begun is pytest's
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    waiting, begun = os.pipe()
    process = os.fork()
    if not process:
        os.close(waiting)
        forked.end(rest, code=70)  # of a failure outside the command
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.close(begun)
    os.read(waiting, 1)  # until it has a group of its own, which a signal can be sent to
    os.close(waiting)
    return process


def _stream(number: int, encoding: str) -> io.TextIOWrapper | None:
    """A stream as Python opens it at its start: None where the shell has closed it."""
    try:
        os.fstat(number)
    except OSError:
        return None
    return os.fdopen(number, "w" if number else "r", encoding=encoding, closefd=False)


def _called(words: Sequence[str]) -> int:
    sys.argv = ["fedcli", *words]
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # as Python starts, for as long as the command lasts
    try:
        return forked.exit_code(main)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait(process: int, seconds: float = SECONDS) -> tuple[int, bool]:
    """(exit code or minus the signal, whether it had to be killed)."""
    crowd = 1 + os.getloadavg()[0] / (os.cpu_count() or 1)  # others want the processors too
    end = time.monotonic() + crowd * seconds
    pause = 0.001
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            _kill(process)
            os.waitpid(process, 0)
            return -signal.SIGKILL, True
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)
    _kill(process)  # what it has left behind
    return os.waitstatus_to_exitcode(status), False


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def run(
    words: Sequence[str],
    folder: Path,
    *,
    before: Callable[[], None] = lambda: None,
    env: Mapping[str, str | None] | None = None,
    seconds: float = SECONDS,
    encoding: str = "utf-8",
) -> Ended:
    """A command from its start to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(
            words,
            folder,
            before=before,
            env=env,
            out=out.fileno(),
            err=err.fileno(),
            encoding=encoding,
        )
        code, hung = wait(process, seconds)
        return Ended(tuple(words), code, *forked.texts(out, err), hung)
