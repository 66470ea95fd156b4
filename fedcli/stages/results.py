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
from ..reporting.table import ReportTable
from ..scores import scores as recorded
from ..scores.nested import BETWEEN, nested
from ..scores.numbers import numbers
from .shown import Shown, in_unit

if TYPE_CHECKING:
    import pandas

STATISTICS = "last", "mean_last5", "std_last5"
PARTS = "train", "val", "test"


@dataclass(frozen=True, repr=False)
class Result(Shown, os.PathLike[str]):
    """A stage's result; wherever a path is asked for, it can be given itself, and as text it is
    one.

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
        """The record of the stage's result, such as classes, clients or scores.

        Raises FedcliError.
        """
        return self.manifest.body

    def words(self) -> list[str]:
        """Where it is."""
        return [f"{type(self).__name__}: {self.path}"]


class Dataset(Result):
    """Prepared images."""

    kind = "dataset"

    def tables(self) -> list[ReportTable]:
        """A line of what it holds."""
        body = self.body
        line = {
            "dataset": body["name"],
            "images": body["count"],
            "size": f"{body['size'][0]} px",
            "classes": ", ".join(body["classes"]),
            "attributes": ", ".join(body["attributes"]),
        }
        return [_table("", [line])]


class Partition(Result):
    """The assignment of training images to clients."""

    kind = "partition"

    def tables(self) -> list[ReportTable]:
        """A line for each client."""
        body = self.body
        corrupted = body.get("clients", [])
        lines = []
        for client in body["roster"]:
            line = {"client": client["client"]}
            line |= {f"{part} images": client[part] for part in PARTS}
            if corrupted:
                line["corrupted"] = body["kind"] if client["client"] in corrupted else ""
            lines.append(line)
        return [_table(body["dataset"], lines)]


class Corruption(Partition):
    """A partition some of whose images are corrupted."""

    kind = "corruption"


class Run(Result):
    """A finished training."""

    kind = "run"

    def tables(self) -> list[ReportTable]:
        """A line of what was trained."""
        body = self.body
        line = {
            "method": body["label"],
            "dataset": body["dataset"],
            "clients": len(body["roster"]),
            "rounds": body["rounds"],
            "seed": self.manifest.options.get("seed"),
            "network": body["model"]["name"],
        }
        return [_table("", [line])]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each round and client that took part: round, client, weight, loss, and what the
        client reported.
        """
        import pandas

        rounds = self.path.parent / "rounds.jsonl"
        roster = self.body["roster"]
        rows: list[dict[str, Any]] = []
        for line in rounds.read_text(encoding="utf-8").splitlines():
            rows.extend(_of_clients(json.loads(line), roster))
        return pandas.DataFrame(rows)


class Scores(Result):
    """The scores of a run."""

    kind = "scores"

    @property
    def body(self) -> dict[str, Any]:
        """The record of the run by evaluation, and all of its numbers as one nested object.

        Raises FedcliError.
        """
        return nested(self._recorded())

    def _recorded(self) -> recorded.RunScores:
        return recorded.RunScores.of(self.manifest.body, self.path)

    def tables(self) -> list[ReportTable]:
        """The tables that `fedcli evaluate` prints, in percent."""
        from ..reporting import single_runs, tables
        from ..reporting.rows import rows

        with console.muted():  # a result that is looked at again does not warn again
            rows_of_run = rows([self.path])
            report = tables.report(rows_of_run)
        return [*report.tables[:1], *single_runs.by_group(rows_of_run[0].scored[0])]

    def to_frame(self, *, percent: bool = False) -> "pandas.DataFrame":
        """A row for each score of the test sets, of each client and of each group.

        Columns: version of the images (clean, corrupted, average), client, attribute, group,
        metric, then last (the last round's model), mean_last5 and std_last5 (over the last five
        rounds), and unit. Scores are shares from 0 to 1, as in scores.csv, with percent in percent;
        unit is "share" or "%". A metric such as "accuracy gap" is between the groups of an
        attribute.
        """
        import pandas

        columns = ["version", "client", "attribute", "group", "metric", *STATISTICS]
        frame = pandas.DataFrame(_lines(self._recorded()), columns=columns)
        frame["unit"] = "%" if percent else "share"
        return in_unit(frame, STATISTICS, percent)


def _table(title: str, lines: list[dict[str, Any]]) -> ReportTable:
    """A table of lines that have the same columns."""
    return ReportTable.of(
        title,
        list(lines[0]),
        [list(line.values()) for line in lines],
    )


def _of_clients(line: dict[str, Any], roster: list[str]) -> Iterator[dict[str, Any]]:
    """The facts of each client in a line of rounds.jsonl."""
    for k, client in enumerate(line.get("clients", roster)):
        facts = {
            "round": line["round"],
            "client": client,
            "weight": line["weights"][k],
            "loss": line["loss"][k],
        }
        for name, column in line["reports"].items():
            facts[name] = column[k]
        yield facts


def _lines(scores: recorded.RunScores) -> list[list[str | float | None]]:
    """The lines of the frame of scores: those of the reported model over its last rounds."""
    lines: list[list[str | float | None]] = []
    for where, score in numbers(scores):
        is_other_model = where.model or where.view or where.label
        is_crossed = where.client and where.attribute
        if is_other_model or is_crossed or not score.rounds:
            continue
        metric = where.metric
        if where.measure in BETWEEN:
            metric += f" {BETWEEN[where.measure]}"
        elif where.measure:
            continue
        subject = [where.version, where.client, where.attribute, where.group]
        lines.append([*subject, metric, score.last, score.mean, score.std])
    return lines
