"""The train stage: a run folder that can be killed at any moment and resumed to the same bytes.

    settings.json     what was asked for; written first, so that --resume can compare
    rounds.jsonl      one line per round
    state/<round>.h5  the newest states; removed when the run is done
    models/<round>.h5 the models of the last five rounds
    models/best.h5    the model that was best on the clients' validation parts, where they have them
    models/frozen.h5  what never trained, where a part of the network was frozen
    timing.jsonl      clocks and memory, outside the promise of equal bytes
    run.json          the manifest; written last, so it stands for a finished run

Order of a round: append the line, keep the model, then write the state, which holds the best model
so far. On resume the newest whole state wins and later lines are cut and played again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import console
from ..data import manifest
from ..errors import FedcliError
from ..federation.client_state import ClientState, ClientStateStore
from ..federation.engines import Engine
from ..federation.server import Played
from ..federation.state import RunState
from ..io.files import appending, write_text
from ..methods.mixins import ContinuesRun
from ..methods.registry import Method
from ..options import path_of
from . import chosen_engine, precision, record, resources, settings
from . import folder as folders
from .assembly import PlannedFederation, assemble, open_parent, probe
from .chosen_engine import opened, reaches_sites
from .clocks import Clocks
from .finished import BEST, KEPT, model_file, save_frozen, save_model
from .initial import ParentRun
from .rules import check, method_of
from .scoring import Scoring, check_patience, in_words
from .settled import chosen, settled, unaugmented
from .train_options import TrainOptions

Trained = Callable[[Path, PlannedFederation, float], None]
STATE_SHARE = 0.02  # of the time may go into writing states


class Interrupted(FedcliError):
    """Ctrl-C after the state was saved."""

    code = 130


def train(
    data: Path,
    plan: TrainOptions,
    *,
    typed: bool = False,
    trained: Trained | None = None,
) -> Path:
    """Train and return the path of run.json.

    data: a partition or corruption manifest, or one of sites.
    typed: on a command line, where a run that is resumed and not there may not begin beside one
        that waits.
    trained: (folder, federation, seconds of all rounds) -> None, called after training; not called
        where the finished run existed.
    Raises FedcliError, HashError, Interrupted.
    """
    source = manifest.verify(data, "partition", "corruption", "sites")
    requested = plan
    plan = settled(requested, check(requested), source.body)
    method = method_of(plan)
    remotely = reaches_sites(plan, source.kind)
    settle_threads = chosen_engine.prepare(plan, len(source.body["roster"]))
    resources.restart(plan.device)
    recorded = _Recorded(data, plan, method, open_parent(plan, method))
    if plan.precision == "auto":
        recorded = _measured(recorded)
        plan = recorded.plan
        resources.be_deterministic(plan.device, 0, plan.precision)
    folder = recorded.folder
    options = recorded.options
    if (folder / "run.json").exists():
        return recorded.reused()
    for note in (chosen(requested, plan, source.body), unaugmented(requested, plan, source.body)):
        if note:
            console.say(note)
    settings_path = folder / "settings.json"
    if plan.resume and plan.out is None and not settings_path.exists():
        folders.refuse_waiting(folder.parent, options, typed=typed)
    # what can fail fails before the folder is made
    federation = assemble(data, plan, method, recorded.parent_run)
    check_patience(federation)
    settle_threads(federation)
    content = settings.content(folder, data, plan, options)
    # a site keeps the memory of its last rounds only, so the state must never be far behind
    checkpoint_every = plan.checkpoint_every or int(remotely)
    with opened(federation) as engine, folders.claimed(folder, wait=plan.wait):
        if (folder / "run.json").exists():  # another process finished it since
            return recorded.reused()
        run = _Training(folder, federation, engine, checkpoint_every)
        forced = folders.settle(
            folder,
            content,
            resume=plan.resume,
            force=plan.force,
        )
        run.play()
        body = run.body()
        body["environment"] = content["environment"]
        if forced:
            body["forced"] = forced
        path = recorded.sealed(body)
        folders.remove_states(folder)  # last: until run.json is there, it is all there is
        if trained:
            trained(folder, federation, run.clocks.seconds)
        return path


@dataclass(frozen=True)
class _Recorded:
    """A plan with all that names its run: the record of its options and the manifests that it
    reads.

    Attributes:
        plan: settled, so that it is recorded once.
    """

    data: Path
    plan: TrainOptions
    method: Method
    parent_run: ParentRun | None

    @cached_property
    def options(self) -> dict[str, Any]:
        return settings.options(self.plan, self.method, self.parent_run)

    @property
    def parents(self) -> list[Path]:
        if self.parent_run:
            return [self.data, self.parent_run.path]
        return [self.data]

    @cached_property
    def folder(self) -> Path:
        """The folder of the run: the one in --out, or one named by its methods and options."""
        slug = self.method.name
        if self.parent_run and isinstance(self.method.aggregator, ContinuesRun):
            slug = f"{self.parent_run.body['method']}-{slug}"
        if self.plan.single_site:
            slug = f"{slug}-single-site"
        out = path_of(self.plan.out)
        work = Path(self.plan.work)
        return manifest.place(
            work,
            out,
            "run",
            slug,
            self.options,
            self.parents,
        )

    def in_precision(self, name: precision.Precision) -> "_Recorded":
        return replace(self, plan=replace(self.plan, precision=name))

    def sealed(self, body: dict[str, Any]) -> Path:
        """Write run.json and return its path."""
        made_by = settings.command(self.options)
        links = manifest.links(self.folder, self.parents)
        marked = manifest.marked(body, self.parents)
        result = manifest.Manifest(
            "run",
            made_by,
            self.options,
            links,
            {},
            marked,
        )
        return manifest.seal(
            self.folder,
            result,
            outside=("settings.json", "timing.jsonl", "state", "scores"),
        )

    def reused(self) -> Path:
        """The run.json of a finished run, checked."""
        path = manifest.reuse(
            self.folder / "run.json",
            self.options,
            self.parents,
        )
        folders.remove_states(self.folder)  # left by a kill right after run.json was written
        return path


def _measured(recorded: _Recorded) -> _Recorded:
    """The plan in the precision of a run that exists already, else in the fastest one."""
    for name in precision.choices(recorded.plan.device):
        in_precision = recorded.in_precision(name)
        if not (in_precision.folder / "settings.json").is_file():
            continue
        options_there = settings.load(in_precision.folder)["options"]
        if options_there.get("precision") == name:
            return in_precision
    fastest, seconds = precision.fastest(*probe(recorded.data, recorded.plan))
    times = [f"{1e3 * value:.1f} ms in {name}" for name, value in seconds.items()]
    console.say(f"precision: {fastest} (a step takes {', '.join(times)})")
    return recorded.in_precision(fastest)


class _Training:
    """One training in one folder: loads, plays the rounds that are missing, keeps the record."""

    def __init__(
        self,
        folder: Path,
        federation: PlannedFederation,
        engine: Engine,
        checkpoint_every: int,
    ):
        self.folder = folder
        self.federation = federation
        self.engine = engine
        self.checkpoint_every = checkpoint_every
        self.plan = federation.plan
        self.data = federation.data
        self.scoring = Scoring(federation)
        self.store = ClientStateStore(folder)
        self.state = federation.first()
        self.written = 0.0  # seconds of writing a state
        self.spent = 0.0  # seconds of rounds since the last one
        self.clocks = Clocks(federation)
        self.writing: Future[None] | None = None  # the state that is written beside the rounds

    def play(self) -> None:
        """Play the rounds that are missing, and keep the models of the last rounds and the best."""
        (self.folder / "state").mkdir(exist_ok=True)
        if self.federation.frozen:
            save_frozen(self.folder / "models" / "frozen.h5", self.federation.frozen)
        self.state = self._start()
        if self.federation.warning:
            console.warn(self.federation.warning)
        try:
            with (
                appending(self.folder / "rounds.jsonl") as lines,
                appending(self.folder / "timing.jsonl") as timing,
                ThreadPoolExecutor(1) as writer,
            ):
                self._play_rounds(lines, timing, writer)
                self._await_state()
        except KeyboardInterrupt:
            folders.save_state(self.folder, self.state, self.data.roster)
            raise self._interrupted() from None
        best = self.state.best
        if best:
            if self._out_of_patience():
                console.say(
                    f"stopped after round {self.state.round} of {self.plan.rounds}: "
                    f"no better score on validation images since round {best.round}"
                )
            self._save(model_file(self.folder, BEST), best.theta, best.clients)
        self._drop_other_models()

    def _interrupted(self) -> Interrupted:
        sentence = f"interrupted before the first of {self.plan.rounds} rounds was done"
        rounds_done = self.state.round
        if rounds_done:
            sentence = (
                f"interrupted after round {rounds_done} of {self.plan.rounds}, which is saved"
            )
        hint = f"go on with: fedcli train --resume --out {self.folder}"
        if self.federation.method.code:
            hint = "go on with the same command and --resume"
        return Interrupted(sentence, hint)

    def _play_rounds(
        self,
        lines: Any,
        timing: Any,
        writer: ThreadPoolExecutor,
    ) -> None:
        """Play the rounds that are missing; a round that is interrupted is played again."""
        label = record.titled(self.federation, self.federation.method.label)
        clocks = self.clocks
        rounds = self.plan.rounds
        missing = self._missing_rounds()
        for _ in console.progress(missing, label=label, total=rounds, done=self.state.round):
            clocks.begin()
            played = self.federation.play(
                self.state,
                engine=self.engine,
                arrived=clocks.arrived,
            )
            line = record.line(self.federation, played)
            with clocks.part("evaluation"):
                line |= self.scoring.line(played.state)
            with clocks.part("writing"):
                folders.append(lines, line)
                self.state = self._kept(played, line)
            self._checkpoint(clocks.of_round, writer)
            folders.append(timing, clocks.line(played))
            console.beside(in_words(line))

    def _missing_rounds(self) -> Iterator[int]:
        while self.state.round < self.plan.rounds and not self._out_of_patience():
            yield self.state.round + 1

    def _out_of_patience(self) -> bool:
        """Tell whether as many rounds as patience allows brought no better score in validation."""
        best = self.state.best
        patience = self.plan.patience
        if not patience or best is None:
            return False
        return self.state.round - best.round >= patience

    def _kept(self, played: Played, line: dict[str, Any]) -> RunState:
        """Keep the round's model where it may be among the last ones; the state to go on from."""
        state = played.state
        for client, reason in played.absent.items():
            console.warn(f"round {state.round} without {client}: {reason}")
        # with patience any round may be the last
        if self.plan.patience or state.round > self.plan.rounds - KEPT:
            theta, clients = self.federation.kept(state)
            self._save(model_file(self.folder, state.round), theta, clients)
            model_file(self.folder, state.round - KEPT).unlink(missing_ok=True)
        best = self.scoring.best(self.state.best, state, line)
        client_states = self.store.offload(state.clients, played.clients)
        server = self.store.offload_rows(state.server)
        return replace(
            state,
            best=best,
            clients=client_states,
            server=server,
        )

    def _drop_other_models(self) -> None:
        """Remove models that a forced resume with other --rounds left outside the last five."""
        for path in (self.folder / "models").glob("[0-9]*.h5"):
            number = int(path.stem)
            if not self.state.round - KEPT < number <= self.state.round:
                path.unlink()

    def _save(
        self,
        path: Path,
        theta: Tensor,
        clients: Mapping[str, ClientState],
    ) -> None:
        save_model(
            path,
            self.federation.layout,
            theta,
            clients,
            self.federation.counts,
        )

    def _start(self) -> RunState:
        """The newest whole state, or the first; later lines of the record are cut."""
        device = self.plan.device
        roster = self.data.roster
        state = folders.newest_state(
            self.folder,
            self.state,
            roster,
            device,
            self.store,
        )
        if state.round > self.plan.rounds:
            raise FedcliError(
                f"{self.folder} has trained {state.round} rounds already",
                f"give --rounds {state.round} or more",
            )
        rounds = self.folder / "rounds.jsonl"
        lines = folders.read_lines(rounds)
        write_text(rounds, "".join(lines[: state.round]))
        if state.round:
            console.say(f"resuming after round {state.round} of {self.plan.rounds}")
        return state

    def _checkpoint(self, seconds: float, writer: ThreadPoolExecutor) -> None:
        """Write the state when it is due: by count, or within its share of the time."""
        self.spent += seconds
        is_due = self.written <= STATE_SHARE * self.spent
        if self.checkpoint_every:
            is_due = self.state.round % self.checkpoint_every == 0
        is_last = self.state.round == self.plan.rounds or self._out_of_patience()
        if is_due or is_last:
            self._await_state()
            # a state's tensors are replaced, never written into
            self.writing = writer.submit(self._write, self.state)
            self.spent = 0.0

    def _await_state(self) -> None:
        """Wait until the last state is written. Raises what went wrong in writing it."""
        if self.writing:
            self.writing.result()

    def _write(self, state: RunState) -> None:
        start = time.perf_counter()
        folders.save_state(self.folder, state, self.data.roster)
        self.written = time.perf_counter() - start

    def body(self) -> dict[str, Any]:
        """The body of run.json, when all rounds are played."""
        clients = self.state.clients
        whole_models = any("model" in memory for memory in clients.values())
        warning = ""
        if self.plan.single_site:
            absent = [client for client in self.data.roster if client not in clients]
            if absent:
                names = ", ".join(absent)
                warning = f"{names} never took part: scored with the starting weights"
        rounds_path = self.folder / "rounds.jsonl"
        has_personal_models = whole_models or bool(self.federation.layout.own_shapes)
        return record.body(
            self.federation,
            rounds_path,
            best=self.state.best,
            personal=has_personal_models,
            warning=warning,
        )
