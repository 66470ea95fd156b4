"""A sweep from what was asked to its table, for the command and for Python."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console, extensions
from ..common_options import WORK
from ..data import manifest
from ..errors import FedcliError, UsageError
from ..options import Source, text
from ..reporting.table import Table
from ..stages.call import listed, source
from ..stages.options import PartitionOptions, TrainOptions
from ..stages.partition import for_training
from ..stages.shown import Shown, in_unit
from ..stages.train import DATA, resolved
from . import output
from .expand import Cell
from .jobs import Place, devices
from .recipe import Recipe
from .record import Results
from .several import OF_ONE
from .shared import Outcome, Shared, Sources
from .sweep import Plan, asked, cells, plan, recipe_of
from .tables import beside

if TYPE_CHECKING:
    import pandas

Divided = Callable[[Path], PartitionOptions | None]  # a manifest -> options of its partition, None of a dataset


@dataclass(frozen=True)
class Planned:
    """A sweep before anything is trained.

    Attributes:
        sources: the data of its cells. data: what all of them are about. left_out: of a sweep over sites.
    """

    recipe: Recipe
    cells: list[Cell]
    sources: Sources
    data: Path
    left_out: Plan | None

    def folder(self, work: Path) -> Path:
        """Where its tables go."""
        lines = {"cells": [" ".join(cell.train.argv()) for cell in self.cells]}
        return work / "sweeps" / f"{self.recipe.name[:80]}-{manifest.identity(lines, [self.data])}"


def planned(
    methods: Sequence[str], data: Source | None, over: Sequence[str], seeds: tuple[int, ...], common: TrainOptions,
    work: Path, divided: Divided,
) -> Planned:  # fmt: skip
    """The cells of a sweep. common: what all trainings share. Raises FedcliError, UsageError."""
    if ignored := common.changed(*OF_ONE):
        raise UsageError(f"--{ignored[0].typed} is of one run", "leave it out of a sweep")
    sites, named, grid = asked(over)
    if methods and named:
        raise UsageError("the methods are given twice", "leave --over method= out")
    methods = [*methods, *named]
    if not methods:
        raise UsageError("which method?", "write for example fedcli sweep fedavg --over lr=1e-3,3e-3")
    if sites:
        found = source(data, work, "partition", "dataset")
        left_out = plan(sites, found, divided(found))
        found, sources = left_out.dataset, left_out.make(work)
    else:
        found, left_out = for_training(source(data, work, *DATA), work), None
        sources = {(): found}
    recipe = recipe_of(methods, found, list(grid), left_out)
    first = next(path for path in sources.values() if isinstance(path, Path))
    rounds = resolved(replace(common, method=methods[0], set={}), first).rounds
    made = cells(recipe, replace(common, rounds=rounds), seeds, left_out)
    return Planned(recipe, made, sources, found, left_out)


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
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
        """The scores.json of each training that has ended well, for report() and compare()."""
        return [outcome.scores for outcome in self.outcomes if outcome.scores]

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
        return in_unit(frame, frame.columns, percent).reset_index()

    def tables(self) -> list[Table]:
        """Our numbers, and those on validation images where there are some."""
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
        training: options of train for all, by name, such as rounds=20.
    """
    asked_for = [f"{name}={','.join(map(text, listed(values)))}" for name, values in (over or {}).items()]
    methods = [str(each) for each in listed(method)]
    folder, common = Path(work), TrainOptions(None, device=device, work=work, **training)
    with console.watched(), extensions.allowed([*methods, *asked_for, *map(str, training.values())]):
        chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
        wanted = planned(methods, data, asked_for, chosen, common, folder, _undivided)
        place = Place(folder, devices(device, jobs, wanted.cells))
        known: list[Results] = []
        path = wanted.folder(folder)
        outcomes = output.play(wanted.recipe, Shared(folder, wanted.cells, wanted.sources), place, path, known.append)
    if not any(outcome.scores for outcome in outcomes):
        raise FedcliError(outcomes[0].sentence, outcomes[0].hint)
    return Sweep(path, known[0], outcomes)


def _undivided(data: Path) -> None:
    if manifest.read(data).kind != "dataset":
        raise UsageError("hold-out takes a dataset here", "give what fedcli.prepare() returned")
