"""One file over HTTP: resumed where a download broke off, no longer than declared, and from
declared hosts alone."""

import itertools
import math
import os
import time
from collections.abc import Iterable, Iterator
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
from ..sources.cards import size

PIECE = 2**20  # bytes
PATIENCE = 60  # seconds without an answer
WINDOW = 300.0  # seconds
LEAST = 10**6  # bytes that have to come in a window
QUIET = 10.0  # seconds of a slow transfer without a word
LONGEST_NUMBER = 15  # digits of a length that a server says
PAUSE = 2.0  # seconds before a download that broke off goes on by itself
RANGE_REFUSED = 416  # all bytes are there, or more than all
UNANSWERED = OSError, HTTPException, ValueError  # URLError is among them; ValueError: no address
THIS_MACHINE = "127.0.0.1", "localhost"  # needs no encryption
File = dict[str, Any]  # as a card declares it


@dataclass
class Remaining:
    """Bytes that a command has still to download, for the line of progress.

    Attributes:
        bytes_by_part: of each file, by the name of its part.
        received: bytes that came so far.
    """

    bytes_by_part: dict[str, int] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)
    received: int = 0

    def show(self, part: Path, missing: int, received: int) -> None:
        """Say how much is left, and the minutes at the speed so far; received: bytes since the last
        call."""
        self.bytes_by_part[str(part)] = max(missing, 0)
        self.received += received
        total = sum(self.bytes_by_part.values())
        seconds = time.monotonic() - self.start
        minutes = math.ceil(total * seconds / (60 * max(self.received, 1)))
        console.beside(f"{in_words(total)} left in all, {minutes:,} min", in_lines=True)


@dataclass
class Pace:
    """The speed of one file's transfer, over all its connections."""

    url: str
    start: float = field(default_factory=time.monotonic)  # of the window
    last_word: float = field(default_factory=time.monotonic)
    received: int = 0  # bytes in this window

    def count(self, received: int, total: int) -> None:
        """Say how much came where that is slow. Raises FedcliError where less than LEAST bytes came
        in WINDOW seconds."""
        now = time.monotonic()
        self.received += received
        if now - self.last_word > QUIET:
            console.status(f"{self.url}: {in_words(total)} so far")
            self.last_word = now
        if now - self.start < WINDOW:
            return
        if self.received < LEAST:
            sentence = f"{self.url} sent fewer than {in_words(LEAST)} in {WINDOW / 60:.0f} minutes"
            hint = f"{in_words(total)} are kept: give the same command again later"
            raise FedcliError(sentence, hint)
        self.start = now
        self.received = 0


def in_words(size: int) -> str:
    """Bytes as people say them."""
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.1f} MB"


def most(file: File) -> int:
    """Bytes that a declared file may have: exactly so many, or up to twice what is said about
    it."""
    return file.get("bytes") or 2 * file["about_bytes"]


def transfer(
    file: File,
    part: Path,
    redirects: tuple[str, ...],
    remaining: Remaining,
) -> None:
    """Fetch what is missing of a file, from its start where the server cannot go on in the middle.

    A connection that breaks is taken up again for as long as each try brings more, and enough.
    Raises FedcliError, HashError, UsageError, OSError of this machine's disk.
    """
    url = file["url"]
    _check_address(url, hashed="sha256" in file or "md5" in file)
    pace = Pace(url)
    while True:
        bytes_before = _bytes_of(part)
        try:
            return _append(file, part, redirects, remaining, pace)
        except UNANSWERED as error:
            if isinstance(error, OSError) and error.errno in (*NO_ROOM, *REFUSED):
                error.filename = error.filename or str(part)
                raise
            bytes_now = _bytes_of(part)
            if bytes_now > bytes_before and not isinstance(error, HTTPError):
                broke_off = f"the connection broke off after {in_words(bytes_now)}, going on"
                console.say(f"{url}: {broke_off}")
                time.sleep(PAUSE)
                continue
            raise _failure(url, error, bytes_now) from None


def _bytes_of(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _failure(url: str, error: Exception, received: int) -> FedcliError:
    cause = error
    if not isinstance(error, HTTPError):
        cause = getattr(error, "reason", error)
    hint = "if this machine is connected to the internet, give the same command again"
    if received:
        hint = f"{in_words(received)} are kept: give the same command again"
    return FedcliError(f"{url} cannot be downloaded: {cause}", hint)


def _check_address(url: str, *, hashed: bool) -> None:
    """Refuse all but https; plain http is sound for a file whose hash is known, and on this
    machine."""
    parts = urlsplit(url)
    hint = "mend the dataset's card"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url} is no web address", hint)
    if parts.scheme == "http" and not hashed and parts.hostname not in THIS_MACHINE:
        raise UsageError(f"{url} is neither encrypted nor checked by a hash", hint)


class _Redirects(HTTPRedirectHandler):
    """Follows an address to declared hosts alone."""

    def __init__(self, url: str, hosts: tuple[str, ...]):
        self.url = url
        self.hosts = (urlsplit(url).hostname, *hosts)

    def http_error_302(
        self,
        req: Any,
        fp: Any,
        code: int,
        msg: str,
        headers: Any,
    ) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:  # the address is none
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        parts = urlsplit(newurl)
        is_local = parts.scheme == "http" and parts.hostname in THIS_MACHINE
        is_secure = parts.scheme == "https" or is_local
        if not is_secure or parts.hostname not in self.hosts:
            fp.close()
            host = f"{parts.scheme}://{parts.hostname or ''}"
            sentence = f"{self.url} leads on to {host}, which the dataset's card does not name"
            raise FedcliError(sentence, "nothing was fetched from there; get the file by hand")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _append(
    file: File,
    part: Path,
    redirects: tuple[str, ...],
    remaining: Remaining,
    pace: Pace,
) -> None:
    not_a_link(part, "remove it")
    start = _bytes_of(part)
    if start > most(file):
        part.unlink()
        start = 0
    if start == file.get("bytes"):
        return
    try:
        answer = _answer(file["url"], redirects, start)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_REFUSED and start:
            _check_length(file, part, start)
            return
        raise
    with answer:
        if answer.status != 206:
            start = 0
        if start and not _begins_at(answer, start):
            part.unlink()
            raise ConnectionError(
                "the server sent another part than requested; the download starts again"
            )
        length = _length(answer)
        # some servers do not say how much comes
        end = start + length if length else file.get("bytes", 0)
        _check_length(file, part, end)
        expected = end or size(file)
        received = start
        with part.open("ab" if start else "wb") as opened:
            for piece in _pieces_of(answer, length, file):
                received += len(piece)
                _check_length(file, part, received, whole=False)
                opened.write(piece)
                remaining.show(part, expected - received, len(piece))
                pace.count(len(piece), received)
            opened.flush()
            os.fsync(opened.fileno())
    if end > received:
        raise ConnectionError(f"the connection broke off {end - received:,} bytes before the end")
    remaining.show(part, 0, 0)


def _pieces_of(answer: HTTPResponse, length: int, file: File) -> Iterator[bytes]:
    """The answer in pieces, up to the step that ends early."""
    for step in _steps(length, Path(file["path"]).name):
        received = 0
        for piece in _pieces(answer, step):
            received += len(piece)
            yield piece
        if received < step:
            return


def _answer(url: str, redirects: tuple[str, ...], start: int) -> HTTPResponse:
    headers = {"User-Agent": "fedcli"}
    if start:
        headers["Range"] = f"bytes={start}-"
    opener = build_opener(_Redirects(url, redirects))
    return opener.open(Request(url, headers=headers), timeout=PATIENCE)


def _begins_at(answer: HTTPResponse, start: int) -> bool:
    content_range = answer.headers.get("Content-Range") or ""
    return content_range.startswith(f"bytes {start}-")


def _length(answer: HTTPResponse) -> int:
    """Bytes that a server says it sends, 0 where it says nothing. Raises ConnectionError."""
    text = answer.headers.get("Content-Length") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
        raise ConnectionError(f"its Content-Length {text[:20]!r} is no number of bytes")
    return int(text)


def _steps(length: int, name: str) -> Iterable[int]:
    """Bytes of each step of the bar of progress; without end, and without a bar, where nobody says
    how many come."""
    if not length:
        return itertools.repeat(PIECE)
    steps = [min(PIECE, length - start) for start in range(0, length, PIECE)]
    return console.progress(steps, label=f"{name}, MiB", total=len(steps))


def _pieces(answer: HTTPResponse, count: int) -> Iterator[bytes]:
    """So many bytes of an answer, as they come."""
    while count and (piece := answer.read1(count)):
        yield piece
        count -= len(piece)


def _check_length(
    file: File,
    part: Path,
    size: int,
    *,
    whole: bool = True,
) -> None:
    exact = file.get("bytes")
    is_short = whole and exact is not None and size != exact
    if size <= most(file) and not is_short:
        return
    part.unlink(missing_ok=True)
    declared = f"at most {most(file):,}" if exact is None else f"{exact:,}"
    received = f"{size:,} bytes" if whole else f"{size:,} bytes and more"
    sentence = f"{file['url']} has {received}, where {declared} are declared"
    raise HashError(sentence, "try again later, or get it by hand")
