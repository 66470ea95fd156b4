"""Excel workbooks in place of CSV files, and paths of tables as a shell completes them."""

import datetime
import sys
import zipfile

import own_images_folder
import pytest
from own_images_folder import labels, listed, save
from raw_folders import refused

from fedcli.data.sources.formats import workbooks
from fedcli.data.sources.tables import read_cells, read_sheet

openpyxl = pytest.importorskip("openpyxl")
ROWS = [["image", "label", "age"], ["a.png", "nevus", 45], ["b.png", "melanoma", 61.5]]


def written(path, rows=ROWS, sheets=("Befunde",)):
    path.parent.mkdir(parents=True, exist_ok=True)
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name in sheets:
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return path


@pytest.fixture
def raw(tmp_path):
    for name in ("a.png", "b.png"):
        save(tmp_path / "haut" / name)
    return tmp_path / "haut"


def test_the_only_workbook_is_the_table(raw):
    written(raw / "befunde.xlsx")
    written(raw / "~$befunde.xlsx")
    result = listed(raw, age="age")
    assert labels(result) == {"a.png": "nevus", "b.png": "melanoma"}
    assert result.tables == ["befunde.xlsx"]
    assert [row.groups["age"] for row in result.rows] == [1, 2]


def test_a_csv_comes_before_a_workbook(raw):
    written(raw / "befunde.xlsx")
    (raw / "labels.csv").write_text("image,label\na.png,x\nb.png,y\n")
    assert listed(raw).tables == ["labels.csv"]


def test_workbooks_next_to_folders_of_classes_are_mentioned_and_not_read(tmp_path, capsys):
    path = tmp_path / "COVID" / "a.png"
    save(path), save(tmp_path / "Normal" / "b.png")
    written(tmp_path / "COVID.metadata.xlsx")
    assert listed(tmp_path).classes == ["COVID", "Normal"]
    assert "not read: COVID.metadata.xlsx" in capsys.readouterr().err


def test_cells_are_the_texts_that_a_csv_of_excel_has(tmp_path):
    day = datetime.datetime(2024, 3, 9)
    hour = datetime.datetime(2024, 3, 9, 8, 30)
    rows = [
        ["a", " b ", "c", None],
        [1.0, True, day, None],
        [None, None, None, None],
        [0.5, "", hour],
    ]
    path = written(tmp_path / "t.xlsx", rows)
    head, records = read_cells(path, "")
    assert head == ["a", "b", "c"]
    expected = [["1", "TRUE", "2024-03-09"], ["0.5", "", "2024-03-09 08:30:00"]]
    assert records == expected


def test_the_first_of_several_sheets_is_read_and_named(tmp_path, capsys):
    path = written(tmp_path / "t.xlsx", sheets=("one", "two"))
    read_cells(path, "")
    assert "t.xlsx: the sheet 'one' is read, the first of 2" in capsys.readouterr().err


def test_without_openpyxl_a_sentence_says_what_to_do(raw, monkeypatch):
    written(raw / "befunde.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with refused("befunde.xlsx is an Excel workbook", "save it as CSV, or pip install 'fedcli"):
        listed(raw)


@pytest.mark.parametrize("name", ["befunde.xls", "befunde.ods"])
def test_another_kind_of_spreadsheet_is_named(raw, name):
    (raw / name).write_bytes(b"\xd0\xcf\x11\xe0\0\0")
    with refused("is a spreadsheet of the kind", "save it as CSV"):
        listed(raw)


def test_a_file_that_is_no_workbook_is_refused(raw):
    (raw / "befunde.xlsx").write_bytes(b"image,label\n")
    with refused("is not a readable Excel workbook", "save it as CSV"):
        listed(raw)
    with zipfile.ZipFile(raw / "befunde.xlsx", "w") as archive:
        archive.writestr("other.txt", "nothing")
    with refused("is not a readable Excel workbook", "save it as CSV"):
        listed(raw)


def test_a_workbook_that_unpacks_to_more_than_is_allowed_is_refused(tmp_path, monkeypatch):
    rows = [["a"], *([["0" * 1000]] * 30)]
    path = written(tmp_path / "t.xlsx", rows)
    monkeypatch.setattr(workbooks, "LARGEST", path.stat().st_size)
    for read in (lambda: read_cells(path, ""), lambda: read_sheet(path, ["a"])):
        with refused("MiB unpacked, more than", "save it as CSV"):
            read()


def test_a_sheet_of_too_many_cells_is_refused(tmp_path, monkeypatch):
    rows = [["a"], [*[None] * 200, "far"]]
    path = written(tmp_path / "t.xlsx", rows)
    monkeypatch.setattr(workbooks, "MOST_CELLS", 100)
    with refused("t.xlsx has more than 100 cells", "save it as CSV"):
        read_cells(path, "")


def test_an_empty_workbook_is_refused(tmp_path):
    with refused("is empty"):
        path = written(tmp_path / "t.xlsx", [])
        read_cells(path, "")


@pytest.mark.parametrize("name", ["befunde.csv", "haut/befunde.csv", "./haut/befunde.csv"])
def test_a_table_may_be_named_from_the_folder_or_from_here(raw, monkeypatch, name):
    (raw / "befunde.csv").write_text("image,label\na.png,x\nb.png,y\n")
    monkeypatch.chdir(raw.parent)
    result = own_images_folder.listed(raw.relative_to(raw.parent), table=name).tables
    assert result == ["befunde.csv"]
    table = str(raw / "befunde.csv")
    result = listed(raw, table=table).tables
    assert result == ["befunde.csv"]


def test_a_table_outside_of_the_folder_is_refused(raw, monkeypatch):
    (raw.parent / "befunde.csv").write_text("image,label\na.png,x\nb.png,y\n")
    monkeypatch.chdir(raw.parent)
    for name in ("../befunde.csv", str(raw.parent / "befunde.csv")):
        with refused("leads out of"):
            listed(raw, table=name)
    with refused("no such table"):
        listed(raw, table="befunde.csv")
