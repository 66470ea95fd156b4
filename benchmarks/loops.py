"""Plain loops beside fedcli: on a process for each core, and in the shape of code that is released
with papers.

The second is written anew after what papers' repositories have in common, FedISM's among them:
images are files that PIL reads and albumentations normalises one by one in every epoch, in worker
processes that start anew for every client, and each client trains a deep copy of the model.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from problem import BATCH, LEARNING_RATE, Problem, Train, in_worker, train_epoch, weights
from shell import temporary_folder
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fedcli.bench.measuring import threads
from fedcli.data.shard import Shard
from fedcli.data.sources.formats.photographs import import_albumentations
from fedcli.data.transforms import IMAGENET_MEAN, IMAGENET_STD
from fedcli.system import interrupts

Numbers = Mapping[str, np.ndarray]  # a state_dict that pickles without shared memory


def run_processes(problem: Problem, measure: Callable[[Train], None]) -> None:
    """Plain PyTorch on a process of one thread for each core; a round is one message to each and
    one back.
    """
    count = min(problem.cores, problem.clients)
    parts = [problem.names[k::count] for k in range(count)]
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:

        def train() -> Tensor:
            net = problem.net()
            theta: Numbers = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
            for round in range(1, problem.rounds + 1):
                with interrupts.left_to_parent():  # the first call starts the processes
                    trained = pool.map(
                        _sum_of_models,
                        repeat(problem),
                        parts,
                        repeat(theta),
                        repeat(round),
                    )
                sums = list(trained)
                theta = {
                    name: (sum(part[name] for part in sums) / problem.clients).astype(start.dtype)
                    for name, start in theta.items()
                }
            net.load_state_dict(
                {name: torch.from_numpy(np.asarray(numbers)) for name, numbers in theta.items()}
            )
            return weights(net)

        measure(train)


def _sum_of_models(
    problem: Problem,
    names: Sequence[str],
    theta: Numbers,
    round: int,
) -> Numbers:
    """Trains these clients from one start; the sum of their models, float64."""
    net, shards = in_worker(problem)
    start = {name: torch.from_numpy(np.asarray(numbers)) for name, numbers in theta.items()}
    total: dict[str, np.ndarray] = {
        name: np.zeros(numbers.shape) for name, numbers in theta.items()
    }
    for client in names:
        net.load_state_dict(start)
        train_epoch(net, shards[client], problem.order(client, round))
        for name, tensor in net.state_dict().items():
            total[name] = total[name] + tensor.numpy()
    return total


def run_released(problem: Problem, measure: Callable[[Train], None]) -> None:
    """One client after another with all threads: a DataLoader over files, a deep copy of the model
    for each.
    """
    with temporary_folder() as folder:
        files = {
            client: _files(folder / client, shard) for client, shard in problem.shards().items()
        }

        def train() -> Tensor:
            with threads(problem.cores):
                return weights(_released(problem, files))

        measure(train)


def _released(problem: Problem, files: Mapping[str, "ImageFiles"]) -> nn.Module:
    net = problem.net().train()
    for round in range(1, problem.rounds + 1):
        models = []
        for client in problem.names:
            model = copy.deepcopy(net)
            optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
            order = problem.order(client, round).tolist()
            with interrupts.left_to_parent():
                batches = iter(
                    DataLoader(files[client], BATCH, sampler=order, num_workers=problem.cores)
                )
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            models.append(copy.deepcopy(model.state_dict()))
        mean = {name: sum(model[name] for model in models) / len(models) for name in models[0]}
        net.load_state_dict(
            {name: tensor.to(models[0][name].dtype) for name, tensor in mean.items()}
        )
    return net


class ImageFiles(Dataset):
    """Files of images and their classes; each is read, normalised and made a tensor by itself."""

    def __init__(self, files: Sequence[Path], y: Sequence[int]):
        albumentations = import_albumentations()
        from albumentations.pytorch import ToTensorV2

        normal = albumentations.Normalize(IMAGENET_MEAN, IMAGENET_STD)
        self.files, self.y, self.transform = (
            files,
            y,
            albumentations.Compose([normal, ToTensorV2()]),
        )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, at: int) -> tuple[Any, int]:
        with Image.open(self.files[at]) as image:
            pixels = np.asarray(image.convert("RGB"))
        return self.transform(image=pixels)["image"], self.y[at]


def _files(folder: Path, shard: Shard) -> ImageFiles:
    """A client's images as PNG, which keeps every pixel."""
    folder.mkdir()
    files = []
    for k, pixels in enumerate(shard.images[shard.rows].permute(0, 2, 3, 1).numpy()):
        files.append(folder / f"{k:05d}.png")
        Image.fromarray(pixels).save(files[-1])
    return ImageFiles(files, shard.y.tolist())
