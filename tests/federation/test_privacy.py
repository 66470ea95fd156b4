"""--dp client: the update of a client, cut and noised, and what a run states of it."""

import math
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from conftest import make_chain, play, toy_net, toy_shard
from made_plans import planned, train
from torch.testing import assert_close

from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.privacy import epsilon, noised_model
from fedcli.methods import resolve
from fedcli.models.layout import Layout
from fedcli.runs.rules import check

SGD = Training(optimizer="sgd", lr=0.1, batch_size=8, weight_decay=0.0)


@pytest.mark.parametrize(
    ("noise", "answers", "delta", "expected"),
    [
        (4.0, 1, 1e-5, 1.993091),
        (20.0, 20, 1e-5, 1.760057),
        (10.0, 5, 1e-6, 1.994527),
        (8.0, 50, 1e-4, 7.602249),
    ],
)
def test_epsilon_is_that_of_an_independent_accountant(noise, answers, delta, expected):
    """dp-accounting 0.6.0: PLDAccountant over GaussianDpEvent(noise / 2), as an exchange moves an update by 2 C."""
    assert epsilon(noise, answers, delta) == pytest.approx(expected, abs=1e-5)


def test_an_update_is_cut_at_the_norm_and_a_short_one_is_not():
    start = torch.tensor([1.0, 1.0])
    result = noised_model(start + torch.tensor([3.0, 4.0]), start, 1.0, 0.0, seed=1).tolist()
    assert result == pytest.approx([1.6, 1.8])
    result = noised_model(start + torch.tensor([0.3, 0.4]), start, 1.0, 0.0, seed=1).tolist()
    assert result == pytest.approx([1.3, 1.4])
    with pytest.raises(FedcliError, match="not finite"):
        noised_model(torch.tensor([math.nan]), torch.zeros(1), 1.0, 1.0, seed=1)


def test_noise_has_the_standard_deviation_that_is_stated_and_follows_from_its_seed():
    zero = torch.zeros(20_000)
    noised, again, other = (noised_model(zero, zero, 0.5, 3.0, seed) for seed in (1, 1, 2))
    assert float(noised.std()) == pytest.approx(1.5, rel=0.02)
    assert abs(float(noised.mean())) < 0.05
    assert torch.equal(noised, again)
    assert not torch.equal(noised, other)


def test_without_a_cut_and_with_hardly_any_noise_it_is_fedavg():
    theta = play("fedavg", rounds=2, training=replace(SGD, dp_clip=1e6, dp_noise=1e-15)).theta
    expected = play("fedavg", rounds=2, training=SGD).theta
    assert_close(theta, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("spec", ["moon", "fedheal", "fedadam"])
def test_methods_that_send_their_models_alone_train_with_it(spec):
    """Much noise: variances of batch norm, which are sent too, stay above 0."""
    theta = play(spec, rounds=2, training=replace(SGD, dp_noise=5.0)).theta
    assert theta.isfinite().all()
    assert (theta[-4:] > 0).all()


@pytest.mark.parametrize(
    ("spec", "column"), [("scaffold", "control_change"), ("qffl", "loss_before")]
)
def test_what_is_reported_beside_the_model_is_refused(spec, column):
    with pytest.raises(FedcliError, match=f"{spec} reports '{column}' in addition to the model"):
        play(spec, rounds=1, training=replace(SGD, dp_noise=5.0))


def test_a_run_states_epsilon_and_delta(tmp_path):
    plan = planned("fedavg", {}, replace(SGD, dp_noise=20.0), rounds=1)
    body = manifest.read(train(make_chain(tmp_path), plan, work=tmp_path, out=None)).body
    spent = epsilon(20.0, 1, 1e-5)
    expected = {
        "clip": 1.0,
        "noise": 20.0,
        "epsilon": pytest.approx(spent),
        "delta": 1e-5,
    }
    assert body["privacy"] == expected
    assert body["label"] == f"FedAvg, epsilon {spent:.3g} and delta 1e-05 per client"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dp_noise": -1.0}, "--dp client"),
        ({"dp_noise": 1.0, "dp_clip": 0.0}, "--dp clip"),
        ({"dp_noise": 1.0, "dp_delta": 1.0}, "--dp delta"),
        ({"dp": "client:0"}, "--dp client:0 changes nothing"),
        ({"dp": "image:0"}, "--dp image:0 changes nothing"),
        ({"dp_clip": 2.0}, "--dp clip has no effect without noise"),
    ],
)
def test_what_is_no_noise_is_refused(changed, message):
    with pytest.raises(UsageError, match=message):
        check(planned("fedavg", {}, replace(SGD, **changed)))


def test_clients_that_train_alone_send_nothing_to_add_noise_to():
    with pytest.raises(UsageError, match="--single-site sends nothing"):
        check(planned("fedavg", {}, replace(SGD, dp_noise=1.0), rounds=1, single_site=True))


def test_every_round_client_and_run_has_noise_of_its_own():
    """Else the noise of one answer would cancel in the difference to another."""
    training = replace(SGD, lr=1e-12, dp_noise=5.0)
    net = toy_net()
    layout = Layout(net)
    start = layout.read()
    trainable = layout.trainable
    thetas = []
    for client, round, seed in (("north", 1, 0), ("south", 1, 0), ("north", 2, 0), ("north", 1, 1)):
        task = ClientTask(client, 0, round, 3, seed, start, {}, {})
        thetas.append(
            run_client(resolve("fedavg"), net, layout, toy_shard("north", 9), task, training).theta[
                :trainable
            ]
        )
    for a, b in combinations(thetas, 2):
        assert (a - b).std() > 3
