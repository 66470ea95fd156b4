import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tables_of_numbers import rows as number_rows
from torch.testing import assert_close

from fedcli.methods import transport
from fedcli.methods.transport import transport_plan

LN3 = math.log(3)


def similarities(patches, prompts, spread=0.05, problems=3, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return 0.2 + spread * torch.randn(problems, patches, prompts, generator=stream)


def turns_as_published(cost, mass, eps, turns):
    """The loop of the paper in float64, with nothing done for range or speed: [M, N] -> [M, N]."""
    k = np.exp(-cost / eps)
    (m, n) = cost.shape
    v = np.ones(n)
    for _ in range(turns):
        u = np.minimum(1 / m / (k @ v), 1)
        v = mass / n / (k.T @ u)
    return u[:, None] * k * v


@pytest.mark.parametrize(
    ("mass", "expected"),
    [
        (0.4, [0.3, 0.1]),  # 3 to 1, both below a half
        (0.8, [0.5, 0.3]),  # 3 to 1 would be 0.6: the first is full
        (1.0, [0.5, 0.5]),  # all there is
    ],
)
def test_one_prompt_fills_its_best_patches_first(mass, expected):
    cost = torch.tensor([[0.0], [0.5 * LN3]])
    plan = transport_plan(cost, mass, eps=0.5)
    assert_close(plan, torch.tensor(expected)[:, None])


@pytest.mark.parametrize("mass", [1.0, 0.8])
def test_two_patches_that_mirror_each_other_split_by_three_to_one(mass):
    cost = torch.tensor([[0.0, LN3], [LN3, 0.0]])
    plan = transport_plan(cost, mass, eps=1.0)
    expected = mass / 2 * torch.tensor(number_rows("0.75 0.25; 0.25 0.75"))
    assert_close(plan, expected)


@pytest.mark.parametrize(("mass", "turns"), [(0.3, 500), (0.8, 2000), (0.99, 20_000), (1.0, 500)])
def test_it_is_the_published_loop_run_to_its_end(mass, turns):
    cost = 1 - similarities(12, 3)
    for got, c in zip(transport_plan(cost, mass, 0.1), cost.double().numpy(), strict=True):
        assert_allclose(got, turns_as_published(c, mass, 0.1, turns), atol=1e-7)


@pytest.mark.parametrize("eps", [0.1, 0.01])
@pytest.mark.parametrize("mass", [0.5, 0.8, 1.0])
def test_it_is_what_pot_finds(mass, eps):
    ot = pytest.importorskip("ot")
    cost = 1 - similarities(49, 2, problems=2)
    rows = np.full(49, 1 / 49)
    columns = np.full(2, mass / 2)
    for got, c in zip(transport_plan(cost, mass, eps), cost.double().numpy(), strict=True):
        if mass == 1:
            reference = ot.sinkhorn(rows, columns, c, eps, stopThr=1e-12)
        else:
            reference = ot.partial.entropic_partial_wasserstein(
                rows, columns, c, eps, m=mass, numItermax=5000, stopThr=1e-13
            )
        assert_allclose(got, reference, atol=1e-6)


@pytest.mark.parametrize("mass", [0.05, 0.5, 0.8, 0.99, 1.0])
def test_prompts_receive_exactly_their_share_and_no_patch_sends_more_than_it_has(mass):
    cost = 1 - similarities(49, 3, spread=0.3)
    plan = transport_plan(cost, mass, 0.1)
    expected = torch.full((3, 3), mass / 3)
    assert_close(plan.sum(-2), expected)
    assert plan.min() >= 0
    result = plan.sum(-1).max()
    assert result <= (1 + 1e-4) / 49


@pytest.mark.parametrize("mass", [0.8, 0.999])
def test_a_dozen_turns_do_at_any_mass(mass, monkeypatch):
    """The published loop needs 36 for mass 0.8 and thousands for 0.999."""
    cost = 1 - similarities(196, 2, spread=0.03)
    whole = transport_plan(cost.double(), mass, 0.1)
    monkeypatch.setattr(transport, "TURNS", 12)
    assert_close(transport_plan(cost, mass, 0.1), whole.float(), atol=1e-7, rtol=0)


def test_what_is_added_to_a_prompts_costs_changes_nothing():
    cost = (similarities(49, 2) * 1024).round() / 1024  # so that adding 1 is exact
    result = transport_plan(cost + torch.tensor([1.0, 0.0]), 0.8, 0.001)
    assert torch.equal(result, transport_plan(cost, 0.8, 0.001))


def test_like_prompts_receive_alike_and_strong_entropy_makes_all_alike():
    same = similarities(6, 1).expand(-1, -1, 2)
    plan = transport_plan(1 - same, 0.8, 0.1)
    assert torch.equal(plan[..., 0], plan[..., 1])
    result = transport_plan(1 - same, 1.0, 0.1)
    expected = torch.full((3, 6, 2), 1 / 12)
    assert_close(result, expected)
    cost = 1 - similarities(6, 2)
    flat = transport_plan(cost, 0.8, 1e4)
    expected = torch.full((3, 6, 2), 0.8 / 12)
    assert_close(flat, expected, atol=1e-5, rtol=0)


def test_one_patch_sends_each_prompt_its_share():
    cost = 1 - similarities(1, 4)
    result = transport_plan(cost, 0.8, 0.01)
    expected = torch.full((3, 1, 4), 0.2)
    assert_close(result, expected)
    cost = torch.zeros(1, 1)
    result = transport_plan(cost, 0.8, 0.1)
    expected = torch.tensor([[0.8]])
    assert_close(result, expected)


def test_little_entropy_takes_the_best_patches_whole():
    cost = torch.tensor(number_rows("0.9; 0.1; 0.5; 0.3; 0.7"))
    plan = transport_plan(cost, 0.5, 0.001).flatten()
    assert_close(plan, torch.tensor([0.0, 0.2, 0.1, 0.2, 0.0]))


def test_half_precision_survives_where_the_kernel_is_zero():
    similarity = similarities(49, 2).half()
    result = (-(1 - similarity) / 0.01).exp().max()
    assert result == 0  # all of K: the published loop divides 0 by 0
    plan = transport_plan(1 - similarity, 0.8, 0.01)
    assert plan.dtype == torch.float32
    cost = (1 - similarity).double()
    expected = transport_plan(cost, 0.8, 0.01).float()
    assert_close(plan, expected, atol=1e-6, rtol=0)


def test_one_patch_far_better_than_the_rest_underflows_nothing():
    cost = torch.full((4, 2), 2.0)
    cost[0] = 0.0  # exp(-2 / 0.01) is 0 in float32, and yet the rest has to send 0.55
    expected = torch.tensor([0.25, *[0.55 / 3] * 3])
    result = transport_plan(cost, 0.8, 0.01).sum(1)
    assert_close(result, expected, atol=1e-5, rtol=0)


def test_problems_do_not_see_each_other_and_carry_no_gradient():
    cost = (1 - similarities(16, 2, problems=4)).requires_grad_()
    together = transport_plan(cost.view(2, 2, 16, 2), 0.8, 0.1)
    assert not together.requires_grad
    alone = torch.stack([transport_plan(c, 0.8, 0.1) for c in cost])
    assert_close(together.flatten(0, 1), alone, atol=1e-7, rtol=1e-5)
