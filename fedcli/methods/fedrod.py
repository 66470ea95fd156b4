"""FedRoD: a balanced softmax for the model that all share, and a light classifier beside it for
each client's own data.

Source: Chen and Chao, "On bridging generic and personalized federated learning for image
classification", ICLR 2022, arXiv 2107.00778, section 4. With z the features, G the generic
classifier and P_k the client's own:

    generic     cross-entropy of G(z) + log(n_kc / n_k), which moves features and G, both averaged
    personal    cross-entropy of G(z) + P_k(z), which moves P_k alone; P_k never leaves the client

The client's own model, scored beside the global one, is its features after training with the
classifier G + P_k: the sum of two linear layers is one. Parts and order of the two steps are those
of PFLlib's FedROD. How we differ, and why:
- P_k starts at 0, so that a client's first own model is the generic one; PFLlib starts it as a copy
  of G. The paper's second form, where a hypernetwork makes P_k from the class shares, is left out.
- P_k's steps have an optimizer of their own (solver, at the run's learning rate), which starts
  afresh in each round, since a method does not see the run's. solver=sgd is the paper's.
- a class the client has no image of counts as a share of 1e-12, as under `bsm`.
The paper's text was not at hand, so its equations are not numbered here.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .contract import Batch, ClientRound, Local, Network, cross_entropy
from .fedavg import Mean
from .losses import weighted_cross_entropy
from .mixins import LinearHeadOnly
from .priors import offset
from .registry import register
from .solvers import Solver


@dataclass(frozen=True)
class TwoPredictors(LinearHeadOnly, Local):
    """A balanced softmax for what is shared, then a step of the client's own classifier on top of
    it.
    """

    cost = {"step": 1}
    not_recorded = "the step of the client's own classifier has an optimizer of its own"
    own_prior = True
    works_without_server = False
    needs_one_label = "it balances one softmax over all classes"

    solver: Annotated[Literal["adam", "sgd"], "optimizer of the client's own classifier"] = "adam"

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        client.offset = offset("bsm", client.shard.class_counts)  # [C]
        head = net.head  # weight [C, D], bias [C]
        shape = head.out_features, head.in_features + 1
        zeros = torch.zeros(shape, device=head.weight.device)
        previous = client.memory.get("own_head", zeros)
        p_k = nn.Parameter(previous.clone())  # [C, D + 1], its bias last
        solver = Solver(self.solver, [p_k], client.lr)
        client.scratch.update(own=p_k, solver=solver)

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        features = net.features(batch.x)  # [B, D]
        logits = net.head(features)  # [B, C]
        loss = cross_entropy(logits, batch.y, client)
        loss.backward()
        p_k = client.scratch["own"]
        own_weight = p_k[:, :-1]
        own_bias = p_k[:, -1]
        change = F.linear(features.detach(), own_weight, own_bias)  # [B, C]
        personal = logits.detach() + change
        p_k.grad = None
        personal_loss = weighted_cross_entropy(
            personal,
            batch.y,
            client.class_weights,
            client.label_smoothing,
            client.focal,
        )
        personal_loss.backward()
        client.scratch["solver"].step()
        return loss.detach()

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        p_k = client.scratch["own"].detach()
        model = client.layout.read()
        spans = client.layout.spans
        own_weight = p_k[:, :-1]
        model[spans["head.weight"]] += own_weight.flatten()
        own_bias = p_k[:, -1]
        model[spans["head.bias"]] += own_bias
        client.memory.update(own_head=p_k, model=model)


register(
    "fedrod",
    TwoPredictors(),
    Mean(),
    label="FedRoD",
    about="trains the shared model for balanced classes, and gives each hospital a "
    "classifier for its own mix",
    families="personal rare",
    aliases=("fed-rod",),
)
