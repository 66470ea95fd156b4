"""The same federated training by fedcli, pfl-research and Flower, timed alternately.

Source: Granqvist et al., pfl-research, NeurIPS 2024, arXiv 2404.06430; Beutel et al., Flower, 2020, arXiv 2007.14390.

Every side trains the same clients on the same batches in the same order from the same start: one epoch of plain SGD a
round, models averaged by image count. They differ only in what happens around the steps: how the data is kept, how the
model is set, read, sent and averaged. Every side has the same number of threads and trains one client
at a time. A ratio is given only where both sides end at the same weights.

Neither peer scores anything. pfl-research averages weights only, the others batch-norm statistics too;
these do not act on training. Flower runs its simulation runtime, which needs ray, with one worker that keeps the
network and the images from message to message; much of its own time is spent waiting, as it looks for new messages
every tenth of a second.
"""

import functools
import importlib.util
import itertools
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import models
from ..data import transforms
from ..data.shard import Shard
from ..errors import FedcliError
from ..federation.client import Training
from ..federation.engines.in_process import InProcess
from ..federation.server import Federation
from ..methods import resolve
from ..models.layout import Layout
from ..seeds import derive
from . import engine
from .measuring import threads

BATCH = 32
LEARNING_RATE = 5e-3  # small, so that rounding does not grow from step to step
TOLERANCE = 3e-3  # largest distance of two final models, as a share of that from the start; rounding leaves 2e-4
INSTALL = "pip install 'fedcli[peers]'"

Train = Callable[[], Tensor]  # all rounds from the start; the trained weights [T] at the end


@dataclass(frozen=True)
class Problem:
    """The training that every side does. Plain data, so that another process can make the same tensors from it.

    Attributes:
        images: per client.
    """

    model: str = "cnn"
    size: int = 32
    clients: int = 20
    images: int = 64
    rounds: int = 3

    @property
    def names(self) -> list[str]:
        return [f"client-{k:02d}" for k in range(self.clients)]

    @property
    def threads(self) -> int:
        return models.describe(self.model).threads or torch.get_num_threads()

    def shards(self) -> dict[str, Shard]:
        return engine._shards(self.clients, self.images, self.size, "cpu")

    def net(self) -> models.Network:
        """The network with the starting weights."""
        return engine._net(self.model, self.size, "cpu")

    def order(self, client: str, round: int) -> Tensor:
        """The indices of a client's images in the order of one round, t from 1: int64 [N]."""
        stream = torch.Generator().manual_seed(derive("shuffle", 0, round, client, 0))
        return torch.randperm(self.images, generator=stream)


@dataclass(frozen=True)
class Compared:
    """A comparison of one peer with fedcli.

    Attributes:
        timing: with fedcli as ours and the peer as bare.
        start_seconds: until the peer had trained once, its imports and processes included.
    """

    peer: str
    timing: engine.Timing
    start_seconds: float


@dataclass(frozen=True)
class Peer:
    """A framework to compare with.

    Attributes:
        about: how it runs here, for the row's name.
        package: its name in pip.
        modules: which must be importable.
        run: calls its second argument with a Train while the framework is up. Flower needs it: all that is
            measured runs inside its server.
    """

    about: str
    package: str
    modules: tuple[str, ...]
    run: Callable[[Problem, Callable[[Train], None]], None]

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(module) for module in self.modules)


def compare(name: str, problem: Problem, repeats: int) -> Compared:
    """Train by fedcli and by a peer in turns. Raises FedcliError where they end at different weights."""
    peer, begin = PEERS[name], time.perf_counter()
    results: list[Compared] = []

    def measure(train: Train) -> None:
        train()
        start_seconds = time.perf_counter() - begin
        results.append(Compared(name, _alternately(name, problem, train, repeats), start_seconds))

    with threads(problem.threads):
        peer.run(problem, measure)
    return results[0]


def _alternately(name: str, problem: Problem, peer_training: Train, repeats: int) -> engine.Timing:
    """Times of all rounds; the final models of every repetition must agree."""
    own_training, start = fedcli_training(problem), weights(problem.net())
    final: dict[str, list[Tensor]] = {"fedcli": [], name: []}

    def keep(side: str, train: Train) -> None:
        final[side].append(train())

    seconds = engine._alternate(lambda: keep("fedcli", own_training), lambda: keep(name, peer_training), repeats)
    for ours, theirs in zip(*final.values(), strict=True):
        check_same_model(name, start, ours, theirs)
    peer, images = PEERS[name], problem.rounds * problem.clients * problem.images
    what = f"fedavg beside {name} {version(peer.package)} ({peer.about}), {problem.model}, {problem.size} px, sgd"
    return engine.Timing(what, *seconds, images=images)


def check_same_model(name: str, start: Tensor, ours: Tensor, theirs: Tensor) -> None:
    """Raise FedcliError unless both trained weights [T] are the same but for rounding.

    Their distance is compared with that from the start: norms alone agree where neither has moved far.
    """
    moved = float((ours - start).norm())
    distance = float((ours - theirs).norm())
    if distance < TOLERANCE * moved:  # false where nothing has moved, and for NaN
        return
    raise FedcliError(
        f"{name} did not train as fedcli did: the norm of the final parameters is {float(theirs.norm()):.6f}, "
        f"fedcli's is {float(ours.norm()):.6f}; their distance is {distance:.2g}, that from the start {moved:.2g}",
        f"no ratio is given, it would compare different work: {INSTALL} gets the {name} fedcli was tested with",
    )


def weights(net: nn.Module) -> Tensor:
    """A copy of all parameters as one vector [T]."""
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def fedcli_clients(problem: Problem, remake: Callable[[str, int], InProcess] | None = None) -> InProcess:
    """What trains the problem's clients; remake: the same in another process."""
    net = problem.net()
    training = Training("sgd", lr=LEARNING_RATE, momentum=0.0, weight_decay=0.0, batch_size=BATCH)
    return InProcess(resolve("fedavg"), net, Layout(net), problem.shards(), training, remake=remake)


def fedcli_training(problem: Problem) -> Train:
    """fedcli's side."""
    federation = Federation(fedcli_clients(problem), rounds=problem.rounds)
    start = federation.first()

    def train() -> Tensor:
        state = start
        for _ in range(problem.rounds):
            state = federation.play(state).state
        return state.theta[: federation.layout.trainable].clone()

    return train


class _Loss(nn.Module):
    """A network as pfl-research expects it: with the loss of a batch, and what to measure."""

    def __init__(self, net: nn.Module, channels: int):
        super().__init__()
        self.net, self.channels = net, channels

    def loss(self, images: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.net(transforms.to_input(images, channels=self.channels)), y)

    def metrics(self, images: Tensor, y: Tensor) -> dict:
        """pfl-research needs a metric in its first round: the number of images, which costs nothing."""
        from pfl.metrics import Weighted

        return {"images": Weighted.from_unweighted(len(y))}


def run_pfl(problem: Problem, measure: Callable[[Train], None]) -> None:
    """pfl-research in this process: SimulatedBackend, FederatedAveraging, users' tensors in memory."""
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
    model = PyTorchModel(_Loss(net, shards[problem.names[0]].channels), torch.optim.SGD, central)
    plan = NNAlgorithmParams(
        central_num_iterations=problem.rounds,
        evaluation_frequency=problem.rounds,
        train_cohort_size=problem.clients,
        val_cohort_size=None,
    )
    local = NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=LEARNING_RATE)

    def train() -> Tensor:
        net.load_state_dict(begin)
        data = _pfl_users(problem, shards)
        backend = SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()])
        FederatedAveraging().run(plan, backend, model, local, send_metrics_to_platform=False)
        return weights(net)

    measure(train)


def _pfl_users(problem: Problem, shards: dict[str, Shard]):
    """Every user once a round, with its images in that round's order."""
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset

    def user(turn: tuple[int, str]) -> PyTorchTensorDataset:
        round, client = turn
        shard, order = shards[client], problem.order(client, round)
        return PyTorchTensorDataset((shard.images[shard.rows[order]], shard.y[order]), user_id=client)

    turns = ((round, client) for round in itertools.count(1) for client in problem.names)
    return FederatedDataset(user, turns.__next__)


def run_flower(problem: Problem, measure: Callable[[Train], None]) -> None:
    """Flower's simulation runtime: ServerApp with FedAvg in a thread, ClientApp in one ray worker."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = (
        "0"  # both report usage to their authors
    )
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # else ray warns about GPUs that are not used here
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server = ClientApp(), ServerApp()
    client.train()(functools.partial(_flower_client, problem))

    @server.main()
    def main(grid, context) -> None:
        measure(functools.partial(_flower_rounds, problem, grid))

    cpus = {"num_cpus": problem.threads}
    run_simulation(server, client, problem.clients, backend_config={"init_args": cpus, "client_resources": cpus})


def _flower_rounds(problem: Problem, grid) -> Tensor:
    """Flower's server: all rounds from the start; the trained weights [T]."""
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=problem.clients, min_available_nodes=problem.clients)
    net = problem.net()
    result = strategy.start(grid, ArrayRecord(net.state_dict()), num_rounds=problem.rounds)
    if len(result.train_metrics_clientapp) < problem.rounds:
        raise FedcliError("a round of Flower ended without a model", "its messages above say why")
    net.load_state_dict(result.arrays.to_torch_state_dict())
    return weights(net)


def _flower_client(problem: Problem, message, context):
    """Flower's client: load the message's model, train one epoch, send it back."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    net, shards = _in_worker(problem)
    client = problem.names[context.node_config["partition-id"]]
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _train_epoch(net, shards[client], problem.order(client, message.content["config"]["server-round"]))
    reply = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": problem.images})}
    return Message(RecordDict(reply), reply_to=message)


@functools.cache
def _in_worker(problem: Problem) -> tuple[nn.Module, dict[str, Shard]]:
    """What a Flower worker keeps between messages."""
    torch.set_num_threads(problem.threads)
    return problem.net().train(), problem.shards()


def _train_epoch(net: nn.Module, shard: Shard, order: Tensor) -> None:
    """Plain PyTorch over one client's images in this order [N]."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LEARNING_RATE)
    for at in order.split(BATCH):
        x = transforms.to_input(shard.images[shard.rows[at]], channels=shard.channels)
        optimizer.zero_grad()
        F.cross_entropy(net(x), shard.y[at]).backward()
        optimizer.step()


PEERS = {
    "pfl-research": Peer("in this process", "pfl", ("pfl",), run_pfl),
    "Flower": Peer("ray, one worker", "flwr", ("flwr", "ray"), run_flower),
}
