"""The plan of tables before a byte is downloaded: data, trainings, hours on named devices and memory, without torch.

Trainings that are equal in several tables are counted once, as they are trained once in one work folder. Operations
are those of a network's forward pass and step (costs.json beside the recipes, which a test counts again), by the passes
that the method says it makes; hours are of makers' speeds, of which training is taken to reach a share.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..data import sources
from ..system.processes import cores
from .expand import Cell, NoCellError, cells, chosen, read_seeds
from .recipe import load, recipes_folder

Facts = Callable[[str], dict[str, Any]]
FLOAT = 4  # bytes
TEST = 0.2  # share of images in the test part where neither split nor card says another
KEPT = 6  # models that a run keeps on disk
PROCESS = 6e8  # bytes of a process that trains, before it has any image
HALF = {"fp32": 1.0, "bf16": 0.5}  # of the bytes of fp32
NOT_STATED = {"step": 1}  # the passes of a method that cannot state any
card = cache(sources.card)  # a file, which is asked for with every training


@cache
def costs() -> dict[str, Any]:
    """Networks and devices, as costs.json has them."""
    return json.loads((recipes_folder() / "costs.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Training:
    """The arithmetic of one run.

    Attributes:
        visits: images that clients train on, each time counted. steps: of local optimizers.
        operations, traffic: of all visits; bytes in fp32.
        memory, disk: bytes while it runs, and of the models that it leaves.
    """

    visits: float
    steps: float
    operations: float
    traffic: float
    memory: float
    disk: float


@dataclass(frozen=True)
class Table:
    """One recipe: its cells, its trainings, and which of these no table before it has."""

    name: str
    cells: int
    trainings: int
    new: tuple[Training, ...]


@dataclass
class Plan:
    """Attributes:
    data: dataset -> (images, bytes of the prepared pools).
    files: sentences on what the recipes ask for besides; fetched: those that a command gets.
    weights: network -> MB of its published weights, None where nobody has counted it.
    one_seed: recipes that are played with one.
    unknown: networks and sides whose cost no table has; not_stated: methods that count as one step for each image.
    """

    tables: list[Table] = field(default_factory=list)
    data: dict[str, tuple[int, float]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)
    weights: dict[str, float | None] = field(default_factory=dict)
    one_seed: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    not_stated: set[str] = field(default_factory=set)

    @property
    def trainings(self) -> list[Training]:
        return [training for table in self.tables for training in table.new]

    def hours(self, device: dict[str, Any]) -> float:
        """Of all trainings, one after another: arithmetic, traffic or steps, whichever takes a training longest."""
        part, speed = HALF[device["precision"]], device["flops"] * device["share"]
        each = (
            max(
                one.operations / speed,
                one.traffic * part / device["bandwidth"],
                one.steps * device["step_seconds"],
            )
            for one in self.trainings
        )
        return sum(each) / 3600


def planned(
    files: Iterable[Path],
    scale: str,
    facts: Facts,
    *,
    seeds: str | None = None,
    only: tuple[str, ...] = (),
) -> Plan:
    """The plan of recipes. facts: name of a method -> what it says of itself. Raises UsageError."""
    plan, methods = Plan(), cache(lambda name: _method(name, facts))
    seen, pools = set[tuple](), dict[str, set]()
    missing: NoCellError | None = None
    for path in files:
        recipe = load(path)
        own = cells(recipe, scale, seeds=read_seeds(seeds, recipe.seeds), method=methods)
        try:
            own = chosen(own, list(only))
        except NoCellError as error:  # another table of the paper may have such cells
            missing = error
            continue
        runs = {(cell.chain, cell.train): cell for cell in own}
        new = {work: cell for work, cell in runs.items() if work not in seen}
        seen |= new.keys()
        trained = [
            _training(cell, methods(cell.train.method or "fedavg"), plan) for cell in new.values()
        ]
        plan.tables.append(Table(recipe.name, len(own), len(runs), tuple(filter(None, trained))))
        plan.files |= {
            name: file.what for name, file in recipe.files.items() if any(cell.asks for cell in own)
        }
        plan.fetched |= {name for name, file in recipe.files.items() if file.card}
        if len({cell.seed for cell in own}) == 1:
            plan.one_seed.append(recipe.name)
        for cell in own:
            prepare: Any = cell.chain[0]
            if cell.train.weights == "imagenet":
                network = costs_of(
                    model := cell.train.model or "", _side(prepare), card(prepare.name)["channels"]
                )
                plan.weights[model] = network["parameters"] * FLOAT / 1e6 if network else None
            pools.setdefault(prepare.name, set()).add(prepare)
    if missing and not plan.tables:
        raise missing
    for name, prepared in sorted(pools.items()):
        largest = max(prepared, key=_images)
        plan.data[name] = _images(largest), sum(map(_pool, prepared))
    return plan


def _method(name: str, facts: Facts) -> Any:
    """A method as expand.cells() asks of it, and its `passes`; None where a half cannot state them."""
    known = facts(name)
    halves = known["halves"].values()
    stated = [half["passes"] for half in halves]
    passes = None if any(isinstance(each, str) for each in stated) else stated
    return SimpleNamespace(
        settings=dict.fromkeys(option for half in halves for option in half["options"]),
        default_training=known["training"],
        local=SimpleNamespace(model=known["network"]),
        passes=passes,
    )


def _images(prepare: Any) -> int:
    """Of a dataset, or as many as are drawn of it."""
    known = card(prepare.name).get("images", {}).get("count", 0)
    return min(prepare.sample_images or known, known or prepare.sample_images or 0)


def _side(prepare: Any) -> int:
    return prepare.size or card(prepare.name)["size"]


def _pool(prepare: Any) -> float:
    return _images(prepare) * _side(prepare) ** 2 * card(prepare.name)["channels"]


def _clients(prepare: Any, partition: Any) -> int:
    about = card(prepare.name)
    return (
        partition.clients
        or max(len(about["attributes"].get(key, [])) for key in (*partition.by, ""))
        or 2
    )


def _trained(prepare: Any, partition: Any) -> float:
    about, count = card(prepare.name), float(_images(prepare))
    fixed = about.get("images", {}).get("train")
    if prepare.folds:
        count *= 1 - 1 / prepare.folds
    else:
        count = (
            fixed if fixed and not prepare.sample_images else count * (1 - (prepare.test or TEST))
        )
    if partition.portion:
        sites = max(len(about["attributes"].get(key, [0])) for key in partition.by)
        count *= partition.portion * _clients(prepare, partition) / sites
    return count * (1 - partition.val)


def _training(cell: Cell, method: Any, plan: Plan) -> Training | None:
    train, data = cell.train, cell.chain[:2]
    prepare: Any = data[0]
    network = costs_of(train.model or "cnn", _side(prepare), card(prepare.name)["channels"])
    if network is None:
        plan.unknown.add(f"{train.model} at {_side(prepare)} pixels")
        return None
    if not _images(prepare):
        return None
    if method.passes is None:
        plan.not_stated.add(train.method or "")
    images, rounds = _trained(*data) * train.participation, train.rounds
    passes = summed(method.passes or [NOT_STATED])
    passes["look"] += bool(train.teacher)
    visits, clients = images * rounds * train.epochs, _clients(*data)
    operations, traffic = per_image(network, passes, train.epochs)
    model, batch = network["parameters"] * FLOAT, train.batch_size
    return Training(
        visits,
        visits / batch + clients * rounds * train.epochs / 2,
        images * rounds * operations,
        images * rounds * traffic,
        PROCESS + _pool(prepare) + 2 * batch * network["kept"] + (clients + KEPT) * model,
        KEPT * model,
    )


def summed(halves: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The passes of a method's two halves together, by kind."""
    halves = list(halves)
    return {
        kind: sum(half.get(kind, 0) for half in halves)
        for kind in ("step", "look", "gradient", "forward")
    }


def passes_of(method: Any) -> dict[str, int]:
    """The passes of a method, by kind; of one that states none those of plain training."""
    stated = [
        half.cost for half in (method.local, method.aggregator) if not isinstance(half.cost, str)
    ]
    return summed(stated or [NOT_STATED])


def per_image(
    network: Mapping[str, float], passes: Mapping[str, int], epochs: int
) -> tuple[float, float]:
    """Operations and bytes in fp32 of one image in one round; a forward pass moves a third of a step's bytes."""
    full, forward = (
        epochs * passes["step"] + passes["gradient"],
        epochs * passes["look"] + passes["forward"],
    )
    return full * network["step"] + forward * network["forward"], (full + forward / 3) * network[
        "traffic"
    ]


def costs_of(model: str, side: int, channels: int) -> dict[str, float] | None:
    """The costs of a network at a size, from those of the nearest known one: they go with the pixels."""
    known = [key.split() for key in costs()["networks"]]
    near = [
        (abs(int(s) - side), abs(int(c) - channels), s, c) for name, s, c in known if name == model
    ]
    if not near:
        return None
    *_, s, c = min(near)
    times = (
        (side / int(s)) ** 2 if not model.startswith("clip-") else 1.0
    )  # which resize images to a size of their own
    found = costs()["networks"][f"{model} {s} {c}"]
    return {key: value * (1 if key == "parameters" else times) for key, value in found.items()}


@cache
def this_machine() -> dict[str, Any]:
    """Its speeds now: of one matrix product and one copy, the shortest of a few."""
    side, known = 1024, costs()["devices"][-1]
    a, source = np.ones((side, side), np.float32), np.zeros(2**25, np.uint8)
    copy = np.empty_like(source)
    return known | {
        "device": f"this machine, {cores()} cores, measured now",
        "source": "measured",
        "flops": 2 * side**3 / min(_seconds(lambda: a @ a) for _ in range(4)),
        "bandwidth": 2
        * len(source)
        / min(_seconds(lambda: np.copyto(copy, source)) for _ in range(4)),
    }


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
