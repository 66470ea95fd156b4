"""pFedMe: every client has a model of its own near its copy of the global one, which moves towards
it.

Source: T. Dinh, Tran and Nguyen, "Personalized federated learning with Moreau envelopes", NeurIPS
2020, arXiv 2006.08848, Algorithm 1 with its steps 7 and 8. For each minibatch, with w the client's
copy of the global model,

    theta ~ argmin F(theta) + lambda / 2 ||theta - w||^2    by inner_steps steps of length inner_lr
                                                            from the last theta
    w <- w - eta lambda (w - theta)                         a step of the run's optimizer; the
                                                            paper's is SGD

w is averaged, theta is scored as the client's own model. How we differ, and why:
- models are averaged by image count and the server takes all of the mean: the paper's beta is 1.
  `pfedme+fedavgm` and other add-ons take another step.
- the authors' code (CharlieDinh/pFedMe) lets all clients train in every round and averages those
  that were drawn; here those that were drawn train, as in the paper.
- theta starts each round at w, and from then on at the last theta, as in that code. inner_lr lambda
  must be well below 2, or theta diverges, and 2 is refused; the code's scripts use lambda = 15 with
  lengths from 0.005 to 0.1.
- batch-norm statistics are those of theta's passes, of which there are inner_steps for each
  minibatch.
The paper's text was not at hand; the numbers of its algorithm and steps are not checked.
"""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from ..errors import UsageError
from .contract import Batch, ClientRound, Cost, Local, Network
from .fedavg import Mean
from .registry import register


@dataclass(frozen=True)
class Envelope(Local):
    """Steps towards a personal model that is found anew for each minibatch."""

    works_without_server = False

    strength: Annotated[
        float, "lambda, how near the personal model stays to the global one, > 0"
    ] = 15.0
    inner_steps: Annotated[int, "K, steps that find the personal model for a minibatch, >= 1"] = 5
    inner_lr: Annotated[float, "length of these steps, > 0"] = 0.05

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return {"step": self.inner_steps}

    def extend(self, net: Network) -> None:
        if self.inner_lr * self.strength >= 2:
            problem = (
                f"inner_lr {self.inner_lr:g} times strength {self.strength:g} "
                "is not below 2: models diverge"
            )
            smaller = 0.75 / self.strength
            raise UsageError(problem, f"--set inner_lr={smaller:.2g}")

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.scratch["personal"] = client.layout.params.clone()  # [T] theta

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        layout = client.layout
        theta = client.scratch["personal"]
        w = layout.params.clone()  # [T]
        for _ in range(self.inner_steps):
            layout.params.copy_(theta)
            layout.zero_grad()
            loss = super().gradient(net, batch, client)
            from_own = theta - w
            slope = layout.grad + self.strength * from_own  # [T]
            theta -= self.inner_lr * slope  # Alg. 1, step 7
        layout.params.copy_(w)
        layout.grad.copy_(self.strength * (w - theta))  # step 8, without its length
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        model = client.layout.read()  # [P]
        model[: client.layout.trainable] = client.scratch["personal"]
        client.memory["model"] = model


register(
    "pfedme",
    Envelope(),
    Mean(),
    label="pFedMe",
    about="gives each hospital its own model near the shared one, which follows it",
    families="personal",
)
