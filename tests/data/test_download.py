"""Files of a dataset from a server on this machine: resumed, checked, and by hand where the licence asks for it."""

import hashlib
import http.server
import io
import json
import threading
import zipfile
from functools import partial
from pathlib import Path

import pytest

from fedcli.data.preparation.download import download, fetch, unpack
from fedcli.data.sources import SOURCES, card, cards
from fedcli.errors import FedcliError, HashError, UsageError

BODY = bytes(range(256)) * 5000
MD5 = hashlib.md5(BODY).hexdigest()


def zipped(**files: bytes) -> bytes:
    with zipfile.ZipFile(made := io.BytesIO(), "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return made.getvalue()


ZIP = zipped(images__a=b"first", images__deep__b=b"second")


class Server(http.server.BaseHTTPRequestHandler):
    """Serves BODY, or at /zip an archive, with ranges; at /broken only a part of it, at /plain always the whole."""

    asked: list[tuple[str, str | None]]

    def __init__(self, asked, *args):
        self.asked = asked
        super().__init__(*args)

    def do_GET(self):
        given = self.headers.get("Range")
        self.asked.append((self.path, given))
        body = ZIP if self.path == "/zip" else BODY
        start = int(given.removeprefix("bytes=").removesuffix("-")) if given and self.path != "/plain" else 0
        if self.path == "/absent":
            self.send_error(404)
            return
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = len(body) // 2 if self.path == "/broken" and not start else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """(address, what was asked of it); no proxy stands before it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    asked: list[tuple[str, str | None]] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, asked)) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}", asked
        made.shutdown()


def test_a_file_is_fetched_once(server, tmp_path):
    address, asked = server
    for _ in range(2):
        fetch(f"{address}/file", tmp_path / "deep" / "file", MD5)
    assert (tmp_path / "deep" / "file").read_bytes() == BODY and asked == [("/file", None)]
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "file"]


def test_a_download_that_broke_off_goes_on_from_there(server, tmp_path):
    address, asked = server
    with pytest.raises(FedcliError, match="cannot be downloaded") as error:
        fetch(f"{address}/broken", tmp_path / "file", MD5)
    assert "give the same command again" in error.value.hint and not (tmp_path / "file").exists()
    half = (tmp_path / ".file.part").stat().st_size
    assert 0 < half < len(BODY)
    fetch(f"{address}/broken", tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == BODY and asked[-1] == ("/broken", f"bytes={half}-")


@pytest.mark.parametrize("kept", [BODY, BODY[:100]])
def test_a_whole_part_and_a_server_without_ranges(server, tmp_path, kept):
    address, _ = server
    (tmp_path / ".file.part").write_bytes(kept)
    fetch(f"{address}/{'file' if kept == BODY else 'plain'}", tmp_path / "file", MD5)
    assert (tmp_path / "file").read_bytes() == BODY


def test_another_file_is_refused(server, tmp_path):
    with pytest.raises(HashError, match="its MD5 differs"):
        fetch(f"{server[0]}/file", tmp_path / "file", "0" * 32)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("unpacked", [{}, {"unpack": "pictures"}])
def test_a_file_of_that_name_with_other_content_stays(server, tmp_path, unpacked):
    (tmp_path / "all.zip").write_bytes(b"mine")
    archive = {"path": "all.zip", "url": f"{server[0]}/zip", "sha256": hashlib.sha256(ZIP).hexdigest()} | unpacked
    with pytest.raises(FedcliError, match=r"all\.zip is there and is not the file that was published") as error:
        download("digits", card("digits") | {"download": [archive]}, tmp_path, [])
    assert "move it away" in error.value.hint
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"] and not server[1]


@pytest.mark.parametrize("content", [ZIP, b"other"])
def test_an_archive_that_was_there_before_stays(server, tmp_path, content):
    for name in ("all.zip", "all.zip.part", "pictures.part"):  # a browser's, too
        (tmp_path / name).write_bytes(content)
    if content != ZIP:
        (tmp_path / "pictures").mkdir()
    archive = {"path": "all.zip", "url": f"{server[0]}/zip", "sha256": hashlib.sha256(ZIP).hexdigest()}
    for _ in range(2):
        download("digits", card("digits") | {"download": [archive | {"unpack": "pictures"}]}, tmp_path, [])
    assert not server[1] and (tmp_path / "pictures").is_dir()
    assert all((tmp_path / name).read_bytes() == content for name in ("all.zip", "all.zip.part", "pictures.part"))


def test_an_absent_file_a_dead_server_and_another_scheme_are_sentences(server, tmp_path):
    address, _ = server
    for url, words in ((f"{address}/absent", "404"), ("http://127.0.0.1:9/file", "cannot be downloaded")):
        with pytest.raises(FedcliError, match=words):
            fetch(url, tmp_path / "file", MD5)
    with pytest.raises(UsageError, match="is no web address"):
        fetch("file:///etc/hosts", tmp_path / "file", MD5)


def test_chosen_files_of_a_card_are_put_where_the_reader_looks(server, tmp_path):
    address, asked = server
    files = [{"path": f"raw/{name}", "url": f"{address}/{name}", "md5": MD5} for name in ("one", "two")]
    known = card("digits") | {"download": files}
    assert download("digits", known, tmp_path, ["raw/two"]) == tmp_path
    assert (tmp_path / "raw" / "two").read_bytes() == BODY and asked == [("/two", None)]
    with pytest.raises(UsageError, match="no file 'raw/tow'"):
        download("digits", known, tmp_path, ["raw/tow"])


def test_an_archive_is_unpacked_recorded_and_not_fetched_again(server, tmp_path):
    address, asked = server
    sha256 = hashlib.sha256(ZIP).hexdigest()
    archive = {"path": "all.zip", "url": f"{address}/zip", "bytes": len(ZIP), "sha256": sha256, "unpack": "pictures"}
    known = card("digits") | {"download": [archive]}
    for _ in range(2):
        download("digits", known, tmp_path, [])
    assert asked == [("/zip", None)]
    assert (tmp_path / "pictures" / "a").read_bytes() == b"first"
    assert (tmp_path / "pictures" / "deep" / "b").read_bytes() == b"second"
    assert {path.name for path in tmp_path.iterdir()} == {"pictures", "download.json"}
    record = json.loads((tmp_path / "download.json").read_text())
    assert record == {"all.zip": {"url": f"{address}/zip", "bytes": len(ZIP), "sha256": sha256}}


def test_an_archive_that_was_not_unpacked_to_its_end_is_unpacked_again(server, tmp_path):
    address, asked = server
    (tmp_path / ".all.zip.part").write_bytes(ZIP)
    left = tmp_path / ".pictures.0123abcd.tmp"  # of a process that was killed
    left.mkdir()
    (left / "half").write_bytes(b"fi")
    left.with_suffix(".lock").touch()
    archive = {"path": "all.zip", "url": f"{address}/zip", "sha256": hashlib.sha256(ZIP).hexdigest()}
    download("digits", card("digits") | {"download": [archive | {"unpack": "pictures"}]}, tmp_path, [])
    assert asked == [("/zip", f"bytes={len(ZIP)}-")]
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {"a", "deep"}
    assert {path.name for path in tmp_path.iterdir()} == {"pictures", "download.json"}


@pytest.mark.parametrize("content", [b"PK but no archive", ZIP[:-30]])
def test_what_is_no_archive_is_a_sentence(tmp_path, content):
    (tmp_path / "all.zip").write_bytes(content)
    with pytest.raises(FedcliError, match="cannot be unpacked"):
        unpack(tmp_path / "all.zip", tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()


def test_no_name_in_an_archive_leads_out_of_the_folder(tmp_path):
    (tmp_path / "all.zip").write_bytes(zipped(**{"..__out": b"", "in": b""}))
    unpack(tmp_path / "all.zip", tmp_path / "new" / "pictures")
    assert {p.name for p in (tmp_path / "new" / "pictures").iterdir()} == {"in", "out"} and not (
        tmp_path / "out"
    ).exists()


@pytest.mark.parametrize("text", ["[", '{"a": {}}'])
def test_a_record_that_is_not_ours_is_a_sentence(tmp_path, text):
    (tmp_path / "download.json").write_text(text)
    with pytest.raises(FedcliError, match="is not what fedcli wrote"):
        download("isic2018", card("isic2018"), tmp_path, [])


def test_a_dataset_behind_a_form_is_explained_step_by_step(tmp_path):
    with pytest.raises(FedcliError, match="fedcli cannot download rsna-ich") as error:
        download("rsna-ich", card("rsna-ich"), tmp_path / "new", [])
    assert (
        "kaggle.com" in error.value.hint
        and "licence: RSNA" in error.value.hint
        and "prepare rsna-ich --raw" in error.value.hint
    )
    assert not (tmp_path / "new").exists()


def test_cards_name_web_addresses_paths_inside_sizes_and_hashes():
    listed = [file for name in [*SOURCES, *cards.published()] for file in cards.fetching(name).files]
    assert len(listed) >= 40
    for file in listed:
        assert file["url"].startswith("https://") or ("md5" in file and file["url"].startswith("http://ufldl."))
        assert cards.size(file) > 0 and ("bytes" in file) != ("about_bytes" in file)
        assert len(file.get("md5", "")) in (0, 8, 32) and len(file.get("sha256", "")) in (0, 64)
        assert (
            "md5" in file or "sha256" in file or "published" in file["hash_from"] or "publish no" in file["hash_from"]
        )
        for path in (file["path"], file.get("unpack", "in"), *file.get("beside", ())):
            assert not Path(path).is_absolute() and ".." not in Path(path).parts


def test_every_dataset_is_fetched_by_command_or_a_person_is_told_how_much_it_is():
    for name in [*SOURCES, *cards.published()]:
        known = cards.fetching(name)
        assert known.by_command or "by_hand" in card(name) or name in ("images", "phantom", "toy")
