"""FairFedMed-Chest: CheXpert's and MIMIC-CXR's own tables, people from others, and the authors' tables."""

import csv
import gzip
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from raw_folders import completed, prepare, refused, write_csv

from fedcli.data import manifest, sources
from fedcli.data.pool import Row
from fedcli.data.sources.chest import fedchexmimic

DATASET = "fedchexmimic"
OWN = {"uncertain": "skip", "views": "frontal", "attribute": "race"}
TRAIN = ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", "Pleural Effusion"]


def rows(raw: Path, split: str = "patient", **own: str):
    choices = completed(16, split, jobs=1, own=OWN | own)
    return fedchexmimic.rows(raw, choices)


@pytest.fixture
def raw(raw):
    """The folder fedchexmimic of a sample of one's own."""
    return raw / "fedchexmimic"


def lines(path: Path) -> list[list[str]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return list(csv.reader(text.splitlines()))


def change(path: Path, edit) -> None:
    """Write a table again without its pack, after edit(lines)."""
    table = lines(path)
    edit(table)
    path.unlink()
    write_csv(path.with_suffix("") if path.suffix == ".gz" else path, table[0], table[1:])


def chexpert(raw: Path, *people: list, demo: list | None = None) -> dict[str, Row]:
    """CheXpert rows of a folder that has these lines of train.csv, beside MIMIC's files."""
    home = raw / "CheXpert-v1.0-small"
    write_csv(
        home / "train.csv",
        TRAIN,
        [[f"CheXpert-v1.0-small/{path}", *rest] for path, *rest in people],
    )
    if demo is not None:
        head = ["PATIENT", "GENDER", "AGE_AT_CXR", "PRIMARY_RACE", "ETHNICITY"]
        write_csv(
            raw / "CHEXPERT DEMO.csv",
            head,
            demo,
        )
    for path, *_ in people:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 8), 7).save(home / path)
    return {
        row.id.removeprefix("chexpert/"): row for row in rows(raw).rows if row.groups["site"] == 0
    }


def test_the_card_names_the_classes_attributes_and_options_of_the_code():
    card = sources.card("fedchexmimic")
    assert card["classes"] == ["no pleural effusion", "pleural effusion"]
    assert card["attributes"] == fedchexmimic.ATTRIBUTES
    result = {key: option["default"] for key, option in card["options"].items()}
    assert result == OWN


def test_both_hospitals_are_there_with_their_certain_frontal_images(sample, capsys):
    listing = rows(sample)
    result = Counter((row.groups["site"], row.label) for row in listing.rows)
    expected = {
        (0, 0): 26,
        (0, 1): 22,
        (1, 0): 14,
        (1, 1): 12,
    }
    assert result == expected
    assert listing.skipped == []
    assert listing.patient == "patient_id"
    assert len(listing.tables) == 8
    output = capsys.readouterr().err
    assert "chexpert: 48 images; left out 9 that are not frontal, 5 uncertain" in output
    assert "left out 1 MIMIC-CXR images whose study has no labels" in output
    row = next(row for row in listing.rows if row.groups["site"] == 1)
    result = fedchexmimic.SOURCE.decode(sample, row, None).shape
    assert result == (28, 32, 1)


def test_uncertain_labels_are_skipped_or_count_as_either(sample):
    def counts(word):
        return Counter(row.label for row in rows(sample, uncertain=word).rows)

    skipped = counts("skip")
    zeros = counts("zero")
    ones = counts("one")
    assert zeros - skipped == {0: 9}
    assert ones - skipped == {1: 9}


def test_lateral_views_come_on_request(sample):
    every = rows(sample, views="all").rows
    result = Counter(row.groups["site"] for row in every)
    assert result == {0: 56, 1: 36}
    assert any(row.id.endswith("view2_lateral") for row in every)


def test_people_of_chexpert_come_from_its_table_and_its_demography(raw):
    path = "train/patient0000{}/study1/view1_frontal.jpg".format
    demo = [
        *(
            ["patient00001", "Male", 59, "White, Hispanic", ""],
            ["patient00002", "Female", 1, "Asian - Historical", ""],
        ),
        *(
            ["patient00003", "Male", 1, "Black or African American", ""],
            ["patient00004", "", "", "Pacific Islander", ""],
        ),
    ]
    result = chexpert(
        raw,
        *(
            [path(1), "Male", 59, "Frontal", "AP", 1.0],
            [path(2), "Female", 60, "Frontal", "PA", ""],
        ),
        *(
            [path(3), "Unknown", 0, "Frontal", "AP", 0.0],
            [path(4), "Female", 90, "Frontal", "AP", 1.0],
        ),
        *([path(5), "Male", 30, "Lateral", "", 1.0], [path(6), "Male", 30, "Frontal", "AP", -1.0]),
        demo=demo,
    )
    people = {
        id[6:18]: (row.label, *row.groups.values(), row.patient)
        for id, row in result.items()
        if id[:5] == "train"
    }
    expected = {  # label, race, gender, age, site, unit
        "patient00001": (1, 0, 0, 0, 0, "chexpert-patient00001"),
        "patient00002": (0, 1, 1, 1, 0, "chexpert-patient00002"),
        "patient00003": (0, 2, 0, -1, 0, "chexpert-patient00003"),
        "patient00004": (1, -1, 1, 1, 0, "chexpert-patient00004"),
    }
    assert people == expected


@pytest.mark.parametrize("other", ["80", "unknown", ""])
def test_an_age_of_0_is_unknown_whatever_stands_in_the_other_cells(raw, other):
    path = "train/patient0000{}/study1/view1_frontal.jpg".format
    people = [
        [path(1), "Male", 0, "Frontal", "AP", 1.0],
        [path(2), "Male", other, "Frontal", "AP", 1.0],
    ]
    result = chexpert(raw, *people)
    ages = {id[6:18]: row.groups["age"] for id, row in result.items() if id[:5] == "train"}
    expected = {"patient00001": -1, "patient00002": 1 if other == "80" else -1}
    assert ages == expected


def test_people_of_mimic_come_from_patients_and_admissions(raw):
    home = raw / "mimic-cxr-jpg"
    image = next(row for row in rows(raw).rows if row.groups["site"] == 1)
    subject = image.patient.removeprefix("mimic-p")
    people, stays = (raw / f"mimic-iv/hosp/{name}.csv.gz" for name in ("patients", "admissions"))
    change(
        people, lambda table: table.__setitem__(slice(1, None), [[subject, "F", 58, 2100, "", ""]])
    )
    path = home / "mimic-cxr-2.0.0-metadata.csv.gz"
    date = lines(path)[0].index("StudyDate")

    def told(study: int, *races: str) -> tuple[int, int, int]:
        """Race, gender and age of the one patient, whose study was on that day."""
        meta = next(home.glob("mimic-cxr-2.0.0-metadata.csv*"))
        change(meta, lambda table: [line.__setitem__(date, study) for line in table[1:]])
        admissions = [[subject, k, "", race] for k, race in enumerate(races)]
        change(
            next(stays.parent.glob("admissions.csv*")),
            lambda table: table.__setitem__(slice(1, None), admissions),
        )
        groups = next(row for row in rows(raw).rows if row.id == image.id).groups
        return groups["race"], groups["gender"], groups["age"]

    assert told(21_010_101, "BLACK/CAPE VERDEAN") == (2, 1, 0)  # 59 years
    result = told(21_021_231, "UNKNOWN", "ASIAN - KOREAN", "ASIAN")
    assert result == (1, 1, 1)  # 60 years
    expected = (-1, 1, 1)
    assert told(21_021_231, "WHITE", "WHITE - RUSSIAN", "BLACK/AFRICAN") == expected
    expected = (-1, 1, 1)
    assert told(21_021_231, "PORTUGUESE") == expected


def test_without_the_tables_of_people_they_are_unknown_and_a_person_is_told(raw, capsys):
    shutil.rmtree(raw / "mimic-iv")
    (raw / "CHEXPERT DEMO.csv").unlink()
    table = rows(raw).rows
    for row in table:
        assert row.groups["race"] < 0
    assert all(
        (row.groups["gender"] < 0) == (row.groups["site"] == 1)
        for row in table
        if row.groups["age"] >= 0
    )
    output = capsys.readouterr().err
    assert "race is unknown for CheXpert" in output
    assert "gender and age are unknown for MIMIC-CXR" in output


def test_a_patients_images_stay_together_unless_told_otherwise(sample):
    def torn(split: str) -> int:
        sides = {}
        for row in rows(sample, split).rows:
            sides.setdefault(row.patient, set()).add(row.test)
        return sum(len(parts) > 1 for parts in sides.values())

    result = [torn(split) for split in ("patient", "folds", "official")]
    assert result == [0, 0, 0]
    assert torn("image") > 0


def test_the_official_split_is_each_downloads_own(sample):
    table = rows(sample, "official").rows
    split = {
        line[0]: line[3]
        for line in lines(sample / "fedchexmimic/mimic-cxr-jpg/mimic-cxr-2.0.0-split.csv.gz")
    }
    for row in table:
        site, _, id = row.id.partition("/")
        expected = id.startswith("valid/") if site == "chexpert" else split[id] == "test"
        assert row.test == expected
    result = Counter((row.groups["site"], row.test) for row in table)
    expected = {
        (0, 0): 33,
        (0, 1): 15,
        (1, 0): 18,
        (1, 1): 8,
    }
    assert result == expected


@pytest.mark.parametrize("attribute", ["race", "gender", "age"])
def test_the_authors_tables_decide_where_they_are(sample, attribute):
    listing = rows(sample, "paper", attribute=attribute)
    home = sample / "fedchexmimic"
    expected = {}
    for site in ("chexpert", "mimic"):
        for part in ("train", "test"):
            for name, label, *codes in lines(home / f"meta_{site}_{attribute}_{part}.csv")[1:]:
                expected[f"{site}/{name.removesuffix('.jpg')}"] = (
                    int(label),
                    part == "test",
                    *map(int, codes),
                )
    result = {}
    for row in listing.rows:
        groups = (row.groups["race"], row.groups["gender"], row.groups["age"])
        result[row.id] = (row.label, row.test, *groups)
    assert result == expected
    assert len(expected) == 63
    assert listing.skipped == []
    result = len({row.patient for row in listing.rows})
    assert result == 63


def test_the_authors_names_may_be_values_and_mimic_may_lie_in_files_336p(raw):
    shutil.move(raw / "mimic-cxr-jpg/files", raw / "files_336p")
    for part in ("train", "test"):
        path = raw / f"meta_mimic_race_{part}.csv"
        table = [
            [name.removeprefix("files/"), label, " White", "F", "2"]
            for name, label, *_ in lines(path)[1:]
        ]
        head = ["filename", "disease_label", "race_label", "gender_label", "age_label"]
        write_csv(path, head, table)
    mimic = [row for row in rows(raw, "paper").rows if row.groups["site"] == 1]
    result = {row.source.split("/")[0] for row in mimic}
    assert result == {"files_336p"}
    assert len(mimic) == 26
    result = {tuple(row.groups.values()) for row in mimic}
    expected = {(0, -1, -1, 1)}
    assert result == expected


def test_downloads_may_be_links_and_lie_in_other_places(raw):
    count = len(rows(raw).rows)
    away = raw.parent.parent / "downloads"
    away.mkdir()
    shutil.move(raw / "CheXpert-v1.0-small", away / "full")
    (raw / "CheXpert-v1.0").symlink_to(away / "full")
    shutil.move(raw / "mimic-cxr-jpg", raw / "mimic")
    listing = rows(raw)
    assert len(listing.rows) == count
    assert listing.rows[0].source.startswith("CheXpert-v1.0/train/")
    names = [
        name
        for path in sorted(raw.glob("meta_chexpert_race_t*.csv"))
        for name, *_ in lines(path)[1:]
    ]
    assert names[0].startswith("CheXpert-v1.0-small/")
    (raw / "CheXpert-v1.0").rename(raw / "CheXpert-v1.0-small")
    assert rows(raw, "paper").skipped == []


def test_an_image_that_is_not_there_is_skipped(raw):
    gone = next(row for row in rows(raw).rows if row.groups["site"] == 1)
    (raw / gone.source).unlink()
    assert rows(raw).skipped == [(gone.source, "listed in the tables, not there")]


def test_a_spreadsheet_of_people_needs_openpyxl(raw, monkeypatch):
    (raw / "CHEXPERT DEMO.csv").rename(raw / "CHEXPERT DEMO.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with refused(
        r"reading CHEXPERT DEMO\.xlsx needs the Python module openpyxl", "pip install openpyxl"
    ):
        rows(raw)


def test_a_spreadsheet_of_people_is_read_where_openpyxl_is(raw):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    before = rows(raw).rows
    pandas.read_csv(raw / "CHEXPERT DEMO.csv").to_excel(raw / "CHEXPERT DEMO.xlsx", index=False)
    (raw / "CHEXPERT DEMO.csv").unlink()
    assert rows(raw).rows == before
    (raw / "CHEXPERT DEMO.xlsx").write_bytes(b"no spreadsheet")
    with refused("is not a readable spreadsheet"):
        rows(raw)


def test_a_colour_file_becomes_grey(tmp_path):
    Image.new("RGB", (4, 3), (255, 0, 0)).save(tmp_path / "a.png")
    image = fedchexmimic.SOURCE.decode(tmp_path, Row("a", 0, "a.png"), None)
    assert image.shape == (3, 4, 1)
    assert np.unique(image).tolist() == [76]


def test_the_pool_has_two_sites(sample, tmp_path):
    body = manifest.read(prepare("fedchexmimic", raw=sample, work=tmp_path, size=8, jobs=1)).body
    result = (body["sites"], body["clients"], body["channels"], body["count"])
    assert result == ("site", 2, 1, 74)


def test_missing_tables_and_columns_are_named(raw):
    (raw / "meta_mimic_age_test.csv").unlink()
    with refused(r"has no meta_mimic_age_test\.csv", "--split patient"):
        rows(raw, "paper", attribute="age")
    (raw / "mimic-cxr-jpg/mimic-cxr-2.0.0-split.csv.gz").unlink()
    with refused(r"has no mimic-cxr-2\.0\.0-split\.csv\.gz"):
        rows(raw)
    (raw / "mimic-cxr-jpg/mimic-cxr-2.0.0-chexpert.csv.gz").unlink()
    with refused(
        r"has no mimic-cxr-2\.0\.0-chexpert\.csv in any of mimic-cxr-jpg", "or link it there"
    ):
        rows(raw)
    (raw / "CheXpert-v1.0-small/valid.csv").unlink()
    with refused(r"has no valid\.csv"):
        rows(raw)
    head = TRAIN[:-1]
    path = raw / "CheXpert-v1.0-small/train.csv"
    write_csv(path, head, [])
    (raw / "CheXpert-v1.0-small/valid.csv").write_text("x\n")
    with refused(r"train\.csv has no column 'Pleural Effusion'"):
        rows(raw)


def test_admissions_without_race_are_refused_and_ethnicity_will_do(raw):
    before = rows(raw).rows
    path = raw / "mimic-iv/hosp/admissions.csv.gz"
    change(path, lambda table: table[0].__setitem__(3, "ethnicity"))
    assert rows(raw).rows == before
    change(path.with_suffix(""), lambda table: table[0].__setitem__(3, "origin"))
    with refused("has neither 'race' nor 'ethnicity'"):
        rows(raw)


def test_labels_that_are_none_and_images_listed_twice_are_refused(raw):
    person = ["train/patient00001/study1/view1_frontal.jpg", "Male", 59, "Frontal", "AP"]
    with refused(r"chexpert/train/patient00001/study1/view1_frontal has the label 2"):
        chexpert(raw, [*person, 2.0])
    with refused(r"train\.csv lists .*view1_frontal\.jpg twice"):
        chexpert(raw, [*person, 1.0], [*person, 1.0])
    path = raw / "meta_chexpert_race_test.csv"
    write_csv(path, ["filename", "disease_label"], [["a.jpg", -1]])
    with refused(r"a\.jpg has the label -1"):
        rows(raw, "paper")


def test_no_table_leads_out_of_its_download(raw):
    with refused("leads out of"):
        chexpert(raw, ["../../../a.jpg", "Male", 59, "Frontal", "AP", 1.0])
    path = raw / "meta_chexpert_race_test.csv"
    write_csv(
        path,
        ["filename", "disease_label"],
        [["CheXpert-v1.0-small/../../a.jpg", 1]],
    )
    with refused("leads out of"):
        rows(raw, "paper")
    path = raw / "meta_chexpert_race_test.csv"
    write_csv(path, ["filename", "disease_label"], [["/etc/passwd", 1]])
    with refused("leads out of"):
        rows(raw, "paper")
