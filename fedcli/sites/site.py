"""A site: a client's images, network, memory and policy, in a process that its hospital owns.

It knows no engine.

    <folder>/audit.jsonl              a line for every answer: when, to what, sha256 and bytes,
                                      names and shapes
    <folder>/memory/<run>/<round>.h5  what the client kept after that round
    <folder>/privacy.json, noise.key  answers that were noised, and the secret that their noise is
                                      from

A question is a message whose scalar "ask" is one of

    describe    who it is, see description.py
    begin       the plan of a run, and as arrays start/NAME the network's first tensors, where no
                seed makes them
    train       a task; "after" is the round after which the client's memory is meant, an earlier
                one after a resume
    weigh       under secure aggregation, the sum of numbers that the client's weight needs, see
                weighing.py
    score       a model of a round: counts of its answers on the client's test images, and of each
                group, see tallies.py

and names the "run" and the "client". Its answer is a message too; one with the scalar "error" says
in a sentence why there is no other. A site never raises at whoever asks.
"""

import logging
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .. import console
from ..data import manifest
from ..data.corruption import mixture
from ..data.shard import Shards
from ..errors import NO_ROOM, FedcliError, of_system
from ..federation import state as states
from ..federation.client import ClientTask
from ..federation.engines.in_process import InProcess
from ..federation.engines.wire import (
    Arrays,
    Message,
    Scalars,
    pack,
    tensors_below,
    to_tensors,
    unpack,
)
from ..io.files import appending
from ..methods.contract import Tensors
from ..methods.mixins import WeighsBySums
from ..runs import own_code
from ..runs.assembly import assemble
from ..runs.finished import load_personal, logits, part
from ..runs.folder import append
from ..runs.resources import be_deterministic
from ..runs.rules import check
from ..runs.train_options import TrainOptions
from .description import GOES_ON, SiteError, check_name, describe, held_by, versions
from .policy import Policy, noised
from .tallies import ALL, CLEAN, Tallies, tallied, to_arrays
from .transport import frames
from .transport.relay import MASKED, SUM, failed
from .weighing import Weighing

DESCRIBE, BEGIN, TRAIN, SCORE = "describe", "begin", "train", "score"
WEIGH = "weigh"
START = "start/"
PARTS = "whole", "measure", "train"
MOST_THREADS = 1024  # as of --threads: with many more, torch crashes
# memories that stay: a coordinator that is killed while it writes a state goes on from the one
# before, two rounds back
KEPT = 3
LONGEST = 300  # characters of a sentence or hint that leaves, or is written down
UNKNOWN = "the site has not begun this run"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """The run that a site takes part in."""

    run: str
    clients: InProcess
    data: Shards
    memory: Path


class Site:
    """Answers questions about one client, one after another; to be used by one thread."""

    def __init__(
        self,
        data: Path,
        folder: Path,
        *,
        client: str | None = None,
        name: str | None = None,
        policy: Policy | None = None,
        device: str = "cpu",
    ):
        """Load the description of the client.

        data: a partition or corruption manifest. client: whose images in it, None for its only one.
        name: of the client in the federation, None for the same.
        Raises FedcliError, HashError, SiteError.
        """
        manifest.verify(data, "partition", "corruption")
        self.data = data
        self.folder = folder
        self.device = device
        self.client = held_by(data, client)
        self.name = name or self.client
        self.policy = policy or Policy()
        check_name(self.name)
        self.description = describe(
            data,
            self.client,
            self.name,
            self.policy.smallest_cell,
        )
        self.begun: Begun | None = None
        self.weighing: Weighing | None = None  # a report that waits for its weight

    def answer(self, scalars: Scalars, arrays: Arrays) -> Message:
        """The answer to one message, after it was written into the audit file."""
        line = {key: _recorded(scalars.get(key)) for key in ("ask", "run", "round", "part")}
        if MASKED in scalars:
            line[MASKED] = _recorded(scalars[MASKED])
        try:
            line["question"] = {
                "sha256": frames.digest((scalars, arrays)),
                "bytes": frames.bytes_of(arrays),
            }
            answer = self._answered(scalars, arrays)
            self._audit(line, answer)
            return answer
        except FedcliError as error:
            return self._failed(line, error.sentence, error.hint)
        except Exception as error:
            return self._failed_unexpectedly(line, error)

    def _answered(self, scalars: Scalars, arrays: Arrays) -> Message:
        kind = scalars.get("ask")
        if kind not in (DESCRIBE, BEGIN, TRAIN, WEIGH, SCORE):
            raise SiteError(f"it cannot answer {str(kind)[:40]!r}", frames.SAME_VERSION)
        if kind == DESCRIBE:
            return {"description": self.description, "client": self.name}, {}
        if scalars.get("client") != self.name:
            sentence = f"it is {self.name}, not {str(scalars.get('client'))[:80]}"
            raise SiteError(sentence, "start it with another --name")
        if kind == BEGIN:
            self.begun = self._begin(scalars, arrays)
            answer: Message = {"description": self.description}, {}
        elif self.begun is None or scalars.get("run") != self.begun.run:
            return {"error": UNKNOWN, "unknown": True, "client": self.name}, {}
        elif kind == TRAIN:
            answer = self._train(self.begun, scalars, arrays)
        elif kind == WEIGH:
            answer = self._weigh(self.begun, scalars, arrays)
        else:
            answer = self._score(self.begun, scalars, arrays)
        answer[0].update(client=self.name, run=self.begun.run)
        return answer

    def _begin(self, scalars: Scalars, arrays: Arrays) -> Begun:
        run = scalars.get("run")
        threads = scalars.get("threads")
        options = scalars.get("plan")
        if not isinstance(run, str) or not re.fullmatch("[0-9a-f]{16}", run):
            raise SiteError("it was asked to begin a run without a name")
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            raise SiteError(f"it was asked to train with {str(threads)[:40]} threads")
        if scalars.get("versions") != versions():
            theirs = str(scalars.get("versions"))[:120]
            raise SiteError(f"it has {versions()}, the coordinator {theirs}")
        plan = TrainOptions.of(options if isinstance(options, dict) else {})
        if plan.weights or plan.teacher or own_code.opens_files(plan.method or "", plan.model):
            raise SiteError(
                "it opens no file that a coordinator names",
                "starting tensors come with the message",
            )
        self.policy.check_plan(plan, self.description["images"]["train"])
        plan = replace(plan, device=self.device)
        be_deterministic(plan.device, threads, plan.precision)
        start = tensors_below(START, arrays)
        federation = assemble(
            self.data,
            plan,
            check(plan),
            only=self.client,
            start=start,
        )
        clients = federation.clients
        shards = {self.name: clients.shards[self.client]}
        val = {self.name: clients.val[self.client]}
        data_digest = self.description["data"][:8]
        memory = self.folder / "memory" / f"{run}-{data_digest}"
        return Begun(
            run,
            replace(clients, shards=shards, val=val),
            federation.data,
            memory,
        )

    def _train(self, begun: Begun, scalars: Scalars, arrays: Arrays) -> Message:
        after = scalars.get("after")
        if not isinstance(after, int) or after < 0:
            raise SiteError("it was sent a task without the round that its memory is of")
        self.policy.check_masked(scalars.get(MASKED))
        task = unpack(ClientTask, (scalars, arrays), device=self.device)
        layout = begun.clients.layout
        _check_task(task, layout.size)
        self.policy.check_round(task.round)
        task = replace(task, memory=recall(begun.memory, after, self.device))
        report = begun.clients.run_one(task)
        self.policy.check_report(report, layout.trainable)
        if task.part != "measure" and self.policy.privacy:
            # of question and update: no two updates are ever given one noise
            update = frames.digest(({}, {"theta": report.theta.cpu().numpy()}))
            digests = f"{frames.digest((scalars, arrays))} {update}"
            spans = layout.spans.items()
            variances = [span for name, span in spans if name.endswith("running_var")]
            privacy = self.policy.privacy
            report = noised(
                report,
                task,
                privacy,
                self.folder,
                digests,
                variances,
            )
        rule = begun.clients.method.aggregator
        if SUM in scalars and isinstance(rule, WeighsBySums):
            self.weighing = Weighing(rule, report, task, after, scalars[SUM])
            return self.weighing.number()
        if task.part != "measure" and report.memory:
            remember(begun.memory, task.round, report.memory, after)
        answer, content = pack(report)
        answer.update(round=task.round, kept=bool(report.memory))
        return answer, content

    def _weigh(self, begun: Begun, scalars: Scalars, arrays: Arrays) -> Message:
        """The next number of the report that waits, or its weighted update."""
        self.policy.check_masked(scalars.get(MASKED))
        weighing = self.weighing
        if weighing is None or scalars.get("round") != weighing.task.round:
            raise SiteError("it was sent a sum of a round that it has not trained")
        weighing.add(arrays)
        if not weighing.is_complete:
            return weighing.number()
        self.weighing = None  # a second weight would show more than the sums do
        answer = weighing.update()
        if weighing.memory:
            remember(begun.memory, weighing.task.round, weighing.memory, weighing.after)
        return answer

    def _score(self, begun: Begun, scalars: Scalars, arrays: Arrays) -> Message:
        round = scalars.get("round")
        theta = arrays.get("theta")
        layout = begun.clients.layout
        self.policy.check_scores()
        if theta is None or theta.shape != (layout.size,) or not isinstance(round, int):
            raise SiteError("it was asked to score what is no model of this run")
        self.policy.check_round(round)
        test_images = begun.data.client_test[self.client]
        if not len(test_images):
            hint = "divide data whose test part has sites: fedcli partition --by SITE"
            raise SiteError("it has no test images of its own", hint)
        layout.load(to_tensors({"theta": theta}, self.device)["theta"])
        layout.load_own(layout.own_start)
        load_personal(layout, newest(begun.memory, round, self.device))
        smallest_cell = self.policy.smallest_cell
        corruptions = set(mixture.of_body(begun.data.body).values())
        counts: dict[str, Tallies] = {}
        for version, images in begun.data.test.items():
            # of several corruptions, no set is corrupted as all clients are
            if version == CLEAN or len(corruptions) < 2:
                shard = part(images, test_images)
                answers = logits(
                    begun.clients.net,
                    shard,
                    begun.clients.method.local,
                )
                counts[version], hidden_groups = tallied(
                    answers, shard, begun.data.attributes, smallest_cell
                )
        left_out = len(test_images) - counts[CLEAN][ALL].images
        is_corrupted = self.client in begun.data.corrupted
        facts = {
            "round": round,
            "left_out": left_out,
            "hidden": hidden_groups,
            "smallest_cell": smallest_cell,
            "corrupted": is_corrupted,
        }
        return facts, to_arrays(counts)

    def _failed_unexpectedly(self, line: Scalars, error: Exception) -> Message:
        """An answer about another error, whose text may hold what must not leave."""
        refusal = of_system(error)
        if not isinstance(error, OSError) or not error.strerror or not refusal:
            _log.exception("%s failed", line["ask"])
            sentence = f"an unexpected {type(error).__name__}, which its own log explains"
            return self._failed(line, sentence, "")
        sentence = f"its system refused a file: {error.strerror}"
        if error.errno in NO_ROOM:
            sentence = "its disk is full"
        hint = f"mend that there; {GOES_ON}"
        return self._failed(line, sentence, hint, refusal.sentence)

    def _failed(
        self,
        line: Scalars,
        sentence: str,
        hint: str,
        at_the_site: str = "",
    ) -> Message:
        """An answer that says why there is no other.

        line: of the audit file, on the question. at_the_site: a sentence with more, which does not
        leave.
        """
        sentence = frames.plain(sentence, LONGEST)
        hint = frames.plain(hint, LONGEST)
        console.warn(f"{self.name}: {at_the_site or sentence}")
        answer = failed(self.name, sentence, hint)
        try:
            self._audit(line, answer)
        except OSError as error:
            # the sentence leaves without its line: it holds nothing of the images
            console.warn(f"{self.folder / 'audit.jsonl'} cannot be written: {error.strerror}")
        return answer

    def _audit(self, line: Scalars, answer: Message) -> None:
        """Write a line on a question and its answer into the audit file."""
        scalars, arrays = answer
        forms = {name: [array.dtype.name, [*array.shape]] for name, array in arrays.items()}
        line = {
            **line,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "sha256": frames.digest(answer),
            "bytes": frames.bytes_of(arrays),
            "scalars": sorted(scalars),
            "arrays": forms,
        }
        if "error" in scalars:
            line["error"] = scalars["error"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with appending(self.folder / "audit.jsonl") as file:
            append(file, line)


def _check_task(task: ClientTask, size: int) -> None:
    """Raises SiteError for a task that a run whose model has so many numbers cannot have."""
    if task.theta.shape != (size,) or task.theta.dtype != torch.float32:
        form = f"of shape {list(task.theta.shape)} and type {task.theta.dtype}"
        raise SiteError(f"it was sent a model {form}; its own has {size} numbers")
    if task.part not in PARTS or not 1 <= task.round <= task.rounds:
        raise SiteError(
            f"it was sent part {task.part[:20]!r} of round {task.round} of {task.rounds}"
        )


def remember(folder: Path, round: int, memory: Tensors, after: int = 0) -> None:
    """Keep what a client has after this round, and drop what is older than the last KEPT.

    Memories of later rounds are dropped too: a run that begins again, or goes on from an earlier
    round, has not played them.

    after: the round that the coordinator meant, which it will mean again if this answer comes too
    late.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states.write_tensors(folder / f"{round:05d}.h5", memory)
    saved = states.saved(folder)
    played = [path for path in saved if int(path.stem) <= round]
    for path in set(saved) - set(played[-KEPT:]):
        if int(path.stem) != after:
            path.unlink()


def recall(folder: Path, round: int, device: str) -> Tensors:
    """The memory after this round; nothing for round 0, before its first.

    Raises FedcliError where it is not here.
    """
    if not round:
        return {}
    path = folder / f"{round:05d}.h5"
    if not path.is_file():
        rounds = ", ".join(map(str, _rounds(folder))) or "none"
        sentence = (
            f"the client's memory after round {round} is not at this site, "
            f"which has it of these rounds: {rounds}"
        )
        hint = "start a new run without --resume, under another --out or --name"
        raise FedcliError(sentence, hint)
    return states.read_tensors(path, device)


def newest(folder: Path, round: int, device: str) -> Tensors:
    """The client's memory when a round was over; nothing where it keeps nothing.

    It may be of an earlier round, where the client took no part in this one.
    Raises FedcliError where only later rounds are here.
    """
    rounds = _rounds(folder)
    if not rounds:
        return {}
    earlier = [number for number in rounds if number <= round]
    return recall(folder, max(earlier, default=round), device)


def _rounds(folder: Path) -> list[int]:
    """The rounds whose memory is in a folder, rising."""
    return [int(path.stem) for path in states.saved(folder)]


def _recorded(value: Any) -> Any:
    """A part of a question, as it is written down: a number or a few characters."""
    if value is None or (type(value) is int and abs(value) < 2**63):
        return value
    return frames.plain(value, 40)
