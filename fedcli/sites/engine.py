"""The engine of a coordinator whose clients are sites: tasks out, reports in.

What carries them is a Transport, such as sockets.py: it takes one message for each of some clients
and yields their answers as they come. To add one: a file here, and a line in engines.py.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import console
from ..federation.client import Absent, ClientReport, ClientTask
from ..federation.engines.wire import Arrays, Message, pack, to_arrays
from ..methods.mixins import sums_of
from ..runs.assembly import PlannedFederation
from .answers import Lengths, counts, description, odd_ones, of_site
from .answers import report as report_of
from .description import GOES_ON, SAME, Described, SiteError, versions
from .site import BEGIN, SCORE, START, TRAIN, WEIGH
from .tallies import Answer
from .transport.frames import digest, plain
from .transport.relay import LOSS, MODELS, NUMBERS, SUM, TOTAL, UPDATE, WEIGHED

AFTER = "after"  # in what the server keeps for a client: the round whose memory is at its site
NO_ANSWER = "it did not answer"
Reply = Message | str  # or a sentence on why there is no answer
Errors = dict[str, SiteError]  # site -> why it is left out
# Carries messages (client, message) of different clients, and yields (client, reply) in any order,
# each client once. The number is seconds without a sign of life; None waits.
Transport = Callable[[Sequence[tuple[str, Message]], float | None], Iterable[tuple[str, Reply]]]


class Sites:
    """Asks the sites of a federation; an engine as engines.Engine wants it."""

    def __init__(
        self,
        federation: PlannedFederation,
        transport: Transport,
        timeout: float | None = None,
    ):
        """Begin the run at every site.

        Raises SiteError for one that holds other data, and where fewer begin than the federation
        can do with.
        """
        self.federation = federation
        self.transport = transport
        self.timeout = timeout
        self.beginning = _beginning(federation)
        self.run = self.beginning[0]["run"]
        self.descriptions: dict[str, Described] = {}  # of the sites that have begun
        self._agreed: dict[str, Any] = {}
        self._lengths = Lengths()
        roster = federation.data.roster
        failed = self._begin(roster)
        if failed and len(self.descriptions) < (federation.min_clients or len(roster)):
            raise next(iter(failed.values()))

    def __call__(self, tasks: list[ClientTask]) -> Iterator[ClientReport | Absent]:
        failed, answers = self._answers(tasks)
        reports: dict[str, ClientReport] = {}
        for task in tasks:
            client = task.client
            try:
                if client in failed:
                    raise failed[client]
                reports[client] = self._report(task, answers.pop(client, NO_ANSWER))
            except SiteError as error:
                self._give_up(failed, {client: error})
        self._forget_lone_memory(tasks, reports)
        self._give_up(failed, odd_ones(reports, self._agreed))
        sound = {client: report for client, report in reports.items() if client not in failed}
        self._give_up(failed, self._lengths.check(tasks[0].theta, sound, tasks[0].round))
        for task in tasks:  # in task order, whatever came first
            client = task.client
            if client in failed:
                sentence = failed[client].sentence.removeprefix(f"site {client}")
                yield Absent(client, sentence.lstrip(": "))
            else:
                yield reports.pop(client)

    def _answers(self, tasks: Sequence[ClientTask]) -> tuple[Errors, dict[str, Reply]]:
        """Errors on the sites that did not begin the run, and answers of the others to their tasks.

        A site that was started again has to begin the run once more, and is asked again.
        """
        failed = self._begin(
            [task.client for task in tasks if task.client not in self.descriptions]
        )
        answers = self._asked([task for task in tasks if task.client not in failed])
        again = []
        for client, answer in answers.items():
            if not isinstance(answer, str) and answer[0].get("unknown"):
                again.append(client)
        if again:
            failed |= self._begin(again)
            begun = [client for client in again if client not in failed]
            answers |= self._asked([task for task in tasks if task.client in begun])
        return failed, answers

    @staticmethod
    def _forget_lone_memory(tasks: Sequence[ClientTask], reports: dict[str, ClientReport]) -> None:
        """Disbelieve the one site that says it keeps something of its client, where no other did.

        Its later rounds would be refused without that memory, which a method that keeps nothing
        never has.
        """
        keeping = [client for client, report in reports.items() if report.memory]
        has_memory = any(task.memory for task in tasks)
        if len(keeping) != 1 or len(reports) < 2 or has_memory:
            return
        client = keeping[0]
        console.warn(
            f"site {client} reports that it keeps data of its client, and no other site does: "
            "it is not relied on"
        )
        reports[client] = replace(reports[client], memory={})

    def _give_up(self, failed: Errors, wrong: Mapping[str, SiteError]) -> None:
        """Add sites to those that are left out. Raises SiteError where none may be."""
        failed |= wrong
        if wrong and not self.federation.min_clients:
            raise next(iter(wrong.values()))

    def _send(
        self,
        clients: Sequence[str],
        message: Message,
    ) -> dict[str, Reply]:
        """The answers of these sites to one message, which gets the name of each."""
        scalars, arrays = message
        messages = [(client, ({**scalars, "client": client}, arrays)) for client in clients]
        return dict(self.transport(messages, self.timeout))

    def _begin(self, clients: Sequence[str]) -> Errors:
        """Begin the run at these sites; returns errors on those that did not."""
        if not clients:
            return {}
        answers = self._send(clients, self.beginning)
        body = self.federation.data.body
        expected = {key: body[key] for key in SAME if key in body} | {"versions": versions()}
        entries = {entry["client"]: entry for entry in body["roster"]}
        failed: Errors = {}
        for client in clients:
            self.descriptions.pop(client, None)
            entry = {**entries[client], "train": self.federation.counts[client]}
            digest = body.get("data", {}).get(client)
            try:
                scalars, _ = _answered(client, answers.get(client, NO_ANSWER))
                with of_site(client):
                    self.descriptions[client] = description(
                        client,
                        scalars.get("description"),
                        expected,
                        entry,
                        digest,
                    )
            except SiteError as error:
                failed[client] = error
        return failed

    def tallies(
        self,
        round: int,
        theta: Tensor,
        clients: Sequence[str],
    ) -> dict[str, Answer]:
        """Answers of each site on a round's model [P], of its own test images.

        Raises SiteError for one that does not answer, or not with counts.
        """
        question = {"ask": SCORE, "run": self.run, "round": round}
        answers = self._send(clients, (question, to_arrays({"theta": theta})))
        counts_by_client = {}
        for client in clients:
            answer = _answered(client, answers.get(client, NO_ANSWER))
            with of_site(client):
                self._check_question(client, answer, round)
                counts_by_client[client] = counts(answer, self.descriptions[client])
        return counts_by_client

    def _check_question(self, client: str, answer: Message, round: int) -> None:
        """Raises SiteError for the answer to a question of another run or round."""
        scalars, _ = answer
        if (scalars.get("run"), scalars.get("round")) != (self.run, round):
            raise SiteError(f"site {client} answered another request than the one of round {round}")

    def _asked(self, tasks: Sequence[ClientTask]) -> dict[str, Reply]:
        """The answers of the sites to these tasks."""
        messages = [(task.client, self._message(task)) for task in tasks]
        return dict(self.transport(messages, self.timeout))

    def _message(self, task: ClientTask) -> Message:
        scalars, arrays = pack(task)
        after = int(task.memory[AFTER]) if AFTER in task.memory else 0
        return {**scalars, "ask": TRAIN, "run": self.run, "after": after}, arrays

    def _report(self, task: ClientTask, answer: Reply) -> ClientReport:
        """The report in an answer. Raises SiteError for what is no report on this task."""
        client = task.client
        message = _answered(client, answer)
        try:
            with of_site(client):
                self._check_question(client, message, task.round)
                report = report_of(
                    task,
                    message,
                    self.descriptions[client],
                    self.federation,
                )
        except SiteError as error:
            if "not finite" in error.sentence:
                raise self._lengths.blamed(error) from None
            raise
        memory = {AFTER: torch.tensor(task.round)} if message[0].get("kept") else {}
        return replace(report, client=client, row=task.row, memory=memory)


class SummedSites(Sites):
    """Asks all sites of a round for sums, which a job masks at each site and adds.

    See secagg.py. A report then holds the mean of all clients' models in place of its own, which
    gives the same global model under a rule that takes no more than that mean. Under a rule that
    weighs by sums (mixins.WeighsBySums) it is the global model, weighed at the sites.
    """

    def __call__(self, tasks: list[ClientTask]) -> Iterator[ClientReport | Absent]:
        clients = [task.client for task in tasks]
        images = [self.federation.counts[client] for client in clients]
        self.sums = sums_of(self.federation.method.aggregator)
        kind = NUMBERS if self.sums else MODELS
        self.sum = {
            "clients": clients,
            "images": sum(images),
            "largest": max(images),
            "before": 0,
            "of": kind,
        }
        return super().__call__(tasks)

    def _message(self, task: ClientTask) -> Message:
        scalars, arrays = super()._message(task)
        return {**scalars, SUM: self.sum}, arrays

    def _asked(self, tasks: Sequence[ClientTask]) -> dict[str, Reply]:
        """Their updates in a sum, after the sums of numbers that their weights need."""
        answers = super()._asked(tasks)
        for before in range(1, self.sums + 1):
            totals = {}
            for answer in answers.values():
                if isinstance(answer, str) or TOTAL not in answer[1]:
                    return answers
                totals = {TOTAL: answer[1][TOTAL]}
            kind = NUMBERS if before < self.sums else WEIGHED
            sum_so_far = {**self.sum, "before": before, "of": kind}
            question = {
                "ask": WEIGH,
                "run": self.run,
                "round": tasks[0].round,
                SUM: sum_so_far,
            }
            answers = self._send([task.client for task in tasks], (question, totals))
        return answers

    def _report(self, task: ClientTask, answer: Reply) -> ClientReport:
        if not isinstance(answer, str) and "error" not in answer[0]:
            scalars, arrays = answer
            answer = scalars, _of_sum(task, arrays)
        report = super()._report(task, answer)
        images = self.federation.counts[task.client]
        return replace(report, n=images, is_global=self.sums > 0)


def _of_sum(task: ClientTask, arrays: Arrays) -> Arrays:
    """The arrays of a report from those of a sum; a model of no numbers where these are no sum."""
    if arrays.keys() != {UPDATE, LOSS} or arrays[UPDATE].shape != task.theta.shape:
        return {"theta": np.zeros(0, np.float32), LOSS: np.zeros((), np.float32)}
    update = torch.from_numpy(np.array(arrays[UPDATE], np.float64))
    theta = task.theta.cpu().double() + update
    return {"theta": theta.float().numpy(), LOSS: np.array(arrays[LOSS], np.float32)}


def _beginning(federation: PlannedFederation) -> Message:
    """The message that begins a run at a site."""
    arrays: Arrays = {}
    if federation.plan.weights:  # from a seed, a site makes the same network by itself
        tensors = to_arrays(federation.net.state_dict())
        arrays = {f"{START}{name}": array for name, array in tensors.items()}
    plan: dict[str, Any] = federation.plan.decided() | {"weights": None, "teacher": None}
    threads = torch.get_num_threads()
    changing = {"rounds", *federation.plan.of_mark("watching")}  # when a run is gone on with
    lasting = {key: value for key, value in plan.items() if key not in changing}
    identity = [lasting, threads, federation.data.roster, digest(({}, arrays))]
    text = json.dumps(identity, sort_keys=True)
    question = {
        "ask": BEGIN,
        "run": hashlib.sha256(text.encode()).hexdigest()[:16],
        "plan": plan,
        "threads": threads,
        "versions": versions(),
    }
    return question, arrays


def _answered(client: str, answer: Reply) -> Message:
    """The answer itself. Raises SiteError where it is a sentence on why there is no other."""
    if isinstance(answer, str):
        raise SiteError(
            f"site {client}: {answer}",
            f"start it, or give one that runs more time by --timeout; {GOES_ON}",
        )
    scalars, _ = answer
    if "error" in scalars:
        sentence = f"site {client}: {plain(scalars['error'], 300)}"
        raise SiteError(sentence, str(scalars.get("hint", "")))
    if scalars.get("client") != client:
        name = str(scalars.get("client"))[:80]
        raise SiteError(f"site {client} answered as {name!r}", "start it with another --name")
    return answer
