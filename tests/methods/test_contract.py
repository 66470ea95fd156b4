"""The base classes: what a half does that overrides nothing."""

import pytest
import torch
import torch.nn.functional as F
from conftest import client_updates, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods.contract import Aggregator, ClientRound, Local, cross_entropy
from fedcli.models.layout import Layout


def round_of(layout, offset=None):
    shard = toy_shard("north")
    return ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, offset, {})


def test_the_plain_loss_is_cross_entropy_with_the_prior_added_to_the_logits():
    logits = torch.tensor(rows("2.0 0.0; 0.0 1.0"))
    y = torch.tensor([0, 1])
    offset = torch.tensor([0.0, 0.5])
    layout = Layout(toy_net())
    result = cross_entropy(logits, y, round_of(layout))
    assert torch.equal(result, F.cross_entropy(logits, y))
    result = cross_entropy(logits, y, round_of(layout, offset))
    expected = F.cross_entropy(logits + offset, y)
    assert torch.equal(result, expected)


def test_the_plain_gradient_lies_in_the_layout_and_the_loss_needs_none():
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    client = round_of(layout)
    batch = next(client.shard.in_order(8))
    loss = Local().gradient(net, batch, client)
    expected = torch.autograd.grad(F.cross_entropy(net(batch.x), batch.y), net.head.weight)[0]
    assert not loss.requires_grad
    assert_close(net.head.weight.grad, expected)


def test_image_counts_are_the_weights_of_a_rule_that_says_nothing_else():
    theta = [[0.0], [0.0]]
    result = client_updates(theta, n=[3, 1]).base.tolist()
    assert result == [0.75, 0.25]


def test_a_column_is_read_by_its_name():
    theta = [[0.0], [0.0]]
    result = client_updates(theta, loss=[1.0, 2.0])["loss"].tolist()
    assert result == [1.0, 2.0]


def test_a_rule_without_aggregate_is_refused_by_name():
    with pytest.raises(TypeError, match="Aggregator has no aggregate"):
        Aggregator().aggregate(torch.zeros(1), client_updates([[0.0]]), {})
