"""A container's, or a SLURM job's, share of this machine: the limits of the control groups of this
process.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

SELF = Path("/proc/self/cgroup")  # of Linux
GROUPS = Path("/sys/fs/cgroup")
# by version: what a group may take, what it takes, and how much of that are files, which can be
# read again
MEMORY = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def memory_left() -> list[int]:
    """Bytes that this process, and all that run in a group with it, can still take: one number for
    each limit.
    """
    free = []
    for version, folder in _groups("memory"):
        with contextlib.suppress(OSError, ValueError):  # no limit: no such file, or "max"
            limit, usage, files = MEMORY[version]
            lines = (folder / "memory.stat").read_text().splitlines()
            statistics = dict(line.split() for line in lines)
            in_use = _number(folder / usage) - int(statistics.get(files, 0))
            free.append(_number(folder / limit) - in_use)
    return free


def cores() -> int | None:
    """The number of cores this process may keep busy, a part of one counted as one; None without a
    limit.
    """
    limits = []
    for version, folder in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            if version == 2:
                quota, period = map(int, (folder / "cpu.max").read_text().split())
            else:
                quota = _number(folder / "cpu.cfs_quota_us")
                period = _number(folder / "cpu.cfs_period_us")
            if quota > 0:  # -1: no limit
                limits.append(math.ceil(quota / period))
    return min(limits, default=None)


def _groups(kind: str) -> Iterator[tuple[int, Path]]:
    """The version and the folder of each group of this process, and of those above it."""
    lines: list[str] = []
    with contextlib.suppress(OSError):  # too many open files: what starts processes says so
        lines = SELF.read_text().splitlines()
    for line in lines:
        _, kinds, name = line.split(":", 2)
        if kinds and kind not in kinds.split(","):
            continue
        root = GROUPS / kind if kinds else GROUPS
        group = root / name.lstrip("/")
        for folder in [group, *group.parents]:
            if folder.is_relative_to(root):
                yield (1 if kinds else 2), folder


def _number(path: Path) -> int:
    return int(path.read_text())
