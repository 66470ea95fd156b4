"""FedMRL at a client: its loss, its gradient and what it reports."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import toy_net, toy_shard
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout

FULL_BATCH = Training(
    optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=10_000, epochs=2
)


def gradients(settings, mean_loss, offset=None):
    """(plain loss of one batch, its gradient, and the one that the method leaves)"""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north")
    layout = Layout(net)
    layout.zero_grad()
    net.train()
    batch = next(shard.in_order())
    loss = F.cross_entropy(net(batch.x), batch.y)
    loss.backward()
    plain = layout.grad.clone()
    layout.zero_grad()
    shared = {"mean_loss": loss.detach().double() + mean_loss, "mu": torch.zeros(1).double()}
    client = ClientRound("north", 0, 2, 9, 0.1, layout.read(), shared, layout, shard, offset, {})
    local = resolve("fedmrl", {"parts": "qmix+fair", **settings}).local
    client.scratch.update(
        {name: torch.zeros((), dtype=torch.float64) for name in ("mu", "correct", "loss", "images")}
    )
    recorded = local.gradient(net, batch, client)
    supervised = F.cross_entropy(net(batch.x) + (0 if offset is None else offset), batch.y)
    assert_close(recorded, supervised.detach())  # without the penalty, so that methods compare
    return plain, layout.grad.clone()


@pytest.mark.parametrize(
    ("fair", "above", "factor"),
    [
        ("hinge", 0.3, 1 + 2 * 0.5 * 0.3),
        ("hinge", -0.3, 1.0),
        ("symmetric", 0.3, 1.3),
        ("symmetric", -0.3, 0.7),
    ],
)
def test_the_fairness_term_multiplies_the_gradient(fair, above, factor):
    """1 + 2 lambda (F_h - F), and 1 below the mean under the hinge."""
    settings = {"fair": fair, "lambda_fair": 0.5}
    plain, with_term = gradients(settings, -above)
    assert_close(with_term, factor * plain, atol=1e-6, rtol=1e-5)


def test_the_symmetric_term_unlearns_far_below_the_mean():
    settings = {"fair": "symmetric", "lambda_fair": 1.0}
    plain, with_term = gradients(settings, 2.0)
    assert_close(with_term, -3 * plain, atol=1e-6, rtol=1e-5)


def test_the_fairness_term_compares_plain_losses_under_a_prior():
    """The batch's own loss as the mean: no penalty, although the adjusted loss is another."""
    offset = torch.tensor([-2.0, 0.0, 1.0])
    on, off = (gradients({"lambda_fair": strength}, 0.0, offset)[1] for strength in (5.0, 0.0))
    assert_close(on, off)


def visited(spec, settings, shared, val=None, t=2, net=None, shard=None, training=FULL_BATCH):
    net = net or toy_net(dropout=0.0)
    layout = Layout(net)
    task = ClientTask("north", 0, t, 9, 1, layout.read(), shared, {})
    method = resolve(spec, settings)
    return run_client(method, net, layout, shard or toy_shard("north"), task, training, val=val)


def test_the_pull_is_fedproxs_with_the_mu_the_server_told():
    shared = {"mu": torch.tensor([0.7, 0.1], dtype=torch.float64)}
    report = visited("fedmrl", {"parts": "qmix"}, shared)
    assert torch.equal(report.theta, visited("fedprox", {"mu": 0.7}, {}).theta)
    assert report.columns["mu"] == 0.7
    result = visited("fedmrl", {"parts": "qmix"}, {}, t=1).columns["mu"]
    assert result == 1e-5
    settings = {"parts": "som", "mu": 0.7}
    fixed = visited("fedmrl", settings, {})
    assert torch.equal(fixed.theta, report.theta)


def test_what_a_client_reports_of_its_training_is_of_the_batches_before_each_step():
    """Two full-batch steps of a net without dropout: the mean of two evaluations with batch statistics."""
    settings = {"parts": "som", "mu": 0.0}
    report = visited("fedmrl", settings, {})
    net = toy_net(dropout=0.0).train()
    shard = toy_shard("north")
    batch = next(shard.in_order())
    losses = []
    right = []
    for _ in range(2):
        logits = net(batch.x)
        loss = F.cross_entropy(logits, batch.y)
        losses.append(loss.item())
        right.append((logits.argmax(1) == batch.y).double().mean().item())
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
    expected = pytest.approx(sum(losses) / 2, rel=1e-5)
    assert report.columns["training_loss"].item() == expected
    expected = pytest.approx(sum(right) / 2)
    assert report.columns["training_accuracy"].item() == expected
    assert report.columns["training_loss"].dtype == torch.float64


def test_a_client_with_a_prior_reports_its_plain_loss():
    """The agents compare clients by it; what is recorded of the step is the loss that was minimised."""
    once = replace(FULL_BATCH, epochs=1, prior="bsm")
    shard = toy_shard("north", absent=1)
    report = visited("fedmrl", {"parts": "none"}, {}, shard=shard, training=once)
    batch = next(shard.in_order())
    logits = toy_net(dropout=0.0).train()(batch.x)
    plain = F.cross_entropy(logits, batch.y).item()
    adjusted = F.cross_entropy(
        logits + (shard.class_counts / len(shard) + 1e-12).log(), batch.y
    ).item()
    assert abs(adjusted - plain) > 0.1  # or this could not tell
    expected = pytest.approx(plain, rel=1e-5)
    assert report.columns["training_loss"].item() == expected
    expected = pytest.approx(adjusted, rel=1e-5)
    assert report.loss.item() == expected


def test_the_received_model_is_scored_on_the_validation_part_or_else_on_training_images():
    net = toy_net(dropout=0.0).eval()
    val = toy_shard("other", 12)
    empty = toy_shard("other", 12)
    empty = type(empty)(empty.images, empty.rows[:0], empty.y[:0], empty.ids[:0], {}, 3, 1)
    for part, measured, count in (
        (val, val, 12),
        (None, toy_shard("north"), 0),
        (empty, toy_shard("north"), 0),
    ):
        batch = next(measured.in_order())
        expected = (net(batch.x).argmax(1) == batch.y).double().mean()
        columns = visited("fedmrl", {}, {}, val=part).columns
        assert columns["validation_accuracy"] == expected
        assert columns["validation_images"] == count


def test_clients_of_the_released_rule_train_plainly():
    shared = {"mean_loss": torch.tensor(0.1), "mu": torch.ones(1)}
    report = visited("fedmrl", {"rule": "released"}, shared)
    assert torch.equal(report.theta, visited("fedavg", {}, {}).theta)
    assert "loss_before" not in report.columns
