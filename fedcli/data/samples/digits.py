"""The four domains of digits in little, each in its makers' format: idx.gz, libsvm's text, .mat and folders."""

import bz2
import gzip
import struct
from pathlib import Path

import numpy as np

from ..sources.drawing import picture, save

EACH = {"train": 4, "test": 1}  # images of a digit, in each domain


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, each in EACH.items():
        labels = np.arange(10 * each, dtype=np.uint8) % 10
        _mnist(folder / "MNIST" / "raw", part, labels)
        _usps(folder / ("usps.bz2" if part == "train" else "usps.t.bz2"), part, labels)
        _svhn(folder / f"{part}_32x32.mat", part, labels)
        _syn(folder / "syn" / ("train" if part == "train" else "val"), labels)


def _grey(domain: str, part: str, labels: np.ndarray, side: int) -> np.ndarray:
    """uint8 [N, side, side], bright on black."""
    images = [picture(f"{domain}-{part}-{i}", int(n), height=side, width=side) for i, n in enumerate(labels)]
    return 255 - np.stack(images).min(3)


def _mnist(folder: Path, part: str, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = "train" if part == "train" else "t10k"
    for kind, array in (("images-idx3", _grey("mnist", part, labels, 28)), ("labels-idx1", labels)):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        packed = gzip.compress(head + array.tobytes(), mtime=0)  # no clock in the file
        (folder / f"{name}-{kind}-ubyte.gz").write_bytes(packed)


def _usps(path: Path, part: str, labels: np.ndarray) -> None:
    values = _grey("usps", part, labels, 16).reshape(len(labels), 256) / 127.5 - 1
    lines = [
        f"{n + 1} " + " ".join(f"{k}:{v:.4g}" for k, v in enumerate(pixels, 1)) for n, pixels in zip(labels, values)
    ]
    path.write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))


def _svhn(path: Path, part: str, labels: np.ndarray) -> None:
    from scipy.io import savemat

    images = [picture(f"svhn-{part}-{i}", int(n), height=32, width=32) for i, n in enumerate(labels)]
    digits = np.where(labels == 0, 10, labels).astype(np.uint8)  # SVHN writes 10 for the digit 0
    savemat(path, {"X": np.stack(images, axis=3), "y": digits[:, None]}, do_compression=True)
    data = path.read_bytes()
    path.write_bytes(b"MATLAB 5.0 MAT-file, a sample of SVHN".ljust(116) + data[116:])  # no clock in the file


def _syn(folder: Path, labels: np.ndarray) -> None:
    for i, n in enumerate(labels):
        name = f"{n}_{i:05d}.jpg"
        save(folder / str(n) / name, picture(f"syn-{folder.name}-{i}", int(n), height=24, width=24))
