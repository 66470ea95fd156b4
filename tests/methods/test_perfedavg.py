"""Per-FedAvg: the gradient of a step, on losses whose Hessian is known."""

import pytest
import torch
from conftest import flat_layout, play, toy_net, toy_shard
from torch import nn
from torch.testing import assert_close

from fedcli.data.shard import Batch
from fedcli.federation.client import ClientTask, Training, run_client
from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound, Local
from fedcli.methods.perfedavg import halves
from fedcli.models.layout import Layout


def gradient_of(monkeypatch, settings, w=(1.0, -2.0)):
    """The gradient at w of the loss sum_i y_i w^4 / 4 over a batch's mean y, whose Hessian is 3 y w^2."""
    layout = flat_layout(2)
    layout.load(torch.tensor(w))
    theta = torch.tensor(w)
    client = ClientRound("a", 0, 1, 3, 0.1, theta, {}, layout, None, None, {})

    def fourth_power(self, net, batch, client):
        client.layout.grad.add_(batch.y.float().mean() * client.layout.params**3)
        return torch.tensor(0.0)

    monkeypatch.setattr(Local, "gradient", fourth_power)
    batch = Batch(torch.zeros(4, 1), torch.tensor([1, 1, 2, 2]), torch.arange(4))
    resolve("per-fedavg", settings).local.gradient(nn.Module(), batch, client)
    assert layout.params.tolist() == list(w)
    return layout.grad.clone()


def test_first_order_and_hessian_free_by_hand(monkeypatch):
    """Inner half y = 1, outer half y = 2: g = 2 (w - alpha w^3)^3, and H = diag(3 w^2) of the inner half."""
    w = torch.tensor([1.0, -2.0])
    g = 2 * (w - 0.05 * w**3) ** 3
    assert_close(gradient_of(monkeypatch, {"alpha": 0.05}), g)
    exact = g - 0.05 * 3 * w**2 * g
    settings = {"alpha": 0.05, "variant": "hf", "delta": 0.02}
    result = gradient_of(monkeypatch, settings)
    assert_close(result, exact, rtol=1e-3, atol=0)


def test_without_an_inner_step_it_is_the_gradient_of_the_second_half(monkeypatch):
    for variant in ("fo", "hf"):
        settings = {"alpha": 0.0, "variant": variant}
        result = gradient_of(monkeypatch, settings).tolist()
        assert result == [2.0, -16.0]


def test_the_difference_of_gradients_has_one_dropout():
    """With masks of their own the two passes would differ by far more than 2 delta."""
    fo, hf = (
        play("per-fedavg", {"variant": v, "delta": 1e-3}, rounds=1, dropout=0.5).theta
        for v in ("fo", "hf")
    )
    assert 0 < (fo - hf).norm() < 0.5 * (fo - Layout(toy_net(dropout=0.5)).read()).norm()


@pytest.mark.parametrize(("images", "sizes"), [(1, [1, 1]), (2, [1, 1]), (5, [2, 3])])
def test_a_batch_is_halved(images, sizes):
    per_image = {"w": torch.rand(images)}
    batch = Batch(torch.rand(images, 1), torch.arange(images), torch.arange(images), per_image)
    parts = list(halves(batch))
    assert [len(part.y) for part in parts] == [len(part.per_image["w"]) for part in parts] == sizes


def test_a_client_keeps_the_received_model_after_steps_of_alpha():
    """All images in one step: theta - alpha dL/dtheta, whatever the run's learning rate."""
    net = toy_net(dropout=0.0)
    shard = toy_shard("north", 20)
    layout = Layout(net)
    start = layout.read()
    training = Training(optimizer="adam", lr=0.5, batch_size=8)
    method = resolve("per-fedavg", {"alpha": 0.05, "tune_batch": 20})
    task = ClientTask("north", 0, 1, 3, 1, start, {}, {})
    report = run_client(method, net, layout, shard, task, training)
    layout.load(start)
    layout.zero_grad()
    nn.functional.cross_entropy(net.eval()(next(shard.in_order()).x), shard.y).backward()
    expected = start.clone()
    expected[: layout.trainable] -= 0.05 * layout.grad
    assert_close(report.memory["model"], expected)
