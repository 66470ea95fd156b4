"""An archive from elsewhere as a folder: plain files alone, none outside it, no more than is declared."""

import gzip
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from ... import console
from ...errors import FedcliError
from ...io.files import sync
from ...io.locks import scratch

MOST_FILES = 10**6
BROKEN = zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, RuntimeError, NotImplementedError
HINT = "remove it and give the same command again"
Member = tuple[str, int, Callable[[], IO[bytes] | None]]  # name, bytes, how to open it


def unpack(archive: Path, target: Path, most: int) -> None:
    """The files of a zip or tar as a folder, without the one folder that holds them all.

    most: bytes that they may have together. Raises FedcliError for a broken archive, for more, for a link, and for a
    name that leads out of the folder; then there is no folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch(target) as beside:
        try:
            _unpack(archive, target, beside, most)
        except BROKEN as error:
            raise FedcliError(f"{archive} cannot be unpacked: {error}", HINT) from None
        sync(beside)
        inside = list(beside.iterdir())
        os.rename(inside[0] if len(inside) == 1 and inside[0].is_dir() else beside, target)


def _unpack(archive: Path, target: Path, beside: Path, most: int) -> None:
    with zipfile.ZipFile(archive) if zipfile.is_zipfile(archive) else tarfile.open(archive) as opened:
        members = _of_zip(opened) if isinstance(opened, zipfile.ZipFile) else _of_tar(opened)
        if (size := sum(length for _, length, _ in members)) > most or len(members) > MOST_FILES:
            sentence = f"{archive} would unpack to {size / 1e9:,.1f} GB in {len(members):,} files"
            raise FedcliError(f"{sentence}, more than its card declares", "do not use it; nothing was unpacked")
        for name, length, open_it in console.progress(members, label=f"unpacking to {target.name}", total=len(members)):
            path = beside / _inside(archive, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if (content := open_it()) is None:
                raise FedcliError(f"{archive} cannot be unpacked: {name!r} is no plain file", HINT)
            with content, path.open("xb") as file:
                shutil.copyfileobj(content, file, 2**20)
            if path.stat().st_size != length:
                raise EOFError(f"{name} has not the length that the archive says")


def _of_zip(opened: zipfile.ZipFile) -> list[Member]:
    infos = [i for i in opened.infolist() if not i.is_dir() and not i.filename.startswith("__MACOSX/")]
    return [(info.filename, info.file_size, partial(opened.open, info)) for info in infos]


def _of_tar(opened: tarfile.TarFile) -> list[Member]:
    infos = [info for info in opened if not info.isdir()]  # a link could lead out of the folder: nothing opens it
    return [(i.name, i.size, partial(opened.extractfile, i) if i.isreg() else lambda: None) for i in infos]


def _inside(archive: Path, name: str) -> PurePosixPath:
    """A member's name, relative and without `..`. Raises FedcliError."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
        raise FedcliError(f"{archive} holds the name {name!r}, which leads out of the folder", "do not use it")
    return path
