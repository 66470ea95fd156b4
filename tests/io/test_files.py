"""A file is whole or not there, and nothing is written through a link that somebody left in its place."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedcli.errors import FedcliError
from fedcli.io import files
from fedcli.io.files import appending, read_text, regular, replacing, sha256, write_text

KILLED = """
import os, sys
from pathlib import Path
from fedcli.io.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os._exit(9)
"""


def names(folder):
    return [entry.name for entry in folder.iterdir()]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.json"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:  # noqa: PT012 - it breaks half way
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x.json"]
    write_text(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["x.json"]


def test_a_file_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    calls = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda file: calls.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    write_text(tmp_path / "x.json", "new")
    assert calls[:2] == ["fsync", "replace"]
    assert (tmp_path / "x.json").read_text() == "new"


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    with pytest.raises(IsADirectoryError) as caught, replacing(tmp_path):
        pass
    assert caught.value.filename == str(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    for name in ("x.json", "x.json.tmp", ".x.json.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "thesis.txt")
    write_text(tmp_path / "x.json", "ours")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert not (tmp_path / "x.json").is_symlink()
    assert (tmp_path / "x.json").read_text() == "ours"


def test_nothing_is_added_to_what_a_link_leads_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "rounds.jsonl").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(FedcliError, match="is a link"):
        appending(tmp_path / "rounds.jsonl")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    path = tmp_path / "x.json"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == 9
    assert len(names(tmp_path)) == 1
    with replacing(path) as slow_file:
        slow_file.write(b"first")
        write_text(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == ["x.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(FedcliError, match="not a regular file"):
            regular(tmp_path / path)
        with pytest.raises(FedcliError, match="not a regular file"):
            read_text(tmp_path / path)
    with pytest.raises(FedcliError, match="is a link or no regular file"):
        appending(tmp_path / "pipe")


def test_text_that_is_too_large_or_none_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FedcliError, match=r"table.csv is not utf-8 text"):
        read_text(path)
    monkeypatch.setattr(files, "LARGEST_TEXT", 2**20)
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(FedcliError, match=r"table.csv has more than 1 MiB"):
        read_text(path)
    with pytest.raises(FedcliError, match="no such file"):
        read_text(tmp_path / "absent")


def test_a_file_of_zero_bytes_is_no_text(tmp_path):
    """Else a sparse file of a gigabyte would be taken apart as one cell of a table, in many times its size."""
    path = tmp_path / "labels.csv"
    path.touch()
    os.truncate(path, 2**20)
    with pytest.raises(FedcliError, match=r"labels.csv holds zero bytes"):
        read_text(path)


def test_a_change_is_seen_whose_time_was_put_back(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SETTLED", -1)  # as if long ago
    path = tmp_path / "x.json"
    path.write_text("old")
    old_stat = path.stat()
    before = sha256(path)
    path.write_text("new")
    times = {name: getattr(old_stat, name) for name in dir(old_stat) if name.startswith("st_")}
    later = SimpleNamespace(
        **times | {"st_ctime_ns": old_stat.st_ctime_ns + 1}
    )  # a tick of its clock, which may take a second
    monkeypatch.setattr(Path, "stat", lambda *_, **__: later)
    assert sha256(path) != before


def test_a_file_that_was_just_put_in_place_with_an_old_time_is_not_settled(tmp_path):
    (tmp_path / "x.json").write_text("old")
    os.utime(tmp_path / "x.json", (1e9, 1e9))
    assert files.settled(tmp_path / "x.json") is None
