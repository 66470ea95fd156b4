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

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import console
from ..data import manifest
from ..errors import FedcliError
from ..federation.client import Absent, Report, Task, Training
from ..federation.client_state import ClientState, ClientStateStore
from ..federation.engines import Engine
from ..federation.server import Played
from ..federation.state import RunState
from ..io.files import appending, read_text, write_text
from ..methods.mixins import ContinuesRun, Histograms
from ..methods.registry import Method
from . import checkpoint, chosen_engine, energy, own_code, precision, record, resources
from . import folder as folders
from .assembly import PlannedFederation, assemble, open_parent, probe
from .background import Background
from .chosen_engine import images, opened, reached_by, reaches_sites
from .configuration import ON_CPU, Execution, Plan
from .finished import BEST, KEPT, model_file, save_frozen, save_model
from .initial import ParentRun
from .scoring import Scoring, check_patience, in_words

STATE_SHARE = 0.02  # of the time may go into writing states
BINNED = 10, 100  # rounds, beside the last, whose line has the histograms of the rule's state
WORD_EVERY = 30  # seconds without a word, while a round lasts


class Interrupted(FedcliError):
    """Ctrl-C after the state was saved."""

    code = 130


def train(
    data: Path, plan: Plan, *, work: Path, out: Path | None = None, execution: Execution = ON_CPU,
    resume: bool = False, force: bool = False, then: str | None = None,
) -> Path:  # fmt: skip
    """Train and return the path of run.json.

    data: a partition or corruption manifest, or one of sites.
    then: the method that is to follow, noted for a later resume.
    Raises FedcliError, HashError, Interrupted.
    """
    source = manifest.verify(data, "partition", "corruption", "sites")
    method, device = plan.check(), execution.device
    remotely = reaches_sites(plan, source.kind, execution)
    settle_threads = chosen_engine.prepare(plan, execution, len(source.body["roster"]))
    resources.restart(device)
    parent_run = open_parent(plan, method)
    parents = [data] + ([parent_run.path] if parent_run else [])
    slug = _slug(plan, method, parent_run)

    def folder_of(plan: Plan) -> Path:
        return manifest.place(work, out, "run", slug, record.options(plan, method, parent_run), parents)

    if plan.precision == "auto":
        plan = _measured(data, plan, folder_of, device)
    options, folder = record.options(plan, method, parent_run), folder_of(plan)
    if (folder / "run.json").exists():
        return _finished(folder, options, parents)
    if resume and not out and "code" in options and not (folder / "settings.json").exists():
        own_code.refuse_changed(folder.parent, options)
    federation = assemble(data, plan, method, parent_run, device, images=images(execution, source.kind))
    federation = reached_by(federation, execution)  # what can fail fails before the folder is made
    check_patience(federation)
    settle_threads(federation)
    settings = {
        "options": options,
        "data": manifest.sha256(data),
        "data_path": folders.seen_from(folder, str(data)),
        "weights": folders.seen_from(folder, plan.weights),
        "teacher": folders.seen_from(folder, plan.teacher),
        "then": then,
        "device": device,
        "environment": record.environment(device),
    }
    with opened(execution, federation) as engine, folders.claimed(folder):
        if (folder / "run.json").exists():  # another process finished it since
            return _finished(folder, options, parents)
        # a site keeps the memory of its last rounds only, so the state must never be far behind
        run = _Training(folder, federation, engine, execution.checkpoint_every or int(remotely))
        forced = folders.settle(folder, settings, resume=resume, force=force)
        run.play()
        body = run.body() | {"environment": settings["environment"]} | ({"forced": forced} if forced else {})
        made_by, links = record.command(options), manifest.links(folder, parents)
        result = manifest.Manifest("run", made_by, options, links, {}, manifest.marked(body, parents))
        path = manifest.seal(folder, result, outside=("settings.json", "timing.jsonl", "state"))
        checkpoint.remove(folder)  # last: until run.json is there, it is all there is
        if not remotely:
            run.measure(execution)
        if execution.trained:
            execution.trained(folder)
        return path


def _slug(plan: Plan, method: Method, parent_run: ParentRun | None) -> str:
    """How the folder of a run begins."""
    begun = f"{parent_run.body['method']}-" if parent_run and isinstance(method.aggregator, ContinuesRun) else ""
    return begun + method.name + "-single-site" * plan.single_site


def _finished(folder: Path, options: dict[str, Any], parents: list[Path]) -> Path:
    done = manifest.reuse(folder / "run.json", options, parents)
    checkpoint.remove(folder)  # left by a kill right after run.json was written
    return done


def _measured(data: Path, plan: Plan, folder_of: Callable[[Plan], Path], device: str) -> Plan:
    """The plan in the precision of a run that is there, else in the faster one."""
    plans = {name: replace(plan, precision=name) for name in precision.CHOICES}
    for known in plans.values():
        if (folder := folder_of(known)).is_dir() and known.precision == folders.precision(folder):
            return known
    fastest, seconds = precision.fastest(*probe(data, plan, device))
    console.say(
        f"precision: {fastest} (a step takes {', '.join(f'{1e3 * s:.1f} ms in {n}' for n, s in seconds.items())})"
    )
    return plans[fastest]


def plan_of(folder: Path) -> tuple[Plan, Path, dict[str, Any]]:
    """What an unfinished run was begun with: its plan, its data, and the device, threads and stage to follow."""
    asked = folders.asked(folder)
    own_code.refuse_bare_resume(folder, asked["options"], record.command(asked["options"]))
    given = {name: folders.seen_back(folder, asked[name]) for name in ("weights", "teacher")}
    if given["teacher"] and not Path(given["teacher"]).is_file():
        raise FedcliError(
            f"the teacher of this run is not where it was: {(folder / asked['teacher']).resolve()}",
            "put it back, or give the whole command again with --teacher FILE and --resume",
        )
    options = {**asked["options"], **given}
    training = Training(**{f.name: options[f.name] for f in fields(Training) if f.name in options})
    rest = {f.name: options[f.name] for f in fields(Plan) if f.name in options}
    device = asked.get("device", asked["environment"]["device"])  # the latter does not say which of several GPUs
    return (
        Plan(training=training, **rest),
        folder / asked["data_path"],
        {"device": device, "threads": asked["environment"]["threads"], "then": asked["then"]},
    )


class _Training:
    """One training in one folder: loads, plays the rounds that are missing, keeps the record."""

    def __init__(self, folder: Path, federation: PlannedFederation, engine: Engine, checkpoint_every: int):
        self.folder, self.federation, self.engine = folder, federation, engine
        self.checkpoint_every = checkpoint_every
        self.plan, self.method, self.data = federation.plan, federation.method, federation.data
        self.scoring, self.store = Scoring(federation), ClientStateStore(folder)
        self.state = federation.first()
        self.beside, self.reported = "", time.monotonic()  # what stands beside the bar of progress, and its time
        self.written = self.spent = 0.0
        self.seconds = self.in_clients = 0.0  # of the rounds that this process played, and of the one at hand
        self.background, self.energy = Background(), energy.Meter(federation.device)

    def play(self) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        if self.federation.frozen:
            save_frozen(self.folder / "models" / "frozen.h5", self.federation.frozen)
        plan, self.state = self.plan, self._start()
        label = record.titled(self.federation, self.method.label)
        if self.federation.warning:
            console.warn(self.federation.warning)
        try:
            record_file, clock_file = self.folder / "rounds.jsonl", self.folder / "timing.jsonl"
            with appending(record_file) as lines, appending(clock_file) as timing, self.background:
                for _ in console.progress(self._left(), label=label, total=plan.rounds, done=self.state.round):
                    folders.append(timing, self._play_one(lines))
                    console.beside(self.beside)
        except KeyboardInterrupt:
            checkpoint.save(self.folder, self.state, self.data.roster)
            raise Interrupted(
                f"interrupted after round {self.state.round} of {plan.rounds}, which is saved",
                "go on with the same command and --resume"
                if self.method.code
                else f"go on with: fedcli train --resume --out {self.folder}",
            ) from None
        if (best := self.state.best) and self._out_of_patience():
            at = f"stopped after round {self.state.round} of {plan.rounds}"
            console.say(f"{at}: no better score on validation images since round {best.round}")
        if best:
            self._save(model_file(self.folder, BEST), best.theta, best.clients)
        self._drop_other_models()

    def _left(self) -> Iterator[int]:
        """The rounds still to be played, as long as training goes on."""
        while self.state.round < self.plan.rounds and not self._out_of_patience():
            yield self.state.round + 1

    def _out_of_patience(self) -> bool:
        """Whether the last rounds, as many as --patience says, brought no better model on validation images."""
        best, patience = self.state.best, self.plan.patience
        return bool(patience) and best is not None and self.state.round - best.round >= patience

    def _play_one(self, lines: Any) -> dict[str, Any]:
        """Play the next round and keep what it leaves; returns its clocks."""
        start, self.in_clients = time.perf_counter(), 0.0
        played = self.federation.play(self.state, engine=self._watched)
        for client, why in played.absent.items():
            console.warn(f"round {played.state.round} without {client}: {why}")
        line, before = self._line(played), time.perf_counter()
        line |= self.scoring.line(played.state)
        scored, before = time.perf_counter() - before, time.perf_counter()
        folders.append(lines, line)
        self.beside = in_words(line)
        if self.plan.patience or played.state.round > self.plan.rounds - KEPT:  # any round may be the last
            self._save(model_file(self.folder, played.state.round), *self.federation.kept(played.state))
            model_file(self.folder, played.state.round - KEPT).unlink(missing_ok=True)
        best = self.scoring.best(self.state.best, played.state, line)
        clients = self.store.offload(played.state.clients, played.clients)
        server = self.store.offload_rows(played.state.server)
        # only now, and in one step: an interrupted round is played again
        self.state = replace(played.state, best=best, clients=clients, server=server)
        seconds, written = time.perf_counter() - start, time.perf_counter() - before
        self._checkpoint(self.state, seconds)
        self.seconds += seconds
        return {
            "round": self.state.round,
            "seconds": round(seconds, 4),
            "client_seconds": round(self.in_clients, 4),
            "evaluation_seconds": round(scored, 4),
            "writing_seconds": round(written, 4),
            "images_per_second": round(self._images(played) / (seconds - scored), 1),
            "peak_bytes": resources.peak(self.federation.device),
            **self.energy.line(),
        }

    def _watched(self, tasks: list[Task]) -> Iterator[Report | Absent]:
        """The engine's reports; in a long round, a word every half minute on how far it is."""
        begin = time.perf_counter()
        for done, report in enumerate(self.engine(tasks), 1):
            self.in_clients += time.perf_counter() - begin
            self.energy.update()  # before a counter can have begun again twice
            yield report
            begin = time.perf_counter()
            if time.monotonic() - self.reported > WORD_EVERY and done < len(tasks):
                console.say(f"round {tasks[0].round} of {tasks[0].rounds}: {done} of {len(tasks)} clients")
                self.reported = time.monotonic()
        self.reported = time.monotonic()

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
        state = checkpoint.newest(self.folder, self.state, self.data.roster, self.federation.device, self.store)
        if state.round > self.plan.rounds:
            raise FedcliError(
                f"{self.folder} has played {state.round} rounds already", f"give --rounds {state.round} or more"
            )
        rounds = self.folder / "rounds.jsonl"
        lines = read_text(rounds).splitlines(keepends=True) if rounds.exists() else []
        write_text(rounds, "".join(lines[: state.round]))
        if state.round:
            console.say(f"resuming after round {state.round} of {self.plan.rounds}")
        return state

    def _checkpoint(self, state: RunState, seconds: float) -> None:
        """Write the state when it is due: by count, or when writing stays under its share of the time."""
        self.spent += seconds
        last = state.round == self.plan.rounds or self._out_of_patience()
        due = (
            state.round % self.checkpoint_every == 0
            if self.checkpoint_every
            else self.written <= STATE_SHARE * self.spent
        )
        if due or last:
            self.background.run(self._write, state)  # a state's tensors are replaced, never written into
            self.spent = 0.0

    def _write(self, state: RunState) -> None:
        start = time.perf_counter()
        checkpoint.save(self.folder, state, self.data.roster)
        self.written = time.perf_counter() - start

    def _line(self, played: Played) -> dict[str, Any]:
        line: dict[str, Any] = {
            "round": played.state.round,
            "weights": _numbers(played.weights),
            "loss": _numbers(played.losses),
            "bytes_down": played.bytes_down,
            "bytes_up": played.bytes_up,
        }
        if self.plan.participation < 1 or played.absent:
            line["clients"] = played.clients
        if played.absent:
            line["absent"] = played.absent
        line["reports"] = {name: _numbers(column) for name, column in played.columns.items() if column.ndim == 1}
        server = {k: v.reshape(1) for k, v in played.state.server.items() if v.ndim == 0 and v.is_floating_point()}
        if server:
            line["server"] = {name: _numbers(value)[0] for name, value in sorted(server.items())}
        due, rule = played.state.round in (*BINNED, self.plan.rounds), self.method.aggregator
        if due and isinstance(rule, Histograms) and (binned := rule.histograms(played.state.server)):
            line["histograms"] = {name: counts.tolist() for name, counts in binned.items()}
        return line

    def _images(self, played: Played) -> int:
        """Images that clients trained on; the loss of one that did not train is NaN."""
        trained = [client for client, loss in zip(played.clients, played.losses.tolist(), strict=True) if loss == loss]
        return self.plan.training.epochs * sum(len(self.data.train[client]) for client in trained)

    def measure(self, execution: Execution) -> None:
        """Write down what the machine can do, once the run is finished: it takes no time from the rounds."""
        if execution.limits and (limits := execution.limits(self.federation, execution, self.seconds)):
            with appending(self.folder / "timing.jsonl") as timing:
                folders.append(timing, limits)

    def body(self) -> dict[str, Any]:
        """Of run.json, when all rounds are played."""
        clients = self.state.clients
        own = any("model" in kept for kept in clients.values()) or bool(self.federation.layout.own_shapes)
        absent = [c for c in self.data.roster if self.plan.single_site and c not in clients]
        warning = f"{', '.join(absent)} never took part: scored with the starting weights" if absent else ""
        rounds = self.folder / "rounds.jsonl"
        return record.body(self.federation, rounds, best=self.state.best, personal=own, warning=warning)


def _numbers(values: Tensor) -> list[float | None]:
    """Seven digits, which is what float32 holds; null for what is not finite."""
    return [float(f"{v:.7g}") if math.isfinite(v) else None for v in values.tolist()]
