import errno
import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, write_csv, write_ct, write_skin
from raw_folders import prepare as prepared

from fedcli.data import manifest, shared_patients
from fedcli.data.pool import Row, read_pool
from fedcli.data.preparation import prepare
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources import rsna_ich
from fedcli.data.sources.formats import photographs
from fedcli.data.sources.skin import isic2018
from fedcli.errors import FedcliError, UsageError

REAL = pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)


@pytest.fixture
def skin(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [
        [f"L{i}", f"i{i:02d}", "nv" if i % 2 else "mel", 30 + 3 * i, "male" if i % 3 else "unknown"]
        for i in range(20)
    ]
    return write_skin(raw, rows)


def run(name: str, tmp_path: Path, out: Path | None = None, **options) -> Path:
    fields = {"size": 8, "jobs": 1, **options}
    work = tmp_path / "work"
    return prepared(name, work=work, out=out, **fields)


def blank(raw: Path, row: Row, choices: PrepareOptions) -> np.ndarray:
    """In place of a decoder: a black image."""
    return np.zeros((choices.size, choices.size, 3), np.uint8)


def damage(raw: Path, name: str) -> None:
    path = raw / "images" / name
    path.write_bytes(path.read_bytes()[:-60])


def test_a_folder_becomes_a_pool_and_a_manifest(skin, tmp_path):
    path = run("isic2018", tmp_path, raw=skin)
    assert path.name == "dataset.json"
    assert path.parent.name.startswith("isic2018-8-")
    record = manifest.verify(path, "dataset")
    assert (
        " ".join(record.made_by)
        == "prepare isic2018 --size 8 --fit stretch --test 0.2 --split lesion --seed 0"
    )
    result = {
        key: record.body[key]
        for key in ("count", "size", "channels", "split", "unit", "unknown", "skipped", "sites")
    }
    split = {"train": 16, "test": 4, "by": "lesion"}
    expected = {
        "count": 20,
        "size": [8, 8],
        "channels": 3,
        "split": split,
        "unit": "lesion_id",
        "unknown": {"sex": 7, "age": 0},
        "skipped": [],
        "sites": None,
    }
    assert result == expected
    pool = read_pool(path.parent / "pool.h5")
    assert pool.shape == (20, 8, 8, 3)
    assert pool.id[3] == "i03"
    assert pool.patient[3] == "L3"
    assert pool.split.sum() == 4
    expected = [0] * 4 + [1] * 6 + [2] * 10
    assert pool.groups["age"].tolist() == expected
    colours = pool.pixels()[:, 4, 4].astype(int)  # of images of one colour each, through JPEG
    result = np.abs(colours - [[10 * i, 100, 200] for i in range(20)]).max()
    assert result <= 3


def test_the_manifest_names_no_place_on_this_machine(skin, tmp_path):
    assert str(tmp_path) not in run("isic2018", tmp_path, raw=skin).read_text()


def test_every_number_of_jobs_gives_the_same_bytes(skin, tmp_path):
    out = tmp_path / "one"
    ended = run("isic2018", tmp_path, raw=skin, out=out, fit="pad", clahe=True)
    out = tmp_path / "two"
    two = run("isic2018", tmp_path, raw=skin, out=out, fit="pad", clahe=True, jobs=2)
    assert ended.read_bytes() == two.read_bytes()
    expected = (two.parent / "pool.h5").read_bytes()
    assert (ended.parent / "pool.h5").read_bytes() == expected


def test_the_same_request_is_not_made_twice(skin, tmp_path, monkeypatch):
    path = run("isic2018", tmp_path, raw=skin)
    monkeypatch.setattr(prepare, "fill", None)
    assert run("isic2018", tmp_path, raw=skin) == path


@pytest.mark.parametrize(
    "change",
    [{"size": 9}, {"seed": 1}, {"fit": "pad"}, {"clahe": True}, {"split": "image"}, {"test": 0.3}],
)
def test_another_option_is_another_result(skin, tmp_path, change):
    other = run("isic2018", tmp_path, raw=skin, **change)
    assert run("isic2018", tmp_path, raw=skin) != other


def test_other_raw_files_are_another_result_and_another_place_is_not(skin, tmp_path):
    path = run("isic2018", tmp_path, raw=skin)
    raw = shutil.copytree(skin, tmp_path / "copy")
    result = run("isic2018", tmp_path, raw=raw)
    assert result == path
    Image.new("RGB", (40, 30)).save(skin / "images" / "i00.jpg")
    path_changed = run("isic2018", tmp_path, raw=skin)
    table = skin / isic2018.HAM
    table.write_text(table.read_text().replace("male", "female"))
    result = len({path, path_changed, run("isic2018", tmp_path, raw=skin)})
    assert result == 3


def test_a_large_image_that_changed_anywhere_is_another_result(skin, tmp_path):
    path = skin / "images" / "i00.jpg"
    path.unlink()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), np.uint8)).save(
        path, "BMP"
    )
    dataset_path = run("isic2018", tmp_path, raw=skin)
    pixels = bytearray(path.read_bytes())
    pixels[100_000:150_000] = bytes(50_000)
    path.write_bytes(pixels)
    assert run("isic2018", tmp_path, raw=skin) != dataset_path


def test_an_unreadable_image_is_left_out_and_listed(skin, tmp_path, capsys):
    whole = read_pool(run("isic2018", tmp_path, raw=skin).parent / "pool.h5")
    damage(skin, "i05.jpg")
    path = run("isic2018", tmp_path, raw=skin, jobs=2)
    body = manifest.verify(path).body
    expected = [{"file": "images/i05.jpg", "why": "OSError: Truncated File Read"}]
    assert body["skipped"] == expected
    assert body["count"] == 19
    result = sum(body["split"][part] for part in ("train", "test"))
    assert result == 19
    assert capsys.readouterr().err.count("left out") == 1  # the command does not say it again
    pool = read_pool(path.parent / "pool.h5")
    others = np.delete(np.arange(20), 5)
    expected = whole.id[others].tolist()
    assert pool.id.tolist() == expected
    expected = whole.split[others].tolist()
    assert pool.split.tolist() == expected
    assert np.array_equal(pool.pixels(), whole.pixels(others))
    result = sorted(p.name for p in path.parent.iterdir())
    assert result == [
        "dataset.json",
        "originals.json",
        "pool.h5",
    ]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_an_error_that_may_pass_stops_and_leaves_no_image_out(skin, tmp_path, monkeypatch, number):
    def fails(self):
        raise OSError(number, os.strerror(number), "i03.jpg")

    monkeypatch.setattr(prepare, "_seen", fails)
    with pytest.raises(OSError, match="i03"):
        run("isic2018", tmp_path, raw=skin)
    monkeypatch.undo()
    monkeypatch.setattr(photographs, "_upright", fails)
    with pytest.raises(OSError, match="i03"):
        run("isic2018", tmp_path, raw=skin)


def test_an_image_that_comes_or_goes_while_it_is_read_is_an_error(skin, tmp_path, monkeypatch):
    path = skin / "images" / "i03.jpg"
    fill = prepare.fill
    state_of = prepare._seen

    def without(*arguments):
        path.rename(tmp_path / "elsewhere")
        filled = fill(*arguments)
        (tmp_path / "elsewhere").rename(path)
        path.write_bytes(b"")
        return filled

    monkeypatch.setattr(prepare, "fill", without)
    with pytest.raises(FedcliError, match=r"i03.jpg changed while it was read"):
        run("isic2018", tmp_path, raw=skin)
    shutil.copy(skin / "images" / "i04.jpg", path)
    monkeypatch.setattr(prepare, "fill", fill)
    monkeypatch.setattr(
        prepare, "_seen", lambda name: "-1" if name == str(path) else state_of(name)
    )
    with pytest.raises(FedcliError, match=r"i03.jpg changed while it was read"):
        run("isic2018", tmp_path, raw=skin)
    assert not list((tmp_path / "work" / "datasets").iterdir())


def test_strict_refuses_an_unreadable_image_and_leaves_nothing(skin, tmp_path):
    damage(skin, "i05.jpg")
    with pytest.raises(FedcliError, match=r"images/i05\.jpg: OSError: Truncated File Read"):
        run("isic2018", tmp_path, raw=skin, strict=True)
    result = list((tmp_path / "work" / "datasets").iterdir())
    assert result == []


def test_strict_refuses_an_absent_image(skin, tmp_path):
    (skin / "images" / "i05.jpg").unlink()
    with pytest.raises(FedcliError, match=r"i05\.jpg: listed in HAM10000_metadata.csv"):
        run("isic2018", tmp_path, raw=skin, strict=True)


def test_a_stage_that_is_stopped_leaves_nothing(skin, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare.shard.BlankPool, "finish", stop)
    with pytest.raises(KeyboardInterrupt):
        run("isic2018", tmp_path, raw=skin)
    result = list((tmp_path / "work" / "datasets").iterdir())
    assert result == []


def test_a_folder_with_nothing_readable_is_an_error(skin, tmp_path):
    for path in (skin / "images").iterdir():
        path.write_text("no image")
    with pytest.raises(FedcliError, match="none of the 20 images can be read") as error:
        run("isic2018", tmp_path, raw=skin)
    assert "images/i19.jpg" in error.value.hint
    shutil.rmtree(skin / "images")
    with pytest.raises(FedcliError, match="holds no image of isic2018") as error:
        run("isic2018", tmp_path, raw=skin)
    assert error.value.hint.startswith("i00.jpg: listed in")


def test_the_raw_folder_must_be_given_and_exist_and_be_wanted(tmp_path):
    with pytest.raises(UsageError, match="isic2018 needs the folder of its files"):
        run("isic2018", tmp_path)
    with pytest.raises(FedcliError, match=f"no such folder: {tmp_path}/none"):
        raw = tmp_path / "none"
        run("isic2018", tmp_path, raw=raw)
    with pytest.raises(UsageError, match="toy reads no files"):
        run("toy", tmp_path, raw=tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"split": "patient"}, "toy has no split 'patient'"),
        ({"window": "brain"}, "toy is no CT"),
    ],
)
def test_an_option_that_cannot_mean_anything_is_refused(tmp_path, options, sentence):
    with pytest.raises(UsageError, match=sentence):
        run("toy", tmp_path, **options)


def test_toy_is_enlarged_to_its_cards_size(tmp_path):
    path = run("toy", tmp_path, size=None)
    record = manifest.verify(path)
    assert record.body["size"] == [16, 16]
    assert record.body["count"] == 1797
    assert record.body["attributes"] == {}
    assert record.options["raw_fingerprint"] is None


def test_phantom_names_its_sites(tmp_path):
    path = run("phantom", tmp_path)
    record = manifest.verify(path)
    assert record.body["sites"] == "site"
    assert record.body["unit"] == "patient_id"
    expected = {"train": 960, "test": 240, "by": "patient"}
    assert record.body["split"] == expected


def test_ct_takes_the_window_from_the_card_or_the_person(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    labels = {f"ID_{i}": "subdural any" for i in range(5)}
    write_ct(raw, labels)
    of_card = run("rsna-ich", tmp_path, raw=raw, split="image")
    wide = run("rsna-ich", tmp_path, raw=raw, split="image", window="0/510")
    result = json.loads(of_card.read_text())["options"]["window"]
    assert result == "file"
    path = of_card.parent / "pool.h5"
    result = read_pool(path).pixels()[:, 0, 0, 0].tolist()
    assert result == [
        0,
        3,
        6,
        10,
        13,
    ]  # HU i of 0..80
    path = wide.parent / "pool.h5"
    result = read_pool(path).pixels()[:, 0, 0, 0].tolist()
    assert result == [
        128,
        128,
        128,
        129,
        130,
    ]


@REAL
def test_all_of_ham10000_has_its_published_counts():
    """Its tables, the names of its files and the split; the session on real images decodes them."""
    raw = Path(os.environ["FEDCLI_REAL_DATA"], "ham10000")
    listing = isic2018.rows(raw, completed(16, "lesion"))
    rows = listing.rows
    centers = listing.attributes["center"]
    counts = Counter(isic2018.CLASSES[row.label] for row in rows)
    expected = {
        "nv": 6705,
        "mel": 1113,
        "bkl": 1099,
        "bcc": 514,
        "akiec": 327,
        "vasc": 142,
        "df": 115,
    }
    assert counts == expected
    result = Counter(row.groups["sex"] for row in rows)
    expected = {-1: 57, 0: 4552, 1: 5406}
    assert result == expected
    result = sum(row.groups["age"] == -1 for row in rows)
    assert result == 57
    by_center = Counter(centers[row.groups["center"]] for row in rows)
    expected = {
        "vidir_molemax": 3954,
        "vidir_modern": 3363,
        "rosendahl": 2259,
        "vienna_dias": 439,
    }
    assert by_center == expected
    trained = {row.patient for row in rows if not row.test}
    tested = {row.patient for row in rows if row.test}
    assert len(trained | tested) == 7470
    assert not trained & tested
    of_training = Counter(row.label for row in rows if not row.test)
    result = [of_training[label] for label in range(7)]
    expected = [890, 5364, 411, 261, 879, 92, 113]
    assert result == expected


@REAL
def test_the_official_fold_of_ham10000_shares_696_lesions():
    raw = Path(os.environ["FEDCLI_REAL_DATA"], "ham10000")
    listing = isic2018.rows(raw, completed(16, "official"))
    result = sum(row.test for row in listing.rows)
    assert result == 2003
    shared = shared_patients.of_rows(listing.patient, listing.rows)
    assert shared_patients.of_body(shared).startswith("696 of ")


@REAL
def test_real_ct_files_become_a_pool_in_kaggles_layout(tmp_path):
    result = Path(os.environ["FEDCLI_REAL_DATA"], "ct_head").rglob("*")
    files = sorted(p for p in result if p.is_file() and p.name != "LICENSE")
    raw = tmp_path / "raw"
    (raw / "stage_2_train").mkdir(parents=True)
    rows = []
    for i, file in enumerate(files):
        shutil.copyfile(file, raw / "stage_2_train" / f"ID_{i:03d}.dcm")
        rows += [[f"ID_{i:03d}_{s}", int(i % 5 == k)] for k, s in enumerate(rsna_ich.CLASSES)]
    write_csv(raw / "stage_2_train.csv", ["ID", "Label"], rows)
    cut = raw / "stage_2_train" / "ID_003.dcm"
    cut.write_bytes(cut.read_bytes()[:300_000])
    path = run("rsna-ich", tmp_path, raw=raw, size=64, jobs=0, split="patient")
    body = manifest.verify(path).body
    pool = read_pool(path.parent / "pool.h5")
    cut_short = next(entry["why"] for entry in body["skipped"] if "cut short" in entry["why"])
    outcome = Counter(entry["why"].split(":")[0] for entry in body["skipped"])
    assert outcome == {
        "holds no image": 1,
        cut_short: 1,
    }
    assert body["count"] == 36
    assert body["attributes"] == {"sex": ["female", "male"]}
    assert len(set(pool.patient)) == 2
    assert (pool.pixels().reshape(36, -1).max(1) == 255).all()
