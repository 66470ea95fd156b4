"""FedMinMax: minimax fairness between groups, whose weights climb with their losses and stay on the
simplex.

Source: Papadaki, Martinez, Bertran, Sapiro and Rodrigues, "Minimax demographic group fairness in
federated learning", FAccT 2022, arXiv 2201.08304, Algorithm 1; the sums over clients are in
groups.py.

    w        mu / rho; mu starts at rho, the groups' shares of all images: round 1 is FedAvg
    theta    clients descend on the losses weighted by w, models are averaged by image count
    mu       moves to the projection of mu + eta r on the simplex, with r_g the mean loss of group g
             before the round

An image of unknown group weighs 1 and counts in none. A group without an image at any client of a
round keeps its mu. A group of one image counts as any other: its image may weigh much, and a run
warns of groups under 30 (see groups.py). How we differ: a client takes the run's local steps, where
Algorithm 1 takes one over all its images. The paper names no eta for images; ours moves mu by 0.05
per unit of loss. eta = 0 is FedAvg. No code of the authors is public; a later implementation of
others agrees with the three lines above, without the projection that it names. The number of the
algorithm is not checked.
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from .afl import project_to_simplex
from .fedavg import Mean
from .groups import Minimax
from .registry import register


@dataclass(frozen=True)
class ProjectedStep(Minimax):
    """Weights of groups that climb with their losses."""

    cost = {"step": 1, "forward": 1}

    eta: Annotated[float, "step on the groups' weights per unit of loss, >= 0; 0 is FedAvg"] = 0.05

    def start(self, rho: Tensor) -> Tensor:
        return rho

    def move(self, mu: Tensor, rho: Tensor, risk: Tensor, n: Tensor) -> Tensor:
        return project_to_simplex(mu + self.eta * risk)  # Alg. 1, the step on mu


register(
    "fedminmax",
    ProjectedStep(),
    Mean(),
    label="FedMinMax",
    about="gives more weight to patient groups with a high loss, beginning from their shares",
    families="groups",
)
