"""The engine of a coordinator whose clients are sites: tasks out, reports in, whatever carries them.

What carries them is a Transport, such as sockets.py: it takes one message for each of some clients and yields their
answers as they come. To add one: a file here, and a line in REMOTE, see __init__.py.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

import torch

from .. import shapes
from ..federation.client import Report, Task
from ..federation.engines.wire import Arrays, Message, Scalars, pack, to_arrays, unpack
from ..runs.assembly import PlannedFederation
from ..transport.frames import digest
from .description import SAME, SHAPE, SiteError, check_against, versions
from .site import BEGIN, START, TRAIN

AFTER = "after"  # in what the server keeps for a client: the round whose memory is at its site
CHANGING = "rounds", "eval_every"  # what may differ when a run is gone on with


class Transport(Protocol):
    """Carries messages to sites and their answers back."""

    def __call__(
        self, messages: Sequence[tuple[str, Message]], timeout: float | None, /
    ) -> Iterable[tuple[str, Message | str]]:
        """(client, its answer), or (client, a sentence on why there is none), in any order; each client once.

        messages: (client, message) of different clients. timeout: seconds for all of them; None waits.
        """
        ...


class Sites:
    """Asks the sites of a federation; an engine as engines.Engine wants it."""

    def __init__(self, federation: PlannedFederation, transport: Transport, timeout: float | None = None):
        """Begin the run at every site. Raises SiteError for one that does not answer, refuses, or holds other data."""
        self.federation, self.transport, self.timeout = federation, transport, timeout
        self.beginning = _beginning(federation)
        self.run = self.beginning[0]["run"]
        self._begin(federation.data.roster)

    def __call__(self, tasks: list[Task]) -> Iterator[Report]:
        answers = self._asked([(task.client, self._message(task)) for task in tasks])
        if lost := [client for client, (scalars, _) in answers.items() if scalars.get("unknown")]:
            self._begin(lost)  # a site that was started again
            answers |= self._asked([(task.client, self._message(task)) for task in tasks if task.client in lost])
        for task in tasks:  # in task order, whatever came first
            yield self._report(task, answers.pop(task.client))

    def _begin(self, clients: Sequence[str]) -> None:
        scalars, arrays = self.beginning
        answers = self._asked([(client, ({**scalars, "client": client}, arrays)) for client in clients])
        body, counts = self.federation.data.body, self.federation.counts
        expected = {key: body[key] for key in SAME if key in body} | {"versions": versions()}
        for client in clients:
            description = _answered(client, answers[client])[0].get("description")
            shapes.check(description, SHAPE, f"site {client} described itself wrongly", "is it another version?")
            assert isinstance(description, dict)
            check_against(expected, description, "the coordinator")
            if (held := description["images"]["train"]) != counts[client]:
                raise SiteError(
                    f"site {client} has {held} training images, the coordinator knows of {counts[client]}",
                    "start the site with the data that it described, or describe it again",
                )

    def _asked(self, messages: Sequence[tuple[str, Message]]) -> dict[str, Message]:
        """The answer of each client. Raises SiteError for the first, in their order, that did not."""
        answers = dict(self.transport(messages, self.timeout))
        for client, _ in messages:
            answer = answers.get(client, "it did not answer")
            if isinstance(answer, str):
                raise SiteError(f"site {client}: {answer}", "start it again, and go on with --resume")
        return {client: answer for client, answer in answers.items() if not isinstance(answer, str)}

    def _message(self, task: Task) -> Message:
        scalars, arrays = pack(task)
        after = int(task.memory[AFTER]) if AFTER in task.memory else 0
        return {**scalars, "ask": TRAIN, "run": self.run, "after": after}, arrays

    def _report(self, task: Task, answer: Message) -> Report:
        scalars, arrays = _answered(task.client, answer)
        if (scalars.get("run"), scalars.get("round")) != (self.run, task.round):
            raise SiteError(f"site {task.client} answered another question than that of round {task.round}")
        memory = {AFTER: torch.tensor(task.round)} if scalars.get("kept") else {}
        report = unpack(Report, (scalars, arrays), memory, self.federation.device)
        if report.theta.shape != task.theta.shape or report.theta.dtype != task.theta.dtype:
            what = f"of shape {list(report.theta.shape)}, not {list(task.theta.shape)}, or of another type"
            raise SiteError(f"site {task.client} answered with a model {what}")
        if report.loss.ndim or not report.loss.is_floating_point() or report.n < 1 or report.steps < 0:
            raise SiteError(f"site {task.client} answered without its loss, or with numbers that cannot be")
        return replace(report, client=task.client, row=task.row)


def _beginning(federation: PlannedFederation) -> Message:
    """The message that begins a run at every site."""
    arrays: Arrays = {}
    if federation.plan.weights:  # from a seed, a site makes the same network by itself
        arrays = {f"{START}{name}": array for name, array in to_arrays(federation.net.state_dict()).items()}
    plan: dict[str, Any] = asdict(federation.plan) | {"weights": None, "teacher": None}
    same = {key: value for key, value in plan.items() if key not in CHANGING}
    scalars: Scalars = {"plan": plan, "threads": torch.get_num_threads(), "versions": versions()}
    text = json.dumps([same, scalars["threads"], federation.data.roster, digest(({}, arrays))], sort_keys=True)
    run = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"ask": BEGIN, "run": run, **scalars}, arrays


def _answered(client: str, answer: Message) -> Message:
    """The answer itself. Raises SiteError where it is a sentence on why there is no other."""
    scalars, _ = answer
    if "error" in scalars:
        raise SiteError(f"site {client}: {scalars['error']}"[:380], str(scalars.get("hint", "")))
    if scalars.get("client") != client:
        raise SiteError(
            f"site {client} answered as {str(scalars.get('client'))[:80]!r}", "start it with another --name"
        )
    return answer
