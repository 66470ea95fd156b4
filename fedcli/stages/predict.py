"""Predictions for image files, and models as files: what a finished run is used for."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import extensions
from ..csv_text import csv_text
from ..evaluation import model_file
from ..evaluation import predict as scoring
from ..runs.finished import open_run
from .base import Source
from .call import called_with, source
from .evaluation_options import PredictOptions
from .flags import WORK

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Prediction:
    """Probabilities of image files.

    Attributes:
        predicted: files, classes, probabilities [N, C], and (file, why) of those that cannot be read.
    """

    predicted: scoring.Predicted

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each file: file, a column for the probability of each class, and the most likely class."""
        import pandas

        return pandas.DataFrame(self._lines(), columns=self._head())

    def to(self, format: str) -> str:
        """As csv or json text; json lists the unreadable files too."""
        if format == "csv":
            return csv_text([self._head(), *self._lines()])
        lines = [
            {"file": file, "class": decision, "probabilities": dict(zip(self.predicted.classes, chances.tolist()))}
            for file, decision, chances in self._each()
        ]
        unreadable = [{"file": file, "why": why} for file, why in self.predicted.unreadable]
        made = {"classes": self.predicted.classes, "predictions": lines, "unreadable": unreadable}
        return json.dumps(made, indent=1, ensure_ascii=False) + "\n"

    def _head(self) -> list[str]:
        return ["file", *(f"prob_{name}" for name in self.predicted.classes), "class"]

    def _lines(self) -> list[list[object]]:
        return [[file, *chances.tolist(), decision] for file, decision, chances in self._each()]

    def _each(self) -> list[tuple]:
        made = self.predicted
        return list(zip(made.files, made.decisions, made.chances, strict=True))


def run(options: PredictOptions) -> Prediction:
    """Score image files with a run's last model; a file that cannot be read is listed.

    Raises FedcliError, UsageError.
    """
    files = scoring.named_files([Path(file) for file in options.files])
    with extensions.given(options.code):
        opened = open_run(source(options.run, options.work, "run"), options.device)
        return Prediction(scoring.predict(opened, files, options.client))


predict = called_with("predict", PredictOptions, run)


def export(
    given: Source | None, format: str, out: Path | None, *, client: str | None = None, work: Source = WORK
) -> Path:
    """Write a run's last model as a file with its sidecar into a new folder, checked against predict.

    out: default: a folder `exported` beside the run's, named after run and format. Raises FedcliError, UsageError.
    """
    path = source(given, work, "run")
    name = "-".join(filter(None, [path.parent.name, client, format]))
    return model_file.export(open_run(path), format, out or Path(work) / "exported" / name, client)
