"""Archives from elsewhere, unpacked beside the folder that they become: plain files alone, none
outside of it.

All that an archive claims is bounded before it takes memory or disk: its files, their bytes, the
directory of a zip and the headers of a tar, which may be compressed a thousandfold.
"""

import bz2
import errno
import gzip
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

from ... import console
from ...errors import FedcliError
from ...io.files import sync
from ...io.locks import scratch

MOST_FILES = 200_000  # also folders and links
LONGEST_DIRECTORY = 2**25  # bytes of a zip's list of files
LONGEST_HEADER = 2**20  # bytes of a tar's header of one file
LONGEST_PADDING = 2**28  # bytes behind the last file of a tar
SHOWN_EVERY = 500  # files
HINT = "remove it and give the same command again"
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OverflowError,
)
UNFIT_NAMES = errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL
COMPRESSED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}


class Member(NamedTuple):
    """A file of an archive; open returns None where it is no plain file."""

    name: str
    size: int
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, target: Path, most_bytes: int) -> None:
    """The files of a zip or tar as a folder, without the one folder that holds them all.

    most_bytes: bytes that they may have together. Raises FedcliError for a broken or empty archive,
    for more, for a link, and for a name that leads out of the folder; then there is no folder.
    """
    with scratch(target) as folder:
        try:
            count = _unpack(archive, target, folder, most_bytes)
        except BROKEN as error:
            raise _unusable(archive, str(error)) from None
        except OSError as error:
            if error.errno is not None:
                raise
            raise _unusable(archive, str(error)) from None  # of a damaged gzip or bzip2 file
        if not count:
            raise _unusable(archive, "it holds no file")
        sync(folder)
        entries = list(folder.iterdir())
        whole = folder
        if len(entries) == 1 and entries[0].is_dir():
            whole = entries[0]
        os.rename(whole, target)


def _unusable(archive: Path, reason: str) -> FedcliError:
    return FedcliError(f"{archive} cannot be unpacked: {reason}", HINT)


def _unpack(archive: Path, target: Path, folder: Path, most_bytes: int) -> int:
    """The number of files that were written into the folder."""
    unpacked = 0
    count = 0
    for member in _members(archive):
        unpacked += member.size
        if unpacked > most_bytes:
            sentence = f"{archive} would unpack to more than {most_bytes / 1e9:,.1f} GB"
            raise FedcliError(
                f"{sentence}, more than its card declares", "do not use it; nothing was unpacked"
            )
        _write(archive, member, folder)
        count += 1
        if count % SHOWN_EVERY == 0:
            console.status(f"unpacking to {target.name}: {count:,} files")
    return count


def _write(archive: Path, member: Member, folder: Path) -> None:
    path = folder / _inside(archive, member.name)
    content = member.open()
    if content is None:
        raise _unusable(archive, f"{member.name!r} is no plain file")
    with content:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("xb")
        except OSError as error:
            if error.errno not in UNFIT_NAMES:
                raise
            reason = "is there twice" if error.errno == errno.EEXIST else error.strerror
            raise _unusable(archive, f"{member.name[:100]!r}: {reason}") from None
        with file:
            shutil.copyfileobj(content, file, LONGEST_HEADER)
    if path.stat().st_size != member.size:
        raise EOFError(f"{member.name} does not have the length that the archive states")


def _members(archive: Path) -> Iterator[Member]:
    """The files of an archive, as they are reached. Raises FedcliError for too many."""
    if zipfile.is_zipfile(archive):
        yield from _of_zip(archive)
        return
    with archive.open("rb") as file:
        start = file.read(4)
    opener: Callable[..., Any] = open
    for magic, decompress in COMPRESSED.items():
        if start.startswith(magic):
            opener = decompress
    with opener(archive, "rb") as file:
        yield from _of_tar(archive, file)


def _of_zip(archive: Path) -> Iterator[Member]:
    with archive.open("rb") as file:
        reads = cast(IO[bytes], _ShortReads(file, LONGEST_DIRECTORY))
        opened = zipfile.ZipFile(reads)
        infos = opened.infolist()
        _check_count(archive, len(infos))
        for info in infos:
            if not info.is_dir() and not info.filename.startswith("__MACOSX/"):
                yield Member(info.filename, info.file_size, partial(opened.open, info))


def _of_tar(archive: Path, file: IO[bytes]) -> Iterator[Member]:
    reads = _ShortReads(file, LONGEST_HEADER)
    count = 0
    with tarfile.open(fileobj=cast(IO[bytes], reads), mode="r:") as opened:
        members: Any = opened
        while (info := members.next()) is not None:
            members.members = []  # else the headers of all files stay in memory
            count += 1
            _check_count(archive, count)
            if info.isreg():
                yield Member(info.name, info.size, partial(opened.extractfile, info))
            elif not info.isdir():  # a link could lead out of the folder: nothing opens it
                yield Member(info.name, 0, lambda: None)
    if reads.last.strip(b"\0"):  # tarfile takes a damaged header for the end
        raise tarfile.ReadError(f"a header behind {count:,} files is damaged")
    _read_to_end(file)


def _read_to_end(file: IO[bytes]) -> None:
    """Read what pads a tar, behind which a compressed file has its checksum."""
    for _ in range(LONGEST_PADDING // LONGEST_HEADER):
        if not file.read(LONGEST_HEADER):
            return
    raise tarfile.ReadError(f"more than {LONGEST_PADDING:,} bytes come behind its end")


def _check_count(archive: Path, count: int) -> None:
    if count > MOST_FILES:
        raise FedcliError(
            f"{archive} holds more than {MOST_FILES:,} files", "do not use it; nothing was unpacked"
        )


class _ShortReads:
    """A file of which no more is read at a time: the length of a header is whatever an archive
    says."""

    def __init__(self, file: IO[bytes], longest: int):
        self.file = file
        self.longest = longest
        self.last = b""  # what was read last
        self.seek = file.seek
        self.tell = file.tell
        self.close = file.close
        self.seekable = file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self.longest:
            raise tarfile.ReadError(f"a header of {size:,} bytes is longer than {self.longest:,}")
        self.last = self.file.read(size)
        return self.last


def _inside(archive: Path, name: str) -> PurePosixPath:
    """A member's name, relative and without `..`. Raises FedcliError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise FedcliError(
            f"{archive} holds the name {name!r}, which leads out of the folder", "do not use it"
        )
    return path
