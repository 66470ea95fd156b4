"""Predictions for image files, by the model of a finished run."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..io.csv_text import csv_text
from ..options import path_of
from ..reporting.table import Table
from ..runs.finished import open_run
from ..scores.deploy import predict as scoring
from ..scores.evaluation_options import PredictOptions
from .call import called_with, source
from .shown import Shown

if TYPE_CHECKING:
    import pandas


DECISIONS = {True: "yes", False: "no", None: None}  # none on an image that is foreign


@dataclass(frozen=True, repr=False)
class Prediction(Shown):
    """Probabilities of image files.

    Attributes:
        predicted: files, classes, probabilities [N, C], and (file, why) of those that cannot be read.
    """

    predicted: scoring.Predicted

    def tables(self) -> list[Table]:
        """A line for each file, probabilities from 0 to 1."""
        return [Table.of("", self._head(), self._lines())]

    def words(self) -> list[str]:
        """The files that cannot be read."""
        return [f"{_text(file)}: {why}" for file, why in self.predicted.unreadable]

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each file: file, a column for the probability of each class, the most likely class, of each
        operating point the decision (none for an image that is foreign) and its threshold, how it differs from the
        training images, and why it cannot be read."""
        import pandas

        return pandas.DataFrame(self._lines(), columns=self._head())

    def to(self, format: str) -> str:
        """As csv or json text; json lists the unreadable files too."""
        if format == "csv":
            return csv_text([self._head(), *self._lines()])
        points = self.predicted.operating
        lines = [
            {
                "file": file,
                "class": decision,
                "probabilities": dict(zip(self.predicted.classes, chances.tolist())),
            }
            | ({"at": {point.name: each for point, each in zip(points, called)}} if points else {})
            | {"foreign": foreign or None}
            for file, decision, chances, called, foreign in self._each()
        ]
        unreadable = [{"file": _text(file), "why": why} for file, why in self.predicted.unreadable]
        operating = [point.recorded for point in points]
        made = {"classes": self.predicted.classes, "operating_points": operating}
        made |= {"predictions": lines, "unreadable": unreadable}
        return json.dumps(made, indent=1, ensure_ascii=False) + "\n"

    def _head(self) -> list[str]:
        made = self.predicted
        points = [
            name for each in made.operating for name in (each.name, f"threshold of {each.name}")
        ]
        chosen = ["thresholds_chosen_on"] if points else []
        return [
            "file",
            *(f"prob_{name}" for name in made.classes),
            "class",
            *points,
            *chosen,
            "foreign",
            "unreadable",
        ]

    def _lines(self) -> list[list[object]]:
        points = self.predicted.operating
        sources = dict.fromkeys(point.source for point in points)
        chosen = [f"validation images of {'; '.join(sources)}"] if points else []
        lines: list[list[object]] = []
        for file, decision, chances, called, foreign in self._each():
            at: list[object] = []
            for point, positive in zip(points, called, strict=True):
                at += [DECISIONS[positive], point.threshold]
            lines.append([file, *chances.tolist(), decision, *at, *chosen, foreign or None, None])
        empty = [None] * (len(self._head()) - 2)
        return lines + [[_text(file), *empty, why] for file, why in self.predicted.unreadable]

    def _each(self) -> list[tuple]:
        """Of each file: its name, decision, chances, the decision at each operating point, and foreign."""
        made = self.predicted
        called = list(zip(*made.at_points, strict=True)) or [()] * len(made.files)
        return list(
            zip(
                map(_text, made.files),
                made.decisions,
                made.chances,
                called,
                made.foreign,
                strict=True,
            )
        )


def _text(file: str) -> str:
    """A file's name as text: bytes that are none as \\xff."""
    return os.fsencode(file).decode("utf-8", "backslashreplace")


def run(options: PredictOptions) -> Prediction:
    """Score image files with a run's last model; a file that cannot be read is listed.

    Raises FedcliError, UsageError.
    """
    files = [Path(file) for file in options.files]
    opened = open_run(
        source(options.run, options.work, "run"), options.device, path_of(options.data)
    )
    wanted = {name: getattr(options, name) for name in ("positive", "rule", "cost")}
    return Prediction(scoring.predict(opened, files, options.client, **wanted))


predict = called_with("predict", PredictOptions, run)
