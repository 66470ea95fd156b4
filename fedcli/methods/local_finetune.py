"""Local fine-tuning and FedBABU: every client tunes the global model that it receives, and keeps
the result.

Source: fine-tuning is Wang, Mathews, Kiddon, Eichner, Beaufays and Ramage, "Federated evaluation of
on-device personalization", 2019, arXiv 1910.10252; FedBABU is Oh, Kim and Yun, "FedBABU: toward
enhanced representation for federated image classification", ICLR 2022, arXiv 2106.06042, Algorithm
1.

    local-finetune   FedAvg, to the last bit; clients tune a copy of the model
    FedBABU          the classifier keeps its random start while the features train and are
                     averaged; only where a client tunes its copy does the classifier move

How we differ, and why:
- a client tunes the model that it receives before it trains, in every round, so that each round has
  personal models to score: those of round t come from the model of round t - 1. The papers tune
  once, after the last round.
- images are seen in eval mode while a client tunes, so batch-norm statistics and dropout do not
  move; solver (at the run's learning rate) starts afresh, without weight decay. solver=sgd is the
  papers'.
- tune=head moves the classifier alone. FedBABU's paper compares both; which of them its tables use
  by default, and the number of passes, are not checked against its text.
The averages of equal classifiers are equal but for rounding. Noise on updates (--dp client) moves
them. FedBABU's parts are those of its authors' code (junhyeog/FedBABU: learning rate 0 for the
classifier), and PFLlib's.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from ..errors import UsageError
from ..seeds import derive
from .contract import Batch, ClientRound, Cost, Local, Network
from .fedavg import Mean
from .helpers import is_frozen
from .mixins import LinearHeadOnly
from .registry import register
from .solvers import Solver


@dataclass(frozen=True)
class Tuned(Local):
    """Plain local training; a tuned copy of the received model stays with the client."""

    one_rate = True

    tune: Annotated[
        Literal["all", "head"],
        "what a client tunes for itself: the whole network, or its classifier",
    ] = "all"
    tune_epochs: Annotated[int, "passes over the client's images that tune its copy, >= 0"] = 1
    tune_batch: Annotated[int, "images in a step of those passes, >= 1"] = 32
    solver: Annotated[Literal["adam", "sgd"], "optimizer of those passes"] = "adam"

    works_without_server = False

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return {"step": 1, "gradient": self.tune_epochs}

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        received = client.layout.read()  # [P] with the client's own statistics, where it has such
        net.eval()
        part = net if self.tune == "all" else net.head
        parameters = [p for p in part.parameters() if p.requires_grad]
        solver = Solver(self.solver, parameters, self.tuning_rate(client))
        for epoch in range(self.tune_epochs):
            event = client.seed, client.round, client.name, epoch
            shuffle = derive("tune shuffle", *event)
            augment = derive("tune augment", *event)
            for batch in client.shard.epoch(self.tune_batch, shuffle=shuffle, augment=augment):
                client.layout.zero_grad()
                Local.gradient(self, net, batch, client)
                solver.step()
        client.scratch["tuned"] = client.layout.read()
        client.layout.load(received)
        client.layout.zero_grad()

    def tuning_rate(self, client: ClientRound) -> float:
        """The learning rate of those passes."""
        return client.lr

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.memory["model"] = client.scratch["tuned"]


@dataclass(frozen=True)
class BodyOnly(LinearHeadOnly, Tuned):
    """Training that leaves the classifier as it was received."""

    trains_backbone = True

    def extend(self, net: Network) -> None:
        if is_frozen(net):
            problem = "FedBABU trains the features alone, and they are frozen"
            raise UsageError(problem, "leave --freeze-backbone out")

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        self._restore(client)  # weight decay may have moved the classifier
        loss = super().gradient(net, batch, client)
        for span in _head(client):
            client.layout.grad[span].zero_()  # FedBABU's Alg. 1: the body alone
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        super().on_round_end(net, client)
        self._restore(client)

    def _restore(self, client: ClientRound) -> None:
        for span in _head(client):
            client.layout.flat[span] = client.theta[span]


def _head(client: ClientRound) -> list[slice]:
    return [span for name, span in client.layout.spans.items() if name.startswith("head.")]


register(
    "local-finetune",
    Tuned(),
    Mean(),
    label="Local fine-tuning",
    about="trains FedAvg, then tunes a copy of the model at each hospital",
    families="personal",
    aliases=("fedavg-finetune", "fedavg-ft"),
)
register(
    "fedbabu",
    BodyOnly(),
    Mean(),
    label="FedBABU",
    about="trains the features alone, then tunes a copy of the model at each hospital",
    families="personal",
)
