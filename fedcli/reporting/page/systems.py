"""The systems that a page compares, with the manifests, curves and data behind them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ... import console
from ...data import manifest
from ...figures import series
from ...figures import system as figures
from ..rows import Row


@dataclass(frozen=True)
class System(figures.System):
    """Runs that differ in the seed alone: a row of the report."""

    row: Row = field(kw_only=True)

    @cached_property
    def runs(self) -> list[Path]:
        """The run.json of each run that is there."""
        above = [manifest.parent(path, "run") for path in self.row.paths]
        return [path for path in above if path]

    @cached_property
    def records(self) -> list[series.Record]:
        return [series.read(run.parent) for run in self.runs]

    @property
    def corrupted_clients(self) -> list[str]:
        return (self.scores.corruption or {}).get("clients", [])

    def stage(self, kind: str) -> Path | None:
        """The manifest of the data that the first run was trained on."""
        own = manifest.parent(self.runs[0], "corruption", "partition") if self.runs else None
        if not own:
            return None
        return own if manifest.read(own).kind == kind else manifest.parent(own, kind)


def systems(rows: Sequence[Row]) -> list[System]:
    """One per row that is no view."""
    own = [row for row in rows if not row.is_view]
    return [
        System(
            place, replace(row, view="").name, row.paths, row.qualities, row.scored[0].which * (row.runs > 1), row=row
        )
        for place, row in enumerate(own)
    ]


def without_counts(rows: Sequence[Row]) -> list[Row]:
    """Rows whose names say how many seeds they have only where that is not the same for all: the page says it first."""
    return [replace(row, names_runs=len({other.runs for other in rows}) > 1) for row in rows]


def sentence(compared: Sequence[System]) -> str:
    """The comparison in one sentence."""
    several = len(compared) > 1
    what = f"{len(compared)} systems" if several else compared[0].scores.label
    datasets = list(dict.fromkeys(system.scores.dataset for system in compared))
    seeds = sorted({system.row.runs for system in compared})
    each = " each" if several else ""
    repeated = f" with {console.counted(seeds[-1], 'seed', 'seeds')}{each}" if seeds == seeds[-1:] else ""
    clients = _span("client", [system.scores.roster_size for system in compared])
    return (
        f"{what} trained on {' and '.join(datasets)} by {clients} "
        f"for {_span('round', [system.scores.rounds for system in compared])}{repeated}, "
        f"{_corrupted(compared)}."
    )


def facts(compared: Sequence[System]) -> list[tuple[str, str]]:
    """The numbers a reader looks for first; of data and model those that all systems share."""
    shared = {
        "Classes": {len(system.scores.classes) for system in compared},
        "Test images": {system.scores.images for system in compared},
        "Clients": {system.scores.roster_size for system in compared},
        "Rounds": {system.scores.rounds for system in compared},
        "Runs": {sum(system.row.runs for system in compared)},
        "Model": {system.scores.model.get("name") for system in compared},
        "Trained parameters": {system.scores.model.get("trainable") for system in compared},
    }
    alike = {name: values.pop() for name, values in shared.items() if len(values) == 1}
    return [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in alike.items() if value]


def _span(noun: str, numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    count = f"{low}" if low == high else f"{low} to {high}"
    return f"{count} {noun}{'s' * (high != 1)}" if noun else count


def _corrupted(compared: Sequence[System]) -> str:
    kinds = [system.scores.corruption for system in compared]
    about = kinds[0]
    if not any(kinds):
        return "on images as they are"
    if about is None or any(kind != about for kind in kinds):
        return "on data that are not the same for all (see the notes)"
    who = console.counted(len(about["clients"]), "client", "clients")
    return (
        f"with {about['kind'].replace('-', ' ')} of severity {about['severity']} on {who} and on a copy of the test set"
    )
