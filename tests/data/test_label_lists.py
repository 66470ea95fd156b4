"""Cells that hold several labels, however they are written, and the names that only look so."""

import own_images_folder
import pytest
from own_images_folder import of_columns
from raw_folders import refused

from fedcli.data.sources.own_files.label_lists import doubtful, is_list, labels_of, parts

KNOWN = {"D", "G"}


@pytest.mark.parametrize(
    "cell",
    [
        *("D|G", "D;G", "D | G", "['D', 'G']", '["D", "G"]', "['D' 'G']", "('D', 'G')"),
        *("{'D','G'}", "[D, G]", "[D|G]", "'D', 'G'", '"D","G"', "D, G", "D,G", "D/G", "D + G"),
        *("D，G", "D、G", " [ 'D' , 'G' ] "),
    ],
)
def test_a_list_of_two_labels_is_read_as_two(cell):
    assert parts(cell, KNOWN) == ["D", "G"]


@pytest.mark.parametrize(
    "cell", ["D,X", "X/G", "ER+", "and/or", "D", "1,5", "D G", "GIST (D, G)", "D,"]
)
def test_a_name_is_left_whole_where_some_part_is_no_label(cell):
    assert parts(cell, KNOWN) == [cell]
    assert not is_list(cell, KNOWN)


@pytest.mark.parametrize(
    ("cell", "labels"), [("[]", []), ("['D']", ["D"]), ("()", []), ("(D)", ["D"])]
)
def test_brackets_make_a_list_of_one_label_or_none(cell, labels):
    assert parts(cell, KNOWN) == labels
    assert is_list(cell, KNOWN)


def test_a_quoted_label_may_hold_a_comma():
    assert parts("['Lung, left', \"Crohn's\"]", set()) == ["Lung, left", "Crohn's"]


def test_labels_are_those_that_some_cell_names_without_doubt():
    expected = {"D", "G", "N", "O", "D, G", "A/B"}
    result = labels_of(["D", "G|N", "['O']", "D, G", "A/B"])
    assert result == expected


def test_a_list_with_a_part_that_is_named_nowhere_else_is_doubtful():
    assert doubtful("D, X", KNOWN) == ["D", "X"]
    assert doubtful("X, Y", KNOWN) == doubtful("D, G", KNOWN) == doubtful("D", KNOWN) == []


TABLES = {
    "lists of Python": ["['N']", "['D', 'G']", "['D']", "['G', 'O']"],
    "lists of numpy": ["['N']", "['D' 'G']", "['D']", "['G' 'O']"],
    "commas": ["N", "D, G", "D", "G,O", "O", "G"],
    "slashes": ["N", "D/G", "D", "G/O", "O", "G"],
    "signs": ["N", "D+G", "D", "G+O", "O", "G"],
}


@pytest.mark.parametrize("column", TABLES.values(), ids=TABLES.keys())
def test_a_column_of_lists_is_refused_without_multi_label_and_divided_with_it(tmp_path, column):
    raw = of_columns(tmp_path, label=column)
    with refused("looks like several labels", "add --multi-label"):
        own_images_folder.listed(raw)
    result = own_images_folder.listed(raw, multi_label="yes")
    assert result.classes == ["D", "G", "N", "O"]
    expected = [
        (0, 0, 1, 0),
        (1, 1, 0, 0),
        (1, 0, 0, 0),
        (0, 1, 0, 1),
    ]
    assert [row.label for row in result.rows][:4] == expected


def test_an_empty_list_is_an_image_without_a_label(tmp_path):
    label = ["[]", "['D']", "['G']"]
    raw = of_columns(tmp_path, label=label)
    result = own_images_folder.listed(raw, multi_label="yes", map="label:D=diabetes")
    assert result.classes == ["G", "diabetes"]
    expected = [(0, 0), (0, 1), (1, 0)]
    assert [row.label for row in result.rows] == expected


def test_words_of_a_list_are_translated(tmp_path, capsys):
    label = ["D, G", "D", "G"]
    raw = of_columns(tmp_path, label=label)
    result = own_images_folder.listed(raw, multi_label="yes", map="label:D=diabetes,G=glaucoma")
    assert result.classes == ["diabetes", "glaucoma"]
    assert "no image has" not in capsys.readouterr().err


def test_a_doubtful_list_is_warned_of(tmp_path, capsys):
    label = ["D, X", "D", "G"]
    raw = of_columns(tmp_path, label=label)
    result = own_images_folder.listed(raw, multi_label="yes").classes
    assert result == ["D", "D, X", "G"]
    err = " ".join(capsys.readouterr().err.split())
    assert "'D, X' counts as one label, since no other cell names 'X'" in err


@pytest.mark.parametrize(
    ("column", "label"),
    [
        (["N", "D, G", "D", "N"], "D, G"),
        (["N", "D/G", "D", "N"], "D/G"),
        (["N", "D, G", "D, H", "N"], "D, G"),
        (["N", "Mole, other", "Mole", "N"], "Mole, other"),
    ],
)
def test_a_class_that_may_be_a_list_is_warned_of(tmp_path, capsys, column, label):
    raw = of_columns(tmp_path, label=column)
    assert label in own_images_folder.listed(raw).classes
    err = " ".join(capsys.readouterr().err.split())
    assert f"the label {label!r} counts as one class" in err
    assert "add --multi-label" in err


@pytest.mark.parametrize("column", [["N", "D"], ["Lung, left", "Heart"], ["A/B", "C+D"]])
def test_a_name_with_a_comma_of_its_own_is_no_list(tmp_path, capsys, column):
    own_images_folder.listed(of_columns(tmp_path, label=column))
    assert "counts as one class" not in capsys.readouterr().err
