"""Folds, and splits that come from a file."""

import os
from collections import Counter
from pathlib import Path

import pytest
from raw_folders import completed, prepare, refused, write_csv, write_skin

from fedcli.data import manifest
from fedcli.data.pool import Row, read_pool
from fedcli.data.preparation import given_tables
from fedcli.data.sources import card
from fedcli.data.sources.division import fold_rows
from fedcli.data.sources.own_files import own_images
from fedcli.errors import UsageError

# folds


def folds(rows: list[Row], count: int, **options) -> list[set[str]]:
    """Ids of each fold's test part."""
    listings = [
        fold_rows(rows, completed(16, "folds", fold=k + 1, folds=count, **options), by_patient=True)
        for k in range(count)
    ]
    return [{row.id for row in listing if row.test} for listing in listings]


def test_every_image_tests_in_exactly_one_fold_and_every_fold_has_its_share_of_each_class():
    rows = [
        Row(f"{label}-{i}", label, None) for label, n in enumerate([50, 12, 3]) for i in range(n)
    ]
    parts = folds(rows, 5)
    assert sum(map(len, parts)) == 65
    assert len(set.union(*parts)) == 65
    result = {len(part) for part in parts}
    assert result == {13}
    for label, sizes in enumerate([{10}, {2, 3}, {0, 1}]):
        result = {sum(id.startswith(f"{label}-") for id in part) for part in parts}
        assert result == sizes


def test_folds_keep_units_together_and_stay_even():
    rows = [Row(f"i{i}", i // 3 % 2, None, patient=f"u{i // 3}") for i in range(120)]
    parts = folds(rows, 4)
    result = [len(part) for part in parts]
    assert result == [30, 30, 30, 30]
    units = [{rows[int(id[1:])].patient for id in part} for part in parts]
    assert sum(map(len, units)) == len(set.union(*units)) == 40


def test_a_unit_of_two_classes_counts_for_the_rarer_one():
    rows = [Row(f"i{i}", 0, None, patient=f"u{i}") for i in range(10)] + [
        Row(f"j{i}", 1, None, patient=f"u{i}") for i in range(4)
    ]
    for part in folds(rows, 2):
        result = Counter(id[0] for id in part)
        assert result == {"i": 5, "j": 2}


def test_folds_depend_on_the_seed_and_not_on_the_order_of_rows():
    rows = [Row(f"i{i}", i % 2, None) for i in range(40)]
    assert folds(rows, 5) == folds(rows[::-1], 5) != folds(rows, 5, seed=1)


def run(tmp_path: Path, name: str = "isic2018", **options) -> Path:
    work = tmp_path / "work"
    return prepare(name, raw=tmp_path, work=work, size=8, jobs=1, **options)


@pytest.fixture
def skin(tmp_path):
    rows = [
        [f"L{i // 2}", f"i{i:02d}", "nv" if i % 4 < 2 else "mel", 30, "male"] for i in range(20)
    ]
    return write_skin(
        tmp_path,
        rows,
    )


def test_a_fold_is_recorded_and_one_that_nobody_asked_for_is_not(skin, tmp_path):
    record = manifest.read(run(tmp_path, split="folds", fold=2, folds=3))
    result = (record.options["fold"], record.options["folds"])
    assert result == (2, 3)
    assert "--split folds --fold 2 --folds 3" in " ".join(record.made_by)
    assert "fold" not in manifest.read(run(tmp_path)).options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fold": 2}, "the split 'lesion' has no folds"),
        ({"folds": 3, "split": "image"}, "the split 'image' has no folds"),
        ({"split": "folds", "fold": 6}, "fold 6 is not one of 1 to 5"),
        ({"split": "folds", "fold": 0}, "fold 0 is not one of 1 to 5"),
        ({"split": "fold", "fold": 1}, "isic2018 has no split 'fold'"),
        ({"own": {"tone": "1"}}, "isic2018 has no option 'tone'"),
    ],
)
def test_folds_and_options_that_are_none_are_refused(skin, tmp_path, options, sentence):
    with refused(sentence, of=UsageError):
        run(tmp_path, **options)


# a file


def test_a_files_parts_become_the_split_and_images_it_leaves_out_are_listed(skin, tmp_path, capsys):
    rows = [[f"i{i:02d}", ("train", "Val", "test")[i % 3]] for i in range(19)]
    write_csv(
        tmp_path / "parts.csv",
        ["image", "split"],
        rows,
    )
    record = manifest.read(path := run(tmp_path, split_file=tmp_path / "parts.csv"))
    pool = read_pool(path.parent / "pool.h5")
    result = pool.id[pool.split == 1].tolist()
    assert result == ["i02", "i05", "i08", "i11", "i14", "i17"]
    assert len(pool.id) == 19
    assert record.body["split"]["by"] == "file"
    expected = [{"file": "images/i19.jpg", "why": "not in parts.csv"}]
    assert record.body["skipped"] == expected
    result = record.made_by[-2:]
    assert result == ["--split-file", "parts.csv"]
    assert record.options["split_file"]["name"] == "parts.csv"
    assert "6 validation images of parts.csv train" in capsys.readouterr().err
    with refused("images/i19.jpg: not in parts.csv"):
        split_file = tmp_path / "parts.csv"
        run(tmp_path, split_file=split_file, strict=True)


@pytest.mark.parametrize("name", ["{}", "{}.jpg", "images/{}.jpg"])
def test_a_file_may_name_images_by_id_file_or_path_and_hold_folds(skin, tmp_path, name):
    lines = "\n".join(f"nv;{name.format(f'i{i:02d}')};{i % 2}" for i in range(20))
    (tmp_path / "folds.csv").write_text(
        f"\ufeffclass;file-name;split-index\n{lines}\n", encoding="utf-8"
    )
    for fold in (0, 1):
        split_file = tmp_path / "folds.csv"
        path = run(tmp_path, split_file=split_file, fold=fold).parent / "pool.h5"
        pool = read_pool(path)
        expected = [int(i % 2 == fold) for i in range(20)]
        assert pool.split.tolist() == expected


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("image,part of it\ni00,test\n", {}, "has no split column"),
        ("image,split\nx,test\n", {}, "names none of the 20 images"),
        ("image,split\ni00,test\ni00,train\n", {}, "i00 is in 'test' and in 'train'"),
        ("image,split\ni00,maybe\n", {}, "unknown part 'maybe'"),
        ("image,split\ni00,0\ni01,1\n", {}, "has the folds 0, 1, and no --fold is given"),
        ("image,split\ni00,0\ni01,1\n", {"fold": 2}, "has the folds 0, 1, and --fold is 2"),
        ("image,split\ni00,test\n", {"fold": 1}, "no folds"),
        ("image,split\ni00\n", {}, "has 1 cell, not 2"),
        ("", {}, "is empty"),
        (
            "image,split\ni00,test\n",
            {"split": "image"},
            "--split image and --split-file exclude each other",
        ),
        ("image,split\ni00,test\n", {"folds": 2}, "--folds 2 with a split file"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_in_a_sentence(
    skin, tmp_path, text, options, sentence
):
    (tmp_path / "parts.csv").write_text(text)
    with refused(sentence):
        split_file = tmp_path / "parts.csv"
        run(tmp_path, split_file=split_file, **options)
    with refused("no such file"):
        run(tmp_path, split_file=tmp_path / "none.csv")


REAL = pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)


@REAL
def test_flambys_own_file_gives_its_published_parts():
    data = Path(os.environ["FEDCLI_REAL_DATA"])
    images = [
        Row(file.stem, 0, f"images/{file.name}")
        for file in sorted((data / "ham10000" / "images").iterdir())
    ]
    path = data / "splits" / "flamby_isic2019_train_test_split.csv"
    rows, skipped = given_tables.by_file(images, path, None)
    assert len(rows) == 10015
    assert not skipped
    result = sum(row.test for row in rows)
    assert result == 2003


@REAL
def test_hyper_kvasirs_own_file_gives_its_folds():
    path = (
        Path(os.environ["FEDCLI_REAL_DATA"])
        / "splits"
        / "hyper_kvasir"
        / "official_splits"
        / "5_fold_split.csv"
    )
    names = [line.split(";")[0] for line in path.read_text().splitlines()[1:]]
    images = [Row(Path(name).stem, 0, f"labeled-images/{name}") for name in names]
    sizes = []
    for fold in range(5):
        rows, _ = given_tables.by_file(images, path, fold)
        sizes.append(sum(row.test for row in rows))
    assert sum(sizes) == len(names) == 10662
    assert max(sizes) - min(sizes) < 100


@REAL
def test_ham10000_read_as_your_own_images_has_its_published_counts():
    raw = Path(os.environ["FEDCLI_REAL_DATA"], "ham10000")
    options = {key: option["default"] for key, option in card("images")["options"].items()}
    options |= {"table": "HAM10000_metadata.csv", "image-column": "image_id", "label-column": "dx"}
    options |= {"group": "sex,age", "patient": "lesion_id"}
    choices = completed(16, "unit", window="file", own=options)
    table = own_images.rows(raw, choices)
    counts = Counter(table.classes[row.label] for row in table.rows)
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
    result = Counter(row.groups["sex"] for row in table.rows)
    expected = {-1: 57, 0: 4552, 1: 5406}
    assert result == expected
    result = len({row.patient for row in table.rows})
    assert result == 7470
    assert table.channels == 3
    assert table.skipped == []


def numbered(tmp_path, lines):
    path = tmp_path / "split.csv"
    path.write_text("\n".join(["split,image", *lines]) + "\n")
    rows = [Row(f"{k}", 0, f"{k}.png") for k in range(4)]
    return given_tables.by_file(rows, path, 1)[0]


def test_fold_numbers_that_are_names_of_files_too_are_no_ids(tmp_path):
    lines = ["1,0.png", "1,1.png", "0,2.png", "0,3.png"]
    result = numbered(tmp_path, lines)
    assert [row.test for row in result] == [True, True, False, False]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["0,train"], "names 2 images"),
        (["x/0.png,train", "0.png,test"], "names 2 images"),
        (["x/0.png,train", "a,test"], "and, as"),
    ],
)
def test_a_name_of_two_images_or_an_image_in_two_parts_is_refused(tmp_path, names, sentence):
    path = tmp_path / "split.csv"
    path.write_text("\n".join(["image,split", *names]) + "\n")
    with refused(sentence):
        rows = [Row("a", 0, "x/0.png"), Row("b", 0, "y/0.png")]
        given_tables.by_file(rows, path, None)
