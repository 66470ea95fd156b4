"""FedPer and FedRep: every client keeps a classifier of its own over features that all share.

Source: FedPer is Arivazhagan, Aggarwal, Singh and Choudhary, 2019, arXiv 1912.00818, Algorithm 1;
FedRep is Collins, Hassani, Mokhtari and Shakkottai, "Exploiting shared representations for
personalized federated learning", ICML 2021, arXiv 2102.07078, Algorithm 1.

    FedPer   features and classifier train together; the classifier never leaves the client
    FedRep   first the classifier alone for head_epochs passes, then the features alone for the
             run's epochs

Each client is scored with its own classifier. The global model that is scored has the mean of the
classifiers by image count; it is sent to no client. The classifier is whatever the network has as
its head; one layer, where FedPer tries more. How we differ:
- FedRep's passes over the classifier have an optimizer of their own (solver, at the run's learning
  rate), since a method does not see the run's; weight decay and --optimizer clip are the features'
  alone. solver=sgd is the paper.
- features do not move in those passes, batch-norm statistics neither: their images are seen in eval
  mode.
The order of the two parts, and which tensors stay, are those of PFLlib's FedRep; the authors' codes
and both texts were not at hand, so the numbers of the algorithms are not checked. With a frozen
backbone nothing would be shared, so that is refused.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from ..errors import UsageError
from ..seeds import derive
from .contract import Batch, ClientRound, Cost, Local, Network
from .fedavg import Mean
from .helpers import is_frozen
from .registry import register
from .solvers import Solver


@dataclass(frozen=True)
class OwnHead(Local):
    """Plain local training of all, with a classifier that stays."""

    cost = {"step": 1}
    head = "personal"
    images_in_loss_alone = True

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        if is_frozen(net):
            problem = "clients that keep their classifiers share nothing else"
            raise UsageError(problem, "leave --freeze-backbone out")
        return tuple(name for name in net.state_dict() if name.startswith("head."))


@dataclass(frozen=True)
class HeadFirst(OwnHead):
    """The classifier alone, then the features alone."""

    images_in_loss_alone = False

    head_epochs: Annotated[int, "passes over the images that train the classifier first, >= 0"] = 1
    head_batch: Annotated[int, "images in a step of those passes, >= 1"] = 32
    solver: Annotated[Literal["adam", "sgd"], "optimizer of those passes"] = "adam"

    trains_backbone = True

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return {"step": 1, "gradient": self.head_epochs}

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        net.eval()
        solver = Solver(self.solver, net.head.parameters(), client.lr)
        for epoch in range(self.head_epochs):
            event = client.seed, client.round, client.name, epoch
            shuffle = derive("head shuffle", *event)
            augment = derive("head augment", *event)
            for batch in client.shard.epoch(self.head_batch, shuffle=shuffle, augment=augment):
                client.layout.zero_grad()
                super().gradient(net, batch, client)
                solver.step()  # Alg. 1, the client's head
        client.layout.zero_grad()
        client.scratch["head"] = client.layout.read_own()

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        client.layout.load_own(client.scratch["head"])  # weight decay may have moved it
        loss = super().gradient(net, batch, client)
        _, everything = client.layout.all_trainable
        everything[: len(everything) - client.layout.trainable].zero_()
        return loss

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.layout.load_own(client.scratch["head"])


register(
    "fedper",
    OwnHead(),
    Mean(),
    label="FedPer",
    about="keeps the classifier at each hospital and averages the features",
    families="personal",
)
register(
    "fedrep",
    HeadFirst(),
    Mean(),
    label="FedRep",
    about="keeps the classifier at each hospital and trains it before the shared features",
    families="personal",
)
