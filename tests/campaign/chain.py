"""A federation of 60 small images on disk, made by the commands themselves: what the campaign breaks."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from raw_folders import write_csv

from .process import run

TRAIN = ["train", "fedprox", "--rounds", "3", "--model", "cnn", "--batch-size", "8", "--checkpoint-every", "1"]
STAGES = {  # stage -> how it is typed
    "prepare": [
        "prepare", "images", "--raw", "raw", "--size", "16", "--group", "sex", "--site", "site", "--patient", "patient",
        "--seed", "3",
    ],
    "partition": ["partition", "--dirichlet", "5", "--clients", "3", "--val", "0.2"],
    "corrupt": ["corrupt", "gaussian", "--ratio", "0.5"],
    "train": [*TRAIN, "--engine", "in-process", "--resume"],
    "evaluate": ["evaluate", "--by", "sex"],
}  # fmt: skip
CLOCKS = {"timing.jsonl"}  # what no promise of equal bytes holds


@dataclass(frozen=True)
class Chain:
    """Folders of the same work, each with the stages up to one name done."""

    folder: Path

    def before(self, stage: str) -> Path:
        return self.folder / f"before-{stage}"

    @property
    def whole(self) -> Path:
        return self.folder / "whole"


def raw_images(folder: Path) -> None:
    """60 images of 16 x 16 in two classes, of two sites, with patients of two images each."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(11)
    rows = []
    for i in range(60):
        pixels = rng.integers(0, 120, (16, 16, 3)) + 100 * (i % 2)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"im{i:02d}.png")
        rows.append([f"im{i:02d}.png", "ab"[i % 2], "fm"[i // 2 % 2], ["north", "south"][i // 4 % 2], f"p{i // 2}"])
    write_csv(folder / "labels.csv", ["image", "label", "sex", "site", "patient"], rows)


def build(folder: Path) -> Chain:
    """Play every stage, keeping a copy of what stood before each."""
    chain = Chain(folder)
    here = folder / "now"
    raw_images(here / "raw")
    for stage, words in STAGES.items():
        shutil.copytree(here, chain.before(stage))
        ended = run(words, here)
        assert ended.code == 0, (ended.line, ended.err)
    here.rename(chain.whole)
    return chain


def files(folder: Path) -> dict[str, str]:
    """Every file of a folder (path -> digest of its bytes), but clocks and the locks of run folders."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in CLOCKS and path.name != ".lock"
    }


def copied(source: Path, target: Path) -> Path:
    """A copy with times of change kept, since the newest manifest is the one that a command uses."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target
