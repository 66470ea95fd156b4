"""The way a process takes memory from the system."""

import contextlib
import ctypes
from functools import cache

M_TRIM_THRESHOLD = -1  # of glibc's malloc.h
M_MMAP_MAX = -4
ALL = -1


@cache
def keep_freed(limit: int = ALL) -> None:
    """Keep large blocks that are freed for the next ones, where the C library is glibc; elsewhere
    nothing changes.

    It gives a block of megabytes back to the system as soon as it is freed and takes the next one
    page by page, each filled with zeros by the system: a fifth of the time of a training step of
    ResNet-18, and as long as to decode an image. The process then holds what it needed at most
    until it ends; `limit` limits the bytes that wait for use.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, limit)
