"""Speeds of a GPU, measured on the CPU."""

import pytest
import torch

from fedcli.bench import device


def test_networks_are_timed_each_way_and_one_that_cannot_run_ends_no_other(monkeypatch):
    monkeypatch.setattr(device, "SECONDS", 0.0)

    def broken(clients):
        raise RuntimeError("no compiler\nat all")

    monkeypatch.setitem(device.WAYS, "compiled", ("fp32", broken))
    monkeypatch.setattr(device.limits, "SECONDS", 0.0)
    threads = torch.get_num_threads()
    speeds = list(device.speeds("cpu", {("cnn", 8): 8}))
    torch.set_num_threads(threads)
    assert [speed.way for speed in speeds] == list(device.WAYS)
    for speed in speeds[:-1]:
        assert speed.images_per_second > 0
        assert speed.share > 0
    assert speeds[-1].images_per_second is None
    assert speeds[-1].why == "RuntimeError: no compiler"


def quick(monkeypatch, ways):
    monkeypatch.setattr(device, "SECONDS", 0.0)
    monkeypatch.setattr(device.limits, "SECONDS", 0.0)
    monkeypatch.setattr(device, "WAYS", ways)


def test_nothing_is_begun_when_the_time_is_over(monkeypatch):
    quick(monkeypatch, {"step by step": device.WAYS["step by step"]})
    networks = {("cnn", 8): 8, ("cnn", 16): 8}
    speeds = list(device.speeds("cpu", networks, until=-1.0))
    assert [(speed.network, speed.size) for speed in speeds] == list(networks)
    assert {speed.why for speed in speeds} == {device.LATE}
    assert {speed.images_per_second for speed in speeds} == {None}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("no compiler\nin /usr/bin"), "RuntimeError: no compiler"),
        (ValueError(), "ValueError: "),
        (RuntimeError("x" * 300), "RuntimeError: " + "x" * 200),
    ],
)
def test_an_error_is_its_kind_and_the_start_of_its_first_line(error, words):
    assert device.in_words(error) == words


def test_each_precision_is_measured_once_and_none_where_memory_is_short(monkeypatch):
    measured = []

    def matrix_speed(device, precision):
        measured.append(precision)
        if precision == "bf16":
            raise torch.cuda.OutOfMemoryError("full")
        return 1e9

    monkeypatch.setattr(device.limits, "matrix_speed", matrix_speed)
    speeds = device.matrix_speeds("cpu")
    assert measured == ["fp32", "tf32", "bf16"]
    assert speeds == {"fp32": 1e9, "tf32": 1e9, "bf16": None}


def test_a_network_has_no_share_of_a_speed_that_was_not_measured(monkeypatch):
    quick(monkeypatch, {"step by step": device.WAYS["step by step"]})
    monkeypatch.setattr(device, "matrix_speeds", lambda name: {"fp32": None})
    speed, *rest = device.speeds("cpu", {("cnn", 8): 8})
    assert not rest
    assert speed.images_per_second > 0
    assert speed.share is None


def test_the_report_names_the_machine_and_every_speed(monkeypatch):
    speed = device.Speed("cnn", 32, "recorded", 100.0, 0.5, 10)
    monkeypatch.setattr(device, "matrix_speeds", lambda name: {"fp32": 1e9})
    monkeypatch.setattr(device, "speeds", lambda name, until: iter([speed]))
    monkeypatch.setattr(device.resources, "processor", lambda: "a processor")
    report = device.report("cpu")
    assert report == {
        "device": "a processor",
        "torch": torch.__version__,
        "matrix_flops_per_second": {"fp32": 1e9},
        "speeds": [
            {
                "network": "cnn",
                "size": 32,
                "way": "recorded",
                "images_per_second": 100.0,
                "share": 0.5,
                "peak_bytes": 10,
                "why": "",
            }
        ],
    }
