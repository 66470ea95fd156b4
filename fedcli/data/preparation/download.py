"""Files of a dataset from where its card says they are: resumed where a download broke off, and checked by their hash.

A file is written beside its name and renamed when it is whole; an archive is unpacked beside the folder that it becomes
and removed, but for one that was there before; download.json in the folder says what was received. A card's hash is the
one that its source publishes, or, where the card says so, that of copies which others received.
"""

import hashlib
import json
import os
import zipfile
import zlib
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from ... import console
from ...errors import FedcliError, HashError, UsageError, nearest
from ...io.files import read_text, sha256, sync, write_text
from ...io.locks import scratch

PIECE = 2**20  # bytes
PATIENCE = 60  # seconds without an answer
RANGE_REFUSED = 416  # all bytes are there, or more than all
RECORD = "download.json"
MD5 = 32  # hexadecimal digits
SMALL = 10**8  # bytes; the size of a smaller download is not announced


def download(name: str, card: dict[str, Any], folder: Path, wanted: list[str]) -> Path:
    """Put a dataset's files into a folder and return it; those that are there and whole are kept.

    wanted: paths of the card; none for all. Raises FedcliError, HashError, UsageError.
    """
    files = {file["path"]: file for file in card.get("download", [])}
    if not files:
        what = f"fedcli cannot download {name}: its card has no web address with a hash to check files by"
        raise FedcliError(what, _by_hand(name, card))
    if odd := [path for path in wanted if path not in files]:
        raise UsageError(f"{name} has no file {odd[0]!r} to download", nearest(odd[0], files))
    chosen = [files[path] for path in wanted or files]
    console.say(f"licence of {name}: {card['licence']}; cite: {card['citation']}")
    if (size := sum(file.get("bytes", 0) for file in chosen)) > SMALL:
        unpacked = (
            ", and as much again for the files in its archives" if any("unpack" in file for file in chosen) else ""
        )
        console.say(f"{size / 1e9:.1f} GB to download{unpacked}")
    for file in chosen:
        _get(file, folder)
    if rest := card.get("download_rest"):
        console.say(rest)
    return folder


def _get(file: dict[str, Any], folder: Path) -> None:
    """One file of a card: fetched, recorded, and unpacked where it is an archive."""
    path, published, record = folder / file["path"], file.get("md5") or file["sha256"], _received(folder)
    target = folder / file["unpack"] if "unpack" in file else None
    if target and target.is_dir():
        checked = "" if file["path"] in record else "; it was not checked, as it was not downloaded by this command"
        console.say(f"already there: {target}{checked}")
        _part(path).unlink(missing_ok=True)
        return
    if target and not _there(path, published):
        path = _fetched(file["url"], path, published)
    elif not target:
        fetch(file["url"], path, published)
    received = {"url": file["url"], "bytes": path.stat().st_size, "sha256": sha256(path)}
    text = json.dumps(record | {file["path"]: received}, indent=1, sort_keys=True)
    write_text(folder / RECORD, f"{text}\n")
    if target:
        unpack(path, target)
        _part(folder / file["path"]).unlink(missing_ok=True)


def _received(folder: Path) -> dict[str, Any]:
    """Files received by the folder's record; nothing where there is no record."""
    path = folder / RECORD
    if not path.exists():
        return {}
    try:
        record = json.loads(read_text(path))
    except ValueError:
        record = None
    keys = {"url", "bytes", "sha256"}
    if not isinstance(record, dict) or not all(isinstance(e, dict) and e.keys() == keys for e in record.values()):
        raise FedcliError(f"{path} is not what fedcli wrote", "remove it: files that are whole are not fetched again")
    return record


def unpack(archive: Path, target: Path) -> None:
    """The files of a zip as a folder, without the one folder that holds them all. Raises FedcliError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch(target) as beside:
        try:
            with zipfile.ZipFile(archive) as opened:
                names = [name for name in opened.namelist() if not name.startswith("__MACOSX/")]
                for name in console.progress(names, label=f"unpacking to {target.name}", total=len(names)):
                    opened.extract(name, beside)  # which leads no name out of the folder
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            hint = "remove it and give the same command again"
            raise FedcliError(f"{archive} cannot be unpacked: {error}", hint) from None
        sync(beside)
        inside = list(beside.iterdir())
        os.rename(inside[0] if len(inside) == 1 and inside[0].is_dir() else beside, target)


def _by_hand(name: str, card: dict[str, Any]) -> str:
    return (
        f"1. get it from {card['where']} (licence: {card['licence']}); "
        f"2. unpack it into a folder with {card['files'][0]['path']} in it; 3. fedcli prepare {name} --raw that folder"
    )


def fetch(url: str, path: Path, published: str) -> None:
    """Download one file, from where an earlier try broke off. Raises FedcliError, HashError.

    published: its MD5 or SHA-256, in hexadecimal digits.
    """
    if _there(path, published):
        console.say(f"already there: {path}")
        return
    part = _fetched(url, path, published)
    if _there(path, published):  # by now
        part.unlink()
    else:
        os.rename(part, path)


def _part(path: Path) -> Path:
    """The place of a file before it is whole, under a name that no browser gives."""
    return path.with_name(f".{path.name}.part")


def _there(path: Path, published: str) -> bool:
    """Tell whether a file is there already, and whole. Raises FedcliError where it is another one of that name."""
    if not path.exists():
        return False
    if path.is_file() and _hash(path, published) == published:
        return True
    raise FedcliError(
        f"{path} is there and is not the file that was published: its {_kind(published)} differs",
        "move it away, or give another folder: nothing is overwritten",
    )


def _fetched(url: str, path: Path, published: str) -> Path:
    """The whole part of a file, checked."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url} is no web address", "mend the dataset's card")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    try:
        _append(url, part, path.name)
    except (OSError, HTTPException) as error:  # URLError and a connection that breaks are among them
        if isinstance(error, OSError) and not isinstance(error, (URLError, ConnectionError, TimeoutError)):
            raise  # of this machine's disk
        got = part.stat().st_size if part.exists() else 0
        kept = f"{got:,} bytes are kept: " if got else "if this machine is connected to the internet, "
        cause = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise FedcliError(f"{url} cannot be downloaded: {cause}", f"{kept}give the same command again") from None
    if _hash(part, published) != published:
        part.unlink()
        what = f"{url} is not the file that was published: its {_kind(published)} differs"
        raise HashError(what, "try again later, or by hand")
    return part


def _kind(published: str) -> str:
    """MD5, which most sources publish, finds damage and not malice."""
    return "MD5" if len(published) == MD5 else "SHA-256"


def _hash(path: Path, like: str) -> str:
    """The hash of a file, of the kind that another one is."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _kind(like).lower().replace("-", "")).hexdigest()


def _append(url: str, part: Path, name: str) -> None:
    """Fetch what is missing of a file; from its start where the server cannot go on in the middle."""
    start = part.stat().st_size if part.exists() else 0
    asked = {"User-Agent": "fedcli", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        answer: HTTPResponse = urlopen(Request(url, headers=asked), timeout=PATIENCE)  # noqa: S310 - http alone
    except HTTPError as error:
        error.close()
        if error.code == RANGE_REFUSED and start:
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        missing = int(answer.headers.get("Content-Length") or 0)
        pieces = iter(lambda: answer.read(PIECE), b"")
        total = -(-missing // PIECE)
        for piece in console.progress(pieces, label=f"{name}, MiB", total=total) if total else pieces:
            file.write(piece)
            missing -= len(piece)
        file.flush()
        os.fsync(file.fileno())
    if missing > 0:
        raise ConnectionError(f"the connection broke off {missing:,} bytes before the end")
