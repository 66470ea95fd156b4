"""A table of attributes joined by image or patient id."""

from pathlib import Path

import pytest
from PIL import Image
from raw_folders import write_csv

import fedcli
from fedcli.data.pool import Row
from fedcli.data.preparation import given_tables
from fedcli.data.sources.source import Listing
from fedcli.errors import FedcliError

ROWS = [
    Row("a", 0, "train/a.png", groups={"sex": 0}, patient="p1"),
    Row("b", 1, "train/b.png", groups={"sex": 1}, patient="p1"),
    Row("c", 1, "test/c.png", groups={"sex": -1}, patient="p2"),
]
LISTING = Listing(ROWS, {"sex": ["female", "male"]}, "patient_id")


def joined(folder: Path, head: list[str], *lines: list[object]) -> Listing:
    rows = [list(line) for line in lines]
    path = folder / "table.csv"
    write_csv(path, head, rows)
    return given_tables.joined(LISTING, folder / "table.csv")


def test_patients_lend_their_attributes_to_all_their_images(tmp_path):
    head = ["patient", "race", "age"]
    listing = joined(
        tmp_path,
        head,
        ["p1", "black", 71],
        ["p2", "", "030Y"],
        ["p9", "white", 3],
    )
    expected = {
        "sex": ["female", "male"],
        "race": ["black"],
        "age": ["0-39", "40-59", "60+"],
    }
    assert listing.attributes == expected
    expected = [
        {"sex": 0, "race": 0, "age": 2},
        {"sex": 1, "race": 0, "age": 2},
        {"sex": -1, "race": -1, "age": 0},
    ]
    assert [row.groups for row in listing.rows] == expected


@pytest.mark.parametrize("spelt", ["{}", "{}.png", "train/{}.png"])
def test_images_are_named_by_id_file_or_path_and_an_attribute_is_replaced(tmp_path, spelt):
    listing = joined(tmp_path, ["file", "sex"], [spelt.format("a"), "M"], [spelt.format("b"), "F"])
    assert listing.attributes == {"sex": ["female", "male"]}
    result = [row.groups["sex"] for row in listing.rows]
    assert result == [1, 0, -1]


def test_what_cannot_be_joined_is_refused_in_a_sentence(tmp_path):
    for head, lines, words in (
        (["id", "race"], [["x", "black"]], "no column of id, race names an image or patient"),
        (["id", "race"], [["a", "black"], ["a", "white"]], "'a' has two lines that differ"),
        (["id", "race/sex"], [["a", "black"]], "has a slash or star in its name"),
        (["id", "race"], [["a", ""]], "has no column that can be an attribute"),
    ):
        with pytest.raises(FedcliError, match=words):
            joined(tmp_path, head, *lines)
    with pytest.raises(FedcliError, match="no such file"):
        given_tables.joined(LISTING, tmp_path / "absent.csv")


def test_the_encoding_that_is_given_is_that_of_the_table(tmp_path):
    table = tmp_path / "table.csv"
    table.write_bytes("file,herkunft\na,Köln\nb,Bonn\n".encode("cp1252"))
    with pytest.raises(FedcliError, match="is not utf-8 text"):
        given_tables.joined(LISTING, table)
    result = given_tables.joined(LISTING, table, "cp1252").attributes["herkunft"]
    assert result == ["Bonn", "Köln"]


def test_images_in_folders_of_classes_take_the_encoding_of_their_attributes(tmp_path):
    for name in ("mel/a", "mel/b", "nv/c", "nv/d"):
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16)).save(tmp_path / "raw" / f"{name}.png")
    table = tmp_path / "table.csv"
    table.write_bytes("file,herkunft\na,Köln\nb,Bonn\nc,Köln\nd,Bonn\n".encode("cp1252"))
    words = {"raw": tmp_path / "raw", "encoding": "cp1252", "size": 16, "work": tmp_path}
    with pytest.raises(FedcliError, match="--table encoding needs a table"):
        fedcli.prepare("images", **words)
    dataset = fedcli.prepare("images", attributes=table, **words)
    result = dataset.body["attributes"]["herkunft"]
    assert result == ["Bonn", "Köln"]
