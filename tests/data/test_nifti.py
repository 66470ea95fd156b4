"""NIfTI volumes among one's own images."""

import numpy as np
import pytest
from raw_folders import completed, prepare, refused, write_csv

from fedcli.data import manifest
from fedcli.data.pool import read_pool
from fedcli.data.sources.formats import nifti
from fedcli.data.sources.source import Unreadable
from fedcli.errors import UsageError

nibabel = pytest.importorskip("nibabel")
BODY = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)  # [right, front, up]


def choose(slices="1", axis="axial", **rest):
    return completed(8, "image", own={"slices": slices, "axis": axis}, **rest)


def save(path, array=BODY, axes="RAS"):
    """A volume whose axes lead from left to right and so on, kept in another order."""
    volume = nibabel.Nifti1Image(array, np.eye(4))
    change = nibabel.orientations.ornt_transform(
        nibabel.io_orientation(np.eye(4)), nibabel.orientations.axcodes2ornt(axes)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(volume.as_reoriented(change), path)
    return path


@pytest.mark.parametrize("axes", ["RAS", "LPS", "SPL", "IAR", "PIR"])
@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz"])
def test_slices_look_the_same_in_whatever_order_a_file_keeps_them(axes, name, tmp_path):
    path = save(tmp_path / name, axes=axes)
    window = (59.5, 255.0)  # 255 grey levels for 255 values from -68 on
    expected = {
        "axial": BODY[::-1, ::-1, 3].T,  # the patient's right at the left, the front above
        "coronal": BODY[::-1, 2, ::-1].T,
        "sagittal": BODY[2, ::-1, ::-1].T,
    }
    for axis, plane in expected.items():
        choices = choose(axis=axis)
        image = nifti.read_slices(path, choices, window)
        assert np.array_equal(image[..., 0], plane + 68), axis


def test_several_slices_are_channels_from_below_to_above(tmp_path):
    for axes in ("RAS", "LPI"):
        path = save(tmp_path / "v.nii", axes=axes)
        image = nifti.read_slices(path, choose("3"), (59.5, 255.0))
        expected = np.stack([BODY[::-1, ::-1, z].T + 68 for z in (1, 3, 5)], -1)
        assert np.array_equal(image, expected)


def test_without_a_window_the_slices_range_is_taken_and_scaling_is_applied(tmp_path):
    volume = nibabel.Nifti1Image(BODY, np.eye(4))
    volume.header.set_slope_inter(2.0, -1000.0)
    nibabel.save(volume, tmp_path / "v.nii")
    path = tmp_path / "v.nii"
    image = nifti.read_slices(path, choose(), None)
    assert image.min() == 0
    assert image.max() == 255


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((3, 3, 3), np.int16), "the same value everywhere"),
        (np.full((3, 3, 3), np.nan, np.float32), "not finite"),
        (np.zeros((3, 3, 3, 2), np.int16), "shape 3 x 3 x 3 x 2, not one volume"),
        (np.zeros((3, 3), np.int16), "not one volume"),
    ],
)
def test_what_is_no_volume_of_numbers_is_unreadable(array, sentence, tmp_path):
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), tmp_path / "v.nii")
    with pytest.raises(Unreadable, match=sentence):
        path = tmp_path / "v.nii"
        nifti.read_slices(path, choose(), None)


def test_a_header_that_claims_more_than_there_is_takes_no_memory(tmp_path):
    path = save(tmp_path / "v.nii")
    damaged = bytearray(path.read_bytes())
    damaged[42:48] = np.array([32000, 32000, 32000], "<i2").tobytes()
    path.write_bytes(damaged)
    with pytest.raises(Unreadable, match="bytes, more than 2,147,483,648"):
        nifti.read_slices(path, choose(), None)
    damaged[42:48] = np.array([600, 600, 600], "<i2").tobytes()
    path.write_bytes(damaged)
    with pytest.raises(Unreadable):
        nifti.read_slices(path, choose(), None)
    path.write_bytes(b"these are words")
    with pytest.raises(Unreadable):
        nifti.read_slices(path, choose(), None)


def test_a_volume_of_a_whole_body_is_read_slice_by_slice(tmp_path, monkeypatch):
    """512 x 512 x 1500 voxels of a file with holes, which takes no room on the disk."""
    path = tmp_path / "body.nii"
    header = nibabel.Nifti1Header()
    header.set_data_shape((512, 512, 1500))
    header.set_data_dtype(np.int16)
    header.set_sform(np.eye(4), code=1)
    header["vox_offset"] = 352
    header["magic"] = b"n+1"
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        file.seek(352 + 2 * 512 * 512 * 750)
        file.write(np.arange(512, dtype=np.int16).repeat(512).tobytes())
        file.truncate(352 + 2 * 512 * 512 * 1500)
    result = nifti.read_slices(path, choose(), None).shape
    assert result == (512, 512, 1)
    monkeypatch.setattr(nifti, "MOST", 100_000_000)
    with pytest.raises(Unreadable, match=r"400 slices hold .* voxels, more than 100,000,000"):
        choices = choose(slices="400")
        nifti.read_slices(path, choices, None)


def test_a_folder_of_volumes_with_a_table_is_prepared(tmp_path):
    raw = tmp_path / "raw"
    rows = []
    for i in range(6):
        array = BODY + 10 * i
        save(raw / f"scan{i}.nii.gz", array)
        rows.append([f"scan{i}", "ab"[i % 2], "fm"[i // 3]])
    head = ["image", "label", "sex"]
    write_csv(raw / "labels.csv", head, rows)
    options = {"slices": "2", "axis": "coronal", "group": "sex"}
    path = prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own=options)
    body = manifest.read(path).body
    result = (body["channels"], body["count"], body["attributes"])
    expected = (
        2,
        6,
        {"sex": ["female", "male"]},
    )
    assert result == expected
    result = read_pool(path.parent / "pool.h5").shape
    assert result == (6, 8, 8, 2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"slices": "0"}, "slices is '0'"),
        ({"axis": "up"}, "axis is 'up'"),
        ({"channels": "3"}, "for pictures, not for volumes"),
    ],
)
def test_options_that_mean_nothing_for_volumes_are_refused(changes, sentence, tmp_path):
    for name in ("a/1.nii", "a/2.nii", "b/1.nii", "b/2.nii"):
        save(tmp_path / "raw" / name)
    with refused(sentence, of=UsageError):
        raw = tmp_path / "raw"
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1, own=changes)


def test_volumes_and_pictures_do_not_mix_and_the_package_is_named(tmp_path, monkeypatch):
    from PIL import Image

    for name in ("a/1.nii", "b/1.nii"):
        save(tmp_path / "raw" / name)
    Image.new("L", (4, 4)).save(tmp_path / "raw" / "a" / "2.png")
    with refused("holds volumes and pictures"):
        raw = tmp_path / "raw"
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)
    monkeypatch.setitem(__import__("sys").modules, "nibabel", None)
    with refused("need the package nibabel", "fedcli[nifti]"):
        raw = tmp_path / "raw"
        prepare("images", raw=raw, work=tmp_path, size=8, jobs=1)
