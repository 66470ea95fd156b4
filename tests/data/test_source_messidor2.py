"""Messidor-2: a table of grades and a folder of photographs."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from raw_folders import completed, in_any_order, prepare, refused, write_csv

from fedcli.data import manifest, sources
from fedcli.data.prepare_options import PrepareOptions
from fedcli.data.sources.eyes import messidor2
from fedcli.errors import FedcliError

DATASET = "messidor2"
DR = completed(16, "image", own={"target": "dr"})
DME = completed(16, "image", own={"target": "dme"})


def append(raw: Path, row: str) -> None:
    path = raw / "messidor_data.csv"
    path.write_text(path.read_text() + row + "\n")


def choose(split: str, **more) -> PrepareOptions:
    return completed(16, split, own={"target": "dr"}, **more)


def test_the_card_names_the_grades_and_the_targets_default():
    card = sources.card("messidor2")
    expected = messidor2.TARGETS["dr"][1]
    assert card["classes"] == expected
    assert card["options"]["target"]["default"] == "dr"


def test_five_grades_are_read_and_the_ungradable_left_out_with_the_reason(sample):
    listing = messidor2.rows(sample, DR)
    result = Counter(row.label for row in listing.rows)
    expected = {0: 16, 1: 12, 2: 12, 3: 10, 4: 10}
    assert result == expected
    assert listing.classes == ["no-dr", "mild", "moderate", "severe", "proliferative"]
    assert listing.attributes == {}
    assert listing.patient is None
    ungradable = "messidor-2/messidor-2/preprocess/20060411_58550_0200_PP.png"
    assert listing.skipped == [(ungradable, "not gradable, say the graders")]
    result = messidor2.SOURCE.decode(sample, listing.rows[0], DR).shape
    assert result == (32, 32, 3)


def test_macular_oedema_is_two_classes(sample, tmp_path):
    listing = messidor2.rows(sample, DME)
    result = Counter(row.label for row in listing.rows)
    assert result == {0: 44, 1: 16}
    assert listing.classes == [
        "no-dme",
        "dme",
    ]
    path = prepare("messidor2", raw=sample, work=tmp_path, size=8, own={"target": "dme"}, jobs=1)
    result = manifest.read(path).body["classes"]
    assert result == ["no-dme", "dme"]


def test_the_table_may_say_jpg_where_the_file_is_in_capitals(sample):
    old = {row.id: row.source for row in messidor2.rows(sample, DR).rows if row.id.startswith("IM")}
    assert old["IM000002"] == "messidor-2/messidor-2/preprocess/IM000002.JPG"
    assert len(old) == 19
    assert "IM000002.jpg" in (sample / "messidor_data.csv").read_text()


def test_googles_spelling_and_adcis_folder_give_the_same(raw):
    whole = messidor2.rows(raw, DR)
    (raw / "messidor-2" / "messidor-2" / "preprocess").rename(raw / "IMAGES")
    path = raw / "messidor_data.csv"
    path.write_text(path.read_text().replace("id_code,diagnosis", "image_id,adjudicated_dr_grade"))
    table = messidor2.rows(raw, DR)
    result = [(r.id, r.label, r.test) for r in table.rows]
    expected = [(r.id, r.label, r.test) for r in whole.rows]
    assert result == expected
    assert table.rows[0].source.startswith("IMAGES/")


@pytest.mark.parametrize("backwards", [False, True])
def test_the_first_folder_wins_and_in_it_the_first_name(raw, monkeypatch, backwards):
    preprocess = raw / "messidor-2" / "messidor-2" / "preprocess"
    for copy in (
        raw / "preprocess" / "IM000002.JPG",
        raw / "IM000002.jpg",
        preprocess / "IM000002.png",
    ):
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(preprocess / "IM000002.JPG", copy)
    in_any_order(monkeypatch, backwards)
    by_name = {row.id: row.source for row in messidor2.rows(raw, DR).rows}
    assert by_name["IM000002"] == "messidor-2/messidor-2/preprocess/IM000002.JPG"


def test_the_list_of_pairs_keeps_both_eyes_together(raw):
    ids = [row.id for row in messidor2.rows(raw, DR).rows]
    with refused("does not say whose eye", "messidor-2.csv"):
        messidor2.rows(raw, choose("patient"))
    lines = [
        f"{left_eye}.png;{right_eye}.jpg"
        for left_eye, right_eye in zip(ids[::2], ids[1::2], strict=True)
    ]
    (raw / "messidor-2.csv").write_text("\n".join(["left;right", *lines]))
    for choices in (choose("patient"), choose("folds", fold=2)):
        listing = messidor2.rows(raw, choices)
        assert listing.patient == "patient"
        result = set(Counter(row.patient for row in listing.rows).values())
        assert result == {2}
        test = {row.patient for row in listing.rows if row.test}
        assert test
        assert not test & {row.patient for row in listing.rows if not row.test}
    assert "messidor-2.csv" in listing.tables


def test_a_listed_photograph_that_is_absent_and_one_without_a_grade_are_skipped(raw):
    append(raw, "gone.png,1,0,1")
    (raw / "messidor-2/messidor-2/preprocess/IM000002.JPG").rename(
        raw / "messidor-2/messidor-2/preprocess/new.JPG"
    )
    append(raw, "new.jpg,,0,1")
    reasons = dict(messidor2.rows(raw, DR).skipped)
    assert reasons["gone.png"] == "listed in messidor_data.csv, in none of the image folders"
    assert (
        reasons["messidor-2/messidor-2/preprocess/new.JPG"] == "no diagnosis in messidor_data.csv"
    )
    result = len(messidor2.rows(raw, DME).rows)
    assert result == 60


def test_grades_written_as_decimals_are_read(raw):
    path = raw / "messidor_data.csv"
    path.write_text(path.read_text().replace(",4,", ",4.0,").replace(",0\n", ",0.0\n"))
    result = Counter(row.label for row in messidor2.rows(raw, DR).rows)[4]
    assert result == 10


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("IM000002.jpg,5,0,1", "lists IM000002.jpg twice"),
        ("../../secret.png,1,0,1", "leads out of"),
        ("/etc/secret.png,1,0,1", "leads out of"),
    ],
)
def test_a_row_that_cannot_be_is_refused(raw, row, sentence):
    append(raw, row)
    with refused(sentence):
        messidor2.rows(raw, DR)


def test_an_unknown_grade_is_an_error(raw):
    path = raw / "messidor_data.csv"
    path.write_text(path.read_text().replace("IM000002.jpg,0", "IM000002.jpg,5"))
    with pytest.raises(FedcliError, match=r"IM000002.jpg has the grade '5'") as error:
        messidor2.rows(raw, DR)
    assert error.value.hint == "expected 0 to 4"


def test_a_missing_table_and_a_missing_column_are_named(raw):
    path = raw / "messidor_data.csv"
    rows = [["a.png", 1]]
    write_csv(path, ["id_code", "diagnosis"], rows)
    with refused("no columns 'adjudicated_dme', 'adjudicated_gradable'"):
        messidor2.rows(raw, DR)
    (raw / "messidor_data.csv").unlink()
    with refused("has no messidor_data.csv", "fedcli datasets messidor2"):
        messidor2.rows(raw, DR)
