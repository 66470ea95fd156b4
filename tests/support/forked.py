"""A program in a process forked from this one: torch is imported once for all of them, which takes seconds."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO, NoReturn


def run(
    work: Callable[[], object],
    folder: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    anew: bool = False,
    screen: int | None = None,
) -> subprocess.CompletedProcess:
    """Call work in a folder; what it prints and its exit code, 1 after an exception.

    anew: import fedcli anew, with what work hides or puts before it in sys.path.
    screen: of a terminal to print on.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # Python 3.12 warns of forks beside threads
            process = os.fork()
        if not process:

            def rest() -> int:
                _become(screen or out.fileno(), screen or err.fileno(), folder, env or {})
                if anew:
                    forget()
                return exit_code(work)

            end(rest)
        try:
            _, status = os.waitpid(process, 0)
        except BaseException:  # a test that takes too long is given up
            os.kill(process, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess([], os.waitstatus_to_exitcode(status), *texts(out, err))


def end(work: Callable[[], int], code: int = 1) -> NoReturn:
    """The rest of a forked process; it ends with what work returns, or with this code after an exception."""
    try:
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def exit_code(work: Callable[[], object]) -> int:
    """With which a program ends that is this function."""
    try:
        work()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def texts(*files: IO[bytes]) -> list[str]:
    """Texts written into each file."""
    for file in files:
        file.seek(0)
    return [file.read().decode("utf-8", "replace") for file in files]


def main(line: str) -> None:
    """A command line of fedcli as from a shell; ends the process."""
    from fedcli.commands.app import main

    sys.argv = line.split()
    sys.modules["__main__"] = ModuleType(
        "__main__"
    )  # that of pytest has a name of its own for completion
    main()


def command(line: str, folder: Path | None = None, **more) -> subprocess.CompletedProcess:
    """The end of a command line of fedcli in a process of its own."""
    return run(lambda: main(line), folder, **more)


def forget() -> None:
    """The next import reads fedcli's modules, and filelock's, again."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("fedcli", "filelock")]:
        del sys.modules[name]


def _become(out: int, err: int, folder: Path | None, env: Mapping[str, str]) -> None:
    gc.freeze()  # a collection here would copy every page of the other process
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = (os.fdopen(k, "w", encoding="utf-8", closefd=False) for k in (1, 2))
    os.environ.update(env)
    if folder:
        os.chdir(folder)
