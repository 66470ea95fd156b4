"""Memory of this process, as far as the system tells it."""

import platform

import pytest

from fedcli.runs import resources

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
