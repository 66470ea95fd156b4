"""Predictions for image files, by the model of a finished run."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..io.csv_text import csv_text
from ..options import path_of
from ..reporting.table import ReportTable
from ..runs.finished import open_run
from ..scores.deploy import predict as scoring
from ..scores.evaluation_options import PredictOptions
from .call import called_with, source
from .shown import Shown

if TYPE_CHECKING:
    import pandas


DECISIONS = {True: "yes", False: "no", None: None}  # none on an image that is foreign


class ScoredFile(NamedTuple):
    """The answers for a file. foreign: None where it is like the training images."""

    file: str
    label: str
    chances: list[float]
    at_points: tuple[bool | None, ...]
    foreign: str | None


@dataclass(frozen=True, repr=False)
class Prediction(Shown):
    """Probabilities of image files.

    Attributes:
        predicted: files, classes, probabilities [N, C], and (file, why) of those that cannot be
            read.
    """

    predicted: scoring.Predicted

    def tables(self) -> list[ReportTable]:
        """A line for each file, probabilities from 0 to 1."""
        return [ReportTable.of("", self._columns(), self._lines())]

    def words(self) -> list[str]:
        """The files that cannot be read."""
        return [f"{_text(file)}: {why}" for file, why in self.predicted.unreadable]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each file: file, a column for the probability of each class, the most likely
        class, of each operating point the decision (none for an image that is foreign) and its
        threshold, how it differs from the training images, and why it cannot be read.
        """
        import pandas

        return pandas.DataFrame(self._lines(), columns=self._columns())

    def to(self, format: str) -> str:
        """The text of csv or json, which lists the unreadable files too."""
        if format == "csv":
            return csv_text([self._columns(), *self._lines()])
        predicted = self.predicted
        unreadable = [{"file": _text(file), "why": why} for file, why in predicted.unreadable]
        contents = {
            "classes": predicted.classes,
            "operating_points": [point.recorded for point in predicted.operating],
            "predictions": [self._object(scored) for scored in self._scored_files()],
            "unreadable": unreadable,
        }
        return json.dumps(contents, indent=1, ensure_ascii=False) + "\n"

    def _object(self, scored: ScoredFile) -> dict[str, Any]:
        """The answers for a file as JSON has them."""
        contents: dict[str, Any] = {
            "file": scored.file,
            "class": scored.label,
            "probabilities": dict(zip(self.predicted.classes, scored.chances, strict=True)),
        }
        if scored.at_points:
            names = [point.name for point in self.predicted.operating]
            contents["at"] = dict(zip(names, scored.at_points, strict=True))
        contents["foreign"] = scored.foreign
        return contents

    def _columns(self) -> list[str]:
        columns = ["file", *(f"prob_{name}" for name in self.predicted.classes), "class"]
        for point in self.predicted.operating:
            columns += [point.name, f"threshold of {point.name}"]
        if self.predicted.operating:
            columns.append("thresholds_chosen_on")
        return [*columns, "foreign", "unreadable"]

    def _lines(self) -> list[list[object]]:
        points = self.predicted.operating
        sources = dict.fromkeys(point.source for point in points)
        lines: list[list[object]] = []
        for scored in self._scored_files():
            line: list[object] = [scored.file, *scored.chances, scored.label]
            for point, positive in zip(points, scored.at_points, strict=True):
                line += [DECISIONS[positive], point.threshold]
            if points:
                line.append(f"validation images of {'; '.join(sources)}")
            lines.append([*line, scored.foreign, None])
        empty = [None] * (len(self._columns()) - 2)
        for file, why in self.predicted.unreadable:
            lines.append([_text(file), *empty, why])
        return lines

    def _scored_files(self) -> Iterator[ScoredFile]:
        predicted = self.predicted
        labels = predicted.decisions
        at_points = predicted.at_points
        for k, file in enumerate(predicted.files):
            yield ScoredFile(
                _text(file),
                labels[k],
                predicted.chances[k].tolist(),
                tuple(decisions[k] for decisions in at_points),
                predicted.foreign[k] or None,
            )


def _text(file: str) -> str:
    """A file's name as text: bytes that are none as \\xff."""
    return os.fsencode(file).decode("utf-8", "backslashreplace")


def run(options: PredictOptions) -> Prediction:
    """Score image files with a run's last model; a file that cannot be read is listed.

    Raises FedcliError, UsageError.
    """
    path = source(options.run, options.work, "run")
    predicted = scoring.predict(
        open_run(path, options.device, path_of(options.data)),
        [Path(file) for file in options.files],
        options.client,
        positive=options.positive,
        rule=options.rule,
        cost=options.cost,
    )
    return Prediction(predicted)


predict = called_with("predict", PredictOptions, run)
