"""Limits of a container, or of a job of SLURM, as the system writes them."""

import pytest

from fedcli.system import container, processes

GIB = 2**30


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Makes this process one of a group; returns the folder in which the group's limits are written."""
    for name in ("SELF", "GROUPS"):
        monkeypatch.setattr(container, name, tmp_path / name)

    def made(line, folder):
        container.SELF.write_text(f"3:pids:/\n{line}\n")
        (container.GROUPS / folder).mkdir(parents=True)
        return container.GROUPS / folder

    return made


@pytest.mark.parametrize(
    ("line", "folder", "files"),
    [
        ("0::/job/step", "job", ("memory.max", "memory.current", "inactive_file")),
        (
            "7:memory:/docker/1a2b",
            "memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_memory_that_is_left(group, line, folder, files):
    assert container.memory_left() == []
    group_path = group(line, folder)
    limit_name, usage_name, cache_name = files
    (group_path / usage_name).write_text(f"{3 * GIB}\n")
    (group_path / "memory.stat").write_text(f"anon 5\n{cache_name} {GIB}\n")
    cases = ((8 * GIB, [6 * GIB]), (GIB, [-GIB]), ("max", []))
    for limit, expected in cases:
        (group_path / limit_name).write_text(f"{limit}\n")
        assert container.memory_left() == expected


def test_cores_of_both_versions(group):
    assert container.cores() is None
    group_path = group("0::/job/step", "job/step")
    for text, cores in (("150000 100000", 2), ("max 100000", None)):
        (group_path / "cpu.max").write_text(f"{text}\n")
        assert container.cores() == cores
    group_path = group("2:cpu,cpuacct:/docker/1a2b", "cpu")
    (group_path / "cpu.cfs_period_us").write_text("100000\n")
    for quota, cores in ((50000, 1), (300000, 3), (-1, None)):
        (group_path / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        assert container.cores() == cores


def test_limits_that_cannot_be_read_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "SELF", tmp_path)  # which is no file
    assert container.cores() is None
    assert container.memory_left() == []


def test_no_more_processes_are_started_than_a_container_has_cores(monkeypatch):
    monkeypatch.undo()  # of the suite, whose processes count one core
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(container, "cores", lambda: 2)
    assert processes.cores() == 2
    monkeypatch.setattr(container, "cores", lambda: None)
    assert processes.cores() == 64
