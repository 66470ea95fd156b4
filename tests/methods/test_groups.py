"""Methods that weigh images by group: what a client is asked, what the server makes of it, and odd groups."""

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_net, toy_shard
from group_clients import client_of, moved, of_group
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.steps import with_own
from fedcli.methods import METHODS, resolve
from fedcli.methods.mixins import WeighsGroups
from fedcli.runs.assembly import small_groups

WEIGHING = ["group-dro", "fedminmax", "reweigh"]


def test_a_client_reports_counts_and_sums_of_losses_by_group():
    net = toy_net()
    values = [0, 1, 1, -1, 0]
    shard = of_group(toy_shard("north", 5), values)
    client = client_of(net, shard)
    resolve("group-dro").local.on_round_start(net, client)
    with torch.no_grad():
        batch = next(shard.in_order())
        losses = F.cross_entropy(net.eval()(batch.x), batch.y, reduction="none")
    result = client.report["group_counts"].tolist()
    assert result == [2, 2]
    expected = torch.stack([losses[[0, 4]].sum(), losses[[1, 2]].sum()]).double()
    assert_close(client.report["group_losses"], expected)
    result = client.per_image["weights"].tolist()
    assert result == [1.0] * 5  # nothing is known before the first round


def test_images_of_unknown_group_weigh_as_without_the_method():
    group_weights = torch.tensor([0.5, 2.0]).double()
    shared = {"group_weights": group_weights}
    net = toy_net()
    values = [0, 1, -1, 1]
    shard = of_group(toy_shard("north", 4), values)
    client = client_of(net, shard, shared)
    resolve("fedminmax").local.on_round_start(net, client)
    result = client.per_image["weights"].tolist()
    assert result == [0.5, 2.0, 1.0, 2.0]


def test_the_loss_of_a_batch_is_the_weighted_mean():
    net = toy_net(dropout=0.0)
    values = [0, 1, -1, 1]
    shard = of_group(toy_shard("north", 4), values)
    group_weights = torch.tensor([0.5, 2.0]).double()
    client = client_of(net, shard, {"group_weights": group_weights})
    local = resolve("fedminmax").local
    local.on_round_start(net, client)
    batch = with_own(shard.batch(torch.tensor([3, 0])), client)
    losses = F.cross_entropy(net(batch.x), batch.y, reduction="none")
    expected = (2.0 * losses[0] + 0.5 * losses[1]) / 2
    assert_close(local.loss(net, batch, client), expected)


@pytest.mark.parametrize("spec", WEIGHING)
@pytest.mark.parametrize("values", [-1, 0])
def test_no_group_or_a_single_one_trains_as_fedavg(spec, values):
    """A weighted mean of weights 1 is rounded otherwise than torch's own mean."""
    shards = {c: of_group(toy_shard(c, 9), torch.full((9,), values)) for c in ROSTER[:2]}
    small = {"roster": ROSTER[:2], "shards": shards, "rounds": 2}
    expected = play("fedavg", **small).theta
    assert_close(play(spec, **small).theta, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("spec", [*WEIGHING, "adv"])
def test_a_group_of_one_and_one_that_only_a_client_has_survive(spec):
    values = [-1, 0, 1]
    east = of_group(toy_shard("east", 3), values)
    shards = {c: of_group(toy_shard(c, 9), [0] * 9) for c in ROSTER[:2]} | {"east": east}
    roster = ROSTER[:3]
    assert play(spec, shards=shards, roster=roster, rounds=2).theta.isfinite().all()


@pytest.mark.parametrize("spec", [*WEIGHING, "adv"])
def test_eight_groups_of_which_some_have_no_image(spec):
    net = toy_net()
    net.attributes = {"race": list("abcdefgh")}
    resolve(spec).local.extend(net)
    race = torch.tensor([0, 0, 2, 2, 7, -1])
    groups = {"race": race}
    shard = replace(toy_shard("north", 6), groups=groups)
    client = client_of(net, shard)
    resolve(spec).local.on_round_start(net, client)
    if spec != "adv":
        assert client.per_image["weights"].isfinite().all()
    if "group_counts" in client.report:
        expected = [2, 0, 2, 0, 0, 0, 0, 1]
        assert client.report["group_counts"].tolist() == expected


@pytest.mark.parametrize("spec", [*WEIGHING, "adv"])
def test_an_attribute_that_is_not_there_is_refused_before_training(spec):
    net = toy_net()
    with pytest.raises(UsageError, match="no attribute 'age'"):
        resolve(spec, {"attribute": "age"}).local.extend(net)
    net.attributes = {}
    with pytest.raises(UsageError, match="this dataset has none"):
        resolve(spec).local.extend(net)


def test_small_groups_and_unknown_values_are_named_where_a_method_weighs_by_them(shards):
    net = toy_net()
    caution = small_groups(resolve("group-dro"), "shuffle", net, shards)
    counts = torch.cat([shard.groups["sex"] for shard in shards.train.values()])
    few = {value: int((counts == g).sum()) for g, value in enumerate("fm")}
    expected = few["f"] < 30
    assert ("f " in caution) == (expected)
    assert f"{int((counts < 0).sum())} training images have no sex" in caution
    result = small_groups(resolve("group-dro"), "shuffle", net, tiny(shards))
    assert result == "groups of sex with few training images, which then count for many: f 3, m 1"
    assert small_groups(resolve("fedavg"), "group:sex", net, tiny(shards)).endswith("f 3, m 1")
    for spec, settings in (("adv", {}), ("fedavg", {}), ("fairfed", {})):
        assert small_groups(resolve(spec, settings), "shuffle", net, shards) == ""


def tiny(shards):
    """Four training images: three of f, one of m."""
    values = [0, 0, 0, 1]
    shard = replace(of_group(toy_shard("north", 4), values), y=torch.tensor([0, 0, 2, 2]))
    return replace(shards, train={"north": shard})


@pytest.mark.parametrize(
    ("spec", "settings", "sampling"),
    [
        ("reweigh", {}, "shuffle"),
        ("flexfair", {}, "shuffle"),
        ("fairfb", {}, "shuffle"),
        ("fairfed", {"gap": "eod"}, "shuffle"),
        ("fedprox+fairfed", {"gap": "eod"}, "shuffle"),
        ("fedavg", {}, "group-class:sex"),
        ("group-dro", {}, "group-class:sex"),
    ],
)
def test_small_pairs_of_group_and_class_are_named_where_weights_or_draws_come_from_them(
    spec, settings, sampling, shards
):
    caution = small_groups(resolve(spec, settings), sampling, toy_net(), tiny(shards))
    assert "f 3, m 1" in caution
    assert caution.endswith("the smallest is f and c with 1")
    assert "3 pairs of sex and class have under 30 training images" in caution


def test_without_pairs_in_the_rule_groups_alone_are_named(shards):
    for spec, settings in (
        ("flexfair", {"within": "all"}),
        ("fairfed", {"gap": "spd"}),
        ("fedminmax", {}),
    ):
        assert small_groups(resolve(spec, settings), "shuffle", toy_net(), tiny(shards)).endswith(
            "f 3, m 1"
        )


def weighs_groups(method):
    return any(isinstance(half, WeighsGroups) for half in (method.local, method.aggregator))


@pytest.mark.parametrize(
    "spec", [name for name, method in METHODS.items() if weighs_groups(method)]
)
def test_a_method_that_weighs_groups_says_what_becomes_of_odd_ones(spec):
    text = " ".join(METHODS[spec].documentation.split())
    assert "nknown group" in text
    assert re.search("(group|pair)( of| with)? one image", text)
    assert re.search("without (an )?images?|no group|no such sum|the sum does not", text)


@pytest.mark.parametrize("spec", ["group-dro", "fedminmax"])
def test_an_absent_group_keeps_its_share_and_a_round_without_groups_changes_nothing(spec):
    group_shares = torch.tensor([0.5, 0.25, 0.25]).double()
    group_images = torch.tensor([6.0, 2.0, 2.0])
    before = {
        "group_shares": group_shares,
        "group_images": group_images,
    }
    device = [[6.0, 0.0, 2.0]]
    non_blocking = [[6.0, 0.0, 6.0]]
    shared = moved(spec, device, non_blocking, before, eta=0.1)
    assert shared["group_shares"][1] == 0.25
    assert sum(shared["group_shares"]) == pytest.approx(1)
    assert shared["group_shares"][2] > 0.25
    assert shared["group_images"] == [12.0, 2.0, 4.0]
    expected = pytest.approx(0.25 * 18 / 2)
    assert shared["group_weights"][1] == expected  # and its weight: mu over its share of all images
    device = [[0.0, 0.0, 0.0]]
    non_blocking = [[0.0, 0.0, 0.0]]
    nobody = moved(spec, device, non_blocking, before)
    expected = {name: value.tolist() for name, value in before.items()}
    assert nobody == expected


@pytest.mark.parametrize("spec", ["group-dro", "fedminmax"])
def test_a_mean_loss_is_that_of_the_images_of_this_round(spec):
    """Both groups have the loss 2 now, whatever the images of earlier rounds."""
    group_shares = torch.tensor([0.5, 0.5]).double()
    group_images = torch.tensor([90.0, 10.0])
    before = {
        "group_shares": group_shares,
        "group_images": group_images,
    }
    device = [[5.0, 5.0]]
    non_blocking = [[10.0, 10.0]]
    result = moved(spec, device, non_blocking, before, eta=0.1)["group_shares"]
    expected = pytest.approx([0.5, 0.5])
    assert result == expected


@pytest.mark.parametrize("spec", ["group-dro", "fedminmax", "gifair"])
def test_a_group_that_first_comes_in_a_later_round_starts_as_it_would_have_in_the_first(spec):
    """Its clients were absent: with a share of 0 its images would weigh nothing, and climb by small steps."""
    still = {"strength": 0.0} if spec == "gifair" else {"eta": 0.0}
    shared = {}
    for counts in ([[6.0, 2.0, 0.0]], [[0.0, 0.0, 4.0]], [[6.0, 2.0, 4.0]]):
        result = moved(spec, counts, counts, shared, **still)
        shared = {name: torch.tensor(value).double() for name, value in result.items()}
    shares = [1 / 3] * 3 if spec == "group-dro" else [1 / 2, 1 / 6, 1 / 3]
    assert result["group_shares"] == pytest.approx(shares)
    rho = [1 / 2, 1 / 6, 1 / 3]
    expected = pytest.approx([mu / r for mu, r in zip(shares, rho, strict=True)])
    assert result["group_weights"] == expected


@pytest.mark.parametrize("spec", ["group-dro", "fedminmax", "gifair"])
def test_a_rare_group_of_a_client_that_is_often_absent_is_weighed_when_it_is_there(spec):
    """Round by round one hospital of three; the group is at the last alone, where the model is worst."""
    shared = {}
    turns = [
        ([[8.0, 0.0]], [[4.0, 0.0]]),
        ([[8.0, 0.0]], [[4.0, 0.0]]),
        ([[4.0, 4.0]], [[2.0, 20.0]]),
    ]
    for counts, losses in 3 * turns + turns[:2]:
        result = moved(spec, counts, losses, shared)
        shared = {name: torch.tensor(value).double() for name, value in result.items()}
    assert result["group_weights"][1] > 1.2  # as the third hospital starts its round


@pytest.mark.parametrize("spec", ["group-dro", "fedminmax"])
def test_the_weights_have_mean_1_over_all_images_and_the_worst_group_gains(spec):
    counts = rows("7.0 2.0; 5.0 6.0")
    shared = {}
    for _ in range(4):
        non_blocking = rows("7.0 6.0; 5.0 18.0")
        moved_values = moved(spec, counts, non_blocking, shared)
        shared = {name: torch.tensor(value).double() for name, value in moved_values.items()}
    w = moved_values["group_weights"]
    result = (12 * w[0] + 8 * w[1]) / 20
    assert result == pytest.approx(1)
    assert w[1] > 1 > w[0]
