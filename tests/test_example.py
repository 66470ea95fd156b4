"""The example that a student reads computes what the engine computes, to the bit."""

import importlib.util
import runpy
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fedcli.data.shard import Batch, Shard
from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.models.layout import Layout
from fedcli.models.network import Network

PATH = Path(__file__).parent.parent / "examples" / "fedavg_by_hand.py"


def example():
    spec = importlib.util.spec_from_file_location("fedavg_by_hand", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Floats(Shard):
    """A shard of images that are floats already."""

    def batch(self, rows, chance=None):
        return Batch(self.images[self.rows[rows]], self.y[rows], rows)


def test_federated_averaging_by_hand_is_that_of_the_engine_to_the_bit():
    by_hand = example()
    clients, _ = by_hand.digits()
    body = by_hand.network()
    net = Network(body[:-1], 8 * 8 * 8, 10)
    net.head = body[-1]
    shards = {}
    for name, (x, y) in clients.items():
        ids = np.array([f"{name}-{i}" for i in range(len(y))])
        shards[name] = Floats(x, torch.arange(len(y)), y, ids, {}, 10, 1)
    training = Training(
        optimizer="sgd", lr=by_hand.LR, momentum=0.0, weight_decay=0.0, batch_size=by_hand.BATCH
    )
    engine = InProcess(resolve("fedavg"), net, Layout(net), shards, training)
    federation = Federation(engine, by_hand.ROUNDS, by_hand.SEED)
    state = federation.first()
    start = state.theta.clone()
    for _ in range(by_hand.ROUNDS):
        state = federation.play(state).state
    theta = by_hand.federated_averaging(by_hand.network(), clients)
    assert torch.equal(state.theta, theta)
    assert torch.equal(start, nn.utils.parameters_to_vector(by_hand.network().parameters()))


def test_the_example_runs_by_itself(capsys):
    runpy.run_path(str(PATH), run_name="__main__")
    result = float(capsys.readouterr().out.partition("%")[0])
    assert result > 80
