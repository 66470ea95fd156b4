"""The plan of tables before a byte is downloaded: data, trainings, hours on named devices and
memory, without torch.

Trainings that are equal in several tables are counted once, as they are trained once in one work
folder. Operations are those of a network's forward pass and step (costs.json beside the recipes,
which a test counts again), by the passes that the method says it makes; hours are of makers'
speeds, of which training is taken to reach a share.
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

from ..bench.passes import NOT_STATED, summed
from ..data import sources
from ..system.processes import cores
from .expand import NoCellError, RecipeCell, cells, chosen, read_seeds
from .recipe import Recipe, load, recipes_folder

Facts = Callable[[str], dict[str, Any]]
FLOAT = 4  # bytes
TEST = 0.2  # share of images in the test part where neither split nor card says another
KEPT = 6  # models that a run keeps on disk
PROCESS = 6e8  # bytes of a process that trains, before it has any image
HALF = {"fp32": 1.0, "tf32": 1.0, "bf16": 0.5}  # of the bytes of fp32
TRIALS = 4  # of which the shortest is the speed of this machine
BUSY = 0.8  # of the time of the trials; where they got less of a core, others had it
card = cache(sources.card)  # a file, which is asked for with every training


@cache
def costs() -> dict[str, Any]:
    """Networks and devices, as costs.json has them."""
    return json.loads((recipes_folder() / "costs.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class TrainingCost:
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

    def seconds(self, device: Mapping[str, Any]) -> float:
        """The time on a device: of arithmetic, traffic or steps, whichever takes longest."""
        bytes_moved = self.traffic * HALF[device["precision"]]
        computing = self.operations / (device["flops"] * device["share"])
        moving = bytes_moved / device["bandwidth"]
        stepping = self.steps * device["step_seconds"]
        return max(
            computing,
            moving,
            stepping,
        )


@dataclass(frozen=True)
class PlannedTable:
    """One recipe: its cells, its trainings, and which of these no table before it has."""

    name: str
    cells: int
    trainings: int
    new: tuple[TrainingCost, ...]


@dataclass
class Plan:
    """Attributes:
    data: dataset -> (images, bytes of the prepared pools).
    files: sentences on what the recipes ask for besides; fetched: those that a command gets.
    weights: network -> MB of its published weights, None where nobody has counted it.
    one_seed: recipes that are played with one.
    unknown: networks and sides whose cost no table has; not_stated: methods that count as one step
    for each image. frozen: networks of which only a classifier trains, whose features are left out.
    """

    tables: list[PlannedTable] = field(default_factory=list)
    data: dict[str, tuple[int, float]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)
    weights: dict[str, float | None] = field(default_factory=dict)
    one_seed: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    not_stated: set[str] = field(default_factory=set)
    frozen: set[str] = field(default_factory=set)

    @property
    def trainings(self) -> list[TrainingCost]:
        trainings: list[TrainingCost] = []
        for table in self.tables:
            trainings += table.new
        return trainings

    def hours(self, device: dict[str, Any]) -> float:
        """The hours of all trainings, one after another on a device."""
        all_seconds = sum(training.seconds(device) for training in self.trainings)
        return all_seconds / 3600


def planned(
    files: Iterable[Path],
    scale: str,
    facts: Facts,
    *,
    seeds: str | None = None,
    only: tuple[str, ...] = (),
) -> Plan:
    """The plan of recipes. facts: name of a method -> what it says of itself. Raises UsageError."""
    plan = Plan()
    method_of = cache(lambda name: _method(name, facts))
    planned_works: set[tuple] = set()
    pools: dict[str, set[Any]] = {}
    missing: NoCellError | None = None
    for path in files:
        recipe = load(path)
        chosen_seeds = read_seeds(seeds, recipe.seeds)
        every_cell = cells(recipe, scale, seeds=chosen_seeds, method=method_of)
        try:
            wanted_cells = chosen(every_cell, list(only))
        except NoCellError as error:  # another table of the paper may have such cells
            missing = error
            continue
        plan.tables.append(_table(plan, recipe, wanted_cells, planned_works, method_of))
        _add_files(plan, recipe, wanted_cells)
        for cell in wanted_cells:
            prepare: Any = cell.chain[0]
            _add_weights(plan, cell, prepare)
            pools.setdefault(prepare.name, set()).add(prepare)
    if missing and not plan.tables:
        raise missing
    for name, prepared in sorted(pools.items()):
        largest = max(prepared, key=_images)
        pixels = sum(map(_pool, prepared))
        plan.data[name] = _images(largest), pixels
    return plan


def _table(
    plan: Plan,
    recipe: Recipe,
    cells: list[RecipeCell],
    planned_works: set[tuple],
    method_of: Callable[[str], Any],
) -> PlannedTable:
    """A recipe in the plan. planned_works: the trainings of the recipes before, to which its own
    are added."""
    cell_of_work = {(cell.chain, cell.train): cell for cell in cells}
    costs = []
    for work, cell in cell_of_work.items():
        if work in planned_works:
            continue
        method = method_of(cell.train.method or "fedavg")
        cost = _training(cell, method, plan)
        if cost:
            costs.append(cost)
    planned_works.update(cell_of_work)
    return PlannedTable(
        recipe.name,
        len(cells),
        len(cell_of_work),
        tuple(costs),
    )


def _add_files(plan: Plan, recipe: Recipe, cells: list[RecipeCell]) -> None:
    asks_for_files = any(cell.asks for cell in cells)
    for name, file in recipe.files.items():
        if asks_for_files:
            plan.files[name] = file.what
        if file.card:
            plan.fetched.add(name)
    if len({cell.seed for cell in cells}) == 1:
        plan.one_seed.append(recipe.name)


def _add_weights(plan: Plan, cell: RecipeCell, prepare: Any) -> None:
    if cell.train.weights != "imagenet":
        return
    model = cell.train.model or ""
    network = costs_of(model, _side(prepare), card(prepare.name)["channels"])
    plan.weights[model] = network["parameters"] * FLOAT / 1e6 if network else None


def _method(name: str, facts: Facts) -> Any:
    """A method as expand.cells() asks of it, and its `passes`; None where a half cannot state
    them."""
    method = facts(name)
    options = {}
    passes: list[Mapping[str, int]] | None = []
    for half in method["halves"].values():
        options.update(dict.fromkeys(half["options"]))
        if isinstance(half["passes"], str):
            passes = None
        elif passes is not None:
            passes.append(half["passes"])
    return SimpleNamespace(
        settings=options,
        default_training=method["training"],
        local=SimpleNamespace(model=method["network"]),
        passes=passes,
    )


def _images(prepare: Any) -> int:
    """The images of a dataset, or as many as are drawn of it; 0 where its card has no number."""
    images = card(prepare.name).get("images", {})
    count = images.get("count", 0)
    if not prepare.sample_images:
        return count
    if not count:
        return prepare.sample_images
    return min(prepare.sample_images, count)


def _side(prepare: Any) -> int:
    return prepare.size or card(prepare.name)["size"]


def _pool(prepare: Any) -> float:
    channels = card(prepare.name)["channels"]
    return _images(prepare) * _side(prepare) ** 2 * channels


def _clients(prepare: Any, partition: Any) -> int:
    if partition.clients:
        return partition.clients
    attributes = card(prepare.name)["attributes"]
    counts = [len(attributes.get(name, [])) for name in (*partition.by, "")]
    return max(counts) or 2


def _trained(prepare: Any, partition: Any) -> float:
    """The images that the clients train on."""
    described = card(prepare.name)
    count = float(_images(prepare))
    train_count = described.get("images", {}).get("train")
    if prepare.folds:
        count *= 1 - 1 / prepare.folds
    elif train_count and not prepare.sample_images:
        count = train_count
    else:
        count *= 1 - (prepare.test or TEST)
    if partition.portion:
        sites = max(len(described["attributes"].get(name, [0])) for name in partition.by)
        clients_of_data = partition.portion * _clients(prepare, partition)
        count *= clients_of_data / sites
    return count * (1 - partition.val)


def _training(cell: RecipeCell, method: Any, plan: Plan) -> TrainingCost | None:
    """The cost of a cell's training; None where that of its network, or the number of images, is
    unknown."""
    train = cell.train
    prepare: Any = cell.chain[0]
    partition: Any = cell.chain[1]
    network = costs_of(
        train.model or "cnn",
        _side(prepare),
        card(prepare.name)["channels"],
    )
    if network is None:
        plan.unknown.add(f"{train.model} at {_side(prepare)} pixels")
        return None
    if not _images(prepare):
        return None
    if train.freeze_backbone:
        plan.frozen.add(train.model or "cnn")
        network = dict.fromkeys(network, 0.0)
    if method.passes is None:
        plan.not_stated.add(train.method or "")
    passes = summed(method.passes or [NOT_STATED])
    if train.teacher:
        passes["look"] += 1
    operations, traffic = per_image(network, passes, train.epochs)
    images_trained_on = _trained(prepare, partition)
    images = images_trained_on * train.participation * train.rounds
    clients = _clients(prepare, partition)
    visits = images * train.epochs
    model = network["parameters"] * FLOAT
    activations = 2 * train.batch_size * network["kept"]
    full_batches = visits / train.batch_size
    part_batches = clients * train.rounds * train.epochs / 2
    kept_models = (clients + KEPT) * model
    return TrainingCost(
        visits=visits,
        steps=full_batches + part_batches,
        operations=images * operations,
        traffic=images * traffic,
        memory=PROCESS + _pool(prepare) + activations + kept_models,
        disk=KEPT * model,
    )


def per_image(
    network: Mapping[str, float], passes: Mapping[str, int], epochs: int
) -> tuple[float, float]:
    """Operations and bytes in fp32 of one image in one round; a forward pass moves a third of a
    step's bytes."""
    steps = epochs * passes["step"] + passes["gradient"]
    forward = epochs * passes["look"] + passes["forward"]
    in_steps = steps * network["step"]
    operations = in_steps + forward * network["forward"]
    traffic_passes = steps + forward / 3
    return operations, traffic_passes * network["traffic"]


def costs_of(model: str, side: int, channels: int) -> dict[str, float] | None:
    """The costs of a network at a size, from those of the nearest known one: they go with the
    pixels."""
    networks = costs()["networks"]
    distances = []
    for key in networks:
        name, its_side, its_channels = key.split()
        if name == model:
            size_apart = abs(int(its_side) - side)
            channels_apart = abs(int(its_channels) - channels)
            distance = size_apart, channels_apart
            distances.append((*distance, its_side, its_channels))
    if not distances:
        return None
    *_, nearest_side, nearest_channels = min(distances)
    factor = 1.0
    if not model.startswith("clip-"):  # which resize images to a size of their own
        factor = (side / int(nearest_side)) ** 2
    scaled = {}
    nearest_network = networks[f"{model} {nearest_side} {nearest_channels}"]
    for key, value in nearest_network.items():
        scaled[key] = value if key == "parameters" else value * factor
    return scaled


@cache
def this_machine() -> dict[str, Any]:
    """This machine as a device with its speeds now: of one matrix product and one copy, the
    shortest of a few."""
    side = 1024
    matrix = np.ones((side, side), np.float32)
    source = np.zeros(2**25, np.uint8)
    copy = np.empty_like(source)
    core_seconds = time.process_time()
    trials = [_seconds(lambda: matrix @ matrix) for _ in range(TRIALS)]
    core_seconds = time.process_time() - core_seconds
    moment = "while it was busy" if core_seconds < BUSY * sum(trials) else "now"
    product_seconds = min(trials)
    copy_seconds = min(_seconds(lambda: np.copyto(copy, source)) for _ in range(TRIALS))
    device = dict(costs()["devices"][-1])
    device["device"] = f"this machine, {cores()} cores, measured {moment}"
    device["source"] = "measured"
    multiplications = 2 * side**3
    device["flops"] = multiplications / product_seconds
    device["bandwidth"] = 2 * len(source) / copy_seconds
    return device


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
