"""Messages over sockets in a folder, one for each site of this machine: the reference that needs no other package.

A site listens at DIR/CLIENT.sock, which only its owner may open. Where sites are on other machines, something that
authenticates both sides has to carry the messages.
"""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from .. import console
from ..errors import FedcliError, UsageError
from ..federation.engines.wire import Message
from ..runs.assembly import PlannedFederation
from ..runs.configuration import Execution
from .engine import Sites
from .frames import decoded, encoded
from .site import Site

WAIT = 30.0  # seconds for sites to begin listening
LONGEST_PATH = 100  # bytes; the system cuts what is much longer


class Closed(Exception):
    """The other side closed the connection between two messages, or within one."""


class Connections:
    """A connection to each site, opened when it is needed; a Transport. A context manager: it closes them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.open: dict[str, socket.socket] = {}

    def wait_for(self, clients: Sequence[str], seconds: float) -> None:
        """Until every site listens, or the time is over."""
        end = time.monotonic() + seconds
        for client in clients:
            while client not in self.open and time.monotonic() < end:
                with suppress(FileNotFoundError, ConnectionRefusedError):
                    self._connected(client)
                    continue
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
            connection = self._connected(client)
            connection.settimeout(_left(end))
            for piece in encoded(message):
                connection.sendall(piece)
        except OSError as error:
            return self._lost(client, error)
        return ""

    def _receive(self, client: str, end: float | None) -> Message | str:
        connection = self.open[client]
        try:
            return decoded(lambda buffer: _fill(connection, buffer, end))
        except (OSError, Closed) as error:
            return self._lost(client, error)
        except FedcliError as error:
            self._lost(client, error)
            return error.sentence

    def _connected(self, client: str) -> socket.socket:
        if client not in self.open:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(_short(self.folder / f"{client}.sock")))
            except BaseException:
                connection.close()
                raise
            self.open[client] = connection
        return self.open[client]

    def _lost(self, client: str, error: Exception) -> str:
        """Close a connection, so that no late answer is taken for another; returns why in a sentence."""
        if connection := self.open.pop(client, None):
            connection.close()
        path = self.folder / f"{client}.sock"
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return f"no site listens at {path}"
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


def serve(site: Site, path: Path) -> None:
    """Answer whoever connects, one after another, until the process is interrupted. Raises FedcliError, UsageError."""
    with suppress(KeyboardInterrupt), _listening(path) as listener:
        console.say(f"site {site.name} listens at {path}")
        while True:
            connection, _ = listener.accept()
            with connection:
                _talk(site, connection)


def _talk(site: Site, connection: socket.socket) -> None:
    """Answer the questions of one connection until it is closed."""
    while True:
        try:
            scalars, arrays = decoded(lambda buffer: _fill(connection, buffer, None))
            for piece in encoded(site.answer(scalars, arrays)):
                connection.sendall(piece)
        except FedcliError as error:  # what arrived is no message, so nothing after it can be
            console.warn(error.sentence)
            return
        except (OSError, Closed):
            return


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    """A socket at path that only its owner may open; one that nobody listens at any more is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_socket():
        raise UsageError(f"{path} is there and no socket", "give another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as known:
            if known.connect_ex(str(_short(path))) == 0:
                raise FedcliError(f"another site listens at {path}", "stop it, or give another --socket")
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen()
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _short(path: Path) -> Path:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(f"{path} is too long for a socket's name", f"give one of at most {LONGEST_PATH} bytes")
    return path


def _fill(connection: socket.socket, buffer: memoryview, end: float | None) -> None:
    """Receive as many bytes as the buffer holds. Raises Closed, TimeoutError."""
    while len(buffer):
        connection.settimeout(_left(end))
        count = connection.recv_into(buffer)
        if not count:
            raise Closed
        buffer = buffer[count:]


def _left(end: float | None) -> float | None:
    """Seconds that are left; a socket takes 0 for something else."""
    return None if end is None else max(1e-3, end - time.monotonic())
