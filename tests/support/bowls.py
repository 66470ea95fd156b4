"""Two clients with 10 and 30 images on parabolas of known optimum, and where a federation of them comes to rest."""

from dataclasses import replace

import torch
from conftest import toy_shard
from torch import nn

from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.methods.contract import Local
from fedcli.models.layout import Layout

STEEP = {"north": 1.0, "south": 4.0}
CENTRE = {"north": 0.0, "south": 1.0}
IMAGES = {"north": 10, "south": 30}


def optimum(north: float, south: float) -> float:
    """Where the sum of the parabolas with these weights is least."""
    p = {"north": north, "south": south}
    return sum(p[c] * STEEP[c] * CENTRE[c] for c in p) / sum(p[c] * STEEP[c] for c in p)


def on_bowls(local: Local, **more) -> Local:
    """The local half with a parabola as its loss, and with these attributes."""

    def loss(self, net, batch, client):
        return STEEP[client.name] / 2 * (net.w - CENTRE[client.name]).square().sum()

    return type("OnBowls", (type(local),), {"loss": loss, **more})(**vars(local))


def settled(
    spec: str, settings=None, *, rounds: int = 60, batch_size: int = 100, epochs: int = 10, **more
) -> float:
    """The model after so many rounds, of which it needs far fewer; more: attributes of the local half.

    Batches of 100 give both clients the same number of steps, batches of 10 one and three an epoch.
    """
    net = nn.Module()
    net.attributes = {}
    net.register_parameter("w", nn.Parameter(torch.tensor([5.0])))
    method = resolve(spec, settings)
    method = replace(method, local=on_bowls(method.local, **more))
    training = Training(
        optimizer="sgd", lr=0.05, weight_decay=0.0, batch_size=batch_size, epochs=epochs
    )
    shards = {client: toy_shard(client, count) for client, count in IMAGES.items()}
    federation = Federation(InProcess(method, net, Layout(net), shards, training), rounds)
    state = federation.first()
    for _ in range(rounds):
        state = federation.play(state).state
    return state.theta.item()
