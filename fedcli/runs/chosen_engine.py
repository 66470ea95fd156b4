"""The engine and the threads of a run, and what images at sites allow."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from .. import models
from ..errors import UsageError
from ..federation.engines import Engine, open_engine, parsed, remote, side_by_side
from ..federation.server import cohort_size
from ..system.processes import cores
from . import resources
from .assembly import PlannedFederation
from .rules import check
from .train_options import TrainOptions

SITES = "sites"  # the kind of a manifest of sites, which hold the images
NOT_REACHED = (
    "the images are at their sites, which this engine does not reach",
    "add --engine socket:DIR",
)
# of model size: the network, its gradient, the optimizer's state, what is sent and kept
MODELS_IN_A_PROCESS = 10


def prepare(plan: TrainOptions, clients: int) -> Callable[[PlannedFederation], None]:
    """Make equal inputs give equal bits, on the CPU threads that suit the plan, engine and clients.

    Returns the function to call with the federation before its engine is opened: where processes
    side by side would need more memory than there is, one process trains with all threads. Raises
    UsageError, FedcliError.
    """
    usual = plan.threads or models.describe(plan.model).threads
    cohort = cohort_size(clients, plan.participation)
    together = not usual and side_by_side(plan.engine, cohort, plan.device)
    before = torch.get_num_threads()
    resources.be_deterministic(
        plan.device,
        1 if together else usual,
        plan.precision,
    )

    def settle(federation: PlannedFederation) -> None:
        if together and plan.engine is None and not _fits(federation):
            torch.set_num_threads(before)

    return settle


def _fits(federation: PlannedFederation) -> bool:
    """Tell whether a process for each core and client has the memory to train.

    True where the system does not say.
    """
    free = resources.free("cpu")
    processes = min(cores(), federation.cohort_size)
    return not free or processes * _process_bytes(federation) < free


def _process_bytes(federation: PlannedFederation) -> int:
    """Bytes that a process needs to train a client: models, and what a backward pass needs."""
    net = federation.net
    theta = federation.layout.flat
    shard = max(federation.data.train.values(), key=len)
    few = min(2, len(shard))
    saved_bytes: dict[int, int] = {}  # by address, of what a forward pass saves

    def save(tensor: torch.Tensor) -> torch.Tensor:
        saved_bytes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    was_training = net.training
    net.eval()  # counts the same, and leaves statistics and random numbers alone
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        net(shard.batch(torch.arange(few)).x)
    net.train(was_training)
    batch = min(federation.plan.batch_size, len(shard))
    model_bytes = theta.numel() * theta.element_size()
    saved_for_batch = sum(saved_bytes.values()) * batch // few
    return MODELS_IN_A_PROCESS * model_bytes + saved_for_batch


def opened(federation: PlannedFederation) -> AbstractContextManager[Engine]:
    """The engine that the plan names, or that suits it, as a context."""
    reached = remote(federation.plan.engine)
    if reached:
        kind, where = reached
        return kind.open(federation, where, federation.plan.timeout)
    return open_engine(
        federation.plan.engine,
        federation.clients,
        federation.cohort_size,
    )


def reaches_sites(plan: TrainOptions, kind: str) -> bool:
    """Tell whether the engine reaches sites.

    Raises UsageError for options that the engine, or images of this kind, do not allow.
    """
    if plan.engine:
        parsed(plan.engine, plan.device)
    remotely = remote(plan.engine) is not None
    if plan.min_clients and not remotely:
        raise UsageError(
            "--min-clients is about sites that may be absent",
            "leave it out, or add --engine socket:DIR",
        )
    if plan.min_clients:
        method = check(plan)
        if method.aggregator.full_participation:
            text = f"{method.name} needs every client in every round"
            raise UsageError(text, "leave --min-clients out")
    if kind == SITES and not remotely:
        raise UsageError(*NOT_REACHED)
    if kind == SITES and plan.eval_every:
        raise UsageError(
            "--eval-every scores test images, which are at their sites", "leave --eval-every out"
        )
    if remotely and plan.single_site:
        raise UsageError(
            "clients that train alone need no engine that reaches sites", "leave --engine out"
        )
    if remotely and plan.teacher:
        raise UsageError(
            "a teacher from a file is not sent to sites",
            "leave --teacher out: --weights may be its start",
        )
    return remotely
