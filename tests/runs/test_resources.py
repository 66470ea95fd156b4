"""Memory of this process, as far as the system tells it."""

import platform

import pytest

from fedcli.runs import resources

GIB = 2**30
LEAST = 10**6  # bytes: no Python with torch holds less


def test_memory_is_told():
    assert resources.peak("cpu") > LEAST and resources.in_use("cpu") > LEAST


@pytest.mark.skipif(platform.system() != "Linux", reason="of Linux")
def test_a_process_of_linux_knows_what_is_its_own_and_what_is_free():
    assert resources.own() > LEAST and resources.free("cpu") > LEAST


@pytest.mark.parametrize("status", [None, "", "Name:\tpython\nVmSize:\t900 kB\nVmRSS:\t7000 kB\nVmData:\t5 kB\n"])
def test_a_system_that_tells_less_ends_no_training(tmp_path, monkeypatch, status):
    """gVisor has no high-water mark and no rollup; other systems have no /proc."""
    for name in ("STATUS", "ROLLUP", "MEMORY"):
        monkeypatch.setattr(resources, name, tmp_path / name)
    if status is not None:
        resources.STATUS.write_text(status)
    assert resources.peak("cpu") > LEAST and resources.own() == resources.free("cpu") == 0
    assert resources.in_use("cpu") == (7000 * 1024 if status else resources.peak("cpu"))


@pytest.mark.parametrize(
    ("line", "folder", "files"),
    [
        ("0::/job/step", "job", ("memory.max", "memory.current", "inactive_file")),
        ("7:memory:/docker/1a2b", "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")),
    ],
)
def test_a_container_or_a_job_has_no_more_memory_than_it_may_take(tmp_path, monkeypatch, line, folder, files):
    for name in ("GROUP", "GROUPS", "MEMORY"):
        monkeypatch.setattr(resources, name, tmp_path / name)
    resources.MEMORY.write_text("MemTotal: 99999999 kB\nMemAvailable: 67108864 kB\n")  # 64 GiB
    assert resources.free("cpu") == 64 * GIB
    resources.GROUP.write_text(f"3:cpu,cpuacct:/\n{line}\n")
    assert resources.free("cpu") == 64 * GIB
    group = resources.GROUPS / folder
    group.mkdir(parents=True)
    most, used, kept = files
    (group / used).write_text(f"{3 * GIB}\n")
    (group / "memory.stat").write_text(f"anon 5\n{kept} {GIB}\n")
    for limit, free in ((8 * GIB, 6 * GIB), (2 * GIB, 1), (2**63 - 4096, 64 * GIB), ("max", 64 * GIB)):
        (group / most).write_text(f"{limit}\n")
        assert resources.free("cpu") == free
