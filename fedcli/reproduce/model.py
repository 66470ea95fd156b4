"""What a recipe is made of: its data, rows, columns and figures."""

from dataclasses import dataclass, field
from typing import Any

from .checks import Flags
from .shape import Figure

BEST_OTHER = "*"


@dataclass(frozen=True)
class Chain:
    """The stages that make one data set of the table.

    Attributes:
        corrupt: flags with the kind of corruption under "kind"; None for none.
        train, settings: of the rows on it that leave them open, settings where their method has them.
        lists: "prepare" and "partition" by lists that the authors published, in place of the chain's own and with
            what a row adds to them, where the user brings all files that they name; empty for none.
    """

    name: str
    title: str
    dataset: str
    prepare: Flags = field(default_factory=dict)
    partition: Flags = field(default_factory=dict)
    corrupt: Flags | None = None
    evaluate: Flags = field(default_factory=dict)
    train: Flags = field(default_factory=dict)
    settings: Flags = field(default_factory=dict)
    lists: dict[str, Flags] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the table: a method and what it has of its own.

    Attributes:
        data: names of the chains it runs on.
        at: where a varied row stands: place -> value, such as {"set.q": 0.5}.
        stem: the name of the row that was varied.
        scores_of: whose scores its columns show: "" the global model's; or "personal" or "mean_personal", as in
            scores.json.
    """

    name: str
    method: str
    settings: Flags
    data: tuple[str, ...]
    prepare: Flags = field(default_factory=dict)
    partition: Flags = field(default_factory=dict)
    corrupt: Flags = field(default_factory=dict)
    train: Flags = field(default_factory=dict)
    at: Flags = field(default_factory=dict)
    stem: str = ""
    scores_of: str = ""

    def place(self, score: str) -> str:
        """Where in scores.json a column's number of this row stands."""
        if not self.scores_of or not score.startswith(("versions/", "groups/")):
            return score
        return f"personal/{self.scores_of}/{score.removeprefix('versions/')}"


@dataclass(frozen=True)
class Column:
    """One number of each row: where it stands in scores.json, and how it is shown.

    Attributes:
        score: a place; a part that is * takes the mean over all that stand there, in each round.
        mean_of: other columns whose mean this one is; it has no data or score of its own then.
        harmonic: whether that is their harmonic mean.
        minus: name of a row whose number of the same seed and round is taken off; that row itself has none. BEST_OTHER
            is the best of the other rows.
        lower: better when low.
        marked: whether its best is marked; a score that may choose nothing has none.
        validation: whether it is of the clients' validation images in each run's best round: it has a table of its own.
    """

    name: str
    data: str
    score: str
    unit: str = "percent"
    lower: bool = False
    marked: bool = True
    mean_of: tuple[str, ...] = ()
    validation: bool = False
    minus: str = ""
    harmonic: bool = False


@dataclass(frozen=True)
class Recipe:
    """One table.

    Attributes:
        scales: what the recipe itself changes: scale -> stage -> flags.
        files: name of a file that the user brings -> what it is and where it comes from.
    """

    name: str
    title: str
    paper: str
    notes: tuple[str, ...]
    seeds: tuple[int, ...]
    spread: str
    at: str
    reference: str
    published: dict[str, Any]
    train: Flags
    chains: dict[str, Chain]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    figures: tuple[Figure, ...]
    scales: dict[str, dict[str, Flags]]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def personal(self) -> list[str]:
        """Rows that show clients' own models; tests know the global model's predictions alone."""
        return [row.name for row in self.rows if row.scores_of]


def at_values(row: Row, at: Flags) -> Row:
    """A row with some of its values changed, named after them."""
    parts = {"set": dict(row.settings)} | {
        s: dict(getattr(row, s)) for s in ("prepare", "partition", "corrupt", "train")
    }
    for place, value in at.items():
        stage, _, key = place.partition(".")
        parts[stage][key if stage == "set" else key.replace("-", "_")] = value
    named = ", ".join(f"{place.partition('.')[2]}={value}" for place, value in at.items())
    return Row(
        f"{row.name}, {named}",
        row.method,
        parts.pop("set"),
        row.data,
        **parts,
        at=at,
        stem=row.name,
        scores_of=row.scores_of,
    )
