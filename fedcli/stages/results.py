"""The result of a stage: a path with its manifest, which the next stage reads."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .. import console
from ..data.manifest import Manifest, find, read
from ..options import Source
from ..reporting.table import Table
from ..scores import scores as shape
from ..scores.nested import BETWEEN, nested
from ..scores.numbers import numbers
from .shown import Shown, in_unit

if TYPE_CHECKING:
    import pandas

STATISTICS = "last", "mean_last5", "std_last5"
Line = tuple[str | float | None, ...]


@dataclass(frozen=True, repr=False)
class Result(Shown, os.PathLike[str]):
    """A stage's result; wherever a path is asked for, it can be given itself, and as text it is one.

    Attributes:
        path: of the manifest.
    """

    path: Path
    kind: ClassVar[str]

    @classmethod
    def at(cls, path: Source) -> Self:
        """The result whose manifest, or whose folder, lies at a path. Raises FedcliError."""
        return cls(find(Path(path), cls.kind))

    def __fspath__(self) -> str:
        return str(self.path)

    __str__ = __fspath__  # so that f"{run}" is a path, as in a shell

    @property
    def manifest(self) -> Manifest:
        """Who made it, from what, with which options and hashes. Raises FedcliError."""
        return deepcopy(read(self.path, self.kind))  # which others read too

    @property
    def body(self) -> dict[str, Any]:
        """The record of the stage's result, such as classes, clients or scores. Raises FedcliError."""
        return self.manifest.body

    def words(self) -> list[str]:
        """Where it is."""
        return [f"{type(self).__name__}: {self.path}"]


class Dataset(Result):
    """Prepared images."""

    kind = "dataset"

    def tables(self) -> list[Table]:
        """A line of what it holds."""
        body = self.body
        size, *_ = body["size"]
        about = (
            body["name"],
            body["count"],
            f"{size} px",
            ", ".join(body["classes"]),
            ", ".join(body["attributes"]),
        )
        return [Table.of("", ["dataset", "images", "size", "classes", "attributes"], [[*about]])]


class Partition(Result):
    """The assignment of training images to clients."""

    kind = "partition"

    def tables(self) -> list[Table]:
        """A line for each client."""
        body = self.body
        parts, corrupted = ("train", "val", "test"), body.get("clients", [])
        heads = [
            "client",
            *(f"{part} images" for part in parts),
            *(["corrupted"] if corrupted else []),
        ]
        lines = [
            [client["client"], *(client[part] for part in parts)]
            + ([body["kind"] * (client["client"] in corrupted)] if corrupted else [])
            for client in body["roster"]
        ]
        return [Table.of(body["dataset"], heads, lines)]


class Corruption(Partition):
    """A partition some of whose images are corrupted."""

    kind = "corruption"


class Run(Result):
    """A finished training."""

    kind = "run"

    def tables(self) -> list[Table]:
        """A line of what was trained."""
        body, options = self.body, self.manifest.options
        heads = ["method", "dataset", "clients", "rounds", "seed", "network"]
        about = (
            body["label"],
            body["dataset"],
            len(body["roster"]),
            body["rounds"],
            options.get("seed"),
        )
        return [Table.of("", heads, [[*about, body["model"]["name"]]])]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each round and client that took part: round, client, weight, loss, and what the client reported."""
        import pandas

        lines = (self.path.parent / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
        roster = self.body["roster"]
        return pandas.DataFrame(
            [row for line in lines for row in _rounds(json.loads(line), roster)]
        )


class Scores(Result):
    """The scores of a run."""

    kind = "scores"

    @property
    def body(self) -> dict[str, Any]:
        """The record of the run by evaluation, and all of its numbers as one nested object. Raises FedcliError."""
        return nested(shape.Scores.of(self.manifest.body, self.path))

    def tables(self) -> list[Table]:
        """The tables that `fedcli evaluate` prints, in percent."""
        from ..reporting import single_runs, tables
        from ..reporting.rows import rows

        with console.muted():  # a result that is looked at again does not warn again
            made = rows([self.path])
            whole = tables.report(made)
        return [*whole.tables[:1], *single_runs.by_group(made[0].scored[0])]

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row for each score of the test sets, of each client and of each group.

        Columns: version of the images (clean, corrupted, average), client, attribute, group, metric, then last (the
        last round's model), mean_last5 and std_last5 (over the last five rounds), and unit. Scores are shares from 0 to
        1, as in scores.csv, with percent in percent; unit is "share" or "%". A metric such as "accuracy gap" is between
        the groups of an attribute.
        """
        import pandas

        names = ["version", "client", "attribute", "group", "metric", *STATISTICS]
        frame = pandas.DataFrame(
            list(_scores(shape.Scores.of(self.manifest.body, self.path))), columns=names
        )
        return in_unit(frame.assign(unit="%" if percent else "share"), STATISTICS, percent)


def _rounds(line: dict[str, Any], roster: list[str]) -> Iterator[dict[str, Any]]:
    for k, client in enumerate(line.get("clients", roster)):
        reports = {name: column[k] for name, column in line["reports"].items()}
        known = {
            "round": line["round"],
            "client": client,
            "weight": line["weights"][k],
            "loss": line["loss"][k],
        }
        yield known | reports


def _scores(scores: shape.Scores) -> Iterator[Line]:
    for where, score in numbers(scores):
        if (
            not (where.model or where.view or where.label or (where.client and where.attribute))
            and score.rounds
        ):
            metric = (
                f"{where.metric} {BETWEEN[where.measure]}"
                if where.measure in BETWEEN
                else where.metric
            )
            if where.measure in ("", *BETWEEN):
                whose = where.version, where.client, where.attribute, where.group
                yield (*whose, metric, score.last, score.mean, score.std)
