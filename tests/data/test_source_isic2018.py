"""HAM10000 and ISIC 2018: their tables and folders."""

from pathlib import Path

import pytest
from PIL import Image
from raw_folders import completed, ids, in_any_order, refused, write_csv, write_skin

from fedcli.data import shared_patients
from fedcli.data.sources.skin import isic2018
from fedcli.errors import FedcliError

LESION = completed(16, "lesion")


def test_skin_rows_carry_class_lesion_sex_and_age(tmp_path):
    rows = [
        ["L1", "b", "nv", 45.0, "male"],
        ["L2", "a", "mel", "", "unknown"],
        ["L1", "c", "nv", 61, "female"],
    ]
    write_skin(
        tmp_path,
        rows,
    )
    listing = isic2018.rows(tmp_path, LESION)
    result = [(r.id, r.label, r.patient, r.groups["sex"], r.groups["age"]) for r in listing.rows]
    expected = [
        ("a", 0, "L2", -1, -1),
        ("b", 1, "L1", 1, 1),
        ("c", 1, "L1", 0, 2),
    ]
    assert result == expected
    assert listing.rows[0].source == "images/a.jpg"
    assert listing.patient == "lesion_id"
    assert list(listing.attributes) == ["sex", "age"]
    assert listing.tables == [isic2018.HAM]
    result = isic2018.SOURCE.decode(tmp_path, listing.rows[0], LESION).shape
    assert result == (9, 12, 3)


@pytest.mark.parametrize("folder", [".", "HAM10000_images_part_1", "HAM10000_images_part_2"])
def test_skin_images_may_lie_where_the_archives_put_them(tmp_path, folder):
    rows = [["L1", "a", "nv", 45, "male"]]
    images = tmp_path / folder
    write_skin(tmp_path, rows, images=images)
    expected = (Path(folder) / "a.jpg").as_posix()
    result = isic2018.rows(tmp_path, LESION).rows[0].source
    assert result == expected


@pytest.mark.parametrize("backwards", [False, True])
def test_of_several_files_of_a_skin_image_the_first_name_counts_on_every_machine(
    tmp_path, monkeypatch, backwards
):
    rows = [["L1", "a", "nv", 30, "male"]]
    write_skin(tmp_path, rows)
    folder = next(path.parent for path in tmp_path.rglob("a.jpg"))
    for name in ("a.png", "a.JPG"):
        (folder / name).write_bytes((folder / "a.jpg").read_bytes())
    in_any_order(monkeypatch, backwards)
    result = [Path(row.source).name for row in isic2018.rows(tmp_path, LESION).rows]
    assert result == ["a.JPG"]


def test_the_hospital_comes_from_the_table_beside(tmp_path):
    rows = [
        ["L1", "a", "nv", 45, "male"],
        ["L2", "b", "nv", 45, "male"],
        ["L3", "c", "nv", 45, "male"],
    ]
    write_skin(
        tmp_path,
        rows,
    )
    folds = [["b", "rosendahl", "train"], ["a", "vienna_dias", "test"]]
    path = tmp_path / isic2018.CENTERS
    head = ["image_id", "dataset", "fold"]
    write_csv(path, head, folds)
    listing = isic2018.rows(tmp_path, LESION)
    assert listing.attributes["center"] == ["rosendahl", "vienna_dias"]
    result = [row.groups["center"] for row in listing.rows]
    assert result == [1, 0, -1]
    assert listing.tables == [isic2018.HAM, isic2018.CENTERS]


def test_the_official_fold_is_taken_with_its_shared_lesions(tmp_path):
    rows = [
        ["L1", "a", "nv", 45, "male"],
        ["L1", "b", "nv", 45, "male"],
        ["L3", "c", "nv", 45, "male"],
    ]
    write_skin(
        tmp_path,
        rows,
    )
    folds = [["a", "rosendahl", "train"], ["b", "rosendahl", "test"], ["c", "rosendahl", "train"]]
    path = tmp_path / isic2018.CENTERS
    write_csv(path, ["image_id", "dataset", "fold"], folds)
    listing = isic2018.rows(tmp_path, completed(16, "official"))
    assert ids(listing, test=True) == ["b"]
    shared = shared_patients.of_rows(listing.patient, listing.rows)
    assert shared_patients.of_body(shared) == "1 of 1 test lesions also has training images"
    path = tmp_path / isic2018.CENTERS
    head = ["image_id", "dataset", "fold"]
    write_csv(path, head, folds[:2])
    with refused("no fold for c"):
        isic2018.rows(tmp_path, completed(16, "official"))


def test_the_official_fold_needs_its_table(tmp_path):
    rows = [["L1", "a", "nv", 45, "male"]]
    write_skin(tmp_path, rows)
    with refused("ham10000_fedisic2019.csv"):
        isic2018.rows(tmp_path, completed(16, "official"))


def test_lesions_stay_together_unless_the_split_is_by_image(tmp_path):
    rows = [[f"L{i // 5}", f"i{i:02d}", "nv", 45, "male"] for i in range(20)]
    write_skin(tmp_path, rows)
    by_lesion = isic2018.rows(tmp_path, LESION).rows
    assert not {r.patient for r in by_lesion if r.test} & {
        r.patient for r in by_lesion if not r.test
    }
    listing = isic2018.rows(tmp_path, completed(16, "image"))
    result = len(ids(listing, test=True))
    assert result == 4


def test_the_archives_one_hot_table_works_too(tmp_path):
    hot = [["a", 0, 1, 0, 0, 0, 0, 0], ["b", 0, 0, 0, 0, 0, 0, 1]]
    head = ["image", *(c.upper() for c in isic2018.CLASSES)]
    write_csv(tmp_path / isic2018.TRUTH, head, hot)
    folder = tmp_path / "ISIC2018_Task3_Training_Input"
    folder.mkdir()
    for id in "ab":
        Image.new("RGB", (8, 8)).save(folder / f"{id}.jpg")
    with refused("does not say which lesion a shows", "--split image"):
        isic2018.rows(tmp_path, LESION)
    result = [r.label for r in isic2018.rows(tmp_path, completed(16, "image")).rows]
    assert result == [1, 6]
    rows = [["b", "L2"], ["a", "L1"]]
    path = tmp_path / isic2018.GROUPINGS
    write_csv(path, ["image", "lesion_id"], rows)
    listing = isic2018.rows(tmp_path, LESION)
    result = [r.patient for r in listing.rows]
    assert result == ["L1", "L2"]
    assert listing.attributes == {}


def test_a_one_hot_row_with_two_labels_is_an_error(tmp_path):
    head = ["image", *(c.upper() for c in isic2018.CLASSES)]
    rows = [["a", 1, 1, 0, 0, 0, 0, 0]]
    path = tmp_path / isic2018.TRUTH
    write_csv(
        path,
        head,
        rows,
    )
    with refused("a has 2 labels"):
        isic2018.rows(tmp_path, LESION)


def test_a_missing_column_is_named_with_those_found(tmp_path):
    rows = [["L", "a", 1, "male"]]
    path = tmp_path / isic2018.HAM
    head = ["lesion_id", "image_id", "age", "sex"]
    write_csv(path, head, rows)
    with pytest.raises(FedcliError, match=r"HAM10000_metadata.csv has no column 'dx'") as error:
        isic2018.rows(tmp_path, LESION)
    assert error.value.hint == "columns found: lesion_id, image_id, age, sex"


def test_a_folder_without_a_table_is_an_error(tmp_path):
    with refused("has neither HAM10000_metadata.csv nor ISIC2018"):
        isic2018.rows(tmp_path, LESION)


def test_an_empty_table_is_an_error(tmp_path):
    (tmp_path / isic2018.HAM).write_text("")
    with refused("HAM10000_metadata.csv has no rows"):
        isic2018.rows(tmp_path, LESION)


def test_an_image_with_two_labels_is_an_error_and_a_repeated_row_is_not(tmp_path):
    rows = [["L1", "a", "nv", 45, "male"], ["L1", "a", "nv", 45, "male"]]
    write_skin(tmp_path, rows)
    listing = isic2018.rows(tmp_path, LESION)
    assert ids(listing) == ["a"]
    rows = [["L1", "a", "nv", 45, "male"], ["L1", "a", "mel", 45, "male"]]
    write_skin(tmp_path, rows)
    with refused("a has two labels, nv and mel"):
        isic2018.rows(tmp_path, LESION)


@pytest.mark.parametrize("dx", ["scc", ""])
def test_an_unknown_class_is_an_error(tmp_path, dx):
    rows = [["L1", "a", "nv", 45, "male"], ["L2", "b", dx, 45, "male"]]
    write_skin(tmp_path, rows)
    with refused("b has the unknown class"):
        isic2018.rows(tmp_path, LESION)


def test_a_listed_image_that_is_absent_is_skipped_with_the_reason(tmp_path):
    rows = [["L1", "a", "nv", 45, "male"], ["L2", "b", "nv", 45, "male"]]
    write_skin(tmp_path, rows)
    (tmp_path / "images" / "a.jpg").unlink()
    listing = isic2018.rows(tmp_path, LESION)
    assert ids(listing) == ["b"]
    assert listing.skipped == [
        ("a.jpg", "listed in HAM10000_metadata.csv, in none of the image folders")
    ]
