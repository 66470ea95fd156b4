"""Memory of this process, as far as the system tells it."""

import sys

import pytest

from fedcli.runs import resources
from fedcli.system import container

GIB = 2**30
LEAST = 10**6  # bytes: no Python with torch holds less


def test_memory_is_told():
    assert resources.peak("cpu") > LEAST
    assert resources.in_use("cpu") > LEAST


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
def test_a_process_of_linux_knows_what_is_its_own_and_what_is_free():
    assert resources.own() > LEAST
    assert resources.free("cpu") > LEAST


@pytest.mark.parametrize(
    "status", [None, "", "Name:\tpython\nVmSize:\t900 kB\nVmRSS:\t7000 kB\nVmData:\t5 kB\n"]
)
def test_a_system_that_tells_less_ends_no_training(tmp_path, monkeypatch, status):
    """gVisor has no high-water mark and no rollup; other systems have no /proc."""
    for name in ("STATUS", "ROLLUP", "MEMORY"):
        monkeypatch.setattr(resources, name, tmp_path / name)
    if status is not None:
        resources.STATUS.write_text(status)
    assert resources.peak("cpu") > LEAST
    assert resources.own() == resources.free("cpu") == 0
    expected = 7000 * 1024 if status else resources.peak("cpu")
    assert resources.in_use("cpu") == expected


@pytest.mark.parametrize(("limits", "free"), [([], 64), ([80], 64), ([80, 6], 6)])
def test_a_container_has_no_more_memory_than_it_may_take(tmp_path, monkeypatch, limits, free):
    monkeypatch.setattr(resources, "MEMORY", tmp_path / "meminfo")
    resources.MEMORY.write_text("MemTotal: 99999999 kB\nMemAvailable: 67108864 kB\n")
    monkeypatch.setattr(container, "memory_left", lambda: [gib * GIB for gib in limits])
    assert resources.free("cpu") == free * GIB
    monkeypatch.setattr(container, "memory_left", lambda: [-5])
    assert resources.free("cpu") == 1  # 0 would be a system that does not say
