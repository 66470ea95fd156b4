"""FCU, federated client unlearning: the model of a finished run forgets one client, then the others
train on.

Source: Deng, Luo and Chen, "Enable the right to be forgotten with federated client unlearning in
medical imaging", MICCAI 2024, arXiv 2407.02356. Text at hand: the abstract, and the authors' code
(dzp2095/FCU), which this follows. With features z of the client's model, z0 of the finished run's
theta0 and z1 of a network of random weights, the client that leaves trains by

    - log exp(2 cos(z, z1)) / (exp(2 cos(z, z0)) + exp(2 cos(z, z1)))

(model-contrastive unlearning), and after each of its rounds every matrix and kernel w of weights,
as a matrix with the Fourier transform F(w) and the phases P of F(w0), becomes

    F^-1(A exp(i P)),   A = |F(w)| at low frequencies, else |F(w0)|

(frequency-guided memory preservation); all else, such as norms and biases, is that of theta0.
After `forget` such rounds the others train on without it, as in FedAvg.

    fedcli train fcu --weights RUN --set leave=NAME

`fedcli audit` of both runs says what they still reveal about its images: the data are the same.
Without a finished run of the same clients in --weights it is refused: nothing was learned that
could be forgotten.
How we differ, and why:
- a round of the client is its local epochs; the code has 10 times 10 steps at a learning rate of
  1e-5.
- z1 is of the same network with the weights of its layers drawn anew, once; the code takes a
  network with the pretrained weights that all training began with. What no layer draws, such as the
  class token of a transformer, is that of theta0.
- models of those that stay count by images; in the code all the same.
A comment in the code says that the low frequencies are kept from theta0; it keeps the others.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UsageError
from .contract import (
    Aggregated,
    Aggregator,
    Batch,
    ClientRound,
    ClientUpdates,
    Local,
    Network,
    Tensors,
)
from .helpers import average, features_of
from .mixins import StartsFromRun, SubsetTraining
from .registry import register

Leave = Annotated[str, "name of the client that leaves; by default the first one"]
Forget = Annotated[int, "rounds in which it unlearns, before the others train on, >= 1"]
ROUNDS = 3


@dataclass(frozen=True)
class Unlearning(Local):
    """Plain local training; of the client that leaves, away from the finished run's features."""

    cost = "only the client that leaves looks at two other models"
    works_without_server = False
    not_recorded = "one client trains by another loss"
    all_weights = True

    leave: Leave = ""
    forget: Forget = ROUNDS

    def on_round_start(self, net: Network, client: ClientRound) -> None:
        if client.round > self.forget or not leaves(client, self.leave):
            return
        if "remembered" not in client.memory:
            client.memory["remembered"] = client.layout.read()
            client.memory["random"] = drawn_anew(net, client)
        client.scratch["others"] = client.memory["remembered"], client.memory["random"]

    def loss(self, net: Network, batch: Batch, client: ClientRound) -> Tensor:
        if "others" not in client.scratch:
            return super().loss(net, batch, client)
        others = features_of(net, batch.x, client, *client.scratch["others"])  # z0, z1
        z = net.features(batch.x)  # [B, D]
        to_remembered, to_random = (F.cosine_similarity(z, other) for other in others)  # [B] each
        nearer = to_remembered - to_random
        losses = F.softplus(2 * nearer)  # one exponential divided out
        return losses.mean()


@dataclass(frozen=True)
class WithoutOne(StartsFromRun, SubsetTraining, Aggregator):
    """The model of the client that leaves, with frequencies of theta0; then the others' mean."""

    cost = {}
    full_participation = True

    leave: Leave = ""
    forget: Forget = ROUNDS
    low: Annotated[
        float, "share of frequencies of each side that may change, in [0, 1]; 0 forgets nothing"
    ] = 0.7

    def warning(self, rounds: int, validation: bool) -> str:
        if rounds <= self.forget:
            return f"{rounds} rounds with forget={self.forget}: the others do not train on"
        if self.leave:
            return ""
        return "no hospital was named that leaves (--set leave=NAME), so the first one does"

    def measure_global(self, net: Network, client: ClientRound) -> None:
        trains = leaves(client, self.leave) == (client.round <= self.forget)
        client.report["trains"] = client.theta.new_tensor(float(trains))

    def select_clients(self, columns: Tensors, rows: Tensor) -> Tensor:
        trains = columns["trains"] > 0  # [K]
        if not trains.any():
            raise UsageError(f"there is no client {self.leave!r}", "--set leave=NAME of another")
        return trains

    def aggregate(self, theta: Tensor, updates: ClientUpdates, memory: Tensors) -> Aggregated:
        trains = self.select_clients(updates.columns, updates.rows)
        weights = updates.base * trains
        weights = weights / weights.sum()
        out = average(updates.theta, weights)  # [P]
        if updates.round == 1:
            memory["remembered"] = theta
        if updates.round > self.forget:
            return out, weights
        fused = memory["remembered"].clone()
        layout = updates.layout
        for name in layout.weights:
            shape = layout.shapes[name]
            if len(shape) > 1:
                span = layout.spans[name]
                before = fused[span].view(shape)
                after = out[span].view(shape)
                mixed = low_from(before, after, self.low)
                fused[span] = mixed.flatten()
        return fused, weights


@torch.no_grad()
def drawn_anew(net: Network, client: ClientRound) -> Tensor:
    """A model [P] whose layers start as they do without training, from the client's stream of this
    round; net stays as it is.
    """
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    for module in net.modules():
        redraw = getattr(module, "reset_parameters", None)
        if redraw is not None:
            redraw()
    model = client.layout.read()
    net.load_state_dict(state)
    return model


def leaves(client: ClientRound, name: str) -> bool:
    """Tell whether it is the client that leaves; without a name the first of the roster."""
    return client.name == name if name else client.row == 0


def low_from(before: Tensor, after: Tensor, low: float) -> Tensor:
    """Weights with the phases of `before`, and the amplitudes of `after` at low frequencies.

    [N, C] each, or kernels [N, C, H, W], which are seen as matrices [C H, W N].
    """
    if before.ndim == 4:
        inner = before.movedim(0, -1)  # [C, H, W, N], as the authors' code lays it out
        c, h, w, n = inner.shape
        other_inner = after.movedim(0, -1)
        sides = c * h, w * n
        first = inner.reshape(sides)
        second = other_inner.reshape(sides)
        matrix = low_from(first, second, low)
        return matrix.view(inner.shape).movedim(-1, 0)
    spectrum = torch.fft.fft2(before.flatten(1))
    other_spectrum = torch.fft.fft2(after.flatten(1))
    other = torch.fft.fftshift(other_spectrum.abs())
    amplitude = torch.fft.fftshift(spectrum.abs())
    square = tuple(_middle(side, low) for side in amplitude.shape)
    amplitude[square] = other[square]
    phases = spectrum.angle()
    mixed = torch.polar(torch.fft.ifftshift(amplitude), phases)
    return torch.fft.ifft2(mixed).real.view_as(before)


def _middle(side: int, share: float) -> slice:
    half = int(side * share / 2)
    return slice(side // 2 - half, side // 2 + half)


register(
    "fcu",
    Unlearning(),
    WithoutOne(),
    label="FCU",
    about="a hospital leaves: the model of a finished run forgets it, then the others train on",
    families="hospital",
)
