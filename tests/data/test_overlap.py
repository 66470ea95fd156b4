"""Patients and images that train and test share, counted by hand."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from raw_folders import completed, write_pool
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest, overlap
from fedcli.data.partition import make_partition, resolve
from fedcli.data.pool import Row
from fedcli.data.sources.skin import isic2018

#          image 0  1  2  3  4  5  6  7   the last four test
UNITS = ["a", "a", "b", "", "c", "b", "", "a"]
PIXELS = [10, 11, 12, 13, 14, 11, 13, 11]


def dataset(work: Path, units: list[str], pixels: list[int]) -> Path:
    rows = [Row(f"i{i}", i % 2, None, i >= 4, {}, unit) for i, unit in enumerate(units)]
    images = [np.full((4, 4, 1), value, np.uint8) for value in pixels]
    return stage(work, rows, images)


def stage(work: Path, rows: list[Row], images: list[np.ndarray]) -> Path:
    def build(folder: Path) -> dict:
        path = folder / "pool.h5"
        write_pool(path, rows, images, [])
        size = list(images[0].shape[:2])
        unit = "lesion_id" if any(row.patient for row in rows) else None
        last = max(row.label for row in rows)
        classes = [str(label) for label in range(last + 1)]
        body = {
            "classes": classes,
            "attributes": {},
            "size": size,
            "channels": 1,
            "augment": "none",
        }
        return body | {"name": "made", "clients": 2, "sites": None, "unit": unit}

    return manifest.stage(
        "dataset", folder=work / "made", made_by=["prepare"], options={}, parents=[], build=build
    )


def test_patients_and_identical_images_on_both_sides_are_counted(tmp_path):
    overlaps = overlap.find(dataset(tmp_path, UNITS, PIXELS))
    expected = {
        "name": "lesion_id",
        "count": 2,
        "train_images": 3,
        "test_images": 2,
        "examples": ["a", "b"],
    }
    assert overlaps["patients"] == expected
    expected = {
        "count": 2,
        "train_images": 2,
        "test_images": 3,
        "examples": ["i1 = i5", "i3 = i6"],
    }
    assert overlaps["pixels"] == expected
    assert overlap.sentence(overlaps) == (
        "2 of 3 test lesions also have training images, and 3 test images are identical to training images"
    )


def test_one_of_a_kind_is_told_in_the_singular():
    shared = {"unit": "lesions", "test": {"shared": 1, "of": 7}}
    sentence = overlap.sentence(
        {"shared_patients": shared, "pixels": {"count": 1, "test_images": 1}}
    )
    assert sentence == (
        "1 of 7 test lesions also has training images, and 1 test image is identical to a training image"
    )
    alone = overlap.sentence({"patients": None, "pixels": {"count": 1, "test_images": 5}})
    assert alone == "5 test images are identical to training images"


def test_images_without_a_unit_share_none_and_a_dataset_without_units_says_so(tmp_path):
    units = ["a", "a", "", "", "b", "b", "", ""]
    pixels = list(range(8))
    work = tmp_path / "1"
    overlaps = overlap.find(dataset(work, units, pixels))
    assert overlaps["patients"]["count"] == 0
    assert overlap.sentence(overlaps) == ""
    units = [""] * 8
    pixels = list(range(8))
    work = tmp_path / "2"
    assert overlap.find(dataset(work, units, pixels))["patients"] is None


def test_a_partition_counts_what_its_clients_hold(tmp_path):
    dataset_path = dataset(tmp_path, UNITS, PIXELS)
    scheme = resolve("iid", {"clients": 2})
    path = make_partition(dataset_path, scheme, manifest.Destination(tmp_path), val=0.5)
    of_partition = overlap.find(path)
    of_dataset = overlap.find(dataset_path)
    assert of_partition["patients"] == of_dataset["patients"]
    assert of_partition["pixels"] == of_dataset["pixels"]
    assert of_partition["shared_patients"]["test"] == {"shared": 2, "of": 3}


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_strict_ends_with_code_1_and_one_sentence_where_anything_is_shared(tmp_path):
    path = dataset(tmp_path / "1", UNITS, PIXELS)
    code, out, err = run("inspect", path, "--strict", "--json")
    assert code == 1
    result = json.loads(out)["overlap"]["patients"]["count"]
    assert result == 2
    assert "2 of 3 test lesions also have training images" in err
    assert "hint:" in err
    assert "Traceback" not in err
    code, out, _ = run("inspect", path, "--all")
    assert code == 0
    assert "i1 = i5 i3 = i6" in out
    assert "a split that keeps them together" in err
    pixels = list(range(8))
    work = tmp_path / "2"
    clean = dataset(work, list("aabbccdd"), pixels)
    assert run("inspect", clean, "--strict")[0] == 0


def test_identical_images_are_named_with_what_mends_them(tmp_path):
    pixels = [0, 1, 2, 3, 4, 1, 6, 7]
    path = dataset(tmp_path, list("aabbccdd"), pixels)
    code, _, err = run("inspect", path, "--strict")
    assert code == 1
    assert "1 test image is identical to a training image" in err
    assert (
        "hint: i1 (train) and i5 (test) are one picture: remove one of the two, or give both one lesion"
        in err
    )


def test_strict_fails_where_no_patient_is_known_but_for_images_of_things(tmp_path):
    units = [""] * 8
    pixels = list(range(8))
    path = dataset(tmp_path, units, pixels)
    code, _, err = run("inspect", path, "--strict")
    assert code == 1
    assert "it is unknown whether train and test share a patient" in err
    assert "--patient" not in err
    toy = run("prepare", "toy", "--sample-images", 200, "--work", tmp_path / "toy")[1].strip()
    assert run("inspect", toy, "--strict")[0] == 0


def test_ids_that_differ_in_zeros_blanks_or_case_are_named(tmp_path):
    ids = ["0005426", "5426", "P 07", "p7", "10", "1", ""]
    result = overlap.alike(ids)
    assert result == [
        ("0005426", "5426"),
        ("P 07", "p7"),
    ]
    units = ["05", "05", "b", "b", "5", "5", "c", "c"]
    pixels = list(range(8))
    path = dataset(tmp_path, units, pixels)
    code, _, err = run("inspect", path, "--strict")
    assert code == 1
    assert "count as different lesions: '05' and '5'" in err
    assert "write each lesion's id in one way" in err


def test_strict_is_for_datasets_and_partitions(tmp_path):
    path = dataset(tmp_path, UNITS, PIXELS)
    code, _, err = run("inspect", path.parent / "pool.h5", "--strict")
    assert code == 2
    assert "--strict is for a dataset or partition" in err


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
@pytest.mark.parametrize(("split", "shared"), [("official", 696), ("lesion", 0)])
def test_the_official_fold_of_ham10000_shares_696_lesions(split, shared, tmp_path):
    """Lesions and parts as they are in its table; the pixels are a number for each image."""
    raw = Path(os.environ["FEDCLI_REAL_DATA"], "ham10000")
    rows = isic2018.rows(raw, completed(8, split)).rows
    numbers = np.arange(len(rows), dtype=np.uint16).view(np.uint8).reshape(-1, 1, 2, 1)
    patients = overlap.find(stage(tmp_path, rows, list(numbers)))["patients"]
    result = (patients["name"], patients["count"])
    assert result == ("lesion_id", shared)


def test_strict_warns_of_odd_images_and_passes(tmp_path):
    units = ["a", "b", "c", "d"] * 1 + ["e", "f", "g", "h"]
    pixels = [1, 1, 2, 3, 4, 4, 4, 5]
    path = dataset(tmp_path, units, pixels)
    done = CliRunner().invoke(app, ["inspect", str(path), "--strict"])
    assert done.exit_code == 0
    identical = "identical to another image of their part: 2 training images and 3 test images"
    for line in ("training images of nearly one colour: 0 2, 1 2", identical):
        assert line in done.stdout
        assert f"warning: {line}" in done.stderr
    printed = json.loads(CliRunner().invoke(app, ["inspect", str(path), "--json"]).stdout)
    nearly_one_colour = {"train": {"0": 2, "1": 2}, "test": {"0": 2, "1": 2}}
    expected = {
        "nearly_one_colour": nearly_one_colour,
        "identical_within_part": {"train": 2, "test": 3},
    }
    assert printed["contents"] == expected
