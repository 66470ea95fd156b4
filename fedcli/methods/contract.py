"""A method is a Local, what a client does, and an Aggregator, what the server does.

The one file to read before writing a method. Both halves are frozen dataclasses whose fields are
the method's options; all that changes lives in `memory` and `shared`, which outlive the round, and
in `scratch`, which does not. One round of K clients, in the order of its calls:

    server    Aggregator.broadcast(memory)                  sent with theta and `shared`
    client    Local.on_round_start(net, client)             net is the global model
              Aggregator.measure_global(net, client)
              Local.gradient(net, batch, client)            in every local step; calls Local.loss
              Local.on_round_end(net, client)               net is the local model
              Aggregator.measure_local(net, client)
    server    Aggregator.aggregate(theta, updates, memory)  K local models in, one global model out
              Local.post_aggregate(theta, updates, weights, shared)

What a client's hooks put into `client.report` arrives at the server as a column [K, ...] of the
updates. Once for each run come Local.extend and Local.personal_tensors, when the network is built,
and the warnings of both halves.

registry.py puts a method under its name, helpers.py, losses.py and probes.py hold what several
methods compute, mixins.py what few methods ask of the engine. The types of what hooks receive, such
as Batch and Network, are imported from here.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data.shard import Batch as Batch  # what a method's file needs is imported from here
from ..data.shard import Shard as Shard
from ..errors import FedcliError
from ..models.layout import Layout as Layout
from ..models.network import Network as Network
from .losses import binary_cross_entropy, weighted_cross_entropy

Tensors = dict[str, Tensor]
Aggregated = tuple[Tensor, Tensor]  # the new global model [P], the weights of the clients [K]
# passes of the network by kind, see Local.cost, or why no formula gives them
Cost = Mapping[str, int] | str
NEEDS = {  # what a server must see of each client, from the least to the most
    "sums": "sums over the clients, which secure aggregation can compute: no client's own model or "
    "number",
    "scalars": "few numbers of each client, such as its loss; models only in their weighted sum",
    "updates": "what each client sends by itself, such as its model, which secure aggregation "
    "would hide",
}


@dataclass
class ClientRound:
    """One client in one round: what it received, and what it leaves behind.

    run_client writes `steps` and `empty_steps`; the method's hooks write `memory`, `report`,
    `scratch` and `per_image`.
    """

    name: str
    row: int  # index in the roster
    round: int  # t, from 1
    rounds: int  # T
    lr: float
    theta: Tensor  # [P] global model at the start of the round
    shared: Tensors  # broadcast beside theta; read only
    layout: Layout
    shard: Shard
    offset: Tensor | None  # [C] added to the logits of the training loss (logit adjustment)
    memory: Tensors  # this client's own state, kept between rounds
    report: Tensors = field(default_factory=dict)  # what the server will see
    scratch: dict[str, Any] = field(default_factory=dict)  # gone when the round ends
    per_image: Tensors = field(
        default_factory=dict
    )  # [N, ...] of each training image; a step has its batch's part
    steps: int = 0
    empty_steps: int = 0  # those for which --dp image drew no image
    momentum: float = 0.0  # of the local optimizer; 0 unless it is SGD
    nesterov: bool = False  # whether that looks ahead
    val: Shard | None = None  # the client's validation part, where the partition gives it one
    # of the run; derive("word", seed, round, client) makes a method's own random numbers
    seed: int = 0
    class_weights: Tensor | None = None  # [C] in the training loss
    label_smoothing: float = 0.0
    focal: float = 0.0  # gamma of the focal loss; 0 without it
    # under --dp image: leaves the private gradient of a loss in a network
    private: Callable[..., Tensor] | None = None

    @property
    def received(self) -> Tensor:
        """[T] the trained numbers of the global model at the start of the round."""
        return self.theta[: self.layout.trainable]

    @property
    def validation_images(self) -> int:
        """Images of the validation part, 0 without one."""
        return len(self.val) if self.val is not None else 0

    @property
    def plain_loss(self) -> bool:
        """True where cross_entropy() has nothing that a user or a method adds."""
        changed = self.label_smoothing or self.focal
        return self.offset is None and self.class_weights is None and not changed


@dataclass(frozen=True)
class ClientUpdates:
    """Replies of one round, as columns over the K clients that took part."""

    round: int  # t, from 1
    rounds: int  # T
    seed: int  # of the run
    lr: float  # local learning rate this round
    rows: Tensor  # [K] int64, indices in the roster
    roster: int  # N clients in all
    n: Tensor  # [K] training images
    steps: Tensor  # [K] local optimizer steps
    theta: Tensor  # [K, P] local models
    columns: Tensors  # name -> [K, ...]
    # the first layout.trainable of the P numbers are trained, the others are buffers
    layout: Layout

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name]

    @property
    def base(self) -> Tensor:
        """[K] n_k / n over the participants: the weights of a rule that says nothing else."""
        return self.n / self.n.sum()


class Local:
    """The client half: plain local training. Override what the paper changes.

    client.memory["model"] [P] is where a method keeps a whole personal model, which is then scored
    too. Below is what a method says of itself; `cost` is its passes of the network by kind: "step"
    forward and backward over a batch, "look" forward alone, both in each local step; "gradient"
    forward and backward over all images of a client, "forward" forward alone, both once in its
    round. A text says why they are not known.
    """

    needs: str = "sums"  # what the server must see of each client for this half, one of NEEDS
    own_prior: bool = False  # it corrects for class counts itself, so --prior is refused
    # it trains without cross_entropy(): neither --loss nor --class-weights
    own_loss: bool = False
    own_norms: bool = False  # batch-norm layers stay with the client, whatever --bn aggregate says
    trains_backbone: bool = False  # all that it changes is how features or their norms are trained
    head: str = "linear"  # or the kind of classifier that extend() replaces it by
    all_weights: bool = False  # it has no meaning where a part of the network does not train
    model: str = ""  # "clip" where the method means nothing without that kind of network
    freezes: bool = False  # extend() freezes the network and adds the little that trains
    # it has a meaning where each client trains by itself (--single-site)
    works_without_server: bool = True
    needs_one_label: str = ""  # why it has no meaning where an image may have several labels
    needs_two_classes: str = ""  # why it has no meaning for a task of more than two classes
    # loss() is the mean over a batch of a loss of each image alone, and nothing else that leaves a
    # client is made of images or class counts: --dp image makes all of it private
    images_in_loss_alone: bool = False
    # post_aggregate() adds to the model what corrects a mean of local models
    adds_to_mean: bool = False
    one_rate: bool = False  # its arithmetic assumes one learning rate for all weights
    # why a GPU cannot replay a step for other clients: it waits, or reads a changing number
    not_recorded: str = ""
    recordable: bool = False  # of a class from outside fedcli: its steps can be recorded
    # a step reads client.round as a number, so that it is recorded anew in each round
    reads_round: bool = False
    cost: Cost = "its class does not say what it costs"

    def extend(self, net: Network) -> None:
        """Once, when the network is built, after its starting weights: add what trains beside the
        model, replace its head, or freeze a part. What is frozen whole stays in eval mode and out
        of theta.
        """

    def warning(self, net: Network, rounds: int) -> str:
        """A sentence that a reader of this run's numbers must know.

        It is shown when the run starts, and under every table.
        """
        return ""

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        """Names of tensors that never leave the client and are trained there."""
        return ()

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        """Before the first step; net is the global model."""

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        """Training loss of one batch, a scalar."""
        return cross_entropy(net(batch.x), batch.y, client)

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        """Leave the gradient of this step in net, which is zero on entry.

        Returns the loss for the record.
        """
        if client.private:
            return client.private(net, self.loss, batch, client)
        loss = self.loss(net, batch, client)
        self._refuse_no_scalar(loss)
        loss.backward()
        return loss.detach()

    def _refuse_no_scalar(self, loss: Any) -> None:
        """Raises FedcliError for a loss that is no tensor of one number."""
        result = f"a {type(loss).__name__}"
        if isinstance(loss, Tensor):
            if loss.numel() == 1:
                return
            result = f"a tensor of shape {list(loss.shape)}"
        kind = type(self)
        file = Path(inspect.getfile(kind.loss)).name
        problem = f"{file}: loss of {kind.__name__} returned {result}"
        raise FedcliError(problem, "return a scalar tensor")

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        """After the last step; net is the local model."""

    def post_aggregate(
        self,
        theta: Tensor,
        updates: ClientUpdates,
        weights: Tensor,
        shared: Tensors,
    ) -> Tensor:
        """On the server, after aggregation: update shared, return the final global model [P]."""
        return theta


class Aggregator:
    """The server half: K local models in, one global model out.

    State is kept in `memory` by roster row. Entries are replaced, never written into, so that a
    round that fails leaves the old state whole. A table with a long row for each client is a
    RowTable (row_table.py), which is on disk where there are many.
    """

    needs: str = "updates"  # what the server must see of each client, one of NEEDS
    # it needs nothing but the mean of the models by training images, as secure aggregation gives
    of_mean: bool = False
    # the model is a step of the server's own from the old one, and no mean of local models
    own_step: bool = False
    one_rate: bool = False  # its arithmetic assumes one learning rate for all weights
    full_participation: bool = False  # the rule has no meaning when clients are absent
    # where each client trains by itself (--single-site), leaving it out is fair
    works_without_server: bool = False
    needs_one_label: str = ""  # as of Local
    # beside that of the local half, as of Local
    cost: Cost = "its class does not say what it costs"

    def warning(self, rounds: int, validation: bool) -> str:
        """A sentence as of Local.warning; validation: every client has a validation part."""
        return ""

    def measure_global(self, net: Network, client: ClientRound) -> None:
        """On the client, net is the global model: measure what this rule needs."""

    def measure_local(self, net: Network, client: ClientRound) -> None:
        """On the client, net is the trained local model."""

    def broadcast(self, memory: Tensors) -> Tensors:
        """On the server: what clients receive beside theta."""
        return {}

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        """On the server: the new global model, and the weights behind it.

        The model is float32 [P], the weights are float64 [K] in sum 1.
        Buffers (batch-norm statistics) come after the trainable numbers in theta and are the rule's
        to average too.
        """
        raise TypeError(f"{type(self).__name__} has no aggregate()")


def cross_entropy(
    logits: Tensor, y: Tensor, client: ClientRound, images: Tensor | None = None
) -> Tensor:
    """Mean cross-entropy, with the client's class prior added to the logits where one is set, or
    the loss that stands for it under --loss and --class-weights; of several
    labels per image the binary one of each.

    images: [B] their weights, of mean 1 over all images.
    """
    weights = client.class_weights
    smoothing = client.label_smoothing
    gamma = client.focal
    if y.ndim == 2:
        losses = binary_cross_entropy(logits, y, weights, smoothing, gamma)  # [B]
        if images is not None:
            losses = images * losses
        return losses.mean()
    if client.offset is not None:
        logits = logits + client.offset
    return weighted_cross_entropy(logits, y, weights, smoothing, gamma, images)
