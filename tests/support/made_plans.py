"""Options of a small run with nothing left open, and the bytes that it leaves."""

from dataclasses import replace
from pathlib import Path

from fedcli import options
from fedcli.federation.training import Training
from fedcli.runs import train as run
from fedcli.runs.train_options import TrainOptions

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)
SHORT = Training(batch_size=10, lr=0.01)


def planned(method, settings, training, rounds=20, **rest):
    usual = options.values(training) | {"model": "cnn", "engine": "in-process"}
    return TrainOptions(method, rounds=rounds, set=settings, **usual | rest)


def plan(method="fedheal", rounds=6, **rest):
    return planned(method, {}, TRAINING, rounds, **rest)


def train(data, plan, **more):
    """The run of a plan with these options too."""
    return run.train(data, replace(plan, **more))


def results(folder: Path) -> dict[str, bytes]:
    content = {}
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".jsonl", ".h5") and path.name != "timing.jsonl":
            content[path.relative_to(folder).as_posix()] = path.read_bytes()
    return content
