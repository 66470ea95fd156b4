"""Fields of a DICOM file about its display are followed; without them each file below comes out wrong, in silence."""

import numpy as np
import pydicom
import pytest
from pydicom import Dataset
from raw_folders import write_slice

from fedcli.data.sources.formats import dicom
from fedcli.data.sources.source import Unreadable

RAMP = np.arange(0, 4096, 64, dtype=np.uint16).reshape(8, 8)
BARE = {"Modality": "DX", "WindowCenter": None, "WindowWidth": None, "BitsStored": 12}


def table(entries, lowest=0, bits=8):
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [len(entries), lowest, bits])
    item.add_new("LUTData", "US", [int(entry) for entry in entries])
    return [item]


def group(**fields):
    item = Dataset()
    for name, value in fields.items():
        setattr(item, name, value)
    return item


def picture(path, **asked):
    return dicom.read_picture(path, **asked)[..., 0]


def test_a_palette_gives_its_colours(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (3, 256))
    tables = {
        f"{name}PaletteColorLookupTableDescriptor": [256, 0, 16]
        for name in ("Red", "Green", "Blue")
    }
    data = {
        f"{name}PaletteColorLookupTableData": (colour * 257).astype("<u2").tobytes()
        for name, colour in zip(("Red", "Green", "Blue"), colours, strict=True)
    }
    places = np.arange(64, dtype=np.uint16).reshape(8, 8)
    path = write_slice(
        tmp_path / "a.dcm",
        places,
        **BARE | tables | data,
        PhotometricInterpretation="PALETTE COLOR",
    )
    assert dicom.header(path)[1]
    assert np.array_equal(dicom.read_picture(path), colours.T[places])
    with pytest.raises(Unreadable, match="palette"):
        dicom.read_slice(path)


@pytest.mark.parametrize("kind", ["MONOCHROME1", "MONOCHROME2"])
def test_padding_is_black_and_counts_for_no_range(tmp_path, kind):
    values = (RAMP // 8 + 1000).copy()
    values[0], values[1] = 0, 5
    fields = BARE | {
        "PhotometricInterpretation": kind,
        "PixelPaddingValue": 0,
        "PixelPaddingRangeLimit": 5,
    }
    path = write_slice(tmp_path / "a.dcm", values, **fields)
    shown_picture = picture(path)
    assert not shown_picture[:2].any()
    result = sorted({int(shown_picture[2:].min()), int(shown_picture[2:].max())})
    assert result == [0, 255]


def test_a_modality_table_stands_for_slope_and_intercept(tmp_path):
    steps = np.repeat([0, 10, 20, 80], 1024)
    fields = {"Modality": "CT", "RescaleSlope": None, "RescaleIntercept": None, "BitsStored": 12}
    path = write_slice(
        tmp_path / "a.dcm", RAMP, ModalityLUTSequence=table(steps, bits=16), **fields
    )
    expected = np.rint(steps[RAMP] / 80 * 255)
    assert np.array_equal(picture(path), expected)  # the window 40/80
    result = dicom.read_slice(path)[..., 0]
    assert np.array_equal(result, picture(path))


@pytest.mark.parametrize(("bits", "white"), [(8, 255), (12, 4095)])
def test_a_display_table_stands_for_the_window_unless_one_is_asked_for(tmp_path, bits, white):
    entries = np.linspace(white, 0, 1000).astype(
        int
    )  # inverts, and ends before and after the values
    path = write_slice(tmp_path / "a.dcm", RAMP, VOILUTSequence=table(entries, 500, bits), **BARE)
    expected = entries[np.clip(RAMP.astype(int) - 500, 0, 999)] * 255 / white
    result = np.abs(picture(path) - expected).max()
    assert result <= 0.5
    windows = ((2048.0, 4096.0),)
    result = picture(path, windows=windows)
    expected = np.rint(RAMP / 4096 * 255)
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("modality", ["CT", "DX"])
def test_a_sigmoid_window_is_no_line(tmp_path, modality):
    fields = BARE | {
        "Modality": modality,
        "WindowCenter": 2000,
        "WindowWidth": 1000,
        "VOILUTFunction": "SIGMOID",
    }
    values = RAMP // 4 * 3  # in CT, unsigned values near the end stand for negative ones
    expected = 255 / (1 + np.exp(-4 * (values.astype(float) - 2000) / 1000))
    path = write_slice(tmp_path / "a.dcm", values, **fields)
    shown_picture = picture(path)
    assert np.abs(shown_picture - expected).max() <= 0.51


@pytest.mark.parametrize("modality", ["CT", "DX"])
@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_values_in_the_high_bits_are_those_values(tmp_path, modality, dtype):
    values = (RAMP // 2).astype(dtype) - (500 if dtype == np.int16 else 0)
    fields = {"Modality": modality, "WindowCenter": 700, "WindowWidth": 1500, "BitsStored": 12}
    path = write_slice(tmp_path / "low.dcm", values, **fields)
    low = picture(path)
    stored = (values << 4) | 7
    path = write_slice(tmp_path / "high.dcm", stored, HighBit=15, **fields)
    high = picture(path)
    assert np.array_equal(low, high)
    assert low.max() > low.min()


def test_an_enhanced_file_of_one_frame_keeps_scale_and_window_in_its_groups(tmp_path):
    frame = group(
        PixelValueTransformationSequence=[group(RescaleSlope=2, RescaleIntercept=-1000)],
        FrameVOILUTSequence=[group(WindowCenter=300, WindowWidth=1500)],
    )
    fields = {
        "Modality": "CT",
        "RescaleSlope": None,
        "RescaleIntercept": None,
        "WindowCenter": None,
    }
    fields |= {
        "WindowWidth": None,
        "NumberOfFrames": 1,
        "PerFrameFunctionalGroupsSequence": [frame],
    }
    path = write_slice(tmp_path / "a.dcm", RAMP, **fields)
    expected = np.rint(((RAMP * 2.0 - 1000 + 450) * 255 / 1500).clip(0, 255))
    assert np.array_equal(picture(path), expected)


def test_a_table_that_ends_early_is_a_reason_to_skip_the_file(tmp_path):
    short = table(np.arange(10))
    short[0].LUTDescriptor = [400, 0, 8]
    with pytest.raises(Unreadable, match="lookup table of 10 entries"):
        path = write_slice(tmp_path / "a.dcm", RAMP, VOILUTSequence=short, **BARE)
        dicom.read_picture(path)


@pytest.mark.parametrize(("slope", "intercept"), [("0", "0"), ("1e300", "0"), ("1", "-1e12")])
def test_a_scale_that_leaves_no_picture_is_refused(tmp_path, slope, intercept):
    path = tmp_path / "a.dcm"
    write_slice(path, RAMP, **BARE | {"RescaleSlope": slope, "RescaleIntercept": intercept})
    with pytest.raises(Unreadable, match="cannot be scaled by RescaleSlope"):
        picture(tmp_path / "a.dcm")


def test_a_window_beyond_all_values_is_none(tmp_path):
    write_slice(tmp_path / "a.dcm", RAMP, **BARE)
    path = tmp_path / "b.dcm"
    write_slice(path, RAMP, **BARE | {"WindowCenter": "1e300", "WindowWidth": "1e300"})
    expected = picture(tmp_path / "a.dcm")
    path = tmp_path / "b.dcm"
    assert np.array_equal(picture(path), expected)


QUANTITATIVE = {"Modality": "MR", "WindowCenter": None, "WindowWidth": None}
GREYS = np.arange(256, dtype=np.uint16).reshape(16, 16)


def parametric_map(path, values, **fields):
    """A DICOM file of Float Pixel Data, as maps of diffusion have."""
    write_slice(path, GREYS, **QUANTITATIVE | fields)
    slice_ = pydicom.dcmread(path)
    del slice_.PixelData
    slice_.BitsAllocated = 32
    slice_.Rows, slice_.Columns = values.shape
    slice_.FloatPixelData = values.astype("<f4").tobytes()
    slice_.save_as(path)
    return path


@pytest.mark.parametrize("highest", [1e-6, 2.5e-3, 0.41, 0.999, 1.0, 2500.0])
def test_the_range_of_a_parametric_map_fills_all_greys(tmp_path, highest):
    values = GREYS * (highest / 255)
    path = parametric_map(tmp_path / "a.dcm", values)
    assert picture(path).tolist() == GREYS.tolist()


@pytest.mark.parametrize("slope", [1e-6, 1e-5, 1e-4, 1.0])
@pytest.mark.parametrize("modality", ["MR", "PT"])
def test_the_range_of_scaled_values_fills_all_greys(tmp_path, slope, modality):
    fields = QUANTITATIVE | {"Modality": modality, "RescaleSlope": slope, "RescaleIntercept": 0}
    path = write_slice(tmp_path / "a.dcm", GREYS, **fields)
    assert picture(path).tolist() == GREYS.tolist()


@pytest.mark.parametrize("modality", ["MR", "CT"])
def test_a_window_below_one_counts_where_its_function_allows_it(tmp_path, modality):
    values = GREYS / 255
    fields = {"Modality": modality, "WindowCenter": 0.4, "WindowWidth": 0.8}
    path = tmp_path / "a.dcm"
    exact = parametric_map(path, values, VOILUTFunction="LINEAR_EXACT", **fields)
    assert np.array_equal(picture(exact) == 255, values > 0.798)
    path = tmp_path / "b.dcm"
    curve = parametric_map(path, values, VOILUTFunction="SIGMOID", **fields)
    assert picture(curve)[0, 0] == 30  # 255 / (1 + e^2)
    assert picture(curve)[15, 15] == 243  # 255 / (1 + e^-3)


def test_a_linear_window_below_one_is_none(tmp_path):
    fields = {"WindowCenter": 0.1, "WindowWidth": 0.2}
    values = GREYS / 255
    path = parametric_map(tmp_path / "a.dcm", values, **fields)
    assert picture(path).tolist() == GREYS.tolist()


def test_an_image_of_one_value_is_grey(tmp_path):
    values = np.full((16, 16), 0.25)
    path = parametric_map(tmp_path / "a.dcm", values)
    result = np.unique(picture(path)).tolist()
    assert result == [128]
