"""Local fine-tuning and FedBABU: what clients tune for themselves, and what stays as it started."""

import pytest
import torch
from conftest import play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=8)


def trained(spec, settings=None, training=SGD, count=20):
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    start = layout.read()
    task = ClientTask("north", 0, 1, 3, 1, start, {}, {})
    method = resolve(spec, settings)
    shard = toy_shard("north", count)
    report = run_client(method, net, layout, shard, task, training)
    return report, start, layout


def test_the_global_track_of_local_finetune_is_fedavg_to_the_last_bit():
    state = play("local-finetune", rounds=2, dropout=0.3)
    plain = play("fedavg", rounds=2, dropout=0.3)
    assert torch.equal(state.theta, plain.theta)
    for memory in state.clients.values():
        assert not torch.equal(memory["model"], plain.theta)


def test_one_step_of_tuning_by_hand():
    """All images in one step of SGD: theta - lr dL/dtheta in eval mode, from the model that was received."""
    settings = {"solver": "sgd", "tune_batch": 20}
    report, start, layout = trained("local-finetune", settings)
    net = toy_net(dropout=0.0).eval()
    shard = toy_shard("north", 20)
    theirs = Layout(net)
    torch.nn.functional.cross_entropy(net(next(shard.in_order()).x), shard.y).backward()
    expected = start.clone()
    expected[: layout.trainable] -= 0.1 * theirs.grad
    assert_close(report.memory["model"], expected)


def descended(steps, lr, *, decay=0.0, still=(), train=False):
    """The model after so many steps over all images: theta - lr (dL/dtheta + decay theta); `still` has no gradient."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 20)
    layout = Layout(net)
    batch = next(shard.in_order())
    start = layout.read()
    for _ in range(steps):
        net.train(train)
        layout.zero_grad()
        torch.nn.functional.cross_entropy(net(batch.x), batch.y).backward()
        layout.params.sub_(lr * (layout.grad + decay * layout.params))
        for name in still:
            layout.flat[layout.spans[name]] = start[layout.spans[name]]
    return layout.read()


def test_two_passes_are_two_steps_each_along_its_own_gradient():
    settings = {"solver": "sgd", "tune_batch": 20, "tune_epochs": 2}
    report, _, layout = trained("local-finetune", settings)
    expected = descended(2, 0.1)[: layout.trainable]
    result = report.memory["model"][: layout.trainable]
    assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_features_train_under_the_classifier_that_was_received_whatever_weight_decay_does_to_it():
    training = Training(optimizer="sgd", lr=0.1, weight_decay=0.5, batch_size=20, epochs=3)
    report, _, layout = trained("fedbabu", training=training)
    expected = descended(3, 0.1, decay=0.5, still=["head.weight", "head.bias"], train=True)[
        : layout.trainable
    ]
    assert_close(report.theta[: layout.trainable], expected, atol=1e-6, rtol=1e-5)


def test_the_classifier_has_no_gradient_so_that_it_takes_no_part_in_a_cut_of_the_norm():
    cut = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=20, clip_norm=0.01)
    report, start, layout = trained("fedbabu", training=cut)
    result = (report.theta - start)[: layout.trainable].norm().item()
    expected = pytest.approx(0.1 * 0.01, rel=1e-3)
    assert result == expected


@pytest.mark.parametrize("spec", ["local-finetune", "fedbabu"])
def test_without_passes_a_client_keeps_what_it_received(spec):
    report, start, _ = trained(spec, {"tune_epochs": 0})
    assert torch.equal(report.memory["model"], start)


@pytest.mark.parametrize("spec", ["local-finetune", "fedbabu"])
def test_tuning_the_head_moves_the_head_alone(spec):
    report, start, layout = trained(spec, {"tune": "head"})
    moved = {
        name
        for name, span in layout.spans.items()
        if not torch.equal(report.memory["model"][span], start[span])
    }
    assert moved == {"head.weight", "head.bias"}


def test_fedbabu_trains_all_but_the_classifier():
    """Weight decay and momentum, which move a number without a gradient, do not move it either."""
    rough = Training(
        optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.1, batch_size=8, epochs=2
    )
    for training in (
        SGD,
        rough,
        Training(optimizer="adam", lr=0.01, weight_decay=0.1, batch_size=8),
    ):
        report, start, layout = trained("fedbabu", training=training)
        same = {
            name
            for name, span in layout.spans.items()
            if torch.equal(report.theta[span], start[span])
        }
        assert same == {"head.weight", "head.bias"}


def test_fedbabus_first_step_is_fedavgs_but_for_the_classifier():
    whole = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=20)
    (ours, _, layout) = trained("fedbabu", training=whole)
    (plain, *_) = trained("fedavg", training=whole)
    for name, span in layout.spans.items():
        result = torch.equal(ours.theta[span], plain.theta[span])
        assert result != name.startswith("head.")


def test_the_averaged_classifier_is_the_random_one_of_the_start():
    state = play("fedbabu", rounds=3)
    net = toy_net()
    layout = Layout(net)
    for name in ("head.weight", "head.bias"):
        span = layout.spans[name]
        assert_close(state.theta[span], layout.read()[span], rtol=1e-6, atol=1e-7)


def test_features_that_do_not_train_are_refused():
    net = toy_net()
    net.backbone.requires_grad_(False)
    with pytest.raises(UsageError, match="features alone"):
        resolve("fedbabu").local.extend(net)
