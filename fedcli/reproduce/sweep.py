"""A user's own sweep as a recipe: methods on one data set, over a grid of their options and of train's flags.

`--over hold-out=all` trains once without each site: a partition for each site, whose images train nothing and are
tested on. Its table has a row per training and a column per tested site, from two evaluations: on all images of the
held-out site, and on the dataset's test part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ..data import manifest
from ..data.partition.held_out import Site, sites
from ..errors import UsageError, nearest
from ..methods import resolve
from ..metrics import Task
from ..reporting.table import Cell as Shown
from ..reporting.table import Column as Heading
from ..reporting.table import Table, heads, percent
from ..scores.scores import Scores
from ..stages import evaluate, partition
from ..stages.evaluation_options import EvaluateOptions
from ..stages.options import PartitionOptions, TrainOptions
from . import flags, shape
from .expand import Cell, try_training
from .recipe import ON_VALIDATION, Column, Recipe, Row
from .several import settings_of
from .shared import Outcome, Sources

KEY, METHOD = "hold-out", "method"
HOLD_OUT = f"partition.{KEY}"
CHOSEN = (
    "The best is chosen by balanced accuracy on the clients' validation images alone; the test set chooses nothing."
)
UNCHOSEN = (
    "Nothing is marked as best: the partition has no validation images (fedcli partition --val 0.1), and the test set "
    "chooses nothing."
)
LEFT_OUT = "Every row is trained without one site and tested on all of its images; nothing is chosen."
LEGEND = (
    "In percent, last round's model. Held out: all images of "
    "that site, with the 95 % bootstrap interval over its patients. The other columns are the dataset's own test part "
    "by site, [number of images]; † marks a site that is too small or lacks a class."
)


@dataclass(frozen=True)
class Plan:
    """Facts that a sweep over sites needs.

    Attributes:
        dataset: its manifest.
        options: of the partition, without a site.
        sites: those that are held out in turn.
    """

    dataset: Path
    options: PartitionOptions
    sites: list[Site]

    @property
    def values(self) -> list[str]:
        return [site.value for site in self.sites]

    def chain(self, value: str) -> tuple[PartitionOptions]:
        """The partition without a site."""
        return (replace(self.options, hold_out=f"{self.sites[0].attribute}={value}"),)

    def make(self, work: Path) -> Sources:
        """The manifest of each partition, by the chain of the cells that read it."""
        chains = [self.chain(value) for value in self.values]
        return {chain: partition.run(replace(chain[0], dataset=self.dataset, work=work)).path for chain in chains}


def asked(over: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The attribute of sites that --over names, "" for none; its methods; and the rest of it. Raises UsageError."""
    parts = [(text.partition("=")[0].strip().lstrip("-"), text) for text in over]
    own = {name: [text.partition("=")[2].strip() for key, text in parts if key == name] for name in (KEY, METHOD)}
    for (name, values), example in zip(own.items(), ("all", "fedavg,fedheal"), strict=True):
        if len(values) > 1 or "" in values:
            raise UsageError(f"--over {name} is given twice or without a value", f"write --over {name}={example}")
    methods = [word.strip() for values in own[METHOD] for word in values.split(",")]
    return next(iter(own[KEY]), ""), methods, [text for key, text in parts if key not in own]


def plan(text: str, source: Path, options: PartitionOptions | None) -> Plan:
    """The plan of a sweep over these sites. source: a dataset, or a partition, of which these are the options.

    Raises FedcliError, UsageError.
    """
    dataset = manifest.above(source, "dataset")
    common = partition.by_default(PartitionOptions(dataset)) if options is None else options
    values = sites(text, tuple(common.by), manifest.read(dataset, "dataset").body)
    if len(values) < 2:
        raise UsageError(f"--over {KEY}={text} is one site", f"write --over {KEY}=all, or partition with --hold-out")
    return Plan(dataset, replace(common, dataset=None), values)


def recipe_of(methods: Sequence[str], source: Path, over: list[str], left_out: Plan | None = None) -> Recipe:
    """The sweep. over: "q=0.5,1,2", once per key. left_out: sites that are left out of training in turn.

    Raises UsageError for a key that neither a method nor train has.
    """
    of_sites: dict[str, list[Any]] = {HOLD_OUT: list(left_out.values)} if left_out else {}
    grid = of_sites | dict(_axis(method, text) for text in over for method in methods)
    if not grid and len(methods) < 2:
        hint = "write for example --over q=0.5,1,2 or --over method=fedavg,fedheal"
        raise UsageError("a sweep needs methods, or values to go over", hint)
    if len(grid) != len(over) + len(of_sites):
        raise UsageError("--over names a key twice", "give all its values at once: --over q=0.5,1,2")
    body = manifest.read(source, "partition", "corruption", "dataset").body
    dataset, task = body["name"] if left_out else body["dataset"], Task.of_body(body)
    validated = not left_out and any(client["val"] for client in body["roster"])
    names = methods if len(methods) == 1 else [resolve(method).label for method in methods]
    base = [Row(name=name, method=method, data=("data",)) for name, method in zip(names, methods, strict=True)]
    at = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    rows = tuple(row.at_values(values) if values else row for row in base for values in at)
    if len(methods) == 1:
        rows = tuple(row.model_copy(update={"name": row.name.removeprefix(f"{methods[0]}, ")}) for row in rows)
    versions = ("clean", "corrupted", "average") if "kind" in body else ("clean",)
    columns = [
        Column(name=f"{version} {metric}", data="data", score=f"versions/{version}/{metric}", marked=False)
        for version in versions
        for metric in task.usual
    ]
    if validated:
        name = f"validation {task.curves[0]}, best round"
        columns.append(Column(name=name, data="data", score=ON_VALIDATION, validation=True))
    drawn = tuple(column.name for column in columns if task.usual[0] in column.name)
    keys = [place.partition(".")[2] for place in grid]
    title = f"{', '.join(methods)} on {dataset}" + f", over {' and '.join(keys)}" * bool(keys)
    notes = (LEFT_OUT if left_out else CHOSEN if validated else UNCHOSEN,) if grid else ()
    return Recipe.model_construct(
        name="-".join([*methods, *keys]), title=title, reference=rows[0].name, rows=rows, notes=notes,
        columns=tuple(columns), chains={"data": shape.Data(title=dataset, dataset=dataset)},
        figures=tuple(shape.Figure(title=title, x=x, columns=drawn) for x in [*grid][:1]),
    )  # fmt: skip


def _axis(method: str, given: str) -> tuple[str, list[Any]]:
    """("set.q", [0.5, 1, 2]) of "q=0.5,1,2"."""
    key, equals, values = given.partition("=")
    if not equals or not all(value.strip() for value in values.split(",")):
        raise UsageError(f"--over {given!r} is not KEY=VALUE,VALUE", "write for example --over q=0.5,1,2")
    options, known = resolve(method).settings, flags.flags("train").keys() - {"set", "seed"}
    name = key.strip().removeprefix("--")
    if name not in options and name.replace("_", "-") not in known:
        raise UsageError(f"neither {method} nor train has an option {name!r}", nearest(name, {*options, *known}))
    place = f"set.{name}" if name in options else f"train.{name}"
    return place, [_value(value.strip()) for value in values.split(",")]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def cells(recipe: Recipe, common: TrainOptions, seeds: tuple[int, ...], left_out: Plan | None = None) -> list[Cell]:
    """A cell for each row and seed. common: what all trainings share. Raises UsageError."""
    made, shared = [], settings_of(list(dict.fromkeys(row.method for row in recipe.rows)), common.set)
    for seed, row in product(seeds, recipe.rows):
        asked = TrainOptions.from_flags(row.train)
        own = {name: getattr(asked, name) for name in row.train}
        train = replace(common, **own, method=row.method, set={**shared[row.method], **row.settings}, seed=seed)
        chain = left_out.chain(row.at[HOLD_OUT]) if left_out else ()
        made.append(Cell(row.name, "data", "", seed, chain, train, EvaluateOptions()))
    try_training(made)
    return made


def tables(plan: Plan, outcomes: list[Outcome], work: Path, device: str) -> Iterator[Table]:
    """Trained without, tested on: a table of each of the shown scores."""
    attribute = plan.sites[0].attribute
    scored = []
    for outcome in (outcome for outcome in outcomes if outcome.scores):
        run = manifest.parent(outcome.path, "run")
        of_all = evaluate.run(EvaluateOptions(run, on=plan.dataset, by=[attribute], work=work, device=device)).path
        name = outcome.cell.name.replace(f"{KEY}=", "without ", 1)
        scored.append((name, Scores.read(outcome.path), Scores.read(of_all)))
    members = scored[0][2].members(attribute) if scored else {}
    columns = [Heading("trained"), Heading("held out", "%"), *heads("interval", "images")]
    columns += heads(
        *(f"{site} [{members[site].count}]" if site in members else site for site in plan.values), unit="%"
    )
    for metric in Task.of_body(manifest.read(plan.dataset, "dataset").body).usual:
        rows = []
        for name, own, inside in scored:
            score, by_site = own.versions["clean"][metric], inside.groups[attribute]["clean"].get(metric, {})
            low, high = score.low, score.high
            bounds = "-" if low is None or high is None else f"{100 * low:.2f} to {100 * high:.2f}"
            on_sites = [by_site.get(site) for site in plan.values]  # images of the dataset's test part
            shown = [percent(each.last, doubtful=bool(each.small)) if each else Shown() for each in on_sites]
            rows.append([Shown(name), percent(score.last), Shown(bounds), Shown(str(score.count)), *shown])
        yield Table(f"Trained without, tested on: {metric}", columns, rows, LEGEND)
