"""Files of a dataset from a server on this machine: asked for, resumed, checked and unpacked; by hand where need be."""

import errno
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import time
from pathlib import Path

import pytest
from download_server import BODY, MD5, SHA256, ZIP, serving, zipped

from fedcli.data.preparation import transfer
from fedcli.data.preparation.download import download, wanted
from fedcli.data.sources import SOURCES, card, cards
from fedcli.errors import FedcliError, HashError, UsageError, of_system


@pytest.fixture
def server(monkeypatch):
    """(address, what was asked of it); no proxy stands before it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setattr(transfer, "PAUSE", 0.0)
    with serving() as address_and_requests:
        yield address_and_requests


def get(folder: Path, *files: dict, paths=(), accepted: bool = True, **more) -> Path:
    """Download files as of a card of their own."""
    of_card = cards.of_card(
        "digits", card("digits") | {"download": list(files), "download_rest": ""} | more
    )
    requests = [wanted(of_card, folder, paths)]
    download(requests, accepted=accepted)
    return folder


def plain(url: str, path: str = "file", **more) -> dict:
    """A card's entry of BODY."""
    return {"path": path, "url": url, "bytes": len(BODY), "md5": MD5} | more


def archive(url: str, **more) -> dict:
    """A card's entry of ZIP."""
    sha256 = hashlib.sha256(ZIP).hexdigest()
    return {
        "path": "all.zip",
        "url": url,
        "bytes": len(ZIP),
        "sha256": sha256,
    } | more


def test_a_file_is_fetched_once_and_recorded(server, tmp_path):
    address, requests = server
    for _ in range(2):
        url = f"{address}/file"
        get(tmp_path, plain(url, "deep/file"))
    result = (tmp_path / "deep" / "file").read_bytes()
    assert result == BODY
    assert requests == [("/file", None)]
    expected = [tmp_path / "deep" / "file"]
    result = list((tmp_path / "deep").iterdir())
    assert result == expected
    record = json.loads((tmp_path / "download.json").read_text())
    expected = {"deep/file": {"url": f"{address}/file", "bytes": len(BODY), "sha256": SHA256}}
    assert record == expected


def test_a_file_that_cannot_be_had_leaves_the_others_and_is_named_last(server, tmp_path, capsys):
    address, _asked = server
    url = f"{address}/absent"
    files = [plain(url, "lost"), plain(f"{address}/file", "had")]
    with pytest.raises(FedcliError, match="1 file is missing: lost of digits"):
        get(tmp_path, *files, download_rest="SYN belongs into {folder}/syn")
    assert (tmp_path / "had").read_bytes() == BODY
    assert not (tmp_path / "lost").exists()
    output = " ".join(capsys.readouterr().err.split())
    result = output.index(f"digits: SYN belongs into {tmp_path}/syn")
    assert result < output.index("to download")
    assert "/absent cannot be downloaded" in output


def test_a_connection_that_breaks_off_is_taken_up_again(server, tmp_path, capsys):
    address, requests = server
    url = f"{address}/broken"
    get(tmp_path, plain(url))
    assert (tmp_path / "file").read_bytes() == BODY
    (_, range_asked), (_, later_range) = requests
    assert range_asked is None
    assert later_range
    assert 0 < int(later_range[6:-1]) < len(BODY)


def test_one_that_brings_nothing_more_ends_with_what_is_kept(server, tmp_path):
    (tmp_path / ".file.part").write_bytes(BODY[:1000])  # of a process that was killed
    with pytest.raises(FedcliError, match="cannot be downloaded") as error:
        url = f"{server[0]}/dead"
        get(tmp_path, plain(url))
    assert error.value.hint == "0.0 MB are kept: give the same command again"
    assert not (tmp_path / "file").exists()
    url = f"{server[0]}/file"
    get(tmp_path, plain(url))
    result = server[1][-1]
    assert result == ("/file", "bytes=1000-")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_killed_process_leaves_what_it_got(server, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "PIECE", 2**16)
    url = f"{server[0]}/slow"
    child = multiprocessing.get_context("fork").Process(target=get, args=(tmp_path, plain(url)))
    child.start()
    until(
        lambda: (tmp_path / ".file.part").exists() and (tmp_path / ".file.part").stat().st_size > 0
    )
    child.kill()
    child.join()
    url = f"{server[0]}/slow"
    get(tmp_path, plain(url))
    assert (tmp_path / "file").read_bytes() == BODY
    (_, range_asked), (_, later_range) = server[1]
    assert range_asked is None
    assert later_range
    assert later_range.startswith("bytes=")


def until(true) -> None:
    """Wait, for ten seconds at most."""
    for _ in range(1000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("nothing happened")


@pytest.mark.parametrize("part", [BODY, BODY[:100], BODY + b"more"])
@pytest.mark.parametrize("path", ["plain", "other"])
def test_a_whole_or_too_long_part_and_servers_without_ranges(server, tmp_path, part, path):
    (tmp_path / ".file.part").write_bytes(part)
    if path == "other" and len(part) == 100:
        with pytest.raises(FedcliError, match="another part"):
            url = f"{server[0]}/{path}"
            get(tmp_path, plain(url))
    url = f"{server[0]}/{path}"
    get(tmp_path, plain(url))
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"md5": "0" * 32}, "its MD5 differs"),
        ({"md5": "0" * 8}, "its MD5 differs"),
        ({"sha256": "0" * 64}, "its SHA-256 differs"),
        ({"bytes": 10}, "1,280,000 bytes, where 10 are declared"),
        ({"bytes": len(BODY) + 1}, "1,280,000 bytes, where 1,280,001 are declared"),
    ],
)
def test_another_file_is_refused_and_not_kept(server, tmp_path, declared, sentence):
    with pytest.raises(HashError, match=sentence):
        url = f"{server[0]}/file"
        get(tmp_path, plain(url, **declared))
    result = [path.name for path in tmp_path.iterdir()]
    assert result == [".download.lock"]


def test_a_server_that_does_not_say_how_much_comes(server, tmp_path):
    url = f"{server[0]}/silent"
    get(tmp_path, plain(url))
    with pytest.raises(
        HashError, match="has 1,280,000 bytes and more, where 1,279,999 are declared"
    ):
        url = f"{server[0]}/silent"
        folder = tmp_path / "less"
        get(folder, plain(url, bytes=len(BODY) - 1))
    with pytest.raises(HashError, match="has 1,280,000 bytes, where 1,280,001 are declared"):
        url = f"{server[0]}/silent"
        folder = tmp_path / "more"
        get(folder, plain(url, bytes=len(BODY) + 1))


def test_a_size_that_is_known_about_is_a_limit(server, tmp_path):
    entry = {"path": "file", "url": f"{server[0]}/file", "sha256": SHA256}
    with pytest.raises(HashError, match="at most 1,200,000 are declared"):
        get(tmp_path, entry | {"about_bytes": 600_000})
    get(tmp_path, entry | {"about_bytes": 700_000})


def test_without_a_published_hash_the_first_one_stands_for_it(server, tmp_path, caplog):
    file = {"path": "file", "url": f"{server[0]}/file", "about_bytes": len(BODY)}
    (tmp_path / ".file.part").write_bytes(b"of an older version")
    get(tmp_path, file)
    assert (tmp_path / "file").read_bytes() == BODY
    assert server[1] == [("/file", None)]
    record = json.loads((tmp_path / "download.json").read_text())
    (tmp_path / "file").write_bytes(b"changed")
    with pytest.raises(FedcliError, match="SHA-256 differs"):
        get(tmp_path, file)
    (tmp_path / "file").unlink()
    record["file"]["sha256"] = "0" * 64  # as if another one had come the first time
    (tmp_path / "download.json").write_text(json.dumps(record))
    with pytest.raises(
        HashError, match="is not the file that was received before: its SHA-256 differs"
    ):
        get(tmp_path, file)


@pytest.mark.parametrize("unpacked", [{}, {"unpack": "pictures"}])
def test_a_file_of_that_name_with_other_content_stays(server, tmp_path, unpacked):
    (tmp_path / "all.zip").write_bytes(b"mine")
    with pytest.raises(
        FedcliError, match=r"all\.zip exists, but is not the published file"
    ) as error:
        url = f"{server[0]}/zip"
        get(tmp_path, archive(url, **unpacked))
    assert "move it away" in error.value.hint
    assert (tmp_path / "all.zip").read_bytes() == b"mine"
    assert not server[1]


@pytest.mark.parametrize("content", [ZIP, b"other"])
def test_an_archive_that_was_there_before_stays(server, tmp_path, content):
    for name in ("all.zip", "all.zip.part", "pictures.part"):  # a browser's, too
        (tmp_path / name).write_bytes(content)
    if content != ZIP:
        (tmp_path / "pictures").mkdir()
    for _ in range(2):
        url = f"{server[0]}/zip"
        get(tmp_path, archive(url, unpack="pictures"))
    assert not server[1]
    assert (tmp_path / "pictures").is_dir()
    for name in ("all.zip", "all.zip.part", "pictures.part"):
        assert (tmp_path / name).read_bytes() == content


def test_an_absent_file_a_dead_server_and_other_schemes_are_sentences(server, tmp_path):
    for url, words in (
        (f"{server[0]}/absent", "404"),
        ("http://127.0.0.1:9/file", "cannot be downloaded"),
    ):
        with pytest.raises(FedcliError, match=words):
            get(tmp_path, plain(url))
    for url in ("file:///etc/hosts", "ftp://127.0.0.1/file", "data:,x"):
        with pytest.raises(UsageError, match="is no web address"):
            get(tmp_path, plain(url))
    with pytest.raises(UsageError, match="neither encrypted nor checked by a hash"):
        get(tmp_path, {"path": "file", "url": "http://example.org/file", "bytes": 1})


def test_an_address_leads_on_to_declared_hosts_alone(server, tmp_path):
    target = f"{server[0]}/file".replace("127.0.0.1", "localhost")
    for to in (
        target,
        "https://example.org/file",
        "file:///etc/hosts",
        "ftp://127.0.0.1/file",
        "http://example.org/x",
    ):
        with pytest.raises(FedcliError, match=r"leads on to|cannot be downloaded"):
            url = f"{server[0]}/moved/{to}"
            get(tmp_path, plain(url))
    url = f"{server[0]}/moved/{target}"
    get(tmp_path, plain(url), redirects=["localhost"])
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_link_in_the_place_of_what_is_written_is_refused(server, tmp_path):
    for has_target in (True, False):
        if has_target:
            (tmp_path / "mine").write_bytes(b"mine")
        (tmp_path / ".file.part").symlink_to(tmp_path / "mine")
        with pytest.raises(FedcliError, match="is a link"):
            url = f"{server[0]}/file"
            get(tmp_path, plain(url))
        assert not has_target or (tmp_path / "mine").read_bytes() == b"mine"
        (tmp_path / ".file.part").unlink()
        (tmp_path / "mine").unlink(missing_ok=True)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("answer", [None, "", "no", "y"])
def test_nothing_is_downloaded_before_the_licence_is_accepted(
    server, tmp_path, monkeypatch, capsys, answer
):
    typed = io.StringIO(f"{answer}\n")
    typed.isatty = lambda: answer is not None
    monkeypatch.setattr("sys.stdin", typed)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    if answer == "y":
        url = f"{server[0]}/file"
        get(tmp_path, plain(url), accepted=False)
    else:
        with pytest.raises(UsageError, match="the licence of digits has to be accepted") as error:
            url = f"{server[0]}/file"
            folder = tmp_path / "new"
            get(folder, plain(url), accepted=False)
        assert "--accept-licence" in error.value.hint
        assert not (tmp_path / "new").exists()
        assert not server[1]
    assert ("[y/N]" in capsys.readouterr().err) == (answer is not None)


def test_what_is_there_needs_no_licence_and_no_server(server, tmp_path):
    url = f"{server[0]}/file"
    get(tmp_path, plain(url))
    get(tmp_path, plain("http://127.0.0.1:9/file"), accepted=False)


def test_a_disk_without_room_is_a_sentence_before_and_while_it_is_filled(
    server, tmp_path, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(
            shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 1_000_000)
        )
        with pytest.raises(FedcliError, match=r"1\.3 MB are needed in .*, where 1\.0 MB are free"):
            url = f"{server[0]}/file"
            folder = tmp_path / "new"
            get(folder, plain(url))
        assert not (tmp_path / "new").exists()
        assert not server[1]

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as error:
        url = f"{server[0]}/file"
        get(tmp_path, plain(url))
    assert (refusal := of_system(error.value))
    assert ".file.part" in refusal.sentence
    assert "free some space" in refusal.hint
    monkeypatch.undo()
    assert get(tmp_path, plain("http://127.0.0.1:9/file"))  # the bytes were kept


def test_chosen_files_of_a_card_come_with_those_that_belong_to_them(server, tmp_path):
    address, requests = server
    files = [plain(f"{address}/{name}", f"raw/{name}") for name in ("one", "two", "three")]
    files[1]["beside"] = ["raw/three"]
    get(tmp_path, *files, paths=["raw/two"])
    assert requests == [("/two", None), ("/three", None)]
    with pytest.raises(UsageError, match="no file 'raw/tow'"):
        get(tmp_path, *files, paths=["raw/tow"])


def test_an_archive_is_unpacked_recorded_and_not_fetched_again(server, tmp_path):
    address, requests = server
    for _ in range(2):
        url = f"{address}/zip"
        get(tmp_path, archive(url, unpack="pictures"))
    assert requests == [("/zip", None)]
    result = (tmp_path / "pictures" / "a").read_bytes()
    assert result == b"first"
    result = (tmp_path / "pictures" / "deep" / "b").read_bytes()
    assert result == b"second"
    result = {path.name for path in tmp_path.iterdir()}
    assert result == {
        "pictures",
        "download.json",
        ".download.lock",
    }


def test_an_archive_that_was_not_unpacked_to_its_end_is_unpacked_again(server, tmp_path):
    (tmp_path / ".all.zip.part").write_bytes(ZIP)
    half_folder = tmp_path / ".pictures.0123abcd.tmp"  # of a process that was killed
    half_folder.mkdir()
    (half_folder / "half").write_bytes(b"fi")
    half_folder.with_suffix(".lock").touch()
    url = f"{server[0]}/zip"
    get(tmp_path, archive(url, unpack="pictures"))
    assert not server[1]
    result = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert result == {
        "a",
        "deep",
    }
    result = {path.name for path in tmp_path.iterdir()}
    assert result == {
        "pictures",
        "download.json",
        ".download.lock",
    }


@pytest.mark.parametrize("text", ["abc", "9" * 5000, "-1", "1e6", "1_000"])
def test_a_length_that_is_none_is_a_sentence(server, tmp_path, text):
    with pytest.raises(FedcliError, match=r"Content-Length '.{2,20}' is no number of bytes"):
        url = f"{server[0]}/length/{text}"
        get(tmp_path, plain(url))
    assert not (tmp_path / "file").exists()


def test_a_redirect_to_no_address_is_a_sentence(server, tmp_path):
    with pytest.raises(FedcliError, match="cannot be downloaded: Invalid IPv6 URL"):
        url = f"{server[0]}/moved/http://[::1"
        get(tmp_path, plain(url))


@pytest.mark.parametrize("content", [zipped(a=b"x", a__b=b"y"), b"text", zipped()])
def test_an_archive_that_cannot_be_unpacked_is_fetched_anew(tmp_path, monkeypatch, content):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    entry = {"path": "all.zip", "about_bytes": 10_000, "unpack": "pictures"}
    with serving({"/all.zip": content}) as (address, requests):
        for _ in range(2):
            with pytest.raises(FedcliError, match="cannot be unpacked"):
                get(tmp_path, entry | {"url": f"{address}/all.zip"})
        assert requests == [("/all.zip", None)] * 2
    with serving({"/all.zip": ZIP}) as (address, requests):
        get(tmp_path, entry | {"url": f"{address}/all.zip"})
        assert requests == [("/all.zip", None)]
    result = (tmp_path / "pictures" / "a").read_bytes()
    assert result == b"first"


def test_a_server_that_is_too_slow_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "WINDOW", 0.0)
    monkeypatch.setattr(transfer, "LEAST", 10**9)
    with pytest.raises(FedcliError, match=r"sent fewer than 1.0 GB in 0 minutes") as error:
        url = f"{server[0]}/file"
        get(tmp_path, plain(url))
    assert "are kept: give the same command again later" in error.value.hint
    expected = BODY[: (tmp_path / ".file.part").stat().st_size]
    assert (tmp_path / ".file.part").read_bytes() == expected


def test_a_server_that_ends_each_connection_early_is_given_up(server, tmp_path, monkeypatch):
    """Its connections bring one byte each, and would go on for days."""
    clock = iter(range(10**6))
    monkeypatch.setattr(transfer.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(transfer, "PIECE", 1)
    monkeypatch.setattr(transfer, "WINDOW", 20)
    with pytest.raises(FedcliError, match=r"sent fewer than 1.0 MB"):
        url = f"{server[0]}/file"
        get(tmp_path, plain(url))


def test_what_is_left_is_counted_by_what_the_server_says(server, tmp_path, monkeypatch):
    words = []
    monkeypatch.setattr(transfer.console, "beside", lambda text, **_: words.append(text))
    entry = {"path": "file", "url": f"{server[0]}/file", "about_bytes": 60_000_000, "md5": MD5}
    url = f"{server[0]}/silent"
    get(tmp_path, entry, plain(url, "other"))
    assert words[0].startswith("2.")  # megabytes
    assert words[-1] == "0.0 MB left in all, 0 min"
    assert not [text for text in words if "-" in text]


@pytest.mark.parametrize("kind", ["file", "dangling link", "link to a file"])
def test_what_stands_where_an_archive_becomes_a_folder_is_named(server, tmp_path, kind):
    target = tmp_path / "pictures"
    if kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to("nowhere" if kind == "dangling link" else __file__)
    with pytest.raises(FedcliError, match=f"{target} is .*the archive becomes a folder") as error:
        url = f"{server[0]}/zip"
        get(tmp_path, archive(url, unpack="pictures"))
    assert "nothing is overwritten" in error.value.hint
    assert not server[1]


@pytest.mark.parametrize("text", ["[", '{"a": {}}'])
def test_a_record_that_is_not_ours_is_a_sentence(server, tmp_path, text):
    (tmp_path / "download.json").write_text(text)
    with pytest.raises(FedcliError, match="is damaged"):
        url = f"{server[0]}/file"
        get(tmp_path, plain(url))


def test_a_dataset_behind_a_form_is_explained_step_by_step(tmp_path):
    with pytest.raises(FedcliError, match="no command can download rsna-ich") as error:
        wanted(cards.fetching("rsna-ich"), tmp_path)
    assert "kaggle.com" in error.value.hint
    assert "licence: RSNA" in error.value.hint
    assert "about 181.0 GB" in error.value.hint
    assert "prepare rsna-ich --raw" in error.value.hint


def test_datasets_that_share_their_images_share_a_folder():
    fed_isic = cards.fetching("fed-isic")
    skin_tone = cards.fetching("isic-skin-tone")
    assert fed_isic.folder == skin_tone.folder == "isic2019"
    assert fed_isic.files[:3] == skin_tone.files[:3]


def test_cards_name_web_addresses_paths_inside_sizes_and_hashes():
    listed = [
        file for name in [*SOURCES, *cards.published()] for file in cards.fetching(name).files
    ]
    assert len(listed) >= 40
    for file in listed:
        assert file["url"].startswith("https://") or (
            "md5" in file and file["url"].startswith("http://ufldl.")
        )
        assert cards.size(file) > 0
        assert ("bytes" in file) != ("about_bytes" in file)
        assert len(file.get("md5", "")) in (0, 8, 32)
        assert len(file.get("sha256", "")) in (0, 64)
        assert (
            "md5" in file
            or "sha256" in file
            or "published" in file["hash_from"]
            or "publish no" in file["hash_from"]
        )
        for path in (file["path"], file.get("unpack", "in"), *file.get("beside", ())):
            assert not Path(path).is_absolute()
            assert ".." not in Path(path).parts


def test_every_dataset_is_fetched_by_command_or_a_person_is_told_how_much_it_is():
    for name in [*SOURCES, *cards.published()]:
        fetching = cards.fetching(name)
        assert fetching.needed != (name in ("images", "phantom", "toy"))
    with pytest.raises(UsageError, match="phantom has nothing to download"):
        wanted(cards.fetching("phantom"), Path("new"))
