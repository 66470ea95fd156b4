"""One of pfl-research's processes, which torchrun starts: trains whenever the first of them is told
to.

Source: Granqvist et al., pfl-research, NeurIPS 2024, arXiv 2404.06430.
"""

import itertools
import json
import os
import sys
from multiprocessing.connection import Client

import torch
import torch.distributed
import torch.nn.functional as F
from frameworks import TRAIN
from problem import BATCH, LEARNING_RATE, Problem, Train, weights
from torch import Tensor, nn

from fedcli.data import transforms
from fedcli.data.shard import Shard


def main(address: str, asked: str) -> None:
    """Train until told to end; address: of the socket of the process that tells."""
    problem = Problem(**json.loads(asked))
    torch.set_num_threads(max(1, problem.cores // int(os.environ["WORLD_SIZE"])))
    train = training(problem)  # joins the group of processes
    first = torch.distributed.get_rank() == 0
    connection = Client(address, "AF_UNIX") if first else None
    while _told(connection is not None and connection.recv() == TRAIN):
        trained = train()
        if connection is not None:
            connection.send(trained.numpy())
    torch.distributed.destroy_process_group()


def _told(first: bool) -> bool:
    """What the first process was told, in all of them."""
    going_on = torch.tensor(int(first))
    torch.distributed.broadcast(going_on, 0)
    return bool(going_on)


class _Loss(nn.Module):
    """A network as pfl-research expects it: with the loss of a batch, and what to measure."""

    def __init__(self, net: nn.Module, channels: int):
        super().__init__()
        self.net, self.channels = net, channels

    def loss(self, images: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.net(transforms.to_input(images, channels=self.channels)), y)

    def metrics(self, images: Tensor, y: Tensor) -> dict:
        """pfl-research needs a metric in its first round: the number of images, which costs
        nothing.
        """
        from pfl.metrics import Weighted

        return {"images": Weighted.from_unweighted(len(y))}


def training(problem: Problem) -> Train:
    """All rounds by SimulatedBackend and FederatedAveraging, users' tensors in memory."""
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    shards, net = problem.shards(), problem.net()
    begin = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    central = torch.optim.SGD(net.parameters(), lr=1.0)
    model = PyTorchModel(
        _Loss(net, shards[problem.names[0]].channels),
        torch.optim.SGD,
        central,
    )
    plan = NNAlgorithmParams(
        central_num_iterations=problem.rounds,
        evaluation_frequency=problem.rounds,
        train_cohort_size=problem.clients,
        val_cohort_size=None,
    )
    local = NNTrainHyperParams(
        local_batch_size=BATCH,
        local_num_epochs=1,
        local_learning_rate=LEARNING_RATE,
    )

    def train() -> Tensor:
        net.load_state_dict(begin)
        data = _pfl_users(problem, shards)
        backend = SimulatedBackend(
            data,
            data,
            postprocessors=[WeightByDatapoints()],
        )
        FederatedAveraging().run(
            plan,
            backend,
            model,
            local,
            send_metrics_to_platform=False,
        )
        return weights(net)

    return train


def _pfl_users(problem: Problem, shards: dict[str, Shard]):
    """Every user once a round, with its images in that round's order."""
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset

    def user(turn: tuple[int, str]) -> PyTorchTensorDataset:
        round, client = turn
        shard, order = shards[client], problem.order(client, round)
        return PyTorchTensorDataset(
            (shard.images[shard.rows[order]], shard.y[order]), user_id=client
        )

    turns = ((round, client) for round in itertools.count(1) for client in problem.names)
    return FederatedDataset(user, turns.__next__)


if __name__ == "__main__":
    main(*sys.argv[1:])
