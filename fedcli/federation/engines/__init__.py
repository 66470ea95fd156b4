"""Engines run the tasks of a round. An engine is a file here and one line in ENGINES; none changes a number.

`--engine NAME` or `--engine NAME:COUNT`: pool:4 trains on four processes, streams:2 two clients at once on a GPU, ray
on whatever a ray cluster has.
`--engine NAME:WHERE` reaches sites that hold the images: such an engine is a file of fedcli/sites and a line in REMOTE.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import UsageError, nearest
from .in_process import Engine, InProcess
from .on_ray import Ray
from .pool import Pool, pays, usual_jobs
from .streams import Streams

IN_PROCESS = "in-process"


@dataclass(frozen=True)
class Kind:
    """An engine that runs several clients at once.

    Attributes:
        open: (all clients, how many at once, tasks of a round at most) -> the engine, as a context. Raises UsageError
            where it cannot run.
        device: "cpu" or "cuda" if it runs only there.
        hint: for the error where it is given on the other one.
        anywhere: it may run on other machines, so that one client at once is worth it. COUNT is then the largest number
            of clients at once, and may be left out.
    """

    open: Callable[[InProcess, int, int], AbstractContextManager[Engine]]
    device: str = ""
    hint: str = ""
    anywhere: bool = False


ENGINES = {
    "pool": Kind(Pool, "cpu", "on a GPU, give --engine streams:N (--at-once N)"),
    "streams": Kind(
        lambda clients, count, at_most: nullcontext(Streams.of(clients, count)),
        "cuda",
        "add --device cuda; on CPUs, give --engine pool:N (--jobs N)",
    ),
    "ray": Kind(lambda clients, count, at_most: Ray(clients, count), anywhere=True),
}


@dataclass(frozen=True)
class Remote:
    """An engine whose clients are processes of their own, each with its own images.

    Attributes:
        open: (federation of a plan, what stands after the colon, how long to wait) -> the engine, as a context.
        metavar: what stands after the colon, in capitals.
        meaning: the same in words.
        warning: what a reader of the run's numbers must know.
    """

    open: Callable[[Any, str, Any], AbstractContextManager[Engine]]
    metavar: str
    meaning: str
    warning: str = ""


REMOTE: dict[str, Remote] = {}  # filled by fedcli.sites


def remote(engine: str | None) -> tuple[Remote, str] | None:
    """The engine that reaches sites, and what stands after its colon; None for one of this machine.

    Raises UsageError where that is missing.
    """
    name, _, where = (engine or "").partition(":")
    if name not in REMOTE:
        return None
    if not where:
        raise UsageError(f"--engine {engine!r} lacks {REMOTE[name].meaning}", f"write {name}:{REMOTE[name].metavar}")
    return REMOTE[name], where


def named(engine: str | None = None, *, jobs: int | None = None, at_once: int | None = None) -> str | None:
    """The engine that the flags name; --jobs N and --at-once N are short for pool:N and streams:N.

    None without a flag: the network and the machine then decide. Raises UsageError for two flags.
    """
    forms = {"--engine": engine, "--jobs": jobs and f"pool:{jobs}", "--at-once": at_once and f"streams:{at_once}"}
    given = {flag: name for flag, name in forms.items() if name}
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} name different engines", "give only one of these flags")
    return next(iter(given.values()), None)


def parsed(engine: str, device: str) -> tuple[str, int]:
    """Name and count of an engine. Raises UsageError where it is unknown, or not for this device."""
    name, colon, count = engine.partition(":")
    if remote(engine):
        return name, 1
    if name not in (IN_PROCESS, *ENGINES):
        raise UsageError(f"--engine {engine!r} is unknown", nearest(name, (IN_PROCESS, *ENGINES, *REMOTE)))
    if name == IN_PROCESS:
        if colon:
            raise UsageError(f"--engine {engine!r} takes no number", f"write {IN_PROCESS}")
        return IN_PROCESS, 1
    kind = ENGINES[name]
    if kind.anywhere and not colon:
        return name, sys.maxsize
    if not (count.isdecimal() and int(count) > 0):
        raise UsageError(f"--engine {engine!r} lacks the number of clients at once", f"write for example {name}:4")
    if int(count) > 1 and kind.device and not device.startswith(kind.device):
        raise UsageError(f"--engine {engine} is for {kind.device}, not for {device}", kind.hint)
    return name, int(count)


def chosen(engine: str | None, clients: int, device: str) -> tuple[str, int]:
    """Name and count of the engine for rounds of so many clients; None is what suits. Raises as parsed() does."""
    threads = torch.get_num_threads()
    name, count = parsed(engine or f"pool:{usual_jobs(threads, clients, device)}", device)
    count = min(count, clients)
    return (name, count) if count > 1 or (name in ENGINES and ENGINES[name].anywhere) else (IN_PROCESS, 1)


def side_by_side(engine: str | None, clients: int, device: str) -> bool:
    """Tell whether rounds of so many clients train on processes of one thread each, whatever their network wants."""
    if engine is None:
        return pays(clients, device)
    name, count = parsed(engine, device)
    return name in ENGINES and (ENGINES[name].anywhere or (name == "pool" and min(count, clients) > 1))


def open_engine(engine: str | None, clients: InProcess, at_most: int) -> AbstractContextManager[Engine]:
    """The engine by its name, as a context; None is what suits.

    clients: all of them; at_most: of these take part in a round. Raises UsageError where it cannot run here.
    """
    name, count = chosen(engine, at_most, str(clients.layout.flat.device))
    return nullcontext(clients) if name == IN_PROCESS else ENGINES[name].open(clients, count, at_most)
