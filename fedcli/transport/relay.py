"""Between sockets and whatever carries messages further: questions at the coordinator, and their answers at a site.

`fedcli train --engine nvflare:DIR` connects to DIR/CLIENT.sock as if the site itself listened there. What runs inside
NVFlare or Flower takes the questions from here, sends each to its site, and brings back the answer. It knows no method
and no run, so that one job serves every run of a federation.
"""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from ..errors import FedcliError
from .frames import Arrays, Message, Scalars
from .sockets import Closed, ask, listening, talk

MASKED = "masked"  # scalar, said at the site: over how many sites the sum is that a report is masked for
SUM = "sum"  # scalar of a task whose report is only wanted within a sum: the clients, and the most images of one
LOOK = 0.2  # seconds between two looks whether to go on listening


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

    def fail(self, sentence: str, hint: str = "") -> None:
        """Answer that there is no answer, as a site does."""
        self.answer(failed(self.client, sentence, hint))


class Relay:
    """Questions of a coordinator, whoever brings them to the sites. A context manager: it owns sockets and threads."""

    def __init__(self, folder: Path, clients: Sequence[str], idle: float):
        """folder: of the sockets. idle: seconds without a coordinator after which the relay is over."""
        self.folder, self.idle = folder, idle
        self._asked: SimpleQueue[Question] = SimpleQueue()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._waiting: set[Question] = set()
        self._last = time.monotonic()
        self._failed: list[Exception] = []
        self._threads = [threading.Thread(target=self._listen, args=(client,), daemon=True) for client in clients]

    @property
    def over(self) -> bool:
        """Whether no coordinator was connected for too long. Raises what a socket failed with."""
        if self._failed:
            raise self._failed[0]
        return not self._open and time.monotonic() - self._last > self.idle

    def questions(self, wait: float) -> Iterator[Question]:
        """The questions that arrived, after at most so many seconds."""
        with suppress(Empty):
            yield self._asked.get(timeout=wait)
            while True:
                yield self._asked.get_nowait()

    def __enter__(self) -> "Relay":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        with self._lock:
            for question in self._waiting:
                question.fail("the job that carries messages to it ended", "start the job again, then use --resume")
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)
        for thread in self._threads:
            thread.join(10)

    def _listen(self, client: str) -> None:
        """Take connections for one site, one after another."""
        try:
            with listening(self.folder / f"{client}.sock") as listener:
                while not self._stop.is_set():
                    listener.settimeout(LOOK)
                    with suppress(TimeoutError):
                        self._talk(client, listener.accept()[0])
        except Exception as error:
            self._failed.append(error)  # raised by `over`, in the thread that runs the job

    def _talk(self, client: str, connection: socket.socket) -> None:
        with self._lock:
            if self._stop.is_set():  # it came after the others were closed
                connection.close()
                return
            self._open.add(connection)
        try:
            with connection:
                talk(_Asked(self, client), connection)
        finally:
            with self._lock:
                self._last = time.monotonic()  # first: else `over` could see no connection and the time before it
                self._open.discard(connection)

    def _answer(self, question: Question) -> Message:
        with self._lock:
            self._waiting.add(question)
        if self._stop.is_set():
            question.fail("the job that carries messages to it ended")
        self._asked.put(question)
        try:
            return question.reply.result()
        finally:
            with self._lock:
                self._waiting.discard(question)


def answered(client: str, path: Path, question: Message, *, masked: int = 0) -> Message:
    """The answer of a site's own process, which listens at path; an answer that says why where there is none.

    masked: over how many sites the sum is for which the caller, on the site's machine, masks the answer; 0: none.
    """
    scalars = {key: value for key, value in question[0].items() if key != MASKED}  # nobody else may say so
    try:
        return ask(path, ({**scalars, MASKED: masked} if masked else scalars, question[1]))
    except (FileNotFoundError, ConnectionRefusedError):
        return failed(client, f"no process of fedcli listens at {path}", "start `fedcli site` there, then use --resume")
    except (OSError, Closed):
        return failed(client, "its process ended before it answered", "start `fedcli site` again, then use --resume")
    except FedcliError as error:
        return failed(client, error.sentence, error.hint)


def failed(client: str, sentence: str, hint: str) -> Message:
    """An answer that says why there is no other."""
    return {"client": client, "error": sentence, "hint": hint}, {}


@dataclass(frozen=True)
class _Asked:
    """Stands for a site."""

    relay: Relay
    client: str

    def answer(self, scalars: Scalars, arrays: Arrays) -> Message:
        return self.relay._answer(Question(self.client, (scalars, arrays)))
