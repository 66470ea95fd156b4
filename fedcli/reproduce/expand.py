"""A recipe at a scale as cells: for each row, data and seed the options of the stages that make one number.

The built-in scales: `paper` is the recipe as written; `small` ends in hours on a laptop; `smoke` shows in seconds that
all of it runs. A recipe's own [small] and [smoke] tables add to them, and both win over every other value.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ..data import sources
from ..errors import UsageError, nearest
from ..options import Options
from ..runs.train_options import ROUNDS
from ..scores.evaluation_options import EvaluateOptions
from ..stages.options import STAGES, TrainOptions
from . import shape
from .flags import ASKED, Flags, asked, files_in, filled, placed, variable
from .recipe import SCALES, Recipe, Row, load, recipes_folder

BUILT_IN: dict[str, dict[str, Flags]] = {
    "small": {"prepare": {"size": 32}, "train": {"rounds": 20}},
    "smoke": {
        "prepare": {"size": 32, "sample_images": False, "stratified": False},
        "partition": {"clients": 4, "fedism": 1},
        "train": {"rounds": 2},
    },
}
ADDED = (
    "prepare",
    "train",
    "evaluate",
    "settings",
)  # take every flag of a scale; others only those they have already

MOST_SEEDS = 1000


def resolve(name: str) -> Any:
    """The method of a row, which imports torch."""
    from ..methods import resolve

    return resolve(name)


@dataclass(frozen=True)
class Cell:
    """One row on one data with one seed: the options of every stage, without the manifest that each reads.

    Attributes:
        data: name of the chain in the recipe.
        chain: prepare, partition and, where there is one, corrupt.
        evaluate: None where the run is not scored.
    """

    row: str
    data: str
    title: str
    seed: int
    chain: tuple[Options, ...]
    train: TrainOptions
    evaluate: EvaluateOptions | None

    @property
    def name(self) -> str:
        return " · ".join(filter(None, [self.row, self.title, f"seed {self.seed}"]))

    @property
    def work(self) -> tuple[tuple[Options, ...], TrainOptions, EvaluateOptions | None]:
        """The options of all that is run: cells of equal work are one."""
        return self.chain, self.train, self.evaluate

    @property
    def asks(self) -> set[str]:
        """Variables of the paths that were not given."""
        stages = (*self.chain, self.train)
        return {
            name for options in stages for word in options.argv() for name in ASKED.findall(word)
        }


def check(path: Path | str) -> Recipe:
    """Read a recipe and check the options of every cell, at every scale, short of running it. Raises UsageError."""
    recipe = load(Path(path))
    for row in recipe.rows:
        with placed(f"row {row.name!r}"):
            resolve(row.method)
    _check_settings(recipe)
    first = recipe.seeds[:1]  # cells of other seeds differ in nothing else
    for scale in SCALES:
        with placed(f"{Path(path).name} at --scale {scale}"):
            tried = {cell.train: cell for cell in cells(recipe, scale, seeds=first)}
            if recipe.files:
                cells(recipe, scale, seeds=first, files={name: name for name in recipe.files})
            try_training(tried.values())
    return recipe


def _check_settings(recipe: Recipe) -> None:
    """Refuse an option of a chain or a scale that none of its rows' methods has."""
    given = [(f"data.{name}", data.settings, {name}) for name, data in recipe.chains.items()]
    given += [(scale, recipe.changes(scale, "settings"), {*recipe.chains}) for scale in SCALES]
    for where, settings, data in given:
        known = {
            key for row in recipe.rows if data & {*row.data} for key in resolve(row.method).settings
        }
        if odd := [key for key in settings if key not in known]:
            raise UsageError(
                f"{where}.set: no row there has an option {odd[0]!r}", nearest(odd[0], known)
            )


def try_training(cells: Iterable[Cell]) -> None:
    """Check the training of cells short of running it. Raises UsageError."""
    from ..stages.train import resolved

    for cell in cells:
        with placed(cell.name):
            resolved(cell.train)


def cells(
    recipe: Recipe,
    scale: str,
    *,
    seeds: tuple[int, ...] = (),
    raw: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    method: Callable[[str], Any] = resolve,
) -> list[Cell]:
    """Every cell, in the order it is run: seed by seed, so that a table fills evenly.

    raw: dataset -> folder of it. files: name in the recipe's [files] -> path. A path that is not given is asked for,
    see Cell.asks. method: what a row's name stands for. Raises UsageError.
    """
    seeds, method = seeds or (recipe.seeds[:1] if scale == "smoke" else recipe.seeds), cache(method)
    paths = {
        f"files.{name}": (files or {}).get(name) or asked(variable(name, "file"))
        for name in recipe.files
    }
    paths |= {f"{name}.name": Path(path).name for name, path in paths.items()}
    made = []
    for seed, row in product(seeds, recipe.rows):
        for name in row.data:
            dataset = recipe.chains[name].dataset
            missing = asked(variable(dataset)) if sources.source(dataset).files else ""
            fills = {"seed": str(seed), "raw": (raw or {}).get(dataset, missing), "data": name}
            with placed(f"row {row.name!r}"):
                fills |= {"recipes": str(recipes_folder())} | paths
                made.append(_cell(recipe, scale, row, seed, fills, method(row.method)))
    return made


def _cell(
    recipe: Recipe, scale: str, row: Row, seed: int, fills: dict[str, str], method: Any
) -> Cell:
    """The cell of a row. fills: what the words in braces stand for, {data} among them."""
    name, data = fills["data"], recipe.chains[fills["data"]]
    lists: shape.Data | shape.Lists = data.lists if data.lists and _brings(data, fills) else data
    stages = {
        "prepare": lists.prepare | row.prepare,
        # lists already assign the images to clients
        "partition": lists.partition
        if "clients_file" in lists.partition
        else lists.partition | row.partition,
        "corrupt": (data.corrupt or {}) | (row.corrupt or {}),
        "train": recipe.train | data.train | row.train,
        "evaluate": data.evaluate,
        "settings": data.settings | row.settings,
    }
    if scale != "paper":
        listed = files_in(data.lists)
        stages = {
            stage: _scaled(stage, given, scale, recipe, method, listed)
            for stage, given in stages.items()
        }
    having = (
        row.settings.keys() | method.settings.keys()
    )  # data and scale give options that a method has
    settings = {name: value for name, value in stages.pop("settings").items() if name in having}
    stages["train"] |= {"method": row.method, "set": settings, "seed": seed}
    stages["prepare"] |= {"name": data.dataset, "raw": fills["raw"] or False}
    if stages["train"].get("rounds") is None:  # a recipe says the same whatever its data
        stages["train"]["rounds"] = method.default_training.get("rounds", ROUNDS)
    stages = {stage: filled(given, fills) for stage, given in stages.items()}
    chain = tuple(
        STAGES[stage].from_flags(stages[stage])
        for stage in shape.STAGES[:3]
        if stages[stage] or stage != "corrupt"
    )
    train, evaluate = (
        TrainOptions.from_flags(stages["train"]),
        EvaluateOptions.from_flags(stages["evaluate"]),
    )
    title = (data.title or name) if len(recipe.chains) > 1 else ""
    return Cell(row.name, name, title, seed, chain, train, evaluate)


def _brings(data: shape.Data, fills: dict[str, str]) -> bool:
    """Tell whether the user brings the files of a chain's lists: all of them. Raises UsageError for some of them."""
    needed = sorted(files_in(data.lists))
    missing = [name for name in needed if ASKED.search(fills[f"files.{name}"])]
    if missing and len(missing) < len(needed):
        brought = next(name for name in needed if name not in missing)
        flags = " ".join(f"--file {name}=PATH" for name in missing)
        raise UsageError(
            f"--file {brought} is one of the lists {', '.join(needed)}, which go together",
            f"add {flags}",
        )
    return bool(needed) and not missing


def _scaled(
    stage: str, given: Flags, scale: str, recipe: Recipe, method: Any, listed: Set[str]
) -> Flags:
    """A stage's flags with what a reduced scale changes: the built-in part, then the recipe's own.

    listed: the files of published lists, which count at every scale; others belong to the networks of the paper's.
    """
    given = {name: value for name, value in given.items() if files_in(value) <= listed}
    changes = BUILT_IN[scale].get(stage, {})
    if (
        stage == "train"
    ):  # the small network of the same kind; weights and teachers of the large one do not fit it
        clip = method.local.model == "clip" or str(given.get("model")).startswith("clip-")
        changes = changes | {"model": "clip-tiny" if clip else "cnn"}
        changes |= {name: False for name in ("weights", "teacher") if name in given}
    changes = changes | recipe.changes(scale, stage)
    return given | {key: value for key, value in changes.items() if stage in ADDED or key in given}


def read_seeds(given: str | None, known: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds that "3" (the first three of the known ones, counted on where there are fewer) or "0,1" mean.

    Empty where none are given. Raises UsageError.
    """
    if given is None:
        return ()
    words = [word.strip() for word in given.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words) or words == [
        "0"
    ]:
        raise UsageError(
            f"--seeds {given!r} is no number of seeds",
            "write --seeds 3, or --seeds 0,1 for these two",
        )
    if len(words) == 1 and int(given) > MOST_SEEDS:
        hint = "a number alone says how many, 0,1 says which"
        raise UsageError(f"--seeds {given} are more than {MOST_SEEDS} seeds", hint)
    if len({int(word) for word in words}) < len(words):
        raise UsageError(f"--seeds {given} names a seed twice", "name each once")
    if len(words) > 1:
        return tuple(int(word) for word in words)
    return (*known, *range(max(known) + 1, max(known) + 1 + int(given)))[: int(given)]


class NoCellError(UsageError):
    """No cell of a recipe has one of the names that were asked for."""


def chosen(cells: list[Cell], only: list[str]) -> list[Cell]:
    """The cells of the rows that have one of these names, else those whose name holds the text, in any case.

    Raises NoCellError if there are none.
    """
    rows = {cell.row.lower() for cell in cells}
    wanted = [text.lower() for text in only]
    matching = [
        cell
        for cell in cells
        if not only
        or any(
            cell.row.lower() == text if text in rows else text in cell.name.lower()
            for text in wanted
        )
    ]
    if not matching:
        raise NoCellError(
            f"no cell is called {' or '.join(map(repr, only))}", f"the first is {cells[0].name!r}"
        )
    return matching


def stages_of(cells: Iterable[Cell]) -> Iterator[tuple[Cell, tuple[Options, ...]]]:
    """The stages that make the cells' data, each once: the first cell that has it, and the chain that ends with it."""
    seen = set()
    for cell in cells:
        for end in range(1, len(cell.chain) + 1):
            if (chain := cell.chain[:end]) not in seen:
                seen.add(chain)
                yield cell, chain
