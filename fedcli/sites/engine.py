"""The engine of a coordinator whose clients are sites: tasks out, reports in, whatever carries them.

What carries them is a Transport, such as sockets.py: it takes one message for each of some clients and yields their
answers as they come. To add one: a file here, and a line in engines.py.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from .. import console
from ..federation.client import Absent, Report, Task
from ..federation.engines.wire import Arrays, Message, Scalars, pack, to_arrays
from ..runs.assembly import PlannedFederation
from .answers import Known, Lengths, counts, description, odd_ones, of_site
from .answers import report as checked
from .description import SAME, SiteError, versions
from .site import BEGIN, SCORE, START, TRAIN
from .tallies import Answer
from .transport.frames import digest, plain
from .transport.relay import SUM

AFTER = "after"  # in what the server keeps for a client: the round whose memory is at its site
NOTHING = "it did not answer"
LOSS, UPDATE = "loss", "update"  # in the answer of a sum


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

    def __init__(
        self, federation: PlannedFederation, transport: Transport, timeout: float | None = None
    ):
        """Begin the run at every site.

        Raises SiteError for one that holds other data, and where fewer begin than the federation can do with.
        """
        self.federation, self.transport, self.timeout = federation, transport, timeout
        self.beginning = _beginning(federation)
        self.run = self.beginning[0]["run"]
        self.known: dict[str, Known] = {}  # what sites that have begun say of themselves
        self._agreed: dict[str, Any] = {}
        self._lengths = Lengths()
        roster = federation.data.roster
        failed = self._begin(roster)
        if failed and len(self.known) < (federation.min_clients or len(roster)):
            raise next(iter(failed.values()))

    def __call__(self, tasks: list[Task]) -> Iterator[Report | Absent]:
        failed = self._begin([task.client for task in tasks if task.client not in self.known])
        answers = self._asked([task for task in tasks if task.client not in failed])
        new = [
            client
            for client, answer in answers.items()
            if not isinstance(answer, str) and answer[0].get("unknown")
        ]
        if again := new:  # sites that were started again, and have to begin the run once more
            failed |= self._begin(again)
            answers |= self._asked(
                [task for task in tasks if task.client in again and task.client not in failed]
            )
        reports: dict[str, Report] = {}
        for task in tasks:
            try:
                if task.client in failed:
                    raise failed[task.client]
                reports[task.client] = self._report(task, answers.pop(task.client, NOTHING))
            except SiteError as error:
                self._give_up(failed, {task.client: error})
        self._forget_lone_memory(tasks, reports)
        self._give_up(failed, odd_ones(reports, self._agreed))
        sound = {client: report for client, report in reports.items() if client not in failed}
        self._give_up(failed, self._lengths.check(tasks[0].theta, sound, tasks[0].round))
        for task in tasks:  # in task order, whatever came first
            if why := failed.get(task.client):
                yield Absent(
                    task.client, why.sentence.removeprefix(f"site {task.client}").lstrip(": ")
                )
            else:
                yield reports.pop(task.client)

    @staticmethod
    def _forget_lone_memory(tasks: Sequence[Task], reports: dict[str, Report]) -> None:
        """Do not believe the one site that says it keeps something of its client, where no other ever did.

        Its later rounds would be refused without that memory, which a method that keeps nothing never has.
        """
        keeping = [client for client, report in reports.items() if report.memory]
        if len(keeping) != 1 or len(reports) < 2 or any(task.memory for task in tasks):
            return
        (client,) = keeping
        console.warn(
            f"site {client} says that it keeps something of its client, and no other site does: it is not relied on"
        )
        reports[client] = replace(reports[client], memory={})

    def _give_up(self, failed: dict[str, SiteError], wrong: Mapping[str, SiteError]) -> None:
        """Add sites to those that are left out. Raises SiteError where none may be."""
        failed |= wrong
        if wrong and not self.federation.min_clients:
            raise next(iter(wrong.values()))

    def _begin(self, clients: Sequence[str]) -> dict[str, SiteError]:
        """Begin the run at these sites; who did not, and why."""
        if not clients:
            return {}
        scalars, arrays = self.beginning
        messages = [(client, ({**scalars, "client": client}, arrays)) for client in clients]
        answers = dict(self.transport(messages, self.timeout))
        body, digests = self.federation.data.body, self.federation.data.body.get("data", {})
        expected = {key: body[key] for key in SAME if key in body} | {"versions": versions()}
        entries = {entry["client"]: entry for entry in body["roster"]}
        failed: dict[str, SiteError] = {}
        for client in clients:
            self.known.pop(client, None)
            try:
                said = _answered(client, answers.get(client, NOTHING))[0].get("description")
                entry = {**entries[client], "train": self.federation.counts[client]}
                with of_site(client):
                    self.known[client] = description(
                        client, said, expected, entry, digests.get(client)
                    )
            except SiteError as error:
                failed[client] = error
        return failed

    def tallies(self, round: int, theta: Tensor, clients: Sequence[str]) -> dict[str, Answer]:
        """Answers of each site on a round's model [P], of its own test images.

        Raises SiteError for one that does not answer, or not with counts.
        """
        question = {"ask": SCORE, "run": self.run, "round": round}
        arrays = to_arrays({"theta": theta})
        answers = dict(
            self.transport(
                [(c, ({**question, "client": c}, arrays)) for c in clients], self.timeout
            )
        )
        made = {}
        for client in clients:
            answer = _answered(client, answers.get(client, NOTHING))
            with of_site(client):
                self._check_question(client, answer, round)
                made[client] = counts(answer, self.known[client])
        return made

    def _check_question(self, client: str, answer: Message, round: int) -> None:
        if (answer[0].get("run"), answer[0].get("round")) != (self.run, round):
            raise SiteError(f"site {client} answered another question than that of round {round}")

    def _asked(self, tasks: Sequence[Task]) -> dict[str, Message | str]:
        return dict(
            self.transport([(task.client, self._message(task)) for task in tasks], self.timeout)
        )

    def _message(self, task: Task) -> Message:
        scalars, arrays = pack(task)
        after = int(task.memory[AFTER]) if AFTER in task.memory else 0
        return {**scalars, "ask": TRAIN, "run": self.run, "after": after}, arrays

    def _report(self, task: Task, answer: Message | str) -> Report:
        """Raises SiteError for what is no report on this task."""
        whole = _answered(task.client, answer)
        try:
            with of_site(task.client):
                self._check_question(task.client, whole, task.round)
                report = checked(task, whole, self.known[task.client], self.federation)
        except SiteError as error:
            raise self._lengths.blamed(error) if "not finite" in error.sentence else error from None
        memory = {AFTER: torch.tensor(task.round)} if whole[0].get("kept") else {}
        return replace(report, client=task.client, row=task.row, memory=memory)


class SummedSites(Sites):
    """Asks all sites of a round for one sum, which a job masks at each site and adds, see secagg.py.

    A report then holds the mean of all clients' models in place of its own, which gives the same global model under a
    rule that takes no more than that mean.
    """

    def __call__(self, tasks: list[Task]) -> Iterator[Report | Absent]:
        counts = self.federation.counts
        self.sum = {
            "clients": [task.client for task in tasks],
            "largest": max(counts[task.client] for task in tasks),
        }
        return super().__call__(tasks)

    def _message(self, task: Task) -> Message:
        scalars, arrays = super()._message(task)
        return {**scalars, SUM: self.sum}, arrays

    def _report(self, task: Task, answer: Message | str) -> Report:
        if not isinstance(answer, str) and "error" not in answer[0]:
            scalars, arrays = answer
            own = {"theta": np.zeros(0, np.float32), LOSS: np.zeros((), np.float32)}
            if set(arrays) == {UPDATE, LOSS} and arrays[UPDATE].shape == task.theta.shape:
                moved = task.theta.cpu().double() + torch.from_numpy(
                    np.array(arrays[UPDATE], np.float64)
                )
                own = {"theta": moved.float().numpy(), LOSS: np.array(arrays[LOSS], np.float32)}
            answer = scalars, own
        report = super()._report(task, answer)
        return replace(report, n=self.federation.counts[task.client])


def _beginning(federation: PlannedFederation) -> Message:
    arrays: Arrays = {}
    if federation.plan.weights:  # from a seed, a site makes the same network by itself
        arrays = {
            f"{START}{name}": array
            for name, array in to_arrays(federation.net.state_dict()).items()
        }
    plan: dict[str, Any] = federation.plan.decided() | {"weights": None, "teacher": None}
    changing = {"rounds", *federation.plan.of_mark("watching")}  # when a run is gone on with
    same = {key: value for key, value in plan.items() if key not in changing}
    scalars: Scalars = {"plan": plan, "threads": torch.get_num_threads(), "versions": versions()}
    text = json.dumps(
        [same, scalars["threads"], federation.data.roster, digest(({}, arrays))], sort_keys=True
    )
    run = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"ask": BEGIN, "run": run, **scalars}, arrays


def _answered(client: str, answer: Message | str) -> Message:
    """The answer itself. Raises SiteError where it is a sentence on why there is no other."""
    if isinstance(answer, str):
        hint = (
            "start it, or give one that runs more time by --timeout; training goes on with --resume"
        )
        raise SiteError(f"site {client}: {answer}", hint)
    scalars, _ = answer
    if "error" in scalars:
        raise SiteError(
            f"site {client}: {plain(scalars['error'], 300)}", str(scalars.get("hint", ""))
        )
    if scalars.get("client") != client:
        other = str(scalars.get("client"))[:80]
        raise SiteError(f"site {client} answered as {other!r}", "start it with another --name")
    return answer
