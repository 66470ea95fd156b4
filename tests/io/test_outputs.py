"""Files that a person names for a result: what may be replaced, and what is a stream."""

import os
from pathlib import Path

import pytest

from fedcli.errors import FedcliError
from fedcli.io import outputs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_result_may_be_replaced_until_somebody_changes_it(tmp_path):
    path = tmp_path / "new" / "table.csv"
    outputs.write(path, b"first")
    outputs.write(path, b"second")
    assert path.read_bytes() == b"second"
    path.write_bytes(b"by hand")
    with pytest.raises(FedcliError, match="is not as fedcli wrote it"):
        outputs.check(path)
    with pytest.raises(FedcliError, match="is not as fedcli wrote it"):
        outputs.write(path, b"third")
    assert path.read_bytes() == b"by hand"
    outputs.write(path, b"by hand")  # the same bytes lose nothing
    outputs.write(path, b"fourth", force=True)
    assert path.read_bytes() == b"fourth"


def test_a_file_of_the_same_length_is_another_one(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"mine")
    with pytest.raises(FedcliError, match="is there already"):
        outputs.write(path, b"ours")


def test_a_read_only_file_and_a_link_are_refused(tmp_path):
    path = tmp_path / "table.csv"
    outputs.write(path, b"first")
    path.chmod(0o444)
    with pytest.raises(FedcliError, match="is read-only"):
        outputs.check(path)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    with pytest.raises(FedcliError, match="is a link"):
        outputs.check(link, force=True)


def test_a_pipe_is_a_stream_and_a_folder_is_none(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert outputs.is_stream(pipe)
    for path in (tmp_path, tmp_path / "absent.csv"):
        assert not outputs.is_stream(path)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    outputs.write(pipe, b"result")
    assert os.read(reader, 100) == b"result"
    os.close(reader)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/3", "/proc/self/fd/1"])
def test_open_files_of_the_process_are_streams(name):
    assert outputs.is_stream(Path(name))


def test_an_account_without_a_home_has_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert outputs.user_cache() is None
    path = tmp_path / "table.csv"
    outputs.write(path, b"first")
    with pytest.raises(FedcliError, match="is there already"):
        outputs.write(path, b"second")
