"""Messages over sockets in a folder, one for each site of this machine: the reference that needs no other package.

A site listens at DIR/CLIENT.sock, which only its owner may open. Where sites are on other machines, something that
authenticates both sides has to carry the messages.
"""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from .. import console
from ..errors import FedcliError
from ..federation.engines.wire import Message
from ..locks import held
from ..runs.assembly import PlannedFederation
from ..runs.configuration import Execution
from ..transport import nvflare, sockets
from ..transport.relay import LOOK
from .description import SiteError
from .engine import Sites
from .site import Site

WAIT = 30.0  # seconds for sites to begin listening
JOB_WAIT = 120.0  # the same, where a job of NVFlare or Flower listens in their place
LOCK = ".lock"
SILENT = 1.0  # seconds of waiting before it is said


class Connections:
    """A connection to each site, opened when it is needed; a Transport. A context manager: it closes them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.open: dict[str, socket.socket] = {}

    def wait_for(self, clients: Sequence[str], seconds: float) -> None:
        """Until every site listens, or the time is over."""
        begun, announced = time.monotonic(), False
        end = begun + seconds
        for client in clients:
            while client not in self.open and time.monotonic() < end:
                try:
                    self._connected(client)
                    continue
                except PermissionError:  # waiting would not help; whoever sends to it says so
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    pass
                if not announced and time.monotonic() - begun >= SILENT:
                    console.say(f"waiting up to {seconds:g} s for {client} to listen at {self.folder / client}.sock")
                    announced = True
                time.sleep(0.05)

    def __call__(
        self, messages: Sequence[tuple[str, Message]], timeout: float | None
    ) -> Iterator[tuple[str, Message | str]]:
        end = None if timeout is None else time.monotonic() + timeout
        failed = {client: why for client, message in messages if (why := self._send(client, message, end))}
        yield from failed.items()
        for client, _ in messages:
            if client not in failed:
                yield client, self._receive(client, end)

    def _send(self, client: str, message: Message, end: float | None) -> str:
        """Why it could not be sent; "" where it was."""
        try:
            sockets.send(self._connected(client), message, end)
        except OSError as error:
            return self._lost(client, error)
        return ""

    def _receive(self, client: str, end: float | None) -> Message | str:
        try:
            return sockets.receive(self.open[client], end)
        except (OSError, sockets.Closed) as error:
            return self._lost(client, error)
        except FedcliError as error:
            self._lost(client, error)
            return error.sentence

    def _connected(self, client: str) -> socket.socket:
        if client not in self.open:
            self.open[client] = sockets.connected(self.folder / f"{client}.sock")
        return self.open[client]

    def _lost(self, client: str, error: Exception) -> str:
        """Close a connection, so that no late answer is taken for another; returns why in a sentence."""
        if connection := self.open.pop(client, None):
            connection.close()
        path = self.folder / f"{client}.sock"
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return f"no site listens at {path}"
        if isinstance(error, PermissionError):
            return f"this account may not open {path}"
        if isinstance(error, TimeoutError):
            return "it did not answer in time"
        return "its process ended or closed the connection"

    def __enter__(self) -> "Connections":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for connection in self.open.values():
            connection.close()


@contextmanager
def open_sockets(federation: PlannedFederation, where: str, execution: Execution) -> Iterator[Sites]:
    """The engine of --engine socket:DIR."""
    with Connections(Path(where)) as connections:
        connections.wait_for(federation.data.roster, WAIT)
        yield Sites(federation, connections, execution.timeout or None)


@contextmanager
def open_job(federation: PlannedFederation, where: str, execution: Execution) -> Iterator[Sites]:
    """The engine of --engine nvflare:DIR and flower:DIR, whose job listens in place of every site."""
    with job_connections(federation, where) as connections:
        yield Sites(federation, connections, execution.timeout or None)


@contextmanager
def job_connections(federation: PlannedFederation, where: str) -> Iterator[Connections]:
    """Connections to a job, one for each site. Raises SiteError where none listens."""
    with Connections(Path(where)) as connections:
        connections.wait_for(federation.data.roster, JOB_WAIT)
        if absent := [client for client in federation.data.roster if client not in connections.open]:
            raise SiteError(
                f"no job listens at {connections.folder / absent[0]}.sock",
                "start the job that `fedcli export` wrote, on this machine and with the same --sockets",
            )
        yield connections


def serve(site: Site, path: Path, over: Callable[[], bool] = lambda: False) -> None:
    """Answer whoever connects, one after another, until the process is interrupted or it is over.

    Raises FedcliError, also where another process has the site's folder, whose epsilon only one can count; UsageError.
    """
    busy = f"another process is a site that keeps its memory in {site.folder}", "stop it, or give another --state"
    with suppress(KeyboardInterrupt), held(site.folder / LOCK, *busy), sockets.listening(path) as listener:
        console.say(f"site {site.name} listens at {path}")
        listener.settimeout(LOOK)
        while not over():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                sockets.talk(site, connection)


def serve_nvflare(site: Site, profile: Path) -> None:
    """Answer what NVFlare brings, job after job, until the process is interrupted. Raises FedcliError.

    profile: the JSON file that says where NVFlare's client of this hospital publishes its jobs.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.sock"
        with nvflare.Attached(profile, path) as attached:
            serve(site, path, over=lambda: bool(attached.failed))
