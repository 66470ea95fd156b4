"""BCN20000 and HAM10000 in the ISIC archive's layout."""

import os
from collections import Counter

from raw_folders import completed, refused, write_csv

import fedcli
from fedcli.data import sources
from fedcli.data.sources.skin import bcn20000

DATASET = "bcn20000"
LESION = completed(16, "lesion")
IMAGE = completed(16, "image")
HEAD = ["isic_id", "attribution", "age_approx", "sex", "benign_malignant"]
OWNERS = (
    "ViDIR Group, Medical University of Vienna",
    "Department of Dermatology, Hospital Clínic de Barcelona",
)

AGES = " 61 ", "0", "NAN", "inf", "-5", "about 60"


def test_the_card_agrees_with_the_code():
    card = sources.card("bcn20000")
    assert card["classes"] == bcn20000.CLASSES
    assert card["task"] == "binary"
    expected = {
        "sex": bcn20000.SEXES,
        "age": bcn20000.AGES,
        "site": bcn20000.SITES,
    }
    assert card["attributes"] == expected


def test_both_collections_are_read_with_the_columns_of_either_time(sample):
    listing = bcn20000.rows(sample, LESION)
    assert listing.tables == ["BCN20000/metadata.csv", "HAM10000/metadata.csv"]
    result = Counter((row.groups["site"], row.label) for row in listing.rows)
    expected = {
        (0, 0): 25,
        (0, 1): 14,
        (1, 0): 25,
        (1, 1): 14,
    }
    assert result == expected
    why = "its table calls it indeterminate, not benign or malignant"
    expected = [("ISIC_0000039.jpg", why), ("ISIC_0000079.jpg", why)]
    assert listing.skipped == expected
    assert listing.patient == "lesion_id"
    assert listing.rows[0].source == "HAM10000/images/ISIC_0000000.jpg"


def test_a_lesion_stays_on_one_side(sample):
    sides = {}
    for row in bcn20000.rows(sample, LESION).rows:
        if row.patient:
            sides.setdefault(row.patient, set()).add(row.test)
    result = max(map(len, sides.values()))
    assert result == 1
    assert len(sides) < 70


def listed(raw, *lines, head=HEAD):
    path = raw / "metadata.csv"
    write_csv(path, head, lines)
    for line in lines:
        (raw / f"{line[0]}.jpg").write_bytes(b"picture")
    return {row.id: row for row in bcn20000.rows(raw, IMAGE).rows}


def test_sex_age_and_hospital_of_a_collection_without_a_folder_of_its_own(tmp_path):
    rows = listed(
        tmp_path,
        ["ISIC_1", OWNERS[0], "60.0", "female", "benign"],
        ["ISIC_2", OWNERS[1], "65", "Male", "malignant"],
        ["ISIC_3", "Anonymous", "", "", "benign"],
    )
    expected = {"sex": 0, "age": 0, "site": 0}
    assert rows["ISIC_1"].groups == expected
    assert rows["ISIC_1"].label == 0
    expected = {"sex": 1, "age": 1, "site": 1}
    assert rows["ISIC_2"].groups == expected
    assert rows["ISIC_2"].label == 1
    expected = {"sex": -1, "age": -1, "site": -1}
    assert rows["ISIC_3"].groups == expected
    assert rows["ISIC_3"].patient == ""


def test_blanks_letters_and_ages_that_are_no_number_of_years(tmp_path):
    lines = [
        [f"ISIC_{k}", f" {OWNERS[1].upper()} ", age, " Male", "Benign "]
        for k, age in enumerate(AGES)
    ]
    rows = listed(tmp_path, *lines)
    expected = [1, 0, -1, -1, -1, -1]
    result = [row.groups["age"] for row in rows.values()]
    assert result == expected
    for row in rows.values():
        result = (row.groups["sex"], row.groups["site"], row.label)
        assert result == (1, 1, 0)


def test_an_image_that_is_not_there_is_left_out_with_the_reason(sample, tmp_path, raw):
    (raw / "HAM10000" / "images" / "ISIC_0000003.jpg").unlink()
    assert ("ISIC_0000003.jpg", "listed, and in none of the image folders") in bcn20000.rows(
        raw, LESION
    ).skipped


def test_folders_and_tables_that_are_not_the_archives_are_named(tmp_path):
    with refused("no table with the column isic_id"):
        bcn20000.rows(tmp_path, LESION)
    os.mkfifo(tmp_path / "pipe.csv")
    path = tmp_path / "other.csv"
    rows = [["a", "b"]]
    write_csv(path, ["image", "label"], rows)
    with refused("no table with the column isic_id"):
        bcn20000.rows(tmp_path, LESION)
    line = ["ISIC_1", OWNERS[0], "60", "female", "benign"]
    with refused("neither 'benign_malignant' nor 'diagnosis_1'"):
        head = [*HEAD[:4], "diagnosis"]
        listed(tmp_path, line, head=head)
    with refused("no column 'sex'"):
        head = [*HEAD[:3], "gender", HEAD[4]]
        listed(tmp_path, line, head=head)
    with refused("line 3 names no image"):
        listed(tmp_path, line, ["", *line[1:]])
    with refused("lists ISIC_1 twice"):
        listed(tmp_path, line, [*line[:4], "malignant"])


def test_the_hospitals_are_the_clients_and_fairfb_trains_on_them(sample, tmp_path):
    options = fedcli.prepare("bcn20000", raw=sample, size=16, work=tmp_path)
    data = fedcli.partition(options, work=tmp_path)
    result = [client["client"] for client in data.body["roster"]]
    assert result == ["vienna", "barcelona"]
    run = fedcli.train(
        "fairfb", data, rounds=2, set={"attribute": "sex"}, model="cnn", work=tmp_path
    )
    assert run.body["rounds"] == 2
