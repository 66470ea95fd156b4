"""pfl-research and Flower as they are run on several cores.

pfl-research runs in processes of its own, started by torchrun; Flower runs its simulation runtime,
which needs ray, with workers that keep the network and the images from message to message. Neither
scores anything. pfl-research averages weights only, the others batch-norm statistics too; these do
not act on training.
"""

import contextlib
import functools
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from problem import Problem, Train, in_worker, train_epoch, weights
from torch import Tensor

from fedcli.errors import FedcliError

TRAIN, END = "train", "end"  # what the first of pfl-research's processes is told
RANKS = Path(__file__).with_name("pfl_ranks.py")


def run_pfl(
    problem: Problem,
    measure: Callable[[Train], None],
    processes: int = 0,
) -> None:
    """pfl-research in so many processes, by default one for each core, which share the cores:
    SimulatedBackend, users' tensors in memory.
    """
    with _torchrun(RANKS, problem, processes or problem.cores) as connection:

        def train() -> Tensor:
            try:
                connection.send(TRAIN)
                return torch.from_numpy(connection.recv())
            except (EOFError, OSError):
                raise FedcliError(
                    "a process of pfl-research ended without a model", "its messages above say why"
                ) from None

        try:
            measure(train)
        finally:
            with contextlib.suppress(OSError):  # it may have ended before
                connection.send(END)


@contextmanager
def _torchrun(
    script: Path,
    problem: Problem,
    processes: int,
) -> Iterator[Connection]:
    """A connection to the first of the processes that torchrun starts with this script. Raises
    FedcliError.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        address = str(Path(folder, "first"))
        server.bind(address)
        server.listen(1)
        server.settimeout(0.2)
        options = [
            "--standalone",
            f"--nproc-per-node={processes}",
            str(script),
            address,
            json.dumps(asdict(problem)),
        ]
        command = [sys.executable, "-m", "torch.distributed.run", *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as launcher:
            try:
                with Connection(_accepted(server, launcher).detach()) as connection:
                    yield connection
            finally:
                try:
                    launcher.wait(20)
                except subprocess.TimeoutExpired:
                    launcher.terminate()


def _accepted(server: socket.socket, launcher: subprocess.Popen) -> socket.socket:
    while launcher.poll() is None:
        try:
            accepted, _ = server.accept()
        except TimeoutError:
            continue
        accepted.setblocking(True)
        return accepted
    raise FedcliError("pfl-research did not start", "its messages above say why")


def run_flower(problem: Problem, measure: Callable[[Train], None]) -> None:
    """Flower's simulation runtime: ServerApp with FedAvg in a thread, ClientApp in a ray worker for
    each core.
    """
    os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = (
        "0"  # both report usage to their authors
    )
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = (
        "0"  # else ray warns about GPUs that are not used here
    )
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # workers read these modules too
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server = ClientApp(), ServerApp()
    client.train()(functools.partial(_flower_client, problem))

    @server.main()
    def main(grid, context) -> None:
        measure(functools.partial(_flower_rounds, problem, grid))

    cpus = {"init_args": {"num_cpus": problem.cores}, "client_resources": {"num_cpus": 1}}
    run_simulation(server, client, problem.clients, backend_config=cpus)


def _flower_rounds(problem: Problem, grid) -> Tensor:
    """Flower's server: all rounds from the start; the trained weights [T]."""
    from flwr.app import ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=problem.clients,
        min_available_nodes=problem.clients,
    )
    net = problem.net()
    result = strategy.start(
        grid,
        ArrayRecord(net.state_dict()),
        num_rounds=problem.rounds,
    )
    if len(result.train_metrics_clientapp) < problem.rounds:
        raise FedcliError("a round of Flower ended without a model", "its messages above say why")
    net.load_state_dict(result.arrays.to_torch_state_dict())
    return weights(net)


def _flower_client(problem: Problem, message, context):
    """Flower's client: load the message's model, train one epoch, send it back."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    net, shards = in_worker(problem)
    client = problem.names[context.node_config["partition-id"]]
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train_epoch(
        net,
        shards[client],
        problem.order(client, message.content["config"]["server-round"]),
    )
    reply = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": problem.images}),
    }
    return Message(RecordDict(reply), reply_to=message)
