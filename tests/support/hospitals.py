"""Images of three hospitals as files with a table, small enough to train on in a test."""

from pathlib import Path

import numpy as np
from PIL import Image
from raw_folders import write_csv

import fedcli

HOSPITALS = "north", "east", "south"
CLASSES = "healthy", "ill"


def write_hospitals(
    raw: Path, *, classes=CLASSES, hospitals=HOSPITALS, count=90, seed=0, size=8
) -> Path:
    """A folder for `fedcli prepare images`: ill images are brighter, each patient has two images."""
    raw.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    rows = []
    for k in range(count):
        label = k % len(classes)
        patient = k // 2
        pixels = draw.normal(90 + 60 * label, 40, (size, size, 3)).clip(0, 255)
        name = f"{k:03d}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(raw / name)
        sex = "fm"[k // 6 % 2]
        hospital = hospitals[patient % len(hospitals)]
        rows.append([name, classes[label], sex, hospital, f"{seed}-{patient}"])
    write_csv(raw / "labels.csv", ["image", "label", "sex", "hospital", "patient"], rows)
    return raw


def prepared(raw: Path, work: Path, *, size=8):
    return fedcli.prepare(
        "images",
        raw=raw,
        size=size,
        group=["sex"],
        site="hospital",
        patient="patient",
        work=work,
        jobs=1,
        test=0.4,
    )
