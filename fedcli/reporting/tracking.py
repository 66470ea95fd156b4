"""Curves, client weights, scores and the report of a run for TensorBoard or MLflow.

All of it is read from what train and evaluate have written, so tracking changes no byte of a run.
Without a place the files are local, under the work folder. The packages come with fedcli[track].
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

REMOTE = re.compile(r"[a-z+]+:")  # the beginning of an address of MLflow that is no folder
OTHER = re.compile(r"[^\w\-./ ]")  # signs that a name in MLflow may not hold
EXPERIMENT = "fedcli"  # of MLflow, which holds the runs
TAG = "fedcli.run"  # of a run in MLflow: the hash of its run.json


class TensorBoard:
    """A folder of event files under DIR, named after the run's folder; the page lies beside
    them.
    """

    def __init__(self, target: str, run: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.folder = Path(target) / run.parent.name
        self.writer: Any = SummaryWriter(str(self.folder))

    def number(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)

    def options(self, options: Mapping[str, Any]) -> None:
        lines = [f"| {key} | {value} |" for key, value in options.items()]
        self.writer.add_text("options", "\n".join(["| option | value |", "|---|---|", *lines]))

    def page(self, text: str) -> None:
        (self.folder / "report.html").write_text(text, encoding="utf-8")

    def close(self) -> None:
        self.writer.close()


class MLflow:
    """A run of the experiment `fedcli`, found again by the hash of its run.json; of a folder in its
    mlflow.db.
    """

    def __init__(self, target: str, run: Path):
        from mlflow import MlflowClient

        uri = target
        pages = None
        if not REMOTE.match(target):  # a database and a folder for the page
            folder = Path(target).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            pages = (folder / "artifacts").as_uri()
        self.client: Any = MlflowClient(uri)
        experiment = self.client.get_experiment_by_name(EXPERIMENT)
        if experiment:
            experiment_id = experiment.experiment_id
        else:
            experiment_id = self.client.create_experiment(EXPERIMENT, pages)
        sha = manifest.sha256(run)
        runs = self.client.search_runs([experiment_id], f"tags.`{TAG}` = '{sha}'")
        if not runs:
            name = run.parent.name
            runs = [self.client.create_run(experiment_id, tags={TAG: sha}, run_name=name)]
        self.id = runs[0].info.run_id

    def number(self, name: str, value: float, step: int) -> None:
        self.client.log_metric(
            self.id,
            re.sub(OTHER, "_", name),
            value,
            step=step,
        )

    def options(self, options: Mapping[str, Any]) -> None:
        for key, value in options.items():
            self.client.log_param(
                self.id,
                re.sub(OTHER, "_", key),
                str(value)[:500],
            )

    def page(self, text: str) -> None:
        self.client.log_text(self.id, text, "report.html")

    def close(self) -> None:
        self.client.set_terminated(self.id)


Tracker = TensorBoard | MLflow
TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


def check(track: str | None) -> None:
    """Refuse a tracker that there is not, or whose package is missing, before anything is trained.

    Raises FedcliError, UsageError.
    """
    if track is None:
        return
    kind, _, target = track.partition(":")
    if kind not in TRACKERS:
        raise UsageError(f"--track {track!r} is no tracker", nearest(kind, TRACKERS))
    if kind == "mlflow" and REMOTE.match(target):
        extensions.check_named(track, "a server")
    try:
        __import__(kind)
    except ModuleNotFoundError as error:
        raise FedcliError(
            f"--track {kind} needs the Python module {error.name}", 'pip install "fedcli[track]"'
        ) from None


def training(track: str | None, run: Path, work: Path) -> str:
    """Give a finished run's curves to a tracker and return where they are, "" without a tracker.

    track: "tensorboard" or "mlflow", with :DIR or :URI behind it. run: run.json. Raises
    FedcliError.
    """
    if track is None:
        return ""
    record = series.read(run)
    with _opened(track, run, work) as (tracker, target):
        tracker.options(record.asked)
        for name, curves in record.series.items():
            for client, points in curves.curves.items():
                title = f"{name}/{client}" if name and client else name or client
                for step, value in points[np.isfinite(points[:, 1])].tolist():
                    tracker.number(title, value, int(step))
    return target


def evaluation(track: str | None, scores: Path, work: Path) -> str:
    """Give the last round's scores and the page of a scores.json to a tracker and return where they
    are.
    """
    if track is None:
        return ""
    run = manifest.parent(scores, "run")
    if run is None:
        raise FedcliError(f"{scores} names no run", "evaluate the run again")
    from .page import PageOptions, render  # draws, which nothing else here does

    (scored,) = read([scores])
    step = scored.scores.kept_rounds[-1]
    text = render([scores], PageOptions())
    with _opened(track, run, work) as (tracker, target):
        for where, score in all_numbers(scored.scores, LAST).items():
            if score.last is not None and np.isfinite(score.last):
                tracker.number(
                    f"scores/{numbers.name(where)}",
                    score.last,
                    step,
                )
        tracker.page(text)
    return target


@contextmanager
def _opened(track: str, run: Path, work: Path) -> Iterator[tuple[Tracker, str]]:
    """A tracker, closed at the end, and where it is. Raises FedcliError where it cannot be written,
    or no longer.
    """
    kind, _, target = track.partition(":")
    target = target or str(work / kind)
    try:
        tracker = TRACKERS[kind](target, run)
        yield tracker, target
        tracker.close()
    except Exception as error:  # what a server or a package says is not ours to list
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        sentence = f"{target} cannot be written by {kind}: {reason}"
        raise FedcliError(sentence[:300], "give another place") from error
