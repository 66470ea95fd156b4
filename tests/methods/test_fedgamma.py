"""FedGAMMA: SCAFFOLD's correction of FedSAM's gradient."""

import pytest
import torch
from conftest import play, toy_net, toy_shard
from quadratic import gradient_at
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.models.layout import Layout

SGD = Training(optimizer="sgd", lr=0.1, weight_decay=0.0, batch_size=10_000)


def test_without_a_radius_it_is_scaffold():
    ours = play("fedgamma", {"rho": 0.0}, rounds=3, dropout=0.0)
    scaffold = play("scaffold", rounds=3, dropout=0.0)
    assert_close(ours.theta, scaffold.theta, atol=1e-5, rtol=1e-4)


def test_a_step_by_hand():
    """g = (3, 4), so g~ = (3, 4) + 2 (0.6, 0.8); c - c_i = (1, -2). The new variate is g~ without the correction."""
    shared = {"control": torch.tensor([2.0, 0.0])}
    memory = {"control": torch.tensor([1.0, 2.0])}
    grad, loss, client = gradient_at(
        "fedgamma", {"rho": 2.0}, [3.0, 4.0], shared=shared, memory=memory
    )
    expected = pytest.approx([4.2 + 1, 5.6 - 2])
    assert grad == expected
    assert loss == 12.5
    expected = pytest.approx([4.2, 5.6])
    assert client.memory["control"].tolist() == expected
    expected = pytest.approx([2.2, 5.6])
    assert client.report["control_change"].tolist() == expected


def one_round(spec, settings, shared=None, memory=None):
    net = toy_net(dropout=0.0)
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 3, 1, layout.read(), shared or {}, memory or {})
    method = resolve(spec, settings)
    return run_client(method, net, layout, toy_shard("north"), task, SGD), layout


def test_a_step_is_fedsams_plus_the_correction():
    """One step over all images: w - lr (g~ + c - c_i), and the new variate is g~."""
    t = one_round("fedsam", {})[1].trainable
    c = torch.full((t,), 0.3)
    mine = torch.linspace(-1, 1, t)
    report, _layout = one_round("fedgamma", {"rho": 0.05}, {"control": c}, {"control": mine})
    sharp, _ = one_round("fedsam", {"rho": 0.05})
    expected = sharp.theta[:t] - 0.1 * (c - mine)
    assert_close(report.theta[:t], expected)
    net = toy_net(dropout=0.0)
    start = Layout(net).read()[:t]
    expected = (start - sharp.theta[:t]) / 0.1
    assert_close(report.memory["control"], expected, atol=1e-5, rtol=1e-4)


def test_with_one_step_a_round_and_everyone_in_it_the_mean_step_is_fedsams():
    """Variates sum to nothing over clients: only where clients take several steps does the correction tell."""
    ours, sharp = (
        play(spec, rounds=2, training=SGD, dropout=0.0) for spec in ("fedgamma", "fedsam")
    )
    assert_close(ours.theta, sharp.theta, atol=1e-5, rtol=1e-4)
