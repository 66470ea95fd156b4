"""A server on this machine in the place of the addresses of datasets."""

import hashlib
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

BODY = bytes(range(256)) * 5000
MD5 = hashlib.md5(BODY).hexdigest()
SHA256 = hashlib.sha256(BODY).hexdigest()


def zipped(**files: bytes) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return packed.getvalue()


ZIP = zipped(images__a=b"first", images__deep__b=b"second")


class Server(http.server.BaseHTTPRequestHandler):
    """Serves BODY, or at the paths of its files these, with ranges.

    At /broken it breaks off halfway, at /slow it then waits, at /dead it ends after nothing, at /plain it knows no
    ranges, at /other it sends another part than was asked for, at /moved/URL it leads on, at
    /silent it does not say how much comes, at /length/TEXT it says TEXT.
    """

    def __init__(self, requests, files, *args):
        self.asked, self.files = requests, files
        super().__init__(*args)

    def do_GET(self):
        range_asked = self.headers.get("Range")
        self.asked.append((self.path, range_asked))
        body = self.files.get(self.path, BODY)
        start = (
            int(range_asked.removeprefix("bytes=").removesuffix("-"))
            if range_asked and self.path != "/plain"
            else 0
        )
        if self.path == "/absent":
            return self.send_error(404)
        if start >= len(body):
            return self.send_error(416)
        if self.path.startswith("/moved/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/moved/"))
            return self.end_headers()
        self.send_response(206 if start else 200)
        if self.path != "/silent":
            length = self.path.removeprefix("/length/")
            self.send_header(
                "Content-Length", length if length != self.path else str(len(body) - start)
            )
        if start:
            start_told = start - 1 if self.path == "/other" else start
            self.send_header("Content-Range", f"bytes {start_told}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        half = self.path in ("/broken", "/slow") and not start
        end = len(body) // 2 if half else len(body)
        if self.path == "/dead":
            end = 0
        self.wfile.write(body[start:end])
        if half and self.path == "/slow":
            self.connection.recv(1)  # until whoever asked is gone
        return None

    def log_message(self, *args):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    """Says nothing of a client that was killed."""

    def handle_error(self, request, client_address):
        pass


@contextmanager
def serving(
    files: dict[str, bytes] | None = None,
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """(address, what is asked of it: path and range)."""
    requests: list[tuple[str, str | None]] = []
    with Quiet(
        ("127.0.0.1", 0), partial(Server, requests, {"/zip": ZIP} | (files or {}))
    ) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
