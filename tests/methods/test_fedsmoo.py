"""FedSMOO: the perturbation and its duals, by hand on a parabola, and what it shares with FedDyn."""

import pytest
import torch
from conftest import client_updates, play
from quadratic import gradient_at
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.methods import resolve


def test_a_step_by_hand():
    """g = (3, 4), mu = (-1, 0), s = (1, 0): u = (3, 4), s_i = (0.6, 0.8), and mu gains s_i - s.

    The gradient is w + s_i, plus alpha times what the client has moved in all, (2, -2) before this step.
    """
    dual = torch.tensor([-1.0, 0.0])
    moved = torch.tensor([2.0, -2.0])
    memory = {"dual": dual, "moved": moved}
    before = memory["dual"].clone()
    shared = {"perturbation": torch.tensor([1.0, 0.0])}
    settings = {"rho": 1.0, "alpha": 0.5}
    grad, loss, client = gradient_at(
        "fedsmoo",
        settings,
        [3.0, 4.0],
        memory=memory,
        shared=shared,
    )
    expected = pytest.approx([3.6 + 1, 4.8 - 1])
    assert grad == expected
    assert loss == 12.5
    assert (
        client.memory["dual"].tolist()
        == pytest.approx([-1.4, 0.8])
        == client.report["dual"].tolist()
    )
    result = client.memory["moved"].tolist()
    assert result == [2.0, -2.0]
    result = client.report["moved"].tolist()
    assert result == [
        0.0,
        0.0,
    ]
    assert torch.equal(memory["dual"], before)  # what was kept is not written into


def test_the_step_is_cut_at_the_norm_of_clip():
    settings = {"rho": 1.0, "clip": 0.5}
    grad, _, _ = gradient_at("fedsmoo", settings, [3.0, 4.0])
    assert grad == pytest.approx([0.3, 0.4])


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, [0.3, 0.4]), ({"control": "uniform"}, [0.5, 0.0])]
)
def test_the_common_perturbation_is_along_the_mean_dual(settings, expected):
    """Weighted by (1/4, 3/4): (3, 4); all the same: (6, 0), each at length 0.5. The model gains the mean move."""
    shared = {}
    p = torch.tensor([0.25, 0.75], dtype=torch.float64)
    dual = rows("12.0 -8.0; 0.0 8.0")
    moved = rows("1.0 0.0; 1.0 0.0")
    table = client_updates(torch.zeros(2, 3), dual=dual, moved=moved)
    local = resolve("fedsmoo", {"rho": 0.5, **settings}).local
    theta = local.post_aggregate(torch.tensor([1.0, 1.0, 7.0]), table, p, shared)
    assert shared["perturbation"].tolist() == pytest.approx(expected)
    assert theta.tolist() == [2.0, 1.0, 7.0]


def test_without_a_radius_it_is_feddyn():
    settings = {"rho": 0.0, "alpha": 0.3}
    ours = play("fedsmoo", settings, dropout=0.0)
    feddyn = play("feddyn", {"alpha": 0.3}, dropout=0.0)
    assert_close(ours.theta, feddyn.theta, atol=1e-5, rtol=1e-4)
    assert not ours.shared["perturbation"].any()


def test_the_first_step_of_all_is_along_fedsams_gradient():
    settings = {"rho": 0.5, "alpha": 0.7}
    ours, _, _ = gradient_at("fedsmoo", settings, [3.0, 4.0])
    sam, _, _ = gradient_at("fedsam", {"rho": 0.5}, [3.0, 4.0])
    assert ours == pytest.approx(sam)


def test_where_all_perturb_alike_the_dual_comes_to_rest():
    """On one parabola for all with s the client's own s_i, mu does not move: the constraint s_i = s holds."""
    along = torch.tensor([0.6, 0.8])
    memory = {"dual": torch.tensor([0.3, 0.4])}
    _, _, client = gradient_at(
        "fedsmoo", {"rho": 1.0}, [3.0, 4.0], memory=memory, shared={"perturbation": along}
    )
    expected = pytest.approx([0.3, 0.4], abs=1e-6)
    assert client.memory["dual"].tolist() == expected
