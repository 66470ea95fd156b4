"""HDF5 files, read as if a stranger had written them and written so that a failed write raises
instead of crashing.

HDF5 can name bytes outside of its file (external data, links, virtual datasets), lead in circles,
and promise more numbers than it holds. Nothing that fedcli writes does, so whatever does is refused
before a number of it is read.
"""

import errno
import io
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from ..errors import FedcliError
from ..provenance import words_of
from .files import may_pass, regular, replacing

DEEPEST = 16  # groups in one another
MOST = 1_000_000  # datasets
PACKED = 1032  # to one: the most that deflate can compress
LARGE = 256_000_000  # bytes; so much is made sure of before any is written
AGAIN = "run the stage that wrote it again"
VARIED = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
)  # of a damaged byte
NUMBERS, WHOLE, TEXT = "iuf", "iu", "S"


@dataclass(frozen=True)
class ExpectedData:
    """Requirements on a dataset."""

    kinds: str = "b" + NUMBERS  # letters of NumPy for its type: b, i, u, f, S
    rank: int | tuple[int, ...] | None = 1  # of its shape, or those that it may have; None for any
    size: int = 0  # bytes of a number; 0 for any
    needed: bool = True  # whether a file without it is refused; what a pattern stands for never is


class Datasets(Mapping[str, h5py.Dataset]):
    """Datasets by name, each opened when it is asked for: an open one takes 20 KB, and there may be
    many.
    """

    def __init__(self, file: h5py.File, names: list[str]):
        self._file = file
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> h5py.Dataset:
        if name not in self._names:
            raise KeyError(name)
        return self._file[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


ANYTHING = {"*": ExpectedData("bS" + NUMBERS, None)}
TENSORS = {"*": ExpectedData(rank=None)}


@contextmanager
def open_hdf5(
    path: Path,
    expected: Mapping[str, ExpectedData] = ANYTHING,
    *,
    packed: bool = False,
    hint: str = AGAIN,
) -> Iterator[Datasets]:
    """The datasets of an HDF5 file by name, to be read in the block.

    expected: a dataset's name, or a pattern such as train/*, -> what it must be; others are not
    looked at.
    packed: whether datasets may be compressed, which those of fedcli are not.
    Raises FedcliError where the file is absent, damaged, or not as expected.
    """
    regular(path, "run the stage that writes it again")
    with ExitStack() as stack:
        try:
            # finished files do not change, so no locks, which NFS may not have
            file = stack.enter_context(h5py.File(path, "r", locking=False))
            names = _checked(
                path,
                _datasets(path, file, hint),
                expected,
                PACKED if packed else 1,
                hint,
            )
        except VARIED as error:
            raise _unreadable(path, error, hint) from None
        try:
            yield Datasets(file, names)
        except (OSError, RuntimeError) as error:
            raise _unreadable(path, error, hint) from None


def _unreadable(path: Path, error: Exception, hint: str) -> Exception:
    """The error to raise for one while path was read; one of another file, which was written
    meanwhile, stays.
    """
    if isinstance(error, OSError) and error.errno and may_pass(error):
        return OSError(
            error.errno,
            os.strerror(error.errno),
            error.filename or str(path),
        )
    if isinstance(error, OSError) and error.filename:
        return error
    sentence = f"{path} is not a readable HDF5 file: {words_of(error, 160)}"
    return FedcliError(sentence, f"it may be damaged; {hint}")


def _datasets(
    path: Path,
    file: h5py.File,
    hint: str,
) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset that hard links lead to. Raises FedcliError for any other link, and for
    circles.
    """
    waiting = [("", file["/"], 0)]
    visited = {h5py.h5o.get_info(file.id).addr}
    while waiting:
        prefix, group, depth = waiting.pop()
        for name in group:
            full = prefix + name
            link = group.id.links.get_info(name.encode("utf-8", "surrogateescape"))
            if link.type != h5py.h5l.TYPE_HARD:
                raise FedcliError(f"{path}: {full!r} is a link, which fedcli does not follow", hint)
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in visited or len(visited) > MOST or depth == DEEPEST:
                fault = "is linked twice, or is too deep or one of too many"
                raise FedcliError(f"{path}: {full!r} {fault}", hint)
            visited.add(address)
            if isinstance(item, h5py.Dataset):
                yield full, item
            elif isinstance(item, h5py.Group):
                waiting.append((f"{full}/", item, depth + 1))
            else:
                raise FedcliError(f"{path}: {full!r} is neither a dataset nor a group", hint)


def _checked(
    path: Path,
    datasets: Iterable[tuple[str, h5py.Dataset]],
    expected: Mapping[str, ExpectedData],
    packed: int,
    hint: str,
) -> list[str]:
    """Names of the expected ones among the datasets, each as it must be."""
    names = set()
    patterns = [name for name in expected if "*" in name]
    checked = []
    for name, data in datasets:
        names.add(name)
        column = expected.get(name)
        for pattern in patterns:
            if column is None and fnmatchcase(name, pattern):
                column = expected[pattern]
        fault = _fault(name, data, column, packed)
        if fault:
            raise FedcliError(f"{path}: {fault}", hint)
        if column is not None:
            checked.append(name)
    for name, column in expected.items():
        if column.needed and "*" not in name and name not in names:
            raise FedcliError(f"{path} has no dataset {name!r}", hint)
    return checked


def _fault(
    name: str,
    data: h5py.Dataset,
    column: ExpectedData | None,
    packed: int,
) -> str:
    """The reason why a dataset is refused, "" where there is none. column: as it must be."""
    created = data.id.get_create_plist()
    if created.get_external_count() or created.get_layout() == h5py.h5d.VIRTUAL:
        return f"the numbers of {name!r} lie outside of the file"
    if column is None:
        return ""
    if not _fits(data, column):
        return f"{name} is {data.dtype} {list(data.shape or ())}, expected {_words(column)}"
    if packed == 1 and not data.dtype.isnative:  # torch takes no other, and fedcli writes none
        return f"the bytes of {name}'s numbers are in another order than this machine's"
    chunk = 0  # bytes that reading one number allocates
    if data.chunks and data.nbytes:
        chunk = int(np.prod(data.chunks, dtype=object)) * data.dtype.itemsize
    if max(data.nbytes, chunk) > packed * data.id.get_storage_size():
        return f"{name} promises {data.nbytes:,} bytes, more than the file holds"
    return ""


def _words(column: ExpectedData) -> str:
    kinds = {
        TEXT: "texts",
        WHOLE: "whole numbers",
        "u": "whole numbers",
        "f": "fractions",
    }
    words = kinds.get(column.kinds, "numbers")
    if column.size:
        words += f" of {column.size} byte"
    ranks = " or ".join(map(str, _ranks(column)))
    if ranks:
        words += f" with {ranks} {'axis' if ranks == '1' else 'axes'}"
    return words


def _ranks(column: ExpectedData) -> tuple[int, ...]:
    return (column.rank,) if isinstance(column.rank, int) else column.rank or ()


def _fits(data: h5py.Dataset, column: ExpectedData) -> bool:
    if data.shape is None or data.dtype.kind not in column.kinds:
        return False
    return data.ndim in (_ranks(column) or (data.ndim,)) and column.size in (0, data.dtype.itemsize)


def below(datasets: Mapping[str, h5py.Dataset], group: str) -> dict[str, h5py.Dataset]:
    """The datasets of a group, by their names inside it."""
    return {
        name.removeprefix(f"{group}/"): data
        for name, data in datasets.items()
        if name.startswith(f"{group}/")
    }


@contextmanager
def create_hdf5(path: Path, size: int = 0) -> Iterator[h5py.File]:
    """A new HDF5 file at path, where none may be yet. size: about how many bytes will be
    written.
    """
    with (
        path.open("x+b") as out,
        _written(out, path, size) as file,
    ):  # of thousands of datasets HDF5 reads some again
        yield file


@contextmanager
def replace_hdf5(path: Path, size: int = 0) -> Iterator[h5py.File]:
    """An HDF5 file that takes the place of path when it is whole: written beside, fsync,
    renamed.
    """
    with replacing(path) as out, _written(out, Path(out.name), size) as file:
        yield file


@contextmanager
def extend_hdf5(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file to which datasets are added where it is."""
    with path.open("r+b") as out, _written(out, path, mode="r+") as file:
        yield file


@contextmanager
def _written(
    out: BinaryIO,
    path: Path,
    size: int = 0,
    mode: str = "w",
) -> Iterator[h5py.File]:
    """An open file as HDF5. Raises OSError, naming path, for the first write that failed."""
    output = _Output(out.fileno(), path)
    try:
        output.reserve(size)
        with h5py.File(output, mode) as file:
            yield file
    except (OSError, RuntimeError):  # HDF5 may stumble over what was not written
        if output.failure is None:
            raise
    if output.failure:
        raise output.failure


def _check_room(handle: int, size: int) -> None:
    """Raises OSError where the disk of an empty file has no room for so many bytes."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        os.ftruncate(handle, 0)
        return
    disk = os.fstatvfs(handle)  # macOS
    if size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Output(io.FileIO):
    """The file of HDF5, which is never told that a write failed, or it would crash: the first error
    is kept here.

    It has a handle of its own: where an error or a signal stopped the closing, HDF5 closes it
    later.
    """

    def __init__(self, handle: int, path: Path):
        duplicate = os.dup(handle)
        super().__init__(duplicate, "r+b", closefd=False)
        weakref.finalize(self, os.close, duplicate)
        self.path = path
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        unwritten = memoryview(data)
        with self._kept():
            while len(unwritten):
                # a nearly full disk takes a part before it raises
                unwritten = unwritten[super().write(unwritten) :]
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        with self._kept():
            super().truncate(size)
        return size or 0

    def flush(self) -> None:
        """Nothing is buffered here."""

    def reserve(self, size: int) -> None:
        """Look now, and not after hours of work, whether the disk has room for a large file."""
        if size > LARGE:
            with self._kept():
                _check_room(self.fileno(), size)
            if self.failure:
                raise self.failure

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = str(self.path)
            self.failure = self.failure or error
