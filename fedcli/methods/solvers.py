"""Optimizers of what a method trains beside the model: torch's own fused arithmetic, with a state
of one round.

torch.optim's classes are not used because they import a compiler, more than a second of every
process.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd


class Solver:
    """Adam or SGD without momentum over some parameters; one without a gradient stays as it is.

    name: "adam" or "sgd".
    """

    def __init__(self, name: str, parameters: Iterable[Tensor], lr: float):
        self.name = name
        self.parameters = list(parameters)
        self.lr = lr
        # index of a parameter -> Adam's mean, square and steps of it
        self.state: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        weights = []
        grads = []
        means = []
        squares = []
        steps = []
        for k, weight in enumerate(self.parameters):
            if weight.grad is None:
                continue
            weights.append(weight)
            grads.append(weight.grad)
            if self.name == "adam":
                mean, square, count = self._moments(k, weight)
                means.append(mean)
                squares.append(square)
                steps.append(count)
        common: dict[str, Any] = {"lr": self.lr, "weight_decay": 0.0}
        common |= {"maximize": False, "fused": True}
        if self.name == "sgd":
            buffers: list[Tensor | None] = [None] * len(weights)
            common |= {"momentum": 0.0, "dampening": 0.0, "nesterov": False}
            sgd(weights, grads, buffers, **common)
        else:
            common |= {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}
            adam(weights, grads, means, squares, [], steps, **common)

    def _moments(self, k: int, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Adam's mean, square and steps of a parameter; zeros before its first step."""
        if k not in self.state:
            zero = torch.zeros_like(weight)
            steps = torch.zeros((), device=weight.device)
            self.state[k] = zero, zero.clone(), steps
        return self.state[k]
