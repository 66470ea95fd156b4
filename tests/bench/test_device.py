"""Speeds of a GPU, measured on the CPU."""

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
