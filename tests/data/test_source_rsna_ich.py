"""RSNA's head CT: Kaggle's table and the headers of its slices."""

from collections import Counter

import numpy as np
from raw_folders import completed, ids, refused, write_ct, write_slice

from fedcli.data.sources import rsna_ich


def test_slices_with_exactly_one_subtype_are_taken(tmp_path):
    labels = {
        "ID_c": "subdural any",
        "ID_a": "epidural any",
        "ID_b": "",
        "ID_d": "epidural subdural any",
    }
    choices = completed(8, "image", window="file")
    listing = rsna_ich.rows(write_ct(tmp_path, labels), choices)
    result = [(r.id, r.label, r.source) for r in listing.rows]
    expected = [
        ("ID_a", 0, "stage_2_train/ID_a.dcm"),
        ("ID_c", 4, "stage_2_train/ID_c.dcm"),
    ]
    assert result == expected
    assert listing.attributes == {}
    assert listing.patient is None
    choices = completed(8, "image", window="0/510")
    image = rsna_ich.decode(tmp_path, listing.rows[1], choices)
    assert image.shape == (8, 8, 1)
    assert set(image.ravel()) == {128}


def test_stage_1s_names_are_known_too(tmp_path):
    write_ct(tmp_path, {"ID_a": "epidural any"}, stage="stage_1_train")
    result = rsna_ich.rows(tmp_path, completed(8, "image")).tables
    assert result == ["stage_1_train.csv"]


def test_a_repeated_row_is_fine_and_a_contradiction_is_not(tmp_path):
    table = write_ct(tmp_path, {"ID_a": "epidural any"}) / "stage_2_train.csv"
    text = table.read_text()
    table.write_text(text + "ID_a_epidural,1\nID_a_subdural,0\n")
    listing = rsna_ich.rows(tmp_path, completed(8, "image"))
    result = ids(listing)
    assert result == ["ID_a"]
    table.write_text(text + "ID_a_subdural,1\n")
    with refused("ID_a_subdural has two labels"):
        rsna_ich.rows(tmp_path, completed(8, "image"))


def test_an_unknown_subtype_and_an_odd_label_are_errors(tmp_path):
    table = write_ct(tmp_path, {"ID_a": "epidural any"}) / "stage_2_train.csv"
    text = table.read_text()
    table.write_text(text + "ID_a_chronic,1\n")
    with refused("ID_a has the unknown class 'chronic'"):
        rsna_ich.rows(tmp_path, completed(8, "image"))
    table.write_text(text + "ID_b_epidural,2\n")
    with refused("ID_b_epidural has the label 2"):
        rsna_ich.rows(tmp_path, completed(8, "image"))


def test_slices_that_are_absent_or_no_dicom_are_skipped(tmp_path):
    labels = {"ID_a": "epidural any", "ID_b": "epidural any", "ID_c": "epidural any"}
    write_ct(tmp_path, labels)
    (tmp_path / "stage_2_train" / "ID_a.dcm").unlink()
    (tmp_path / "stage_2_train" / "ID_b.dcm").write_text("no")
    listing = rsna_ich.rows(tmp_path, completed(8, "image"))
    assert ids(listing) == ["ID_c"]
    result = [file[-8:] for file, _ in listing.skipped]
    assert result == [
        "ID_a.dcm",
        "ID_b.dcm",
    ]
    assert listing.skipped[0][1] == "listed in stage_2_train.csv, not in the folder"


def test_a_table_without_a_bleed_gives_no_rows(tmp_path):
    result = rsna_ich.rows(write_ct(tmp_path, {"ID_a": ""}), completed(8, "image")).rows
    assert result == []


def test_a_folder_that_is_not_kaggles_is_an_error(tmp_path):
    with refused("has no stage_2_train.csv next to a folder stage_2_train"):
        rsna_ich.rows(tmp_path, completed(8, "image"))


def test_headers_give_patients_sex_and_age_where_they_tell_them(tmp_path):
    labels = {f"ID_{i:02d}": "subdural any" for i in range(20)}
    write_ct(tmp_path, labels, PatientSex="M", PatientAge="070Y")
    for i, id in enumerate(labels):
        path = tmp_path / "stage_2_train" / f"{id}.dcm"
        stored = np.zeros((8, 8), np.int16)
        write_slice(
            path,
            stored,
            PatientID=f"P{i // 4}",
        )
    stored = np.zeros((8, 8), np.int16)
    path = tmp_path / "stage_2_train" / "ID_00.dcm"
    write_slice(
        path,
        stored,
        PatientID="P0",
        PatientSex="M",
    )
    listing = rsna_ich.rows(tmp_path, completed(8, "patient"))
    assert listing.attributes == {"sex": ["female", "male"]}
    assert listing.patient == "patient_id"
    result = [row.groups["sex"] for row in listing.rows[:2]]
    assert result == [1, -1]
    result = Counter(row.patient for row in listing.rows if row.test).most_common()[0][1]
    assert result == 4


def test_a_split_by_patient_needs_patients(tmp_path):
    write_ct(tmp_path, {"ID_a": "epidural any"})
    with refused("names its patient"):
        rsna_ich.rows(tmp_path, completed(8, "patient"))
