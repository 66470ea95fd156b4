"""A dataset that is declared: a table with a column for everything."""

from collections import Counter

import pytest
from raw_folders import completed, prepare, write_csv

from fedcli.data import manifest, sources
from fedcli.data.sources.described import Table
from fedcli.data.sources.drawing import picture, save
from fedcli.errors import FedcliError

CHOICES = completed(16, "unit")
GRADES = Table(
    "grades.csv",
    image="photo",
    label="grade",
    classes={"0": "healthy", "1": "ill"},
    groups=("sex", "age"),
    site="clinic",
    patient="who",
)


@pytest.fixture
def raw(tmp_path):
    lines = []
    for i in range(12):
        path = tmp_path / "photos" / f"p{i:02d}.png"
        colour = picture(f"{i}", i % 2)
        save(path, colour)
        lines.append(
            [
                f"p{i:02d}",
                i % 2,
                "fm"[i // 2 % 2],
                30 + 5 * i,
                ["north", "south"][i // 6],
                f"w{i // 3}",
            ]
        )
    head = ["photo", "grade", "sex", "age", "clinic", "who"]
    write_csv(tmp_path / GRADES.file, head, lines)
    return tmp_path


def test_columns_become_labels_groups_sites_and_patients(raw):
    listing = GRADES.source(print).rows(raw, CHOICES)
    assert listing.classes == ["healthy", "ill"]
    expected = [0, 1] * 6
    assert [row.label for row in listing.rows] == expected
    expected = {
        "sex": ["female", "male"],
        "age": ["0-39", "40-59", "60+"],
        "clinic": ["north", "south"],
    }
    assert listing.attributes == expected
    assert listing.sites == "clinic"
    assert listing.patient == "who"
    assert listing.tables == ["grades.csv"]
    result = Counter(row.patient for row in listing.rows)
    expected = {f"w{k}": 3 for k in range(4)}
    assert result == expected
    assert {row.patient for row in listing.rows if row.test}.isdisjoint(
        r.patient for r in listing.rows if not r.test
    )
    result = GRADES.source(print).decode(raw, listing.rows[0], CHOICES).shape
    assert result == (24, 32, 3)


def test_a_class_that_is_not_declared_is_refused(raw):
    path = raw / GRADES.file
    path.write_text(path.read_text().replace("p00,0", "p00,2"))
    with pytest.raises(FedcliError, match="the class '2' of some images is none of 0, 1"):
        GRADES.source(print).rows(raw, CHOICES)


def test_a_declared_dataset_is_prepared_by_processes(raw, tmp_path, monkeypatch):
    card = {
        "title": "Grades",
        "classes": ["healthy", "ill"],
        "split": "unit",
        "splits": {"unit": "8:2 per class"},
    }
    monkeypatch.setattr(sources, "REGISTERED", {})
    sources.register("grades", GRADES.source(print), card)
    work = tmp_path / "work"
    body = manifest.read(prepare("grades", raw=raw, work=work, size=8, jobs=2)).body
    assert body["classes"] == ["healthy", "ill"]
    assert body["count"] == 12
    assert body["sites"] == "clinic"


@pytest.mark.parametrize("default", ["no", 3, 0.5, True])
def test_an_option_of_a_declared_dataset_may_have_any_plain_value_as_its_default(
    default, raw, tmp_path, monkeypatch
):
    options = {"frontal": {"default": default, "about": "x"}}
    card = {"title": "Grades", "classes": ["healthy", "ill"], "options": options}
    monkeypatch.setattr(sources, "REGISTERED", {})
    sources.register("grades", GRADES.source(print), card)
    result = manifest.read(prepare("grades", raw=raw, work=tmp_path, size=8)).options["own"]
    assert result == {"frontal": default}
