import math

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from group_clients import client_of
from torch.testing import assert_close

from fedcli.methods import resolve


def weights(d, settings=None, n=(3, 1)):
    discrepancy = torch.tensor(d).double()
    theta = torch.eye(2)
    table = client_updates(theta, n=n, discrepancy=discrepancy)
    return resolve("feddisco", settings).aggregator.aggregate(torch.zeros(2), table, {})[1].tolist()


def test_weights_by_hand():
    """d as shares 1/4 and 3/4: 0.75 - 0.125 + 0.1 and 0.25 - 0.375 + 0.1, which is cut at 0."""
    assert weights([0.5, 1.5]) == [1.0, 0.0]
    result = weights([0.5, 1.5], {"a": 0.2})
    expected = pytest.approx([0.8, 0.2])
    assert result == expected
    expected = pytest.approx([0.75 / 0.85, 0.1 / 0.85])
    result = weights([0.2, 0.5], {"measure": "l2"})
    assert result == expected


def test_discrepancies_by_hand():
    """toy images of 3 classes; shares 1/2, 1/2, 0: log 1.5, and the root of 1/36 + 1/36 + 1/9."""
    shard = toy_shard("north", 4)
    shard.y[:] = torch.tensor([0, 1, 1, 0])
    for measure, expected in (("kl", math.log(1.5)), ("l2", (1 / 6) ** 0.5)):
        client = client_of(toy_net(), shard)
        resolve("feddisco", {"measure": measure}).aggregator.measure_global(toy_net(), client)
        assert client.report["discrepancy"].item() == pytest.approx(expected)


def test_limits():
    settings = {"a": 0.0, "b": 0.0}
    result = weights([1.0, 2.0], settings)
    assert result == [0.75, 0.25]
    settings = {"a": 0.0, "b": 1e9}
    result = weights([1.0, 2.0], settings)
    assert result == pytest.approx([0.5, 0.5])
    result = weights([5.0, 5.0], {"measure": "l2"})
    assert result == [0.75, 0.25]  # none above 0
    expected = pytest.approx([0.85 / 1.2, 0.35 / 1.2])
    assert weights([0.0, 0.0]) == expected
    plain = play("fedavg", rounds=2).theta
    settings = {"a": 0.0, "b": 0.0}
    result = play("feddisco", settings, rounds=2).theta
    assert_close(result, plain)
