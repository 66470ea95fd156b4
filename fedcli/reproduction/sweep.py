"""A user's own sweep as a recipe, for the command and for Python: methods on one data set, over a
grid of their options and of train's flags.

`--over hold-out=all` trains once without each site: a partition for each site, whose images train
nothing and are tested on. Its table has a row per training and a column per tested site, from two
evaluations: on all images of the held-out site, and on the dataset's test part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from .. import console, extensions
from ..common_options import WORK
from ..data import manifest, shared_patients, units
from ..data.not_chosen import SWEEPS
from ..data.partition.held_out import sites
from ..errors import FedcliError, UsageError, nearest
from ..methods import resolve
from ..metrics import Task
from ..options import Option, Source, text
from ..printed import percents
from ..reporting import table
from ..scores.evaluation_options import EvaluateOptions
from ..scores.scores import RunScores
from ..scores.table import Score
from ..stages import evaluate, partition
from ..stages.call import listed, source
from ..stages.options import PartitionOptions, TrainOptions
from ..stages.train import DATA, resolved
from . import flags, output, shape
from .expand import RecipeCell, try_training
from .jobs import Place, devices
from .played import PlayedTable
from .recipe import ON_VALIDATION, Recipe, RecipeColumn, RecipeRow
from .record import Results
from .several import OF_ONE, settings_of
from .shared import Outcome, Shared, Sources

KEY, METHOD = "hold-out", "method"
EXAMPLES = {KEY: "all", METHOD: "fedavg,fedheal"}  # values of the axes that are no options
HOLD_OUT = f"partition.{KEY}"
LONGEST_NAME = 80
CHOSEN = (
    "The clients' validation images choose among the values; only the chosen values' "
    "test scores are shown. --test, or test=True in Python, shows all."
)
ALL_TESTS = (
    "The clients' validation images alone choose among the values. Test scores of all values are "
    "shown, and choose nothing."
)
UNCHOSEN = (
    "These are test scores, and they choose nothing: no value is marked as the best. To choose "
    "one, keep validation images: fedcli partition --val 0.1."
)
LEFT_OUT = (
    "Every row is trained without one site and tested on all of its images; nothing is chosen."
)
LEGEND = (
    "In percent, last round's model. Held out: all images of that site, with the 95 % bootstrap "
    "interval over its patients. The other columns are the dataset's own test part by site, "
    "[number of images]; † marks a site that is too small, or lacks a class or has few images of "
    "one."
)
# a site that is left out of training -> the partition without it
Sites = dict[str, PartitionOptions]
# a manifest -> options of its partition, None of a dataset
Divided = Callable[[Path], PartitionOptions | None]
Grid = dict[str, list[Any]]  # the place of a varied value, such as "set.q" -> its values


class Axes(NamedTuple):
    """The parts of --over.

    Attributes:
        sites: the attribute of sites that are left out in turn; "" for none.
        grid: the texts of the other axes, such as "q=0.5,1,2".
    """

    sites: str
    methods: list[str]
    grid: list[str]


def read_axes(over: Sequence[str]) -> Axes:
    """The parts of the texts of --over. Raises UsageError."""
    texts: dict[str, list[str]] = {KEY: [], METHOD: []}
    grid = []
    for axis in over:
        name, _, values = axis.partition("=")
        name = name.strip().lstrip("-")
        if name in texts:
            texts[name].append(values.strip())
        else:
            grid.append(axis)
    for name, values_of_name in texts.items():
        if len(values_of_name) > 1 or "" in values_of_name:
            example = f"write --over {name}={EXAMPLES[name]}"
            raise UsageError(
                f"--over {name} is given twice or without a value",
                example,
            )
    methods: list[str] = []
    for values in texts[METHOD]:
        methods += [word.strip() for word in values.split(",")]
    return Axes("".join(texts[KEY]), methods, grid)


def leaving_out(
    text: str,
    source: Path,
    options: PartitionOptions | None,
) -> tuple[Path, Sites]:
    """The dataset, and the partition without each of these sites. source: a dataset, or a
    partition, of which these are the options.

    Raises FedcliError, UsageError.
    """
    dataset = source
    common = options
    if common is None:
        common = partition.by_default(PartitionOptions(dataset))
    else:
        dataset = manifest.above(source, "dataset")
    body = manifest.read(dataset, "dataset", whole=True).body
    held_out = sites(text, tuple(common.by), body)
    if len(held_out) < 2:
        hint = f"write --over {KEY}=all, or partition with --hold-out"
        raise UsageError(f"--over {KEY}={text} is one site", hint)
    left_out = Sites()
    for site in held_out:
        hold_out = f"{site.attribute}={site.value}"
        left_out[site.value] = replace(common, dataset=None, hold_out=hold_out)
    return dataset, left_out


def recipe_of(
    methods: Sequence[str],
    source: Path,
    over: list[str],
    left_out: Sequence[str] = (),
    *,
    all_tests: bool = False,
) -> Recipe:
    """The sweep. over: "q=0.5,1,2", once per key. left_out: sites that are left out of training in
    turn.

    all_tests: show test scores of all values, also where validation images choose one.
    Raises UsageError for a key that neither a method nor train has.
    """
    grid = _grid(methods, over, left_out)
    body = manifest.read(source, "partition", "corruption", "dataset", whole=True).body
    dataset = body["name"] if left_out else body["dataset"]
    task = Task.of_body(body)
    is_validated = not left_out and any(client["val"] for client in body["roster"])
    rows = _rows(methods, grid)
    columns = _columns(task, corrupted="kind" in body, validated=is_validated)
    of_chosen = is_validated and not all_tests
    keys = [shape.key_of(option) for option in grid]
    title = f"{', '.join(methods)} on {dataset}"
    if keys:
        title += f", over {' and '.join(keys)}"
    figures = []
    for x in list(grid)[:1]:
        names = _column_names_of_figure(columns, task, of_chosen=of_chosen)
        figures.append(shape.RecipeFigure(title=title, x=x, columns=names))
    note = LEFT_OUT if left_out else UNCHOSEN
    if is_validated:
        note = CHOSEN if of_chosen else ALL_TESTS
    return Recipe.model_construct(
        name="-".join([*methods, *keys]),
        title=title,
        reference=rows[0].name,
        rows=tuple(rows),
        notes=(note,) if grid else (),
        columns=tuple(columns),
        tests_of_chosen=of_chosen,
        chains={"data": shape.Data(title=dataset, dataset=dataset)},
        figures=tuple(figures),
    )


def _grid(
    methods: Sequence[str],
    over: list[str],
    left_out: Sequence[str],
) -> Grid:
    grid = Grid()
    if left_out:
        grid[HOLD_OUT] = list(left_out)
    axis_count = len(grid) + len(over)
    for axis in over:
        for method in methods:
            option, values = _axis(method, axis)
            grid[option] = values
    if not grid and len(methods) < 2:
        hint = "write for example --over q=0.5,1,2 or --over method=fedavg,fedheal"
        raise UsageError("a sweep needs methods, or values to go over", hint)
    if len(grid) != axis_count:
        hint = "give all its values at once: --over q=0.5,1,2"
        raise UsageError("--over names a key twice", hint)
    return grid


def _rows(methods: Sequence[str], grid: Grid) -> list[RecipeRow]:
    """A row for each method and combination of values; of one method each is named after its values
    alone."""
    rows = []
    for method in methods:
        name = method if len(methods) == 1 else resolve(method).label
        plain = RecipeRow(name=name, method=method, data=("data",))
        for combination in product(*grid.values()):
            row = plain
            if grid:
                row = plain.with_values(dict(zip(grid, combination, strict=True)))
            if len(methods) == 1:
                short_name = row.name.removeprefix(f"{method}, ")
                row = row.model_copy(update={"name": short_name})
            rows.append(row)
    return rows


def _columns(
    task: Task,
    *,
    corrupted: bool,
    validated: bool,
) -> list[RecipeColumn]:
    versions = ["clean"]
    if corrupted:
        versions += ["corrupted", "average"]
    columns = []
    for version, metric in product(versions, task.usual):
        name = f"{version} {metric}"
        score = f"versions/{version}/{metric}"
        columns.append(RecipeColumn(name=name, data="data", score=score, marked=False))
    if validated:
        name = f"validation {task.curves[0]}, best round"
        columns.append(RecipeColumn(name=name, data="data", score=ON_VALIDATION, validation=True))
    return columns


def _column_names_of_figure(
    columns: Sequence[RecipeColumn], task: Task, *, of_chosen: bool
) -> tuple[str, ...]:
    """The columns that are drawn: of validation images, and of the main metric where it is shown of
    all rows."""
    names = []
    for column in columns:
        is_main = task.usual[0] in column.name and not of_chosen
        if column.validation or is_main:
            names.append(column.name)
    return tuple(names)


def _axis(method: str, axis: str) -> tuple[str, list[Any]]:
    """("set.q", [0.5, 1, 2]) of "q=0.5,1,2"."""
    key, _, values = axis.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not all(words):
        hint = "write for example --over q=0.5,1,2"
        raise UsageError(f"--over {axis!r} is not KEY=VALUE,VALUE", hint)
    options = resolve(method).settings
    train_flags = flags.flags("train")
    name = key.strip().removeprefix("--")
    if name in options:
        return f"set.{name}", [_value(word) for word in words]
    flag = train_flags.get(name.replace("_", "-"))
    if flag is None or flag.name in ("set", "seed"):
        hint = nearest(name, {*options, *train_flags} - {"set", "seed"})
        if name.startswith("seed"):
            hint = f"write --seeds {values}"
        parts = [option for option in train_flags.values() if option.flag.within]
        names = [f"{part.key} of --{part.flag.within}" for part in parts if part.word == name]
        if names:
            hint = f"write {console.listed(names, 'or')}"
        raise UsageError(f"neither {method} nor train has an option {name!r}", hint)
    return f"train.{name}", [_value(word) for word in _with_parts(words, flag)]


def _with_parts(words: Sequence[str], flag: Option) -> list[str]:
    """The values of a flag: sgd:momentum=0.5 and nesterov, a part of it, are one."""
    names = {part.word for part in flag.parts}
    values: list[str] = []
    for word in words:
        if values and word.partition("=")[0] in names:
            values[-1] += f",{word}"
        else:
            values.append(word)
    return values


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def cells(
    recipe: Recipe,
    common: TrainOptions,
    seeds: tuple[int, ...],
    left_out: Sites,
) -> list[RecipeCell]:
    """A cell for each row and seed. common: what all trainings share. Raises UsageError."""
    methods = list(dict.fromkeys(row.method for row in recipe.rows))
    settings = settings_of(methods, common.set)
    cells = []
    for seed, row in product(seeds, recipe.rows):
        of_row = TrainOptions.from_flags(row.train)
        values = {name: getattr(of_row, name) for name in TrainOptions.fields_of(row.train)}
        values["method"] = row.method
        values["set"] = settings[row.method] | row.settings
        chain: tuple[PartitionOptions, ...] = ()
        if left_out:
            chain = (left_out[row.varied_values[HOLD_OUT]],)
        train = replace(common, **values, seed=seed)
        cells.append(RecipeCell(row.name, "data", "", seed, chain, train, EvaluateOptions()))
    try_training(cells)
    return cells


@dataclass(frozen=True)
class PlannedSweep:
    """A sweep before anything is trained.

    Attributes:
        sources: the data of its cells. data: what all of them are about.
    """

    recipe: Recipe
    cells: list[RecipeCell]
    sources: Sources
    data: Path
    left_out: Sites

    def folder(self, work: Path) -> Path:
        """The folder that its tables go to."""
        commands = [" ".join(cell.train.argv()) for cell in self.cells]
        lines = {"cells": commands}
        identity = manifest.identity(lines, [self.data])
        name = self.recipe.name[:LONGEST_NAME]
        return work / SWEEPS / f"{name}-{identity}"

    def shared(self, work: Path, *, wait: bool = True) -> Shared:
        """Its cells, to be played beside other processes."""
        name = self.folder(work).name if self.recipe.tests_of_chosen else ""
        return Shared(work, self.cells, self.sources, wait=wait, sweep=name)


def planned(
    methods: Sequence[str],
    data: Source | None,
    over: Sequence[str],
    seeds: tuple[int, ...],
    common: TrainOptions,
    work: Path,
    divided: Divided,
    *,
    all_tests: bool = False,
) -> PlannedSweep:
    """The cells of a sweep. common: what all trainings share. all_tests: as of recipe_of().

    Raises FedcliError, UsageError.
    """
    ignored = common.changed(*OF_ONE)
    if ignored:
        raise UsageError(f"--{ignored[0].typed} is of one run", "leave it out of a sweep")
    axes = read_axes(over)
    if methods and axes.methods:
        raise UsageError("the methods are given twice", "leave --over method= out")
    methods = [*methods, *axes.methods]
    if not methods:
        hint = "write for example fedcli train fedavg --over lr=1e-3,3e-3"
        raise UsageError("which method?", hint)
    paths: dict[tuple, Path] = {}  # the data of each chain
    left_out = Sites()
    if axes.sites:
        path = source(data, work, "partition", "dataset")
        path, left_out = leaving_out(axes.sites, path, divided(path))
        for options in left_out.values():
            of_dataset = replace(options, dataset=path, work=work)
            paths[(options,)] = partition.run(of_dataset).path
    else:
        path = partition.for_training(source(data, work, *DATA), work)
        paths[()] = path
        shared_patients.warn(path)
    recipe = recipe_of(
        methods,
        path,
        axes.grid,
        list(left_out),
        all_tests=all_tests,
    )
    of_one_method = replace(common, method=methods[0], set={})
    rounds = resolved(of_one_method, next(iter(paths.values()))).rounds
    every_cell = cells(recipe, replace(common, rounds=rounds), seeds, left_out)
    return PlannedSweep(recipe, every_cell, Sources(paths), path, left_out)


class _ScoredWithout(NamedTuple):
    """A training without a site: its scores on that site, and on the dataset's test part."""

    name: str
    held_out: RunScores
    test_part: RunScores


def held_out_tables(
    dataset: Path, left_out: Sites, outcomes: list[Outcome], workplace: Place
) -> Iterator[table.ReportTable]:
    """Trained without, tested on: a table of each of the shown scores."""
    hold_out = next(str(options.hold_out) for options in left_out.values())
    attribute = hold_out.partition("=")[0]
    runs = []
    for outcome in outcomes:
        if outcome.scores:
            runs.append(_scored_without(outcome, dataset, attribute, workplace))
    members = runs[0].test_part.members(attribute) if runs else {}
    columns = [table.Column("trained"), table.Column("held out", "%")]
    columns += table.heads("interval", "images")
    titles = [f"{site} [{members[site].count}]" if site in members else site for site in left_out]
    columns += table.heads(*titles, unit="%")
    body = manifest.read(dataset, "dataset", whole=True).body
    legend = units.worded(LEGEND, units.noun(body["unit"]))
    for metric in Task.of_body(body).usual:
        rows = [_held_out_row(run, attribute, metric, list(left_out)) for run in runs]
        yield table.ReportTable(f"Trained without, tested on: {metric}", columns, rows, legend)


def _scored_without(
    outcome: Outcome, dataset: Path, attribute: str, workplace: Place
) -> _ScoredWithout:
    options = EvaluateOptions(
        manifest.parent(outcome.path, "run"),
        on=dataset,
        by=[attribute],
        work=workplace.work,
        device=workplace.devices[0],
    )
    name = outcome.cell.name.replace(f"{KEY}=", "without ", 1)
    held_out = RunScores.read(outcome.path)
    return _ScoredWithout(
        name,
        held_out,
        RunScores.read(evaluate.run(options).path),
    )


def _held_out_row(
    run: _ScoredWithout, attribute: str, metric: str, names: list[str]
) -> list[table.Cell]:
    """A line: the score on the site that was left out, and on each site's images of the test
    part."""
    score = run.held_out.versions["clean"][metric]
    interval = table.Cell(_interval(score))
    images = table.Cell(str(score.count))
    row = [
        table.Cell(run.name),
        table.percent(score.last),
        interval,
        images,
    ]
    by_site = run.test_part.groups[attribute]["clean"].get(metric, {})
    for name in names:
        of_site = by_site.get(name)
        if of_site:
            row.append(table.percent(of_site.last, doubtful=bool(of_site.small)))
        else:
            row.append(table.Cell())
    return row


def _interval(score: Score) -> str:
    if score.low is None or score.high is None:
        return table.NONE
    low = percents(score.low, 2)
    high = percents(score.high, 2)
    return f"{low} to {high}"


@dataclass(frozen=True, repr=False)
class Sweep(PlayedTable):
    """Methods, values and seeds trained and scored; see PlayedTable."""


def sweep(
    method: str | Sequence[str] = (),
    data: Source | None = None,
    *,
    over: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 1,
    jobs: int | None = None,
    device: str = "cpu",
    work: Source = WORK,
    test: bool = False,
    **training: Any,
) -> Sweep:
    """Train and score methods, values and seeds side by side on the cores, and show them in one
    table.

    What is there already is not trained again; what fails is told and left out, and the others
    stay. Raises FedcliError, UsageError, where nothing could be trained too.

    Args:
        method: a method, or several, which are compared.
        data: partition or corruption manifest; default: the newest under work.
        over: option of the methods or of train -> its values, such as {"lr": [1e-3, 3e-3]}.
        seeds: how many, counted from 0, or which, such as [0, 1].
        jobs: trainings at a time; default: one per core where networks are small, one per GPU.
        device: cpu, cuda (all GPUs) or cuda:N.
        work: folder that results go to and are looked for in.
        test: show test scores of every value, also where validation images choose one.
        training: options of train for all, by name, such as rounds=20.
    """
    axes = []
    for name, values in (over or {}).items():
        axes.append(f"{name}={','.join(text(value) for value in listed(values))}")
    methods = [str(name) for name in listed(method)]
    work_folder = Path(work)
    common = TrainOptions(None, device=device, work=work, **training)
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    words = [*methods, *axes, *(str(value) for value in training.values())]
    results: list[Results] = []
    with console.watched(), extensions.allowed(words):
        plan = planned(
            methods,
            data,
            axes,
            numbers,
            common,
            work_folder,
            _undivided,
            all_tests=test,
        )
        workplace = Place(work_folder, devices(device, jobs, plan.cells))
        folder = plan.folder(work_folder)
        outcomes = output.play(
            plan.recipe,
            plan.shared(work_folder),
            workplace,
            folder,
            results.append,
        )
    if not any(outcome.scores for outcome in outcomes):
        raise FedcliError(outcomes[0].sentence, outcomes[0].hint)
    return Sweep(folder, results[0], outcomes)


def _undivided(data: Path) -> None:
    if manifest.read(data).kind != "dataset":
        raise UsageError("hold-out takes a dataset here", "give what fedcli.prepare() returned")
