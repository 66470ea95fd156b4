"""Reweighing of Kamiran and Calders."""

import pytest
import torch
from conftest import client_updates, toy_net, toy_shard
from group_clients import client_of, of_group
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve
from fedcli.methods.reweigh import kamiran


def test_weights_by_hand():
    """10 images, group 0: 3 and 1, group 1: 2 and 4; W = 4 * 5 / (10 * 3) and so on."""
    counts = torch.tensor(rows("3.0 1.0; 2.0 4.0")).double()
    weights = kamiran(counts)
    expected = torch.tensor([[20 / 30, 2.0], [30 / 20, 30 / 40]]).double()
    assert_close(weights, expected)


def test_weighted_counts_are_independent_of_group_and_class_and_keep_their_margins():
    counts = torch.tensor(rows("3.0 1.0 5.0; 2.0 4.0 1.0")).double()
    weighted = counts * kamiran(counts)
    assert_close(weighted.sum(0), counts.sum(0))
    assert_close(weighted.sum(1), counts.sum(1))
    expected = torch.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    assert_close(weighted, expected)


def test_independent_groups_weigh_1_and_so_do_pairs_without_an_image():
    counts = torch.tensor(rows("2.0 4.0; 1.0 2.0")).double()
    result = kamiran(counts).tolist()
    assert result == rows("1.0 1.0; 1.0 1.0")
    counts = torch.tensor(rows("2.0 0.0; 0.0 0.0")).double()
    result = kamiran(counts)[1].tolist()
    assert result == [1.0, 1.0]
    counts = torch.zeros(2, 2).double()
    result = kamiran(counts).tolist()
    assert result == rows("1.0 1.0; 1.0 1.0")


@pytest.mark.parametrize("counts", ["global", "local"])
def test_a_client_weighs_by_all_counts_or_by_its_own(counts):
    net = toy_net()
    values = [0, 1, -1, 1]
    shard = of_group(toy_shard("north", 4), values)
    group_class_counts = torch.full((2, 3), 5.0).double()
    shared = {"group_class_counts": group_class_counts}  # independent
    local = resolve("reweigh", {"counts": counts}).local
    client = client_of(net, shard, shared)
    local.on_round_start(net, client)
    assert ("group_class_counts" in client.report) == (counts == "global")
    weights = client.per_image["weights"]
    assert weights[2] == 1
    result = weights.tolist() == [1.0] * 4
    assert result == (counts == "global")


def test_the_server_adds_counts_up():
    shared = {}
    group_class_counts = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]).double()
    theta = torch.zeros(2, 1)
    table = client_updates(theta, group_class_counts=group_class_counts)
    resolve("reweigh").local.post_aggregate(torch.zeros(1), table, table.base, shared)
    assert shared["group_class_counts"].tolist() == [[4.0, 6.0]]


def test_images_of_clients_that_are_away_are_not_forgotten():
    """The rare pair is at the client of the first round alone."""
    shared = {}
    for counts in (rows("9.0 0.0; 5.0 1.0"), rows("9.0 0.0; 6.0 0.0")):
        group_class_counts = torch.tensor([counts]).double()
        theta = torch.zeros(1, 1)
        table = client_updates(theta, group_class_counts=group_class_counts)
        resolve("reweigh").local.post_aggregate(torch.zeros(1), table, table.base, shared)
    expected = rows("18.0 0.0; 11.0 1.0")
    assert shared["group_class_counts"].tolist() == expected
