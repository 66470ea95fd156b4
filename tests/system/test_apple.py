"""Facts of Apple's kernel, and ways without the functions that Linux alone has."""

import ctypes
import errno
import os
import resource
import sys
from types import SimpleNamespace

import pytest

from fedcli.io import claims, hdf5
from fedcli.runs import resources
from fedcli.system import apple, processes, shared_blocks

VALUES = {b"kern.bootsessionuuid": b"1A2B", b"machdep.cpu.brand_string": "Apple M2 \u00fc".encode()}


def sysctlbyname(name, text, size, *rest):
    if name not in VALUES:
        return -1
    text.value = VALUES[name]
    return 0


@pytest.fixture
def kernel(monkeypatch):
    library = SimpleNamespace(sysctlbyname=sysctlbyname)
    monkeypatch.setattr(apple.ctypes, "CDLL", lambda _: library)


def test_names_of_the_machine_and_of_its_processor(kernel, monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "BOOT", tmp_path / "none")
    monkeypatch.setattr(resources, "PROCESSORS", tmp_path / "none")
    assert claims.machine() == "1A2B"
    assert resources.processor() == "Apple M2 \u00fc"
    assert apple.kernel_value("kern.nothing") == ""


@pytest.mark.parametrize("failure", [OSError, AttributeError])
def test_another_system_has_no_such_values(monkeypatch, failure):
    def absent(name):
        raise failure

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert apple.kernel_value("kern.bootsessionuuid") == ""


def test_all_cores_count_where_the_system_limits_no_process(monkeypatch):
    monkeypatch.undo()
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(processes.container, "cores", lambda: None)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processes.cores() == 7


def test_peak_memory_is_in_bytes_there(monkeypatch, tmp_path):
    monkeypatch.setattr(resources, "STATUS", tmp_path / "none")
    usage = SimpleNamespace(ru_maxrss=5000)
    monkeypatch.setattr(resource, "getrusage", lambda _: usage)
    peaks = []
    for system in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", system)
        peaks.append(resources.peak("cpu"))
    assert peaks == [5000 * 1024, 5000]


@pytest.mark.parametrize(("size", "fits"), [(2**30, True), (2**70, False)])
def test_room_on_a_disk_is_looked_for_without_taking_it(monkeypatch, tmp_path, size, fits):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    disk = SimpleNamespace(f_bavail=2**21, f_frsize=2**12)
    monkeypatch.setattr(os, "fstatvfs", lambda _: disk)
    with (tmp_path / "file").open("w") as file:
        if fits:
            hdf5._check_room(file.fileno(), size)
            return
        with pytest.raises(OSError, match="space") as error:
            hdf5._check_room(file.fileno(), size)
    assert error.value.errno == errno.ENOSPC


def test_no_memory_is_shared_where_processes_are_not_forked(monkeypatch):
    monkeypatch.setattr(shared_blocks, "FORKS", False)
    assert shared_blocks.anonymous(2**20) is None


def typed_into_a_notebook(number):
    return number + 1


def test_what_a_worker_cannot_know_is_done_in_this_process(monkeypatch):
    monkeypatch.setattr(shared_blocks, "FORKS", False)
    monkeypatch.setattr(typed_into_a_notebook, "__module__", "__main__")
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "typed_into_a_notebook", typed_into_a_notebook, raising=False)
    numbers = processes.in_order(typed_into_a_notebook, range(4), label="adding", jobs=2)
    assert list(numbers) == [1, 2, 3, 4]
    assert not processes.can_be_sent(typed_into_a_notebook)
    assert processes.can_be_sent(fails)


def fails(reason):
    raise ValueError(reason)


def test_a_worker_that_cannot_begin_says_why_at_each_call(monkeypatch):
    monkeypatch.setattr(shared_blocks, "FORKS", False)
    with processes.Workers(1, fails, "no such model") as workers:
        for _ in range(2):
            with pytest.raises(ValueError, match="no such model"):
                workers.submit(0, int, "7").result()
