"""A local step on the loss ||w||^2 / 2, whose gradient is w."""

import torch
from conftest import flat_layout
from torch import nn

from fedcli.methods import resolve
from fedcli.methods.contract import ClientRound, Local


def gradient_at(spec, settings, w, *, shared=None, memory=None, theta=None):
    """The gradient that a step leaves at w, the loss for the record, and the client after its round of one step."""
    layout = flat_layout(len(w))
    layout.load(torch.tensor(w))
    theta = torch.tensor(theta or w)
    client = ClientRound(
        "a", 0, 2, 3, 0.1, theta, shared or {}, layout, None, None, dict(memory or {}), steps=1
    )
    local = resolve(spec, settings).local

    def squares(self, net, batch, client):
        client.layout.grad.add_(client.layout.params)
        return client.layout.params.square().sum() / 2

    plain = Local.gradient
    Local.gradient = squares
    try:
        local.on_round_start(nn.Module(), client)
        loss = local.gradient(nn.Module(), None, client)
        local.on_round_end(nn.Module(), client)
    finally:
        Local.gradient = plain
    assert layout.params.tolist() == w  # the model itself has not moved
    return layout.grad.tolist(), loss.item(), client
