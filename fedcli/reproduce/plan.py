"""A recipe at a scale as cells: for each row, data and seed the command lines that make one number.

The built-in scales: `paper` is the recipe as written; `small` ends in hours on a laptop; `smoke` shows in seconds that
all of it runs. A recipe's own [small] and [smoke] tables add to them, and both win over every other value.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import models
from ..commands import options
from ..commands.train import _completed
from ..errors import UsageError
from ..federation.client import Training
from ..federation.plan import Plan
from ..methods import resolve
from . import commandline
from .recipe import SCALES, STAGES, Chain, Flags, Recipe, Row, load

BUILT_IN: dict[str, dict[str, Flags]] = {
    "paper": {},
    "small": {"prepare": {"size": 32}, "train": {"rounds": 20}},
    "smoke": {"prepare": {"size": 32}, "partition": {"clients": 4, "fedism": 1}, "train": {"rounds": 2}},
}
ADDED = ("prepare", "train")  # stages that take every flag of a scale; others only those they have already


@dataclass(frozen=True)
class Cell:
    """One row on one data with one seed; each command line as typed, without paths of what the one before it made.

    Attributes:
        data: place of the chain in the recipe, by name.
        chain: prepare, partition and, where there is one, corrupt.
    """

    row: str
    data: str
    title: str
    seed: int
    chain: tuple[tuple[str, ...], ...]
    train: tuple[str, ...]
    evaluate: tuple[str, ...]

    @property
    def name(self) -> str:
        return " · ".join(filter(None, [self.row, self.title, f"seed {self.seed}"]))

    @property
    def work(self) -> tuple:
        """What is run: cells of equal work are one."""
        return self.chain, self.train, self.evaluate


def check(path: Path | str) -> Recipe:
    """Read a recipe and try every command line of it, at every scale, short of running it. Raises UsageError."""
    recipe = load(Path(path))
    for scale in SCALES:
        tried: set[tuple[str, ...]] = set()
        for cell in cells(recipe, scale):
            for line in cell.chain + (cell.train, cell.evaluate):
                if line not in tried:
                    tried.add(line)
                    try_line(line, f"{Path(path).name} at --scale {scale}: {cell.name}")
    return recipe


def try_line(line: tuple[str, ...], where: str) -> None:
    """Read a command line as its stage would. Raises UsageError."""
    try:
        given = commandline.parse(line)
        if line[0] == "train":
            plan_of(given).check()
    except UsageError as error:
        raise UsageError(f"{where}: {error.sentence}", error.hint) from None


def cells(recipe: Recipe, scale: str, *, seeds: tuple[int, ...] = (), raw: dict[str, str] | None = None) -> list[Cell]:
    """Every cell, in the order it is run: seed by seed, so that a table fills evenly.

    raw: dataset -> folder of it; a dataset that reads files and is not in it has no --raw.
    """
    seeds = seeds or (recipe.seeds[:1] if scale == "smoke" else recipe.seeds)
    places = [(seed, recipe.chains[name], row) for seed in seeds for row in recipe.rows for name in row.data]
    several = len(recipe.chains) > 1
    return [_cell(recipe, scale, row, chain, seed, raw or {}, several) for seed, chain, row in places]


def _cell(
    recipe: Recipe, scale: str, row: Row, chain: Chain, seed: int, raw: dict[str, str], several: bool
) -> Cell:  # fmt: skip
    stages = {
        "prepare": chain.prepare | row.prepare,
        "partition": chain.partition | row.partition,
        "corrupt": (chain.corrupt or {}) | row.corrupt,
        "train": recipe.train | row.train,
        "evaluate": chain.evaluate,
    }
    stages = {stage: _scaled(stage, given, scale, recipe, row) for stage, given in stages.items()}
    kind, folder = stages["corrupt"].pop("kind", None), raw.get(chain.dataset, "")
    line = {stage: commandline.words(given, seed=seed, raw=folder) for stage, given in stages.items()}
    prepare = ("prepare", chain.dataset, *(["--raw", folder] if folder else []), *line["prepare"])
    made = (prepare, ("partition", *line["partition"]), *([("corrupt", kind, *line["corrupt"])] if kind else []))
    settings = commandline.words({"set": row.settings}, seed=seed, raw=folder)
    train = ("train", row.method, *line["train"], *settings, "--seed", str(seed))
    title = chain.title if several else ""
    return Cell(row.name, chain.name, title, seed, made, train, ("evaluate", *line["evaluate"]))


def _scaled(stage: str, given: Flags, scale: str, recipe: Recipe, row: Row) -> Flags:
    """A stage's flags with what the scale changes: the built-in part, then the recipe's own."""
    if scale == "paper" or stage not in STAGES[:4]:
        return dict(given)
    changes = dict(BUILT_IN[scale].get(stage, {}))
    if stage == "train":
        changes |= _small_network(given, row)
    changes |= recipe.scales[scale].get(stage, {})
    return given | {key: value for key, value in changes.items() if stage in ADDED or key in given}


def _small_network(given: Flags, row: Row) -> Flags:
    """The small network of the same kind; weights and teachers of the large one do not fit it."""
    clip = resolve(row.method).local.model == "clip" or models.describe(given.get("model", "cnn")).kind == "clip"
    dropped = {name: False for name in ("weights", "teacher") if name in given}
    return {"model": "clip-tiny" if clip else "cnn"} | dropped


def plan_of(given: dict[str, Any]) -> Plan:
    """What a training's command line asks for."""
    settings = options.settings(given["set"])
    usual = resolve(given["method"], settings).usual
    optimizer = given["optimizer"] or usual.get("optimizer", "adam")
    asked = {key: given[key] for key in ("lr", "momentum", "weight_decay", "schedule")}
    named = {key: given[key] for key in ("epochs", "batch_size", "prior", "bn", "personal")}
    training = Training(optimizer=optimizer, **named, **_completed(asked, usual, optimizer))
    same = ("seed", "participation", "weights", "teacher", "augment", "precision", "eval_every", "single_site")
    return Plan(
        given["method"], settings, training, rounds=given["rounds"] or usual.get("rounds", 20), model=given["model"] or "cnn",
        freeze=given["freeze_backbone"], **{key: given[key] for key in same},
    )  # fmt: skip


def chosen(cells: list[Cell], only: list[str]) -> list[Cell]:
    """The cells whose name holds one of these texts, in any case. Raises UsageError if none does."""
    found = [cell for cell in cells if not only or any(text.lower() in cell.name.lower() for text in only)]
    if not found:
        raise UsageError(f"no cell is called {' or '.join(map(repr, only))}", f"the first is {cells[0].name!r}")
    return found
