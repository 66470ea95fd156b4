"""FedALA: a client starts each round from a mixture of its last model and the global one, learned
number by number.

Source: Zhang, Hua, Wang, Song, Xue, Ma and Guan, "FedALA: adaptive local aggregation for
personalized federated learning", AAAI 2023, arXiv 2212.01197, Algorithm 1. With l the client's last
model and g the global one, of the last p layers (of the others the client takes g)

    start = l + W (g - l)                         W [numbers of those layers], 1 at first
    W <- cut to [0, 1] of W - eta grad (g - l)    grad: of the loss at start, over a share of
                                                  the client's images

In a client's first such round W is learned until the last ten passes' losses have a standard
deviation below 0.1, later by one pass. The model after training is scored as the client's own.
Steps, defaults (eta = 1, 80 % of the images) and the rule that ends the first learning are those of
the authors' code (TsingZ0/FedALA, in PFLlib). How we differ, and why:
- p counts layers with trained numbers from the end, where that code counts tensors; 1 is the
  classifier.
- the share of images is drawn anew in each round, where the code takes a run of neighbours; the
  last, smaller batch counts too. Images are seen in eval mode while W is learned, so batch-norm
  statistics do not move.
- losses are means over a pass, where that code looks at its last batch; the first learning ends
  after `most_passes` at the latest.
The paper's text was not at hand; the number of the algorithm is not checked.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..seeds import derive
from .contract import Batch, ClientRound, Local, Network
from .fedavg import Mean
from .registry import register

SETTLED = 0.1  # standard deviation of the losses of the last passes
LAST = 10  # passes whose losses are compared


@dataclass(frozen=True)
class AdaptiveStart(Local):
    """Plain local training from a mixture of the client's last model and the global one."""

    cost = {"step": 1, "gradient": 1}
    not_recorded = "the first step of a round starts from another model than the global one"
    works_without_server = False

    layers: Annotated[int, "p, layers at the end of the network that are mixed, >= 1"] = 1
    eta: Annotated[float, "step on the mixture's weights, >= 0; 0 is FedAvg"] = 1.0
    share: Annotated[float, "of the client's images that W is learned on, in (0, 1]"] = 0.8
    ala_batch: Annotated[int, "images in a step on W, >= 1"] = 32
    most_passes: Annotated[int, "largest number of passes of the first learning, >= 1"] = 100

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        if "model" in client.memory:
            net.eval()
            received = client.layout.read()  # [P]
            self._learn(net, client)
            client.scratch["start"] = client.layout.params.clone()  # [T]
            client.layout.load(received)  # what the server rule measures is the global model
            client.layout.zero_grad()

    def _learn(self, net: Network, client: ClientRound) -> None:
        """Leave the client's start in net, and W in its memory."""
        layout = client.layout
        upper = upper_layers(layout.spans, layout.weights, self.layers)
        g = torch.cat([layout.params[span] for span in upper])  # [U]
        parts = [client.memory["model"][span] for span in upper]
        last = torch.cat(parts)  # [U]
        difference = g - last  # [U]
        learned = "ala_weights" in client.memory
        w = client.memory["ala_weights"] if learned else torch.ones_like(g)  # [U]
        place(layout.params, upper, last + w * difference)
        batches = self._batches(client)
        losses = list[float]()
        while True:
            total = 0.0
            for batch in batches:
                layout.zero_grad()
                total += float(super().gradient(net, batch, client))
                slope = torch.cat([layout.grad[span] for span in upper])  # [U]
                moved = self.eta * slope * difference
                w = (w - moved).clamp(0, 1)  # Alg. 1, W
                place(layout.params, upper, last + w * difference)  # Alg. 1, the start
            losses.append(total / len(batches))
            if learned or len(losses) >= self.most_passes or settled(losses):
                break
        client.memory["ala_weights"] = w

    def _batches(self, client: ClientRound) -> list[Batch]:
        """The share of the client's images that W is learned on in this round."""
        shard = client.shard
        seed = derive("ala images", client.seed, client.round, client.name)
        stream = torch.Generator().manual_seed(seed)
        count = max(1, round(self.share * len(shard)))
        order = torch.randperm(len(shard), generator=stream)[:count]
        parts = order.to(shard.rows.device).split(self.ala_batch)
        return [shard.batch(images) for images in parts]

    def gradient(
        self,
        net: Network,
        batch: Batch,
        client: ClientRound,
    ) -> Tensor:
        if "start" in client.scratch:  # the first step of the round
            client.layout.params.copy_(client.scratch.pop("start"))
        return super().gradient(net, batch, client)

    def on_round_end(self, net: Network, client: ClientRound) -> None:
        client.memory["model"] = client.layout.read()


def settled(losses: list[float]) -> bool:
    """True where the losses of the last passes hardly differ."""
    if len(losses) <= LAST:
        return False
    latest = torch.tensor(losses[-LAST:], dtype=torch.float64)
    spread = latest.std(unbiased=False)
    return bool(spread < SETTLED)


def upper_layers(
    spans: dict[str, slice],
    weights: tuple[str, ...],
    count: int,
) -> list[slice]:
    """The spans in theta of the tensors of the last `count` layers with trained numbers."""
    layer_of = {name: name.rpartition(".")[0] for name in weights}
    layer_names = dict.fromkeys(layer_of.values())
    layers = list(layer_names)[-count:]
    return [spans[name] for name in weights if layer_of[name] in layers]


def place(params: Tensor, spans: list[slice], values: Tensor) -> None:
    """Write values [U] to these places of params [T]."""
    sizes = [span.stop - span.start for span in spans]
    parts = values.split(sizes)
    for span, part in zip(spans, parts, strict=True):
        params[span] = part


register(
    "fedala",
    AdaptiveStart(),
    Mean(),
    label="FedALA",
    about="lets each hospital blend its last model with the shared one before it trains",
    families="personal",
)
