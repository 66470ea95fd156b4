"""Archives from elsewhere: plain files in their folder alone, no more than declared."""

import io
import tarfile

import pytest
from download_server import ZIP, zipped

from fedcli.data.preparation.download import unpack
from fedcli.errors import FedcliError


def tarred(*members: tarfile.TarInfo) -> bytes:
    with tarfile.open(fileobj=(made := io.BytesIO()), mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return made.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, 1 if kind == tarfile.REGTYPE else 0, "/etc/hosts"
    return made


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
        (zipped(**{"__out": b""}), "leads out of the folder"),
        (tarred(member("in"), member("../out")), "leads out of the folder"),
        (tarred(member("in", tarfile.SYMTYPE)), "no plain file"),
        (tarred(member("in", tarfile.LNKTYPE)), "no plain file"),
        (tarred(member("in", tarfile.FIFOTYPE)), "no plain file"),
        (zipped(a=b"x" * 100_001), "more than its card declares"),
        (tarred(*[member(str(i)) for i in range(3)]), None),
    ],
    ids=["zip-up", "zip-root", "tar-up", "link", "hard-link", "pipe", "large", "good"],
)
def test_an_archive_writes_plain_files_into_its_folder_alone(tmp_path, content, words):
    (tmp_path / "all").write_bytes(content)
    if words is None:
        unpack(tmp_path / "all", tmp_path / "new" / "pictures", 100_000)
        assert {p.name for p in (tmp_path / "new" / "pictures").iterdir()} == {"0", "1", "2"}
    else:
        with pytest.raises(FedcliError, match=words):
            unpack(tmp_path / "all", tmp_path / "new" / "pictures", 100_000)
        assert not list((tmp_path / "new").iterdir())
