"""The train stage: a run folder that can be killed at any moment and resumed to the same bytes.

    settings.json     what was asked for; written first, so that --resume can compare
    rounds.jsonl      one line per round
    state/<round>.h5  the newest states; removed when the run is done
    models/<round>.h5 the models of the last five rounds
    models/best.h5    the model that was best on the clients' validation parts, where they have them
    models/frozen.h5  what never trained, where a part of the network was frozen
    timing.jsonl      clocks and memory, outside the promise of equal bytes
    run.json          the manifest; written last, so it stands for a finished run

Order of a round: append the line, keep the model, then write the state, which holds the best model so
far. On resume the newest whole state wins and later lines are cut and played again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
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
from ..io.files import appending, read_text, write_text
from ..methods.mixins import ContinuesRun
from ..options import path_of
from . import chosen_engine, own_code, precision, record, resources
from . import folder as folders
from .assembly import PlannedFederation, assemble, open_parent, probe
from .chosen_engine import opened, reaches_sites
from .clocks import Clocks
from .finished import BEST, KEPT, model_file, save_frozen, save_model
from .rules import check
from .scoring import Scoring, check_patience, in_words
from .settled import chosen, settled, unaugmented
from .train_options import TrainOptions

Trained = Callable[[Path, PlannedFederation, float], None]
STATE_SHARE = 0.02  # of the time may go into writing states


class Interrupted(FedcliError):
    """Ctrl-C after the state was saved."""

    code = 130


def train(
    data: Path, plan: TrainOptions, *, typed: bool = False, trained: Trained | None = None
) -> Path:
    """Train and return the path of run.json.

    data: a partition or corruption manifest, or one of sites.
    typed: on a command line, where a run that is resumed and not there may not begin beside one that waits.
    trained: (folder, federation, seconds of all rounds) -> what is done with a run that was trained now, and not with
        one that lay there.
    Raises FedcliError, HashError, Interrupted.
    """
    source = manifest.verify(data, "partition", "corruption", "sites")
    asked, out = plan, path_of(plan.out)
    plan = settled(asked, check(asked), source.body)
    method = check(plan)
    remotely = reaches_sites(plan, source.kind)
    settle_threads = chosen_engine.prepare(plan, len(source.body["roster"]))
    resources.restart(plan.device)
    parent_run = open_parent(plan, method)
    parents = [data] + ([parent_run.path] if parent_run else [])
    begun = (
        f"{parent_run.body['method']}-"
        if parent_run and isinstance(method.aggregator, ContinuesRun)
        else ""
    )
    slug = begun + method.name + "-single-site" * plan.single_site

    def folder_of(plan: TrainOptions) -> Path:
        return manifest.place(
            Path(plan.work), out, "run", slug, record.options(plan, method, parent_run), parents
        )

    if plan.precision == "auto":
        plan = _measured(data, plan, folder_of)
    options, folder = record.options(plan, method, parent_run), folder_of(plan)
    if (folder / "run.json").exists():
        return _finished(folder, options, parents)
    for note in (chosen(asked, plan, source.body), unaugmented(asked, plan, source.body)):
        if note:
            console.say(note)
    if plan.resume and not out and not (folder / "settings.json").exists():
        folders.refuse_waiting(folder.parent, options, typed=typed)
    federation = assemble(
        data, plan, method, parent_run
    )  # what can fail fails before the folder is made
    check_patience(federation)
    settle_threads(federation)
    settings = _settings(folder, data, plan, options)
    with opened(federation) as engine, folders.claimed(folder, wait=plan.wait):
        if (folder / "run.json").exists():  # another process finished it since
            return _finished(folder, options, parents)
        # a site keeps the memory of its last rounds only, so the state must never be far behind
        run = _Training(folder, federation, engine, plan.checkpoint_every or int(remotely))
        forced = folders.settle(folder, settings, resume=plan.resume, force=plan.force)
        run.play()
        body = (
            run.body()
            | {"environment": settings["environment"]}
            | ({"forced": forced} if forced else {})
        )
        made_by, links = record.command(options), manifest.links(folder, parents)
        result = manifest.Manifest(
            "run", made_by, options, links, {}, manifest.marked(body, parents)
        )
        path = manifest.seal(folder, result, outside=("settings.json", "timing.jsonl", "state"))
        folders.remove_states(folder)  # last: until run.json is there, it is all there is
        if trained:
            trained(folder, federation, run.clocks.seconds)
        return path


def _settings(
    folder: Path, data: Path, plan: TrainOptions, options: dict[str, Any]
) -> dict[str, Any]:
    return {
        "options": options,
        "data": manifest.sha256(data),
        "data_path": folders.seen_from(folder, str(data)),
        "weights": folders.seen_from(folder, plan.weights),
        "teacher": folders.seen_from(folder, plan.teacher),
        "then": plan.then,
        "device": plan.device,
        "environment": record.environment(plan.device),
    }


def _finished(folder: Path, options: dict[str, Any], parents: list[Path]) -> Path:
    done = manifest.reuse(folder / "run.json", options, parents)
    folders.remove_states(folder)  # left by a kill right after run.json was written
    return done


def _measured(
    data: Path, plan: TrainOptions, folder_of: Callable[[TrainOptions], Path]
) -> TrainOptions:
    """The plan in the precision of a run that is there, else in the faster one."""
    plans = {name: replace(plan, precision=name) for name in precision.CHOICES}
    for known in plans.values():
        folder = folder_of(known)
        if (folder / "settings.json").is_file() and folders.asked(folder)["options"].get(
            "precision"
        ) == known.precision:
            return known
    fastest, seconds = precision.fastest(*probe(data, plan))
    console.say(
        f"precision: {fastest} (a step takes {', '.join(f'{1e3 * s:.1f} ms in {n}' for n, s in seconds.items())})"
    )
    return plans[fastest]


def begun(folder: Path) -> TrainOptions:
    """The options that a run was begun with, its data, device, threads and the stage to follow among them."""
    asked = folders.asked(folder)
    own_code.refuse_bare_resume(folder, asked["options"], record.command(asked["options"]))
    given = {name: folders.seen_back(folder, asked[name]) for name in ("weights", "teacher")}
    if given["teacher"] and not Path(given["teacher"]).is_file():
        raise FedcliError(
            f"the teacher of this run is not where it was: {(folder / asked['teacher']).resolve()}",
            "put it back, or give the whole command again with --teacher FILE and --resume",
        )
    return replace(
        record.read(asked["options"], **given),
        data=folder / asked["data_path"],
        device=asked.get(
            "device", asked["environment"]["device"]
        ),  # the latter does not say which of several GPUs
        threads=asked["environment"]["threads"],
        then=asked["then"],
    )


class _Training:
    """One training in one folder: loads, plays the rounds that are missing, keeps the record."""

    def __init__(
        self, folder: Path, federation: PlannedFederation, engine: Engine, checkpoint_every: int
    ):
        self.folder, self.federation, self.engine = folder, federation, engine
        self.checkpoint_every = checkpoint_every
        self.plan, self.data = federation.plan, federation.data
        self.scoring, self.store = Scoring(federation), ClientStateStore(folder)
        self.state = federation.first()
        self.written = self.spent = (
            0.0  # seconds of writing a state, and of rounds since the last one
        )
        self.clocks = Clocks(federation)
        self.writing: Future[None] | None = None  # the state that is written beside the rounds

    def play(self) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        if self.federation.frozen:
            save_frozen(self.folder / "models" / "frozen.h5", self.federation.frozen)
        self.state = self._start()
        if self.federation.warning:
            console.warn(self.federation.warning)
        try:
            record_file, clock_file = self.folder / "rounds.jsonl", self.folder / "timing.jsonl"
            with (
                appending(record_file) as lines,
                appending(clock_file) as timing,
                ThreadPoolExecutor(1) as writer,
            ):
                self._play_rounds(lines, timing, writer)
                self._await_state()
        except KeyboardInterrupt:
            folders.save_state(self.folder, self.state, self.data.roster)
            raise Interrupted(
                f"interrupted after round {done} of {self.plan.rounds}, which is saved"
                if (done := self.state.round)
                else f"interrupted before the first of {self.plan.rounds} rounds was done",
                "go on with the same command and --resume"
                if self.federation.method.code
                else f"go on with: fedcli train --resume --out {self.folder}",
            ) from None
        if (best := self.state.best) and self._out_of_patience():
            at = f"stopped after round {self.state.round} of {self.plan.rounds}"
            console.say(f"{at}: no better score on validation images since round {best.round}")
        if best:
            self._save(model_file(self.folder, BEST), best.theta, best.clients)
        self._drop_other_models()

    def _play_rounds(self, lines: Any, timing: Any, writer: ThreadPoolExecutor) -> None:
        """Play the rounds that are missing; a round that is interrupted is played again."""
        label, clocks = record.titled(self.federation, self.federation.method.label), self.clocks
        for _ in console.progress(
            self._left(), label=label, total=self.plan.rounds, done=self.state.round
        ):
            clocks.begin()
            played = self.federation.play(self.state, engine=self.engine, arrived=clocks.arrived)
            line = record.line(self.federation, played)
            with clocks.part("evaluation"):
                line |= self.scoring.line(played.state)
            with clocks.part("writing"):
                folders.append(lines, line)
                self.state = self._kept(played, line)
            self._checkpoint(clocks.of_round, writer)
            folders.append(timing, clocks.line(played))
            console.beside(in_words(line))

    def _left(self) -> Iterator[int]:
        while self.state.round < self.plan.rounds and not self._out_of_patience():
            yield self.state.round + 1

    def _out_of_patience(self) -> bool:
        """Tell whether the last rounds, as many as --patience says, brought no better model on validation images."""
        best, patience = self.state.best, self.plan.patience
        return bool(patience) and best is not None and self.state.round - best.round >= patience

    def _kept(self, played: Played, line: dict[str, Any]) -> RunState:
        for client, why in played.absent.items():
            console.warn(f"round {played.state.round} without {client}: {why}")
        if (
            self.plan.patience or played.state.round > self.plan.rounds - KEPT
        ):  # any round may be the last
            self._save(
                model_file(self.folder, played.state.round), *self.federation.kept(played.state)
            )
            model_file(self.folder, played.state.round - KEPT).unlink(missing_ok=True)
        return replace(
            played.state,
            best=self.scoring.best(self.state.best, played.state, line),
            clients=self.store.offload(played.state.clients, played.clients),
            server=self.store.offload_rows(played.state.server),
        )

    def _drop_other_models(self) -> None:
        """Models that a forced resume with other --rounds left outside the last five."""
        kept = range(self.state.round - KEPT + 1, self.state.round + 1)
        for path in (self.folder / "models").glob("[0-9]*.h5"):
            if int(path.stem) not in kept:
                path.unlink()

    def _save(self, path: Path, theta: Tensor, clients: Mapping[str, ClientState]) -> None:
        save_model(path, self.federation.layout, theta, clients, self.federation.counts)

    def _start(self) -> RunState:
        """The newest whole state, or the first; later lines of the record are cut."""
        state = folders.newest_state(
            self.folder, self.state, self.data.roster, self.plan.device, self.store
        )
        if state.round > self.plan.rounds:
            raise FedcliError(
                f"{self.folder} has played {state.round} rounds already",
                f"give --rounds {state.round} or more",
            )
        rounds = self.folder / "rounds.jsonl"
        lines = read_text(rounds).splitlines(keepends=True) if rounds.exists() else []
        write_text(rounds, "".join(lines[: state.round]))
        if state.round:
            console.say(f"resuming after round {state.round} of {self.plan.rounds}")
        return state

    def _checkpoint(self, seconds: float, writer: ThreadPoolExecutor) -> None:
        """Write the state when it is due: by count, or when writing stays under its share of the time."""
        self.spent += seconds
        last = self.state.round == self.plan.rounds or self._out_of_patience()
        cheap = self.written <= STATE_SHARE * self.spent
        if last or (
            self.state.round % self.checkpoint_every == 0 if self.checkpoint_every else cheap
        ):
            self._await_state()
            self.writing = writer.submit(
                self._write, self.state
            )  # a state's tensors are replaced, never written into
            self.spent = 0.0

    def _await_state(self) -> None:
        """Wait until the last state is written. Raises what went wrong there."""
        if self.writing:
            self.writing.result()

    def _write(self, state: RunState) -> None:
        start = time.perf_counter()
        folders.save_state(self.folder, state, self.data.roster)
        self.written = time.perf_counter() - start

    def body(self) -> dict[str, Any]:
        """Of run.json, when all rounds are played."""
        clients = self.state.clients
        own = any("model" in kept for kept in clients.values()) or bool(
            self.federation.layout.own_shapes
        )
        absent = [c for c in self.data.roster if self.plan.single_site and c not in clients]
        warning = (
            f"{', '.join(absent)} never took part: scored with the starting weights"
            if absent
            else ""
        )
        rounds = self.folder / "rounds.jsonl"
        return record.body(
            self.federation, rounds, best=self.state.best, personal=own, warning=warning
        )
