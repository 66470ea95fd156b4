"""Per-FedAvg: a global model from which one gradient step on a client's images makes a good model
for that client.

Source: Fallah, Mokhtari and Ozdaglar, "Personalized federated learning with theoretical guarantees:
a model-agnostic meta-learning approach", NeurIPS 2020, arXiv 2002.07948, Algorithm 1. With f the
loss of client k, a local step descends

    F(w) = f(w - alpha grad f(w))
    grad F(w) = (I - alpha H(w)) g,    g = grad f(w - alpha grad f(w)),    H the Hessian of f

    variant=fo   first order: grad F = g
    variant=hf   Hessian-free: H(w) g = (grad f(w + delta g) - grad f(w - delta g)) / (2 delta)

Models are averaged; a client's own model, which is scored beside the global one, is the global
model that it receives after steps of alpha on its images (tune_epochs passes), as under
local-finetune. How we differ, and why:
- the paper draws three batches for each step. Here the batch is halved: its first half is that of
  the inner gradient and of the Hessian, its second that of g. A batch of one image is both.
- delta is the length of the move delta g, since a fixed delta would drown in float32's rounding
  where g is small.
- dropout is the same in both passes of the difference; batch-norm statistics move with the inner
  gradient's pass alone.
- the run's learning rate and optimizer are those of the outer step (beta in the paper), alpha is by
  plain SGD.
- clients' own models of round t come from the model of round t - 1; the paper tunes once, after
  training.
The paper's text was not at hand; its equations are not numbered here and alpha is ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from .contract import Batch, ClientRound, Cost, Network
from .fedavg import Mean
from .helpers import still_batchnorm
from .local_finetune import Tuned
from .registry import register


@dataclass(frozen=True)
class Meta(Tuned):
    """Steps along the gradient after one inner step; a tuned copy of the received model stays with
    the client.
    """

    not_recorded = "a step goes to other weights and back"

    variant: Annotated[Literal["fo", "hf"], "first order, or Hessian-free by two more passes"] = (
        "fo"
    )
    alpha: Annotated[
        float,
        "step of the inner gradient and of a client's tuning, >= 0; 0 is FedAvg of half batches",
    ] = 0.01
    delta: Annotated[float, "length of the move of the Hessian's difference, > 0"] = 0.01
    solver: Annotated[Literal["adam", "sgd"], "optimizer of a client's tuning"] = "sgd"

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return {"step": 2 if self.variant == "hf" else 1, "gradient": self.tune_epochs}

    def tuning_rate(self, client: ClientRound) -> float:
        return self.alpha

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        layout = client.layout
        inner, outer = halves(batch)
        w = layout.params.clone()  # [T]
        loss = super().gradient(net, inner, client)
        layout.params.sub_(layout.grad, alpha=self.alpha)
        with still_batchnorm(net):
            g = self._gradient_here(net, outer, client)  # [T]
            if self.variant == "hf":
                d = self.delta / g.norm().clamp_min(1e-12)  # delta of the formula
                move = d * g  # [T]
                up = self._gradient_at(w + move, net, inner, client)
                down = self._gradient_at(w - move, net, inner, client)
                g = g - self.alpha * (up - down) / (2 * d)
        layout.params.copy_(w)
        layout.grad.copy_(g)
        return loss

    def _gradient_at(
        self,
        w: Tensor,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        """The gradient [T] at w, with the same dropout at every w."""
        client.layout.params.copy_(w)
        with torch.random.fork_rng([w.device] if w.is_cuda else []):
            return self._gradient_here(net, batch, client)

    def _gradient_here(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        client.layout.zero_grad()
        super().gradient(net, batch, client)
        return client.layout.grad.clone()


def halves(batch: Batch) -> Iterator[Batch]:
    """The first and the second half of a batch, or twice a batch of one image."""
    middle = len(batch.y) // 2
    for part in (slice(middle or 1), slice(middle, None)):
        per_image = {name: values[part] for name, values in batch.per_image.items()}
        images = replace(
            batch,
            x=batch.x[part],
            y=batch.y[part],
            at=batch.at[part],
        )
        yield replace(images, per_image=per_image)


register(
    "per-fedavg",
    Meta(),
    Mean(),
    label="Per-FedAvg",
    aliases=("perfedavg",),
    about="trains a shared model that one step on a hospital's images turns into its own",
    families="personal",
)
