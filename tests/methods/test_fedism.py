import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from conftest import client_updates, play, toy_net, toy_shard
from torch.testing import assert_close

from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import ClientRound
from fedcli.methods.fedism import perturbation_radius
from fedcli.models.layout import Layout

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "fedism.json").read_text())
FULL_BATCH = Training(optimizer="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=10_000)


def client(layout, shard, round=1, rounds=1):
    return ClientRound("north", 0, round, rounds, 0.1, layout.read(), {}, layout, shard, None, {})


def test_weights_follow_sharpness_as_in_equations_16_and_18():
    case = VECTORS["saga_s"]
    rule = resolve("fedism-plus", {"q": case["q"], "beta": case["beta"]}).aggregator
    memory = {}
    for t, (sharpness, expected) in enumerate(
        ((case["S_t1"], case["w1"]), (case["S_t2"], case["w2"])), 1
    ):
        theta = torch.zeros(4, 2)
        updates = client_updates(theta, sharpness=sharpness, t=t)
        _, weights = rule.aggregate(torch.zeros(2), updates, memory)
        assert_close(weights, torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=1e-6)


def test_beta_is_the_share_of_this_round_in_the_moving_average():
    """q = 1. Shares 1/4 and 3/4, then 1/2 and 1/2: a quarter of the new and three quarters of the old."""
    rule = resolve("fedism-plus", {"q": 1.0, "beta": 0.25}).aggregator
    memory = {}
    for t, sharpness in ((1, [1.0, 3.0]), (2, [2.0, 2.0])):
        theta = torch.zeros(2, 2)
        updates = client_updates(theta, sharpness=sharpness, t=t)
        _, weights = rule.aggregate(torch.zeros(2), updates, memory)
    expected = pytest.approx([0.25 * 0.5 + 0.75 * 0.25, 0.25 * 0.5 + 0.75 * 0.75])
    assert weights.tolist() == expected


def test_bf16_is_warned_of_where_two_gradients_are_subtracted():
    net = toy_net()
    for bf16, settings, warned in (
        (False, {}, False),
        (True, {}, True),
        (True, {"alpha": 0.0}, False),
    ):
        net.bf16 = bf16
        result = "--precision fp32" in resolve("fedism-plus", settings).local.warning(net, 10)
        assert result == warned


def test_perturbation_radius_grows_as_in_equation_12():
    half = resolve("fedism-plus").local
    radii = {
        t: perturbation_radius(half, SimpleNamespace(round=t, rounds=300)) for t in (1, 75, 300)
    }
    expected = pytest.approx({1: 0.0057735, 75: 0.05, 300: 0.1}, rel=1e-5)
    assert radii == expected
    fixed = resolve("fedism").local
    result = perturbation_radius(fixed, SimpleNamespace(round=3, rounds=300))
    assert result == 0.05


def test_sharpness_is_the_rise_of_the_loss_one_step_uphill():
    """Against autograd on the whole shard at once, written out from Eqs. 9-10."""
    net = toy_net()
    shard = toy_shard("north")
    layout = Layout(net)
    visit = client(layout, shard, round=1, rounds=4)
    resolve("fedism-plus").aggregator.measure_global(net, visit)

    other = toy_net().eval()
    batch = next(shard.in_order())
    loss = F.cross_entropy(other(batch.x), batch.y)
    g = torch.autograd.grad(loss, list(other.parameters()))
    norm = torch.cat([p.reshape(-1) for p in g]).norm()
    with torch.no_grad():
        for p, d in zip(other.parameters(), g, strict=True):
            p += 0.1 * 0.25**0.5 * d / norm
        rise = F.cross_entropy(other(batch.x), batch.y) - loss
    assert_close(visit.report["sharpness"], rise.detach(), atol=1e-6, rtol=1e-4)


def test_measuring_sharpness_leaves_the_model_alone():
    net = toy_net()
    shard = toy_shard("north")
    layout = Layout(net)
    before = layout.read()
    resolve("saga").aggregator.measure_global(net, client(layout, shard))
    assert torch.equal(layout.read(), before)
    assert not layout.grad.any()


def test_one_step_is_gsam_written_out():
    """Gradients at theta and at theta + eps by autograd, combined as in GSAM with alpha 0.1."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north")
    other = toy_net(dropout=0.0).train()
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {})
    report = run_client(resolve("salt"), net, layout, shard, task, FULL_BATCH)

    batch = next(shard.in_order())
    params = list(other.parameters())
    flat = lambda tensors: torch.cat([t.reshape(-1) for t in tensors])  # noqa: E731
    gradient = flat(torch.autograd.grad(F.cross_entropy(other(batch.x), batch.y), params))
    theta = flat([p.detach().clone() for p in params])
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(theta + 0.1 * gradient / gradient.norm(), params)
    perturbed = flat(torch.autograd.grad(F.cross_entropy(other(batch.x), batch.y), params))
    across = gradient - (gradient @ perturbed) / perturbed.norm() ** 2 * perturbed
    expected = theta - 0.1 * (perturbed - 0.1 * across)
    assert_close(report.theta[: layout.trainable], expected, atol=1e-6, rtol=1e-5)


def test_running_statistics_move_once_a_step():
    plain, sharp = (
        run_client(
            resolve(name),
            net,
            layout,
            toy_shard("north"),
            ClientTask("north", 0, 1, 1, 0, layout.read(), {}, {}),
            FULL_BATCH,
        )
        for name in ("fedavg", "salt")
        for net in [toy_net()]
        for layout in [Layout(net)]
    )
    result = plain.theta[-8:]
    expected = sharp.theta[-8:]
    assert torch.equal(result, expected)  # one full batch: the same statistics, not twice as far


def test_salt_without_a_perturbation_radius_is_fedavg():
    still = {"dropout": 0.0}  # with dropout the two passes of a step draw two masks
    settings = {"rho": 0.0, "alpha": 0.0}
    result = play("salt", settings, **still).theta
    expected = play("fedavg", **still).theta
    assert torch.equal(result, expected)


def test_saga_by_loss_without_a_perturbation_radius_is_q_weights():
    """SAGA(L) at rho 0 and beta 1 weighs by loss ** q: FedISM+ specs 3.8."""
    loss = torch.tensor([0.8, 0.5, 0.4, 1.6])
    rule = resolve("saga", {"state": "loss", "rho": 0.0, "beta": 1.0, "q": 2.0}).aggregator
    theta = torch.zeros(4, 1)
    updates = client_updates(theta, loss=loss)
    _, weights = rule.aggregate(torch.zeros(1), updates, {})
    expected = (loss.double() ** 2) / (loss.double() ** 2).sum()
    assert_close(weights, expected, atol=1e-8, rtol=1e-7)


def test_q_zero_weighs_everybody_alike():
    theta = torch.zeros(3, 1)
    updates = client_updates(theta, sharpness=[0.1, 0.5, 2.0])
    _, weights = resolve("saga", {"q": 0.0}).aggregator.aggregate(torch.zeros(1), updates, {})
    expected = pytest.approx([1 / 3] * 3)
    assert weights.tolist() == expected


def test_the_sharpest_client_weighs_most_and_order_does_not_matter():
    rule = resolve("fedism-plus").aggregator
    theta = torch.zeros(3, 1)
    updates = client_updates(theta, sharpness=[0.1, 0.3, 0.2])
    _, weights = rule.aggregate(torch.zeros(1), updates, {})
    theta = torch.zeros(3, 1)
    updates = client_updates(theta, sharpness=[0.3, 0.2, 0.1])
    _, turned = rule.aggregate(torch.zeros(1), updates, {})
    assert weights.argmax() == 1
    assert_close(weights[[1, 2, 0]], turned)


def test_an_absent_client_keeps_its_average():
    rule = resolve("fedism-plus").aggregator
    memory = {}
    theta = torch.zeros(2, 1)
    updates = client_updates(theta, sharpness=[0.1, 0.3], rows=[0, 2], roster=3)
    rule.aggregate(torch.zeros(1), updates, memory)
    before = memory["weights"][0].item()
    theta = torch.zeros(2, 1)
    updates = client_updates(theta, sharpness=[0.2, 0.3], rows=[1, 2], roster=3, t=2)
    _, weights = rule.aggregate(torch.zeros(1), updates, memory)
    assert memory["weights"][0].item() == before
    assert weights.sum().item() == pytest.approx(1)


def test_logit_adjustment_and_its_gradient_on_an_absent_class():
    case = VECTORS["logit_adjust"]
    logits = torch.tensor(case["logits"], requires_grad=True)
    counts = torch.tensor(case["counts"])
    loss = F.cross_entropy(logits + (counts / counts.sum()).log(), torch.tensor(case["targets"]))
    loss.backward()
    expected = pytest.approx(case["loss"], abs=1e-6)
    assert loss.item() == expected
    expected = torch.tensor(case["grad"])
    assert_close(logits.grad, expected, atol=1e-6, rtol=1e-5)


def test_a_client_without_a_class_trains_on_with_logit_adjustment():
    shards = {c: toy_shard(c, absent=1) for c in ("north", "south", "east", "west")}
    training = Training(
        optimizer="adam", lr=0.01, weight_decay=5e-4, batch_size=8, prior="logit-adjust"
    )
    assert play("fedism-plus", shards=shards, training=training).theta.isfinite().all()


def test_all_four_names_differ():
    out = {name: play(name).theta for name in ("fedism-plus", "fedism", "salt", "saga")}
    result = len({tuple(theta.tolist()) for theta in out.values()})
    assert result == 4
    assert METHODS["fedism"].settings["rho"] == 0.05
