"""Options of a small run with nothing left open, and the bytes that it leaves."""

from pathlib import Path

from fedcli import options
from fedcli.federation.training import Training
from fedcli.runs.train_options import TrainOptions

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)
SHORT = Training(batch_size=10, lr=0.01)


def planned(method, settings, training, rounds=20, **rest):
    return TrainOptions(method, rounds=rounds, set=settings, **options.values(training) | {"model": "cnn"} | rest)


def plan(method="fedheal", rounds=6, **rest):
    return planned(method, {}, TRAINING, rounds, **rest)


def results(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.suffix in (".json", ".jsonl", ".h5") and p.name != "timing.jsonl"
    }
