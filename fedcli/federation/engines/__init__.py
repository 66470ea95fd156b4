"""Engines run the tasks of a round; none changes a number.

An engine is a file and a line in ENGINES or MODULES. `--engine NAME` or `--engine NAME:COUNT`:
pool:4 trains on four processes, streams:2 two clients at once on a GPU, ray on all workers of a ray
cluster. `--engine NAME:WHERE` reaches sites that hold the images. An installed package offers
engines by an entry point of the group fedcli.engines: a module that calls register().
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ... import extensions
from ...errors import UsageError, nearest
from ...leaves import is_installed
from ...system.processes import can_be_sent
from .in_process import Engine, InProcess
from .pool import WorkerPool, pays, usual_jobs
from .streams import Streams

IN_PROCESS = "in-process"


@dataclass(frozen=True)
class Kind:
    """An engine that runs several clients at once."""

    # (all clients, clients at once, tasks of a round at most) -> the engine
    # raises UsageError where it cannot run
    open: Callable[[InProcess, int, int], AbstractContextManager[Engine]]
    device: str = ""  # "cpu" or "cuda" if it runs only there
    hint: str = ""  # for the error where it is given on the other one
    # it may run on other machines: one client at once is worth it, and COUNT, the most at once, may
    # be left out
    anywhere: bool = False


MODULES = {  # engines that are registered by a module which is imported when one of them is named
    "ray": "fedcli.federation.engines.on_ray",
    **dict.fromkeys(("socket", "nvflare", "flower", "flower-secagg"), "fedcli.sites.engines"),
}


@dataclass(frozen=True)
class Remote:
    """An engine whose clients are processes of their own, each with its own images."""

    # (federation of a plan, what stands after the colon, seconds to wait) -> the engine
    open: Callable[[Any, str, float], AbstractContextManager[Engine]]
    metavar: str  # what stands after the colon, in capitals
    meaning: str  # the same in words
    warning: str = ""  # what a reader of the run's numbers must know
    # in place of data.shard.load() for a manifest of sites
    images: Callable[..., Any] | None = None
    # (descriptions or folders, --work) -> that manifest
    gathered: Callable[[list[Path], Path], Path] | None = None
    # (a run, options of evaluate) -> scores.json, from the answers of sites on their test images
    evaluate: Callable[[Path, Any], Path] | None = None
    # (descriptions, folder of sockets, idle seconds, folder to attach in) -> the files of a job
    # that carries messages, by path, and the steps that have to be done by hand
    export: Callable[[list[Path], Path, int, Path], tuple[dict[str, str], list[str]]] | None = None
    # (method, least number of clients that must answer) raises UsageError for what it cannot carry
    check: Callable[[Any, int], None] = lambda _method, _min_clients: None


ENGINES: dict[str, Kind | Remote] = {
    "pool": Kind(WorkerPool, "cpu", "on a GPU, give --engine streams:N (--jobs N)"),
    "streams": Kind(
        lambda clients, count, _at_most: nullcontext(Streams.of(clients, count)),
        "cuda",
        "add --device cuda; on CPUs, give --engine pool:N (--jobs N)",
    ),
}


def register(name: str, engine: Kind | Remote) -> None:
    """Offer an engine under a name."""
    extensions.table("engines", ENGINES)[name] = engine


def registered(name: str) -> Kind | Remote | None:
    """The engine of a name; None without one.

    Raises UsageError for one of a package that the command does not name.
    """
    if name in MODULES and is_installed(MODULES[name]):
        import_module(MODULES[name])
    if name in ENGINES or name in ("", IN_PROCESS):
        return ENGINES.get(name)
    offered = extensions.offered("engines", name)
    return offered[0] if offered else None


def kind_of(name: str) -> Kind | None:
    """The engine of this machine or of a cluster that has a name."""
    engine = registered(name)
    return engine if isinstance(engine, Kind) else None


def remote(engine: str | None) -> tuple[Remote, str] | None:
    """The engine that reaches sites, and the text after its colon; None for one of this machine.

    Raises UsageError where that text is missing.
    """
    name, _, where = (engine or "").partition(":")
    kind = registered(name)
    if not isinstance(kind, Remote):
        return None
    if not where:
        raise UsageError(
            f"--engine {engine!r} needs {kind.meaning}", f"write {name}:{kind.metavar}"
        )
    return kind, where


def named(engine: str | None, jobs: int | None, device: str) -> str | None:
    """The engine that the flags name; --jobs N is short for pool:N, or streams:N on a GPU.

    None without a flag: the network and the machine then decide. Raises UsageError for two flags.
    """
    if not jobs:
        return engine
    if engine:
        sentence = "--engine and --jobs name different engines"
        raise UsageError(sentence, "give only one of these flags")
    return f"pool:{jobs}" if device == "cpu" else f"streams:{jobs}"


def parsed(engine: str, device: str) -> tuple[str, int]:
    """Name and count of an engine. Raises UsageError for an unknown one, or another device's."""
    name, colon, count = engine.partition(":")
    if remote(engine):
        return name, 1
    kind = kind_of(name)
    if kind is None:
        return _parsed_in_process(engine)
    if kind.anywhere and not colon:
        return name, sys.maxsize
    if not count.isdecimal() or int(count) == 0:
        raise UsageError(
            f"--engine {engine!r} needs the number of clients at once",
            f"write for example {name}:4",
        )
    if int(count) > 1 and kind.device and not device.startswith(kind.device):
        raise UsageError(f"--engine {engine} is for {kind.device}, not for {device}", kind.hint)
    return name, int(count)


def _parsed_in_process(engine: str) -> tuple[str, int]:
    """The name and count of the engine without workers. Raises UsageError for another name."""
    name, colon, _ = engine.partition(":")
    if name != IN_PROCESS:
        offered = extensions.packages("engines")
        installed = [name for name, module in MODULES.items() if is_installed(module)]
        names = dict.fromkeys((IN_PROCESS, *ENGINES, *installed, *offered))
        raise UsageError(f"--engine {engine!r} is unknown", nearest(name, names))
    if colon:
        raise UsageError(f"--engine {engine!r} takes no number", f"write {IN_PROCESS}")
    return IN_PROCESS, 1


def chosen(engine: str | None, clients: int, device: str) -> tuple[str, int]:
    """Name and count of the engine for rounds of so many clients; None is the one that suits.

    Raises as parsed() does.
    """
    if not engine:
        engine = f"pool:{usual_jobs(torch.get_num_threads(), clients, device)}"
    name, count = parsed(engine, device)
    count = min(count, clients)
    kind = kind_of(name)
    if count > 1 or (kind and kind.anywhere):
        return name, count
    return IN_PROCESS, 1


def side_by_side(engine: str | None, clients: int, device: str) -> bool:
    """Tell whether rounds of so many clients train on processes of one thread each.

    They then do whatever number of threads suits their network.
    """
    if engine is None:
        return pays(clients, device)
    name, _ = chosen(engine, clients, device)
    kind = kind_of(name)
    return kind is not None and (kind.anywhere or name == "pool")


def open_engine(
    engine: str | None, clients: InProcess, at_most: int
) -> AbstractContextManager[Engine]:
    """The engine by its name, as a context; None is the one that suits.

    clients: all of them; at_most: of these take part in a round.
    Raises UsageError where it cannot run.
    """
    if not engine and not can_be_sent(clients.method):
        engine = IN_PROCESS
    name, count = chosen(engine, at_most, str(clients.layout.flat.device))
    kind = kind_of(name)
    return kind.open(clients, count, at_most) if kind else nullcontext(clients)
