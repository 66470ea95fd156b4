"""Digits in four domains: MNIST, USPS, SVHN and SYN, each in the files its makers publish; any two of them will do.

Sources: MNIST, LeCun et al. 1998, idx files; USPS, Hull 1994, libsvm's text or an HDF5 file; SVHN, Netzer et al. 2011,
Matlab files; SYN, Roy et al., arXiv 1807.10108, a folder per digit. Train and test are the makers' own, as in FedHEAL
(arXiv 2405.16585), whose clients are `fedcli partition --by domain --portion 0.01`. FedHEAL enlarges by bilinear
interpolation; fedcli's cubics are a little sharper. The containers' images are held in memory as bytes, about 360 MB
with all four domains, once for all processes where these are forked.
"""

import bz2
import gzip
import io
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from ... import console
from ...errors import FedcliError
from ...io.hdf5 import NUMBERS, Column, open_hdf5
from ..pool import Row
from .division import divided
from .drawing import picture, save
from .formats.photographs import photographs_in, read_rgb
from .source import Choices, Listing, Source, stamp

DOMAINS = ["mnist", "usps", "svhn", "syn"]
IDX = (
    "-idx3-ubyte.gz",
    "-idx3-ubyte",
    ".idx3-ubyte.gz",
    ".idx3-ubyte",
)  # ends of MNIST's files of images
PLACES = {  # domain -> (folders, pairs of a train and a test file); the first that is there counts
    "mnist": (
        ("MNIST/raw", "mnist", "MNIST", "."),
        [(f"train-images{end}", f"t10k-images{end}") for end in IDX],
    ),
    "usps": ((".", "usps", "USPS"), [("usps.bz2", "usps.t.bz2"), ("usps.h5", "usps.h5")]),
    "svhn": ((".", "svhn", "SVHN"), [("train_32x32.mat", "test_32x32.mat")]),
    "syn": (
        ("syn", "SYN", "synthetic_digits", "data/synthetic_digits", "syn/synthetic_digits"),
        [("train", "val"), ("imgs_train", "imgs_valid")],
    ),
}
PARTS = "train", "test"
FETCH = "download it again"
LARGEST = 2**29  # bytes of a container, unpacked; the largest, SVHN's, has 225 MB


def rows(raw: Path, choices: Choices) -> Listing:
    """Every image of every domain that is there."""
    places = {domain: files for domain in DOMAINS if (files := locate(raw, domain))}
    if len(places) < 2:
        there = f"only {next(iter(places))}" if places else "none"
        raise FedcliError(
            f"{raw} has {there} of {', '.join(DOMAINS)}", "it takes two; see fedcli datasets digits"
        )
    if absent := [domain for domain in DOMAINS if domain not in places]:
        console.say(f"{raw} has no {' and no '.join(absent)}: the domains are {', '.join(places)}")
    images: list[Row] = []
    for place, (domain, files) in enumerate(places.items()):
        for part, file in zip(PARTS, files, strict=True):
            if domain == "syn":
                listed = _in_folders(raw, file)
            else:
                digits = enumerate(contents(raw / file, domain, part)[1])
                listed = ((f"{i:05d}", int(digit), f"{file}#{part}-{i}") for i, digit in digits)
            for name, label, source in listed:
                images.append(
                    Row(f"{domain}/{part}/{name}", label, source, part == "test", {"domain": place})
                )
    containers = [file for domain, files in places.items() if domain != "syn" for file in files]
    tables = sorted({*containers, *map(_labels_of, containers)})
    return divided(Listing(images, {"domain": list(places)}, tables=tables), choices)


def decode(raw: Path, row: Row, choices: Choices) -> np.ndarray:
    domain, part, _ = row.id.split("/", 2)
    if domain == "syn":
        return read_rgb(raw / row.source)
    file, _, place = row.source.rpartition("#")
    return np.ascontiguousarray(
        contents(raw / file, domain, part)[0][int(place.rpartition("-")[2])]
    )


def locate(raw: Path, domain: str) -> tuple[str, str] | None:
    """A domain's train and test file or folder, relative to raw; None without either. Raises FedcliError for half."""
    folders, pairs = PLACES[domain]
    for folder in folders:
        for pair in pairs:
            there = [(raw / folder / name).exists() for name in pair]
            if all(there):
                return Path(folder, pair[0]).as_posix(), Path(folder, pair[1]).as_posix()
            if any(there):
                have, lack = (pair[k] for k in (there.index(True), there.index(False)))
                raise FedcliError(
                    f"{raw / folder} has {have}, but no {lack}", f"get the rest of {domain}"
                )
    return None


def contents(path: Path, domain: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [N, H, W, 1 or 3] and int64 [N], the digits, of one part of a domain. Raises FedcliError."""
    return _contents(path, domain, part, stamp(path))


@lru_cache(maxsize=2 * len(DOMAINS))
def _contents(
    path: Path, domain: str, part: str, _: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    match domain:
        case "mnist":
            images, labels = (
                read_idx(path)[..., None],
                read_idx(path.with_name(_labels_of(path.name))),
            )
        case "usps":
            images, labels = read_usps_h5(path, part) if path.suffix == ".h5" else read_usps(path)
        case _:
            images, labels = read_svhn(path)
    _check_arrays(path, images, labels)
    if odd := labels[~np.isin(labels, range(10))].tolist():  # before whole numbers are made of them
        raise FedcliError(
            f"{path.with_name(_labels_of(path.name))} has the digit {odd[0]:g}, expected 0 to 9",
            FETCH,
        )
    return images, labels.astype(np.int64)


def _check_arrays(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Refuse what is not images [N, H, W, C] that have pixels and one number per image."""
    if images.ndim != 4 or 0 in images.shape:
        raise FedcliError(
            f"{path} holds an array of {' x '.join(map(str, images.shape))}, no images", FETCH
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        labelled = path.with_name(_labels_of(path.name))
        raise FedcliError(
            f"{labelled}: the labels are {labels.dtype} {list(labels.shape)}, not one digit each",
            FETCH,
        )
    if len(images) != len(labels):
        raise FedcliError(f"{path} has {len(images)} images and {len(labels)} labels", FETCH)


def read_idx(path: Path) -> np.ndarray:
    """uint8 array of an idx file, compressed or not: two zeros, type 8, the number of sides, the sides, the bytes."""
    if not path.is_file():
        raise FedcliError(f"{path.parent} has no {path.name}", "get the rest of MNIST")
    try:
        data = _bounded(path, gzip.open if path.suffix == ".gz" else open)
    except (OSError, EOFError, zlib.error) as error:
        raise FedcliError(f"{path} is not a readable gzip file: {error}", FETCH) from None
    if data[:3] != b"\0\0\x08" or len(data) < 4:
        raise FedcliError(f"{path} is no idx file of bytes", FETCH)
    if data[3] not in (1, 3):
        raise FedcliError(f"{path} has {data[3]} sides, expected 3 of images or 1 of labels", FETCH)
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise FedcliError(f"{path} ends within its header", FETCH)
    shape = [int(side) for side in np.frombuffer(data[4:start], ">u4")]
    if len(data) != start + np.prod(shape, dtype=object):
        raise FedcliError(
            f"{path} has {len(data) - start} bytes for {' x '.join(map(str, shape))}", FETCH
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _bounded(path: Path, opened: Callable) -> bytes:
    """All bytes of a file, unpacked. Raises FedcliError for more than any of these files has."""
    with opened(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise FedcliError(
            f"{path} holds more than {LARGEST >> 20} MiB, too much for these digits", FETCH
        )
    return data


def read_usps(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """libsvm's text, compressed: per line the digit plus 1, then place:value with values in [-1, 1]."""
    from sklearn.datasets import load_svmlight_file

    try:
        with io.BytesIO(_bounded(path, bz2.open)) as file:
            pixels, labels = load_svmlight_file(
                file, n_features=256, dtype=np.float32, zero_based=False
            )
    except (OSError, EOFError, ValueError, OverflowError) as error:
        raise FedcliError(f"{path} is not USPS in libsvm's format: {error}", FETCH) from None
    return _grey(path, (pixels.toarray() + 1) / 2), labels - 1


def read_usps_h5(path: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """An HDF5 file with groups train and test: data [N, 256] in [0, 1] and target [N]."""
    expected = {f"{part}/data": Column(NUMBERS, 2), f"{part}/target": Column(NUMBERS)}
    with open_hdf5(
        path, expected, packed=True, hint=f"expected train/data, train/target and of test; {FETCH}"
    ) as file:
        pixels, labels = (file[name][()] for name in expected)
    return _grey(path, pixels), labels


def _grey(path: Path, pixels: np.ndarray) -> np.ndarray:
    """Unit-range [N, 256] -> uint8 [N, 16, 16, 1]."""
    if not pixels.size:
        raise FedcliError(f"{path} holds no images", FETCH)
    numbers = pixels.dtype.kind in "iuf" and pixels.ndim == 2 and pixels.shape[1] == 256
    if not numbers or not (pixels.min() >= 0 and pixels.max() <= 1):
        raise FedcliError(f"{path} does not hold 256 pixels per image in the range of USPS", FETCH)
    return np.rint(pixels * 255).astype(np.uint8).reshape(-1, 16, 16, 1)


def read_svhn(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Matlab: X [32, 32, 3, N] and y [N, 1], in which 10 is the digit 0."""
    from scipy.io import loadmat, whosmat

    try:
        sizes = {name: math.prod(shape) for name, shape, _ in whosmat(path)}
        if max(sizes.get("X", 0), 8 * sizes.get("y", 0)) > LARGEST:
            raise FedcliError(
                f"{path} holds more than {LARGEST >> 20} MiB, too much for these digits", FETCH
            )
        file = loadmat(path, variable_names=["X", "y"])
        images, labels = file["X"], file["y"].reshape(-1)
    except KeyError as error:
        raise FedcliError(
            f"{path} has no variable {error}", "expected X and y, as in SVHN's format 2"
        ) from None
    except FedcliError:
        raise
    except Exception as error:  # a broken file raises ValueError, TypeError, zlib.error and more
        raise FedcliError(f"{path} is not a readable Matlab file: {error}", FETCH) from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        raise FedcliError(
            f"{path}: X is {images.dtype} {list(images.shape)}, expected uint8 [32, 32, 3, N]",
            FETCH,
        )
    if labels.dtype.kind not in "iuf":
        raise FedcliError(f"{path}: y is {labels.dtype}, expected numbers", FETCH)
    return np.moveaxis(images, 3, 0), np.where(labels == 10, 0, labels)


def _labels_of(file: str) -> str:
    """The file that holds the labels of a file of images: another one for MNIST only."""
    return file.replace("-images", "-labels").replace("idx3", "idx1")


def _in_folders(raw: Path, folder: str) -> Iterator[tuple[str, int, str]]:
    if not (files := photographs_in(raw / folder)):
        raise FedcliError(f"{raw / folder} has no images", "expected a folder per digit, 0 to 9")
    for path in files:
        digit = path.parent.name
        if len(digit) != 1 or digit not in "0123456789":
            raise FedcliError(f"{path.parent} is no digit", "expected folders 0 to 9")
        yield f"{digit}/{path.name}", int(digit), path.relative_to(raw).as_posix()


# the synthetic sample

EACH = {"train": 4, "test": 1}  # images of a digit, in each domain


def sample(folder: Path) -> None:
    """The four domains, each in its makers' format: idx.gz, libsvm's text, .mat and folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, each in EACH.items():
        labels = np.arange(10 * each, dtype=np.uint8) % 10
        _write_idx(folder / "MNIST" / "raw", part, labels)
        _write_usps(folder / PLACES["usps"][1][0][part == "test"], part, labels)
        _write_svhn(folder / f"{part}_32x32.mat", part, labels)
        name = PLACES["syn"][1][0][part == "test"]
        for i, n in enumerate(labels):
            image = picture(f"syn-{name}-{i}", int(n), height=24, width=24)
            save(folder / "syn" / name / str(n) / f"{n}_{i:05d}.jpg", image)


def _drawn(domain: str, part: str, labels: np.ndarray, side: int) -> np.ndarray:
    """uint8 [N, side, side], bright on black."""
    images = [
        picture(f"{domain}-{part}-{i}", int(n), height=side, width=side)
        for i, n in enumerate(labels)
    ]
    return 255 - np.stack(images).min(3)


def _write_idx(folder: Path, part: str, labels: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = "train" if part == "train" else "t10k"
    for kind, array in (
        ("images-idx3", _drawn("mnist", part, labels, 28)),
        ("labels-idx1", labels),
    ):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        packed = gzip.compress(head + array.tobytes(), mtime=0)  # no clock in the file
        (folder / f"{name}-{kind}-ubyte.gz").write_bytes(packed)


def _write_usps(path: Path, part: str, labels: np.ndarray) -> None:
    values = _drawn("usps", part, labels, 16).reshape(len(labels), 256) / 127.5 - 1
    lines = [
        f"{n + 1} " + " ".join(f"{k}:{v:.4g}" for k, v in enumerate(row, 1))
        for n, row in zip(labels, values)
    ]
    path.write_bytes(bz2.compress(("\n".join(lines) + "\n").encode()))


def _write_svhn(path: Path, part: str, labels: np.ndarray) -> None:
    from scipy.io import savemat

    images = [
        picture(f"svhn-{part}-{i}", int(n), height=32, width=32) for i, n in enumerate(labels)
    ]
    digits = np.where(labels == 0, 10, labels).astype(np.uint8)  # SVHN writes 10 for the digit 0
    savemat(path, {"X": np.stack(images, axis=3), "y": digits[:, None]}, do_compression=True)
    data = path.read_bytes()
    path.write_bytes(
        b"MATLAB 5.0 MAT-file, a sample of SVHN".ljust(116) + data[116:]
    )  # no clock in the file


SOURCE = Source(rows, decode, sample)
