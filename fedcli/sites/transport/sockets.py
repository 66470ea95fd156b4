"""Messages through sockets of this machine, which have a name in a folder: one side asks, the other answers.

Whoever answers may send notices before the answer, see tell(): they say that it is alive, or why there is no answer
yet. Whoever has asked may send them too, between two questions.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ... import console
from ...errors import FedcliError, UsageError
from .frames import Arrays, Message, Scalars, decoded, encoded, plain

LONGEST_PATH = 100  # bytes; the system cuts what is much longer
LONGEST_NAME = 70  # in the folder, whose short name takes the rest
HANDSHAKE = 30.0  # seconds in which a new connection must ask something
PATIENCE = 600.0  # seconds without a sign of life, after which the other side is given up
LONGEST_NOTICE = 200  # characters
PIECE = 2**20  # bytes of which at least one must be taken in that time
NOTICE, ALIVE = (
    "notice",
    "alive",
)  # scalars of a notice: a sentence without a full stop, and whether it is one of life
OPEN_FILES = Path("/proc/self/fd")  # where Linux has a short name for a folder that is open


class Closed(Exception):
    """The other side closed the connection between two messages, or within one."""


class Silent(TimeoutError):
    """The other side is given up; the text says why."""


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
                raise FedcliError(
                    f"another process listens at {path}", "stop it, or give another --socket"
                )
        beside = path.with_name(
            f".{secrets.token_hex(3)}"
        )  # renamed once it listens: who sees a socket can connect
        try:
            with named(beside) as name:
                listener.bind(name)
        except PermissionError as error:  # which does not say where
            what = f"no socket can be made in {path.parent}: {error.strerror}"
            raise FedcliError(what, "give another --socket") from None
        try:
            beside.chmod(0o600)
            listener.listen()
            beside.replace(path)
            yield listener
        finally:
            beside.unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def talk(
    answer: Callable[[Scalars, Arrays], Message],
    connection: socket.socket,
    heard: Callable[[], None] = lambda: None,
) -> None:
    """Answer the messages of one connection until it is closed; one that asks nothing from the start on is given up.

    heard: called at every notice.
    """
    patience: float | None = HANDSHAKE
    while True:
        try:
            asked = receive(connection, patience, lambda why, alive: heard())
            send(connection, answer(*asked), PATIENCE)
        except FedcliError as error:  # what arrived is no message, so nothing after it can be
            console.warn(error.sentence)
            return
        except (OSError, Closed):
            return
        patience = None


def ask(
    connection: socket.socket,
    message: Message,
    patience: float | None,
    noticed: Callable[[str, bool], None] = lambda why, alive: None,
    most: int | None = None,
) -> Message:
    """The answer to a message; patience, noticed, most: as of receive(). Raises OSError, Closed, FedcliError, Silent."""
    busy = ""  # the last notice, if that was no sign of life

    def heard(why: str, alive: bool) -> None:
        nonlocal busy
        busy = "" if alive else why
        noticed(why, alive)

    try:
        send(connection, message, patience)
        return receive(connection, patience, heard, most)
    except TimeoutError:
        why = f"{busy}; that was waited for" if busy else "it gave no sign of life for"
        raise Silent(f"{why} {patience:g} s") from None


def connected(path: Path) -> socket.socket:
    """Raises OSError where nobody listens, or where nobody takes connections."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HANDSHAKE)
        with named(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def send(connection: socket.socket, message: Message, patience: float | None = None) -> None:
    """Send a message. Raises OSError, TimeoutError where none of it was taken for so many seconds."""
    connection.settimeout(patience)
    for piece in encoded(message):
        for at in range(0, len(piece), PIECE):
            connection.sendall(piece[at : at + PIECE])


def tell(connection: socket.socket, why: str, *, alive: bool) -> None:
    """Send a notice, which is dropped where nobody reads. Raises OSError where the other side is gone."""
    connection.settimeout(0)
    with suppress(BlockingIOError):
        connection.send(
            b"".join(map(bytes, encoded(({NOTICE: why, ALIVE: alive}, {}))))
        )  # so few bytes go as one


def receive(
    connection: socket.socket,
    patience: float | None = None,
    noticed: Callable[[str, bool], None] = lambda why, alive: None,
    most: int | None = None,
) -> Message:
    """The next message that is no notice. Raises Closed, OSError, TimeoutError, FedcliError.

    patience: seconds without a sign of life. noticed: called with each notice: its sentence, and whether it is a sign.
    most: bytes of its arrays.
    """
    end = _after(patience)
    while True:
        connection.settimeout(
            None if end is None else max(1e-3, end - time.monotonic())
        )  # 0 would mean another thing
        if not connection.recv(1, socket.MSG_PEEK):
            raise Closed
        connection.settimeout(patience)
        message = decoded(lambda buffer: _fill(connection, buffer), most)
        if NOTICE not in message[0]:
            return message
        alive = message[0].get(ALIVE) is True
        noticed(plain(message[0][NOTICE], LONGEST_NOTICE), alive)
        end = _after(patience) if alive else end


def _after(patience: float | None) -> float | None:
    return None if patience is None else time.monotonic() + patience


def short(path: Path) -> Path:
    """The path, if it is short enough for a socket of every system. Raises UsageError."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(
            f"{path} is too long for a socket's name", f"give one of at most {LONGEST_PATH} bytes"
        )
    return path


@contextmanager
def named(path: Path) -> Iterator[str]:
    """The path as a socket takes it, also in a folder whose own is too long. Raises UsageError, OSError."""
    if (
        len(os.fsencode(path)) <= LONGEST_PATH
        or len(os.fsencode(path.name)) > LONGEST_NAME
        or not OPEN_FILES.is_dir()
    ):
        yield str(short(path))
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"{OPEN_FILES}/{folder}/{path.name}"
    finally:
        os.close(folder)


def _fill(connection: socket.socket, buffer: memoryview) -> None:
    while len(buffer):
        count = connection.recv_into(buffer)
        if not count:
            raise Closed
        buffer = buffer[count:]
