"""Between sockets and whatever carries messages further: questions, and their answers.

`fedcli train --engine nvflare:DIR` connects to DIR/CLIENT.sock as if the site itself listened
there. What runs inside NVFlare or Flower takes the questions from here, sends each to its site, and
brings back the answer. It knows no method and no run, so that one job serves every run of a
federation. A site's own socket is served in the same way.

Each connection has a thread, so that one that is silent keeps nobody waiting. The first that asks
something has the site until it ends; others are told so, and one of them gets it where that one is
silent for too long.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ... import console
from ...errors import FedcliError
from .frames import SAME_VERSION, Arrays, FrameError, Message, Scalars, check
from .sockets import PATIENCE, Closed, Silent, ask, connected, listening, talk, tell

# scalar of a task, said at the site: over how many sites the sum is that a report is masked for
MASKED = "masked"
# scalar of a question whose answer is only wanted within a sum: the clients, their images and the
# most images of one, the number of sums of the round before it, and what is added, a key of ADDED
SUM = "sum"
# arrays of an answer that is added, and of the question that brings a sum
NUMBER, UPDATE, WEIGHT, LOSS, TOTAL = "number", "update", "weight", "loss", "total"
MODELS, NUMBERS, WEIGHED = "models", "numbers", "weighed"
PLACES = 256  # binary ones of a number that is added, before its point and behind
LARGEST_NUMBER = 2.0**PLACES
LOOK = 0.2  # seconds between two looks whether to go on listening
LIFE = 10.0  # seconds between two notices
MOST = 64  # connections to a site at once
JOB_ENDED = "the job that carries messages to it ended", "start the job again, then use --resume"


@dataclass(frozen=True, eq=False)
class Question:
    """A message to a site, and the place for its answer."""

    client: str
    message: Message
    reply: Future[Message] = field(default_factory=Future)

    def answer(self, message: Message) -> None:
        """Give the answer; one that comes after another is dropped."""
        with suppress(InvalidStateError):
            self.reply.set_result(message)

    def answer_of(self, read: Callable[[Any], Message], carried: Any) -> None:
        """Give the answer that read() makes of `carried`; a site that sent nonsense ends no job."""
        try:
            message = read(carried)
            check(message)
        except FrameError as error:
            self.fail(f"it answered with what no site sends: {error.sentence}", SAME_VERSION)
        except Exception as error:  # whatever a site has put there
            sentence = f"it answered with no message of fedcli ({type(error).__name__})"
            self.fail(sentence, SAME_VERSION)
        else:
            self.answer(message)

    def fail(self, sentence: str, hint: str = "") -> None:
        """Answer that there is no answer, as a site does."""
        self.answer(failed(self.client, sentence, hint))


class _Turn:
    """A site that one connection has for itself; written by the thread of that connection."""

    def __init__(self, client: str):
        self.client = client
        self.connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._since = ""
        self._heard = 0.0  # when it last asked or said something, or was answered
        self.busy = False

    def take(self, connection: socket.socket, over: threading.Event) -> None:
        """Wait until no other has it.

        Raises Closed where the relay is over, OSError where nobody waits any more.
        """
        seconds = min(1.0, LIFE)  # one that has just been left is free in a moment
        while not self._lock.acquire(timeout=seconds):
            if over.is_set():
                raise Closed
            tell(
                connection,
                f"it serves another coordinator since {self._since}",
                alive=False,
            )
            self._take_from_silent()
            seconds = LIFE
        self._heard = time.monotonic()
        self._since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        self.connection = connection

    def _take_from_silent(self) -> None:
        """End the connection that has the site where nothing was heard of it for too long."""
        silent = self.connection
        if silent and not self.busy and time.monotonic() - self._heard > PATIENCE:
            console.warn(
                f"{self.client}: the coordinator that was served since {self._since} is silent; "
                "another one is waiting"
            )
            with suppress(OSError):
                silent.shutdown(socket.SHUT_RDWR)

    def heard(self, connection: socket.socket) -> None:
        if self.connection is connection:
            self._heard = time.monotonic()

    def leave(self, connection: socket.socket) -> None:
        if self.connection is connection:
            self.connection = None
            self._lock.release()


class Relay:
    """Questions of a coordinator, whoever brings them to the sites.

    A context manager: it owns sockets and threads.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        idle: float,
        *,
        alive: bool = False,
        ended: tuple[str, str] = JOB_ENDED,
    ):
        """Hold no socket yet, see __enter__().

        paths: client -> its socket.
        idle: seconds without a coordinator after which the relay is over.

        alive: whether a question that waits is a sign of life: what carries it then says by itself
        that a site is lost.
        ended: sentence and hint for questions that are not answered when it ends.
        """
        self.idle, self.alive, self.ended = idle, alive, ended
        self._paths = paths
        self._asked: SimpleQueue[Question] = SimpleQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._waiting: set[Question] = set()
        self._last = time.monotonic()
        self._failed: list[Exception] = []
        self._turns = {client: _Turn(client) for client in paths}
        self._sockets = ExitStack()
        self._listeners: list[threading.Thread] = []

    @property
    def over(self) -> bool:
        """Tell whether no coordinator was connected for too long.

        Raises what a socket failed with.
        """
        if self._failed:
            raise self._failed[0]
        return not self._open and time.monotonic() - self._last > self.idle

    def questions(self, wait: float) -> Iterator[Question]:
        """The questions that arrived after at most so many seconds, and that somebody waits for."""
        with suppress(Empty):
            question = self._asked.get(timeout=wait)
            while True:
                if not question.reply.done():
                    yield question
                question = self._asked.get_nowait()

    def __enter__(self) -> "Relay":
        """Raises FedcliError, UsageError where a socket cannot be listened at."""
        with ExitStack() as opened:
            for client, path in self._paths.items():
                listener = opened.enter_context(listening(path))
                thread = threading.Thread(
                    target=self._listen,
                    args=(client, listener),
                    daemon=True,
                )
                self._listeners.append(thread)
            self._sockets = opened.pop_all()
        for thread in self._listeners:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:
            threads = [*self._listeners, *self._open.values()]
            for question in self._waiting:
                question.fail(*self.ended)
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
        end = time.monotonic() + 10
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._sockets.close()

    def _listen(self, client: str, listener: socket.socket) -> None:
        listener.settimeout(LOOK)
        try:
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    self._start(client, listener.accept()[0])
        except Exception as error:
            self._failed.append(error)  # raised by `over`, in the thread that runs the job

    def _start(self, client: str, connection: socket.socket) -> None:
        thread = threading.Thread(
            target=self._talk,
            args=(client, connection),
            daemon=True,
        )
        with self._lock:
            is_full = len(self._open) >= MOST * len(self._paths)
            if self._stop.is_set() or is_full:
                connection.close()
                return
            self._open[connection] = thread
        thread.start()

    def _talk(self, client: str, connection: socket.socket) -> None:
        turn = self._turns[client]

        def answer(scalars: Scalars, arrays: Arrays) -> Message:
            if turn.connection is not connection:
                turn.take(connection, self._stop)
            turn.busy = True
            try:
                return self._answer(Question(client, (scalars, arrays)), connection)
            finally:
                turn.heard(connection)
                turn.busy = False

        try:
            with connection:
                talk(answer, connection, lambda: turn.heard(connection))
        finally:
            turn.leave(connection)
            with self._lock:
                # first: else `over` could see no connection and the time before it
                self._last = time.monotonic()
                del self._open[connection]

    def _answer(self, question: Question, connection: socket.socket) -> Message:
        with self._lock:
            self._waiting.add(question)
        if self._stop.is_set():
            question.fail(*self.ended)
        self._asked.put(question)
        notice = "it is at work" if self.alive else "the job waits for it"
        try:
            while True:
                with suppress(TimeoutError):
                    return question.reply.result(LIFE)
                tell(connection, notice, alive=self.alive)
        finally:
            question.reply.cancel()  # where nobody waits any more
            with self._lock:
                self._waiting.discard(question)


def answered(
    client: str,
    path: Path,
    question: Message,
    *,
    masked: int = 0,
) -> Message:
    """The answer of a site's own process, which listens at path, or one that says why it has none.

    masked: over how many sites the sum is for which the caller, on the site's machine, masks the
    answer; 0: none.
    """
    scalars, arrays = question
    scalars = {key: value for key, value in scalars.items() if key != MASKED}
    if masked:  # nobody else may say so
        scalars[MASKED] = masked
    try:
        with connected(path) as connection:
            return ask(connection, (scalars, arrays), PATIENCE)
    except (FileNotFoundError, ConnectionRefusedError):
        sentence = f"no process of fedcli listens at {path}"
        return failed(
            client,
            sentence,
            "start `fedcli site` there, then use --resume",
        )
    except Silent as error:
        return failed(
            client,
            str(error),
            "look at `fedcli site` there, then use --resume",
        )
    except (OSError, Closed):
        sentence = "its process ended before it answered"
        return failed(
            client,
            sentence,
            "start `fedcli site` again, then use --resume",
        )
    except FedcliError as error:
        return failed(client, error.sentence, error.hint)


def failed(client: str, sentence: str, hint: str) -> Message:
    """An answer that says why there is no other."""
    return {"client": client, "error": sentence, "hint": hint}, {}


def paths_in(folder: Path, clients: Sequence[str]) -> dict[str, Path]:
    """Where a coordinator looks for the sockets of these sites."""
    return {client: folder / f"{client}.sock" for client in clients}
