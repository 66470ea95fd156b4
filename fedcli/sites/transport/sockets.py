"""Messages through sockets with a name in a folder: one side asks, the other answers.

Whoever answers may send notices before the answer, see tell(): they say that it is alive, or why
there is no answer yet. Whoever has asked may send them too, between two questions.
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
# scalars of a notice: a sentence without a full stop, and whether it is a sign of life
NOTICE, ALIVE = "notice", "alive"
OPEN_FILES = Path("/proc/self/fd")  # where Linux has a short name for a folder that is open


class Closed(Exception):
    """The other side closed the connection between two messages, or within one."""


class Silent(TimeoutError):
    """The other side is given up; the text says why."""


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket at path that only its owner may open; one without a listener is replaced.

    Raises FedcliError, UsageError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_socket():
        raise UsageError(f"{path} is there and no socket", "give another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, named(path) as name:
            if probe.connect_ex(name) == 0:
                raise FedcliError(
                    f"another process listens at {path}", "stop it, or give another --socket"
                )
        # renamed once it listens: who sees a socket can connect
        temporary = path.with_name(f".{secrets.token_hex(3)}")
        try:
            with named(temporary) as name:
                listener.bind(name)
        except PermissionError as error:  # which does not say where
            sentence = f"no socket can be made in {path.parent}: {error.strerror}"
            raise FedcliError(sentence, "give another --socket") from None
        try:
            temporary.chmod(0o600)
            listener.listen()
            temporary.replace(path)
            yield listener
        finally:
            temporary.unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def talk(
    answer: Callable[[Scalars, Arrays], Message],
    connection: socket.socket,
    heard: Callable[[], None] = lambda: None,
) -> None:
    """Answer the messages of one connection until it is closed.

    One that asks nothing from the start on is given up. heard: called at every notice.
    """
    patience: float | None = HANDSHAKE
    while True:
        try:
            scalars, arrays = receive(
                connection,
                patience,
                lambda sentence, alive: heard(),
            )
            send(connection, answer(scalars, arrays), PATIENCE)
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
    noticed: Callable[[str, bool], None] = lambda sentence, alive: None,
    at_most: int | None = None,
) -> Message:
    """The answer to a message; patience, noticed, at_most: as of receive().

    Raises OSError, Closed, FedcliError, Silent.
    """
    busy = ""  # the last notice, if that was no sign of life

    def heard(sentence: str, alive: bool) -> None:
        nonlocal busy
        busy = "" if alive else sentence
        noticed(sentence, alive)

    try:
        send(connection, message, patience)
        return receive(connection, patience, heard, at_most)
    except TimeoutError:
        reason = f"{busy}; that was waited for" if busy else "it gave no sign of life for"
        raise Silent(f"{reason} {patience:g} s") from None


def connected(path: Path) -> socket.socket:
    """A connection to whoever listens at path.

    Raises OSError where nobody listens, or where nobody takes connections.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(HANDSHAKE)
        with named(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


def send(
    connection: socket.socket,
    message: Message,
    patience: float | None = None,
) -> None:
    """Send a message. Raises OSError, TimeoutError where none of it was taken for that long."""
    connection.settimeout(patience)
    for piece in encoded(message):
        for start in range(0, len(piece), PIECE):
            connection.sendall(piece[start : start + PIECE])


def tell(connection: socket.socket, sentence: str, *, alive: bool) -> None:
    """Send a notice, which is dropped where nobody reads.

    Raises OSError where the other side is gone.
    """
    connection.settimeout(0)
    pieces = encoded(({NOTICE: sentence, ALIVE: alive}, {}))
    with suppress(BlockingIOError):
        connection.send(b"".join(map(bytes, pieces)))  # so few bytes go as one


def receive(
    connection: socket.socket,
    patience: float | None = None,
    noticed: Callable[[str, bool], None] = lambda sentence, alive: None,
    at_most: int | None = None,
) -> Message:
    """The next message that is no notice. Raises Closed, OSError, TimeoutError, FedcliError.

    patience: seconds without a sign of life.
    noticed: called with each notice: its sentence, and whether it is a sign of life.
    at_most: bytes of its arrays.
    """
    last_sign = time.monotonic()
    while True:
        if patience is not None:
            rest = last_sign + patience - time.monotonic()
            connection.settimeout(max(1e-3, rest))  # 0 would mean another thing
        else:
            connection.settimeout(None)
        if not connection.recv(1, socket.MSG_PEEK):
            raise Closed
        connection.settimeout(patience)
        scalars, arrays = decoded(lambda buffer: _fill(connection, buffer), at_most)
        if NOTICE not in scalars:
            return scalars, arrays
        alive = scalars.get(ALIVE) is True
        noticed(plain(scalars[NOTICE], LONGEST_NOTICE), alive)
        if alive:
            last_sign = time.monotonic()


def short(path: Path) -> Path:
    """The path, if it is short enough for a socket of every system. Raises UsageError."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(
            f"{path} is too long for a socket's name", f"give one of at most {LONGEST_PATH} bytes"
        )
    return path


@contextmanager
def named(path: Path) -> Iterator[str]:
    """The path as a socket takes it, also in a folder whose own is too long.

    Raises UsageError, OSError.
    """
    is_short = len(os.fsencode(path)) <= LONGEST_PATH
    is_long = len(os.fsencode(path.name)) > LONGEST_NAME
    if is_short or is_long or not OPEN_FILES.is_dir():
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
