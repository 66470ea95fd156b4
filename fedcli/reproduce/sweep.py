"""A user's own sweep as a recipe: one method on one data set, over a grid of its options and of train's flags."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from ..data import manifest
from ..errors import UsageError, nearest
from ..methods import resolve
from ..metrics import Task
from ..stages.evaluation_options import EvaluateOptions
from ..stages.options import TrainOptions
from . import flags
from .expand import Cell, try_training
from .leave_one_out import Plan
from .model import Chain, Column, Recipe, Row
from .recipe import ON_VALIDATION
from .shape import Figure

HOLD_OUT = "partition.hold-out"
CHOSEN = (
    "The best is chosen by balanced accuracy on the clients' validation images alone; the test set chooses nothing."
)
UNCHOSEN = (
    "Nothing is marked as best: the partition has no validation images (fedcli partition --val 0.1), and the test set "
    "chooses nothing."
)
LEFT_OUT = "Every row is trained without one site and tested on all of its images; nothing is chosen."


def recipe_of(method: str, source: Path, over: list[str], left_out: Plan | None = None) -> Recipe:
    """The sweep. over: "q=0.5,1,2", once per key. left_out: sites that are left out of training in turn.

    Raises UsageError for a key that neither method nor train has.
    """
    sites: dict[str, list[Any]] = {HOLD_OUT: list(left_out.values)} if left_out else {}
    grid = sites | dict(_axis(method, text) for text in over)
    if not grid:
        raise UsageError("a sweep needs values to go over", "write for example --over q=0.5,1,2")
    if len(grid) < len(over) + len(sites):
        raise UsageError("--over names a key twice", "give all its values at once: --over q=0.5,1,2")
    body = manifest.read(source, "partition", "corruption", "dataset").body
    dataset = body["name"] if left_out else body["dataset"]
    validated = not left_out and any(client["val"] for client in body["roster"])
    note = LEFT_OUT if left_out else CHOSEN if validated else UNCHOSEN
    base = Row(name=method, method=method, data=("data",))
    varied = (base.at_values(dict(zip(grid, values, strict=True))) for values in product(*grid.values()))
    rows = tuple(row.model_copy(update={"name": row.name.removeprefix(f"{method}, ")}) for row in varied)
    versions = ("clean", "corrupted", "average") if "kind" in body else ("clean",)
    columns = [
        Column(name=f"{version} {metric}", data="data", score=f"versions/{version}/{metric}", marked=False)
        for version in versions
        for metric in Task.of_body(body).usual
    ]
    if validated:
        name = f"validation {Task.of_body(body).curves[0]}, best round"
        columns.append(Column(name=name, data="data", score=ON_VALIDATION, validation=True))
    keys = " and ".join(place.partition(".")[2] for place in grid)
    title = f"{method} on {dataset}, over {keys}"
    figure = Figure(
        title=title, x=next(iter(grid)), columns=tuple(c.name for c in columns if Task.of_body(body).usual[0] in c.name)
    )
    return Recipe(
        name=f"{method}-{keys.replace(' and ', '-')}", title=title, notes=(note,), reference=rows[0].name,
        chains={"data": Chain(name="data", title=dataset, dataset=dataset)}, rows=rows, columns=tuple(columns),
        figures=(figure,),
    )  # fmt: skip


def cells(recipe: Recipe, common: TrainOptions, seeds: tuple[int, ...], left_out: Plan | None = None) -> list[Cell]:
    """A cell for each row and seed. common: what all trainings share. Raises UsageError."""
    made = []
    for seed, row in product(seeds, recipe.rows):
        asked = TrainOptions.from_flags(row.train)
        own = {name: getattr(asked, name) for name in row.train}
        train = replace(common, **own, method=row.method, set={**common.set, **row.settings}, seed=seed)
        chain = left_out.chain(row.at[HOLD_OUT]) if left_out else ()
        made.append(Cell(row.name, "data", "", seed, chain, train, EvaluateOptions()))
    for cell in made:
        try_training(cell)
    return made


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
