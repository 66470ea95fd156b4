"""Several labels per image: in tables of one's own, in splits, and in a pool."""

import csv
import io
from functools import partial

import numpy as np
import own_images_folder
import pytest
from PIL import Image
from raw_folders import refused, write_pool
from tables_of_numbers import rows as number_rows

from fedcli.data import manifest
from fedcli.data.pool import Row, pool_of, read_pool
from fedcli.errors import FedcliError, UsageError
from fedcli.labels import MULTI_LABEL, UNKNOWN, single
from fedcli.stages.prepare import prepare

listed = partial(own_images_folder.listed, multi_label="yes")


def folder(raw, head, lines):
    """A table, and a grey image for each of its lines."""
    raw.mkdir(exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *lines])
    (raw / "labels.csv").write_text(text.getvalue(), encoding="utf-8")
    for line in lines:
        Image.new("L", (8, 8), 90).save(raw / line[0])
    return raw


def labels(listing):
    return {row.id: row.label for row in listing.rows}


LISTS = [
    ["a.png", "Mass|Effusion"],
    ["b.png", "No Finding"],
    ["c.png", "Effusion"],
    ["d.png", ""],
    ["e.png", "Mass"],
]


def test_labels_as_a_list_in_one_column(tmp_path):
    raw = folder(tmp_path / "raw", ["image", "label"], LISTS)
    result = listed(raw)
    assert result.classes == ["Effusion", "Mass"]
    assert result.task == MULTI_LABEL
    expected = {"a.png": (1, 1), "b.png": (0, 0), "c.png": (1, 0), "e.png": (0, 1)}
    assert labels(result) == expected
    assert result.skipped == [("d.png", "has no label in labels.csv")]


COLUMNS = [
    ["a.png", "1", "1.0", "p1"],
    ["b.png", "0", "", "p1"],
    ["c.png", "0.0", "-1", "p2"],
    ["d.png", "1", "0", "p3"],
]


@pytest.mark.parametrize(("uncertain", "label"), [("zero", 0), ("one", 1), ("ignore", UNKNOWN)])
def test_labels_as_columns_with_what_is_uncertain_as_asked(tmp_path, uncertain, label):
    head = ["image", "Mass", "Effusion", "who"]
    raw = folder(tmp_path / "raw", head, COLUMNS)
    result = listed(raw, label_column="Mass,Effusion", patient="who", uncertain=uncertain)
    assert result.classes == ["Mass", "Effusion"]
    expected = {
        "a.png": (1, 1),
        "b.png": (0, 0),
        "c.png": (0, label),
        "d.png": (1, 0),
    }
    assert labels(result) == expected
    outcome = {row.test for row in result.rows if row.patient == "p1"}
    assert outcome in ({True}, {False})


@pytest.mark.parametrize(
    ("head", "lines", "options", "sentence"),
    [
        (
            ["image", "Mass", "Effusion"],
            [["a.png", "1", "-1"]],
            {"label_column": "Mass,Effusion"},
            "1 labels are -1",
        ),
        (
            ["image", "Mass", "Effusion"],
            [["a.png", "1", "2"]],
            {"label_column": "Mass,Effusion"},
            "'Effusion' holds '2'",
        ),
        (
            ["image", "Mass"],
            [["a.png", "1"]],
            {"label_column": "Mass,Mass"},
            "'Mass' is given twice",
        ),
        (
            ["image", "Mass"],
            [["a.png", "1"], ["b.png", "0"]],
            {"label_column": "Mass"},
            "holds only 0, 1",
        ),
        (
            ["image", "Mass", "Cyst"],
            [["a.png", "0", ""]],
            {"label_column": "Mass,Cyst"},
            "no image has any of the 2",
        ),
        (
            ["image", "label"],
            [["a.png", "Mass|No Finding"]],
            {},
            "contain 'No Finding' among others",
        ),
        (["image", "label"], [["a.png", "Mass|Mass"]], {}, "hold one twice"),
        (
            ["image", "label"],
            [["a.png", "Mass"]],
            {},
            "has one label, where several were asked for",
        ),
        (
            ["image", "label"],
            [["a.png", "Mass|Effusion"]],
            {"multi_label": ""},
            "looks like several labels",
        ),
        (["image", "label"], LISTS, {"multi_label": "no"}, "multi-label is 'no'"),
        (["image", "label"], LISTS, {"uncertain": "maybe"}, "uncertain is 'maybe'"),
        (
            ["image", "label"],
            LISTS,
            {"multi_label": "", "uncertain": "one"},
            "uncertain is about a column for each",
        ),
    ],
)
def test_a_table_that_cannot_be_read_so_is_refused_in_a_sentence(
    tmp_path, head, lines, options, sentence
):
    with pytest.raises((FedcliError, UsageError), match=sentence):
        raw = folder(tmp_path / "raw", head, lines)
        listed(raw, **options)


def test_a_label_that_no_image_has_is_warned_of(tmp_path, caplog):
    lines = [["a.png", "1", "0"]]
    head = ["image", "Mass", "Cyst"]
    raw = folder(tmp_path / "raw", head, lines)
    listed(
        raw,
        label_column="Mass,Cyst",
    )
    assert "labels.csv: no image has Cyst" in caplog.text


def test_columns_are_named_by_a_flag_that_is_repeated(tmp_path):
    lines = [[f"{i}.png", i % 2, i % 3 // 2, f"p{i // 2}"] for i in range(24)]
    head = ["image", "Mass", "Lung, left", "who"]
    raw = folder(tmp_path / "raw", head, lines)
    options = {
        "raw": raw,
        "label_column": ["Mass", "Lung, left"],
        "patient": "who",
        "work": tmp_path / "work",
        "size": 8,
    }
    dataset = prepare("images", multi_label=True, **options)
    body = manifest.read(dataset.path).body
    path = dataset.path.parent / "pool.h5"
    pool = read_pool(path)
    assert body["classes"] == ["Mass", "Lung, left"]
    assert body["task"] == MULTI_LABEL
    of_image = {id: label.tolist() for id, label in zip(pool.id, pool.y, strict=True)}
    expected = {line[0]: line[1:3] for line in lines}
    assert of_image == expected
    sides = {patient: set(pool.split[pool.patient == patient].tolist()) for patient in pool.patient}
    for both in sides.values():
        assert len(both) == 1
    expected = set(pool.split.tolist())
    assert {0, 1} == expected
    with refused("--label-column is given several times", of=UsageError):
        prepare("images", **options)


def test_what_is_not_used_is_not_recorded(tmp_path):
    lines = [[f"{i}.png", "ab"[i % 2]] for i in range(8)]
    raw = folder(tmp_path / "raw", ["image", "label"], lines)
    work = tmp_path / "work"
    dataset = prepare("images", raw=raw, work=work, size=8)
    options = manifest.read(dataset.path).options["own"]
    assert "multi-label" not in options
    assert "uncertain" not in options
    assert options["label-column"] == "label"


def test_an_image_is_sorted_by_the_rarest_of_its_labels():
    y = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 1], [UNKNOWN, 0, 1], [UNKNOWN, 0, 0]])
    expected = [1, 0, 3, 2, 2, 3]
    assert single(y).tolist() == expected
    result = single(np.array([2, 0, 1])).tolist()
    assert result == [2, 0, 1]


def test_a_pool_of_other_labels_than_its_dataset_says_is_refused(tmp_path):
    rows = [Row(f"i{k}", (k % 2, 1), None, k > 2) for k in range(4)]
    images = (np.zeros((8, 8, 1), np.uint8) for _ in rows)
    write_pool(tmp_path / "pool.h5", rows, images, [])
    expected = number_rows("0 1; 1 1; 0 1; 1 1")
    result = read_pool(tmp_path / "pool.h5").y.tolist()
    assert result == expected
    body = {
        "classes": ["a", "b"],
        "attributes": {},
        "size": [8, 8],
        "channels": 1,
        "augment": "none",
        "name": "made",
    }
    for changes, fits in (
        ({"task": MULTI_LABEL}, True),
        ({}, False),
        ({"task": MULTI_LABEL, "classes": ["a"]}, False),
    ):
        whole = {"unit": None, "sites": None, **body, **changes}
        record = manifest.Manifest("dataset", [], {}, {}, {}, whole)
        path = manifest.seal(tmp_path, record)
        if fits:
            assert pool_of(path).single.tolist() == [1, 0, 1, 0]
            continue
        with refused("which are not the labels of dataset.json"):
            pool_of(path)
