"""A plan of a small run, and the bytes that it leaves."""

from pathlib import Path

from fedcli.federation.client import Training
from fedcli.runs.train import Plan

TRAINING = Training(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.0, batch_size=8)


def plan(method="fedheal", rounds=6, **rest):
    return Plan(method, {}, TRAINING, rounds, **rest)


def results(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.suffix in (".json", ".jsonl", ".h5") and p.name != "timing.jsonl"
    }
