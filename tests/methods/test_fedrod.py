"""FedRoD: two losses, two classifiers, and the one that both make together."""

import torch
import torch.nn.functional as F
from conftest import play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=20)


def trained(spec="fedrod", settings=None, memory=None, absent=None, training=SGD):
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 3, 1, layout.read(), {}, memory or {})
    shard = toy_shard("north", 20, absent=absent)
    method = resolve(spec, settings or {})
    return run_client(method, net, layout, shard, task, training), layout


def test_what_is_shared_trains_as_under_balanced_softmax():
    state = play("fedrod", rounds=2)
    balanced = play("bsm", rounds=2)
    assert torch.equal(state.theta, balanced.theta)


def test_one_step_of_the_own_classifier_by_hand():
    """P starts at 0: P - lr dL/dP of CE(G(z) + P(z)) with z and G held fixed, as they were before the step."""
    report, _ = trained(settings={"solver": "sgd"})
    net = toy_net(dropout=0.0).train()
    shard = toy_shard("north", 20)
    z = net.features(next(shard.in_order()).x).detach()
    p = (net.head(z).softmax(1) - F.one_hot(shard.y, 3)) / 20  # [B, C] dL / d logits
    expected = -0.1 * torch.cat([p.T @ z, p.sum(0)[:, None]], 1)  # [C, D + 1]
    assert_close(report.memory["own_head"], expected.detach())


def test_the_own_model_has_the_sum_of_both_classifiers():
    report, layout = trained()
    model = report.memory["model"]
    personal_head = report.memory["own_head"]
    expected = layout.named(report.theta)
    expected["head.weight"] = expected["head.weight"] + personal_head[:, :-1]
    expected["head.bias"] = expected["head.bias"] + personal_head[:, -1]
    for name, tensor in layout.named(model).items():
        assert_close(tensor, expected[name])


def test_a_client_goes_on_with_its_own_classifier():
    report, _ = trained()
    next_report, _ = trained(memory=report.memory)
    repeated, _ = trained()
    assert torch.equal(report.memory["own_head"], repeated.memory["own_head"])
    assert not torch.equal(report.memory["own_head"], next_report.memory["own_head"])


def test_the_own_classifier_learns_what_a_client_has():
    """A client without a class: its own model gives that class less than the generic one does."""
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=5, epochs=5)
    report, _layout = trained(absent=2, training=training)
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 20, absent=2)
    theirs = Layout(net)
    means = []
    for model in (report.theta, report.memory["model"]):
        theirs.load(model)
        means.append(net(next(shard.in_order()).x).softmax(1)[:, 2].mean().item())
    assert means[1] < means[0]
