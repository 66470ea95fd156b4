"""Digits in four domains, MNIST, USPS, SVHN and SYN, in their makers' files; any two will do.

Sources: MNIST, LeCun et al. 1998, idx files; USPS, Hull 1994, libsvm's text or an HDF5 file; SVHN,
Netzer et al. 2011, Matlab files; SYN, Roy et al., arXiv 1807.10108, a folder per digit. Train and
test are the makers' own, as in FedHEAL (arXiv 2405.16585), whose clients are
`fedcli partition --by domain --portion 0.01`. FedHEAL enlarges by bilinear interpolation; fedcli's
cubics are a little sharper. The containers' images are held in memory as bytes, about 360 MB with
all four domains, once for all processes where these are forked.
"""

import bz2
import gzip
import io
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy import ndarray

from ... import console
from ...errors import FedcliError
from ...io.hdf5 import NUMBERS, ExpectedData, open_hdf5
from ..pool import Row
from ..prepare_options import PrepareOptions
from .division import divided
from .drawing import picture, pictures, save
from .formats.photographs import photographs_in, read_rgb
from .source import Listing, Source, stamp

DOMAINS = ["mnist", "usps", "svhn", "syn"]
FOLDERS = {  # of a domain; the first that is there counts
    "mnist": ("MNIST/raw", "mnist", "MNIST", "."),
    "usps": (".", "usps", "USPS"),
    "svhn": (".", "svhn", "SVHN"),
    "syn": ("syn", "SYN", "synthetic_digits", "data/synthetic_digits", "syn/synthetic_digits"),
}
IDX = "-idx3-ubyte.gz", "-idx3-ubyte", ".idx3-ubyte.gz", ".idx3-ubyte"  # ends of MNIST's images
FILES = {  # a train and a test file or folder of a domain; the first that are there count
    "mnist": [(f"train-images{end}", f"t10k-images{end}") for end in IDX],
    "usps": [("usps.bz2", "usps.t.bz2"), ("usps.h5", "usps.h5")],
    "svhn": [("train_32x32.mat", "test_32x32.mat")],
    "syn": [("train", "val"), ("imgs_train", "imgs_valid")],
}
PARTS = "train", "test"
FETCH = "download it again"
LARGEST = 2**29  # bytes of a container, unpacked; the largest, SVHN's, has 225 MB
Arrays = tuple[ndarray, ndarray]  # images and labels


def rows(raw: Path, choices: PrepareOptions) -> Listing:
    """Every image of every domain that is there."""
    files_by_domain = _files_by_domain(raw)
    images = []
    tables = set()
    for position, (domain, files) in enumerate(files_by_domain.items()):
        groups = {"domain": position}
        for part, file in zip(PARTS, files, strict=True):
            if domain == "syn":
                members = _in_folders(raw, file)
            else:
                members = _in_container(raw, file, domain, part)
                tables |= {file, _labels_of(file)}
            for name, label, source in members:
                row_id = f"{domain}/{part}/{name}"
                is_test = part == "test"
                images.append(Row(row_id, label, source, is_test, groups))
    attributes = {"domain": list(files_by_domain)}
    return divided(Listing(images, attributes, tables=sorted(tables)), choices)


def _files_by_domain(raw: Path) -> dict[str, tuple[str, str]]:
    """The train and test file of each domain that is there.

    Raises FedcliError for fewer than two.
    """
    files = {}
    absent = []
    for domain in DOMAINS:
        pair = locate(raw, domain)
        if pair:
            files[domain] = pair
        else:
            absent.append(domain)
    if len(files) < 2:
        count = f"only {next(iter(files))}" if files else "none"
        domains_text = ", ".join(DOMAINS)
        sentence = f"{raw} has {count} of {domains_text}"
        raise FedcliError(sentence, "it takes two; see fedcli datasets digits")
    if absent:
        absent_text = " and no ".join(absent)
        present_text = ", ".join(files)
        console.say(f"{raw} has no {absent_text}: the domains are {present_text}")
    return files


def _in_container(
    raw: Path,
    file: str,
    domain: str,
    part: str,
) -> Iterator[tuple[str, int, str]]:
    """(name, digit, source) of each image."""
    _, digits = contents(raw / file, domain, part)
    for i, digit in enumerate(digits):
        row_id = f"{i:05d}"
        yield row_id, int(digit), f"{file}#{part}-{i}"


def _in_folders(raw: Path, folder: str) -> Iterator[tuple[str, int, str]]:
    """(name, digit, source) of each image."""
    files = photographs_in(raw / folder)
    if not files:
        raise FedcliError(f"{raw / folder} has no images", "expected a folder per digit, 0 to 9")
    for path in files:
        digit = path.parent.name
        if len(digit) != 1 or digit not in "0123456789":
            raise FedcliError(f"{path.parent} is no digit", "expected folders 0 to 9")
        row_id = f"{digit}/{path.name}"
        yield row_id, int(digit), path.relative_to(raw).as_posix()


def decode(raw: Path, row: Row, choices: PrepareOptions) -> ndarray:
    domain, part, _ = row.id.split("/", 2)
    if domain == "syn":
        return read_rgb(raw / row.source)
    file, _, member = row.source.rpartition("#")
    images, _ = contents(raw / file, domain, part)
    position = int(member.rpartition("-")[2])
    return np.ascontiguousarray(images[position])


def locate(raw: Path, domain: str) -> tuple[str, str] | None:
    """A domain's train and test file or folder, relative to raw; None without either.

    Raises FedcliError where one of the two is missing.
    """
    for folder in FOLDERS[domain]:
        for train, test in FILES[domain]:
            has_train = (raw / folder / train).exists()
            has_test = (raw / folder / test).exists()
            if has_train and has_test:
                return Path(folder, train).as_posix(), Path(folder, test).as_posix()
            if has_train or has_test:
                present, missing = (train, test) if has_train else (test, train)
                sentence = f"{raw / folder} has {present}, but no {missing}"
                raise FedcliError(sentence, f"get the rest of {domain}")
    return None


def contents(path: Path, domain: str, part: str) -> Arrays:
    """uint8 [N, H, W, 1 or 3] and int64 [N], the digits, of one part. Raises FedcliError."""
    return _contents(path, domain, part, stamp(path))


@lru_cache(maxsize=2 * len(DOMAINS))
def _contents(path: Path, domain: str, part: str, _: tuple[int, int]) -> Arrays:
    if domain == "mnist":
        images = read_idx(path)[..., None]
        labels = read_idx(_labels_path(path))
    elif domain == "svhn":
        images, labels = read_svhn(path)
    elif path.suffix == ".h5":
        images, labels = read_usps_h5(path, part)
    else:
        images, labels = read_usps(path)
    _check_arrays(path, images, labels)
    is_digit = np.isin(labels, range(10))
    odd = labels[~is_digit].tolist()  # before whole numbers are made of them
    if odd:
        sentence = f"{_labels_path(path)} has the digit {odd[0]:g}, expected 0 to 9"
        raise FedcliError(sentence, FETCH)
    return images, labels.astype(np.int64)


def _check_arrays(path: Path, images: ndarray, labels: ndarray) -> None:
    """Refuse what is not images [N, H, W, C] that have pixels and one number per image."""
    if images.ndim != 4 or 0 in images.shape:
        raise FedcliError(f"{path} holds an array of {_sides(images.shape)}, no images", FETCH)
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        kind = f"{labels.dtype} {list(labels.shape)}"
        sentence = f"{_labels_path(path)}: the labels are {kind}, not one digit each"
        raise FedcliError(sentence, FETCH)
    if len(images) != len(labels):
        counts = f"{len(images)} images and {len(labels)} labels"
        raise FedcliError(f"{path} has {counts}", FETCH)


def _sides(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def read_idx(path: Path) -> ndarray:
    """uint8 array of an idx file, compressed or not.

    It holds two zeros, the type 8, the number of sides, the sides and the bytes.
    """
    if not path.is_file():
        raise FedcliError(f"{path.parent} has no {path.name}", "get the rest of MNIST")
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        data = _bounded(path, opener)
    except (OSError, EOFError, zlib.error) as error:
        raise FedcliError(f"{path} is not a readable gzip file: {error}", FETCH) from None
    if data[:3] != b"\0\0\x08" or len(data) < 4:
        raise FedcliError(f"{path} is no idx file of bytes", FETCH)
    side_count = data[3]
    if side_count not in (1, 3):
        sentence = f"{path} has {side_count} sides, expected 3 of images or 1 of labels"
        raise FedcliError(sentence, FETCH)
    start = 4 + 4 * side_count
    if len(data) < start:
        raise FedcliError(f"{path} ends within its header", FETCH)
    stored_sides = np.frombuffer(data[4:start], ">u4")
    shape = [int(side) for side in stored_sides]
    size = len(data) - start
    if size != math.prod(shape):
        raise FedcliError(f"{path} has {size} bytes for {_sides(shape)}", FETCH)
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _bounded(path: Path, open_packed: Callable) -> bytes:
    """All bytes of a file, unpacked. Raises FedcliError for more than any of these files has."""
    with open_packed(path, "rb") as file:
        data = file.read(LARGEST + 1)
    _check_size(path, len(data))
    return data


def _check_size(path: Path, size: int) -> None:
    if size > LARGEST:
        sentence = f"{path} holds more than {LARGEST >> 20} MiB, too much for these digits"
        raise FedcliError(sentence, FETCH)


def read_usps(path: Path) -> Arrays:
    """The images and digits of libsvm's text, compressed.

    A line is the digit plus 1, then place:value with values in [-1, 1].
    """
    from sklearn.datasets import load_svmlight_file

    layout = {"n_features": 256, "dtype": np.float32, "zero_based": False}
    try:
        with io.BytesIO(_bounded(path, bz2.open)) as file:
            pixels, labels = load_svmlight_file(file, **layout)
    except (OSError, EOFError, ValueError, OverflowError) as error:
        raise FedcliError(f"{path} is not USPS in libsvm's format: {error}", FETCH) from None
    greys = (pixels.toarray() + 1) / 2
    return _grey(path, greys), labels - 1


def read_usps_h5(path: Path, part: str) -> Arrays:
    """The images and digits of an HDF5 file.

    It has the groups train and test: data [N, 256] in [0, 1] and target [N].
    """
    data = f"{part}/data"
    target = f"{part}/target"
    columns = {data: ExpectedData(NUMBERS, 2), target: ExpectedData(NUMBERS)}
    hint = f"expected train/data, train/target and of test; {FETCH}"
    with open_hdf5(path, columns, packed=True, hint=hint) as file:
        pixels = file[data][()]
        labels = file[target][()]
    return _grey(path, pixels), labels


def _grey(path: Path, pixels: ndarray) -> ndarray:
    """Unit-range [N, 256] -> uint8 [N, 16, 16, 1]."""
    if not pixels.size:
        raise FedcliError(f"{path} holds no images", FETCH)
    is_table = pixels.ndim == 2 and pixels.shape[1] == 256
    is_fit = is_table and pixels.dtype.kind in "iuf"
    if not is_fit or not (pixels.min() >= 0 and pixels.max() <= 1):
        raise FedcliError(f"{path} does not hold 256 pixels per image in the range of USPS", FETCH)
    greys = np.rint(pixels * 255).astype(np.uint8)
    return greys.reshape(-1, 16, 16, 1)


def read_svhn(path: Path) -> Arrays:
    """The images and digits of a Matlab file: X [32, 32, 3, N] and y [N, 1], where 10 is 0."""
    images, labels = _read_mat(path)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2] != 3:
        kind = f"{images.dtype} {list(images.shape)}"
        raise FedcliError(f"{path}: X is {kind}, expected uint8 [32, 32, 3, N]", FETCH)
    if labels.dtype.kind not in "iuf":
        raise FedcliError(f"{path}: y is {labels.dtype}, expected numbers", FETCH)
    digits = np.where(labels == 10, 0, labels)
    return np.moveaxis(images, 3, 0), digits


def _read_mat(path: Path) -> Arrays:
    from scipy.io import loadmat, whosmat

    try:
        sizes = {name: math.prod(shape) for name, shape, _ in whosmat(path)}
        bytes_of_images = sizes.get("X", 0)
        bytes_of_labels = 8 * sizes.get("y", 0)
        _check_size(path, max(bytes_of_images, bytes_of_labels))
        file = loadmat(path, variable_names=["X", "y"])
        return file["X"], file["y"].reshape(-1)
    except KeyError as error:
        hint = "expected X and y, as in SVHN's format 2"
        raise FedcliError(f"{path} has no variable {error}", hint) from None
    except FedcliError:
        raise
    except Exception as error:  # a broken file raises ValueError, TypeError, zlib.error and more
        raise FedcliError(f"{path} is not a readable Matlab file: {error}", FETCH) from None


def _labels_path(path: Path) -> Path:
    return path.with_name(_labels_of(path.name))


def _labels_of(file: str) -> str:
    """The file that holds the labels of a file of images: another one for MNIST only."""
    return file.replace("-images", "-labels").replace("idx3", "idx1")


# the synthetic sample

EACH = {"train": 4, "test": 1}  # images of a digit, in each domain


def sample(folder: Path) -> None:
    """The four domains, each in its makers' format: idx.gz, libsvm's text, .mat and folders."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (part, count) in enumerate(EACH.items()):
        labels = np.arange(10 * count, dtype=np.uint8) % 10
        mnist, usps, svhn, syn = (FILES[domain][0][i] for domain in DOMAINS)
        _write_mnist(folder / "MNIST/raw" / mnist, part, labels)
        _write_usps(folder / usps, part, labels)
        _write_svhn(folder / svhn, part, labels)
        for n, label in enumerate(labels):
            digit = int(label)
            image = picture(f"syn-{syn}-{n}", digit, height=24, width=24)
            digit_folder = folder / "syn" / syn / str(label)
            path = digit_folder / f"{label}_{n:05d}.jpg"
            save(path, image)


def _bright(
    domain: str,
    part: str,
    labels: ndarray,
    side: int,
) -> ndarray:
    """uint8 [N, side, side], bright on black."""
    colours = pictures(f"{domain}-{part}", labels, side)
    return 255 - colours.min(3)


def _write_mnist(path: Path, part: str, labels: ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_idx(path, _bright("mnist", part, labels, 28))
    _write_idx(_labels_path(path), labels)


def _write_idx(path: Path, array: ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim])
    sides_format = f">{array.ndim}I"
    sides = struct.pack(sides_format, *array.shape)
    content = head + sides + array.tobytes()
    packed = gzip.compress(content, mtime=0)  # no clock in the file
    path.write_bytes(packed)


def _write_usps(path: Path, part: str, labels: ndarray) -> None:
    images = _bright("usps", part, labels, 16)
    greys = images.reshape(len(labels), 256)
    values = greys / 127.5 - 1
    text = ""
    for label, row in zip(labels, values, strict=True):
        cells = [f"{k}:{value:.4g}" for k, value in enumerate(row, 1)]
        cells_text = " ".join(cells)
        text += f"{label + 1} {cells_text}\n"
    path.write_bytes(bz2.compress(text.encode()))


def _write_svhn(path: Path, part: str, labels: ndarray) -> None:
    from scipy.io import savemat

    images = pictures(f"svhn-{part}", labels, 32)
    svhn_labels = np.where(labels == 0, 10, labels)
    digits = svhn_labels.astype(np.uint8)  # SVHN writes 10 for the digit 0
    stored_images = np.moveaxis(images, 0, 3)
    arrays = {"X": stored_images, "y": digits[:, None]}
    savemat(path, arrays, do_compression=True)
    head = b"MATLAB 5.0 MAT-file, a sample of SVHN".ljust(116)  # no clock in the file
    path.write_bytes(head + path.read_bytes()[116:])


SOURCE = Source(rows, decode, sample)
