"""A recipe as it is run: its chains, rows and columns by name, rows varied, defaults filled in.

What a recipe file may hold stands in shape.py; here only what follows from it is added.
"""

from dataclasses import dataclass, field
from typing import Any

from . import shape
from .checks import Flags
from .shape import Figure

BEST_OTHER = "*"


class Chain(shape.Data):
    """The stages that make one data set of the table.

    `lists` replace prepare and partition by the authors' published ones, with what a row adds to them, where the user
    brings all files that they name. `train` and `settings` are of the rows on it that leave them open, settings where
    their method has them.
    """

    name: shape.Word


class Row(shape.Row):
    """One line of the table: a method and what it has of its own.

    Attributes:
        at: where a varied row stands: place -> value, such as {"set.q": 0.5}.
        stem: the name of the row that was varied.
    """

    corrupt: shape.Corrupt = {}
    at: Flags = {}
    stem: str = ""

    def place(self, score: str) -> str:
        """Where in the scores a column's number of this row stands."""
        if not self.scores_of or not score.startswith(("versions/", "groups/")):
            return score
        return f"personal/{self.scores_of}/{score.removeprefix('versions/')}"

    def at_values(self, at: Flags) -> "Row":
        """This row with some of its values changed, named after them."""
        stages = {"set": "settings"} | {stage: stage for stage in ("prepare", "partition", "corrupt", "train")}
        parts = {field: dict(getattr(self, field)) for field in stages.values()}
        for place, value in at.items():
            stage, _, key = place.partition(".")
            parts[stages[stage]][key if stage == "set" else key.replace("-", "_")] = value
        named = ", ".join(f"{place.partition('.')[2]}={value}" for place, value in at.items())
        return self.model_copy(update={**parts, "name": f"{self.name}, {named}", "at": at, "stem": self.name})


class Column(shape.Column):
    """One number of each row: where it stands in the scores, and how it is shown.

    A part of `score` that is * takes the mean over all that stand there, in each round. `minus` names a row whose
    number of the same seed and round is taken off; that row itself has none, and BEST_OTHER is the best of the others.

    Attributes:
        marked: whether its best is marked; a score that may choose nothing has none.
        validation: whether it is of the clients' validation images in each run's best round: it has a table of its own.
    """

    marked: bool = True
    validation: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns that this one is the mean of; empty for one with a score of its own."""
        return self.mean_of or self.harmonic_mean_of


@dataclass(frozen=True)
class Recipe:
    """One table.

    Attributes:
        scales: what the recipe itself changes: scale -> stage -> flags.
        files: name of a file that the user brings -> what it is and where it comes from.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    reference: str
    chains: dict[str, Chain]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    figures: tuple[Figure, ...]
    paper: str = ""
    seeds: tuple[int, ...] = (0,)
    spread: str = "pooled"
    at: str = "last5"
    published: dict[str, Any] = field(default_factory=dict)
    train: Flags = field(default_factory=dict)
    scales: dict[str, dict[str, Flags]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def personal(self) -> list[str]:
        """Rows that show clients' own models; tests know the global model's predictions alone."""
        return [row.name for row in self.rows if row.scores_of]
