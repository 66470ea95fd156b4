"""FlexFair: weights that are the gradient of the penalty on differences between groups."""

import pytest
import torch
from conftest import client_updates, play, toy_net
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.errors import UsageError
from fedcli.methods import resolve
from fedcli.methods.flexfair import cell_weights


def test_weights_by_hand_over_all_images():
    """Four images of mean loss 1, four of 3: d = (-1, 1), w = 1 + 2 * 0.1 * 8 / 2 * (d / 4)."""
    losses = torch.tensor([[4.0], [12.0]])
    strength = torch.tensor([0.1])
    weights = cell_weights(torch.tensor([[4.0], [4.0]]), losses, strength)
    expected = pytest.approx([0.8, 1.2])
    assert weights.flatten().tolist() == expected


@pytest.mark.parametrize("classes", [1, 3])
def test_the_weighted_gradient_is_that_of_loss_and_penalty(classes):
    """By autograd through losses l_i(t) = a_i t: mean of l plus the sums of squared differences, at t = 1."""
    stream = torch.Generator().manual_seed(1)
    a = torch.rand(30, generator=stream, dtype=torch.float64)
    g = torch.arange(30) % 2
    c = torch.arange(30) // 2 % classes
    strength = 0.05 * (1 + torch.arange(classes, dtype=torch.float64))
    t = torch.ones((), dtype=torch.float64, requires_grad=True)
    total = (a * t).mean()
    for k in range(classes):
        mean = (a * t)[c == k].mean()
        total = (
            total
            + strength[k]
            * sum(((a * t)[(c == k) & (g == j)].mean() - mean) ** 2 for j in range(2))
            / 2
        )
    total.backward()
    n = torch.zeros(2, classes, dtype=torch.float64)
    losses = torch.zeros(2, classes, dtype=torch.float64)
    n.index_put_((g, c), torch.ones_like(a), accumulate=True)
    losses.index_put_((g, c), a, accumulate=True)
    w = cell_weights(n, losses, strength)
    result = (n * w).sum()
    assert result == pytest.approx(30)
    result = (w[g, c] * a).mean()
    assert result == pytest.approx(t.grad.item())


def test_what_fares_best_is_never_unlearned_and_absent_groups_wait():
    n = torch.tensor(rows("9.0 2.0; 1.0 0.0"))
    losses = torch.tensor(rows("0.0 2.0; 5.0 0.0"))
    strength = torch.tensor([50.0, 50.0])
    w = cell_weights(n, losses, strength)
    assert w.min() == 0
    result = (n * w).sum()
    assert result == pytest.approx(12)
    assert w.isfinite().all()
    strength = torch.ones(1)
    result = cell_weights(torch.zeros(2, 1), torch.zeros(2, 1), strength)
    assert torch.equal(result, torch.ones(2, 1))


def test_a_group_that_is_away_for_a_round_keeps_its_weight_and_a_new_one_starts_at_1():
    cell_counts = torch.tensor([[[4.0], [4.0], [0.0]]])
    cell_losses = torch.tensor([[[4.0], [12.0], [0.0]]])
    counted = torch.ones(1, 1)
    theta = torch.zeros(1, 1)
    table = client_updates(
        theta,
        cell_counts=cell_counts,
        cell_losses=cell_losses,
        counted=counted,
    )
    shared = {"cell_weights": torch.tensor([[1.0], [1.0], [3.0]])}
    local = resolve("flexfair", {"strength": 0.1, "within": "all"}).local
    local.post_aggregate(torch.zeros(1), table, table.base, shared)
    expected = pytest.approx([0.8, 1.2, 3.0])
    assert shared["cell_weights"].flatten().tolist() == expected
    local.post_aggregate(torch.zeros(1), table, table.base, empty := {})
    expected = pytest.approx([0.8, 1.2, 1.0])
    assert empty["cell_weights"].flatten().tolist() == expected


@pytest.mark.parametrize("settings", [{"strength": 0.0}, {"strength": 0.0, "within": "all"}])
def test_without_strength_it_is_fedavg(settings):
    theta = play("flexfair", settings, rounds=2).theta
    assert_close(theta, play("fedavg", rounds=2).theta, atol=1e-5, rtol=1e-4)


def test_one_class_alone_leaves_images_of_the_others_as_they_are():
    settings = {"only": 1, "strength": 0.5}
    shared = play("flexfair", settings, rounds=1).shared["cell_weights"]  # [G, C]
    assert torch.allclose(shared[:, 0], shared[0, 0])
    assert torch.allclose(shared[:, 2], shared[0, 0])
    assert not torch.allclose(shared[0, 1], shared[1, 1])


@pytest.mark.parametrize(
    ("settings", "message"), [({"only": 3}, "no class"), ({"only": 0, "within": "all"}, "within")]
)
def test_what_is_no_class_is_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        resolve("flexfair", settings).local.extend(toy_net())
