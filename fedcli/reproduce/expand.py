"""A recipe at a scale as cells: for each row, data and seed the options of the stages that make one number.

The built-in scales: `paper` is the recipe as written; `small` ends in hours on a laptop; `smoke` shows in seconds that
all of it runs. A recipe's own [small] and [smoke] tables add to them, and both win over every other value.
"""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from .. import models
from ..data import sources
from ..errors import UsageError, nearest
from ..methods import resolve
from ..options import Options
from ..runs.train_options import ROUNDS
from ..stages.evaluation_options import EvaluateOptions
from ..stages.options import STAGES, TrainOptions
from ..stages.train import resolved
from .checks import Flags
from .flags import ASKED, asked, files_in, filled, variable
from .recipe import SCALES, Chain, Recipe, Row, load, recipes_folder

BUILT_IN: dict[str, dict[str, Flags]] = {
    "paper": {},
    "small": {"prepare": {"size": 32}, "train": {"rounds": 20}},
    "smoke": {
        "prepare": {"size": 32, "sample_images": False, "stratified": False},
        "partition": {"clients": 4, "fedism": 1},
        "train": {"rounds": 2},
    },
}
ADDED = ("prepare", "train", "evaluate")  # stages that take every flag of a scale; others only those they have already


@dataclass(frozen=True)
class Cell:
    """One row on one data with one seed: the options of every stage, without the manifest that each reads.

    Attributes:
        data: name of the chain in the recipe.
        chain: prepare, partition and, where there is one, corrupt.
    """

    row: str
    data: str
    title: str
    seed: int
    chain: tuple[Options, ...]
    train: TrainOptions
    evaluate: EvaluateOptions

    @property
    def name(self) -> str:
        return " · ".join(filter(None, [self.row, self.title, f"seed {self.seed}"]))

    @property
    def work(self) -> tuple[tuple[Options, ...], TrainOptions, EvaluateOptions]:
        """The options of all that is run: cells of equal work are one."""
        return self.chain, self.train, self.evaluate

    @property
    def asks(self) -> set[str]:
        """Variables of the paths that were not given."""
        stages = (*self.chain, self.train)
        return {name for options in stages for word in options.argv() for name in ASKED.findall(word)}


def check(path: Path | str) -> Recipe:
    """Read a recipe and check the options of every cell, at every scale, short of running it. Raises UsageError."""
    recipe = load(Path(path))
    _methods(recipe)
    _settings_of_data(recipe)
    first = recipe.seeds[:1]  # cells of other seeds differ in nothing else
    for scale in SCALES:
        where = f"{Path(path).name} at --scale {scale}"
        try:
            tried = {cell.train: cell for cell in cells(recipe, scale, seeds=first)}
        except UsageError as error:
            raise UsageError(f"{where}: {error.sentence}", error.hint) from None
        if recipe.files:
            cells(recipe, scale, seeds=first, files={name: name for name in recipe.files})
        for cell in tried.values():
            try_training(cell, where)
    return recipe


def _methods(recipe: Recipe) -> None:
    """Refuse a row whose method there is not."""
    for row in recipe.rows:
        try:
            resolve(row.method)
        except UsageError as error:
            raise UsageError(f"row {row.name!r}: {error.sentence}", error.hint) from None


def _settings_of_data(recipe: Recipe) -> None:
    """Refuse an option of a chain or a scale that none of its rows' methods has."""
    given = [(f"data.{name}", chain.settings, {name}) for name, chain in recipe.chains.items()]
    given += [(scale, changes.get("settings", {}), {*recipe.chains}) for scale, changes in recipe.scales.items()]
    for where, settings, data in given:
        known = {key for row in recipe.rows if data & {*row.data} for key in resolve(row.method).settings}
        if odd := [key for key in settings if key not in known]:
            raise UsageError(f"{where}.set: no row there has an option {odd[0]!r}", nearest(odd[0], known))


def try_training(cell: Cell, where: str = "") -> None:
    """Check a cell's training short of running it. Raises UsageError."""
    try:
        resolved(cell.train)
    except UsageError as error:
        raise UsageError(": ".join(filter(None, [where, cell.name, error.sentence])), error.hint) from None


def cells(
    recipe: Recipe, scale: str, *, seeds: tuple[int, ...] = (), raw: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
) -> list[Cell]:  # fmt: skip
    """Every cell, in the order it is run: seed by seed, so that a table fills evenly.

    raw: dataset -> folder of it. files: name in the recipe's [files] -> path. A path that is not given is asked for,
    see Cell.asks. Raises UsageError.
    """
    seeds = seeds or (recipe.seeds[:1] if scale == "smoke" else recipe.seeds)
    places = [(seed, recipe.chains[name], row) for seed in seeds for row in recipe.rows for name in row.data]
    paths = {f"files.{name}": (files or {}).get(name) or asked(variable(name, "file")) for name in recipe.files}
    paths |= {f"{name}.name": Path(path).name for name, path in paths.items()}
    return [_cell(recipe, scale, row, chain, seed, _folder(chain, raw or {}), paths) for seed, chain, row in places]


def _folder(chain: Chain, raw: dict[str, str]) -> str:
    """The dataset's folder; "" for one that reads no files."""
    if chain.dataset in raw or not sources.source(chain.dataset).files:
        return raw.get(chain.dataset, "")
    return asked(variable(chain.dataset))


def _cell(
    recipe: Recipe, scale: str, row: Row, chain: Chain, seed: int, folder: str, paths: dict[str, str]
) -> Cell:  # fmt: skip
    own = chain.lists if chain.lists and _brings(chain, paths) else chain
    stages = {
        "prepare": own.prepare | row.prepare,
        "partition": _of_row(own.partition, row),
        "corrupt": (chain.corrupt or {}) | row.corrupt,
        "train": recipe.train | chain.train | row.train,
        "evaluate": chain.evaluate,
    }
    listed = files_in(chain.lists)
    stages = {stage: _scaled(stage, given, scale, recipe, row, listed) for stage, given in stages.items()}
    stages["train"] |= {"method": row.method, "set": _settings(chain, row, scale, recipe), "seed": seed}
    stages["prepare"] |= {"name": chain.dataset, "raw": folder or False}
    if stages["train"].get("rounds") is None:  # a recipe says the same whatever its data
        stages["train"]["rounds"] = resolve(row.method).default_training.get("rounds", ROUNDS)
    fills = {"seed": str(seed), "raw": folder, "data": chain.name, "recipes": str(recipes_folder()), **paths}
    try:
        data = tuple(
            STAGES[stage].from_flags(filled(stages[stage], fills))
            for stage in ("prepare", "partition", "corrupt")
            if stages[stage] or stage != "corrupt"
        )
        train = TrainOptions.from_flags(filled(stages["train"], fills))
        evaluate = EvaluateOptions.from_flags(filled(stages["evaluate"], fills))
    except UsageError as error:
        raise UsageError(f"row {row.name!r}: {error.sentence}", error.hint) from None
    title = chain.title if len(recipe.chains) > 1 else ""
    return Cell(row.name, chain.name, title, seed, data, train, evaluate)


def _brings(chain: Chain, paths: dict[str, str]) -> bool:
    """Tell whether the user brings the files of a chain's lists: all of them. Raises UsageError for some of them."""
    needed = sorted(files_in(chain.lists))
    missing = [name for name in needed if ASKED.search(paths[f"files.{name}"])]
    if missing and len(missing) < len(needed):
        brought = next(name for name in needed if name not in missing)
        flags = " ".join(f"--file {name}=PATH" for name in missing)
        raise UsageError(f"--file {brought} is one of the lists {', '.join(needed)}, which go together", f"add {flags}")
    return bool(needed) and not missing


def _of_row(partition: Flags, row: Row) -> Flags:
    """A partition with what a row changes of it; lists say already who holds what."""
    return partition if "clients_file" in partition else partition | row.partition


def _settings(chain: Chain, row: Row, scale: str, recipe: Recipe) -> Flags:
    """A row's options, with the data's own for those that it leaves open, and the scale's in place of either.

    Data and scale give the options that the row's method has.
    """
    changes = recipe.scales.get(scale, {}).get("settings", {})
    settings = chain.settings | row.settings | changes
    settings = {key: settings[key] for key in settings if key in row.settings or key in resolve(row.method).settings}
    return settings if scale == "paper" else _without_files(settings)


def _without_files(given: Flags, kept: Set[str] = frozenset()) -> Flags:
    """Flags that name no file of the recipe but these: the others belong to the networks of the paper's scale."""
    return {key: value for key, value in given.items() if files_in(value) <= kept}


def _scaled(stage: str, given: Flags, scale: str, recipe: Recipe, row: Row, listed: Set[str]) -> Flags:
    """A stage's flags with what the scale changes: the built-in part, then the recipe's own.

    listed: the files of published lists, which count at every scale.
    """
    if scale == "paper":
        return dict(given)
    given = _without_files(given, listed)
    changes = dict(BUILT_IN[scale].get(stage, {}))
    if stage == "train":
        changes |= _small_network(given, row)
    changes |= recipe.scales[scale].get(stage, {})
    return given | {key: value for key, value in changes.items() if stage in ADDED or key in given}


def _small_network(given: Flags, row: Row) -> Flags:
    """The small network of the same kind; weights and teachers of the large one do not fit it."""
    clip = resolve(row.method).local.model == "clip" or models.describe(given.get("model") or "cnn").kind == "clip"
    dropped = {name: False for name in ("weights", "teacher") if name in given}
    return {"model": "clip-tiny" if clip else "cnn"} | dropped


def chosen(cells: list[Cell], only: list[str]) -> list[Cell]:
    """The cells whose name holds one of these texts, in any case. Raises UsageError if none does."""
    matching = [cell for cell in cells if not only or any(text.lower() in cell.name.lower() for text in only)]
    if not matching:
        raise UsageError(f"no cell is called {' or '.join(map(repr, only))}", f"the first is {cells[0].name!r}")
    return matching
