"""ODIR-5K: Kaggle's and the challenge's tables, both eyes of a patient, what shows no fundus."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, refused, write_csv

from fedcli.data.sources.eyes import odir

HEAD = [*odir.COLUMNS[:5], "Left-Diagnostic Keywords", "Right-Diagnostic Keywords", *odir.LABELS]
PEOPLE = [
    ["0", "69", "Female", "0_left.jpg", "0_right.jpg", "cataract", "normal fundus", *"00010000"],
    ["1", "57", "Male", "1_left.jpg", "1_right.jpg", "normal fundus", "normal fundus", *"10000000"],
    ["4", "30", "Male", "4_left.jpg", "4_right.jpg", "no fundus image", "glaucoma", *"01100000"],
]


def rows(raw: Path, split: str = "patient"):
    return odir.rows(raw, completed(16, split))


@pytest.fixture
def raw(tmp_path):
    """The folder of the challenge, its table saved as CSV."""
    path = tmp_path / "data.csv"
    write_csv(path, HEAD, PEOPLE)
    for line in PEOPLE:
        for name in line[3:5]:
            folder = tmp_path / "ODIR-5K_Training_Images"
            folder.mkdir(exist_ok=True)
            Image.fromarray(np.full((6, 8, 3), 90, np.uint8)).save(folder / name)
    return tmp_path


def test_both_eyes_have_the_labels_and_the_groups_of_the_patient(raw):
    listing = rows(raw)
    by_name = {row.id: (row.label, row.patient, row.groups) for row in listing.rows}
    expected = ["0_left", "0_right", "1_left", "1_right", "4_right"]
    assert list(by_name) == expected
    assert (
        by_name["0_left"]
        == by_name["0_right"]
        == ((0, 0, 0, 1, 0, 0, 0, 0), "0", {"sex": 0, "age": 2})
    )
    expected = ((0, 1, 1, 0, 0, 0, 0, 0), "4", {"sex": 1, "age": 0})
    assert by_name["4_right"] == expected
    assert listing.skipped == [("ODIR-5K_Training_Images/4_left.jpg", "no fundus: no fundus image")]
    result = odir.SOURCE.decode(raw, listing.rows[0], completed(16, "patient")).shape
    assert result == (6, 8, 3)


def test_a_line_for_each_eye_a_spreadsheet_and_a_line_for_each_patient_are_read_alike(raw):
    pandas = pytest.importorskip("pandas")
    _ = pytest.importorskip("openpyxl")
    expected = rows(raw).rows
    inside = raw / "ODIR-5K" / "ODIR-5K"
    inside.mkdir(parents=True)
    table = pandas.read_csv(raw / "data.csv")
    (raw / "data.csv").unlink()
    table.to_excel(inside / "data.xlsx", index=False)
    assert rows(raw).tables == ["ODIR-5K/ODIR-5K/data.xlsx"]
    assert rows(raw).rows == expected
    eyes = [[*line, "['N']", line[3 + eye]] for line in PEOPLE for eye in (0, 1)]
    head = [*HEAD, "labels", "filename"]
    path = raw / "full_df.csv"
    write_csv(path, head, eyes)
    assert rows(raw).tables == ["full_df.csv"]
    assert rows(raw).rows == expected


def test_photographs_win_over_edited_ones(raw):
    (raw / "preprocessed_images").mkdir()
    (raw / "preprocessed_images" / "0_left.jpg").write_bytes(b"")
    assert rows(raw).rows[0].source == "ODIR-5K_Training_Images/0_left.jpg"


def test_the_split_keeps_a_patients_eyes_together(tmp_path):
    odir.sample(tmp_path)
    for split in ("patient", "folds"):
        parts = {}
        for row in rows(tmp_path, split).rows:
            parts.setdefault(row.patient, set()).add(row.test)
        assert {len(part) for part in parts.values()} == {1}
        result = set.union(*parts.values())
        assert result == {
            True,
            False,
        }
    with (tmp_path / "full_df.csv").open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == odir.HEAD


@pytest.mark.parametrize(
    ("line", "column", "cell", "sentence"),
    [
        (1, 3, "0_left.jpg", "lists 0_left.jpg twice"),
        (1, 0, "0", "lists patient 0 twice"),
        (1, 9, "2", "the column 'G' holds '2'"),
        (1, 9, "-1", "1 labels are -1"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(raw, line, column, cell, sentence):
    changed = [list(person) for person in PEOPLE]
    changed[line][column] = cell
    path = raw / "data.csv"
    write_csv(path, HEAD, changed)
    with refused(sentence):
        rows(raw)


def test_what_is_missing_is_named(raw):
    (raw / "ODIR-5K_Training_Images" / "1_left.jpg").unlink()
    assert ("1_left.jpg", "listed in the table, in none of the image folders") in rows(raw).skipped
    (raw / "data.csv").unlink()
    with refused(r"has none of the tables full_df.csv, data.csv"):
        rows(raw)
