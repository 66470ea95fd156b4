"""BlazeFL by its own FedAvg server and client trainers, which are given a network and batches.

Source: github.com/blazefl/blazefl, version 2.0.3, by its author's quickstart. A pool of processes
is started anew in every round; models go through shared memory. Where processes are forked they
find images and network in memory. A pool of threads is what its author recommends, and means for a
Python without a global interpreter lock. Where its quickstart makes a batch image by image, a whole
batch is made here, as on the other sides.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from problem import BATCH, LEARNING_RATE, Problem, Train, weights
from shell import temporary_folder
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fedcli.bench.measuring import threads
from fedcli.data import transforms
from fedcli.data.shard import Shard


class Networks:
    """BlazeFL's ModelSelector: a copy of the starting network for each client."""

    def __init__(self, problem: Problem):
        self.problem = problem

    def select_model(self, model_name: str) -> nn.Module:
        torch.set_num_threads(1)  # of the process or thread that asks: there is one for each core
        return copy.deepcopy(_in_memory(self.problem)[0])


class Users:
    """BlazeFL's PartitionedDataset: a client's images in the order of a round. Goes to processes
    without the images.

    Attributes:
        round: t from 1, set by the loop over rounds.
    """

    def __init__(self, problem: Problem):
        self.problem, self.round = problem, 1

    def get_dataloader(
        self, type_: str, cid: int, batch_size: int, generator: Generator | None
    ) -> DataLoader:
        client = self.problem.names[cid]
        order = self.problem.order(client, self.round)
        batches: Any = order.split(batch_size)  # a sampler may yield the places of a whole batch
        return DataLoader(
            _Batches(_in_memory(self.problem)[1][client]),
            batch_size=None,
            sampler=batches,
        )

    def set_dataset(self, type_: str, cid: int, dataset: Dataset) -> None:
        """For datasets that change while they are read; these do not."""


class _Batches(Dataset):
    """A client's batches, each by the places [B] of its images."""

    def __init__(self, shard: Shard):
        self.shard = shard

    def __getitem__(self, at: Tensor) -> tuple[Tensor, Tensor]:
        shard = self.shard
        return transforms.to_input(shard.images[shard.rows[at]], channels=shard.channels), shard.y[
            at
        ]


@functools.cache
def _in_memory(problem: Problem) -> tuple[nn.Module, dict[str, Shard]]:
    """The starting network, which nobody trains, and all images."""
    return problem.net(), problem.shards()


def run_processes(problem: Problem, measure: Callable[[Train], None]) -> None:
    """A pool of a process for each core, models in shared memory."""
    from blazefl.contrib import FedAvgProcessPoolClientTrainer
    from blazefl.core import IPCMode

    with temporary_folder() as folder:
        folders = {"share_dir": folder / "share", "state_dir": folder / "states"}
        trainer = FedAvgProcessPoolClientTrainer(
            **_asked(problem), **folders, ipc_mode=IPCMode.SHARED_MEMORY
        )
        # an optimizer imports a compiler, which forked processes would do anew in every round
        torch.optim.SGD(_in_memory(problem)[0].parameters(), lr=LEARNING_RATE)
        with trainer.manager:
            measure(functools.partial(_train, problem, trainer))


def run_threads(problem: Problem, measure: Callable[[Train], None]) -> None:
    """A pool of a thread for each core."""
    from blazefl.contrib import FedAvgThreadPoolClientTrainer

    measure(functools.partial(_train, problem, FedAvgThreadPoolClientTrainer(**_asked(problem))))


def _asked(problem: Problem) -> dict[str, Any]:
    """What both trainers take."""
    return {
        "model_selector": Networks(problem),
        "model_name": problem.model,
        "dataset": Users(problem),
        "device": "cpu",
        "num_clients": problem.clients,
        "epochs": 1,
        "batch_size": BATCH,
        "lr": LEARNING_RATE,
        "seed": 0,
        "num_parallels": problem.cores,
    }


def _train(problem: Problem, trainer: Any) -> Tensor:
    """BlazeFL's server: all rounds from the start; the trained weights [T]."""
    from blazefl.contrib import FedAvgBaseServerHandler

    trainer.progress_fn = iter  # in place of a bar
    users = trainer.dataset
    with threads(1):  # forked processes start with as many
        server = FedAvgBaseServerHandler(
            trainer.model_selector,
            problem.model,
            users,
            problem.rounds,
            problem.clients,
            1.0,
            "cpu",
            BATCH,
            0,
        )
        while not server.if_stop():
            users.round = server.round + 1
            trainer.local_process(server.downlink_package(), server.sample_clients())
            for model in trainer.uplink_package():
                server.load(model)
    return weights(server.model)
