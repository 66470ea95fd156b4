"""Facts of image files as they come, kept beside the pool."""

import json
from dataclasses import asdict
from unittest import mock

import pytest
from hospitals import prepared, write_hospitals

from fedcli.data import originals
from fedcli.data.originals import Original, Originals
from fedcli.errors import FedcliError

CT = Originals(["DICOM CT"], [False], 512)


def test_prepare_keeps_those_of_training_images_beside_the_pool_and_in_no_manifest(tmp_path):
    raw = write_hospitals(tmp_path / "raw")
    path = prepared(raw, tmp_path / "work").path
    expected = {"kinds": ["PNG or JPEG"], "coloured": [True], "side": 8, "bits": [8]}
    assert asdict(originals.read(path.parent)) == expected
    assert originals.read(path.parent).said.endswith(
        "PNG or JPEG, colour, shorter side 8 pixels or more, 8 bits for each colour"
    )
    (
        path.parent / originals.FILE
    ).unlink()  # of a pool that was prepared before there was such a file
    assert originals.FILE not in path.read_text()
    assert originals.read(path.parent) is None
    with mock.patch.object(originals, "write_text", side_effect=OSError("read-only")):
        work = tmp_path / "work"
        assert prepared(raw, work).path == path
        assert not originals.read(path.parent)
    work = tmp_path / "work"
    assert prepared(raw, work).path == path
    assert originals.read(path.parent)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (Original("DICOM CT", False, 512), []),
        (
            Original("DICOM", False, 256),
            [],
        ),  # of no known modality; half of a side is not too small
        (
            Original("DICOM MR", False, 512),
            ["a DICOM MR file, while the training images are DICOM CT files"],
        ),
        (
            Original("NIfTI", False, 0),
            ["a NIfTI file, while the training images are DICOM CT files"],
        ),
        (Original("DICOM CT", True, 512), ["coloured, while every training image is grey"]),
        (
            Original("DICOM CT", False, 255),
            ["its shorter side has 255 pixels, of the training images 512 or more"],
        ),
    ],
)
def test_a_file_differs_in_words(new, words):
    assert CT.differences(new) == words


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, "[]", '{"kinds": "CT", "coloured": [], "side": 1}']
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path, text):
    (tmp_path / originals.FILE).write_text(text)
    with pytest.raises(FedcliError, match=r"originals.json") as raised:
        originals.read(tmp_path)
    assert "prepare again" in raised.value.hint


def test_names_of_kinds_are_words(tmp_path):
    (tmp_path / originals.FILE).write_text(
        json.dumps({"kinds": ["\x1b[31mCT;"], "coloured": [True], "side": 1})
    )
    assert originals.read(tmp_path).kinds == ["31mCT"]
