"""CIFAR-100 from its makers' binary files."""

import numpy as np
import pytest
from raw_folders import completed, refused

from fedcli.data import sources
from fedcli.data.sources import cifar100

OFFICIAL = completed(32, "official")


def write(folder, *records):
    """Write these records into the training and into the test file."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(
        bytes([kind, label]) + pixels.transpose(2, 0, 1).tobytes()
        for kind, label, pixels in records
    )
    for name in cifar100.FILES.values():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("home", ["cifar-100-binary", "."])
def test_a_record_is_its_kind_its_class_and_three_planes(tmp_path, home):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path / home
    write(folder, (1, 99, pixels[0]), (19, 0, pixels[1]))
    listing = cifar100.rows(tmp_path, OFFICIAL)
    records = [
        (row.id, cifar100.CLASSES[row.label], row.test, cifar100.KINDS[row.groups["kind"]])
        for row in listing.rows
    ]
    expected = [
        ("train/0", "worm", False, "fish"),
        ("train/1", "apple", False, "vehicles_2"),
    ]
    assert records[:2] == expected
    result = [row.test for row in listing.rows]
    assert result == [False, False, True, True]
    for row, image in zip(listing.rows, [*pixels, *pixels], strict=True):
        assert np.array_equal(cifar100.decode(tmp_path, row, OFFICIAL), image)


def test_the_card_has_the_readers_classes_and_kinds():
    card = sources.card("cifar100")
    assert card["classes"] == cifar100.CLASSES
    assert card["attributes"] == {"kind": cifar100.KINDS}


def test_a_damaged_file_is_refused_in_a_sentence(tmp_path):
    pixels = np.zeros((32, 32, 3), np.uint8)
    with refused("no such file: .*train.bin"):
        cifar100.rows(tmp_path, OFFICIAL)
    write(tmp_path, (0, 100, pixels))
    with refused("record 0 is of class 100 and kind 0"):
        cifar100.rows(tmp_path, OFFICIAL)
    (tmp_path / "train.bin").write_bytes(b"short")
    with refused("is no number of records of 3074 bytes"):
        cifar100.rows(tmp_path, OFFICIAL)
