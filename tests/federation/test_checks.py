"""A hook that breaks the contract of methods is named, in one sentence with a hint."""

from dataclasses import dataclass, replace

import pytest
import torch
from conftest import toy_net, toy_shards

from fedcli.errors import FedcliError
from fedcli.federation.client import Training
from fedcli.federation.engines.in_process import InProcess
from fedcli.federation.server import Federation
from fedcli.methods import resolve
from fedcli.methods.fedavg import Mean, Plain
from fedcli.methods.helpers import average
from fedcli.methods.mixins import SubsetTraining
from fedcli.models.layout import Layout


def played(local=None, aggregator=None):
    """One round of FedAvg with one half in place of its own."""
    fedavg = resolve("fedavg")
    method = replace(
        fedavg, name="mine", local=local or fedavg.local, aggregator=aggregator or fedavg.aggregator
    )
    net = toy_net()
    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    federation = Federation(InProcess(method, net, Layout(net), toy_shards(), training), rounds=1)
    return federation.play(federation.first())


@dataclass(frozen=True)
class ByLoss(Mean):
    """Returns what it is given."""

    theta: object = None
    weights: object = None

    def aggregate(self, theta, updates, memory):
        mean = average(updates.theta, updates.base)
        return (
            mean if self.theta is None else self.theta,
            updates.base if self.weights is None else self.weights,
        )


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (torch.tensor([1.0, 1.0, 0.5, 0.5]), "returned weights that sum to 3"),
        (torch.tensor([0.5, 0.5, 0.5, -0.5]), r"returned a negative weight \(-0.5\)"),
        (torch.tensor([0.5, 0.5, 0.0, torch.nan]), "returned weights that are not finite"),
        (
            torch.tensor([0.5, 0.5]),
            r"returned a float32 tensor of shape \[2\] as weights of 4 clients",
        ),
        ([0.25] * 4, "returned a list, not a tensor as weights of 4 clients"),
    ],
)
def test_weights_are_shares_of_the_clients(weights, sentence):
    with pytest.raises(
        FedcliError, match=rf"aggregate of ByLoss \(method mine\) {sentence}"
    ) as error:
        played(aggregator=ByLoss(weights=weights))
    assert "sum to 1" in error.value.hint
    assert error.value.code == 1


@pytest.mark.parametrize(
    ("theta", "sentence"),
    [
        (torch.zeros(5), r"returned a model of shape \[5\] and type float32"),
        (lambda size: torch.zeros(size, dtype=torch.float64), "and type float64"),
        (0.0, "returned a float, not a tensor as the model"),
    ],
)
def test_a_model_has_the_shape_and_type_of_the_one_before(theta, sentence):
    size = Layout(toy_net()).size
    with pytest.raises(FedcliError, match=rf"aggregate of ByLoss \(method mine\).*{sentence}"):
        played(aggregator=ByLoss(theta=theta(size) if callable(theta) else theta))


class KeepsANumber(Mean):
    def aggregate(self, theta, updates, memory):
        memory["round"] = 1.0
        return super().aggregate(theta, updates, memory)


class SendsANumber(Mean):
    def broadcast(self, memory):
        return {"step": 3}


class MeasuresANumber(Mean):
    def measure_local(self, net, client):
        client.report["loss"] = 0.3


class MeasuresSomeClients(Mean):
    def measure_global(self, net, client):
        if client.name != "south":
            client.report["loss"] = torch.tensor(0.3)


class MeasuresInShapes(Mean):
    def measure_global(self, net, client):
        client.report["loss"] = torch.zeros(client.row)


class RemembersANumber(Plain):
    def on_round_start(self, net, client):
        client.memory["visits"] = 1


class SharesANumber(Plain):
    def post_aggregate(self, theta, updates, weights, shared):
        shared["control"] = [1.0]
        return theta


class LosesTheModel(Plain):
    def post_aggregate(self, theta, updates, weights, shared):
        shared["model"] = theta


class SelectsNobody(Mean, SubsetTraining):
    trains_subset = True

    def select_clients(self, columns, rows):
        return torch.zeros(len(rows), dtype=torch.bool)


class SelectsByName(SelectsNobody):
    def select_clients(self, columns, rows):
        return ["north"]


@pytest.mark.parametrize(
    ("half", "sentence"),
    [
        (
            KeepsANumber(),
            "aggregate of KeepsANumber .* put a float, not a tensor into the server's memory as 'round'",
        ),
        (
            SendsANumber(),
            "broadcast of SendsANumber .* put an int, not a tensor into what clients receive as 'step'",
        ),
        (
            MeasuresANumber(),
            "measure_local of MeasuresANumber .* put a float, not a tensor into its report as 'loss'",
        ),
        (MeasuresSomeClients(), "mine: client north reported 'loss', client south did not"),
        (
            MeasuresInShapes(),
            "'loss' as a float32 tensor of shape .0., client south as a float32 tensor of shape .1.",
        ),
        (
            RemembersANumber(),
            "on_round_start of RemembersANumber .* into the client's memory as 'visits'",
        ),
        (
            SharesANumber(),
            "post_aggregate of SharesANumber .* put a list, not a tensor into what all clients share",
        ),
        (
            LosesTheModel(),
            "post_aggregate of LosesTheModel .* returned a NoneType, not a tensor as the model",
        ),
        (SelectsNobody(), "select_clients of SelectsNobody .* selected nobody"),
        (
            SelectsByName(),
            "select_clients of SelectsByName .* returned a list, not a tensor for 4 clients",
        ),
    ],
)
def test_every_hook_is_named(half, sentence):
    with pytest.raises(FedcliError, match=sentence) as error:
        played(**{"local" if isinstance(half, Plain) else "aggregator": half})
    assert error.value.hint
    assert error.value.code == 1
