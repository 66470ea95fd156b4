"""Solvers of what a method trains beside the model."""

import pytest
import torch
from tables_of_numbers import rows
from torch import nn

from fedcli.methods.solvers import Solver


def stepped(solver, parameter, gradients):
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        solver.step()
    return parameter.tolist()


def test_sgd_by_hand():
    parameter = nn.Parameter(torch.tensor([1.0, -2.0]))
    gradients = rows("1.0 0.0; 2.0 -4.0")
    solver = Solver("sgd", [parameter], 0.5)
    result = stepped(solver, parameter, gradients)
    assert result == [-0.5, 0.0]


def test_adam_by_hand():
    """The first step is lr along the sign; the second has the means (.1 * .9 * 1 + .1 * 3) / (1 - .81) and so on."""
    parameter = nn.Parameter(torch.tensor([0.0]))
    solver = Solver("adam", [parameter], 0.1)
    expected = pytest.approx([-0.1])
    assert stepped(solver, parameter, [[1.0]]) == expected
    mean = 0.39 / 0.19
    square = 0.009999 / 0.001999  # (.000999 + .001 * 9) / (1 - .999^2)
    expected = pytest.approx([-0.1 - 0.1 * mean / square**0.5], rel=1e-5)
    assert stepped(solver, parameter, [[3.0]]) == expected


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_to_the_bit_as_torchs_classes(name, kind):
    """One of two parameters has no gradient, like a frozen one."""
    stream = torch.Generator().manual_seed(0)
    start = torch.randn(7, generator=stream)
    gradients = torch.randn(4, 7, generator=stream)
    (ours, idle) = (nn.Parameter(start.clone()) for _ in range(2))
    theirs = nn.Parameter(start.clone())
    parameters = iter([idle, ours])
    solver = Solver(name, parameters, 0.03)
    reference = kind([theirs], lr=0.03, fused=True)
    for gradient in gradients:
        ours.grad = gradient.clone()
        theirs.grad = gradient.clone()
        solver.step()
        reference.step()
    assert torch.equal(ours, theirs)
    assert torch.equal(idle, start)
