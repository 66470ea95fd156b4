"""The content of results.json: the numbers of a reproduction beside those that were published."""

import json
from pathlib import Path
from typing import Any

from ..comparison.verdict import Against
from ..errors import FedcliError
from .recipe import RecipeColumn
from .shape import Printed, PrintedLayout, RecipePart

Number = float | None


class ResultCell(RecipePart):
    """Our number over runs, in the column's unit; per_run: each run's mean.

    published, difference: the number printed there, and ours minus it. half: of the interval around
    our mean in which it is expected (agreement.py). verdict: whether it is; beyond: how far it lies
    outside.
    """

    mean: Number
    std: Number
    runs: int
    per_run: list[float]
    published: Printed | None = None
    difference: Number = None
    half: Number = None
    beyond: Number = None
    verdict: str = "-"


class ResultRow(RecipePart):
    """One line of the table.

    Attributes:
        command: how it is trained.
        holes: column -> of how many runs its number is, where some failed or have no such number.
        scores: data and seed -> the scores.json below the work folder.
        stem: of rows that vary a value, the name that they share.
        chance: data -> why its models may be no better than chance there.
    """

    name: str
    label: str | None
    rule: str | None
    command: str
    holes: dict[str, int]
    warnings: list[str]
    cells: dict[str, ResultCell]
    scores: dict[str, str]
    stem: str = ""
    chance: dict[str, str] = {}


class Marked(RecipePart):
    """The rows that are the best of a column, those that a small group decides, and whether tests
    stand behind it."""

    best: list[str]
    doubtful: list[str]
    tested: bool


class FailedCell(RecipePart):
    """A cell that has no scores, and why."""

    cell: str
    sentence: str


class Tests(RecipePart):
    """The rows on one data set, whose title is for readers, against the reference there, in one
    score."""

    data: str
    title: str = ""
    version: str
    metric: str
    reference: str
    rows: list[Against]


class Order(RecipePart):
    """Rows of a column in our order and in the paper's: Kendall's tau-b, and the p of as much
    agreement by chance."""

    column: str
    rows: int
    tau: float
    p: float


class Results(RecipePart):
    """All that is known of a reproduction: no clock, no path above the work folder.

    Attributes:
        at, spread: which rounds a number is the mean of, and what its spread is over.
        left_out: a sentence for each part that is not there.
        pictures: title -> file.
        chosen: the row of each method that validation images choose, where test scores are shown of
            these rows alone; None where they are shown of every row.
    """

    recipe: str
    title: str
    paper: str
    scale: str
    at: str
    spread: str
    reference: str
    seeds: list[int]
    columns: list[RecipeColumn]
    rows: list[ResultRow]
    left_out: list[str] = []
    failed: list[FailedCell] = []
    notes: list[str] = []
    statistics: list[Tests] = []
    marks: dict[str, Marked] = {}
    orders: list[Order] = []
    layout: PrintedLayout = PrintedLayout()
    pictures: dict[str, str] = {}
    chosen: list[str] | None = None

    @property
    def cells(self) -> list[ResultCell]:
        """The numbers of all rows."""
        cells: list[ResultCell] = []
        for row in self.rows:
            cells += row.cells.values()
        return cells

    def shows_tests_of(self, name: str) -> bool:
        """Tell whether test scores of the row of this name are shown."""
        return self.chosen is None or name in self.chosen

    def shown_columns(self, *, validation: bool) -> list[RecipeColumn]:
        """The columns of the test images, or of the clients' validation images."""
        return [column for column in self.columns if column.validation is validation]

    @classmethod
    def read(cls, file: Path) -> "Results":
        """The results of a folder, from its results.json. Raises FedcliError."""
        try:
            body = json.loads(file.read_text(encoding="utf-8"))
            for column in body["columns"]:
                _leave_out_empty(column)
            _leave_out_empty(body.get("layout", {}))
            return cls.model_validate(body)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            sentence = f"{file} cannot be read: {error}"
            raise FedcliError(sentence, "give the command again, which writes it") from None

    def body(self) -> dict[str, Any]:
        """The object that results.json holds."""
        absent = set()
        if not self.pictures:
            absent.add("pictures")
        if self.chosen is None:
            absent.add("chosen")
        return self.model_dump(mode="json", exclude=absent or None)


def _leave_out_empty(part: dict[str, Any]) -> None:
    """Remove empty texts and lists, which a recipe does not have."""
    for key, value in list(part.items()):
        if value in ("", []):
            del part[key]
