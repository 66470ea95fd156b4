"""Clients whose images have groups that a test chooses."""

from dataclasses import replace

import torch
from conftest import client_updates

from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound
from fedcli.models.layout import Layout


def client_of(net, shard, shared=None):
    layout = Layout(net)
    return ClientRound("north", 0, 1, 3, 0.1, layout.read(), shared or {}, layout, shard, None, {})


def of_group(shard, values):
    return replace(shard, groups={"sex": torch.as_tensor(values)})


def moved(spec, counts, losses, shared=None, **settings):
    """The state that the server shares after a round with these sums by client and group."""
    shared = {} if shared is None else dict(shared)
    table = client_updates(
        torch.zeros(len(counts), 1),
        group_counts=torch.tensor(counts).double(),
        group_losses=torch.tensor(losses).double(),
    )
    resolve(spec, settings).local.post_aggregate(torch.zeros(1), table, table.base, shared)
    return {name: value.tolist() for name, value in shared.items()}
