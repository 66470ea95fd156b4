"""Curves, client weights, scores and the report of a run for TensorBoard or MLflow.

All of it is read from what train and evaluate have written, so tracking changes no byte of a run. Without a place the
files are local, under the work folder. The packages come with fedcli[track].
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import extensions
from ..comparison.systems import LAST, read
from ..data import manifest
from ..errors import FedcliError, UsageError, nearest
from ..figures import series
from ..scores import numbers
from .columns import all_numbers

REMOTE = re.compile(r"[a-z+]+:")  # how a place of mlflow begins that is no folder
OTHER = re.compile(r"[^\w\-./ ]")  # what a name in MLflow may not hold
EXPERIMENT, TAG = (
    "fedcli",
    "fedcli.run",
)  # in MLflow: where runs are, and by which tag one is found again


class TensorBoard:
    """A folder of event files under DIR, named after the run's folder; the page lies beside them."""

    def __init__(self, place: str, run: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.folder = Path(place) / run.parent.name
        writer: Any = SummaryWriter(str(self.folder))
        self.number, self.close, self._text = writer.add_scalar, writer.close, writer.add_text

    def about(self, asked: Mapping[str, Any]) -> None:
        lines = [f"| {key} | {value} |" for key, value in asked.items()]
        self._text("options", "\n".join(["| option | value |", "|---|---|", *lines]))

    def page(self, text: str) -> None:
        (self.folder / "report.html").write_text(text, encoding="utf-8")


class MLflow:
    """A run of the experiment `fedcli`, found again by the hash of its run.json; of a folder in its mlflow.db."""

    def __init__(self, place: str, run: Path):
        from mlflow import MlflowClient

        remote, folder = REMOTE.match(place), Path(place).resolve()
        if not remote:  # MLflow no longer writes plain files: a database and a folder for the page
            folder.mkdir(parents=True, exist_ok=True)
        self.client: Any = MlflowClient(place if remote else f"sqlite:///{folder / 'mlflow.db'}")
        sha = manifest.sha256(run)
        known = self.client.get_experiment_by_name(EXPERIMENT)
        pages = None if remote else (folder / "artifacts").as_uri()
        experiment = (
            known.experiment_id if known else self.client.create_experiment(EXPERIMENT, pages)
        )
        same = self.client.search_runs([experiment], f"tags.`{TAG}` = '{sha}'")
        made = (
            same[0]
            if same
            else self.client.create_run(experiment, tags={TAG: sha}, run_name=run.parent.name)
        )
        self.id = made.info.run_id

    def number(self, name: str, value: float, step: int) -> None:
        self.client.log_metric(self.id, re.sub(OTHER, "_", name), value, step=step)

    def about(self, asked: Mapping[str, Any]) -> None:
        for key, value in asked.items():
            self.client.log_param(self.id, re.sub(OTHER, "_", key), str(value)[:500])

    def page(self, text: str) -> None:
        self.client.log_text(self.id, text, "report.html")

    def close(self) -> None:
        self.client.set_terminated(self.id)


Tracker = TensorBoard | MLflow
TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def check(asked: str) -> None:
    """Refuse a tracker that there is not, or whose package is missing, before anything is trained.

    Raises FedcliError, UsageError.
    """
    kind, _, place = asked.partition(":")
    if kind not in TRACKERS:
        raise UsageError(f"--track {asked!r} is no tracker", nearest(kind, TRACKERS))
    if kind == "mlflow" and REMOTE.match(place):
        extensions.check_named(asked, "a server")
    try:
        __import__(kind)
    except ModuleNotFoundError as error:
        raise FedcliError(
            f"--track {kind} needs the Python module {error.name}", 'pip install "fedcli[track]"'
        ) from None


def training(asked: str, run: Path, work: Path) -> str:
    """Give a finished run's curves to a tracker; where they are.

    asked: "tensorboard" or "mlflow", with :DIR or :URI behind it. run: run.json. Raises FedcliError.
    """
    record = series.read(run)
    with _opened(asked, run, work) as (tracker, place):
        tracker.about(record.asked)
        for name, one in record.series.items():
            for client, points in one.curves.items():
                for step, value in points[np.isfinite(points[:, 1])].tolist():
                    tracker.number("/".join(filter(None, [name, client])), value, int(step))
    return place


def evaluation(asked: str, scores: Path, work: Path) -> str:
    """Give the last round's scores and the page of a scores.json to a tracker; where they are."""
    run = manifest.parent(scores, "run")
    if run is None:
        raise FedcliError(f"{scores} names no run", "evaluate the run again")
    from .page import PageOptions, render  # draws, which nothing else here does

    (scored,) = read([scores])
    step, text = scored.scores.kept_rounds[-1], render([scores], PageOptions())
    with _opened(asked, run, work) as (tracker, place):
        for where, score in all_numbers(scored.scores, LAST).items():
            if score.last is not None and np.isfinite(score.last):
                tracker.number(f"scores/{numbers.name(where)}", score.last, step)
        tracker.page(text)
    return place


@contextmanager
def _opened(asked: str, run: Path, work: Path) -> Iterator[tuple[Tracker, str]]:
    """A tracker, closed at the end, and where it is. Raises FedcliError where it cannot be written, or no longer."""
    kind, _, place = asked.partition(":")
    place = place or str(work / kind)
    try:
        tracker = TRACKERS[kind](place, run)
        yield tracker, place
        tracker.close()
    except Exception as error:  # what a server or a package says is not ours to list
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FedcliError(
            f"{place} cannot be written by {kind}: {reason}"[:300], "give another place"
        ) from error
