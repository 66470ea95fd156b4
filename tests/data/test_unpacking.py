"""Archives from elsewhere: plain files in their folder alone, no more than declared."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import tracemalloc
import zipfile

import pytest
from download_server import ZIP, zipped

from fedcli.data.preparation import archives
from fedcli.data.preparation.archives import unpack
from fedcli.errors import FedcliError


def tarred(*members: tarfile.TarInfo) -> bytes:
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.size = 1 if kind == tarfile.REGTYPE else 0
    entry.linkname = "/etc/hosts"
    return entry


@pytest.mark.parametrize(
    "content",
    [b"PK but no archive", ZIP[:-30], tarred(member("a"))[:-20]],
    ids=["text", "zip", "tar"],
)
def test_what_is_no_archive_is_a_sentence(tmp_path, content):
    (tmp_path / "all.zip").write_bytes(content)
    with pytest.raises(FedcliError, match="cannot be unpacked"):
        unpack(tmp_path / "all.zip", tmp_path / "pictures", 10**6)
    assert not (tmp_path / "pictures").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped(**{"..__out": b""}), "leads out of the folder"),
        (zipped(__out=b""), "leads out of the folder"),
        (tarred(member("in"), member("../out")), "leads out of the folder"),
        (tarred(member("in", tarfile.SYMTYPE)), "no plain file"),
        (tarred(member("in", tarfile.LNKTYPE)), "no plain file"),
        (tarred(member("in", tarfile.FIFOTYPE)), "no plain file"),
        (zipped(**{"in\\..\\out": b""}), "leads out of the folder"),
        (zipped(a=b"x" * 100_001), "more than its card declares"),
        (zipped(a=b"x" * 60_000, b=b"x" * 60_000), "more than its card declares"),
        (tarred(*[member(str(i)) for i in range(3)]), None),
    ],
    ids=[
        *("zip-up", "zip-root", "tar-up", "link", "hard-link", "pipe"),
        *("zip-backslash", "large", "large-together", "good"),
    ],
)
def test_an_archive_writes_plain_files_into_its_folder_alone(tmp_path, content, words):
    (tmp_path / "all").write_bytes(content)
    if words is None:
        unpack(tmp_path / "all", tmp_path / "new" / "pictures", 100_000)
        result = {p.name for p in (tmp_path / "new" / "pictures").iterdir()}
        assert result == {"0", "1", "2"}
    else:
        with pytest.raises(FedcliError, match=words):
            unpack(tmp_path / "all", tmp_path / "new" / "pictures", 100_000)
        assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("last", ["", "c"])
def test_several_folders_of_an_archive_are_all_unpacked(tmp_path, last):
    with zipfile.ZipFile(tmp_path / "all", "w") as archive:
        for name in ("a/1", "b/2", "__MACOSX/a/._1", *last):
            archive.writestr(name, b"content")
    unpack(tmp_path / "all", tmp_path / "pictures", 10**6)
    unpacked = sorted(path.name for path in (tmp_path / "pictures").rglob("*") if path.is_file())
    assert unpacked == ["1", "2", *last]


def compressed(*headers: bytes) -> bytes:
    return gzip.compress(b"".join(headers) + bytes(1024))


def pax(records: bytes, size: int | None = None) -> bytes:
    """A pax header of these records, which may claim to be longer than it is."""
    header = tarfile.TarInfo("pax")
    header.type = tarfile.XHDTYPE
    header.size = len(records) if size is None else size
    return header.tobuf() + records + bytes(-len(records) % 512)


ENDED = member("a").tobuf() + b"x" + bytes(511)
LONG_NAME = tarfile.TarInfo("long")
LONG_NAME.type = tarfile.GNUTYPE_LONGNAME
LONG_NAME.size = 10**9
UNFIT = {
    "pax size in words": compressed(pax(b"14 size=words\n"), ENDED),
    "pax size of 1e30": compressed(pax(b"13 size=1e30\n"), ENDED),
    "damaged header of the second file": compressed(ENDED, b"damage" + ENDED[6:]),
    "header that breaks off": gzip.compress(ENDED + ENDED[:100]),
    "other sum": tarred(member("a"))[:-8] + bytes(8),
    "pax header of 1 GB": compressed(pax(b"", 10**9)),
    "long name of 1 GB": compressed(LONG_NAME.tobuf()),
    "name twice": tarred(member("a"), member("a")),
    "zip name twice": zipped(a=b"x")[:-22],
    "folder where a file is": tarred(member("a"), member("a/b")),
    "name of 300 letters": tarred(member("a" * 300)),
    "damaged bzip2": bz2.compress(random.Random(0).randbytes(10_000))[:5000] + b"damage",
    "xz": lzma.compress(b"x" * 10_000),
    "nothing in a tar": tarred(),
    "nothing in a zip": zipped(),
    "only folders": tarred(member("a", tarfile.DIRTYPE)),
    "zip name that is not UTF-8": zipped(é=b"x").replace(b"\xc3\xa9", b"\xff\xff"),
}


@pytest.mark.parametrize("content", UNFIT.values(), ids=UNFIT)
def test_an_archive_that_is_broken_in_any_way_is_a_sentence(tmp_path, content):
    (tmp_path / "all").write_bytes(content)
    with pytest.raises(FedcliError, match="all cannot be unpacked: "):
        unpack(tmp_path / "all", tmp_path / "pictures", 10**6)
    result = [path.name for path in tmp_path.iterdir()]
    assert result == ["all"]


def test_a_long_header_takes_no_memory(tmp_path):
    with gzip.open(tmp_path / "all", "wb", compresslevel=1) as file:
        size = 2**25
        file.write(pax(b"", size))
        for _ in range(32):
            file.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(FedcliError, match="a header of 33,554,432 bytes is longer than 1,048,576"):
        unpack(tmp_path / "all", tmp_path / "pictures", 10**6)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_files_are_counted_as_they_are_reached(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "MOST_FILES", 20)
    members = [tarfile.TarInfo(str(k)) for k in range(21)]
    for empty in members:
        empty.type = kind
    (tmp_path / "all.tgz").write_bytes(tarred(*members))
    (tmp_path / "all.zip").write_bytes(zipped(**{str(k): b"" for k in range(21)}))
    for name in ("all.tgz", "all.zip"):
        with pytest.raises(FedcliError, match="holds more than 20 files"):
            unpack(tmp_path / name, tmp_path / "pictures", 10**6)
    assert not (tmp_path / "pictures").exists()


def test_a_long_directory_of_a_zip_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LONGEST_DIRECTORY", 500)
    (tmp_path / "all").write_bytes(zipped(**{str(k): b"" for k in range(21)}))
    with pytest.raises(FedcliError, match=r"cannot be unpacked: a header of .* is longer"):
        unpack(tmp_path / "all", tmp_path / "pictures", 10**6)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_tars_of_the_usual_kinds_are_unpacked(tmp_path, compress):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("top/" + "deep/" * 40 + "a", "top/\u00e9"):
            archive.addfile(member(name), io.BytesIO(b"x"))
    (tmp_path / "all").write_bytes(compress(packed.getvalue()))
    unpack(tmp_path / "all", tmp_path / "pictures", 10**6)
    result = (tmp_path / "pictures" / "\u00e9").read_bytes()
    assert result == b"x"
    result = (tmp_path / "pictures" / ("deep/" * 40) / "a").read_bytes()
    assert result == b"x"
