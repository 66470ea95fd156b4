"""The engine of a run, and what images at sites allow."""

from contextlib import AbstractContextManager

from ..errors import UsageError
from ..federation.engines import Engine, open_engine, parsed, remote
from .assembly import SITES, PlannedFederation
from .configuration import Execution, Plan


def opened(execution: Execution, federation: PlannedFederation) -> AbstractContextManager[Engine]:
    """The engine that is given or named, as a context."""
    if execution.open_with:
        return execution.open_with(federation)
    if reached := remote(execution.engine):
        kind, where = reached
        return kind.open(federation, where, execution)
    return open_engine(execution.engine, federation.clients, federation.cohort_size)


def reaches_sites(plan: Plan, kind: str, execution: Execution) -> bool:
    """Whether the engine reaches sites. Raises UsageError for what it, or images of this kind, do not allow."""
    if execution.engine:
        parsed(execution.engine, execution.device)
    remotely, min_clients = bool(execution.open_with or remote(execution.engine)), execution.min_clients
    if min_clients and not remotely:
        raise UsageError("--min-clients is about sites that may be absent", "leave it out, or add --engine socket:DIR")
    if min_clients and (method := plan.check()).aggregator.full_participation:
        raise UsageError(f"{method.name} needs every client in every round", "leave --min-clients out")
    if kind == SITES and not remotely:
        raise UsageError("the images are at their sites, which this engine does not reach", "add --engine socket:DIR")
    if kind == SITES and plan.eval_every:
        raise UsageError("--eval-every scores test images, which are at their sites", "leave --eval-every out")
    if remotely and plan.single_site:
        raise UsageError("clients that train alone need no engine that reaches sites", "leave --engine out")
    if remotely and plan.teacher:
        raise UsageError(
            "a teacher from a file is not sent to sites", "leave --teacher out: --weights may be its start"
        )
    return remotely
