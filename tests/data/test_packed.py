"""One's own images in Parquet, Arrow and tar files."""

import io
import json
import tarfile

import pytest
from PIL import Image
from raw_folders import prepare, refused

from fedcli.data import manifest
from fedcli.data.pool import read_pool
from fedcli.data.sources.formats import packed
from fedcli.data.sources.source import Unreadable
from fedcli.errors import FedcliError

COUNT = 12
OWN = {"group": "sex", "patient": "person"}


def png(i, coloured=True):
    """A picture of one colour that says which it is."""
    data = io.BytesIO()
    Image.new("RGB" if coloured else "L", (9, 8), (20 * i, 7, 0) if coloured else 20 * i).save(
        data, "png"
    )
    return data.getvalue()


def about(i):
    return {"label": "ab"[i % 2], "sex": "fm"[i // 2 % 2], "person": f"p{i // 2}"}


def archive(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def web(path, coloured=True):
    members = [(f"x/{i:03d}.png", png(i, coloured)) for i in range(COUNT)]
    return archive(
        path, members + [(f"x/{i:03d}.json", json.dumps(about(i)).encode()) for i in range(COUNT)]
    )


def hugging(path, kind="parquet", names=("a", "b")):
    """Write a file like those of Hugging Face: pictures in structs, classes as numbers that its description names."""
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    sex = [about(i)["sex"] for i in range(COUNT)]
    person = [about(i)["person"] for i in range(COUNT)]
    columns = {
        "sex": sex,
        "person": person,
    }
    columns["image"] = [{"bytes": png(i), "path": None} for i in range(COUNT)]
    columns["label"] = [i % 2 for i in range(COUNT)]
    label = {"names": list(names), "_type": "ClassLabel"}
    features = {"label": label, "image": {"_type": "Image"}}
    huggingface = json.dumps({"info": {"features": features}})
    table = arrow.table(columns).replace_schema_metadata({"huggingface": huggingface})
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=5)
    else:
        with arrow.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    return path


@pytest.mark.parametrize("kind", ["parquet", "arrow", "tar"])
def test_packed_images_are_read_as_a_folder_with_a_csv_is(kind, tmp_path):
    path = tmp_path / "raw" / "train" / f"data-0.{kind}"
    web(path) if kind == "tar" else hugging(path, kind)
    raw = tmp_path / "raw"
    dataset_path = prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own=OWN)
    body = manifest.read(dataset_path).body
    result = (body["classes"], body["channels"], body["count"])
    assert result == (["a", "b"], 3, COUNT)
    assert body["attributes"] == {"sex": ["female", "male"]}
    assert body["unit"] == "person"
    pool = read_pool(dataset_path.parent / "pool.h5")
    assert pool.shape == (COUNT, 8, 8, 3)
    result = [pool.pixels()[i, 0, 0, 0] for i in range(COUNT)]
    expected = [20 * i for i in range(COUNT)]
    assert result == expected


def test_a_dataset_that_its_library_saved_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    image = [{"bytes": png(i), "path": None} for i in range(4)]
    columns = {"image": image, "label": [0, 1, 0, 1]}
    label = datasets.ClassLabel(names=["ill", "well"])
    features = datasets.Features({"image": datasets.Image(), "label": label})
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(tmp_path / "raw")
    raw = tmp_path / "raw"
    dataset_path = prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)
    result = manifest.read(dataset_path).body["classes"]
    assert result == ["ill", "well"]
    assert manifest.read(dataset_path).body["count"] == 4


def test_labels_in_members_of_their_own_and_grey_pictures(tmp_path):
    members = [(f"{i}.png", png(i, coloured=False)) for i in range(4)] + [
        (f"{i}.cls", b"01"[i % 2 :][:1]) for i in range(4)
    ]
    path = tmp_path / "raw" / "shard.tar"
    archive(path, members)
    raw = tmp_path / "raw"
    body = manifest.read(prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)).body
    result = (body["classes"], body["channels"])
    assert result == (["0", "1"], 1)


def test_members_never_leave_the_archive(tmp_path):
    """Names that lead out and links are read in place or not at all."""
    path = tmp_path / "raw" / "shard.tar"
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(3))
    members = [
        ("../../out.png", png(1)),
        ("../../out.cls", b"a"),
        ("in.png", png(2)),
        ("in.cls", b"b"),
    ]
    archive(
        path,
        members,
    )
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("link.png")
        link.type = tarfile.SYMTYPE
        link.linkname = str(secret)
        tar.addfile(link)
    raw = tmp_path / "raw"
    table = packed.read_columns(raw, ["shard.tar"])
    assert len(table) == 2
    assert not (tmp_path.parent / "out.png").exists()
    result = packed.picture(tmp_path / "raw", table[packed.AT][0])
    assert result == png(1)


def test_a_truncated_archive_and_what_is_none_are_refused(tmp_path):
    path = web(tmp_path / "raw" / "shard.tar")
    path.write_bytes(path.read_bytes()[:900])
    for content in (path.read_bytes(), b"these are words"):
        path.write_bytes(content)
        with pytest.raises(FedcliError, match=r"shard.tar") as error:
            raw = tmp_path / "raw"
            packed.read_columns(raw, ["shard.tar"])
        assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("name", "program"), [("a.tar.gz", "gunzip"), ("a.TGZ", "gunzip"), ("a.tar.xz", "unxz")]
)
def test_a_compressed_archive_is_refused_with_what_uncompresses_it(name, program, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_bytes(b"")
    with pytest.raises(
        FedcliError, match="is compressed, so no picture can be read at its place"
    ) as error:
        raw = tmp_path / "raw"
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)
    expected = f"{program} {tmp_path / 'raw' / name}"
    assert error.value.hint == expected


def test_damaged_tables_are_refused(tmp_path):
    for kind in ("parquet", "arrow"):
        path = hugging(tmp_path / f"data.{kind}", kind)
        path.write_bytes(path.read_bytes()[:300])
        with refused(f"data.{kind} cannot be read"):
            packed.read_columns(tmp_path, [path.name])


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("1.png", png(1)), ("1.jpg", png(2))], "two pictures called '/1'"),
        ([("1.png", png(1)), ("1.json", b"[1]")], "is no object"),
        ([("1.png", png(1)), ("1.cls", b"x" * 2**17)], "has 131,072 bytes"),
        ([("1.cls", b"a")], "holds no picture in its 1 packed files"),
    ],
)
def test_archives_that_say_nothing_clear_are_refused(members, sentence, tmp_path):
    archive(tmp_path / "shard.tar", members)
    with refused(sentence):
        packed.read_columns(tmp_path, ["shard.tar"])


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    web(tmp_path / "raw" / "shard.tar")
    with refused("has no column 'hospital', only", "--site"):
        raw = tmp_path / "raw"
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own={"site": "hospital"})


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_that_lost_its_pictures_is_named_with_the_reason(kind, tmp_path):
    """Another file in its place, while the images are read."""
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / f"data.{kind}"
    table = arrow.table({"label": [0, 1]})
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with arrow.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    with pytest.raises(packed.Unreadable, match=r"^has no column of pictures$"):
        packed._cell(path, 0, (0, 0), 1)


def test_a_row_without_bytes_is_left_out_and_the_package_is_named(tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    image = [{"bytes": None, "path": "a.png"}]
    table = arrow.table({"image": image, "label": ["a"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    cell = packed.read_columns(tmp_path, ["t.parquet"])[packed.AT][0]
    with pytest.raises(Unreadable, match="perhaps only the path"):
        packed.picture(tmp_path, cell)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.ipc", None)
    with refused("need the package pyarrow"):
        packed.read_columns(tmp_path, ["t.parquet"])
