"""The engines that reach sites, by name: the only door to this room."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..federation.engines import Engine, Remote, register
from ..methods.contract import Local
from ..methods.mixins import sums_of
from ..methods.registry import Method
from ..runs.assembly import PlannedFederation
from . import evaluation, roster, sockets
from .description import SiteError
from .engine import Sites, SummedSites
from .transport import export

JOB = "the folder of the job's sockets, --sockets of `fedcli site job`"
WARNING = (
    "models were added by secure aggregation, which quantizes updates with random rounding: a "
    "second run gives other numbers, and losses are means over the clients"
)
ANOTHER = "train without it, or another method"


def reaches(
    opened: Callable[[Any, str, float], AbstractContextManager[Engine]], meaning: str
) -> Remote:
    """An engine whose clients are sites. opened: see Remote.open; a context that
    gives Sites.
    """
    return Remote(
        opened,
        "DIR",
        meaning,
        images=roster.without_images,
        gathered=roster.gathered,
        evaluate=evaluation.evaluate,
    )


@contextmanager
def open_sockets(
    federation: PlannedFederation,
    where: str,
    timeout: float,
) -> Iterator[Sites]:
    """The engine of --engine socket:DIR."""
    with sockets.Connections(Path(where)) as connections:
        connections.wait_for(federation.data.roster, sockets.WAIT)
        yield Sites(federation, connections, timeout or None)


@contextmanager
def open_job(
    federation: PlannedFederation,
    where: str,
    timeout: float,
    kind: type[Sites] = Sites,
) -> Iterator[Sites]:
    """The engine of --engine nvflare:DIR and flower:DIR, whose job listens in place of every site.

    Raises SiteError where none listens.
    """
    clients = federation.data.roster
    with sockets.Connections(Path(where), of_job=True) as connections:
        connections.wait_for(clients, sockets.JOB_WAIT)
        for client in clients:
            if client not in connections.open:
                raise SiteError(
                    f"no job listens at {connections.folder / client}.sock",
                    "start the job that `fedcli site job` wrote, on this machine and with the same "
                    "--sockets",
                )
        yield kind(federation, connections, timeout or None)


def check(method: Method, min_clients: int) -> None:
    """Raises UsageError for what needs more than sums over the clients."""
    rule = method.aggregator
    if not rule.of_mean and not sums_of(rule):
        raise UsageError(
            f"the server of {method.name} needs more than a mean of the clients' models with "
            "weights by sums over the clients, and secure aggregation gives sums alone",
            ANOTHER,
        )
    if type(method.local).post_aggregate is not Local.post_aggregate:
        raise UsageError(
            f"{method.name} takes more from its clients than their models, "
            "which secure aggregation does not carry",
            ANOTHER,
        )
    if min_clients:
        raise UsageError(
            "secure aggregation needs all clients of a round: the masks of an absent one would not "
            "cancel",
            "leave --min-clients out",
        )


def open_summed(
    federation: PlannedFederation, where: str, timeout: float
) -> AbstractContextManager[Sites]:
    """The engine of --engine flower-secagg:DIR. Raises SiteError, UsageError."""
    check(federation.method, federation.min_clients)
    if federation.cohort_size < 2:
        raise UsageError(
            "a sum over one client hides nothing", "let more clients take part in a round"
        )
    return open_job(federation, where, timeout, SummedSites)


def exported(
    kind: str, sites: list[Path], folder: Path, idle: int, attach: Path
) -> tuple[dict[str, str], list[str]]:
    """The files of a job, and the steps by hand. Raises FedcliError, UsageError."""
    job = export.Job(roster.names(sites), folder, idle, attach)
    return export.ENGINES[kind](job), export.ALLOW[kind]


job = reaches(open_job, JOB)
register("socket", reaches(open_sockets, "the folder of the sites' sockets, each DIR/CLIENT.sock"))
register("nvflare", replace(job, export=partial(exported, "nvflare")))
register("flower", replace(job, export=partial(exported, "flower")))
register("flower-secagg", replace(job, open=open_summed, warning=WARNING, check=check))
