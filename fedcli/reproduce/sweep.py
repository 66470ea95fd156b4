"""A user's own sweep as a recipe, for the command and for Python: methods on one data set, over a grid of their options
and of train's flags.

`--over hold-out=all` trains once without each site: a partition for each site, whose images train nothing and are
tested on. Its table has a row per training and a column per tested site, from two evaluations: on all images of the
held-out site, and on the dataset's test part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console, extensions
from ..common_options import WORK
from ..data import manifest, shared_patients
from ..data.partition.held_out import sites
from ..errors import FedcliError, UsageError, nearest
from ..methods import resolve
from ..metrics import Task
from ..options import Source, text
from ..printed import percents
from ..reporting.table import Cell as Shown
from ..reporting.table import Column as Heading
from ..reporting.table import Table, heads, percent
from ..scores.evaluation_options import EvaluateOptions
from ..scores.scores import Scores
from ..stages import evaluate, partition, shown
from ..stages.call import listed, source
from ..stages.options import PartitionOptions, TrainOptions
from ..stages.train import DATA, resolved
from . import flags, output, shape
from .expand import Cell, try_training
from .jobs import Place, devices
from .recipe import ON_VALIDATION, Column, Recipe, Row
from .record import Results
from .several import OF_ONE, settings_of
from .shared import Outcome, Shared, Sources
from .tables import beside

if TYPE_CHECKING:
    import pandas

KEY, METHOD = "hold-out", "method"
HOLD_OUT = f"partition.{KEY}"
CHOSEN = (
    "The clients' validation images alone choose among the values; test scores are shown of the chosen ones alone. "
    "--test, or test=True in Python, shows those of all."
)
ALL_TESTS = (
    "The clients' validation images alone choose among the values. Test scores of all values are shown, and choose "
    "nothing."
)
UNCHOSEN = (
    "These are test scores, and they choose nothing: no value is marked as the best. To choose one, keep validation "
    "images: fedcli partition --val 0.1."
)
LEFT_OUT = (
    "Every row is trained without one site and tested on all of its images; nothing is chosen."
)
LEGEND = (
    "In percent, last round's model. Held out: all images of "
    "that site, with the 95 % bootstrap interval over its patients. The other columns are the dataset's own test part "
    "by site, [number of images]; † marks a site that is too small, or lacks a class or has few images of one."
)
Sites = dict[
    str, PartitionOptions
]  # a site that is left out of training -> the partition without it
Divided = Callable[
    [Path], PartitionOptions | None
]  # a manifest -> options of its partition, None of a dataset


def asked(over: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The attribute of sites that --over names, "" for none; its methods; and the rest of it. Raises UsageError."""
    parts = [(text.partition("=")[0].strip().lstrip("-"), text) for text in over]
    own = {
        name: [text.partition("=")[2].strip() for key, text in parts if key == name]
        for name in (KEY, METHOD)
    }
    for (name, values), example in zip(own.items(), ("all", "fedavg,fedheal"), strict=True):
        if len(values) > 1 or "" in values:
            raise UsageError(
                f"--over {name} is given twice or without a value", f"write --over {name}={example}"
            )
    methods = [word.strip() for values in own[METHOD] for word in values.split(",")]
    return next(iter(own[KEY]), ""), methods, [text for key, text in parts if key not in own]


def leaving_out(text: str, source: Path, options: PartitionOptions | None) -> tuple[Path, Sites]:
    """The dataset, and the partition without each of these sites. source: a dataset, or a partition, of which these
    are the options.

    Raises FedcliError, UsageError.
    """
    dataset = source if options is None else manifest.above(source, "dataset")
    common = partition.by_default(PartitionOptions(dataset)) if options is None else options
    found = sites(text, tuple(common.by), manifest.read(dataset, "dataset", whole=True).body)
    if len(found) < 2:
        raise UsageError(
            f"--over {KEY}={text} is one site",
            f"write --over {KEY}=all, or partition with --hold-out",
        )
    common = replace(common, dataset=None)
    return dataset, {
        each.value: replace(common, hold_out=f"{each.attribute}={each.value}") for each in found
    }


def recipe_of(
    methods: Sequence[str],
    source: Path,
    over: list[str],
    left_out: Sequence[str] = (),
    *,
    all_tests: bool = False,
) -> Recipe:
    """The sweep. over: "q=0.5,1,2", once per key. left_out: sites that are left out of training in turn.

    all_tests: show test scores of all values, also where validation images choose one.
    Raises UsageError for a key that neither a method nor train has.
    """
    of_sites: dict[str, list[Any]] = {HOLD_OUT: list(left_out)} if left_out else {}
    grid = of_sites | dict(_axis(method, text) for text in over for method in methods)
    if not grid and len(methods) < 2:
        hint = "write for example --over q=0.5,1,2 or --over method=fedavg,fedheal"
        raise UsageError("a sweep needs methods, or values to go over", hint)
    if len(grid) != len(over) + len(of_sites):
        raise UsageError(
            "--over names a key twice", "give all its values at once: --over q=0.5,1,2"
        )
    body = manifest.read(source, "partition", "corruption", "dataset", whole=True).body
    dataset, task = body["name"] if left_out else body["dataset"], Task.of_body(body)
    validated = not left_out and any(client["val"] for client in body["roster"])
    names = methods if len(methods) == 1 else [resolve(method).label for method in methods]
    base = [
        Row(name=name, method=method, data=("data",))
        for name, method in zip(names, methods, strict=True)
    ]
    at = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    rows = tuple(row.at_values(values) if values else row for row in base for values in at)
    if len(methods) == 1:
        rows = tuple(
            row.model_copy(update={"name": row.name.removeprefix(f"{methods[0]}, ")})
            for row in rows
        )
    versions = ("clean", "corrupted", "average") if "kind" in body else ("clean",)
    columns = [
        Column(
            name=f"{version} {metric}",
            data="data",
            score=f"versions/{version}/{metric}",
            marked=False,
        )
        for version in versions
        for metric in task.usual
    ]
    if validated:
        name = f"validation {task.curves[0]}, best round"
        columns.append(Column(name=name, data="data", score=ON_VALIDATION, validation=True))
    of_chosen = validated and not all_tests
    drawn = tuple(
        column.name
        for column in columns
        if column.validation or (task.usual[0] in column.name and not of_chosen)
    )
    keys = [place.partition(".")[2] for place in grid]
    title = f"{', '.join(methods)} on {dataset}" + f", over {' and '.join(keys)}" * bool(keys)
    note = LEFT_OUT if left_out else UNCHOSEN
    if validated:
        note = CHOSEN if of_chosen else ALL_TESTS
    return Recipe.model_construct(
        name="-".join([*methods, *keys]),
        title=title,
        reference=rows[0].name,
        rows=rows,
        notes=(note,) if grid else (),
        columns=tuple(columns),
        tests_of_chosen=of_chosen,
        chains={"data": shape.Data(title=dataset, dataset=dataset)},
        figures=tuple(shape.Figure(title=title, x=x, columns=drawn) for x in [*grid][:1]),
    )


def _axis(method: str, given: str) -> tuple[str, list[Any]]:
    """("set.q", [0.5, 1, 2]) of "q=0.5,1,2"."""
    key, equals, values = given.partition("=")
    if not equals or not all(value.strip() for value in values.split(",")):
        raise UsageError(
            f"--over {given!r} is not KEY=VALUE,VALUE", "write for example --over q=0.5,1,2"
        )
    options, known = resolve(method).settings, flags.flags("train").keys() - {"set", "seed"}
    name = key.strip().removeprefix("--")
    if name not in options and name.replace("_", "-") not in known:
        raise UsageError(
            f"neither {method} nor train has an option {name!r}", nearest(name, {*options, *known})
        )
    place = f"set.{name}" if name in options else f"train.{name}"
    return place, [_value(value.strip()) for value in values.split(",")]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cells(
    recipe: Recipe, common: TrainOptions, seeds: tuple[int, ...], left_out: Sites
) -> list[Cell]:
    """A cell for each row and seed. common: what all trainings share. Raises UsageError."""
    made, shared = (
        [],
        settings_of(list(dict.fromkeys(row.method for row in recipe.rows)), common.set),
    )
    for seed, row in product(seeds, recipe.rows):
        asked = TrainOptions.from_flags(row.train)
        own = {name: getattr(asked, name) for name in row.train}
        train = replace(
            common, **own, method=row.method, set={**shared[row.method], **row.settings}, seed=seed
        )
        chain = (left_out[row.at[HOLD_OUT]],) if left_out else ()
        made.append(Cell(row.name, "data", "", seed, chain, train, EvaluateOptions()))
    try_training(made)
    return made


@dataclass(frozen=True)
class Planned:
    """A sweep before anything is trained.

    Attributes:
        sources: the data of its cells. data: what all of them are about.
    """

    recipe: Recipe
    cells: list[Cell]
    sources: Sources
    data: Path
    left_out: Sites

    def folder(self, work: Path) -> Path:
        """Where its tables go."""
        lines = {"cells": [" ".join(cell.train.argv()) for cell in self.cells]}
        return work / "sweeps" / f"{self.recipe.name[:80]}-{manifest.identity(lines, [self.data])}"


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
) -> Planned:
    """The cells of a sweep. common: what all trainings share. all_tests: as of recipe_of().

    Raises FedcliError, UsageError.
    """
    if ignored := common.changed(*OF_ONE):
        raise UsageError(f"--{ignored[0].typed} is of one run", "leave it out of a sweep")
    held_out, named, grid = asked(over)
    if methods and named:
        raise UsageError("the methods are given twice", "leave --over method= out")
    methods = [*methods, *named]
    if not methods:
        raise UsageError(
            "which method?", "write for example fedcli sweep fedavg --over lr=1e-3,3e-3"
        )
    sources, left_out = Sources(), Sites()
    if held_out:
        found = source(data, work, "partition", "dataset")
        found, left_out = leaving_out(held_out, found, divided(found))
        for each in left_out.values():
            sources[(each,)] = partition.run(replace(each, dataset=found, work=work)).path
    else:
        sources[()] = found = partition.for_training(source(data, work, *DATA), work)
        shared_patients.warn(found)
    recipe = recipe_of(methods, found, list(grid), list(left_out), all_tests=all_tests)
    first = next(path for path in sources.values() if isinstance(path, Path))
    rounds = resolved(replace(common, method=methods[0], set={}), first).rounds
    made = cells(recipe, replace(common, rounds=rounds), seeds, left_out)
    return Planned(recipe, made, sources, found, left_out)


def held_out_tables(
    dataset: Path, left_out: Sites, outcomes: list[Outcome], place: Place
) -> Iterator[Table]:
    """Trained without, tested on: a table of each of the shown scores."""
    attribute = next(str(each.hold_out).partition("=")[0] for each in left_out.values())
    scored = []
    for outcome in (outcome for outcome in outcomes if outcome.scores):
        run = manifest.parent(outcome.path, "run")
        asked = EvaluateOptions(
            run, on=dataset, by=[attribute], work=place.work, device=place.devices[0]
        )
        name = outcome.cell.name.replace(f"{KEY}=", "without ", 1)
        scored.append((name, Scores.read(outcome.path), Scores.read(evaluate.run(asked).path)))
    members = scored[0][2].members(attribute) if scored else {}
    columns = [Heading("trained"), Heading("held out", "%"), *heads("interval", "images")]
    columns += heads(
        *(f"{site} [{members[site].count}]" if site in members else site for site in left_out),
        unit="%",
    )
    for metric in Task.of_body(manifest.read(dataset, "dataset", whole=True).body).usual:
        rows = []
        for name, own, inside in scored:
            score, by_site = (
                own.versions["clean"][metric],
                inside.groups[attribute]["clean"].get(metric, {}),
            )
            low, high = score.low, score.high
            bounds = (
                "-" if low is None or high is None else f"{percents(low, 2)} to {percents(high, 2)}"
            )
            on_sites = [by_site.get(site) for site in left_out]  # images of the dataset's test part
            shown = [
                percent(each.last, doubtful=bool(each.small)) if each else Shown()
                for each in on_sites
            ]
            rows.append(
                [Shown(name), percent(score.last), Shown(bounds), Shown(str(score.count)), *shown]
            )
        yield Table(f"Trained without, tested on: {metric}", columns, rows, LEGEND)


@dataclass(frozen=True, repr=False)
class Sweep(shown.Shown):
    """Methods, values and seeds trained and scored.

    Attributes:
        path: the folder of its results.json, table.md and report.html.
        results: the table, its notes and its failures. outcomes: of each training the path of its scores, or why not.
    """

    path: Path
    results: Results
    outcomes: Sequence[Outcome]

    @cached_property
    def scores(self) -> list[Path]:
        """The scores.json of each training whose test scores are shown, for report() and compare()."""
        return output.with_tests(self.results, self.outcomes)

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row per method or value: row, runs, then the mean and the std over seeds and rounds of each score.

        Scores are shares from 0 to 1, with percent in percent; `attrs["unit"]` says which.
        """
        import pandas

        rows = [
            {"row": row.name, "runs": max(cell.runs for cell in row.cells.values())}
            | {name: cell.mean for name, cell in row.cells.items()}
            | {f"{name} std": cell.std for name, cell in row.cells.items()}
            for row in self.results.rows
        ]
        frame = pandas.DataFrame(rows).set_index(["row", "runs"]).astype(float) / 100
        return shown.in_unit(frame, frame.columns, percent).reset_index()

    def tables(self) -> list[Table]:
        """The numbers on validation images where there are some, and those on test images."""
        return beside.main(self.results)

    def words(self) -> list[str]:
        """Findings of its tests, notes, and where its files are."""
        return [*beside.findings(self.results), *self.results.notes, f"{self.path}/report.html"]


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
    """Train and score methods, values and seeds side by side on the cores, and show them in one table.

    What is there already is not trained again; what fails is told and left out, and the others stay.
    Raises FedcliError, UsageError, where nothing could be trained too.

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
    asked_for = [
        f"{name}={','.join(map(text, listed(values)))}" for name, values in (over or {}).items()
    ]
    methods = [str(each) for each in listed(method)]
    folder, common = Path(work), TrainOptions(None, device=device, work=work, **training)
    with (
        console.watched(),
        extensions.allowed([*methods, *asked_for, *map(str, training.values())]),
    ):
        chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
        wanted = planned(
            methods, data, asked_for, chosen, common, folder, _undivided, all_tests=test
        )
        place = Place(folder, devices(device, jobs, wanted.cells))
        known: list[Results] = []
        path = wanted.folder(folder)
        outcomes = output.play(
            wanted.recipe, Shared(folder, wanted.cells, wanted.sources), place, path, known.append
        )
    if not any(outcome.scores for outcome in outcomes):
        raise FedcliError(outcomes[0].sentence, outcomes[0].hint)
    return Sweep(path, known[0], outcomes)


def _undivided(data: Path) -> None:
    if manifest.read(data).kind != "dataset":
        raise UsageError("hold-out takes a dataset here", "give what fedcli.prepare() returned")
