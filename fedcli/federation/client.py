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
from ..methods.priors import COUNTS_OF_ALL, OF_ALL
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
class ClientTask:
    """All a client needs for one round. Plain data: it can cross a process or a network."""

    client: str
    row: int
    round: int
    rounds: int
    seed: int
    theta: Tensor  # [P]
    shared: Tensors
    memory: ClientState
    # "measure" ends before training, "train" begins after it, "alone": without a server
    part: str = "whole"
    # [P] of the engine's, where the report's model may be put; does not travel
    out: Tensor | None = None


@dataclass(frozen=True)
class ClientReport:
    """All a client sends back."""

    client: str
    row: int
    n: int
    steps: int
    loss: Tensor  # mean training loss over its steps that had images, a scalar
    theta: Tensor  # [P]
    columns: Tensors
    memory: Tensors
    # [K, P] of the engine's: theta is a row of it until its next call; does not travel
    table: Tensor | None = None
    # theta is the new global model, which the clients' weights have made; does not travel
    is_global: bool = False


@dataclass(frozen=True)
class Absent:
    """The answer in place of a report where a client did not answer."""

    client: str
    why: str  # a sentence without a full stop


def run_client(
    method: Method,
    net: Network,
    layout: Layout,
    shard: Shard,
    task: ClientTask,
    training: Training,
    val: Shard | None = None,
    steps: Steps | None = None,
) -> ClientReport:
    """Train one client for one round. The result depends on the arguments and nothing else.

    steps: of this method and network, kept from client to client so that a recorded step is used
    again.
    """
    steps = steps or Steps(method.local, net, layout, training.optimizer)
    event = task.seed, task.round, task.client
    training = training.at(task.round, task.rounds)
    memory = dict(task.memory)
    model_before = memory.get("model")  # read once: a state on disk gives a new tensor each time
    optimizer_state = own_state(memory)
    client = _client_round(layout, shard, task, training, memory, val)
    layout.load(task.theta)
    layout.zero_grad()
    _recall(layout, client, training)
    cuda_devices = [task.theta.device.index or 0] if task.theta.is_cuda else []
    with torch.random.fork_rng(devices=cuda_devices):
        seed_torch(derive("dropout", *event))  # dropout knows only the global stream
        if task.part == "measure":
            _call(method, method.aggregator, "measure_global", net, client)
            no_loss = client.theta.new_tensor(math.nan)
            return ClientReport(
                task.client,
                task.row,
                len(shard),
                0,
                no_loss,
                task.theta,
                client.report,
                {},
            )
        _call(method, method.local, "on_round_start", net, client)
        if task.part == "whole":
            _call(method, method.aggregator, "measure_global", net, client)
        steps.optimizer.begin(training, optimizer_state)
        _train_mode(net, layout, training)
        seeds = []
        for epoch in range(training.epochs):
            shuffle = derive("shuffle", *event, epoch)
            augment = derive("augment", *event, epoch)
            seeds.append({"shuffle": shuffle, "augment": augment})
        total_loss = steps.train(
            client,
            seeds,
            training.batch_size,
            training.sampling,
        )
        loss = total_loss / _steps_with_images(client)
        _call(method, method.local, "on_round_end", net, client)
        if task.part != "alone":
            _call(method, method.aggregator, "measure_local", net, client)
    _remember(layout, client, training)
    if training.keep_optimizer:
        client.memory |= steps.optimizer.kept()
    # unless the method keeps its own
    if training.personal and client.memory.get("model") is model_before:
        client.memory["model"] = layout.read()
    if training.dp_noise:
        theta = _with_noise(method, layout, client, training)
    else:
        theta = layout.read(task.out)
    if shard.attack and task.part != "alone":
        start = task.theta[: layout.trainable]
        update = theta[: layout.trainable] - start
        theta[: layout.trainable] = start + shard.attack.update(update, task.seed, task.round)
    return ClientReport(
        task.client,
        task.row,
        len(shard),
        client.steps,
        loss,
        theta,
        client.report,
        client.memory,
    )


def _steps_with_images(client: ClientRound) -> float:
    """The number of steps that have a loss; NaN where --dp image drew no image in any step."""
    if client.steps and client.empty_steps == client.steps:
        return math.nan
    return max(client.steps - client.empty_steps, 1)


def _client_round(
    layout: Layout,
    shard: Shard,
    task: ClientTask,
    training: Training,
    memory: Tensors,
    val: Shard | None,
) -> ClientRound:
    """The round as the hooks of a method see it."""
    offset = None
    if training.prior != "none":
        of_all = training.prior == OF_ALL
        counts = task.shared[COUNTS_OF_ALL] if of_all else shard.class_counts
        offset = prior_offset(training.prior, counts)
    private = None
    if training.dp_sgd:
        images_of_step = rate(len(shard), training.batch_size) * len(shard)
        private = PrivateGradient(
            training.dp_clip,
            training.dp_sgd,
            images_of_step,
        )
    return ClientRound(
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


def _with_noise(
    method: Method,
    layout: Layout,
    client: ClientRound,
    training: Training,
) -> Tensor:
    """The client's model [P] as the server may see it.

    Raises FedcliError for what noise does not cover.
    """
    if client.report:
        column = next(iter(client.report))
        raise FedcliError(
            f"{method.name} reports {column!r} in addition to the model, which --dp client does "
            "not cover",
            "train a method that sends its model alone, such as fedavg, fedprox, moon or fedheal",
        )
    seed = derive("dp noise", client.seed, client.round, client.name)
    theta = noised_model(
        layout.read(),
        client.theta,
        training.dp_clip,
        training.dp_noise,
        seed,
    )
    for name, span in layout.spans.items():
        if name.endswith("running_var"):  # noise must not make a variance negative
            theta[span].clamp_(min=SMALLEST_VARIANCE)
    return theta


def _class_weights(training: Training, shard: Shard) -> Tensor | None:
    """Weights of the classes [C] by the client's images, see losses.class_weights()."""
    if training.class_weights == "none":
        return None
    negatives = (shard.y == NO).sum(0) if shard.multi_label else None
    return class_weights(training.class_weights, shard.class_counts, negatives)


def _call(
    method: Method,
    half: Local | Aggregator,
    hook: str,
    net: Network,
    client: ClientRound,
) -> None:
    """Call a hook. Raises FedcliError where it leaves what is no tensor."""
    getattr(half, hook)(net, client)
    checks.tensors(method, half, hook, client.report, "its report")
    checks.tensors(method, half, hook, client.memory, "the client's memory")


def _recall(layout: Layout, client: ClientRound, training: Training) -> None:
    """Load the client's personal tensors, and under --bn local its statistics."""
    layout.load_own(client.memory.get("own", layout.own_start))
    if training.bn == "local" and "statistics" in client.memory:
        layout.buffers.copy_(client.memory["statistics"])


def _remember(layout: Layout, client: ClientRound, training: Training) -> None:
    numbers = layout.read_own()
    if len(numbers):
        client.memory["own"] = numbers
    if training.bn == "local":
        client.memory["statistics"] = layout.buffers.clone()


def _train_mode(net: nn.Module, layout: Layout, training: Training) -> None:
    net.train()
    frozen = list(layout.frozen)
    if training.bn == "freeze":
        for module in net.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                frozen.append(module)
    for module in frozen:
        module.eval()
