"""Files of a dataset from where its card says they are: resumed where a download broke off, and checked by their hash.

A file is written beside its name and renamed when it is whole. A card's hash is the one that its source publishes.
"""

import hashlib
import os
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from .. import console
from ..errors import FedcliError, HashError, UsageError, nearest

PIECE = 2**20  # bytes
PATIENCE = 60  # seconds without an answer
RANGE_REFUSED = 416  # all bytes are there, or more than all


def download(name: str, card: dict[str, Any], folder: Path, wanted: list[str]) -> Path:
    """Put a dataset's files into a folder and return it; those that are there and whole are kept.

    wanted: paths of the card; none for all. Raises FedcliError, HashError, UsageError.
    """
    files = {file["path"]: file for file in card.get("download", [])}
    if not files:
        raise FedcliError(f"fedcli cannot download {name} ({card['licence']})", _by_hand(name, card))
    if odd := [path for path in wanted if path not in files]:
        raise UsageError(f"{name} has no file {odd[0]!r} to download", nearest(odd[0], files))
    console.say(f"licence of {name}: {card['licence']}; cite: {card['citation']}")
    for path in wanted or files:
        fetch(files[path]["url"], folder / path, files[path]["md5"])
    if rest := card.get("download_rest"):
        console.say(rest)
    return folder


def _by_hand(name: str, card: dict[str, Any]) -> str:
    return (
        f"1. get it from {card['where']}; 2. unpack it into a folder with {card['files'][0]['path']} in it; "
        f"3. fedcli prepare {name} --raw that folder"
    )


def fetch(url: str, path: Path, md5: str) -> None:
    """Download one file, from where an earlier try broke off. Raises FedcliError, HashError."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url} is no web address", "mend the dataset's card")
    if path.is_file() and digest(path) == md5:
        console.say(f"already there: {path}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        _append(url, part)
    except (OSError, HTTPException) as error:  # URLError and a connection that breaks are among them
        if isinstance(error, OSError) and not isinstance(error, (URLError, ConnectionError, TimeoutError)):
            raise  # of this machine's disk
        got = part.stat().st_size if part.exists() else 0
        hint = f"{got:,} bytes are kept: give the same command again to go on"
        raise FedcliError(f"{url} cannot be downloaded: {error}", hint) from None
    if digest(part) != md5:
        part.unlink()
        raise HashError(f"{url} is not the file that was published: its MD5 differs", "try again later, or by hand")
    os.replace(part, path)


def digest(path: Path) -> str:
    """MD5 of a file, which is what sources publish; it finds damage, not malice."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _append(url: str, part: Path) -> None:
    """Fetch what is missing of a file; from its start where the server cannot go on in the middle."""
    start = part.stat().st_size if part.exists() else 0
    asked = {"User-Agent": "fedcli", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        answer: HTTPResponse = urlopen(Request(url, headers=asked), timeout=PATIENCE)  # noqa: S310 - http alone
    except HTTPError as error:
        if error.code == RANGE_REFUSED and start:
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        missing = int(answer.headers.get("Content-Length") or 0)
        pieces = iter(lambda: answer.read(PIECE), b"")
        total = -(-missing // PIECE)
        for piece in console.progress(pieces, label=f"{part.stem}, MiB", total=total) if total else pieces:
            file.write(piece)
            missing -= len(piece)
        file.flush()
        os.fsync(file.fileno())
    if missing > 0:
        raise ConnectionError(f"the connection broke off {missing:,} bytes before the end")
