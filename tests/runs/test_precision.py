"""--precision auto takes the faster one, and a run that is there already keeps its own."""

import json

import pytest
import torch
from conftest import make_chain, toy_net

from fedcli.federation.client import Training
from fedcli.runs import precision
from fedcli.runs.train import Plan, train


class Slow(torch.nn.Module):
    """Takes so many passes of a network for one."""

    def __init__(self, times):
        super().__init__()
        self.net, self.times = toy_net(), times

    def forward(self, x):
        return sum(self.net(x) for _ in range(self.times))


@pytest.mark.parametrize("slow, chosen", [("fp32", "bf16"), ("bf16", "fp32")])
def test_the_faster_one_is_chosen(slow, chosen):
    choice, seconds = precision.fastest(lambda name: Slow(30 if name == slow else 1), torch.zeros(8, 1, 8, 8))
    assert choice == chosen and seconds[slow] > seconds[chosen] > 0


def test_a_run_keeps_the_precision_it_was_begun_with(tmp_path, monkeypatch):
    data, plan = make_chain(tmp_path), Plan("fedavg", {}, Training(batch_size=16), rounds=1, precision="auto")
    monkeypatch.setattr(precision, "fastest", lambda *_: ("bf16", {"fp32": 2.0, "bf16": 1.0}))
    run = train(data, plan, work=tmp_path, out=None)
    assert json.loads(run.read_text())["body"]["model"]["precision"] == "bf16"
    monkeypatch.setattr(precision, "fastest", lambda *_: pytest.fail("measured again"))
    assert train(data, plan, work=tmp_path, out=None) == run
