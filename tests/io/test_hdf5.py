"""An HDF5 file of a stranger is refused before it can name other bytes, lead in circles or ask for memory."""

import errno
import os
import resource
import signal
from contextlib import contextmanager

import h5py
import numpy as np
import pytest

from fedcli.errors import FedcliError
from fedcli.io.hdf5 import ANYTHING, ExpectedData, create_hdf5, extend_hdf5, open_hdf5, replace_hdf5


def external_bytes(file, folder):
    (folder / "secret").write_bytes(bytes(64))
    file.create_dataset("x", (64,), np.uint8, external=[(str(folder / "secret"), 0, 64)])


def virtual(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.zeros(8)
    layout = h5py.VirtualLayout(shape=(8,), dtype=float)
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", shape=(8,))
    file.create_virtual_dataset("x", layout)


def external_link(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.zeros(8)
    file["x"] = h5py.ExternalLink(str(folder / "other.h5"), "/x")


def soft_link(file, folder):
    file["y"] = np.zeros(8)
    file["x"] = h5py.SoftLink("/y")


def circle(file, folder):
    file["x"] = np.zeros(8)
    file.create_group("a")["back"] = file["/"]


def twice(file, folder):
    file["x"] = np.zeros(8)
    file["y"] = file["x"]


def other_byte_order(file, folder):
    file["x"] = np.zeros(8, np.dtype(float).newbyteorder())


def deep(file, folder):
    file["x"] = np.zeros(8)
    file.create_group("/".join(["g"] * 3000))


def huge(file, folder):
    file.create_dataset("x", (2**40,), np.uint8, chunks=(2**20,))


def huge_chunk(file, folder):
    file.create_dataset("x", (1,), np.uint8, chunks=(2**30,), maxshape=(None,))


def of_any_length(file, folder):
    file.create_dataset("x", data=["a", "b"], dtype=h5py.string_dtype())


def compound(file, folder):
    file["x"] = np.zeros(3, [("a", int), ("b", float)])


def complex_numbers(file, folder):
    file["x"] = np.zeros(3, complex)


@pytest.mark.parametrize(
    "make",
    [
        external_bytes,
        virtual,
        external_link,
        soft_link,
        circle,
        twice,
        deep,
        other_byte_order,
        huge,
        huge_chunk,
        of_any_length,
        compound,
        complex_numbers,
    ],
)
def test_what_fedcli_never_writes_is_refused(tmp_path, make):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file, tmp_path)
    with pytest.raises(FedcliError, match=r"x.h5") as error, open_hdf5(path):
        raise AssertionError("opened")
    assert len(error.value.sentence) < 400 + len(str(tmp_path))


def test_a_bomb_is_refused_though_its_datasets_may_be_compressed(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("good", data=np.arange(9000) % 50, compression="gzip")
    with open_hdf5(path, packed=True) as file:
        assert file["good"][()].sum() == sum(k % 50 for k in range(9000))
    with pytest.raises(FedcliError, match="more than the file holds"), open_hdf5(path):
        raise AssertionError("opened")
    with h5py.File(path, "a") as file:
        file.create_dataset("bad", (2**50,), np.uint8, chunks=(2**20,), compression="gzip")
    with pytest.raises(FedcliError, match="more than the file holds"), open_hdf5(path, packed=True):
        raise AssertionError("opened")


@pytest.mark.parametrize(
    ("expected", "word"),
    [
        ({"x": ExpectedData("f")}, "x is int64"),
        ({"x": ExpectedData("iu", 2)}, "x is int64"),
        ({"x": ExpectedData("iu", size=1)}, "x is int64"),
        ({"x": ExpectedData(), "z": ExpectedData()}, "no dataset 'z'"),
    ],
)
def test_a_dataset_must_be_what_its_reader_expects(tmp_path, expected, word):
    path = tmp_path / "x.h5"
    with create_hdf5(path) as file:
        file["x"] = np.arange(4)
    with pytest.raises(FedcliError, match=word), open_hdf5(path, expected):
        raise AssertionError("opened")
    with open_hdf5(
        path, {"x": ExpectedData("iu"), "y": ExpectedData(needed=False), "z/*": ExpectedData()}
    ) as file:
        assert file["x"][()].tolist() == [0, 1, 2, 3]


def test_a_file_is_made_extended_and_replaced(tmp_path):
    path = tmp_path / "x.h5"
    with create_hdf5(path, 8) as file:
        file["x"] = np.arange(3)
    with extend_hdf5(path) as file:
        file["group/y"] = np.arange(4)
    with open_hdf5(path, ANYTHING) as file:
        assert {name: data[()].tolist() for name, data in file.items()} == {
            "x": [0, 1, 2],
            "group/y": [0, 1, 2, 3],
        }
    with replace_hdf5(path, 8) as file:
        file["z"] = np.arange(2)
    with open_hdf5(path) as file:
        assert list(file) == ["z"]
    with pytest.raises(FileExistsError), create_hdf5(path) as file:
        raise AssertionError("made over another")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.h5"]


@contextmanager
def largest_file(size):
    """A limit on file sizes stands for a full disk, a quota or a broken device: the write fails in the same way."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def fill(file):
    for name in ("a", "b/c", "b/d"):
        file[name] = np.arange(3000)
    file["e"] = np.zeros(20000)


@pytest.mark.parametrize("large", [2**60, 0], ids=["small", "large"])
def test_a_write_that_fails_anywhere_is_an_error_and_never_a_crash(tmp_path, monkeypatch, large):
    monkeypatch.setattr("fedcli.io.hdf5.LARGE", large)
    whole = tmp_path / "whole.h5"
    old = tmp_path / "old.h5"
    with create_hdf5(whole, 1) as file:
        fill(file)
    with create_hdf5(old, 1) as file:
        file["x"] = np.arange(3)
    before = old.read_bytes()
    size = whole.stat().st_size
    for limit in range(0, size, 9001):
        new = tmp_path / f"{limit}.h5"
        extended = tmp_path / f"{limit}-old.h5"
        extended.write_bytes(before)
        with largest_file(limit):
            for write in (create_hdf5(new, size), replace_hdf5(old, size), extend_hdf5(extended)):
                with pytest.raises(OSError, match="too large") as error, write as file:
                    fill(file)
                assert error.value.filename
        assert old.read_bytes() == before
    with largest_file(2 * size), create_hdf5(tmp_path / "again.h5", size) as file:
        fill(file)
    assert (tmp_path / "again.h5").read_bytes() == whole.read_bytes()


def test_what_hdf5_closes_late_reaches_no_other_file(tmp_path, monkeypatch, capfd):
    """An error or a signal may stop the closing; what took the number of the open file stays as it is."""

    def fails(_):
        raise KeyboardInterrupt

    open_files = []
    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr(h5py.File, "close", fails)
        with replace_hdf5(tmp_path / "x.h5") as file:
            open_files.append(file)
            fill(file)
    with (tmp_path / "other").open("w+b") as other:  # the number that was free
        other.write(b"of another")
        other.flush()
        open_files.pop().close()
        del file
    assert (tmp_path / "other").read_bytes() == b"of another"
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_an_error_that_may_pass_is_not_called_damage(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise OSError(errno.EMFILE, "Unable to open file (a long text of HDF5)")

    path = tmp_path / "x.h5"
    with create_hdf5(path) as file:
        file["x"] = np.zeros(3)
    with pytest.raises(OSError, match=r"Too many open files: .*b\.csv"), open_hdf5(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "b.csv")
    with pytest.raises(OSError, match="No space left"), open_hdf5(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "b.csv")
    monkeypatch.setattr(h5py.File, "__init__", fails)
    with pytest.raises(OSError, match=r"Too many open files: .*x\.h5"), open_hdf5(path):
        pass


def test_an_error_of_whoever_fills_a_file_is_its_own(tmp_path):
    with pytest.raises(OSError, match="other") as error, create_hdf5(tmp_path / "x.h5"):
        raise OSError("other")
    assert error.value.filename is None


def test_a_damaged_byte_anywhere_is_an_error_of_ours_or_changes_numbers_only(tmp_path):
    path = tmp_path / "x.h5"
    draw = np.random.default_rng(3)
    with create_hdf5(path) as file:
        file["x"] = np.arange(20)
        file["group/y"] = np.array([b"a", b"bc"])
    good = path.read_bytes()
    refused = 0
    for position in draw.choice(len(good), 300, replace=False):
        bad = bytearray(good)
        bad[position] ^= 1 << int(draw.integers(8))
        path.write_bytes(bad)
        try:
            with open_hdf5(path, {"x": ExpectedData("iu"), "group/*": ExpectedData("S")}) as file:
                for data in file.values():
                    assert len(data[()]) < 100
        except FedcliError:
            refused += 1
    assert refused


def test_a_new_file_can_be_read_while_it_is_written_as_hdf5_does_with_those_of_many_clients(
    tmp_path,
):
    with create_hdf5(tmp_path / "new.h5") as file:
        file["large"] = np.arange(100_000)  # more than HDF5 keeps in memory
        assert file["large"][-1] == 99_999
