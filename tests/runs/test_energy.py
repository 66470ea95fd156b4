"""Energy from the counters of the system, of a made folder: a test machine may have none."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import pytest
import torch
from conftest import make_chain
from made_plans import plan, train

from fedcli.data import manifest
from fedcli.reporting import timing
from fedcli.reporting.page import provenance
from fedcli.runs import clocks
from fedcli.runs.clocks import Meter


def zone(folder, name, microjoules, maximum=999_999):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{maximum}\n")


def test_packages_and_their_memory_are_added_up_and_a_counter_may_begin_again(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 900_000)
    zone(tmp_path / "intel-rapl:0:0", "core", 5)
    zone(tmp_path / "intel-rapl:0:1", "dram", 100)
    zone(tmp_path / "intel-rapl:1", "psys", 7)
    meter = Meter(counters=tmp_path)
    zone(tmp_path / "intel-rapl:0", "package-0", 950_000)
    meter.update()
    zone(
        tmp_path / "intel-rapl:0", "package-0", 150_000
    )  # 0.05 J, then 0.2 J over its end at a whole joule
    zone(tmp_path / "intel-rapl:0:0", "core", 999)
    zone(tmp_path / "intel-rapl:0:1", "dram", 500_100)
    assert meter.line() == {"joules": 0.75}
    assert meter.line() == {"joules": 0}


def test_where_nothing_can_be_read_nothing_is_said(tmp_path):
    assert Meter(counters=tmp_path / "none").line() == {}
    zone(tmp_path / "intel-rapl:0", "package-0", "denied")
    assert Meter(counters=tmp_path).line() == {}
    zone(tmp_path / "intel-rapl:0", "package-0", 5)
    meter = Meter(counters=tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert meter.line() == {}


def test_a_run_tells_its_energy_beside_its_clocks_and_not_in_its_manifest(tmp_path, monkeypatch):
    zone(tmp_path / "counters" / "intel-rapl:0", "package-0", 5)
    data = make_chain(tmp_path)
    bare = train(data, plan("fedavg", rounds=1), work=tmp_path, out=tmp_path / "bare")
    monkeypatch.setattr(clocks.Meter, "__init__", counting(tmp_path / "counters"))
    metered = train(data, plan("fedavg", rounds=1), work=tmp_path, out=tmp_path / "told")
    lines = [
        json.loads(line) for line in (metered.parent / "timing.jsonl").read_text().splitlines()
    ]
    assert [line["joules"] for line in lines] == [0]
    assert metered.read_bytes() == bare.read_bytes()
    assert "timing.jsonl" not in manifest.read(metered).files


class Driver:
    """A stand-in for nvidia-ml-py on a machine with one GPU."""

    class NVMLError(Exception):
        pass

    def __init__(self, *readings):
        self.readings = list(readings)
        self.asked = []

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return "board"

    def nvmlDeviceGetTotalEnergyConsumption(self, board):
        assert board == "board"
        reading = self.readings.pop(0)
        if reading is None:
            raise self.NVMLError
        return reading


@pytest.fixture
def driver(monkeypatch):
    """Puts a driver with these readings in place of NVIDIA's."""

    def put(*readings):
        nvml = Driver(*readings)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: nvml)
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1a2b-3c")
        )
        return nvml

    return put


def test_a_gpu_counts_millijoules_from_line_to_line(driver, tmp_path):
    nvml = driver(5_000, 7_500, 7_500, 10_000)
    meter = Meter("cuda:1", tmp_path)
    result = [meter.line() for _ in range(3)]
    expected = [
        {"gpu_joules": 2.5},
        {"gpu_joules": 0},
        {"gpu_joules": 2.5},
    ]
    assert result == expected
    assert set(nvml.asked) == {"GPU-1a2b-3c"}


def test_a_gpu_without_a_counter_has_no_energy(driver, tmp_path):
    driver(None, None)
    assert Meter("cuda", tmp_path).line() == {}
    driver(5_000, None)  # a driver that fails later
    assert Meter("cuda", tmp_path).line() == {}


def test_another_package_of_the_same_name_does_not_end_a_training(driver, tmp_path, monkeypatch):
    nvml = driver()
    monkeypatch.setattr(
        nvml, "nvmlDeviceGetHandleByUUID", lambda uuid: bytes(uuid)
    )  # an old one takes no text
    assert Meter("cuda", tmp_path).line() == {}
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByUUID", None)
    monkeypatch.delattr(Driver, "nvmlInit")
    assert Meter("cuda", tmp_path).line() == {}


def test_a_page_has_a_column_for_each_energy_that_is_known(monkeypatch):
    took = timing.ClockTimes(1.5, 1234.4, 0.25, None, 0.456, None, gpu_watt_hours=2.5)
    monkeypatch.setattr(timing, "of_runs", lambda _: took)
    system = SimpleNamespace(name="FedAvg", paths=[], runs=1)
    (table,) = provenance._times([system])
    text = str(table)
    assert "energy of the GPU (Wh)" in text
    assert "2.50" in text
    assert "energy (Wh)" not in text


def test_the_cpu_asks_no_driver(driver, tmp_path):
    nvml = driver()
    assert Meter("cpu", tmp_path).line() == {}
    assert nvml.asked == []


def counting(folder):
    begin = Meter.__init__
    return lambda meter, device: begin(meter, device, folder)


@pytest.mark.parametrize(
    ("joules", "expected"), [([1800, 5400], 2.0), ([1800, None], None), ([1800, -1], None)]
)
def test_watt_hours_are_known_where_every_round_has_them(joules, expected, tmp_path):
    lines = [
        json.dumps({"round": k, "seconds": 1, "joules": of_round})
        for k, of_round in enumerate(joules, 1)
    ]
    (tmp_path / "timing.jsonl").write_text("\n".join(lines))
    rounds, _ = timing._read(tmp_path / "timing.jsonl")
    assert timing._watt_hours(list(rounds.values()), "joules") == expected
