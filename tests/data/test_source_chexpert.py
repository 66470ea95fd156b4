"""CheXpert with all its observations: blank, uncertain, absent; views; the official test part."""

from pathlib import Path

import pytest
from raw_folders import completed, refused, write_csv

from fedcli.data.sources.chest import chexpert
from fedcli.data.sources.chest.fedchexmimic_sample import FINDINGS
from fedcli.labels import NO, UNKNOWN, YES

HEAD = ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *FINDINGS]
REST = [""] * 11
FRONTAL = [
    "CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg",
    "Female",
    68,
    "Frontal",
    "AP",
]
LATERAL = [
    "CheXpert-v1.0-small/train/patient00001/study1/view2_lateral.jpg",
    "Female",
    68,
    "Lateral",
    "",
]
RADIOLOGIST = [
    "CheXpert-v1.0-small/valid/patient64541/study1/view1_frontal.jpg",
    "Male",
    0,
    "Frontal",
    "PA",
]


def rows(raw: Path, split: str = "patient", uncertain: str = "zero", views: str = "frontal"):
    choices = completed(16, split, own={"uncertain": uncertain, "views": views})
    return chexpert.rows(raw, choices)


@pytest.fixture
def raw(tmp_path):
    home = tmp_path / "CheXpert-v1.0-small"
    home.mkdir()
    write_csv(
        home / "train.csv",
        HEAD,
        [[*FRONTAL, "", "-1.0", "1.0", *REST], [*LATERAL, "", "0.0", "1.0", *REST]],
    )
    write_csv(home / "valid.csv", HEAD, [[*RADIOLOGIST, "1.0", *["0.0"] * 13]])
    for line in (FRONTAL, LATERAL, RADIOLOGIST):
        path = tmp_path / line[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(("word", "label"), [("zero", NO), ("one", YES), ("ignore", UNKNOWN)])
def test_a_blank_is_absent_and_an_uncertain_one_what_was_asked(raw, word, label):
    listing = rows(raw, "official", word)
    train, test = listing.rows
    expected = (NO, label, YES, *[NO] * 11)
    assert train.label == expected
    result = (train.id, train.patient, train.test)
    assert result == (
        "chexpert/train/patient00001/study1/view1_frontal",
        "patient00001",
        False,
    )
    expected = {"race": -1, "gender": 1, "age": 1}
    assert train.groups == expected
    expected = (YES, *[NO] * 13)
    assert test.label == expected
    assert test.test
    assert test.groups["age"] == -1
    assert listing.tables == ["CheXpert-v1.0-small/train.csv", "CheXpert-v1.0-small/valid.csv"]


def test_lateral_images_are_there_where_all_views_are_asked_for(raw):
    result = [row.id.rpartition("/")[2] for row in rows(raw, views="all").rows]
    assert result == [
        "view1_frontal",
        "view2_lateral",
        "view1_frontal",
    ]


def test_an_image_that_is_not_there_is_skipped(raw):
    (raw / FRONTAL[0]).unlink()
    expected = [(FRONTAL[0], "listed in the tables, not there")]
    assert rows(raw).skipped == expected


def test_odd_cells_columns_and_options_are_refused(raw):
    path = raw / "CheXpert-v1.0-small" / "train.csv"
    write_csv(path, HEAD, [[*FRONTAL, "yes", "", "", *REST]])
    with refused("the column 'No Finding' holds 'yes'"):
        rows(raw)
    for part, line in (("train", FRONTAL), ("valid", RADIOLOGIST)):
        head = HEAD[:-1]
        write_csv(path.with_name(f"{part}.csv"), head, [[*line, "", "", "", *REST[1:]]])
    with refused("has no column 'Support Devices'"):
        rows(raw)
    write_csv(path.with_name("valid.csv"), HEAD, [[*RADIOLOGIST, "", "", "", *REST]])
    with refused(r"train\.csv has no column 'Support Devices'"):  # of one table alone
        rows(raw)
    write_csv(path, HEAD, [[*FRONTAL, "", "", "", "", *REST]])
    with refused(rf"train\.csv: .* has {len(HEAD) + 1} cells, not {len(HEAD)}"):
        rows(raw)


def test_the_sample_keeps_patients_together_and_has_every_kind_of_cell(tmp_path):
    chexpert.sample(tmp_path)
    listing = rows(tmp_path, "patient", "ignore", "all")
    parts = {}
    for row in listing.rows:
        parts.setdefault(row.patient, set()).add(row.test)
    result = {len(part) for part in parts.values()}
    assert result == {1}
    result = {cell for row in listing.rows for cell in row.label}
    assert result == {NO, YES, UNKNOWN}
    result = {row.groups["race"] for row in listing.rows}
    assert result == {-1, 0, 1, 2}
