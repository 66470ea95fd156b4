"""What results.json holds: the numbers of a reproduction beside those that were published."""

from dataclasses import dataclass, field
from typing import Annotated

from ..reporting.verdicts import Against
from ..scores.parts import Number
from ..scores.schema import Names, omitted
from .model import Column


@dataclass(frozen=True)
class Published:
    """A number as printed."""

    mean: float
    std: Number = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Our number over runs, in the column's unit; per_run: each run's mean.

    published, difference: the number printed there, and ours minus it. verdict: whether the spreads cover it.
    """

    mean: Number
    std: Number
    runs: int
    per_run: list[float]
    published: Published | None = None
    difference: Number = None
    verdict: str = "-"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        command: how it is trained.
        holes: column -> of how many runs its number is, where some failed or have no such number.
        scores: data and seed -> the scores.json below the work folder.
        stem: of rows that vary a value, the name that they share.
    """

    name: str
    label: str | None
    rule: str | None
    command: str
    holes: dict[str, int]
    warnings: list[str]
    cells: Annotated[dict[str, Cell], Names("column")]
    scores: dict[str, str]
    stem: str = ""


@dataclass(frozen=True)
class Marked:
    """The rows that are the best of a column, those that a small group decides, and whether tests stand behind it."""

    best: list[str]
    doubtful: list[str]
    tested: bool


@dataclass(frozen=True)
class Failed:
    """A cell that has no scores, and why."""

    cell: str
    sentence: str


@dataclass(frozen=True)
class Tests:
    """The rows on one data set against the reference there, in one score."""

    data: str
    version: str
    metric: str
    reference: str
    rows: list[Against]


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that is known of a reproduction: no clock, no path above the work folder.

    Attributes:
        at, spread: which rounds a number is the mean of, and what its spread is over.
        left_out: a sentence for each part that is not there.
        pictures: title -> file.
    """

    recipe: str
    title: str
    paper: str
    scale: str
    at: str
    spread: str
    reference: str
    seeds: list[int]
    columns: list[Column]
    rows: list[Row]
    left_out: list[str] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    statistics: list[Tests] = field(default_factory=list)
    marks: Annotated[dict[str, Marked], Names("column")] = field(default_factory=dict)
    pictures: dict[str, str] = omitted(dict)

    def shown_columns(self, *, validation: bool) -> list[Column]:
        """Those of the test images, or of the clients' validation images."""
        return [column for column in self.columns if column.validation is validation]
