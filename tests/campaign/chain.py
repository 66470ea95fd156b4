"""A federation of 60 small images on disk, made by the commands themselves: what the campaign breaks."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from raw_folders import write_csv

from .process import run

TRAIN = [
    "--rounds",
    "3",
    "--model",
    "cnn",
    "--batch-size",
    "8",
    "--checkpoint-every",
    "1",
    "--engine",
    "in-process",
]
PREPARE = [
    "prepare",
    "images",
    "--raw",
    "raw",
    "--size",
    "16",
    "--group",
    "sex",
    "--site",
    "site",
    "--patient",
    "patient",
    "--seed",
    "3",
    "--jobs",
    "1",
]
STAGES = {  # stage -> how it is typed
    "prepare": PREPARE,
    "partition": ["partition", "--dirichlet", "5", "--clients", "3", "--val", "0.2"],
    "corrupt": ["corrupt", "gaussian", "--ratio", "0.5", "--jobs", "1"],
    "train": ["train", "fedprox", *TRAIN, "--resume"],
    "evaluate": ["evaluate", "--by", "sex"],
}
METHODS = {  # of every kind: with a state at the server, at the clients, with a model or layers of their own, of CLIP
    "fedheal": [],
    "fedism-plus": [],
    "scaffold": [],
    "ditto": [],
    "fedbn": [],
    "moon": [],
    "creff": [],
    "fedmrl": [],
    "feddyn+fedadam": [],
    "fedproto": [],
    "bsm": ["--then", "crt"],
    "fed-mas": ["--participation", "0.67"],
    "fedfv": ["--optimizer", "keep"],
    "afl": ["--eval-every", "1"],
    "fedavg": ["--personal"],
    "fedlc": ["--single-site"],
    "fedce": ["--bn", "local"],
    "fednova": ["--augment", "flip", "--schedule", "cosine"],
    "apfl": ["--set", "adaptive=true"],
    "fedala": [],
    "fedbabu": [],
    "fedprox": ["--dp", "image:1", "--model", "cnn-gn"],
}
EXPERIMENT = """
title = "Two methods"
seeds = [0]
[data.own]
dataset = "images"
prepare = { size = 16 }
partition = { iid = true, clients = 2 }
[train]
rounds = 1
batch-size = 16
[[row]]
name = "FedAvg"
method = "fedavg"
[[row]]
name = "FedProx"
method = "fedprox"
[[column]]
name = "accuracy"
score = "versions/clean/accuracy"
"""
LATER = {  # what is typed when all stages are done
    "report": ["report", "--format", "html", "--export", "numbers.csv"],
    "compare": ["compare", "fedcli-work/runs/*"],
    "plot": ["plot", "curves", "--out", "plot.svg"],
    "sweep": [
        "train",
        "fedavg",
        "--over",
        "lr=0.01,0.001",
        "--rounds",
        "1",
        "--engine",
        "in-process",
    ],
    "run": ["reproduce", "own.toml", "--raw", "raw", "--work", "own"],
    "inspect": ["inspect"],
    "ls": ["ls"],
    "export": ["evaluate", "--export", "csv", "--corrupt", "contrast", "--severity", "2"],
    "materialize": ["partition", "--iid", "--clients", "2", "--materialize"],
    "mixture": [
        "corrupt",
        "--client",
        "client-00=contrast:1",
        "--client",
        "client-01=gaussian:4",
        "--jobs",
        "2",
    ],
}
CLOCKS = {"timing.jsonl", "forecasts.json"}  # what no promise of equal bytes holds


def words_of(name: str) -> list[str]:
    """The words of a stage, of the training of a method, or of a later command."""
    if name in METHODS:
        return ["train", name, *TRAIN, *METHODS[name], "--resume"]
    return STAGES.get(name) or LATER[name]


def expanded(words: list[str], folder: Path) -> list[str]:
    """The words with every * replaced by the files it stands for, as a shell does."""
    out = []
    for word in words:
        out += (
            sorted(str(path.relative_to(folder)) for path in folder.glob(word))
            if "*" in word
            else [word]
        )
    return out


WRITERS = [*STAGES, *METHODS, *(name for name in LATER if name not in ("inspect", "ls", "compare"))]


@dataclass(frozen=True)
class Chain:
    """Folders of the same work, each with the stages up to one name done."""

    folder: Path

    def before(self, name: str) -> Path:
        """The folder before a stage, a method or a later command."""
        if name in METHODS:
            name = "train"
        return self.folder / f"before-{name}" if name in STAGES else self.whole

    @property
    def whole(self) -> Path:
        return self.folder / "whole"


def raw_images(folder: Path, seed: int = 11) -> None:
    """60 images of 16 x 16 in two classes, of two sites, with patients of two images each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(60):
        pixels = rng.integers(0, 120, (16, 16, 3)) + 100 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"im{i:02d}.png")
        rows.append(
            [
                f"im{i:02d}.png",
                "ab"[i % 2],
                "fm"[i // 2 % 2],
                ["north", "south"][i // 4 % 2],
                f"p{i // 2}",
            ]
        )
    write_csv(folder / "labels.csv", ["image", "label", "sex", "site", "patient"], rows)


def build(folder: Path) -> Chain:
    """Play every stage, keeping a copy of what stood before each."""
    chain = Chain(folder)
    current = folder / "now"
    raw_images(current / "raw")
    (current / "own.toml").write_text(EXPERIMENT)
    for stage, words in STAGES.items():
        shutil.copytree(current, chain.before(stage))
        ended = run(words, current)
        assert ended.code == 0, (ended.line, ended.err)
    for words in (["train", "fedavg", *TRAIN], ["evaluate"]):
        assert run(words, current).code == 0
    current.rename(chain.whole)
    return chain


def files(folder: Path) -> dict[str, str]:
    """Every file of a folder (path -> digest of its bytes), but clocks and the locks of run folders."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in CLOCKS and path.name != ".lock"
    }


def differing(files: dict[str, str], other_files: dict[str, str]) -> list[str]:
    """Paths of files that are not in both, or not the same."""
    return sorted(
        name for name in {*files, *other_files} if files.get(name) != other_files.get(name)
    )


def copied(source: Path, target: Path) -> Path:
    """A copy with times of change kept, since the newest manifest is the one that a command uses."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target
