"""A Mac without one: what Linux alone has is hidden from Python, and names in a folder ignore case.

PYTHONPATH=tests/support/mac has every Python process begin so, workers too. What this cannot show: Apple's libraries,
compiled code that asks the system itself, its processors and time.
"""

import builtins
import ctypes
import errno
import io
import mmap
import multiprocessing
import multiprocessing.context
import os
import resource
import select
import signal
import socket
import sys
import sysconfig
import tempfile
import urllib.request  # noqa: F401 - chooses by platform when it is imported
import webbrowser  # noqa: F401
from collections.abc import Callable
from typing import Any

HIDDEN = "/proc", "/sys", "/dev/shm"
OF_LINUX = {  # attributes that modules of Python have on Linux and not on a Mac
    os: (
        "sched_getaffinity sched_setaffinity posix_fallocate posix_fadvise memfd_create pidfd_open eventfd getrandom "
        "copy_file_range splice O_TMPFILE O_PATH O_DIRECT O_NOATIME setns unshare"
    ),
    mmap: "MADV_REMOVE MADV_DONTFORK MADV_DOFORK MADV_HUGEPAGE MAP_POPULATE",
    socket: "SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK",
    select: "epoll",
    signal: "sigwaitinfo sigtimedwait",
}
# the folder in which names ignore case, if any
FOLDER = "PRETENDED_MAC_FOLDER"
# positions of paths among the arguments of functions of os
PATHS = {
    "access": 1,
    "chmod": 1,
    "link": 2,
    "listdir": 1,
    "lstat": 1,
    "mkdir": 1,
    "open": 1,
    "readlink": 1,
    "remove": 1,
    "rename": 2,
    "replace": 2,
    "rmdir": 1,
    "scandir": 1,
    "stat": 1,
    "symlink": 2,
    "unlink": 1,
    "utime": 1,
}
_stat = os.lstat
_listdir = os.listdir


def begin() -> None:
    """Make this process one of a Mac; modules of Python that choose by platform are imported before."""
    sysconfig.get_config_vars()
    for module, names in OF_LINUX.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    tempfile._O_TMPFILE_WORKS = False  # which it has found out already
    for name, paths in PATHS.items():
        setattr(os, name, _of_a_mac(getattr(os, name), paths))
    io.open = builtins.open = _of_a_mac(io.open, 1)
    multiprocessing.set_start_method("spawn", force=True)
    get_context = multiprocessing.context.DefaultContext.get_context
    multiprocessing.context.DefaultContext.get_context = (  # type: ignore[method-assign]
        lambda self, method=None: get_context(self, _allowed(method))
    )
    ctypes.CDLL = _library  # type: ignore[assignment,misc]
    sys.platform = "darwin"
    usage = resource.getrusage
    resource.getrusage = lambda who: _in_bytes(usage(who))  # type: ignore[assignment]


def _allowed(method: str | None) -> str | None:
    if method in ("fork", "forkserver"):
        raise AssertionError(f"on a Mac a process of {method} may crash")
    return method


def _in_bytes(usage: resource.struct_rusage) -> resource.struct_rusage:
    """The usage of a process as a Mac tells it, where the peak of memory is in bytes."""
    numbers = list(usage)
    numbers[2] *= 1024  # ru_maxrss
    return resource.struct_rusage(numbers)


def _library(name: str | None, *arguments: Any, **options: Any) -> ctypes.CDLL:
    """A C library, without the functions of glibc's own where the process itself is meant."""
    if name is None:
        raise OSError("no glibc")
    return _CDLL(name, *arguments, **options)


_CDLL = ctypes.CDLL


def _of_a_mac(function: Callable[..., Any], paths: int) -> Callable[..., Any]:
    """A function of os that finds nothing of Linux, and files whose names differ in case."""

    def call(*arguments: Any, **options: Any) -> Any:
        descriptor = "dir_fd" in options or "src_dir_fd" in options
        changed = list(arguments)
        for place, path in enumerate(arguments[:paths]):
            if not descriptor and isinstance(path, str | os.PathLike):
                changed[place] = _on_disk(path)
        return function(*changed, **options)

    return call


def _on_disk(path: str | os.PathLike) -> str | os.PathLike:
    """The name under which a path is on the disk. Raises FileNotFoundError for what Linux alone has."""
    text = os.fspath(path)
    if not isinstance(text, str):
        return path
    whole = os.path.abspath(text)  # noqa: PTH100 - Path asks the functions that are replaced
    if whole.startswith(HIDDEN):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    folder = os.environ.get(FOLDER)
    if not folder or not whole.startswith(folder) or _is_there(whole):
        return path
    found = folder
    for name in whole[len(folder) :].strip("/").split("/"):
        found = f"{found}/{_name_in(found, name)}"
    return found


def _is_there(path: str) -> bool:
    try:
        _stat(path)
    except OSError:
        return False
    return True


def _name_in(folder: str, name: str) -> str:
    """The name in a folder that differs from this one in case alone, or this one."""
    if not name or _is_there(f"{folder}/{name}"):
        return name
    try:
        others = _listdir(folder)
    except OSError:
        return name
    return next((other for other in others if other.casefold() == name.casefold()), name)
