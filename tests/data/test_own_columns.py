"""Columns of a table in the words of its owner: ages, sexes, encodings, words that mean others."""

import pytest
from own_images_folder import labels, listed, save
from raw_folders import refused

from fedcli.data.sources.own_files import column_notes, own_columns
from fedcli.errors import UsageError

TABLE = "image;label;Geschlecht;Alter\na;Nävus;männlich;45,0\nb;Melanom;W;70,5\nc;Nävus;m;12\nd;Melanom;weiblich;\n"


@pytest.fixture
def german(tmp_path):
    for name in "abcd":
        save(tmp_path / f"{name}.png")
    (tmp_path / "labels.csv").write_text(TABLE, encoding="cp1252")
    return tmp_path


def test_a_german_table_is_read_as_it_is(german):
    words = "sex:männlich=male,weiblich=female;label:Nävus=nevus"
    listing = listed(german, encoding="cp1252", age="Alter", sex="Geschlecht", map=words)
    expected = {"age": ["0-39", "40-59", "60+"], "sex": ["female", "male"]}
    assert listing.attributes == expected
    result = [(row.groups["age"], row.groups["sex"]) for row in listing.rows]
    expected = [
        (1, 1),
        (2, 0),
        (0, 1),
        (-1, 0),
    ]
    assert result == expected
    result = set(labels(listing).values())
    assert result == {"nevus", "Melanom"}


def test_without_its_encoding_the_hint_offers_one(german):
    with refused("is not utf-8 text", "--table encoding=cp1252"):
        listed(german)
    with refused("unknown encoding 'cp99'", of=UsageError):
        listed(german, encoding="cp99")
    with refused("unknown encoding 'hex'", of=UsageError):
        listed(german, encoding="hex")
    with refused("unknown encoding 'undefined'", of=UsageError):
        listed(german, encoding="undefined")


def test_words_of_the_sex_stay_as_they_are_and_a_note_names_map(german, capsys):
    listing = listed(german, encoding="cp1252", sex="Geschlecht")
    assert listing.attributes["sex"] == ["W", "m", "männlich", "weiblich"]
    assert "--map sex:männlich=" in capsys.readouterr().err
    listed(german, encoding="cp1252", group="Geschlecht")
    assert "if it is the sex: --sex Geschlecht" in capsys.readouterr().err


def test_a_group_of_many_numbers_is_asked_about(capsys):
    values = [str(k) for k in range(12)]
    column_notes.note_all("Alter", "Alter", values)
    assert "--age Alter" in capsys.readouterr().err
    column_notes.note_all("scanner", "scanner", ["1", "2", "3"])
    assert not capsys.readouterr().err
    column = ["45,0", "5", ""]
    result = own_columns.with_points(column)
    assert result == ["45.0", "5", ""]
    result = own_columns.with_points(["a,b", "5,0"])
    assert result == ["a,b", "5,0"]


@pytest.mark.parametrize("text", ["450", "450.0", "450,0", '"450,0"', "x,450"])
def test_unknown_names_a_cell_as_it_is_written_or_the_number_that_it_is(german, text):
    (german / "labels.csv").write_text(TABLE.replace("70,5", "450,0"), encoding="cp1252")
    with refused("has the age '450'"):
        listed(german, encoding="cp1252", age="Alter")
    listing = listed(german, encoding="cp1252", age="Alter", unknown=text)
    result = [row.groups["age"] for row in listing.rows]
    expected = [1, -1, 0, -1]
    assert result == expected


@pytest.mark.parametrize("text", ["sex", "sex:", "sex:a", "sex:=b", "sx:a=b", "label:a="])
def test_a_map_that_says_nothing_is_refused(german, text):
    with refused("--map", of=UsageError):
        listed(german, encoding="cp1252", sex="Geschlecht", map=text)


def test_a_word_of_a_map_that_is_not_there_is_named(german, capsys):
    listed(german, encoding="cp1252", map="label:Nevus=nevus")
    assert "no image has 'Nevus'; did you mean 'Nävus'?" in capsys.readouterr().err


def test_columns_that_hold_no_ages_or_are_two_things_are_refused(german):
    with refused("--age Geschlecht holds no ages"):
        listed(german, encoding="cp1252", age="Geschlecht")
    with refused("would both be called age", of=UsageError):
        listed(german, encoding="cp1252", age="Alter", group="age")
