"""Leave one site out: a partition for each site, whose images train nothing and are tested on.

`fedcli sweep METHOD DATA --over hold-out=all` trains once without each site. Its table has a row per training and a
column per tested site, from two evaluations: on all images of the held-out site, and on the dataset's test part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..data import manifest
from ..data.partition.held_out import HeldOut, sites
from ..errors import UsageError
from ..metrics import Task
from ..reporting.table import Cell, Column, Table, percent
from ..scores.scores import Scores
from ..scores.table import Score
from ..stages import evaluate, partition
from ..stages.evaluation_options import EvaluateOptions
from ..stages.options import PartitionOptions
from .jobs import Outcome

KEY = "hold-out"
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
    sites: list[HeldOut]

    @property
    def values(self) -> list[str]:
        return [site.value for site in self.sites]

    def chain(self, value: str) -> tuple[PartitionOptions]:
        """The partition without a site."""
        return (replace(self.options, hold_out=f"{self.sites[0].attribute}={value}"),)

    def make(self, work: Path) -> dict[tuple, Path | Outcome]:
        """The manifest of each partition, by the chain of the cells that read it."""
        chains = [self.chain(value) for value in self.values]
        return {chain: partition.run(replace(chain[0], dataset=self.dataset, work=work)).path for chain in chains}


def asked(over: Sequence[str]) -> tuple[str, list[str]]:
    """The attribute of sites that --over names, "" where nothing, and the rest of it. Raises UsageError."""
    parts = [(text.partition("=")[0].strip().lstrip("-"), text) for text in over]
    of_sites = [text.partition("=")[2].strip() for key, text in parts if key == KEY]
    if len(of_sites) > 1 or "" in of_sites:
        raise UsageError(f"--over {KEY} is given twice or without a value", f"write --over {KEY}=all")
    return next(iter(of_sites), ""), [text for key, text in parts if key != KEY]


def plan(text: str, source: Path, options: PartitionOptions | None) -> Plan:
    """The plan of a sweep over these sites. source: a dataset, or a partition, of which these are the options.

    Raises FedcliError, UsageError.
    """
    dataset = source if options is None else manifest.above(source, "dataset")
    common = partition.by_default(PartitionOptions(dataset)) if options is None else options
    values = sites(text, tuple(common.by), manifest.read(dataset, "dataset").body)
    if len(values) < 2:
        raise UsageError(f"--over {KEY}={text} is one site", f"write --over {KEY}=all, or partition with --hold-out")
    return Plan(dataset, replace(common, dataset=None), values)


def tables(plan: Plan, outcomes: list[Outcome], work: Path, device: str) -> Iterator[Table]:
    """Trained without, tested on: a table of each of the shown scores."""
    done = [outcome for outcome in outcomes if outcome.scores]
    own = {outcome.cell.name: Scores.read(outcome.scores) for outcome in done if outcome.scores}
    inside = {outcome.cell.name: Scores.read(_on_dataset(plan, outcome, work, device)) for outcome in done}
    attribute = plan.sites[0].attribute
    for metric in Task.of_body(manifest.read(plan.dataset, "dataset").body).usual:
        rows = []
        for name, scores in own.items():
            column = inside[name].groups[attribute]["clean"].get(metric, {})
            rows.append(
                [
                    Cell(name.replace(f"{KEY}=", "without ", 1)),
                    *_held_out(scores, metric),
                    *(_site(column.get(site)) for site in plan.values),
                ]
            )
        first = next(iter(inside.values())).members(attribute) if inside else {}
        heads = [f"{site} [{first[site].count}]" if site in first else site for site in plan.values]
        columns = [Column("trained"), Column("held out", "%"), Column("interval"), Column("images")]
        yield Table(
            f"Trained without, tested on: {metric}", [*columns, *(Column(head, "%") for head in heads)], rows, LEGEND
        )


def _on_dataset(plan: Plan, outcome: Outcome, work: Path, device: str) -> Path:
    run = manifest.parent(outcome.scores, "run") if outcome.scores else None
    options = EvaluateOptions(run, on=plan.dataset, by=[plan.sites[0].attribute], work=work, device=device)
    return evaluate.run(options).path


def _held_out(scores: Scores, metric: str) -> list[Cell]:
    """Score on all images of the held-out site, its interval, and their number."""
    score = scores.versions["clean"][metric]
    low, high = score.low, score.high
    bounds = "-" if low is None or high is None else f"{100 * low:.2f} to {100 * high:.2f}"
    return [percent(score.last), Cell(bounds), Cell(str(score.count))]


def _site(score: Score | None) -> Cell:
    return percent(score.last, doubtful=bool(score.small)) if score else Cell()
