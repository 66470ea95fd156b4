"""The lines in which a dataset is told to a person."""

import numpy as np
import pytest
from raw_folders import write_pool

from fedcli.data import glance, image_contents, image_counts, manifest
from fedcli.data.pool import Row

LONG = [f"a class with a long name, number {k}" for k in range(20)]


RAMP = np.arange(16, dtype=np.uint8).reshape(4, 4, 1)
IMAGES = [RAMP + i for i in range(40)]


def lines(tmp_path, classes, patients, images=IMAGES, **about) -> list[str]:
    rows = [Row(f"i{i}", i % 20, None, i >= 30, {"sex": i % 3 - 1}, patients[i]) for i in range(40)]

    def build(folder):
        path = folder / "pool.h5"
        write_pool(path, rows, images, ["sex"])
        body = {
            "classes": classes,
            "attributes": {"sex": ["female", "male"]},
            "size": [4, 4],
            "channels": 1,
        }
        body |= {
            "augment": "none",
            "name": "made",
            "clients": 2,
            "sites": None,
            "unit": "id" if any(patients) else None,
        }
        split = {"train": 30, "test": 10, "by": "unit"}
        return body | {"count": 40, "split": split} | about

    path = manifest.stage(
        "dataset", folder=tmp_path / "m", made_by=["prepare"], options={}, parents=[], build=build
    )
    counts = image_counts.of_manifest(path)
    return glance.of_dataset(path, counts)


def test_counts_unknown_groups_patients_and_what_was_left_out(tmp_path):
    skipped = [
        {"file": f"{k}.png", "why": "holds no image" if k else "has no label"} for k in range(3)
    ]
    patients = [f"p{i // 2}" for i in range(38)] + ["", ""]
    text = lines(
        tmp_path,
        list("abcdefghijklmnopqrst"),
        patients,
        skipped=skipped,
    )
    assert text[0] == "images: 40 (30 train, 10 test, patients kept together), 4x4 pixels"
    assert text[1].startswith("classes: 20, from 2 (a)")
    assert text[2:] == [
        "sex: female 13, male 13, unknown 14",
        "patients: 19 (id), 2 images of unknown ones",
        "left out: 3 files, listed in dataset.json",
        "  2: holds no image, such as 1.png",
        "  1: has no label, 0.png",
    ]


def test_lines_are_short_whatever_the_names(tmp_path):
    skipped = [{"file": "a", "why": "x" * 300}]
    patients = [""] * 40
    text = lines(tmp_path, LONG, patients, skipped=skipped)
    assert len(text) <= 8
    for line in text:
        assert len(line) <= 100
    assert text[1].startswith("classes: 20, from 2 (a class with a long name")
    assert "patients: not known" in text
    names = ["name " * 5] * 9
    assert glance.fitted("also: ", names).endswith(" more")


def test_images_of_one_colour_and_identical_ones_are_counted_by_part(tmp_path):
    images = list(IMAGES)
    images[0] = images[1] = images[21] = np.zeros_like(RAMP)  # of classes a, b and b
    images[35] = np.full_like(RAMP, 255)
    images[2] = images[3]
    images[38] = images[4]  # in the other part
    patients = [""] * 40
    text = lines(tmp_path, list("abcdefghijklmnopqrst"), patients, images)
    result = text[-3:]
    assert result == [
        "training images of nearly one colour: a 1, b 2",
        "test images of nearly one colour: p 1",
        "identical to another image of their part: 5 training images",
    ]


def test_lines_about_odd_images_are_short_too(tmp_path):
    images = [np.zeros_like(RAMP)] * 40
    patients = [""] * 40
    text = lines(tmp_path, LONG, patients, images)
    for line in text:
        assert len(line) <= 100
    assert text[-1] == (
        "identical to another image of their part: 30 training images and 10 test images"
    )


@pytest.mark.parametrize(
    ("values", "blank"),
    [
        ([0] * 16, True),
        ([0, 1, 2] * 5 + [0], True),
        ([0, 1, 2, 3] * 4, False),
        (list(range(16)), False),
    ],
)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_an_image_is_blank_if_no_channel_has_four_values(values, blank, channels):
    image = np.zeros((4, 4, channels), np.uint8)
    image[..., -1] = np.reshape(values, (4, 4))
    assert image_contents.is_blank(image) is blank


def test_validation_images_are_training_images_too(tmp_path, monkeypatch):
    images = list(IMAGES)
    images[25] = np.zeros_like(RAMP)
    patients = [""] * 40
    lines(tmp_path, list("abcdefghijklmnopqrst"), patients, images)
    path = tmp_path / "m" / "dataset.json"
    pool, rows, test = image_contents.holdings(path)
    (all_rows,) = [parts["train"] for parts in rows.values()]
    north = {"train": all_rows[:20], "val": all_rows[20:], "test": all_rows[:0]}
    clients = {"north": north}
    monkeypatch.setattr(image_contents, "holdings", lambda path: (pool, clients, test))
    contents = image_contents.of_manifest(path)
    assert contents["nearly_one_colour"] == {"train": {"f": 1}}
