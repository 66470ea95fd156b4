import pytest
import torch
import torch.nn.functional as F
from conftest import CLASSES, client_updates, play, toy_net, toy_shard
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import fedproto, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

SUMS = [rows("2.0 4.0; 0.0 0.0; 0.0 0.0"), rows("1.0 0.0; 9.0 3.0; 0.0 0.0")]  # [K, C, D]
COUNTS = rows("4.0 0.0 0.0; 1.0 3.0 0.0")  # [K, C]


def client(layout, shard, shared=None):
    return ClientRound("north", 0, 2, 3, 0.1, layout.read(), shared or {}, layout, shard, None, {})


def fold(spec, sums, counts, shared, **settings):
    theta = torch.zeros(1)
    table = client_updates(torch.zeros(len(sums), 1), feature_sum=sums, feature_n=counts)
    assert resolve(spec, settings).local.post_aggregate(theta, table, table.base, shared) is theta
    return shared


@pytest.mark.parametrize("spec", ["fedproto", "fedproc"])
def test_prototypes_are_averaged_by_images_of_the_class(spec):
    """Class 0: (2+1)/(4+1), (4+0)/5. Class 1: one client alone, 9/3 and 3/3. Class 2: nobody."""
    shared = fold(spec, SUMS, COUNTS, {})
    expected = torch.tensor(rows("0.6 0.8; 3.0 1.0"))
    assert_close(shared["prototypes"][:2], expected)
    assert shared["prototype_known"].tolist() == [True, True, False]


@pytest.mark.parametrize("spec", ["fedproto", "fedproc"])
def test_released_rule_counts_clients_alike(spec):
    """Class 0: client means (0.5, 1) and (1, 0), so (0.75, 0.5)."""
    shared = fold(spec, SUMS, COUNTS, {}, rule="released")
    expected = torch.tensor(rows("0.75 0.5; 3.0 1.0"))
    assert_close(shared["prototypes"][:2], expected)


def test_a_class_unseen_this_round_keeps_its_prototype():
    shared = fold("fedproto", SUMS, COUNTS, {})
    prototypes = shared["prototypes"]
    sums = [rows("0.0 0.0; 0.0 0.0; 5.0 5.0")]
    counts = [[0.0, 0.0, 1.0]]
    fold("fedproto", sums, counts, shared)
    expected = torch.tensor(rows("0.6 0.8; 3.0 1.0; 5.0 5.0"))
    assert_close(shared["prototypes"], expected)
    assert shared["prototype_known"].all()
    assert shared["prototypes"] is not prototypes
    assert prototypes[2].tolist() == [
        0.0,
        0.0,
    ]


def test_a_doubled_client_counts_double_and_order_does_not_matter():
    once = fold("fedproto", SUMS, COUNTS, {})["prototypes"]
    sums = SUMS[::-1]
    counts = COUNTS[::-1]
    turned = fold("fedproto", sums, counts, {})["prototypes"]
    sums = [rows("4.0 8.0; 0.0 0.0; 0.0 0.0"), SUMS[1]]
    counts = [[8.0, 0.0, 0.0], COUNTS[1]]
    heavy = fold(
        "fedproto",
        sums,
        counts,
        {},
    )
    sums = [SUMS[0], *SUMS]
    counts = [COUNTS[0], *COUNTS]
    twice = fold("fedproto", sums, counts, {})
    assert_close(once, turned)
    assert_close(heavy["prototypes"], twice["prototypes"])


def test_a_client_reports_sums_of_its_trained_features_by_class():
    net = toy_net()
    shard = toy_shard("north", absent=1)
    layout = Layout(net)
    before = layout.read()
    turn = client(layout, shard)
    resolve("fedproto").local.on_round_end(net.train(), turn)

    batch = next(shard.in_order())
    z = toy_net().eval().features(batch.x).detach()
    for c in range(CLASSES):
        expected = z[batch.y == c].sum(0)
        assert_close(turn.report["feature_sum"][c], expected, atol=1e-4, rtol=1e-5)
    result = turn.report["feature_n"].tolist()
    assert result == shard.class_counts.tolist()
    assert turn.report["feature_n"][1] == 0
    assert torch.equal(layout.read(), before)  # no statistic moved


def test_the_loss_is_equation_7_image_by_image():
    """Mean over all images of the mean squared distance; class 2 has no prototype and adds zero."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north")
    generator = torch.Generator().manual_seed(3)
    prototypes = torch.randn(CLASSES, 16, generator=generator)
    prototype_known = torch.tensor([True, True, False])
    shared = {"prototypes": prototypes, "prototype_known": prototype_known}
    batch = next(shard.in_order())
    local = resolve("fedproto", {"strength": 0.5}).local
    loss = local.loss(net.eval(), batch, client(Layout(net), shard, shared))

    z = net.features(batch.x)
    distances = sum(
        (z[i] - prototypes[c]).square().mean() for i, c in enumerate(batch.y.tolist()) if c < 2
    )
    expected = F.cross_entropy(net(batch.x), batch.y) + 0.5 * distances / len(batch.y)
    assert_close(loss, expected)


def test_without_a_pull_it_is_fedavg():
    result = play("fedproto", {"strength": 0.0}).theta
    assert torch.equal(result, play("fedavg").theta)


def test_the_first_round_is_fedavg():
    expected = play("fedavg", rounds=1).theta
    assert torch.equal(play("fedproto", rounds=1).theta, expected)


def test_both_rules_run_with_absent_clients_and_differ():
    table = {
        rule: play("fedproto", {"rule": rule}, rounds=4, participation=0.5)
        for rule in ("original", "released")
    }
    assert not torch.equal(table["original"].theta, table["released"].theta)


def test_a_class_nobody_has_is_never_known():
    shards = {c: toy_shard(c, absent=2) for c in ("north", "south", "east", "west")}
    state = play("fedproto", shards=shards)
    result = state.shared["prototype_known"].tolist()
    assert result == [True, True, False]
    assert state.theta.isfinite().all()
