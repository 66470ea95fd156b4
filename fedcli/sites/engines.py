"""The engines that reach sites, by name: the only door to this room."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..federation.engines import Engine, Remote, register
from . import evaluation, roster, summed
from .sockets import open_job, open_sockets
from .transport import export

JOB = "the folder of the job's sockets, --sockets of `fedcli export`"


def reaches(
    open: Callable[[Any, str, float], AbstractContextManager[Engine]], meaning: str, metavar: str = "DIR"
) -> Remote:
    """An engine whose clients are sites. open: as of Remote; a context that gives Sites (engine.py)."""
    return Remote(
        open, metavar, meaning,
        images=roster.without_images, gathered=roster.gathered, evaluate=evaluation.evaluate,
    )  # fmt: skip


def exported(kind: str, sites: list[Path], sockets: Path, idle: int, attach: Path) -> tuple[dict[str, str], list[str]]:
    """The files of a job, and what is done by hand. Raises FedcliError, UsageError."""
    return export.ENGINES[kind](export.Job(roster.names(sites), sockets, idle, attach)), export.ALLOW[kind]


job = reaches(open_job, JOB)
register("socket", reaches(open_sockets, "the folder of the sites' sockets, each DIR/CLIENT.sock"))
register("nvflare", replace(job, export=partial(exported, "nvflare")))
register("flower", replace(job, export=partial(exported, "flower")))
register("flower-secagg", replace(job, open=summed.open_summed, warning=summed.WARNING, check=summed.check))
