"""One file over HTTP: resumed where a download broke off, no longer than declared, and from declared hosts alone."""

import os
import time
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ... import console
from ...errors import NO_ROOM, REFUSED, FedcliError, HashError, UsageError
from ...io.files import not_a_link

PIECE = 2**20  # bytes
PATIENCE = 60  # seconds without an answer
PAUSE = 2.0  # seconds before a download that broke off goes on by itself
RANGE_REFUSED = 416  # all bytes are there, or more than all
THIS_MACHINE = "127.0.0.1", "localhost"  # needs no encryption


@dataclass
class Left:
    """Bytes that a command has still to download, for the line of progress."""

    bytes: int
    start: float = field(default_factory=time.monotonic)
    got: int = 0

    def show(self, received: int) -> None:
        """Say how much is left, and the minutes at the speed so far."""
        self.got += received
        left, seconds = max(self.bytes - self.got, 0), time.monotonic() - self.start
        minutes = -(-left * seconds // (60 * max(self.got, 1)))
        console.beside(f"{in_words(left)} left in all, {minutes:.0f} min", in_lines=True)


def in_words(size: int) -> str:
    """Bytes as people say them."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def most(file: dict[str, Any]) -> int:
    """Bytes that a declared file may have: exactly so many, or up to twice what is said about it."""
    return file.get("bytes") or 2 * file["about_bytes"]


def transfer(file: dict[str, Any], part: Path, redirects: tuple[str, ...], left: Left) -> None:
    """Fetch what is missing of a file, from its start where the server cannot go on in the middle.

    A connection that breaks is taken up again for as long as each try brings more. Raises FedcliError, HashError,
    UsageError, OSError of this machine's disk.
    """
    url = file["url"]
    _check_address(url, hashed="sha256" in file or "md5" in file)
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            return _append(file, part, redirects, left)
        except (
            OSError,
            HTTPException,
        ) as error:  # URLError and a connection that breaks are among them
            if isinstance(error, OSError) and error.errno in (*NO_ROOM, *REFUSED):
                error.filename = error.filename or str(part)
                raise
            got = part.stat().st_size if part.exists() else 0
            if got > before and not isinstance(error, HTTPError):
                console.say(f"{url}: the connection broke off after {in_words(got)}, going on")
                time.sleep(PAUSE)
                continue
            kept = (
                f"{in_words(got)} are kept: "
                if got
                else "if this machine is connected to the internet, "
            )
            cause = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
            raise FedcliError(
                f"{url} cannot be downloaded: {cause}", f"{kept}give the same command again"
            ) from None


def _check_address(url: str, *, hashed: bool) -> None:
    """Refuse all but https; plain http is sound for a file whose hash is known, and on this machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url} is no web address", "mend the dataset's card")
    if parts.scheme == "http" and not hashed and parts.hostname not in THIS_MACHINE:
        raise UsageError(
            f"{url} is neither encrypted nor checked by a hash", "mend the dataset's card"
        )


class _Redirects(HTTPRedirectHandler):
    """Follows an address to declared hosts alone."""

    def __init__(self, url: str, hosts: tuple[str, ...]):
        self.url, self.hosts = url, (urlsplit(url).hostname, *hosts)

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        parts = urlsplit(newurl)
        secure = parts.scheme == "https" or (
            parts.scheme == "http" and parts.hostname in THIS_MACHINE
        )
        if not secure or parts.hostname not in self.hosts:
            fp.close()
            to = f"{parts.scheme}://{parts.hostname or ''}"
            sentence = f"{self.url} leads on to {to}, which the dataset's card does not name"
            raise FedcliError(sentence, "nothing was fetched from there; get the file by hand")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _append(file: dict[str, Any], part: Path, redirects: tuple[str, ...], left: Left) -> None:
    not_a_link(part, "remove it")
    start = part.stat().st_size if part.exists() else 0
    if start > most(file):
        part.unlink()
        start = 0
    if start == file.get("bytes"):
        return
    asked = {"User-Agent": "fedcli", **({"Range": f"bytes={start}-"} if start else {})}
    opener = build_opener(_Redirects(file["url"], redirects))
    try:
        answer: HTTPResponse = opener.open(Request(file["url"], headers=asked), timeout=PATIENCE)  # noqa: S310
    except HTTPError as error:
        error.close()
        if error.code == RANGE_REFUSED and start:
            _check_length(file, part, start)
            return
        raise
    with answer:
        start = start if answer.status == 206 else 0
        if start and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            part.unlink()
            raise ConnectionError("the server sent another part than was asked for; it begins anew")
        length = int(answer.headers.get("Content-Length") or 0)
        end = (
            start + length if length else file.get("bytes", 0)
        )  # some servers do not say how much comes
        _check_length(file, part, end)
        with part.open("ab" if start else "wb") as opened:
            received = start
            pieces, label = iter(lambda: answer.read(PIECE), b""), f"{Path(file['path']).name}, MiB"
            for piece in (
                console.progress(pieces, label=label, total=-(-length // PIECE))
                if length
                else pieces
            ):
                received += len(piece)
                _check_length(file, part, received, whole=False)
                opened.write(piece)
                left.show(len(piece))
            opened.flush()
            os.fsync(opened.fileno())
    if (missing := end - received) > 0:
        raise ConnectionError(f"the connection broke off {missing:,} bytes before the end")


def _check_length(file: dict[str, Any], part: Path, size: int, *, whole: bool = True) -> None:
    if size > most(file) or (whole and "bytes" in file and size != file["bytes"]):
        part.unlink(missing_ok=True)
        declared = f"{file['bytes']:,}" if "bytes" in file else f"at most {most(file):,}"
        sentence = f"{file['url']} has {size:,} bytes{'' if whole else ' and more'}, where {declared} are declared"
        raise HashError(sentence, "try again later, or get it by hand")
