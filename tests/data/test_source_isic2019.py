"""ISIC 2019 in the archive's layout, through its sample."""

from collections import Counter
from pathlib import Path

import pandas
import pytest
from raw_folders import completed, in_any_order, prepare, refused, rewrite, write_csv

from fedcli.data import sources
from fedcli.data.pool import read_pool
from fedcli.data.sources.skin import isic2019
from fedcli.data.sources.source import Listing, Unreadable
from fedcli.errors import FedcliError

DATASET = "isic2019"
LESION = completed(16, "lesion")


def column(listing: Listing, name: str) -> Counter:
    values = [*listing.attributes[name], "unknown"]
    return Counter(values[row.groups[name]] for row in listing.rows)


def test_the_card_agrees_with_the_code():
    card = sources.card("isic2019")
    assert card["classes"] == isic2019.CLASSES == [*isic2019.CLASSES, isic2019.UNKNOWN][:8]
    assert card["attributes"]["anatomic_site"] == isic2019.BODY == sorted(isic2019.BODY)


def test_every_image_has_its_class_attributes_and_lesion(raw):
    listing = isic2019.rows(raw, LESION)
    result = Counter(row.label for row in listing.rows)
    assert result == dict.fromkeys(range(8), 8)
    expected = {"female": 28, "male": 28, "unknown": 8}
    assert column(listing, "sex") == expected
    expected = {"0-39": 19, "40-59": 20, "60+": 17, "unknown": 8}
    assert column(listing, "age") == expected
    sites = column(listing, "anatomic_site")
    assert sites["unknown"] == 8
    assert sites["head/neck"] == 8
    assert "oral/genital" not in sites
    expected = [site for site in isic2019.BODY if site != "oral/genital"]
    assert listing.attributes["anatomic_site"] == expected
    first_row, next_row = listing.rows[:2]
    result = (first_row.id, first_row.label, first_row.patient, first_row.source)
    assert result == (
        *("ISIC_0000000", 0, "HAM_0000000"),
        "ISIC_2019_Training_Input/ISIC_0000000.jpg",
    )
    assert next_row.patient == first_row.patient
    assert listing.patient == "lesion_id"
    assert not listing.skipped
    assert listing.tables == [isic2019.TRUTH, isic2019.METADATA]


def test_a_lesions_images_stay_together_and_those_without_one_stand_alone(raw, capsys):
    listing = isic2019.rows(raw, LESION)
    assert (
        "8 of 64 images name no lesion; each of them is split on its own" in capsys.readouterr().err
    )
    sides = {(row.patient, row.test) for row in listing.rows if row.patient}
    assert len(sides) == len({unit for unit, _ in sides}) == 48
    result = sum(row.test for row in listing.rows)
    assert result == 16  # 8 - floor(0.8 * 8) of each class


def test_the_split_by_image_is_fedisms_floor_and_needs_no_lesion(raw, capsys):
    listing = isic2019.rows(raw, completed(16, "image"))
    result = Counter(row.label for row in listing.rows if not row.test)
    assert result == dict.fromkeys(range(8), 6)
    assert "lesion" not in capsys.readouterr().err


def test_five_folds_cover_every_image_once_and_break_no_lesion(raw):
    folds = [isic2019.rows(raw, completed(16, "folds", fold=fold)) for fold in range(1, 6)]
    tested = Counter(row.id for listing in folds for row in listing.rows if row.test)
    assert len(tested) == 64
    assert set(tested.values()) == {1}
    for listing in folds:
        result = len({(row.patient, row.test) for row in listing.rows if row.patient})
        assert result == 48
        assert 11 <= sum(row.test for row in listing.rows) <= 15


def test_shrunken_images_are_found_under_both_spellings(raw):
    listing = isic2019.rows(raw, LESION)
    by_id = {row.id: row.source for row in listing.rows}
    assert (
        by_id["ISIC_0000007_downsampled"] == "ISIC_2019_Training_Input/ISIC_0000007.jpg"
    )  # the file lacks the suffix
    assert (
        by_id["ISIC_0000015_downsampled"] == "ISIC_2019_Training_Input/ISIC_0000015_downsampled.jpg"
    )
    path = raw / isic2019.METADATA
    rewrite(path, lambda t: t.assign(image=t.image.str.removesuffix("_downsampled")))
    assert isic2019.rows(raw, LESION) == listing
    path = raw / isic2019.TRUTH
    rewrite(path, lambda t: t.assign(image=t.image.str.removesuffix("_downsampled")))
    result = [row.source for row in isic2019.rows(raw, LESION).rows]
    assert result == [row.source for row in listing.rows]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_several_files_of_an_image_the_first_name_counts_on_every_machine(
    raw, monkeypatch, backwards
):
    folder = raw / isic2019.FOLDER
    for name in ("ISIC_0000000.png", "ISIC_0000000_downsampled.jpg", "ISIC_0000000.JPEG"):
        (folder / name).write_bytes((folder / "ISIC_0000000.jpg").read_bytes())
    in_any_order(monkeypatch, backwards)
    result = isic2019.rows(raw, LESION).rows[0].source
    assert result == "ISIC_2019_Training_Input/ISIC_0000000.JPEG"


@pytest.mark.parametrize("folder", ["ISIC_2019_Training_Input/ISIC_2019_Training_Input", "."])
def test_images_may_lie_in_a_doubled_folder_or_beside_the_tables(raw, folder):
    files = list((raw / isic2019.FOLDER).iterdir())
    (raw / folder).mkdir(exist_ok=True)
    for file in files:
        file.rename(raw / folder / file.name)
    result = isic2019.rows(raw, LESION).rows[0].source
    expected = (Path(folder) / "ISIC_0000000.jpg").as_posix()
    assert result == expected


def test_a_grey_image_becomes_three_channels_and_a_broken_one_says_so(raw):
    row = isic2019.rows(raw, LESION).rows[9]
    image = isic2019.SOURCE.decode(raw, row, LESION)
    assert image.shape == (24, 32, 3)
    assert (image[..., 0] == image[..., 2]).all()
    (raw / row.source).write_text("no")
    with pytest.raises(Unreadable):
        isic2019.SOURCE.decode(raw, row, LESION)


def test_an_image_called_unknown_is_skipped_with_the_reason(raw):
    rows = [["ISIC_0000000", *[0] * 8, 1], ["ISIC_0000001", 1, *[0] * 8]]
    head = ["image", *[*isic2019.CLASSES, isic2019.UNKNOWN]]
    path = raw / isic2019.TRUTH
    write_csv(
        path,
        head,
        rows,
    )
    listing = isic2019.rows(raw, LESION)
    result = [row.id for row in listing.rows]
    assert result == ["ISIC_0000001"]
    expected = [("ISIC_0000000.jpg", f"{isic2019.TRUTH} says UNK, which is no class")]
    assert listing.skipped == expected


@pytest.mark.parametrize(("labels", "count"), [([1, 1, *[0] * 7], 2), ([0] * 9, 0)])
def test_a_row_without_exactly_one_label_is_an_error(raw, labels, count):
    head = ["image", *[*isic2019.CLASSES, isic2019.UNKNOWN]]
    path = raw / isic2019.TRUTH
    rows = [["ISIC_0000000", *labels]]
    write_csv(
        path,
        head,
        rows,
    )
    with refused(f"ISIC_0000000 has {count} labels, expected one"):
        isic2019.rows(raw, LESION)


def test_a_repeated_row_is_fine_and_a_contradiction_is_not(raw):
    path = raw / isic2019.TRUTH
    rewrite(path, lambda t: pandas.concat([t, t[:1]]))
    result = len(isic2019.rows(raw, LESION).rows)
    assert result == 64
    path = raw / isic2019.TRUTH
    rewrite(path, lambda t: pandas.concat([t, t[10:11].assign(image=t.image[0])]))
    with refused("lists ISIC_0000000 twice"):
        isic2019.rows(raw, LESION)


def test_two_spellings_of_one_image_are_one_image(raw):
    path = raw / isic2019.METADATA
    rewrite(path, lambda t: pandas.concat([t, t[7:8].assign(image="ISIC_0000007")]))
    with refused("lists ISIC_0000007 twice"):
        isic2019.rows(raw, LESION)


@pytest.mark.parametrize("name", [isic2019.TRUTH, isic2019.METADATA])
def test_a_missing_table_is_named(raw, name):
    (raw / name).unlink()
    with refused(f"has no {name}"):
        isic2019.rows(raw, LESION)


@pytest.mark.parametrize(
    ("name", "lost"), [(isic2019.TRUTH, "SCC"), (isic2019.METADATA, "lesion_id")]
)
def test_a_missing_column_is_named(raw, name, lost):
    path = raw / name
    rewrite(path, lambda t: t.drop(columns=lost))
    with pytest.raises(FedcliError, match=f"{name} has no column '{lost}'") as error:
        isic2019.rows(raw, LESION)
    assert error.value.hint.startswith("columns found: image")


def test_a_line_without_a_name_is_an_error(raw):
    path = raw / isic2019.METADATA
    rewrite(path, lambda t: t.assign(image=["", *t.image[1:]]))
    with refused("line 2 names no image"):
        isic2019.rows(raw, LESION)


def test_an_image_that_is_absent_or_named_outside_the_folder_is_skipped(raw):
    (raw / isic2019.FOLDER / "ISIC_0000000.jpg").rename(raw.parent / "outside.jpg")
    path = raw / isic2019.TRUTH
    rewrite(path, lambda t: t.assign(image=[*t.image[:-1], "../../outside"]))
    listing = isic2019.rows(raw, LESION)
    result = [file for file, _ in listing.skipped]
    assert result == ["../../outside.jpg", "ISIC_0000000.jpg"]
    expected = f"listed in {isic2019.TRUTH}, in none of the image folders"
    assert listing.skipped[1][1] == expected
    for row in listing.rows:
        assert row.source.startswith(isic2019.FOLDER)
    assert len(listing.rows) == 62


def test_an_image_that_the_metadata_leave_out_has_no_attributes(raw):
    path = raw / isic2019.METADATA
    rewrite(path, lambda t: t[1:])
    row = isic2019.rows(raw, LESION).rows[0]
    assert row.patient == ""
    result = set(row.groups.values())
    assert result == {-1}


def test_the_sample_becomes_a_pool(raw):
    work = raw / "work"
    dataset_path = prepare("isic2019", raw=raw, work=work, size=16, jobs=1)
    path = dataset_path.parent / "pool.h5"
    pool = read_pool(path)
    assert pool.shape == (64, 16, 16, 3)
    assert set(pool.groups) == {"sex", "age", "anatomic_site"}
