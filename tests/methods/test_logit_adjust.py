import json
from pathlib import Path

import pytest
import torch
from conftest import ROSTER, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.methods import bsm, logit_adjust, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

VECTOR = json.loads((Path(__file__).parent.parent / "vectors" / "fedism.json").read_text())[
    "logit_adjust"
]


def begun(shard, settings=None):
    net = toy_net()
    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    resolve("logit-adjust", settings).local.on_round_start(net, client)
    return client.offset


def test_the_offset_is_that_of_the_golden_vector():
    y = torch.repeat_interleave(torch.arange(5), torch.tensor(VECTOR["counts"]).long())
    shard = toy_shard("north", len(y))
    shard = type(shard)(shard.images, shard.rows, y, shard.ids, shard.groups, 5, 1)
    n = torch.tensor(VECTOR["counts"])
    assert_close(begun(shard), (n / n.sum()).log())
    expected = 0.5 * (n / n.sum()).log()
    assert_close(begun(shard, {"tau": 0.5}), expected)


def test_it_is_balanced_softmax_where_no_class_is_absent():
    shards = {c: toy_shard(c) for c in ROSTER}
    for s in shards.values():
        assert (s.class_counts > 0).all()
    pair = [play(spec, shards=shards).theta for spec in ("logit-adjust", "bsm")]
    assert_close(*pair, atol=1e-5, rtol=1e-4)


def test_temperature_zero_without_absent_classes_is_fedavg():
    result = play("logit-adjust", {"tau": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_the_row_of_a_class_that_nobody_has_never_moves():
    """Taken out of the softmax it gets no gradient; under FedAvg it is pushed down."""
    shards = {c: toy_shard(c, absent=1) for c in ROSTER}
    span = Layout(toy_net()).spans["head.weight"]
    row = {
        spec: play(spec, shards=shards).theta[span].view(3, -1)[1]
        for spec in ("logit-adjust", "fedavg")
    }
    start = toy_net().head.weight[1].detach()
    assert_close(row["logit-adjust"], start, atol=1e-6, rtol=0)  # but for rounding in the average
    assert not torch.allclose(row["fedavg"], start, atol=1e-3)


@pytest.mark.parametrize("base", ["fedprox", "moon", "fedproto"])
def test_as_an_option_it_changes_other_methods_too(base):
    from fedcli.federation.client import Training

    plain = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8)
    adjusted = Training(
        optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8, prior="logit-adjust"
    )
    other = play(base, training=adjusted).theta
    assert not torch.equal(play(base, training=plain).theta, other)
