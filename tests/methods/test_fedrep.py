"""FedPer and FedRep: what stays with a client, and what moves when."""

import pytest
import torch
from conftest import ROSTER, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.data.shard import Shard
from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.01, batch_size=8)


def trained(spec, settings=None, memory=None, training=SGD):
    method = resolve(spec, settings)
    net = toy_net(dropout=0.0)
    layout = Layout(net, method.local.personal_tensors(net))
    start = layout.read()
    personal = layout.read_own()
    task = ClientTask("north", 0, 1, 3, 1, start, {}, memory or {})
    shard = toy_shard("north", 20)
    return run_client(method, net, layout, shard, task, training), start, personal


@pytest.mark.parametrize("spec", ["fedper", "fedrep"])
def test_the_classifier_stays_and_features_travel(spec):
    net = toy_net()
    layout = Layout(net, resolve(spec).local.personal_tensors(net))
    assert set(layout.own_shapes) == {"head.weight", "head.bias"}
    report, start, personal = trained(spec)
    assert not torch.equal(report.theta, start)
    assert not torch.equal(report.memory["own"], personal)


def test_fedper_with_one_client_is_fedavg():
    options = {"roster": ROSTER[:1], "shards": {"north": toy_shard("north")}, "rounds": 2}
    state = play("fedper", **options)
    plain = play("fedavg", **options)
    together = torch.cat([state.theta[:44], state.clients["north"]["own"], state.theta[44:]])
    assert_close(together, plain.theta)


def test_fedrep_moves_the_classifier_first_and_then_leaves_it():
    """Its classifier after the round is that of the passes over it, which more features' epochs do not change."""
    once, *_ = trained("fedrep")
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.01, batch_size=8, epochs=2)
    twice, *_ = trained("fedrep", training=training)
    assert torch.equal(once.memory["own"], twice.memory["own"])
    assert not torch.equal(once.theta, twice.theta)


def test_fedrep_without_passes_over_the_classifier_leaves_it_as_it_was():
    report, _, personal = trained("fedrep", {"head_epochs": 0})
    assert torch.equal(report.memory["own"], personal)


def test_the_passes_over_the_classifier_are_its_plain_descent():
    """One step of SGD over all images: W - lr dL/dW in eval mode, features unmoved."""
    settings = {"solver": "sgd", "head_batch": 20}
    training = Training(optimizer="sgd", lr=0.1, batch_size=8, epochs=1)
    report, _, personal = trained("fedrep", settings, training=training)
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 20)
    torch.nn.functional.cross_entropy(net(next(shard.in_order()).x), shard.y).backward()
    moved = personal - 0.1 * torch.cat([net.head.weight.grad.flatten(), net.head.bias.grad])
    assert_close(report.memory["own"], moved)


def test_the_passes_over_the_classifier_shuffle_anew_in_every_round_and_pass(monkeypatch):
    seeds = []
    epoch = Shard.epoch

    def watched(shard, size, *, shuffle, augment):
        seeds.append((shuffle, augment))
        return epoch(shard, size, shuffle=shuffle, augment=augment)

    monkeypatch.setattr(Shard, "epoch", watched)
    net = toy_net()
    shard = toy_shard("north", 20)
    local = resolve("fedrep", {"head_epochs": 2}).local
    layout = Layout(net, local.personal_tensors(net))
    for round in (1, 2):
        client = ClientRound("north", 0, round, 3, 0.1, layout.read(), {}, layout, shard, None, {})
        local.on_round_start(net, client)
    assert (
        len({shuffle for shuffle, _ in seeds})
        == len({augment for _, augment in seeds})
        == len(seeds)
        == 4
    )


def test_clients_end_with_classifiers_of_their_own():
    state = play("fedper", rounds=2)
    other = state.clients["south"]["own"]
    assert not torch.equal(state.clients["north"]["own"], other)


def test_what_shares_nothing_is_refused():
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="share nothing else"):
        resolve("fedper").local.personal_tensors(net)
    with pytest.raises(UsageError, match="personal classifier"):
        resolve("fedrep+creff")
