"""--precision auto takes the faster one, and a run that is there already keeps its own."""

import json
from types import SimpleNamespace

import pytest
import torch
from conftest import make_chain, toy_net
from made_plans import planned, train
from pretend import Graph, pretended

from fedcli.federation.client import Training
from fedcli.runs import precision


@pytest.mark.parametrize(
    ("passes", "chosen"),
    [
        ({"fp32": 3.0, "tf32": 1.0, "bf16": 1.0}, "tf32"),
        ({"fp32": 3.0, "tf32": 2.0, "bf16": 1.0}, "bf16"),
        ({"fp32": 1.0, "tf32": 1.0, "bf16": 1.0}, "fp32"),
    ],
)
def test_on_a_gpu_recorded_steps_are_measured_and_the_most_exact_of_the_fastest_is_chosen(
    passes, chosen, monkeypatch
):
    """By a clock that only a replay moves."""
    now = 0.0
    seconds = iter(passes.values())

    class Slow(Graph):
        def __init__(self):
            super().__init__()
            self.seconds = next(seconds)

        def replay(self):
            nonlocal now
            super().replay()
            now += self.seconds

    monkeypatch.setattr(precision, "time", SimpleNamespace(perf_counter=lambda: now))
    with pretended():
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Slow)
        images = torch.zeros(8, 1, 8, 8, device="cuda")
        choice, times = precision.fastest(lambda _: toy_net().to("cuda"), images)
    assert choice == chosen
    assert times == pytest.approx(passes)


@pytest.mark.parametrize(("slow", "chosen"), [("fp32", "bf16"), ("bf16", "fp32")])
def test_the_faster_one_is_chosen(slow, chosen, monkeypatch):
    """By a clock that only a pass of a network moves."""
    now = 0.0

    class Slow(torch.nn.Module):
        def __init__(self, seconds):
            super().__init__()
            self.net = toy_net()
            self.seconds = seconds

        def forward(self, x):
            nonlocal now
            now += self.seconds
            return self.net(x)

    monkeypatch.setattr(precision, "time", SimpleNamespace(perf_counter=lambda: now))
    choice, seconds = precision.fastest(
        lambda name: Slow(3.0 if name == slow else 1.0), torch.zeros(8, 1, 8, 8)
    )
    assert choice == chosen
    assert seconds == pytest.approx({slow: 3.0, chosen: 1.0})


def test_a_run_keeps_the_precision_it_was_begun_with(tmp_path, monkeypatch):
    data = make_chain(tmp_path)
    plan = planned("fedavg", {}, Training(batch_size=16), rounds=1, precision="auto")
    monkeypatch.setattr(precision, "fastest", lambda *_: ("bf16", {"fp32": 2.0, "bf16": 1.0}))
    run = train(data, plan, work=tmp_path, out=None)
    result = json.loads(run.read_text())["body"]["model"]["precision"]
    assert result == "bf16"
    monkeypatch.setattr(precision, "fastest", lambda *_: pytest.fail("measured again"))
    assert train(data, plan, work=tmp_path, out=None) == run
