"""FedAvgM, FedAdam, FedYogi and FedAdagrad: the mean update is a gradient, and the server takes an
optimizer's step.

Source: Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar and McMahan, "Adaptive federated
optimization", ICLR 2021, arXiv 2003.00295, Algorithm 2; FedAvgM is Hsu, Qi and Brown, "Measuring
the effects of non-identical data distribution for federated visual classification", 2019, arXiv
1909.06335, section 4. With D the mean of the updates theta_k - theta:

    FedAvgM       m <- beta m + D                   theta <- theta + lr m
    FedAdagrad    m <- beta1 m + (1 - beta1) D      theta <- theta + lr m / (sqrt(v) + tau)
                  v <- v + D^2
    FedYogi       the same, but                     v <- v - (1 - beta2) D^2 sign(v - D^2)
    FedAdam       the same, but                     v <- beta2 v + (1 - beta2) D^2

m starts at 0 and v at tau^2; as in the paper nothing corrects for that start. lr = 1 and beta = 0
make FedAvgM FedAvg. How we differ, and why:
- D is the mean by image count, as in every method here, and as in FedAvgM; weights=uniform is
  Algorithm 2's.
- the paper tunes lr and tau by task and names no default lr. tau is its 1e-3; lr is 0.01, in the
  middle of its grid: a coordinate whose updates are far above tau then moves by about 0.01 in a
  round.
- only trained numbers take the step; batch-norm statistics are averaged, as they are no gradients.
FedYogi's and FedAdagrad's steps were compared with Flower's strategies, which start v at 0; the
paper's text was not at hand.
As add-ons (moon+fedadam) they go with every base that averages. FedDyn and FedSMOO add to the mean
what clients have drifted, which does not fit a step of another length: such a pair swings, and a
run warns of it.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Aggregated, Aggregator, ClientUpdates, Tensors
from .fedavg import Plain, WeightedMean
from .registry import register


@dataclass(frozen=True)
class ServerStep(Aggregator):
    """The mean of the local models, reached by a step of the server's own."""

    needs = "sums"
    own_step = True

    lr: Annotated[float, "learning rate of the server, > 0"] = 0.01
    weights: Annotated[
        Literal["samples", "uniform"], "how clients count: by training images, or all the same"
    ] = "samples"

    @property
    def of_mean(self) -> bool:  # type: ignore[override]
        return self.weights == "samples"

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        # [P], whose buffers stay
        mean, p = WeightedMean(self.weights).aggregate(theta, updates, memory)
        moving = slice(updates.layout.trainable)
        delta = mean[moving] - theta[moving]  # [T]
        step = self.lr * self.direction(delta, memory)
        mean[moving] = theta[moving] + step
        return mean, p

    def direction(self, delta: Tensor, memory: Tensors) -> Tensor:
        """The direction of the step [T], from the mean update [T]; remembers what the next round
        needs.
        """
        raise TypeError(f"{type(self).__name__} has no direction()")


@dataclass(frozen=True)
class Momentum(ServerStep):
    """FedAvgM."""

    cost = {}

    lr: Annotated[float, "learning rate of the server, > 0"] = 1.0
    beta: Annotated[float, "share of the momentum that is kept, in [0, 1); 0 is FedAvg"] = 0.9

    def direction(self, delta: Tensor, memory: Tensors) -> Tensor:
        momentum = delta
        if "momentum" in memory:
            momentum = self.beta * memory["momentum"] + delta  # Hsu
        memory["momentum"] = momentum
        return momentum


@dataclass(frozen=True)
class Adagrad(ServerStep):
    """FedAdagrad: squares add up."""

    cost = {}

    beta1: Annotated[float, "share of the momentum that is kept, in [0, 1)"] = 0.0
    tau: Annotated[
        float, "added to the root of the squares, and where it starts, > 0; larger adapts less"
    ] = 1e-3

    def direction(self, delta: Tensor, memory: Tensors) -> Tensor:
        m = memory.get("momentum", torch.zeros_like(delta))
        initial = torch.full_like(delta, self.tau**2)
        v = memory.get("square", initial)
        m = self.beta1 * m + (1 - self.beta1) * delta  # Alg. 2, m
        v = self.squared(v, delta.square())
        memory["momentum"] = m
        memory["square"] = v
        return m / (v.sqrt() + self.tau)  # Alg. 2, the step

    def squared(self, v: Tensor, square: Tensor) -> Tensor:
        """v [T] of the next round, from this one's and the square of the mean update."""
        return v + square  # Alg. 2, FedAdagrad


@dataclass(frozen=True)
class Yogi(Adagrad):
    """FedYogi: squares move towards the newest by a share of it."""

    beta1: Annotated[float, "share of the momentum that is kept, in [0, 1)"] = 0.9
    beta2: Annotated[float, "share of the squares that is kept, in [0, 1)"] = 0.99

    def squared(self, v: Tensor, square: Tensor) -> Tensor:
        return v - (1 - self.beta2) * square * (v - square).sign()  # Alg. 2, FedYogi


@dataclass(frozen=True)
class Adam(Yogi):
    """FedAdam: a moving average of squares."""

    def squared(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square  # Alg. 2, FedAdam


register(
    "fedavgm",
    Plain(),
    Momentum(),
    label="FedAvgM",
    about="adds momentum to the server's steps",
    families="drift",
)
register(
    "fedadam",
    Plain(),
    Adam(),
    label="FedAdam",
    about="lets the server take Adam's steps along the mean update",
    families="drift",
)
register(
    "fedyogi",
    Plain(),
    Yogi(),
    label="FedYogi",
    about="lets the server take Yogi's steps along the mean update",
    families="drift",
)
register(
    "fedadagrad",
    Plain(),
    Adagrad(),
    label="FedAdagrad",
    about="lets the server take Adagrad's steps along the mean update",
    families="drift",
)
