"""SWAD: from which round to which the weights are averaged, on losses made by hand."""

import pytest
import torch
from conftest import client_updates, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.mixins import scored_model
from fedcli.models.layout import Layout


def scored(losses, **settings):
    """The averaged model after each round; the mean of round t is t."""
    rule = resolve("swad", settings).aggregator
    memory = {}
    models = []
    for t, loss in enumerate(losses, 1):
        dense_mean = [[float(t)]]
        updates = client_updates([[0.0]], t=t, dense_mean=dense_mean, validation_loss=[loss])
        rule.aggregate(torch.zeros(1), updates, memory)
        models.append(rule.scored(torch.zeros(1), memory).item())
    return models


def test_it_begins_at_the_first_loss_that_no_later_one_beats_and_ends_before_the_losses_above_the_limit():
    """N_s = 3: round 2 is the lowest of 2, 3, 4, and l = 1.2 (1 + 1.1 + 1.2) / 3 = 1.32. N_e = 2: rounds 6 and 7 are
    above, so the mean is that of rounds 2 to 5, and stays so."""
    losses = [3.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 0.1]
    models = scored(losses, patience=3, overfit=2, tolerance=1.2)
    expected = pytest.approx([1, 2, 3, 3, 3.5, 4, 3.5, 3.5])
    assert models == expected


def test_a_loss_that_falls_or_stays_within_the_tolerance_never_ends_it():
    losses = [4.0, 3.0, 2.0, 1.0]
    result = scored(losses)[-1]
    assert result == 4  # not begun: the last round
    losses = [1.0] * 9
    result = scored(losses)[-1]
    assert result == pytest.approx(5)


def test_the_mean_over_a_client_s_steps_by_hand():
    """Three epochs of one batch, by SGD: the mean of the weights after each step."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 12)
    layout = Layout(net)
    batch = next(shard.in_order())
    start = layout.read()
    passed = []
    net.train()
    for _ in range(3):
        layout.zero_grad()
        torch.nn.functional.cross_entropy(net(batch.x), batch.y).backward()
        layout.params.sub_(0.1 * layout.grad)
        passed.append(layout.read())
    training = Training(
        optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=12, epochs=3
    )
    task = ClientTask("north", 0, 1, 3, 1, start, {}, {})
    report = run_client(resolve("swad"), net, layout, shard, task, training)
    assert_close(report.theta, passed[-1], rtol=1e-4, atol=1e-6)
    expected = torch.stack(passed).mean(0)
    assert_close(report.columns["dense_mean"], expected, rtol=1e-4, atol=1e-6)


def test_statistics_that_a_client_keeps_are_its_own_from_the_first_step_on():
    """The network starts a round elsewhere than theta: the mean is of what it was."""
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    theta = layout.read()
    layout.flat.add_(1.0)
    local = resolve("swad").local
    client = ClientRound("a", 0, 2, 3, 0.1, theta, {}, layout, toy_shard("a", 6), None, {}, steps=2)
    local.on_round_start(net, client)
    passed = []
    for _ in range(2):
        client.scratch["sum"] += layout.flat
        layout.flat.add_(0.5)
        passed.append(layout.read())
    local.on_round_end(net, client)
    assert_close(client.report["dense_mean"], torch.stack(passed).mean(0))


def test_the_model_that_travels_is_fedavg_s_and_the_scored_one_is_not():
    state = play("swad")
    plain = play("fedavg").theta
    assert torch.equal(state.theta, plain)
    rule = resolve("swad").aggregator
    result = scored_model(rule, state.theta, state.server)
    assert not torch.equal(result, plain)


def test_without_validation_images_a_run_says_what_its_rounds_are_chosen_by():
    rule = resolve("swad").aggregator
    assert "--val" in rule.warning(5, False)
    assert not rule.warning(5, True)


def test_the_loss_that_chooses_is_of_validation_images_where_there_are_any():
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 12)
    val = toy_shard("south", 6)
    layout = Layout(net)
    rule = resolve("swad").aggregator
    for part, others in ((val, {"val": val}), (shard, {})):
        client = ClientRound(
            "north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {}, **others
        )
        rule.measure_global(net, client)
        batch = next(part.in_order())
        expected = torch.nn.functional.cross_entropy(net(batch.x), batch.y)
        assert_close(client.report["validation_loss"], expected.detach())
