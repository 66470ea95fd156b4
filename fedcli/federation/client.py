"""One client in one round: the only local training."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..data.shard import Shard
from ..errors import FedcliError
from ..labels import NO
from ..methods.contract import Aggregator, ClientRound, Local, Tensors
from ..methods.losses import class_weights
from ..methods.priors import offset as prior_offset
from ..methods.registry import Method
from ..models.layout import Layout
from ..models.network import Network
from ..seeds import derive, seed_torch
from . import checks
from .client_state import ClientState
from .dp_sgd import PrivateGradient, rate
from .privacy import noised_model
from .steps import Steps, own_state
from .training import Training

SMALLEST_VARIANCE = 1e-3


@dataclass(frozen=True)
class Task:
    """All a client needs for one round. Plain data: it can cross a process or a network."""

    client: str
    row: int
    round: int
    rounds: int
    seed: int
    theta: Tensor  # [P]
    shared: Tensors
    memory: ClientState
    part: str = "whole"  # "measure" ends before training, "train" begins after it, "alone": without a server
    out: Tensor | None = (
        None  # [P] of the engine's, where the report's model may be put; does not travel
    )


@dataclass(frozen=True)
class Report:
    """All a client sends back."""

    client: str
    row: int
    n: int
    steps: int
    loss: Tensor  # mean training loss over its steps, a scalar
    theta: Tensor  # [P]
    columns: Tensors
    memory: Tensors
    table: Tensor | None = (
        None  # [K, P] of the engine's: theta is a row of it until its next call; does not travel
    )


@dataclass(frozen=True)
class Absent:
    """In place of the report of a client that did not answer."""

    client: str
    why: str  # a sentence without a full stop


def run_client(
    method: Method,
    net: Network,
    layout: Layout,
    shard: Shard,
    task: Task,
    training: Training,
    val: Shard | None = None,
    steps: Steps | None = None,
) -> Report:
    """Train one client for one round. The result depends on the arguments and nothing else.

    steps: of this method and network, kept from client to client so that a recorded step is used again.
    """
    steps = steps or Steps(method.local, net, layout, training.optimizer)
    event = task.seed, task.round, task.client
    training = training.at(task.round, task.rounds)
    offset = prior_offset(training.prior, shard.class_counts) if training.prior != "none" else None
    memory = dict(task.memory)
    kept = own_state(memory)
    expected = rate(len(shard), training.batch_size) * len(shard)  # images of a step of DP-SGD
    private = (
        PrivateGradient(training.dp_clip, training.dp_sgd, expected) if training.dp_sgd else None
    )
    client = ClientRound(
        task.client,
        task.row,
        task.round,
        task.rounds,
        training.lr,
        task.theta,
        task.shared,
        layout,
        shard,
        offset,
        memory,
        momentum=training.momentum if training.optimizer == "sgd" else 0.0,
        val=val,
        seed=task.seed,
        nesterov=training.nesterov,
        class_weights=_class_weights(training, shard),
        label_smoothing=training.label_smoothing,
        focal=training.focal,
        private=private,
    )
    layout.load(task.theta)
    layout.zero_grad()
    _recall(layout, client, training)
    with torch.random.fork_rng(
        devices=[task.theta.device.index or 0] if task.theta.is_cuda else []
    ):
        seed_torch(derive("dropout", *event))  # dropout knows only the global stream
        if task.part == "measure":
            _call(method, method.aggregator, "measure_global", net, client)
            return Report(
                task.client,
                task.row,
                len(shard),
                0,
                client.theta.new_tensor(math.nan),
                task.theta,
                client.report,
                {},
            )
        _call(method, method.local, "on_round_start", net, client)
        if task.part == "whole":
            _call(method, method.aggregator, "measure_global", net, client)
        steps.optimizer.begin(training, kept)
        _train_mode(net, layout, training)
        seeds = [
            {
                "shuffle": derive("shuffle", *event, epoch),
                "augment": derive("augment", *event, epoch),
            }
            for epoch in range(training.epochs)
        ]
        loss = steps.train(client, seeds, training.batch_size, training.sampling) / max(
            client.steps, 1
        )
        _call(method, method.local, "on_round_end", net, client)
        if task.part != "alone":
            _call(method, method.aggregator, "measure_local", net, client)
    _remember(layout, client, training)
    if training.keep_optimizer:
        client.memory |= steps.optimizer.kept()
    if training.personal and client.memory.get("model") is task.memory.get(
        "model"
    ):  # unless the method keeps its own
        client.memory["model"] = layout.read()
    theta = (
        layout.read(task.out)
        if not training.dp_noise
        else _with_noise(method, layout, client, training)
    )
    if shard.attack and task.part != "alone":
        start = task.theta[: layout.trainable]
        theta[: layout.trainable] = start + shard.attack.update(
            theta[: layout.trainable] - start, *event[:2]
        )
    return Report(
        task.client, task.row, len(shard), client.steps, loss, theta, client.report, client.memory
    )


def _with_noise(method: Method, layout: Layout, client: ClientRound, training: Training) -> Tensor:
    """The client's model [P] as the server may see it. Raises FedcliError for what noise does not cover."""
    if client.report:
        what = f"{method.name} reports {next(iter(client.report))!r} beside the model, which --dp-noise does not cover"
        raise FedcliError(
            what,
            "train a method that sends its model alone, such as fedavg, fedprox, moon or fedheal",
        )
    seed = derive("dp noise", client.seed, client.round, client.name)
    theta = noised_model(layout.read(), client.theta, training.dp_clip, training.dp_noise, seed)
    for name, span in layout.spans.items():
        if name.endswith("running_var"):  # noise must not make a variance negative
            theta[span].clamp_(min=SMALLEST_VARIANCE)
    return theta


def _class_weights(training: Training, shard: Shard) -> Tensor | None:
    """Of the client's own images [C], see losses.class_weights()."""
    if training.class_weights == "none":
        return None
    negatives = (shard.y == NO).sum(0) if shard.multi_label else None
    return class_weights(training.class_weights, shard.class_counts, negatives)


def _call(
    method: Method, half: Local | Aggregator, hook: str, net: Network, client: ClientRound
) -> None:
    """Call a hook. Raises FedcliError where it leaves what is no tensor."""
    getattr(half, hook)(net, client)
    checks.tensors(method, half, hook, client.report, "its report")
    checks.tensors(method, half, hook, client.memory, "the client's memory")


def _recall(layout: Layout, client: ClientRound, training: Training) -> None:
    """Load what this client keeps: its personal tensors, and under --bn local its own statistics."""
    layout.load_own(client.memory.get("own", layout.own_start))
    if training.bn == "local" and "statistics" in client.memory:
        layout.buffers.copy_(client.memory["statistics"])


def _remember(layout: Layout, client: ClientRound, training: Training) -> None:
    own = layout.read_own()
    if len(own):
        client.memory["own"] = own
    if training.bn == "local":
        client.memory["statistics"] = layout.buffers.clone()


def _train_mode(net: nn.Module, layout: Layout, training: Training) -> None:
    net.train()
    still = list(layout.frozen)
    if training.bn == "freeze":
        still += [
            module
            for module in net.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm)
        ]
    for module in still:
        module.eval()
