"""Energy from the counters of the system, of a made folder: a test machine may have none."""

import json

import pytest
from conftest import make_chain
from made_plans import plan

from fedcli.data import manifest
from fedcli.reporting import timing
from fedcli.runs import energy
from fedcli.runs.energy import Meter
from fedcli.runs.train import train


def zone(folder, name, microjoules, most=999_999):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text(f"{most}\n")


def test_packages_and_their_memory_are_added_up_and_a_counter_may_begin_again(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 900_000)
    zone(tmp_path / "intel-rapl:0:0", "core", 5)
    zone(tmp_path / "intel-rapl:0:1", "dram", 100)
    zone(tmp_path / "intel-rapl:1", "psys", 7)
    meter = Meter(tmp_path)
    zone(tmp_path / "intel-rapl:0", "package-0", 950_000)
    meter.update()
    zone(tmp_path / "intel-rapl:0", "package-0", 150_000)  # 0.05 J, then 0.2 J over its end at a whole joule
    zone(tmp_path / "intel-rapl:0:0", "core", 999)
    zone(tmp_path / "intel-rapl:0:1", "dram", 500_100)
    assert meter.line() == {"joules": 0.75}
    assert meter.line() == {"joules": 0}


def test_where_nothing_can_be_read_nothing_is_said(tmp_path):
    assert Meter(tmp_path / "none").line() == {}
    zone(tmp_path / "intel-rapl:0", "package-0", "denied")
    assert Meter(tmp_path).line() == {}
    zone(tmp_path / "intel-rapl:0", "package-0", 5)
    meter = Meter(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert meter.line() == {}


def test_a_run_tells_its_energy_beside_its_clocks_and_not_in_its_manifest(tmp_path, monkeypatch):
    zone(tmp_path / "counters" / "intel-rapl:0", "package-0", 5)
    data = make_chain(tmp_path)
    bare = train(data, plan("fedavg", rounds=1), work=tmp_path, out=tmp_path / "bare")
    monkeypatch.setattr(energy.Meter, "__init__", counting(tmp_path / "counters"))
    told = train(data, plan("fedavg", rounds=1), work=tmp_path, out=tmp_path / "told")
    lines = [json.loads(line) for line in (told.parent / "timing.jsonl").read_text().splitlines()]
    assert [line["joules"] for line in lines] == [0] and told.read_bytes() == bare.read_bytes()
    assert "timing.jsonl" not in manifest.read(told).files


def counting(folder):
    made = Meter.__init__
    return lambda meter: made(meter, folder)


@pytest.mark.parametrize("joules, known", [([1800, 5400], 2.0), ([1800, None], None), ([1800, -1], None)])
def test_watt_hours_are_known_where_every_round_has_them(joules, known):
    assert timing._watt_hours([{"joules": each} for each in joules]) == known
