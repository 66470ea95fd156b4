"""A site: a client's images, network, memory and policy, in a process that its hospital owns. It knows no engine.

    <folder>/audit.jsonl                  a line for every answer: when, to what, sha256 and bytes, names and shapes
    <folder>/memory/<run>/<round>.h5      what the client kept after that round
    <folder>/privacy.json, noise.key      answers that were noised, and the secret that their noise is from

A question is a message whose scalar "ask" is one of

    describe    who it is, see description.py
    begin       the plan of a run, and as arrays start/NAME the network's first tensors, where no seed makes them
    train       a task; "after" is the round after which the client's memory is meant, an earlier one after a resume
    score       a model of a round: counts of its answers on the client's test images, and of each group, see tallies.py

and names the "run" and the "client". Its answer is a message too; one with the scalar "error" says in a sentence why
there is no other. A site never raises at whoever asks.
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
from ..federation.client import Task
from ..federation.engines.in_process import InProcess
from ..federation.engines.wire import Arrays, Message, Scalars, pack, to_tensors, unpack
from ..io.files import appending
from ..methods.contract import Tensors
from ..runs import own_code
from ..runs.assembly import assemble
from ..runs.finished import load_personal, logits, part
from ..runs.folder import append
from ..runs.resources import be_deterministic
from ..runs.rules import check
from ..runs.train_options import TrainOptions
from .description import SiteError, check_name, describe, held_by, versions
from .policy import Policy, noised
from .tallies import tallied, to_arrays
from .transport import frames
from .transport.relay import MASKED

DESCRIBE, BEGIN, TRAIN, SCORE = "describe", "begin", "train", "score"
START = "start/"
PARTS = "whole", "measure", "train"
MOST_THREADS = 1024  # as of --threads: with many more, torch crashes
KEPT = 3  # memories: a coordinator that is killed while it writes a state goes on from the one before, two rounds back
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
        """Load what it holds.

        data: a partition or corruption manifest. client: whose images in it, None for its only one.
        name: of the client in the federation, None for the same. Raises FedcliError, HashError, SiteError.
        """
        manifest.verify(data, "partition", "corruption")
        self.data, self.folder, self.device = data, folder, device
        self.client = held_by(data, client)
        self.name, self.policy = name or self.client, policy or Policy()
        check_name(self.name)
        self.description = describe(data, self.client, self.name, self.policy.smallest_cell)
        self.begun: Begun | None = None

    def answer(self, scalars: Scalars, arrays: Arrays) -> Message:
        """The answer to one message, after it was written into the audit file."""
        known = [
            key
            for key in ("ask", "run", "round", "part", MASKED)
            if key in scalars or key != MASKED
        ]
        asked = {key: _short(scalars.get(key)) for key in known}
        try:
            asked["question"] = {
                "sha256": frames.digest((scalars, arrays)),
                "bytes": _bytes(arrays),
            }
            answer = self._answered(scalars, arrays)
            self._audit(asked, answer)
            return answer
        except FedcliError as error:
            return self._failed(asked, error.sentence, error.hint)
        except Exception as error:
            if (
                not isinstance(error, OSError)
                or not error.strerror
                or not (here := of_system(error))
            ):
                _log.exception("%s failed", asked["ask"])  # its text may hold what must not leave
                return self._failed(
                    asked, f"an unexpected {type(error).__name__}, which its own log explains", ""
                )
            what = (
                "its disk is full"
                if error.errno in NO_ROOM
                else f"its system refused a file: {error.strerror}"
            )
            return self._failed(
                asked, what, "mend that there; training goes on with --resume", here.sentence
            )

    def _answered(self, scalars: Scalars, arrays: Arrays) -> Message:
        kind = scalars.get("ask")
        if kind not in (DESCRIBE, BEGIN, TRAIN, SCORE):
            raise SiteError(f"it cannot answer {str(kind)[:40]!r}", frames.SAME_VERSION)
        if kind == DESCRIBE:
            return {"description": self.description, "client": self.name}, {}
        if scalars.get("client") != self.name:
            raise SiteError(
                f"it is {self.name}, not {str(scalars.get('client'))[:80]}",
                "start it with another --name",
            )
        if kind == BEGIN:
            answer, content = self._begin(scalars, arrays)
        elif self.begun is None or scalars.get("run") != self.begun.run:
            answer, content = {"error": UNKNOWN, "unknown": True}, {}
        else:
            answer, content = (self._train if kind == TRAIN else self._score)(
                self.begun, scalars, arrays
            )
        return {**answer, "client": self.name}, content

    def _begin(self, scalars: Scalars, arrays: Arrays) -> Message:
        run, threads = scalars.get("run"), scalars.get("threads")
        if not isinstance(run, str) or not re.fullmatch("[0-9a-f]{16}", run):
            raise SiteError("it was asked to begin a run without a name")
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            raise SiteError(f"it was asked to train with {str(threads)[:40]} threads")
        if scalars.get("versions") != versions():
            raise SiteError(
                f"it has {versions()}, the coordinator {str(scalars.get('versions'))[:120]}"
            )
        plan = TrainOptions.of(scalars["plan"] if isinstance(scalars.get("plan"), dict) else {})
        if plan.weights or plan.teacher or own_code.opens_files(plan.method or "", plan.model):
            raise SiteError(
                "it opens no file that a coordinator names",
                "starting tensors come with the message",
            )
        self.policy.check_plan(plan, self.description["images"]["train"])
        plan = replace(plan, device=self.device)
        be_deterministic(plan.device, threads, plan.precision)
        start = to_tensors(
            {name.removeprefix(START): arrays[name] for name in arrays if name.startswith(START)}
        )
        federation = assemble(self.data, plan, check(plan), only=self.client, start=start)
        own = federation.clients
        clients = replace(
            own, shards={self.name: own.shards[self.client]}, val={self.name: own.val[self.client]}
        )
        kept = self.folder / "memory" / f"{run}-{self.description['data'][:8]}"
        self.begun = Begun(run, clients, federation.data, kept)
        return {"description": self.description, "run": run}, {}

    def _train(self, begun: Begun, scalars: Scalars, arrays: Arrays) -> Message:
        after = scalars.get("after")
        if not isinstance(after, int) or after < 0:
            raise SiteError("it was sent a task without the round that its memory is of")
        self.policy.check_masked(scalars.get(MASKED))
        task = unpack(Task, (scalars, arrays), device=self.device)
        self._check(task, begun)
        task = replace(task, memory=recall(begun.memory, after, self.device))
        report = begun.clients.run_one(task)
        self.policy.check_report(report, begun.clients.layout.trainable)
        if task.part != "measure" and report.memory:
            remember(begun.memory, task.round, report.memory, after)
        if self.policy.privacy and task.part != "measure":
            update = frames.digest(({}, {"theta": report.theta.cpu().numpy()}))
            asked = f"{frames.digest((scalars, arrays))} {update}"  # no two updates are ever given one noise
            spans = begun.clients.layout.spans.items()
            variances = [span for name, span in spans if name.endswith("running_var")]
            report = noised(report, task, self.policy.privacy, self.folder, asked, variances)
        answer, content = pack(report)
        return {
            **answer,
            "run": begun.run,
            "round": task.round,
            "kept": bool(report.memory),
        }, content

    def _score(self, begun: Begun, scalars: Scalars, arrays: Arrays) -> Message:
        round, theta, layout = scalars.get("round"), arrays.get("theta"), begun.clients.layout
        self.policy.check_scores()
        if theta is None or theta.shape != (layout.size,) or not isinstance(round, int):
            raise SiteError("it was asked to score what is no model of this run")
        self.policy.check_round(round)
        places = begun.data.client_test[self.client]
        if not len(places):
            hint = "divide data whose test part has sites: fedcli partition --by SITE"
            raise SiteError("it has no test images of its own", hint)
        layout.load(to_tensors({"theta": theta}, self.device)["theta"])
        layout.load_own(layout.own_start)
        load_personal(layout, newest(begun.memory, round, self.device))
        several = (
            len(set(mixture.of_body(begun.data.body).values())) > 1
        )  # then no set is corrupted as all clients are
        counted, shown = {}, None
        for version, images in begun.data.test.items():
            if version == "clean" or not several:
                shard = part(images, places)
                answers = logits(begun.clients.net, shard, begun.clients.method.local)
                shown = tallied(answers, shard, begun.data.attributes, self.policy.smallest_cell)
                counted[version] = shown.tallies
        corrupted = self.client in begun.data.corrupted
        return {
            "run": begun.run,
            "round": round,
            "left_out": shown.left_out if shown else 0,
            "hidden": shown.hidden_groups if shown else [],
            "smallest_cell": self.policy.smallest_cell,
            "corrupted": corrupted,
        }, to_arrays(counted)

    def _check(self, task: Task, begun: Begun) -> None:
        """Raises SiteError for a task that this run cannot have."""
        layout = begun.clients.layout
        if task.theta.shape != (layout.size,) or task.theta.dtype != torch.float32:
            what = f"of shape {list(task.theta.shape)} and type {task.theta.dtype}"
            raise SiteError(f"it was sent a model {what}; its own has {layout.size} numbers")
        if task.part not in PARTS or not 1 <= task.round <= task.rounds:
            raise SiteError(
                f"it was sent part {task.part[:20]!r} of round {task.round} of {task.rounds}"
            )
        self.policy.check_round(task.round)

    def _failed(self, asked: Scalars, sentence: str, hint: str, here: str = "") -> Message:
        """An answer that says why there is no other. here: what is said at the site in its place."""
        sentence, hint = frames.plain(sentence, LONGEST), frames.plain(hint, LONGEST)
        console.warn(f"{self.name}: {here or sentence}")
        answer: Message = {"client": self.name, "error": sentence, "hint": hint}, {}
        try:
            self._audit(asked, answer)
        except (
            OSError
        ) as error:  # the sentence leaves without its line: it holds nothing of the images
            console.warn(f"{self.folder / 'audit.jsonl'} cannot be written: {error.strerror}")
        return answer

    def _audit(self, asked: Scalars, answer: Message) -> None:
        scalars, arrays = answer
        self.folder.mkdir(parents=True, exist_ok=True)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **asked,
            "sha256": frames.digest(answer),
            "bytes": _bytes(arrays),
            "scalars": sorted(scalars),
            "arrays": {
                name: [array.dtype.name, list(array.shape)]
                for name, array in sorted(arrays.items())
            },
            **({"error": scalars["error"]} if "error" in scalars else {}),
        }
        with appending(self.folder / "audit.jsonl") as file:
            append(file, line)


def remember(folder: Path, round: int, memory: Tensors, after: int = 0) -> None:
    """Keep what a client has after this round, and drop what is older than the last KEPT, and what is of later
    rounds: a run that begins again, or goes on from an earlier round, has not played them.

    after: the round that the coordinator meant, which it will mean again if this answer comes too late.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states.write_tensors(folder / f"{round:05d}.h5", memory)
    saved = states.saved(folder)
    played = [path for path in saved if int(path.stem) <= round]
    kept = played[-KEPT:]
    for path in saved:
        if path not in kept and int(path.stem) != after:
            path.unlink()


def recall(folder: Path, round: int, device: str) -> Tensors:
    """The memory after this round; nothing for round 0, before its first. Raises FedcliError where it is not here."""
    if not round:
        return {}
    path = folder / f"{round:05d}.h5"
    if not path.is_file():
        rounds = ", ".join(str(int(known.stem)) for known in states.saved(folder)) or "none"
        what = f"the client's memory after round {round} is not at this site, which has it of these rounds: {rounds}"
        raise FedcliError(what, "start the run again without --resume")
    return states.read_tensors(path, device)


def newest(folder: Path, round: int, device: str) -> Tensors:
    """The memory it kept when a round was over, whether it took part in it or not; nothing where it keeps nothing.

    Raises FedcliError where only later rounds are here.
    """
    known = states.saved(folder)
    before = [path for path in known if int(path.stem) <= round]
    return recall(folder, int(before[-1].stem) if before else round if known else 0, device)


def _bytes(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())


def _short(value: Any) -> Any:
    """A part of a question, as it is written down: a number or a few characters."""
    return (
        value
        if value is None or (type(value) is int and abs(value) < 2**63)
        else frames.plain(value, 40)
    )
