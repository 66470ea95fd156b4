"""Optimizers of what a method trains beside the model: torch's own fused arithmetic, with a state
of one round.

torch.optim's classes are not used because they import a compiler, more than a second of every
process.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.sgd import sgd


class Solver:
    """ "adam" or "sgd" without momentum over some parameters; those without a gradient stay as they
    are.
    """

    def __init__(self, name: str, parameters: Iterable[Tensor], lr: float):
        self.name = name
        self.parameters = list(parameters)
        self.lr = lr
        self.state: dict[
            int, tuple[Tensor, Tensor, Tensor]
        ] = {}  # of Adam, by place: mean, square, steps

    def step(self) -> None:
        """One step along the gradients."""
        places = [k for k, parameter in enumerate(self.parameters) if parameter.grad is not None]
        with torch.no_grad():
            weights = [self.parameters[k] for k in places]
            grads = [weight.grad for weight in weights if weight.grad is not None]
            if self.name == "sgd":
                sgd(
                    weights,
                    grads,
                    [None] * len(weights),
                    weight_decay=0.0,
                    momentum=0.0,
                    lr=self.lr,
                    dampening=0.0,
                    nesterov=False,
                    maximize=False,
                    fused=True,
                )
                return
            for k, weight in zip(places, weights, strict=True):
                if k not in self.state:
                    zero = torch.zeros_like(weight)
                    self.state[k] = zero, zero.clone(), torch.zeros((), device=weight.device)
            means, squares, steps = ([self.state[k][part] for k in places] for part in range(3))
            adam(
                weights,
                grads,
                means,
                squares,
                [],
                steps,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                eps=1e-8,
                fused=True,
                lr=self.lr,
                weight_decay=0.0,
                maximize=False,
            )
