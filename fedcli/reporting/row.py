"""A system as the row of a report: its runs, all of their numbers, and what it is called."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ..comparison.cautions import unreliable_groups
from ..comparison.systems import BEST
from ..data import manifest, shared_patients
from ..figures.system import System
from ..scores import shots
from ..scores.scores import Scores
from ..scores.table import Where
from .columns import POOLED, Value, joined
from .table import Cell, percent

WHOLE = "clients have no test images of their own, so their own models are scored on all of them"


@dataclass(frozen=True, kw_only=True)
class Row(System):
    """A system, or one view of it.

    Attributes:
        over: over what runs spread: "pooled" over all rounds, or "runs".
        cells: column -> value. heads: column -> whose number it is. doubtful: the columns that a small group decides.
        view: "" where the method is shown images in one way only.
        minutes: how long each run trained on average. left_out: columns that are not known of the best round.
        names_runs: whether the name says of how many runs it is. short: the label without what all rows share.
    """

    over: str = POOLED
    cells: dict[str, Value] = field(default_factory=dict)
    heads: Mapping[str, Where] = field(default_factory=dict)
    doubtful: Sequence[str] = ()
    view: str = ""
    is_view: bool = False
    minutes: float | None = None
    bytes: dict[str, float] | None = None
    left_out: Sequence[str] = ()
    names_runs: bool = True
    short: str = ""

    def value(self, where: Where) -> Value:
        """A number of its runs as one."""
        return joined([known.get(where) for known in self.known], self.over)

    def cell(self, where: Where, *, doubtful: bool = False) -> Cell:
        value = self.value(where)
        return percent(value.mean, value.std, doubtful=doubtful)

    @property
    def runs(self) -> int:
        return len(self.scored)

    @property
    def spread(self) -> str | None:
        """Over what its numbers spread; None of a single run."""
        return self.over if self.runs > 1 else None

    @property
    def seeds(self) -> list[Any]:
        return [run.seed for run in self.scored]

    @property
    def drawn(self) -> str:
        """The kind of its runs: "folds" where each has one of its own, else "seeds"."""
        return (
            "folds"
            if self.runs > 1 and len({run.fold for run in self.scored}) == self.runs
            else "seeds"
        )

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of the run and its data, but for the method's settings."""
        scores = self.scores
        asked = {"dataset": scores.dataset} | (
            {"model": scores.model["name"]} if scores.model else {}
        )
        asked |= {"tested on": scores.external.dataset} if scores.external else {}
        for kind, stage in scores.data.items():
            asked |= {
                f"{kind} {key}": value for key, value in (stage.options if stage else {}).items()
            }
        return asked | scores.options | ({"seed": self.seeds} if self.runs > 1 else {})

    @cached_property
    def data(self) -> dict[str, Any]:
        """Of each stage the hash, several where the runs' data were drawn anew; None where no run has the stage."""
        hashes = {
            kind: sorted({sha for run in self.scored if (sha := run.sha256(kind))})
            for kind in self.scores.data
        }
        return {
            kind: shas if len(shas) > 1 else next(iter(shas), None) for kind, shas in hashes.items()
        }

    @property
    def attributes(self) -> list[str]:
        return list(self.scores.groups)

    @property
    def warning(self) -> str:
        """A run has one for all its views."""
        warnings = []
        for scores in self.each:
            whole = scores.personal and all(
                client.part == "whole" for client in scores.clients.values()
            )
            warnings += [scores.warning, WHOLE if whole else ""]
        return "" if self.is_view else "; ".join(filter(None, dict.fromkeys(warnings)))

    @cached_property
    def small_groups(self) -> list[str]:
        return list(
            dict.fromkeys(text for scores in self.each for text in unreliable_groups(scores))
        )

    @property
    def shared_patients(self) -> list[str]:
        """A sentence on patients of test images who also have training images, for each number of them."""
        texts = [shared_patients.sentence(scores.shared_patients) for scores in self.each]
        return list(dict.fromkeys(filter(None, texts)))

    @property
    def shot_groups(self) -> list[str]:
        named: list[tuple[str, Any]] = [
            (run.scores.dataset, run.scores.shots) for run in self.scored if "shots" in run.options
        ]
        return list(
            dict.fromkeys(
                f"{dataset}: {shots.described(known)}" for dataset, known in named if known
            )
        )

    @cached_property
    def chosen(self) -> list[dict[str, Any]]:
        """The round that validation chose of each run that kept one, where rows are of these rounds."""
        runs = self.scored if self.at == BEST and not self.is_view else []
        return [
            {"seed": run.seed, "which": run.which} | vars(kept)
            for run in runs
            if (kept := run.scores.best)
        ]

    @property
    def name(self) -> str:
        """The label, and in brackets the view, how many seeds and the options in which the row differs."""
        return f"{self.named('' if self.mark else self.differs)} {self.mark}".rstrip()

    def named(self, differs: str) -> str:
        """The label, and in brackets the view, how many seeds and these options."""
        draws = f"{self.runs} {self.drawn}" if self.runs > 1 and self.names_runs else ""
        inside = ", ".join(filter(None, [self.view, draws, differs]))
        return f"{self.label} ({inside})" if inside else self.label

    @property
    def label(self) -> str:
        """The method's label, without what all rows share where that is known."""
        return self.short or self.scores.name

    @cached_property
    def comparable(self) -> str:
        """The facts that rows must share for one of them to be the best: data, test images and rounds."""
        own = self.scores.external and self.scores.external.sha256
        return json.dumps([self.scores.rounds, self.data, own], sort_keys=True)

    @cached_property
    def run_files(self) -> list[Path]:
        """The run.json of each run that is there."""
        return [path for scores in self.paths if (path := manifest.parent(scores, "run"))]

    def stage(self, kind: str) -> Path | None:
        """The manifest of the data that the first run was trained on."""
        own = (
            manifest.parent(self.run_files[0], "corruption", "partition")
            if self.run_files
            else None
        )
        return own if not own or manifest.read(own).kind == kind else manifest.parent(own, kind)


Systems = Sequence[Row]


def scores_of(rows: Systems) -> Iterator[Scores]:
    """The scores of every run of some systems."""
    return chain.from_iterable(row.each for row in rows)
