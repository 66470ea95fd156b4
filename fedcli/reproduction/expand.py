"""A recipe at a scale as cells: for each row, data and seed the options of the stages that make one
number.

The built-in scales: `paper` is the recipe as written; `small` ends in hours on a laptop; `smoke`
shows in seconds that all of it runs. A recipe's own [small] and [smoke] tables add to them, and
both win over every other value.
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
from .flags import PLACEHOLDER, Flags, files_in, filled, placed, placeholder, variable
from .flags import flags as flags_of
from .recipe import SCALES, Recipe, RecipeRow, load, recipes_folder

BUILT_IN: dict[str, dict[str, Flags]] = {
    "small": {"prepare": {"size": 32}, "train": {"rounds": 20}},
    "smoke": {
        "prepare": {"size": 32, "sample_images": False, "stratified": False},
        "partition": {"clients": 4, "fedism": 1},
        "train": {"rounds": 2},
    },
}
# stages that take every flag of a scale; others take only those that they have already
ADDED = "prepare", "train", "evaluate", "settings"

MOST_SEEDS = 1000
LONGEST_SEED = 18  # digits, which an integer of 64 bits holds


def resolve(name: str) -> Any:
    """The method of a row, which imports torch."""
    from ..methods import resolve

    return resolve(name)


@dataclass(frozen=True)
class RecipeCell:
    """One row on one data with one seed: the options of every stage, without the manifest that each
    reads.

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
        words = [self.row, self.title, f"seed {self.seed}"]
        return " · ".join(word for word in words if word)

    @property
    def work(self) -> tuple[tuple[Options, ...], TrainOptions, EvaluateOptions | None]:
        """The options of all that is run: cells of equal work are one."""
        return self.chain, self.train, self.evaluate

    @property
    def asks(self) -> set[str]:
        """Variables of the paths that were not given."""
        names = set()
        for options in (*self.chain, self.train):
            for word in options.argv():
                names.update(PLACEHOLDER.findall(word))
        return names


def check(path: Path | str) -> Recipe:
    """Read a recipe and check the options of every cell, at every scale, short of running it.

    Raises UsageError.
    """
    recipe = load(Path(path))
    for row in recipe.rows:
        with placed(f"row {row.name!r}"):
            resolve(row.method)
    _check_settings(recipe)
    seeds = recipe.seeds[:1]  # cells of other seeds differ in nothing else
    for scale in SCALES:
        with placed(f"{Path(path).name} at --scale {scale}"):
            cell_of_training = {cell.train: cell for cell in cells(recipe, scale, seeds=seeds)}
            if recipe.files:
                files = {name: name for name in recipe.files}
                cells(recipe, scale, seeds=seeds, files=files)
            try_training(cell_of_training.values())
    return recipe


def _check_settings(recipe: Recipe) -> None:
    """Refuse an option of a chain or a scale that none of its rows' methods has."""
    for name, data in recipe.chains.items():
        _check_settings_of(recipe, f"data.{name}", data.settings, {name})
    for scale in SCALES:
        changed_settings = recipe.changes(scale, "settings")
        _check_settings_of(
            recipe,
            scale,
            changed_settings,
            set(recipe.chains),
        )


def _check_settings_of(
    recipe: Recipe,
    where: str,
    settings: Flags,
    data: set[str],
) -> None:
    options: set[str] = set()
    for row in recipe.rows:
        if data.intersection(row.data):
            options.update(resolve(row.method).settings)
    for key in settings:
        if key not in options:
            sentence = f"{where}.set: no row there has an option {key!r}"
            raise UsageError(sentence, nearest(key, options))


def try_training(cells: Iterable[RecipeCell]) -> None:
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
) -> list[RecipeCell]:
    """Every cell, in the order it is run: seed by seed, so that a table fills evenly.

    raw: dataset -> folder of it. files: name in the recipe's [files] -> path. A path that is not
    given is asked for, see RecipeCell.asks. method: what a row's name stands for. Raises
    UsageError.
    """
    if not seeds:
        seeds = recipe.seeds[:1] if scale == "smoke" else recipe.seeds
    method_of = cache(method)
    paths = _paths(recipe, files or {})
    folders = raw or {}
    cells = []
    for seed, row in product(seeds, recipe.rows):
        for name in row.data:
            dataset = recipe.chains[name].dataset
            has_files = sources.source(dataset).files
            missing = placeholder(variable(dataset)) if has_files else ""
            fills = {
                "seed": str(seed),
                "raw": folders.get(dataset, missing),
                "data": name,
            }
            with placed(f"row {row.name!r}"):
                fills["recipes"] = str(recipes_folder())
                fills.update(paths)
                cell_method = method_of(row.method)
                cells.append(_cell(recipe, scale, row, seed, fills, cell_method))
    return cells


def _paths(recipe: Recipe, files: dict[str, str]) -> dict[str, str]:
    """Word in braces -> the path of a file of the recipe; with .name behind it the file's name."""
    paths = {}
    for name in recipe.files:
        paths[f"files.{name}"] = files.get(name) or placeholder(variable(name, "file"))
    names = {f"{word}.name": Path(path).name for word, path in paths.items()}
    return paths | names


def _cell(
    recipe: Recipe,
    scale: str,
    row: RecipeRow,
    seed: int,
    fills: dict[str, str],
    method: Any,
) -> RecipeCell:
    """The cell of a row. fills: what the words in braces stand for, {data} among them."""
    name = fills["data"]
    data = recipe.chains[name]
    stages = _stages(recipe, row, data, fills)
    if scale != "paper":
        listed = files_in(data.lists)
        for stage, flags in stages.items():
            stages[stage] = _scaled(stage, flags, scale, recipe, method, listed)
    # data and scale give options that a method has
    options = row.settings.keys() | method.settings.keys()
    settings = stages.pop("settings")
    train = stages["train"]
    train["method"] = row.method
    train["set"] = {key: value for key, value in settings.items() if key in options}
    train["seed"] = seed
    stages["prepare"]["name"] = data.dataset
    stages["prepare"]["raw"] = fills["raw"] or False
    if train.get("rounds") is None:  # a recipe says the same whatever its data
        train["rounds"] = method.default_training.get("rounds", ROUNDS)
    stages = {stage: filled(flags, fills) for stage, flags in stages.items()}
    data_stages = shape.STAGES[:3]
    made_by = [stage for stage in data_stages if stages[stage] or stage != "corrupt"]
    title = ""
    if len(recipe.chains) > 1:
        title = data.title or name
    chain = tuple(STAGES[stage].from_flags(stages[stage]) for stage in made_by)
    training = TrainOptions.from_flags(stages["train"])
    evaluation = EvaluateOptions.from_flags(stages["evaluate"])
    return RecipeCell(
        row=row.name,
        data=name,
        title=title,
        seed=seed,
        chain=chain,
        train=training,
        evaluate=evaluation,
    )


def _stages(
    recipe: Recipe, row: RecipeRow, data: shape.Data, fills: dict[str, str]
) -> dict[str, Flags]:
    """The flags of each stage, and "settings" of the method, as recipe, data and row give them."""
    lists: shape.Data | shape.Lists = data
    if data.lists and _brings(data, fills):
        lists = data.lists
    partition = lists.partition
    if "clients_file" not in partition:  # which already assigns the images to clients
        partition = partition | row.partition
    return {
        "prepare": lists.prepare | row.prepare,
        "partition": dict(partition),
        "corrupt": (data.corrupt or {}) | (row.corrupt or {}),
        "train": recipe.train | data.train | row.train,
        "evaluate": dict(data.evaluate),
        "settings": data.settings | row.settings,
    }


def _brings(data: shape.Data, fills: dict[str, str]) -> bool:
    """Tell whether the user brings the files of a chain's lists: all of them.

    Raises UsageError for some of them.
    """
    names = sorted(files_in(data.lists))
    missing = [name for name in names if PLACEHOLDER.search(fills[f"files.{name}"])]
    present = [name for name in names if name not in missing]
    if missing and present:
        flags = " ".join(f"--file {name}=PATH" for name in missing)
        names_text = ", ".join(names)
        raise UsageError(
            f"--file {present[0]} is one of the lists {names_text}, which go together",
            f"add {flags}",
        )
    return bool(present)


def _scaled(
    stage: str,
    flags: Flags,
    scale: str,
    recipe: Recipe,
    method: Any,
    listed: Set[str],
) -> Flags:
    """A stage's flags with what a reduced scale changes: the built-in part, then the recipe's own.

    listed: the files of published lists, which count at every scale; others belong to the networks
    of the paper's.
    """
    scaled = {name: value for name, value in flags.items() if files_in(value) <= listed}
    changes = dict(BUILT_IN[scale].get(stage, {}))
    if stage == "train":
        # the small network of the same kind; weights and teachers of the large one do not fit it
        is_clip = method.local.model == "clip" or str(scaled.get("model")).startswith("clip-")
        changes["model"] = "clip-tiny" if is_clip else "cnn"
        rounds = flags_of("train")["rounds"]
        _, parts = rounds.divided(str(scaled.get("rounds", "")))  # its patience
        if parts:
            changes["rounds"] = rounds.joined(changes["rounds"], parts)
        for name in ("weights", "teacher"):
            if name in scaled:
                changes[name] = False
    changes.update(recipe.changes(scale, stage))
    for name, value in changes.items():
        if stage in ADDED or name in scaled:
            scaled[name] = value
    return scaled


def read_seeds(text: str | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds that "3" (the first three of the usual ones, counted on where there are fewer),
    "0,1", or "7," for one alone, mean.

    Empty where the text is None. Raises UsageError.
    """
    if text is None:
        return ()
    names_them = "," in text
    words = [word.strip() for word in text.removesuffix(",").split(",")]
    if text == "0" or not all(_is_seed(word) for word in words):
        raise UsageError(
            f"--seeds {text!r} is no number of seeds",
            "write --seeds 3 for three, --seeds 0,1 for these two, or --seeds 7, (with the comma) "
            "for one",
        )
    numbers = tuple(int(word) for word in words)
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--seeds {text} names a seed twice", "name each once")
    if names_them:
        return numbers
    count = numbers[0]
    if count > MOST_SEEDS:
        hint = "a number alone says how many, 0,1 says which"
        raise UsageError(f"--seeds {text} are more than {MOST_SEEDS} seeds", hint)
    next_seed = max(usual) + 1
    next_seeds = range(next_seed, next_seed + count)
    return (*usual, *next_seeds)[:count]


def _is_seed(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= LONGEST_SEED


class NoCellError(UsageError):
    """No cell of a recipe has one of the names that were asked for."""


def chosen(cells: list[RecipeCell], only: list[str]) -> list[RecipeCell]:
    """The cells of the rows that have one of these names, else those whose name holds the text, in
    any case.

    Raises NoCellError if there are none.
    """
    if not only:
        return list(cells)
    rows = {cell.row.lower() for cell in cells}
    texts = [text.lower() for text in only]
    matching = [cell for cell in cells if _matches(cell, texts, rows)]
    if not matching:
        names = " or ".join(repr(text) for text in only)
        raise NoCellError(f"no cell is called {names}", f"the first is {cells[0].name!r}")
    return matching


def _matches(cell: RecipeCell, texts: list[str], rows: set[str]) -> bool:
    for text in texts:
        if text in rows:
            if cell.row.lower() == text:
                return True
        elif text in cell.name.lower():
            return True
    return False


def stages_of(cells: Iterable[RecipeCell]) -> Iterator[tuple[RecipeCell, tuple[Options, ...]]]:
    """The stages that make the cells' data, each once: the first cell that has it, and the chain
    that ends with it."""
    done = set()
    for cell in cells:
        for end in range(1, len(cell.chain) + 1):
            chain = cell.chain[:end]
            if chain not in done:
                done.add(chain)
                yield cell, chain
