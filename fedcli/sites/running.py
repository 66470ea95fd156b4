"""The process of a site on this machine: it is written down while it runs, so that it can be
stopped.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import console
from ..errors import FedcliError, UsageError
from ..io.claims import machine
from ..io.files import read_text, write_text
from ..io.locks import LOCK, held, is_held

PROCESS = "process.json"  # the process that holds the lock
LONGEST = 60.0  # seconds that a site may take to end
LOOK = 0.1  # seconds between two looks


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Hold the folder of a site, and write down which process does.

    Raises FedcliError where another process holds it.
    """
    busy = f"another process is a site that keeps its memory in {folder}"
    with held(folder / LOCK, busy, "stop it with `fedcli site stop`, or give another --state"):
        path = folder / PROCESS
        write_text(path, json.dumps({"machine": machine(), "process": os.getpid()}))
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def folder_of(work: Path, name: str | None) -> Path:
    """The folder of the site of that name, or of the only one that runs.

    Raises FedcliError, UsageError.
    """
    sites = work / "site"
    if name:
        return sites / name
    folders = [path.parent for path in sorted(sites.glob(f"*/{LOCK}")) if is_held(path)]
    if not folders:
        raise FedcliError(f"no site runs that keeps its memory under {sites}", "give --state")
    if len(folders) > 1:
        names = console.listed([folder.name for folder in folders])
        raise UsageError(f"several sites run: {names}", f"give one: --name {folders[0].name}")
    return folders[0]


def stop(folder: Path) -> None:
    """End the process of a site as Ctrl-C does, and wait until it has. Raises FedcliError."""
    if not is_held(folder / LOCK):
        raise FedcliError(
            f"no site runs that keeps its memory in {folder}", "give --name or --state"
        )
    try:
        process = json.loads(read_text(folder / PROCESS))
        number = int(process["process"])
        is_here = process["machine"] == machine()
    except (FedcliError, ValueError, KeyError, TypeError):
        hint = "end the process yourself"
        raise FedcliError(f"{folder / PROCESS} does not say which process it is", hint) from None
    if not is_here:
        raise FedcliError(f"the site of {folder} runs on another machine", "stop it there")
    try:
        os.kill(number, signal.SIGTERM)
    except ProcessLookupError:  # it has ended meanwhile
        return
    except PermissionError:
        hint = "whoever started it has to stop it"
        raise FedcliError(f"the site of {folder} is of another account", hint) from None
    begun = time.monotonic()
    while is_held(folder / LOCK):
        if time.monotonic() - begun > LONGEST:
            hint = f"see to the process {number}"
            raise FedcliError(f"the site has not ended in {LONGEST:g} s", hint)
        time.sleep(LOOK)
