from dataclasses import replace

import pytest
import torch
from conftest import ROSTER, client_updates, play, toy_net, toy_shard
from made_plans import planned
from tables_of_numbers import rows
from torch import nn

from fedcli.errors import UsageError
from fedcli.federation.client import Training
from fedcli.federation.state import RunState
from fedcli.methods import METHODS, bsm, crt, ldam, resolve  # noqa: F401 - importing registers
from fedcli.methods.contract import Local
from fedcli.methods.mixins import BalancedSampling
from fedcli.models.layout import Layout
from fedcli.models.network import frozen_parts
from fedcli.runs.rules import check

MODELS = rows("1.0 0.0; 0.0 1.0; 3.0 3.0")


class Shuffled(Local):
    """cRT's training without its draws by class."""

    extend = crt.Retrained.extend


def begin(**server):
    """The state a run of crt begins with."""
    net = toy_net(extend=resolve("crt").local.extend)
    theta = Layout(net).read()
    return RunState(0, theta, server=server)


def test_the_backbone_is_frozen_and_the_classifier_fresh():
    plain = toy_net()
    net = toy_net(extend=resolve("crt").local.extend)
    assert list(frozen_parts(net)) == ["backbone"]
    expected = {"head.weight": (3, 16), "head.bias": (3,)}
    assert Layout(net).shapes == expected  # nothing else travels
    for a, b in zip(plain.backbone.parameters(), net.backbone.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(net.head.weight, plain.head.weight)
    extend = resolve("crt").local.extend
    expected = toy_net(extend=extend).head.weight
    assert torch.equal(net.head.weight, expected)


def test_a_cosine_classifier_gives_way_to_a_linear_one():
    net = toy_net(extend=resolve("ldam").local.extend)
    resolve("crt").local.extend(net)
    assert type(net.head) is nn.Linear
    assert net.head.bias is not None


def test_models_are_averaged_with_the_weights_that_ended_the_run_before():
    rule = resolve("crt").aggregator
    start_weights = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    memory = {"start_weights": start_weights}
    updates = client_updates(MODELS, n=[9.0, 1.0, 1.0])
    theta, weights = rule.aggregate(torch.zeros(2), updates, memory)
    expected = pytest.approx([0.5, 0.2, 0.3])
    assert weights.tolist() == expected
    expected = pytest.approx([1.4, 1.1])
    assert theta.tolist() == expected


def test_over_those_present_the_weights_sum_to_one():
    start_weights = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    memory = {"start_weights": start_weights}
    theta = MODELS[:2]
    updates = client_updates(theta, rows=[0, 2], roster=3)
    _, weights = resolve("crt").aggregator.aggregate(torch.zeros(2), updates, memory)
    expected = pytest.approx([0.625, 0.375])
    assert weights.tolist() == expected


@pytest.mark.parametrize(
    ("settings", "memory"),
    [
        ({}, {}),
        (
            {"weights": "samples"},
            {"start_weights": torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)},
        ),
        ({}, {"start_weights": torch.zeros(3, dtype=torch.float64)}),
    ],
    ids=["nothing known", "asked for", "those here had none"],
)
def test_image_counts_are_the_weights(settings, memory):
    updates = client_updates(MODELS, n=[2, 1, 1])
    _, weights = resolve("crt", settings).aggregator.aggregate(torch.zeros(2), updates, memory)
    assert weights.tolist() == [0.5, 0.25, 0.25]


def test_the_weights_last_to_the_end_of_the_run():
    start = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    weights_by_round = []
    state = play(
        "crt",
        state=begin(start_weights=start),
        each=lambda played: weights_by_round.append(played.weights),
    )
    assert len(weights_by_round) == 3
    for weights in weights_by_round:
        assert torch.allclose(weights, start)
    assert torch.equal(state.server["start_weights"], start)


def test_the_host_s_weights_change_the_model():
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    state = begin(start_weights=last)
    result = play("crt", state=state).theta
    other = play("crt", state=begin()).theta
    assert not torch.equal(result, other)


def test_a_rare_class_is_drawn_as_often_as_the_others():
    shard = toy_shard("north", 300)
    y = torch.zeros(300, dtype=torch.long)
    y[:3], y[3:9] = 1, 2
    shard = type(shard)(shard.images, shard.rows, y, shard.ids, shard.groups, 3, 1)
    assert isinstance(resolve("crt").local, BalancedSampling)
    class_counts = torch.cat(
        [b.y for b in shard.epoch(32, shuffle=1, augment=1, strata=shard.y)]
    ).bincount()
    assert class_counts.sum() == 300
    assert class_counts.min() > 70


def test_it_balances_a_skewed_client_s_answers(monkeypatch):
    """Nine of ten training images are of one class: shuffled draws favour it, balanced ones do not."""

    def skewed(client):
        shard = toy_shard(client, 200)
        keep = torch.cat([(shard.y == 0).nonzero()[:, 0], (shard.y != 0).nonzero()[:, 0][:8]])
        return type(shard)(shard.images, keep, shard.y[keep], shard.ids, shard.groups, 3, 1)

    training = Training(
        optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.0, batch_size=8, epochs=5
    )
    shards = {c: skewed(c) for c in ROSTER}
    net = toy_net(extend=resolve("crt").local.extend)
    layout = Layout(net)
    batch = next(toy_shard("test", 300).in_order())
    answers = {}
    for sampling, local in (("balanced", crt.Retrained()), ("shuffle", Shuffled())):
        monkeypatch.setitem(METHODS, "crt", replace(METHODS["crt"], local=local))
        layout.load(play("crt", shards=shards, training=training, dropout=0.0).theta)
        answers[sampling] = (net.eval()(batch.x).argmax(1) == 0).float().mean()
    assert answers["balanced"] < answers["shuffle"] - 0.1


def test_its_usual_training_stands_for_what_the_user_leaves_open():
    expected = {
        "rounds": 10,
        "optimizer": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "schedule": "cosine",
    }
    assert resolve("crt").default_training == expected


def test_a_prior_on_balanced_draws_is_refused():
    with pytest.raises(UsageError, match="crt corrects for class counts itself"):
        training = Training(prior="bsm")
        check(planned("crt", {}, training, rounds=1))


@pytest.mark.parametrize("spec", ["crt+fedavg", "bsm+crt", "crt+afl"])
def test_it_is_neither_base_nor_add_on(spec):
    with pytest.raises(UsageError, match="crt"):
        resolve(spec)
