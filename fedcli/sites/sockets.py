"""Messages over sockets in a folder, one for each site of this machine.

It is the reference, and needs no other package.

A site listens at DIR/CLIENT.sock, which only its owner may open. Where sites are on other machines,
something that authenticates both sides has to carry the messages.
"""

import math
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from .. import console
from ..errors import FedcliError
from ..federation.engines.wire import Message
from .answers import most_bytes
from .description import GOES_ON
from .running import running
from .site import Site
from .transport import nvflare, sockets
from .transport.relay import LOOK, Relay

WAIT = 30.0  # seconds for sites to begin listening
JOB_WAIT = 120.0  # the same, where a job of NVFlare or Flower listens in their place
SILENT = 1.0  # seconds of waiting before it is said
EVERY = 30.0  # seconds between two sentences on which answers are waited for
# seconds between two notices to sites that listen, while others do not; less than HANDSHAKE
NOTICES = 10.0
MOST_NAMED = 5  # sites in such a sentence
STOPPED = "the site was stopped", f"start it again; {GOES_ON}"


class Connections(AbstractContextManager["Connections"]):
    """A connection to each site, opened when it is needed; a Transport.

    A context manager: it closes them.
    """

    def __init__(self, folder: Path, *, of_job: bool = False):
        """of_job: whether a job of NVFlare or Flower listens in place of every site."""
        self.folder = folder
        self.of_job = of_job
        self.open: dict[str, socket.socket] = {}
        # of the sites that are waited for: the sentence of the last notice, and when it was heard
        self._notices: dict[str, str] = {}
        self._heard: dict[str, float] = {}

    def wait_for(self, clients: Sequence[str], seconds: float) -> None:
        """Return when every site listens, or the time is over."""
        begun = time.monotonic()
        last_notice = begun
        is_announced = False
        for client in clients:
            while client not in self.open and time.monotonic() < begun + seconds:
                try:
                    self._connected(client)
                    continue
                except PermissionError:  # waiting would not help; whoever sends to it says so
                    break
                except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                    pass
                now = time.monotonic()
                if now - begun >= SILENT and not is_announced:
                    path = self._path(client)
                    console.say(f"waiting up to {seconds:g} s for {client} to listen at {path}")
                    is_announced = True
                if now - last_notice >= NOTICES:
                    last_notice = now
                    self._keep_others({client})
                time.sleep(0.05)

    def __call__(
        self, messages: Sequence[tuple[str, Message]], timeout: float | None
    ) -> Iterator[tuple[str, Message | str]]:
        """Carry messages as a Transport does, where each site is asked by a thread of its own.

        timeout: seconds without a sign of life.
        """
        begun = time.monotonic()
        self._notices = {}
        self._heard = {client: begun for client, _ in messages}
        threads = ThreadPoolExecutor(max(1, len(messages)))
        waiting = {
            threads.submit(self._ask, client, message, timeout): client
            for client, message in messages
        }
        threads.shutdown(wait=False)
        last_sentence = begun
        while waiting:
            seconds = max(0.0, last_sentence + EVERY - time.monotonic())
            answered, _ = wait(waiting, seconds, FIRST_COMPLETED)
            for answer in answered:
                yield waiting.pop(answer), answer.result()
            if not answered:
                last_sentence = time.monotonic()
                console.say(self._waiting_for(sorted(waiting.values())))
                self._keep_others({*waiting.values()})

    def _ask(
        self,
        client: str,
        message: Message,
        timeout: float | None,
    ) -> Message | str:
        def noticed(sentence: str, alive: bool) -> None:
            if alive:
                self._heard[client] = time.monotonic()
            elif self._notices.get(client) != sentence:
                console.say(f"site {client}: {sentence}")
            self._notices[client] = sentence

        try:
            connection = self._connected(client)
            return sockets.ask(
                connection,
                message,
                timeout,
                noticed,
                most_bytes(message),
            )
        except (OSError, sockets.Closed, FedcliError) as error:
            return self._lost(client, error)

    def _waiting_for(self, clients: Sequence[str]) -> str:
        now = time.monotonic()
        words = []
        for client in clients[:MOST_NAMED]:
            notice = self._notices.get(client, "no answer yet")
            seconds = now - self._heard[client]
            words.append(f"{client} ({notice}, last sign of life {seconds:.0f} s ago)")
        sentence = f"waiting for {', '.join(words)}"
        if len(clients) > MOST_NAMED:
            sentence += f" and {len(clients) - MOST_NAMED} more"
        return sentence

    def _keep_others(self, waiting: set[str]) -> None:
        """Tell the sites that have answered that this coordinator is alive."""
        for client in self.open.keys() - waiting:
            with suppress(OSError):  # whoever asks it next says so
                sockets.tell(
                    self.open[client],
                    "it waits for other sites",
                    alive=True,
                )

    def _path(self, client: str) -> Path:
        return self.folder / f"{client}.sock"

    def _connected(self, client: str) -> socket.socket:
        if client not in self.open:
            self.open[client] = sockets.connected(self._path(client))
        return self.open[client]

    def _lost(self, client: str, error: Exception) -> str:
        """Close a connection, so that no late answer is taken for another; returns the reason."""
        connection = self.open.pop(client, None)
        if connection:
            connection.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            listener = "job" if self.of_job else "site"
            return f"no {listener} listens at {self._path(client)}"
        if isinstance(error, PermissionError):
            return f"this account may not open {self._path(client)}"
        if isinstance(error, sockets.Silent):
            return str(error)
        if isinstance(error, FedcliError):
            return error.sentence
        other_end = "the job that carries its messages" if self.of_job else "its process"
        return f"{other_end} ended or closed the connection"

    def __exit__(self, *_: object) -> None:
        for connection in self.open.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
            connection.close()


def serve(
    site: Site,
    path: Path,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Answer one coordinator after another until the process is interrupted or it is over.

    Raises FedcliError, also where another process has the site's folder, whose epsilon only one can
    count; UsageError.
    """
    with (
        suppress(KeyboardInterrupt),
        running(site.folder),
        Relay({site.name: path}, math.inf, alive=True, ended=STOPPED) as relay,
    ):
        console.say(f"site {site.name} listens at {path}")
        while not over() and not relay.over:
            # in this thread, whose threads torch was told of
            for question in relay.questions(LOOK):
                question.answer(site.answer(*question.message))


def serve_nvflare(site: Site, profile: Path) -> None:
    """Answer what NVFlare brings, job after job, until the process is interrupted.

    Raises FedcliError.

    profile: the JSON file that says where NVFlare's client of this hospital publishes its jobs.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.sock"
        with nvflare.Attached(profile, path) as attached:
            serve(site, path, over=lambda: bool(attached.failed))
