"""Messages through sockets of this machine, which have a name in a folder: one side asks, the other answers."""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from .. import console
from ..errors import FedcliError, UsageError
from .frames import Arrays, Message, Scalars, decoded, encoded

LONGEST_PATH = 100  # bytes; the system cuts what is much longer
LONGEST_NAME = 70  # in the folder, whose short name takes the rest
OPEN_FILES = Path("/proc/self/fd")  # where Linux has a short name for a folder that is open


class Closed(Exception):
    """The other side closed the connection between two messages, or within one."""


class Answering(Protocol):
    """A site, or what stands for one."""

    def answer(self, scalars: Scalars, arrays: Arrays) -> Message: ...


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket at path that only its owner may open; one that nobody listens at any more is replaced.

    Raises FedcliError, UsageError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_socket():
        raise UsageError(f"{path} is there and no socket", "give another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as known, named(path) as name:
            if known.connect_ex(name) == 0:
                raise FedcliError(f"another process listens at {path}", "stop it, or give another --socket")
        beside = path.with_name(f".{secrets.token_hex(3)}")  # renamed once it listens: who sees a socket can connect
        try:
            with named(beside) as name:
                listener.bind(name)
        except PermissionError as error:  # which does not say where
            raise FedcliError(
                f"no socket can be made in {path.parent}: {error.strerror}", "give another --socket"
            ) from None
        try:
            beside.chmod(0o600)
            listener.listen()
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def talk(answering: Answering, connection: socket.socket) -> None:
    """Answer the messages of one connection until it is closed."""
    while True:
        try:
            send(connection, answering.answer(*receive(connection, None)))
        except FedcliError as error:  # what arrived is no message, so nothing after it can be
            console.warn(error.sentence)
            return
        except (OSError, Closed):
            return


def ask(path: Path, message: Message) -> Message:
    """The answer of whoever listens at path. Raises OSError, Closed, FedcliError."""
    with connected(path) as connection:
        send(connection, message)
        return receive(connection, None)


def connected(path: Path) -> socket.socket:
    """Raises OSError where nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with named(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def send(connection: socket.socket, message: Message, end: float | None = None) -> None:
    """Send a message before the time `end`. Raises OSError, TimeoutError."""
    connection.settimeout(_left(end))
    for piece in encoded(message):
        connection.sendall(piece)


def receive(connection: socket.socket, end: float | None) -> Message:
    """A message that arrives before the time `end`. Raises Closed, OSError, TimeoutError, FedcliError."""
    return decoded(lambda buffer: _fill(connection, buffer, end))


def short(path: Path) -> Path:
    """The path, if it is short enough for a socket of every system. Raises UsageError."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(f"{path} is too long for a socket's name", f"give one of at most {LONGEST_PATH} bytes")
    return path


@contextmanager
def named(path: Path) -> Iterator[str]:
    """The path as a socket takes it, also in a folder whose own is too long. Raises UsageError, OSError."""
    if len(os.fsencode(path)) <= LONGEST_PATH or len(os.fsencode(path.name)) > LONGEST_NAME or not OPEN_FILES.is_dir():
        yield str(short(path))
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"{OPEN_FILES}/{folder}/{path.name}"
    finally:
        os.close(folder)


def _fill(connection: socket.socket, buffer: memoryview, end: float | None) -> None:
    while len(buffer):
        connection.settimeout(_left(end))
        count = connection.recv_into(buffer)
        if not count:
            raise Closed
        buffer = buffer[count:]


def _left(end: float | None) -> float | None:
    """Seconds that are left; a socket takes 0 for something else."""
    return None if end is None else max(1e-3, end - time.monotonic())
