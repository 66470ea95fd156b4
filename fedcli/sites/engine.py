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
from torch import Tensor

from .. import shapes
from ..errors import FedcliError
from ..federation.client import Absent, Report, Task
from ..federation.engines.wire import Arrays, Message, Scalars, pack, to_arrays, unpack
from ..runs.assembly import PlannedFederation
from ..tallies import Answer
from ..transport.frames import digest
from .description import SAME, SHAPE, SiteError, check_against, versions
from .scoring import keys, of_message
from .site import BEGIN, SCORE, START, TRAIN

AFTER = "after"  # in what the server keeps for a client: the round whose memory is at its site
NOTHING = "it did not answer"
CHANGING = "rounds", "eval_every"  # what may differ when a run is gone on with


class Transport(Protocol):
    """Carries messages to sites and their answers back."""

    def __call__(
        self, messages: Sequence[tuple[str, Message]], timeout: float | None, /
    ) -> Iterable[tuple[str, Message | str]]:
        """(client, its answer), or (client, a sentence on why there is none), in any order; each client once.

        messages: (client, message) of different clients. timeout: seconds without a sign of life; None waits.
        """
        ...


class Sites:
    """Asks the sites of a federation; an engine as engines.Engine wants it."""

    def __init__(self, federation: PlannedFederation, transport: Transport, timeout: float | None = None):
        """Begin the run at every site.

        Raises SiteError for one that holds other data, and where fewer begin than the federation can do with.
        """
        self.federation, self.transport, self.timeout = federation, transport, timeout
        self.beginning = _beginning(federation)
        self.run = self.beginning[0]["run"]
        self._known = federation.data.body.get("data", {})  # sha256 of what a site that described itself holds
        failed = self._begin(federation.data.roster)
        present = len(federation.data.roster) - len(failed)
        if failed and present < (federation.min_clients or len(federation.data.roster)):
            raise next(iter(failed.values()))

    def __call__(self, tasks: list[Task]) -> Iterator[Report | Absent]:
        answers = self._asked(tasks)
        unknown = [client for client, answer in answers.items() if _lacks(answer)]
        if unknown:  # sites that were started again
            failed = self._begin(unknown)
            answers |= self._asked([task for task in tasks if task.client in unknown and task.client not in failed])
            answers |= {client: error.sentence for client, error in failed.items()}
        for task in tasks:  # in task order, whatever came first
            try:
                yield self._report(task, answers.pop(task.client, NOTHING))
            except FedcliError as error:
                if not self.federation.min_clients:
                    raise
                yield Absent(task.client, error.sentence.removeprefix(f"site {task.client}: "))

    def _begin(self, clients: Sequence[str]) -> dict[str, SiteError]:
        """Begin the run at these sites; who did not, and why. Raises SiteError for one that holds other data."""
        scalars, arrays = self.beginning
        messages = [(client, ({**scalars, "client": client}, arrays)) for client in clients]
        answers = dict(self.transport(messages, self.timeout))
        body, counts = self.federation.data.body, self.federation.counts
        expected = {key: body[key] for key in SAME if key in body} | {"versions": versions()}
        failed: dict[str, SiteError] = {}
        for client in clients:
            try:
                description = _answered(client, answers.get(client, NOTHING))[0].get("description")
            except SiteError as error:
                failed[client] = error
                continue
            shapes.check(description, SHAPE, f"site {client} described itself wrongly", "is it another version?")
            assert isinstance(description, dict)
            check_against(expected, description, "the coordinator")
            if description["data"] != self._known.get(client, description["data"]):
                raise SiteError(
                    f"site {client} holds other data than it described", "start it with that data, or describe it again"
                )
            if (images := description["images"]["train"]) != counts[client]:
                raise SiteError(
                    f"site {client} has {images} training images, the coordinator knows of {counts[client]}",
                    "start the site with the data that it described, or describe it again",
                )
        return failed

    def tallies(self, round: int, theta: Tensor, clients: Sequence[str]) -> dict[str, Answer]:
        """What each site says of a round's model [P] on its own test images.

        Raises SiteError for one that does not answer, or not with counts.
        """
        question = {"ask": SCORE, "run": self.run, "round": round}
        arrays = to_arrays({"theta": theta})
        answers = dict(self.transport([(c, ({**question, "client": c}, arrays)) for c in clients], self.timeout))
        body, made = self.federation.data.body, {}
        for client in clients:
            scalars, counts = _answered(client, answers.get(client, NOTHING))
            if (scalars.get("run"), scalars.get("round")) != (self.run, round):
                raise SiteError(f"site {client} answered another question than that of round {round}")
            made[client] = of_message(client, (scalars, counts), keys(body["attributes"]), len(body["classes"]))
        return made

    def _asked(self, tasks: Sequence[Task]) -> dict[str, Message | str]:
        """What came back, by client."""
        return dict(self.transport([(task.client, self._message(task)) for task in tasks], self.timeout))

    def _message(self, task: Task) -> Message:
        scalars, arrays = pack(task)
        after = int(task.memory[AFTER]) if AFTER in task.memory else 0
        return {**scalars, "ask": TRAIN, "run": self.run, "after": after}, arrays

    def _report(self, task: Task, answer: Message | str) -> Report:
        """Raises SiteError, MessageError for what is no report on this task."""
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
        if not report.theta.isfinite().all() and self.federation.min_clients:  # otherwise the server says so
            raise SiteError(f"site {task.client}: its model is not finite (NaN or infinity)")
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


def _lacks(answer: Message | str) -> bool:
    """Whether a site says that it has not begun the run."""
    return not isinstance(answer, str) and bool(answer[0].get("unknown"))


def _answered(client: str, answer: Message | str) -> Message:
    """The answer itself. Raises SiteError where it is a sentence on why there is no other."""
    if isinstance(answer, str):
        raise SiteError(f"site {client}: {answer}", "start it again; training goes on with --resume")
    scalars, _ = answer
    if "error" in scalars:
        raise SiteError(f"site {client}: {scalars['error']}"[:380], str(scalars.get("hint", "")))
    if scalars.get("client") != client:
        raise SiteError(
            f"site {client} answered as {str(scalars.get('client'))[:80]!r}", "start it with another --name"
        )
    return answer
