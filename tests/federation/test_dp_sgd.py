"""--dp image: gradients of single images, cut and noised, the steps they come in, and what a run states of them."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from conftest import ROSTER, make_chain, play, toy_shard, toy_shards
from made_plans import planned, train
from torch import nn
from torch.testing import assert_close

import fedcli
from fedcli import models
from fedcli.bench.toy import CLASSES
from fedcli.data import manifest
from fedcli.data.shard import Batch
from fedcli.errors import UsageError
from fedcli.federation import steps
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.federation.dp_sgd import PrivateGradient, check_norms, epsilon, poisson_turns, rate
from fedcli.methods import METHODS, resolve
from fedcli.methods.contract import ClientRound, Local
from fedcli.models.layout import Layout
from fedcli.models.network import Network
from fedcli.runs.rules import check
from fedcli.seeds import derive

SGD = Training(optimizer="sgd", lr=0.1, batch_size=8, weight_decay=0.0)


@pytest.mark.parametrize(
    ("noise", "q", "steps", "delta", "expected"),
    [
        (1.0, 0.1, 100, 1e-5, 7.899255),
        (1.1, 0.01, 1000, 1e-5, 1.711770),
        (20.0, 1.0, 200, 1e-5, 3.188992),
        (0.7, 0.05, 400, 1e-5, 16.384556),
        (4.0, 0.1, 800, 1e-6, 3.672011),
    ],
)
def test_epsilon_is_that_of_independent_accountants(noise, q, steps, delta, expected):
    """RDPAccountant of opacus 1.6.0 (rows 1, 2 and 4) and of dp-accounting 0.6.0 (the others)."""
    assert epsilon(noise, q, steps, delta) == pytest.approx(expected, rel=1e-3)


def test_epsilon_grows_with_steps_and_chance_and_falls_with_noise():
    usual = epsilon(1.0, 0.1, 100, 1e-5)
    assert epsilon(1.0, 0.1, 0, 1e-5) == 0
    assert 0 < epsilon(2.0, 0.1, 100, 1e-5) < usual
    assert epsilon(1.0, 0.1, 200, 1e-5) > usual
    assert usual < epsilon(1.0, 0.2, 100, 1e-5) < epsilon(1.0, 1.0, 100, 1e-5)
    assert epsilon(1e9, 0.1, 1, 1e-5) == 0
    assert usual < epsilon(0.01, 0.1, 100, 1e-5)


def small_net():
    """Without batch norm: convolution, GroupNorm and a head."""
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(4),
        nn.Flatten(),
    )
    return Network(body, 16, CLASSES)


def private(net, shard, gradient, places, *, name="north", round=1, **more):
    layout = Layout(net)
    client = ClientRound(name, 0, round, 3, 0.1, layout.read(), {}, layout, shard, None, {}, **more)
    batch = shard.batch(torch.tensor(places, dtype=torch.int64))
    layout.zero_grad()
    return gradient(net, Local().loss, batch, client), layout.grad.clone()


@pytest.mark.parametrize("few", [0, 2**18], ids=["shared parameters", "parameters for each image"])
def test_each_images_gradient_is_cut_and_their_sum_divided_by_the_expected_number(monkeypatch, few):
    monkeypatch.setattr("fedcli.federation.dp_sgd.FEW", few)
    net = small_net()
    shard = toy_shard("north", 6)
    expected = torch.zeros(sum(p.numel() for p in net.parameters()))
    for i in range(3):
        image = shard.batch(torch.tensor([i]))
        grads = torch.autograd.grad(F.cross_entropy(net(image.x), image.y), list(net.parameters()))
        flat = torch.cat([g.flatten() for g in grads])
        expected += flat * min(1.0, 0.5 / float(flat.norm())) / 4
    loss, gradient = private(net, shard, PrivateGradient(0.5, 0.0, 4.0), [0, 1, 2])
    assert_close(gradient, expected, atol=1e-6, rtol=1e-4)
    batch = shard.batch(torch.tensor([0, 1, 2]))
    assert_close(loss, F.cross_entropy(net(batch.x), batch.y).detach())


@pytest.mark.parametrize("few", [0, 2**18])
def test_a_parameter_that_the_loss_does_not_read_has_no_gradient(monkeypatch, few):
    monkeypatch.setattr("fedcli.federation.dp_sgd.FEW", few)
    net = small_net()
    net.idle = nn.Parameter(torch.ones(3))
    gradient = private(net, toy_shard("north", 6), PrivateGradient(0.5, 0.0, 4.0), [0, 1])[1]
    assert (gradient == 0).sum() >= 3
    assert gradient.abs().sum() > 0


def test_a_step_without_images_is_noise_of_the_stated_size():
    inputs = models.Inputs(1, 3, 8)
    net = models.build("cnn-gn", inputs, seed=0)
    shard = toy_shard("north", 6)
    loss, gradient = private(net, shard, PrivateGradient(0.5, 3.0, 4.0), [])
    assert loss == 0
    expected = pytest.approx(3.0 * 0.5 / 4.0, rel=0.03)
    assert float(gradient.std()) == expected
    expected = private(net, shard, PrivateGradient(0.5, 3.0, 4.0), [])[1]
    assert torch.equal(gradient, expected)


@pytest.mark.parametrize("other", [{"steps": 1}, {"round": 2}, {"name": "south"}, {"seed": 1}])
def test_every_step_round_client_and_run_has_noise_of_its_own(other):
    net = small_net()
    shard = toy_shard("north", 6)
    gradient = PrivateGradient(1.0, 1.0, 1.0)
    noise, other_noise = (
        private(net, shard, gradient, [], **keywords)[1] for keywords in ({}, other)
    )
    assert (noise - other_noise).std() > 1


def test_images_are_drawn_independently_at_the_stated_rate():
    shard = toy_shard("north", 40)
    sizes = []
    times_drawn = torch.zeros(40)
    for epoch in range(200):
        for images, chance in poisson_turns(shard, 10, shuffle=epoch, augment=epoch):
            assert chance is None
            assert len(images.unique()) == len(images)
            sizes.append(len(images))
            times_drawn[images] += 1
    assert len(sizes) == 200 * 4
    assert rate(40, 10) == 0.25
    assert rate(5, 10) == 1.0
    result = sum(sizes) / len(sizes)
    expected = pytest.approx(10, rel=0.05)
    assert result == expected
    assert len(set(sizes)) > 10
    result = (times_drawn / len(sizes) - 0.25).abs().max()
    assert result < 0.08


def test_every_step_of_an_epoch_draws_images_and_augmentation_anew():
    shard = toy_shard("north", 40, kind="flip")
    steps = list(poisson_turns(shard, 20, shuffle=1, augment=1))
    (images, chance), (other_images, other_chance) = steps
    assert images.tolist() != other_images.tolist()
    assert chance[0].tolist() != other_chance[0].tolist()


def one_round(spec, training, settings=None):
    net = small_net()
    method = resolve(spec, settings)
    layout = Layout(net, method.local.personal_tensors(net))
    task = ClientTask("north", 0, 1, 3, 1, layout.read(), {}, {})
    return run_client(method, net, layout, toy_shard("north", 20), task, training)


@pytest.mark.parametrize("batch_size", [20, 50])
def test_without_noise_and_cut_it_is_a_step_over_all_images(batch_size):
    """A batch of all images: each is in the step for certain, and the mean of gradients is the mean's gradient."""
    whole = replace(SGD, batch_size=batch_size, epochs=2)
    theta = one_round("fedavg", replace(whole, dp_sgd=1e-12, dp_clip=1e6)).theta
    assert_close(theta, one_round("fedavg", whole).theta, atol=1e-5, rtol=1e-4)


def test_a_client_trains_through_draws_without_images():
    shard = toy_shard("north", 20, kind="affine-flip")
    net = small_net()
    method = resolve("fedavg")
    layout = Layout(net)
    task = ClientTask("north", 0, 1, 3, 1, layout.read(), {}, {})
    training = replace(SGD, batch_size=1, dp_sgd=1.0)
    seeds = {"shuffle": derive("shuffle", 1, 1, "north", 0), "augment": 0}
    draws = [len(places) for places, _ in poisson_turns(shard, 1, **seeds)]
    report = run_client(method, net, layout, shard, task, training)
    assert draws.count(0) > 3
    assert report.steps == len(draws)
    assert report.theta.isfinite().all()


@pytest.mark.parametrize("draws", [[[0, 1], [], [2], []], [[], []]])
def test_the_recorded_loss_is_the_mean_over_draws_that_had_images(draws, monkeypatch):
    def drawn(*_, **__):
        return [(torch.tensor(places, dtype=torch.int64), None) for places in draws]

    monkeypatch.setattr(steps, "poisson_turns", drawn)
    losses = []
    plain = PrivateGradient.__call__

    def noted(self, net, loss, batch, client):
        value = plain(self, net, loss, batch, client)
        losses.extend([float(value)] if len(batch.y) else [])
        return value

    monkeypatch.setattr(PrivateGradient, "__call__", noted)
    report = one_round("fedavg", replace(SGD, dp_sgd=1.0))
    expected = sum(losses) / len(losses) if losses else float("nan")
    assert float(report.loss) == pytest.approx(expected, nan_ok=True)
    assert report.steps == len(draws)


@pytest.mark.parametrize("spec", ["fedprox", "scaffold", "feddyn", "fedper", "fedavg+fedheal"])
def test_methods_that_read_images_in_their_loss_alone_train_with_it(spec):
    report = one_round(spec, replace(SGD, dp_sgd=1.0))
    again = one_round(spec, replace(SGD, dp_sgd=1.0))
    assert report.theta.isfinite().all()
    assert torch.equal(report.theta, again.theta)
    assert not torch.equal(report.theta, one_round(spec, replace(SGD, dp_sgd=2.0)).theta)


def test_what_a_method_sends_depends_on_images_through_the_private_gradient_alone(monkeypatch):
    """Other images and labels, but the same gradients: all that leaves a client is the same."""
    fits = [name for name in METHODS if _fits(name)]
    assert {"fedavg", "fedprox", "scaffold", "feddyn", "fedper", "fedheal", "fedadam"} <= set(fits)

    def blind(self, net, loss, batch, client):
        client.layout.all_trainable[1].fill_(0.01 * (client.steps + 1))
        return torch.zeros(())

    monkeypatch.setattr(PrivateGradient, "__call__", blind)
    others = {}
    for client in ROSTER:
        shard = toy_shard(client)
        others[client] = replace(shard, images=255 - shard.images, y=2 - shard.y)
    training = replace(SGD, dp_sgd=1.0, bn="freeze")
    for name in fits:
        usual, with_others = (
            play(name, rounds=2, training=training, shards=s) for s in (toy_shards(), others)
        )
        assert torch.equal(usual.theta, with_others.theta), name
        for client in ROSTER:
            for k, v in usual.clients.get(client, {}).items():
                assert torch.equal(v, with_others.clients[client][k])


def _fits(name):
    try:
        check(planned(name, {}, replace(SGD, dp_sgd=1.0), rounds=2, model="cnn-gn"))
    except UsageError:
        return False
    return True


@pytest.mark.parametrize(
    "spec", ["qffl", "bsm", "ditto", "fedrep", "moon", "fedprox+afl", "fedism-plus"]
)
def test_what_takes_more_from_images_is_refused_with_the_methods_that_fit(spec):
    with pytest.raises(UsageError, match="takes more from images") as error:
        check(planned(spec, {}, replace(SGD, dp_sgd=1.0), rounds=2))
    assert "fedavg, " in error.value.hint
    assert "fedprox" in error.value.hint


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dp_sgd": -1.0}, "--dp image=-1.0 is out of range"),
        ({"dp_sgd": 1.0, "dp_noise": 1.0}, "--dp client and --dp image"),
        ({"dp_sgd": 1.0, "prior": "bsm"}, "--prior reads the client's labels"),
        ({"dp_sgd": 1.0, "sampling": "class"}, "--sampling reads"),
    ],
)
def test_what_cannot_be_private_is_refused(changed, message):
    with pytest.raises(UsageError, match=message):
        check(planned("fedavg", {}, replace(SGD, **changed)))


def test_gradients_of_single_images_are_of_whole_precision():
    with pytest.raises(UsageError, match="--dp image computes in fp32"):
        check(planned("fedavg", {}, replace(SGD, dp_sgd=1.0), rounds=2, precision="bf16"))


@pytest.mark.parametrize("name", ["cnn", "resnet10"])
def test_batch_norm_is_refused_with_the_network_that_has_none(name):
    inputs = models.Inputs(3, 2, 8)
    with pytest.raises(UsageError, match="batch norm") as error:
        check_norms(models.build(name, inputs, seed=0), name)
    assert f"--model {name}-gn" in error.value.hint
    check_norms(models.build(f"{name}-gn", inputs, seed=0), f"{name}-gn")
    check_norms(models.build(name, inputs, seed=0, freeze=True), name)


def test_networks_with_group_norm_have_the_same_trained_numbers_and_no_statistics():
    for name in ("cnn", "resnet10", "resnet18"):
        inputs = models.Inputs(3, 2, 32)
        plain = models.build(name, inputs, seed=0)
        grouped = models.build(f"{name}-gn", inputs, seed=0)
        counts = [sum(p.numel() for p in net.parameters()) for net in (plain, grouped)]
        assert counts[0] == counts[1]
        assert not list(grouped.buffers())


def test_a_run_states_epsilon_of_the_client_with_the_most_of_it(tmp_path):
    chain = make_chain(tmp_path)
    plan = planned("fedavg", {}, replace(SGD, dp_sgd=1.0), rounds=2, model="cnn-gn")
    run = manifest.read(train(chain, plan, work=tmp_path, out=None))
    epsilons = {}
    for client in manifest.read(chain).body["roster"]:
        steps = 2 * -(-client["train"] // 8)
        epsilons[client["client"]] = epsilon(1.0, rate(client["train"], 8), steps, 1e-5)
    expected = {
        "clip": 1.0,
        "noise": 1.0,
        "epsilon": max(epsilons.values()),
        "delta": 1e-5,
        "of": "image",
        "sampling": "Poisson",
        "clients": epsilons,
    }
    assert run.body["privacy"] == expected
    expected = f"FedAvg, epsilon {max(epsilons.values()):.3g} and delta 1e-05 per image"
    assert run.body["label"] == expected
    assert run.options["dp_sgd"] == 1.0


def test_a_run_that_starts_from_another_says_what_its_epsilon_leaves_out(tmp_path):
    chain = make_chain(tmp_path)
    plan = planned("fedavg", {}, replace(SGD, dp_sgd=1.0), rounds=1, model="cnn-gn")
    start = train(chain, plan, work=tmp_path, out=None)
    again = manifest.read(train(chain, replace(plan, weights=str(start)), work=tmp_path, out=None))
    assert "epsilon is of this run alone" in again.body["warning"]
    plain = manifest.read(
        train(chain, replace(plan, weights=str(start), dp_sgd=0.0), work=tmp_path, out=None)
    )
    assert "does not hold for this one" in plain.body["warning"]
    assert "privacy" not in plain.body
    assert manifest.read(start).body["warning"] == ""


@pytest.mark.parametrize("noise", [{"dp_sgd": 1.0}, {"dp_noise": 1.0}])
def test_a_second_stage_without_noise_is_refused(noise):
    with pytest.raises(UsageError, match="--then crt adds no noise"):
        fedcli.train("fedavg", then="crt", model="cnn-gn", **noise)


def test_batch_is_what_a_loss_of_one_image_sees():
    """The loss is called with batches of one image, in the order of the batch."""
    net = small_net()
    shard = toy_shard("north", 6)
    shapes = []

    def spied(net, batch, client):
        assert isinstance(batch, Batch)
        shapes.append((tuple(batch.x.shape), tuple(batch.y.shape)))
        return Local().loss(net, batch, client)

    layout = Layout(net)
    client = ClientRound("north", 0, 1, 3, 0.1, layout.read(), {}, layout, shard, None, {})
    PrivateGradient(1.0, 0.0, 3.0)(net, spied, shard.batch(torch.arange(3)), client)
    assert shapes == [((1, 1, 8, 8), (1,))]  # once, for all of them by vmap
