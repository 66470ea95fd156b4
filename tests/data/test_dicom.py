import json
import os
from pathlib import Path

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from raw_folders import prepare, write_csv, write_slice
from slice_values import hounsfield, hounsfield_image, rewritten
from tables_of_numbers import rows as number_rows

from fedcli.data.pool import read_pool
from fedcli.data.sources import rsna_ich
from fedcli.data.sources.formats import dicom, dicom_display
from fedcli.data.sources.formats.dicom_header import read_header
from fedcli.data.sources.source import Unreadable
from fedcli.errors import UsageError

BRAIN = dicom.WINDOWS["brain"]


def test_signed_values_become_hounsfield_by_slope_and_intercept(tmp_path):
    stored = np.array([[-500, 0], [20, 1000]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, RescaleSlope=2, RescaleIntercept=-10)
    expected = [-1010, -10, 30, 1990]
    assert hounsfield(path) == expected


def test_unsigned_values_with_the_usual_intercept_are_left_alone(tmp_path):
    stored = np.array([[0, 1024], [1064, 4000]], np.uint16)
    path = write_slice(tmp_path / "a.dcm", stored, BitsStored=12, RescaleIntercept=-1024)
    expected = [-1024, 0, 40, 2976]
    assert hounsfield(path) == expected


@pytest.mark.parametrize(("bits", "air"), [(12, 4096 - 1000), (16, 65536 - 1000)])
def test_signed_values_that_a_file_calls_unsigned_are_turned_back(tmp_path, bits, air):
    stored = np.array([[air, 0], [40, 3000]], np.uint16)
    path = write_slice(tmp_path / "a.dcm", stored, BitsStored=bits)
    expected = [-1000, 0, 40, 3000]
    assert hounsfield(path) == expected


def test_a_file_without_slope_and_intercept_holds_hounsfield_already(tmp_path):
    stored = np.array([[-7, 7]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, RescaleSlope=None, RescaleIntercept=None)
    assert hounsfield(path) == [-7, 7]


def test_the_window_maps_its_bounds_to_0_and_255():
    values = np.array(number_rows("-500.0 0.0 20.0 40.0 80.0 3000.0"))
    expected = number_rows("0 0 64 128 255 255")
    result = dicom_display.linear(values, 40, 80).tolist()
    assert result == expected


def test_the_files_own_window_is_the_first_of_several(tmp_path):
    stored = np.array([[0, 50, 100]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, WindowCenter=[50, 600], WindowWidth=[100, 2800])
    result = dicom.read_slice(path)[..., 0].tolist()
    assert result == [[0, 128, 255]]


@pytest.mark.parametrize("width", [None, 0, ""])
def test_without_a_window_of_its_own_a_slice_gets_the_brains(tmp_path, width):
    stored = np.array([[0, 40, 80]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, WindowWidth=width)
    result = dicom.read_slice(path)[..., 0].tolist()
    assert result == [[0, 128, 255]]


def test_a_given_window_beats_the_files(tmp_path):
    stored = np.array([[-20, 80, 180]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    windows = dicom.parse_window("subdural")
    result = dicom.read_slice(path, windows)[..., 0].tolist()
    assert result == [[0, 128, 255]]
    windows = dicom.parse_window("80/400")
    result = dicom.read_slice(path, windows)[..., 0].tolist()
    assert result == [[64, 128, 191]]


def test_monochrome1_is_turned_so_that_dense_is_bright(tmp_path):
    stored = np.array([[0, 80]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, PhotometricInterpretation="MONOCHROME1")
    result = dicom.read_slice(path)[..., 0].tolist()
    assert result == [[255, 0]]


def test_a_slice_of_one_value_stays_one_grey(tmp_path):
    stored = np.full((4, 4), 20, np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    image = dicom.read_slice(path)
    assert image.shape == (4, 4, 1)
    assert image.dtype == np.uint8
    assert set(image.ravel()) == {64}


def test_a_file_without_pixels_says_so(tmp_path):
    stored = np.zeros((4, 4), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, PixelData=None)
    with pytest.raises(Unreadable, match="holds no pixel data"):
        dicom.read_slice(path)


def test_a_truncated_file_says_so_without_its_folder(tmp_path):
    stored = np.zeros((64, 64), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Unreadable, match=r"^pixel data cut short \(8092 of 8192 bytes\)$") as error:
        dicom.read_slice(path)
    assert str(tmp_path) not in str(error.value)


def test_a_file_that_is_no_dicom_says_so(tmp_path):
    (tmp_path / "a.dcm").write_text("hello")
    with pytest.raises(Unreadable, match="is no DICOM file"):
        dicom.read_slice(tmp_path / "a.dcm")
    with pytest.raises(Unreadable, match="InvalidDicomError"):
        read_header(tmp_path / "a.dcm")


def test_of_several_frames_the_middle_one_counts(tmp_path):
    for frames, middle in ((2, 1), (3, 1), (4, 2)):
        stored = np.arange(frames, dtype=np.int16)[:, None, None].repeat(4, 1).repeat(4, 2) * 20
        path = write_slice(tmp_path / "a.dcm", stored, NumberOfFrames=frames)
        windows = ((40, 80),)
        result = set(dicom.read_slice(path, windows).ravel())
        expected = {round(255 * 20 * middle / 80)}
        assert result == expected


def test_a_frames_own_scale_and_window_count_and_then_the_common_ones(tmp_path):
    def group(**sequences):
        dataset = Dataset()
        for name, fields in sequences.items():
            item = Dataset()
            for key, value in fields.items():
                setattr(item, key, value)
            setattr(dataset, name, Sequence([item]))
        return dataset

    of_frames = [
        group(PixelValueTransformationSequence={"RescaleIntercept": 10 * k}) for k in range(3)
    ]
    common = group(
        PixelValueTransformationSequence={"RescaleSlope": 2},
        FrameVOILUTSequence={"WindowCenter": 50, "WindowWidth": 100},
    )
    stored = np.full((3, 4, 4), 20, np.int16)
    path = write_slice(
        tmp_path / "a.dcm",
        stored,
        NumberOfFrames=3,
        RescaleSlope=None,
        RescaleIntercept=None,
        PerFrameFunctionalGroupsSequence=Sequence(of_frames),
        SharedFunctionalGroupsSequence=Sequence([common]),
    )
    expected = {2 * 20 + 10}
    assert set(hounsfield(path)) == expected
    result = set(dicom.read_slice(path).ravel())
    assert result == {128}


def test_three_windows_are_three_channels(tmp_path):
    stored = np.array([[-20, 40, 80, 600, 2000]], np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    image = dicom.read_slice(path, dicom.parse_window("brain,subdural,bone"))
    assert image.dtype == np.uint8
    expected = [  # 255 (HU - centre + width / 2) / width
        [0, 0, 71],
        [128, 76, 76],
        [255, 128, 80],
        [255, 255, 128],
        [255, 255, 255],
    ]
    assert image[0].tolist() == expected
    expected = (None, (40, 80), (600, 2800))
    assert dicom.parse_window("file, 40/80,bone") == expected
    windows = dicom.parse_window("file,file,file")
    result = dicom.read_slice(path, windows)[..., 2].tolist()
    assert result == [[0, 128, 255, 255, 255]]


@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("kind", [np.int16, np.uint16])
@pytest.mark.parametrize(
    "syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian]
)
def test_looking_a_word_up_gives_what_computing_its_value_gives(tmp_path, bits, kind, syntax):
    words = np.random.default_rng(bits).integers(
        0, 1 << 16, (32, 32), np.uint16
    )  # unused bits hold anything
    if syntax == ExplicitVRBigEndian:
        words = words.byteswap()
    fields = dict(
        BitsStored=bits,
        RescaleSlope=1.7,
        RescaleIntercept=-3,
        PhotometricInterpretation="MONOCHROME1",
    )
    stored = words.view(kind)
    path = write_slice(tmp_path / "a.dcm", stored, **fields)
    rewritten(path, syntax)
    expected = 255 - dicom_display.linear(hounsfield_image(path), 300, 1500)[..., None]
    windows = ((300, 1500),)
    assert np.array_equal(dicom.read_slice(path, windows), expected)
    assert len(np.unique(expected)) > 1


# compressed files


@pytest.mark.parametrize(
    "text",
    [
        "brian",
        "40",
        "40/80/2",
        "40/0",
        "40/-5",
        "nan/80",
        "40/inf",
        "a/b",
        "brain,bone",
        "brain,,bone",
        "",
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(text):
    with pytest.raises(UsageError):
        dicom.parse_window(text)


def test_the_nearest_window_is_offered():
    with pytest.raises(UsageError) as error:
        dicom.parse_window("brian")
    assert "'brain'" in error.value.hint


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_real_scanners_files_show_tissue_where_tissue_is():
    folder = Path(os.environ["FEDCLI_REAL_DATA"], "ct_head")
    path = folder / "GE" / "16.dcm"
    ge = hounsfield_image(path)
    assert ge.min() == -1500
    assert 25 < np.median(ge[230:280, 150:200]) < 45
    philips = folder / "Philips" / "S21570" / "S2010"
    result = hounsfield_image(philips / "I120").min()
    assert result == -1024
    slice_ = pydicom.dcmread(philips / "I120")
    result = dicom.own_window(slice_)
    assert result == (40, 80)
    slice_ = pydicom.dcmread(folder / "GE" / "16.dcm")
    result = dicom.own_window(slice_)
    assert result == (35, 85)
    with pytest.raises(Unreadable, match="holds no image"):
        read_header(philips / "DIRFILE")
    with pytest.raises(Unreadable, match="holds no pixel data"):
        dicom.read_slice(philips / "DIRFILE")


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_real_slices_through_rsna_ich_have_the_greys_that_their_bytes_give(tmp_path):
    folder = Path(os.environ["FEDCLI_REAL_DATA"], "ct_head")
    files = [folder / "GE" / "16.dcm", folder / "Philips" / "S21570" / "S2010" / "I120"]
    (tmp_path / "raw" / "stage_2_train").mkdir(parents=True)
    rows = []
    for k, file in enumerate(files):
        (tmp_path / "raw" / "stage_2_train" / f"ID_{k}.dcm").symlink_to(file)
        rows += [[f"ID_{k}_{name}", int(name == "subdural")] for name in rsna_ich.CLASSES]
    write_csv(tmp_path / "raw" / "stage_2_train.csv", ["ID", "Label"], rows)
    raw = tmp_path / "raw"
    path = prepare(
        "rsna-ich",
        raw=raw,
        work=tmp_path,
        size=512,
        window="brain,subdural,bone",
        jobs=1,
    )
    result = json.loads(path.read_text())["body"]["channels"]
    assert result == 3
    pixels = read_pool(path.parent / "pool.h5").pixels()
    for image, file, intercept in zip(pixels, files, (0, -1024), strict=True):
        count = 512 * 512 * 2  # the last bytes of an uncompressed file
        start = (
            file.read_bytes().rfind(bytes.fromhex("e07f1000")) + 12
        )  # tag of PixelData, its type and length
        stored = np.frombuffer(
            file.read_bytes()[start : start + count], "<i2" if intercept == 0 else "<u2"
        ).reshape(512, 512)
        units = stored.astype(float) + intercept
        for channel, (centre, width) in enumerate([(40, 80), (80, 200), (600, 2800)]):
            expected = np.clip((units - (centre - width / 2)) / width, 0, 1) * 255
            result = np.abs(image[..., channel] - expected).max()
            assert result < 0.501
