import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, play, toy_shard
from torch.testing import assert_close

from fedcli.bench.toy import toy_federation
from fedcli.federation.client import Training
from fedcli.methods import resolve
from fedcli.methods.priors import COUNTS_OF_ALL, OF_ALL, PRIORS, offset

COUNTS = torch.tensor([3, 0, 1])
EVERY = [kind for kind in PRIORS if kind != "none"]
OF_ONE_CLIENT = [kind for kind in EVERY if kind != OF_ALL]


def training(prior):
    return Training(
        optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=8, prior=prior
    )


def unlike_shards():
    """Clients that lack a class each; class 3 is none, so the last lacks no class."""
    return {c: toy_shard(c, absent=i % 4) for i, c in enumerate(ROSTER)}


def test_balanced_softmax_is_the_log_share_with_a_floor():
    expected = torch.tensor([math.log(0.75), math.log(1e-12), math.log(0.25)])
    assert_close(offset("bsm", COUNTS), expected)


@pytest.mark.parametrize("kind", ["logit-adjust", OF_ALL])
def test_logit_adjustment_takes_absent_classes_out(kind):
    expected = torch.tensor([math.log(0.75), -torch.inf, math.log(0.25)])
    assert_close(offset(kind, COUNTS), expected)
    assert_close(offset(kind, COUNTS, tau=2.0), 2 * expected)
    result = offset(kind, COUNTS, tau=0.0).tolist()
    assert result == [0, -torch.inf, 0]


def test_the_margin_is_a_fourth_root():
    """16 images: 1/2 of tau; 81: 1/3; none: as if 1e-8, whose fourth root is 1/100."""
    counts = torch.tensor([16, 81, 0])
    expected = -0.5 * torch.tensor([1 / 2, 1 / 3, 100])
    assert_close(offset("fedlc", counts), expected)
    expected = -3 * torch.tensor([1 / 2, 1 / 3, 100])
    assert_close(offset("fedlc", counts, tau=3.0), expected)
    expected = pytest.approx([-0.25, -1 / 6, -torch.inf])
    result = offset("fedlc", counts, absent="mask").tolist()
    assert result == expected


def test_logit_adjustment_and_balanced_softmax_agree_where_no_class_is_absent():
    counts = torch.tensor([100_000, 7, 1])
    assert_close(offset("bsm", counts), offset("logit-adjust", counts))


@pytest.mark.parametrize("kind", EVERY)
def test_equal_counts_change_no_probability(kind):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 3, generator=generator)
    counts = torch.tensor([5, 5, 5])
    shifted = logits + offset(kind, counts)
    assert_close(shifted.softmax(1), logits.softmax(1))


@pytest.mark.parametrize("kind", EVERY)
def test_it_is_float32_and_lower_for_rarer_classes(kind):
    counts = torch.tensor([1_000_000, 1000, 1, 0])
    values = offset(kind, counts)
    assert values.dtype == torch.float32
    assert (values.diff() < 0).all()


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("absent", ["floor", "mask"])
def test_the_loss_is_finite_and_an_absent_class_gets_almost_no_gradient(kind, absent):
    logits = torch.zeros(2, 3, requires_grad=True)
    loss = F.cross_entropy(logits + offset(kind, COUNTS, absent=absent), torch.tensor([0, 2]))
    (slope,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert slope.isfinite().all()
    assert slope[:, 1].abs().max() < 1e-11


def test_an_unknown_prior_is_our_own_mistake():
    with pytest.raises(ValueError, match="focal"):
        offset("focal", COUNTS)


@pytest.mark.parametrize("kind", OF_ONE_CLIENT)
def test_the_training_option_and_the_method_of_that_name_are_one(kind):
    shards = unlike_shards()
    with_option = play("fedavg", training=training(kind), shards=shards).theta
    assert torch.equal(with_option, play(kind, shards=shards).theta)
    assert not torch.equal(with_option, play("fedavg", shards=shards).theta)


def test_clients_receive_the_counts_of_all_and_train_on_them_alone():
    """Each client's loss is adjusted by the shares of all: the golden vector of the sum of their counts."""
    shards = unlike_shards()
    federation = toy_federation(resolve("fedavg"), shards=shards, training=training(OF_ALL))
    tasks = federation.tasks(federation.first(), ROSTER, {})
    counts = sum(shard.y.bincount(minlength=3) for shard in shards.values())
    assert len(tasks) == len(ROSTER)
    for task in tasks:
        assert torch.equal(task.shared[COUNTS_OF_ALL], counts)
    adjusted = play("fedavg", training=training(OF_ALL), shards=shards)
    assert not adjusted.shared
    of_each = play("fedavg", training=training("logit-adjust"), shards=shards)
    assert not torch.equal(adjusted.theta, of_each.theta)


def test_an_absent_class_of_one_client_stays_in_its_softmax_where_others_have_it():
    seen = {}

    class Watched(type(resolve("fedavg").local)):
        def on_round_start(self, net, client):
            seen[client.name] = client.offset

    method = replace(resolve("fedavg"), local=Watched())
    shards = unlike_shards()
    federation = toy_federation(method, shards=shards, training=training(OF_ALL))
    federation.play(federation.first())
    counts = sum(shard.class_counts for shard in shards.values()).double()
    expected = (counts / counts.sum()).log().float()
    assert seen.keys() == set(ROSTER)
    for client in ROSTER:
        assert_close(seen[client], expected)


@pytest.mark.parametrize("clients", [1, 3])
def test_where_all_clients_have_the_same_shares_both_adjustments_are_one(clients):
    roster = ROSTER[:clients]
    shards = {client: toy_shard("north") for client in roster}
    thetas = []
    for kind in ("logit-adjust", OF_ALL):
        thetas.append(play("fedavg", training=training(kind), shards=shards, roster=roster).theta)
    assert torch.equal(*thetas)


def test_a_training_with_the_counts_of_all_goes_on_to_the_same_bits():
    options = {"training": training(OF_ALL), "shards": unlike_shards()}
    half = play("scaffold", until=2, **options)
    assert torch.equal(
        play("scaffold", state=half, **options).theta, play("scaffold", **options).theta
    )
