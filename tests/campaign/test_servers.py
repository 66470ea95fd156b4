"""Servers that lie: a file of a dataset is the published one, or is not there, and an honest server mends it."""

import hashlib
import io
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from download_server import ZIP

from fedcli.data.preparation import transfer
from fedcli.data.preparation.download import download, wanted
from fedcli.data.sources import card, cards

from .mutations import damage
from .play import Play
from .test_sites import tried

Draw = np.random.Generator
STATUS = ["200 OK", "206 Partial Content", "204 No Content", "304 Not Modified", "401 No", "403 No"]
STATUS += ["404 Absent", "416 Range", "429 Later", "500 Fault", "503 Later", "999 What", "abc", ""]
PLACES = [
    "http://[::1",
    "file:///etc/passwd",
    "//",
    "",
    "ftp://127.0.0.1/x",
    "http://example.org/x",
]
PLACES += ["/again", "http://127.0.0.1:1/x", "data:,x", "http://127.0.0.1:99999/", "\u00e9"]
LENGTHS = ["0", "-1", "1", "99999999999", "abc", "9" * 5000, "1.5", "", " 7", "0x10", "\u0663"]
HEADERS = ["Content-Range: bytes 5-9/10", "Content-Range: what", "Content-Encoding: gzip"]
HEADERS += ["Transfer-Encoding: chunked", "Content-Length: 3", "X: " + "y" * 70_000, ":", "\x00: 1"]


def tar_of_two() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("images/a", "images/deep/b"):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(b"first"))
    return packed.getvalue()


BODIES = {"plain": bytes(range(256)) * 40, "zip": ZIP, "tar": tar_of_two()}


class Scripted:
    """The answer of a server to every request."""

    def __init__(self) -> None:
        self.raw = b""

    def honest(self, body: bytes) -> None:
        self.raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def lying(self, body: bytes, draw: Draw, scratch: Path) -> str:
        """Change the head or the body of an answer; returns what was done."""
        lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}"]
        match str(draw.choice(["status", "length", "header", "place", "body", "body", "cut"])):
            case "status":
                note = lines[0] = f"HTTP/1.1 {draw.choice(STATUS)}"
            case "length":
                note = lines[1] = f"Content-Length: {draw.choice(LENGTHS)}"
            case "header":
                note = str(draw.choice(HEADERS))
                lines.append(note)
            case "place":
                lines[0] = f"HTTP/1.1 {draw.choice([301, 302, 303, 307, 308, 300])} Elsewhere"
                note = f"Location: {draw.choice(PLACES)}"
                lines.append(note)
            case "cut":
                body = body[: int(draw.integers(len(body)))]
                note = f"cut to {len(body)} bytes"
            case _:
                (scratch / "body").write_bytes(body)
                note = damage(scratch / "body", draw)
                body = (scratch / "body").read_bytes()
                lines[1] = f"Content-Length: {len(body)}"
        head = "\r\n".join(lines) + "\r\n\r\n"
        self.raw = head.encode("utf-8") + body
        return note[:80]


@contextmanager
def serving(script: Scripted) -> Iterator[str]:
    """The address of a server that sends what the script says, and then hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while b"\r\n\r\n" not in self.request.recv(2**16):
                pass
            self.request.sendall(script.raw)

    class Server(socketserver.ThreadingTCPServer):
        def handle_error(self, request, client_address) -> None:
            pass  # whoever asked hung up first

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/file"
        server.shutdown()


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("kind", BODIES)
def test_a_lying_server_loses_and_replaces_nothing(kind, hashed, play: Play, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(transfer, "PAUSE", 0.0)
    body = BODIES[kind]
    script = Scripted()
    entry = {"path": "all", "bytes": len(body)}
    if hashed:
        entry["sha256"] = hashlib.sha256(body).hexdigest()
    if kind != "plain":
        entry |= {"unpack": "pictures"}
    with serving(script) as address:
        published = card("digits") | {"download": [entry | {"url": address}], "download_rest": ""}
        for draw in play.cases():
            folder = tmp_path / str(play.case) / "in"
            folder.mkdir(parents=True)
            (folder.parent / "mine").write_bytes(b"mine")
            request = wanted(cards.of_card("digits", published), folder)
            note = script.lying(body, draw, tmp_path)
            wrong = tried(lambda request=request: download([request], accepted=True))
            wrong += _wrong(folder, kind, body, hashed=hashed)
            is_there = (folder / "all").exists() or (folder / "pictures").exists()
            script.honest(body)
            if not is_there:
                download([request], accepted=True)  # nothing of the lie is in the way
                wrong += _wrong(folder, kind, body, hashed=True)
            play.note(wrong, f"{kind}: {note}")


def _wrong(folder: Path, kind: str, body: bytes, *, hashed: bool) -> list[str]:
    """Faults of the files in the folder. hashed: no other content is allowed."""
    wrong = []
    if [path.name for path in sorted(folder.parent.iterdir())] != ["in", "mine"]:
        wrong.append("writes outside its folder")
    if (folder.parent / "mine").read_bytes() != b"mine":
        wrong.append("replaces a file of another")
    if not hashed:
        return wrong
    if (folder / "all").exists() and (folder / "all").read_bytes() != body:
        wrong.append("keeps another file than the published one")
    pictures = folder / "pictures"
    if pictures.exists():
        names = [path.relative_to(pictures).as_posix() for path in sorted(pictures.rglob("*"))]
        if names != ["a", "deep", "deep/b"] and names != [
            "images",
            "images/a",
            "images/deep",
            "images/deep/b",
        ]:
            wrong.append(f"unpacks {names}")
    return wrong
