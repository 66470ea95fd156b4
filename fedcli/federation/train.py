"""The train stage: a run folder that can be killed at any moment and resumed to the same bytes.

    settings.json     what was asked for; written first, so that --resume can compare
    rounds.jsonl      one line per round
    state/<round>.h5  the newest states; removed when the run is done
    models/<round>.h5 the models of the last five rounds
    models/frozen.h5  what never trained, where a part of the network was frozen
    timing.jsonl      clocks, outside the promise of equal bytes
    run.json          the manifest; written last, so it stands for a finished run

Order of a round: append the line, keep the model, then write the state. On resume the newest whole
state wins and later lines are cut and played again.
"""

import json
import math
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import console, models
from ..data import load, manifest
from ..data.transforms import check_augment
from ..errors import FedcliError, UsageError
from ..methods import options as settings_of
from ..methods.method import Method, resolve
from . import features, folders, start
from . import state as states
from .client import Report, Task, Training
from .engines.in_process import InProcess
from .layout import Layout
from .run import KEPT, alone_logits, load_personal, logits, mean_own, save_frozen, save_model
from .server import Played, alone, play_alone, play_round
from .state import RunState

FLAGS = {"freeze": "freeze-backbone"}  # options whose flag has another name
STATE_SHARE = 0.02  # of the time may go into writing states
WORD_EVERY = 30  # seconds without a word, while a round lasts


@dataclass(frozen=True)
class Plan:
    """What to train, fully resolved: all that decides the bytes of a run."""

    method: str
    settings: dict[str, Any]  # --set, as given
    training: Training
    rounds: int
    seed: int = 0
    participation: float = 1.0
    model: str = "cnn"
    weights: str | None = None
    teacher: str | None = None
    freeze: bool = False
    augment: str | None = None
    precision: str = "fp32"
    eval_every: int = 0
    single_site: bool = False

    def check(self) -> Method:
        """The method, resolved. Raises UsageError for values that cannot mean anything together."""
        self.training.check()
        method = resolve(self.method, self.settings)
        kind = models.describe(self.model).kind
        if method.local.model and method.local.model != kind:
            raise UsageError(
                f"{method.name} fine-tunes a CLIP network, which {self.model} is not",
                "--model clip-vit-b16 --weights openai, or --model clip-tiny to try it",
            )
        if method.local.model and self.freeze:
            raise UsageError(f"{method.name} freezes its network itself", "leave --freeze-backbone out")
        if self.augment:
            check_augment(self.augment)
        if self.rounds < 1:
            raise UsageError(f"--rounds {self.rounds} trains nothing", "give at least 1")
        if not 0 < self.participation <= 1:
            raise UsageError(
                f"--participation {self.participation} is not in (0, 1]", "1 means every client in every round"
            )
        if self.participation < 1 and method.aggregator.everyone:
            raise UsageError(
                f"{method.name} needs every client in every round",
                "leave --participation at 1, or take another server rule",
            )
        if self.training.prior != "none" and method.local.own_prior:
            raise UsageError(
                f"{method.name} corrects for class counts itself, so --prior {self.training.prior} has no place",
                f"write --set prior={self.training.prior}" if "prior" in method.settings else "leave --prior out",
            )
        if self.teacher and not method.local.teacher:
            raise UsageError(f"{method.name} learns from no teacher", "leave --teacher out, or train fed-mas or kd")
        if self.single_site and not (method.local.alone and method.aggregator.alone):
            base = resolve(method.name.partition("+")[0])
            plain = base.name if base.local.alone and base.aggregator.alone else "fedavg"
            raise UsageError(
                f"{method.name} lives on what clients send, so its clients cannot train alone",
                f"fedcli train {plain} --single-site trains them by themselves",
            )
        if idle := [name for name in self.settings if self.single_site and name not in self.acting(method)]:
            raise UsageError(f"{idle[0]} is an option of the server, which --single-site never asks", "leave it out")
        return method

    def acting(self, method: Method) -> dict[str, Any]:
        """The method's options that can change a number: where clients train alone, those of its local half."""
        return settings_of.values(method.local) if self.single_site else method.settings


class Interrupted(FedcliError):
    """Ctrl-C after the state was saved."""

    code = 130


def train(
    data: Path, plan: Plan, *, work: Path, out: Path | None, resume: bool = False, force: bool = False,
    device: str = "cpu", threads: int = 0, checkpoint_every: int = 0, score: Callable[[Any, Any], dict] | None = None,
    then: str | None = None,
) -> Path:  # fmt: skip
    """Train and return the path of run.json.

    data: a partition or corruption manifest.
    then: the method that is to follow, noted for a later resume.
    score: (logits, y) -> named numbers, used every plan.eval_every rounds and never for a choice.
    Raises FedcliError, HashError, Interrupted.
    """
    manifest.verify(data, "partition", "corruption")
    method = plan.check()
    _deterministic(device, threads or models.describe(plan.model).threads)
    host = start.open_host(plan.weights)
    if method.aggregator.continues and host is None:
        given = f", which {plan.weights} is not" if plan.weights else ""
        if plan.weights and not Path(plan.weights).exists():
            raise FedcliError(f"no such run: {plan.weights}", "give the folder of a finished run")
        raise UsageError(
            f"{method.name} continues a finished run{given}",
            f"fedcli train {method.name} --weights RUN, or fedcli train METHOD --then {method.name}",
        )
    if host and host.body.get("single_site"):
        raise FedcliError(
            f"the clients of {host.path} trained alone, so it has no global model", "start from another run"
        )
    options = _options(plan, method, host)
    parents = [data] + ([host.path] if host else [])
    slug = f"{host.body['method']}-{method.name}" if host and method.aggregator.continues else method.name
    slug += "-single-site" * plan.single_site
    folder = manifest.place(work, out, "run", slug, options, parents)
    if (folder / "run.json").exists():
        done = manifest.reuse(folder / "run.json", options, parents)
        shutil.rmtree(folder / "state", ignore_errors=True)  # left by a kill right after run.json was written
        return done
    settings = {
        "options": options,
        "data": manifest.sha256(data),
        "data_path": folders.seen_from(folder, str(data)),
        "weights": folders.seen_from(folder, plan.weights),
        "teacher": folders.seen_from(folder, plan.teacher),
        "then": then,
        "environment": environment(device),
    }
    run = _Training(
        folder, data, plan, method, device, checkpoint_every, score, host
    )  # what can fail fails before the folder is made
    with folders.claimed(folder):
        forced = folders.settle(folder, settings, resume=resume, force=force)
        run.play()
        body = run.body() | {"environment": settings["environment"]} | ({"forced": forced} if forced else {})
        result = manifest.Manifest("run", _command(options), options, manifest.links(folder, parents), {}, body)
        path = manifest.seal(folder, result, outside=("settings.json", "timing.jsonl", "state"))
        shutil.rmtree(folder / "state", ignore_errors=True)  # last: until run.json is there, it is all there is
        return path


def plan_of(folder: Path) -> tuple[Plan, Path, dict[str, Any]]:
    """What an unfinished run was begun with: its plan, its data, and the device, threads and stage to follow."""
    asked = folders.asked(folder)
    given = {name: folders.seen_back(folder, asked[name]) for name in ("weights", "teacher")}
    if given["teacher"] and not Path(given["teacher"]).is_file():
        raise FedcliError(
            f"the teacher of this run is not where it was: {(folder / asked['teacher']).resolve()}",
            "put it back, or give the whole command again with --teacher FILE and --resume",
        )
    options = {**asked["options"], **given}
    training = Training(**{f.name: options[f.name] for f in fields(Training)})
    rest = {f.name: options[f.name] for f in fields(Plan) if f.name != "training"}
    environment = asked["environment"]
    return (
        Plan(training=training, **rest),
        folder / asked["data_path"],
        {"device": environment["device"], "threads": environment["threads"], "then": asked["then"]},
    )


def _command(options: dict[str, Any]) -> list[str]:
    """The command that makes this run, without locations; every option is spelt out."""
    words = ["train", options["method"]]
    for key, value in sorted(options.items()):
        if key in ("method", "settings", "rule", "weights", "teacher") or value in (None, False):
            continue
        words += [f"--{FLAGS.get(key, key).replace('_', '-')}"] + ([] if value is True else [str(value)])
    return words + [word for key, value in options["settings"].items() for word in ("--set", f"{key}={value}")]


def environment(device: str) -> dict[str, Any]:
    """What bit-equality is promised for: the same of each of these."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {
        "torch": torch.__version__,
        "device": device.partition(":")[0],
        "device_name": name,
        "threads": torch.get_num_threads(),
    }


def _deterministic(device: str, threads: int) -> None:
    if threads:
        torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # asked for by cuBLAS for equal bits
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms(), which imports a compiler
    torch.backends.cudnn.benchmark = False
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UsageError(f"--device {device!r} is unknown", "give cpu, cuda or cuda:N")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise FedcliError(
            f"--device {device}: this machine has no CUDA device that torch {torch.__version__} can use",
            "leave --device out to train on the CPU",
        )


def _options(plan: Plan, method: Method, host: start.Host | None) -> dict[str, Any]:
    flat = {**asdict(plan), **asdict(plan.training)}
    flat.pop("training")
    flat.update(method=method.name, settings=plan.acting(method), rule=method.rule)
    weights = str(host.model) if host else plan.weights
    for name, path in (("weights", weights), ("teacher", plan.teacher)):
        if path and path != "imagenet":
            flat[name] = manifest.sha256(Path(path)) if Path(path).is_file() else path
    return flat


class _Training:
    """One training in one folder: loads, plays the rounds that are missing, keeps the record."""

    def __init__(
        self,
        folder: Path,
        data: Path,
        plan: Plan,
        method: Method,
        device: str,
        checkpoint_every: int,
        score: Callable | None,
        host: start.Host | None,
    ):
        self.folder, self.plan, self.method, self.device = folder, plan, method, device
        self.checkpoint_every, self.score = checkpoint_every, score
        pool = manifest.read(data).body
        channels = models.input_channels(plan.model, pool["channels"])
        self.net = models.build(
            plan.model, channels=channels, classes=len(pool["classes"]), size=min(pool["size"]), seed=plan.seed,
            weights=str(host.model) if host else plan.weights, precision=plan.precision,
            names=pool["classes"], attributes=pool["attributes"],
            teacher=models.load_teacher(plan.teacher) if plan.teacher else None, freeze=plan.freeze,
            extend=method.local.extend,
        ).to(device)  # fmt: skip
        self.taken = ""
        if host and not method.aggregator.continues:
            self.taken = start.take_head(self.net, host, method, pool["classes"])
        self.layout = Layout(self.net, method.local.keeps(self.net))
        still = features.is_frozen(self.net)
        augment = plan.augment or ("none" if still else None)  # a fixed view of a frozen backbone is computed once
        self.data = load.load(data, channels=channels, augment=augment, device=device)
        self.host = host
        self.begun_with = (
            start.server_memory(host, data, self.data.roster, device) if method.aggregator.continues else {}
        )
        self.model = {
            "name": plan.model, "channels": channels, "size": min(pool["size"]), "precision": plan.precision,
            "personal": list(self.layout.own_shapes), "numbers": self.layout.size, "trainable": self.layout.trainable,
            "frozen": sorted(start.frozen(self.net)), "teacher_width": getattr(self.net.teacher, "width", None),
        }  # fmt: skip
        self.frozen = start.frozen(self.net)
        self.caution = "; ".join(filter(None, self._cautions(still)))
        if still:
            self.data = features.cached(self.net, self.data)
        self.told = time.monotonic()
        seen = alone(method) if plan.single_site else method
        self.engine = InProcess(seen, self.net, self.layout, self.data.train, plan.training, val=self.data.val)
        self.written = self.spent = 0.0

    def _cautions(self, still: bool) -> list[str]:
        """What a reader of this run's numbers must know."""
        validation = all(len(self.data.val.get(client, ())) for client in self.data.roster)
        random = self.frozen and not (self.plan.weights or self.host)
        return [
            self.method.local.caution(self.net, self.plan.rounds),
            self.method.aggregator.caution(self.plan.rounds, validation),
            "what is frozen has random weights: give --weights" if random else "",
            "with a frozen backbone, terms on features or norms do nothing"
            if still and self._bound_to_backbone()
            else "",
            self.taken,
        ]

    def _bound_to_backbone(self) -> bool:
        """Whether the method changes nothing but how a backbone is trained."""
        return self.method.local.trains_backbone

    def play(self) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        if self.frozen:
            save_frozen(self.folder / "models" / "frozen.h5", self.frozen)
        plan, state = self.plan, self._start()
        if self.caution:
            console.say(f"note: {self.caution}")
        lines = (self.folder / "rounds.jsonl").open("a", encoding="utf-8")
        timing = (self.folder / "timing.jsonl").open("a", encoding="utf-8")
        left = range(state.round + 1, plan.rounds + 1)
        try:
            with lines, timing:
                for t in console.progress(left, label=self.method.label, total=plan.rounds, done=state.round):
                    start = time.perf_counter()
                    played = self._round(state)
                    folders.append(lines, self._line(played))
                    if t > plan.rounds - KEPT:
                        self._keep(played.state)
                    state = played.state  # only now: an interrupted round is played again
                    seconds = time.perf_counter() - start
                    self._checkpoint(state, seconds)
                    folders.append(
                        timing,
                        {
                            "round": t,
                            "seconds": round(seconds, 4),
                            "images_per_second": round(self._images(played) / seconds, 1),
                        },
                    )
        except KeyboardInterrupt:
            states.save(self.folder / "state", state, self.data.roster)
            raise Interrupted(
                f"interrupted after round {state.round} of {plan.rounds}, which is saved",
                f"go on with: fedcli train --resume --out {self.folder}",
            ) from None
        if absent := [c for c in self.data.roster if plan.single_site and c not in state.clients]:
            told = f"{', '.join(absent)} never took part: scored with the starting weights"
            self.caution = "; ".join(filter(None, [self.caution, told]))
        whole = any("model" in memory for memory in state.clients.values())
        self.model["personal_models"] = whole or bool(self.layout.own_shapes)
        self._drop_other_models()

    def _round(self, state: RunState) -> Played:
        plan, roster = self.plan, self.data.roster
        settings = {"rounds": plan.rounds, "seed": plan.seed, "participation": plan.participation}
        if plan.single_site:
            return play_alone(state, roster, self._watched, **settings)
        training = plan.training.at(state.round + 1, plan.rounds)
        return play_round(
            state, self.method, roster, self._watched, self.layout, lr=training.lr, **settings,
            all_train=training.personal or training.bn == "local",
        )  # fmt: skip

    def _watched(self, tasks: list[Task]) -> Iterator[Report]:
        """The engine's reports; in a long round, a word every half minute on how far it is."""
        for done, report in enumerate(self.engine(tasks), 1):
            yield report
            if time.monotonic() - self.told > WORD_EVERY and done < len(tasks):
                console.say(f"round {tasks[0].round} of {tasks[0].rounds}: {done} of {len(tasks)} clients")
                self.told = time.monotonic()
        self.told = time.monotonic()

    def _drop_other_models(self) -> None:
        """Models that a forced resume with other --rounds left outside the last five."""
        kept = range(self.plan.rounds - KEPT + 1, self.plan.rounds + 1)
        for path in (self.folder / "models").glob("[0-9]*.h5"):
            if int(path.stem) not in kept:
                path.unlink()

    def _keep(self, state: RunState) -> None:
        theta, clients = self.method.aggregator.scored(state.theta, state.server), state.clients
        if self.plan.single_site:
            theta, clients = state.theta, self._sites(state)
        save_model(self.folder / "models" / f"{state.round:05d}.h5", self.layout, theta, clients, self._counts())

    def _counts(self) -> dict[str, int]:
        return {client: len(shard) for client, shard in self.data.train.items()}

    def _sites(self, state: RunState) -> dict[str, states.Tensors]:
        """What clients that train alone have; one that never took part has the start."""
        own = {"own": self.layout.own_start} if self.layout.own_shapes else {}
        return {c: {"model": state.theta, **own, **state.clients.get(c, {})} for c in self.data.roster}

    def _start(self) -> RunState:
        """The newest whole state, or the first; later lines of the record are cut."""
        first = RunState(0, self.layout.read(), server=self.begun_with)
        state = first
        for path in reversed(states.saved(self.folder / "state")):
            try:
                state = states.restore(path, self.data.roster, self.device)
                if len(state.theta) == len(first.theta):
                    break
                raise FedcliError(f"{path} is of another network ({len(state.theta)} numbers, not {len(first.theta)})")
            except FedcliError as error:
                console.say(f"{error.sentence}; taking the state before it")
                state = first
        if state.round > self.plan.rounds:
            raise FedcliError(
                f"{self.folder} has played {state.round} rounds already", f"give --rounds {state.round} or more"
            )
        record = self.folder / "rounds.jsonl"
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True) if record.exists() else []
        if len(lines) < state.round:
            raise FedcliError(
                f"{record} has {len(lines)} lines, but the state is of round {state.round}",
                "remove the folder and train again",
            )
        manifest.write_text(record, "".join(lines[: state.round]))
        if state.round:
            console.say(f"resuming after round {state.round} of {self.plan.rounds}")
        return state

    def _checkpoint(self, state: RunState, seconds: float) -> None:
        """Write the state when it is due: by count, or when writing stays under its share of the time."""
        self.spent += seconds
        last = state.round == self.plan.rounds
        due = (
            state.round % self.checkpoint_every == 0
            if self.checkpoint_every
            else self.written <= STATE_SHARE * self.spent
        )
        if due or last:
            start = time.perf_counter()
            states.save(self.folder / "state", state, self.data.roster)
            self.written, self.spent = time.perf_counter() - start, 0.0

    def _line(self, played: Played) -> dict[str, Any]:
        line: dict[str, Any] = {
            "round": played.state.round,
            "weights": _numbers(played.weights),
            "loss": _numbers(played.losses),
            "bytes_down": played.bytes_down,
            "bytes_up": played.bytes_up,
        }
        if self.plan.participation < 1:
            line["clients"] = played.clients
        line["reports"] = {name: _numbers(column) for name, column in played.columns.items() if column.ndim == 1}
        server = {k: v.reshape(1) for k, v in played.state.server.items() if v.ndim == 0 and v.is_floating_point()}
        if server:
            line["server"] = {name: _numbers(value)[0] for name, value in sorted(server.items())}
        every = self.plan.eval_every
        if self.score and every and (played.state.round % every == 0 or played.state.round == self.plan.rounds):
            line["test"] = {version: self._scores(played.state, shard) for version, shard in self.data.test.items()}
        return line

    def _scores(self, state: RunState, shard: load.Shard) -> dict[str, Any]:
        """Of the model that is kept; of clients that train alone the mean, see alone_logits()."""
        y = shard.y.cpu().numpy()
        if not self.plan.single_site:
            self.layout.load(self.method.aggregator.scored(state.theta, state.server))
            if (own := mean_own(state.clients, self._counts())) is not None:
                self.layout.load_own(own)  # not those of the client that trained last
            return self.score(logits(self.net, shard, self.method.local), y)

        sites = self._sites(state)

        def by(client: str, part: load.Shard) -> np.ndarray:
            load_personal(self.layout, sites[client])
            return logits(self.net, part, self.method.local)

        found = [self.score(table, y) for table in alone_logits(self.data, shard, by)]
        known = {name: [one[name] for one in found] for name in found[0]}
        return {name: None if None in values else sum(values) / len(values) for name, values in known.items()}

    def _images(self, played: Played) -> int:
        return self.plan.training.epochs * sum(len(self.data.train[c]) for c in played.clients)

    def body(self) -> dict[str, Any]:
        about = self.data.body
        after = self.method.aggregator.continues and self.host
        label = f"{self.host.body['label']} + {self.method.label}" if after else self.method.label
        label += ", single-site" * self.plan.single_site
        if self.plan.training.prior != "none":
            label += f", prior {self.plan.training.prior}"
        label += ", frozen backbone" if self.plan.freeze else ""
        return {
            "method": self.method.name, "label": label, "rule": self.method.rule, "settings": self.method.settings,
            "rounds": self.plan.rounds, "roster": self.data.roster, "dataset": about["dataset"], "model": self.model,
            "corruption": {k: about[k] for k in ("kind", "severity", "ratio", "clients")} if self.data.corrupted else None,
            "numbers_sent": 0 if self.plan.single_site else self.layout.size, "single_site": self.plan.single_site,
            **self._traffic(), "start": self.host and self.host.about,
            "caution": self.caution or (self.host.body.get("caution", "") if after else ""),
        }  # fmt: skip

    def _traffic(self) -> dict[str, float]:
        """Bytes to and from a client, mean over the rounds of the record."""
        lines = [json.loads(line) for line in (self.folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()]
        return {way: sum(line[way] for line in lines) / len(lines) for way in ("bytes_down", "bytes_up")}


def _numbers(values: Tensor) -> list[float | None]:
    """Seven digits, which is what float32 holds; null for what is not finite."""
    return [float(f"{v:.7g}") if math.isfinite(v) else None for v in values.tolist()]
