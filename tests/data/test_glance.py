"""The lines in which a dataset is told to a person."""

import numpy as np
from raw_folders import write_pool

from fedcli.data import glance, image_counts, manifest
from fedcli.data.pool import Row

LONG = [f"a class with a long name, number {k}" for k in range(20)]


def lines(tmp_path, classes, patients, **about) -> list[str]:
    rows = [Row(f"i{i}", i % 20, None, i >= 30, {"sex": i % 3 - 1}, patients[i]) for i in range(40)]

    def build(folder):
        write_pool(
            folder / "pool.h5", rows, [np.full((4, 4, 1), i, np.uint8) for i in range(40)], ["sex"]
        )
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
        return body | {"count": 40, "split": {"train": 30, "test": 10, "by": "unit"}} | about

    path = manifest.stage(
        "dataset", folder=tmp_path / "m", made_by=["prepare"], options={}, parents=[], build=build
    )
    return glance.of_dataset(path, image_counts.of_manifest(path))


def test_counts_unknown_groups_patients_and_what_was_left_out(tmp_path):
    skipped = [
        {"file": f"{k}.png", "why": "holds no image" if k else "has no label"} for k in range(3)
    ]
    made = lines(
        tmp_path,
        list("abcdefghijklmnopqrst"),
        [f"p{i // 2}" for i in range(38)] + ["", ""],
        skipped=skipped,
    )
    assert made[0] == "images: 40 (30 train, 10 test, patients kept together), 4x4 pixels"
    assert made[1].startswith("classes: 20, from 2 (a)")
    assert made[2:] == [
        "sex: female 13, male 13, unknown 14",
        "patients or lesions: 19 (id), 2 images of unknown ones",
        "left out: 3 files: holds no image (2), has no label (1)",
    ]


def test_lines_are_short_whatever_the_names(tmp_path):
    made = lines(tmp_path, LONG, [""] * 40, skipped=[{"file": "a", "why": "x" * 300}])
    assert len(made) <= 8 and all(len(line) <= 100 for line in made)
    assert (
        made[1].startswith("classes: 20, from 2 (a class with a long name")
        and "patients: not known" in made
    )
    assert glance.fitted("also: ", ["name " * 5] * 9).endswith(" more")
