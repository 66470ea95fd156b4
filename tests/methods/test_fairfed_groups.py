"""FairFed with its own gap: how far a client's unfairness between groups is from that of all images."""

from dataclasses import replace

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from group_clients import client_of, of_group
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.methods import resolve
from fedcli.methods.fairfed import unfairness_gaps


def table(*clients):
    """Predictions [K, G, C, C] of two classes and groups, from (cases, guessed 1) of classes 0 and 1 in each group."""
    cases, guessed = torch.tensor(clients).double().unbind(-1)  # [K, G, C]
    return torch.stack([cases - guessed, guessed], -1)


COUNTS = table([((4, 1), (4, 3)), ((2, 0), (2, 1))], [((1, 0), (4, 1)), ((3, 3), (6, 2))])


def test_equal_opportunity_by_hand():
    """Recall 3/4 - 1/2 and 1/4 - 1/3; of all images 4/8 - 3/8."""
    expected = pytest.approx([1 / 4 - 1 / 8, 1 / 12 + 1 / 8])
    assert unfairness_gaps(COUNTS, "eod").tolist() == expected


def test_statistical_parity_by_hand():
    """Guessed 1: 4/8 - 1/4 and 1/5 - 5/9; of all images 5/13 - 6/13."""
    expected = pytest.approx([1 / 4 + 1 / 13, 16 / 45 - 1 / 13])
    assert unfairness_gaps(COUNTS, "spd").tolist() == expected


def test_weights_move_to_the_client_whose_unfairness_is_that_of_all():
    """Gaps 1/8 and 5/24, mean 1/6: the weights 1/2 move by 2 / 24."""
    theta = torch.eye(2)
    updates = client_updates(theta, t=2, accuracy=[0.9, 0.1], group_predictions=COUNTS)
    rule = resolve("fairfed", {"gap": "eod", "beta": 2.0}).aggregator
    result = rule.aggregate(torch.zeros(2), updates, {})[1].tolist()
    expected = pytest.approx([0.5 + 1 / 12, 0.5 - 1 / 12])
    assert result == expected


def test_an_attribute_without_a_gap_of_groups_is_refused():
    with pytest.raises(UsageError, match="attribute=sex has no effect on gap=accuracy") as refusal:
        play("fairfed", {"attribute": "sex"})
    assert "gap=eod" in refusal.value.hint
    play("fairfed", {"attribute": "sex", "gap": "spd"}, rounds=1)


def test_a_client_without_a_pair_of_groups_falls_back_to_its_accuracy():
    alone = table([((4, 1), (4, 3)), ((0, 0), (0, 0))], [((1, 0), (4, 1)), ((3, 3), (6, 2))])
    result = unfairness_gaps(alone, "eod").isnan().tolist()
    assert result == [True, False]
    theta = torch.eye(2)
    updates = client_updates(theta, t=2, accuracy=[0.9, 0.7], group_predictions=alone)
    _, weights = resolve("fairfed", {"gap": "eod"}).aggregator.aggregate(
        torch.zeros(2), updates, {}
    )
    gap = unfairness_gaps(alone, "eod")[1].item()
    expected = pytest.approx([0.5 - (0.1 - gap) / 2, 0.5 + (0.1 - gap) / 2])
    assert weights.tolist() == expected  # |0.9 - 0.8|


def test_one_client_is_as_unfair_as_all_and_the_order_of_groups_does_not_matter():
    generator = torch.Generator().manual_seed(4)
    counts = torch.randint(0, 9, (3, 4, 3, 3), generator=generator).double()
    for kind in ("eod", "spd"):
        assert unfairness_gaps(counts[:1], kind).tolist() == [0.0]
        expected = unfairness_gaps(counts[:, [2, 0, 3, 1]], kind)
        assert_close(unfairness_gaps(counts, kind), expected)


def test_clients_count_predictions_of_known_groups():
    net = toy_net()
    values = [0, 0, 1, 1, 1, -1]
    shard = of_group(toy_shard("north", 6), values)
    client = client_of(net, shard)
    resolve("fairfed", {"gap": "spd"}).aggregator.measure_global(net, client)
    counts = client.report["group_predictions"]
    assert counts.shape == (2, 3, 3)
    result = counts.sum((1, 2)).tolist()
    assert result == [2, 3]
    by_class = counts.sum(2)[1]
    expected = shard.y[2:5].bincount(minlength=3).tolist()
    assert by_class.tolist() == expected


@pytest.mark.parametrize("gap", ["eod", "spd"])
def test_it_trains(gap):
    assert play("fairfed", {"gap": gap}, rounds=2).theta.isfinite().all()


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="gap=eod has no rule=released"):
        resolve("fairfed", {"gap": "eod", "rule": "released"})
    net = toy_net()
    net.attributes = {}
    with pytest.raises(UsageError, match="gap=eod needs a group attribute"):
        rule = resolve("fairfed", {"gap": "eod"}).aggregator
        shard = replace(toy_shard("north", 4), groups={})
        rule.measure_global(net, client_of(net, shard))
