"""Compressed DICOM files: the values that each decoder gives back, and the sentence where one is missing."""

import base64
import io
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.encaps import encapsulate
from raw_folders import write_slice
from slice_values import hounsfield

from fedcli.data.sources.formats import dicom, dicom_header
from fedcli.data.sources.source import Unreadable
from fedcli.errors import FedcliError

TILTED = np.add.outer(np.arange(64) * 40, np.arange(64) * 3) - 1500


JPEG_2000 = (  # TILTED as int16, by OpenJPEG 2.5.2
    "/0//UQApAAAAAABAAAAAQAAAAAAAAAAAAAAAQAAAAEAAAAAAAAAAAAABjwEB/1IADAAAAAEABQQEAAH/XAATQICIiJCIiJCIiJCIiJCIiJD/ZAAl"
    "AAFDcmVhdGVkIGJ5IE9wZW5KUEVHIHZlcnNpb24gMi41LjL/kAAKAAAAAACCAAH/k8D+QYAGoM7PLC3AA+oDgH7AgAz6Gws8rN7AAfOEgD8wYCIY"
    "d8QDf7vMMcvAAPkDQA/AIDahhTkYDz2mNDQypAX1wAB8IsAH2hpfp8cz352sKUBGAVoBgrULSeTAADosAD6gwItiAazv4Y1ip39qWsgDCQl//9kA"
)


JPEG_LOSSLESS = (  # np.add.outer(8 * 400, 8 * 30) - 1500 as int16, by GDCM 3.2
    "/9j/wwALEAAIAAgBAREA/8QAFgABAQEAAAAAAAAAAAAAAAAABQkP/9oACAEBAAEAAN6JHnnnnnnrIPPPPPPPWQeeeeeeesg8888889ZB555555"
    "6yDzzzzzz1kHnnnnnnrIPPPPPPPf/ZAA=="
)


def encapsulated(path: Path, frame: bytes, syntax: str, **fields) -> Path:
    slice_ = pydicom.dcmread(path)
    slice_.file_meta.TransferSyntaxUID = syntax
    slice_.PixelData = encapsulate([frame])
    slice_["PixelData"].VR = "OB"
    for name, value in fields.items():
        setattr(slice_, name, value)
    slice_.save_as(path)
    return path


def test_jpeg_2000_gives_the_stored_values_back(tmp_path):
    stored = np.zeros((64, 64), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    frame = base64.b64decode(JPEG_2000)
    encapsulated(path, frame, pydicom.uid.JPEG2000Lossless)
    assert hounsfield(path) == TILTED.ravel().tolist()


def test_rle_gives_the_stored_values_back(tmp_path):
    stored = TILTED.astype(np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    slice_ = pydicom.dcmread(path)
    slice_.compress(pydicom.uid.RLELossless)
    slice_.save_as(path)
    assert hounsfield(path) == TILTED.ravel().tolist()


def deflated(path: Path, values: np.ndarray) -> Path:
    slice_ = pydicom.dcmread(write_slice(path, values))
    slice_.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    slice_.save_as(path)
    return path


def test_a_deflated_file_is_read(tmp_path):
    values = TILTED.astype(np.int16)
    path = deflated(tmp_path / "a.dcm", values)
    result = hounsfield(path)
    assert result == TILTED.ravel().tolist()


@pytest.mark.parametrize("length", [None, 0, 10_000])
def test_a_deflated_file_need_not_say_how_long_its_header_is(tmp_path, length):
    values = TILTED.astype(np.int16)
    path = deflated(tmp_path / "a.dcm", values)
    whole = path.read_bytes()
    field = whole[132:144]
    rest = whole[144:]
    if length is None:
        field = b""
    else:
        field = field[:8] + length.to_bytes(4, "little")
    path.write_bytes(whole[:132] + field + rest)
    assert hounsfield(path) == TILTED.ravel().tolist()
    assert dicom_header.ask_pydicom(path)[dicom_header.ROWS] == "there"


def test_a_deflated_file_of_much_is_not_inflated(tmp_path, monkeypatch):
    values = np.zeros((3000, 3000), np.int16)
    path = deflated(tmp_path / "a.dcm", values)
    monkeypatch.setattr(dicom_header, "MOST", 10_000_000)
    monkeypatch.setattr(zlib, "decompress", None)  # pydicom's way, without a bound
    for read in (dicom.read_slice, dicom.header, dicom_header.read_header):
        with pytest.raises(Unreadable, match="is deflated, and holds more than 10,000,000 bytes"):
            read(path)


@pytest.mark.parametrize("syntax", [pydicom.uid.RLELossless, pydicom.uid.JPEG2000Lossless])
def test_a_header_that_claims_a_huge_image_is_not_believed(tmp_path, syntax, monkeypatch):
    stored = np.zeros((8, 8), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    frame = base64.b64decode(JPEG_2000)
    encapsulated(path, frame, syntax, Rows=65535, Columns=65535)
    monkeypatch.setattr(dicom, "_frame", None)
    for read in (dicom.read_slice, dicom.read_picture):
        with pytest.raises(
            Unreadable, match=r"claims an image of 65535 x 65535 pixels, 8,589,672,450 bytes"
        ):
            read(path)


def test_a_coloured_jpeg_becomes_rgb(tmp_path):
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 100, 50)).save(stream, "JPEG", quality=95)
    stored = np.zeros((16, 16), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    fields = dict(
        SamplesPerPixel=3,
        PlanarConfiguration=0,
        PhotometricInterpretation="YBR_FULL_422",
        BitsAllocated=8,
    )
    encapsulated(
        path,
        stream.getvalue(),
        pydicom.uid.JPEGBaseline8Bit,
        BitsStored=8,
        HighBit=7,
        PixelRepresentation=0,
        **fields,
    )
    image = dicom.read_picture(path)
    assert image.shape == (16, 16, 3)
    result = np.abs(image.astype(int) - (200, 100, 50)).max()
    assert result <= 3


def test_lossless_jpeg_needs_one_decoder_more_and_then_gives_the_stored_values_back(tmp_path):
    pytest.importorskip("gdcm", reason="fedcli[dicom] is not installed")
    stored = np.zeros((8, 8), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored)
    frame = base64.b64decode(JPEG_LOSSLESS)
    encapsulated(path, frame, pydicom.uid.JPEGLosslessSV1)
    expected = (np.add.outer(np.arange(8) * 400, np.arange(8) * 30) - 1500).ravel().tolist()
    assert hounsfield(path) == expected


@pytest.mark.parametrize("read", [dicom.read_slice, dicom.read_picture])
def test_a_missing_decoder_stops_with_the_line_that_installs_it(tmp_path, read, monkeypatch):
    monkeypatch.setattr(pydicom.pixels.decoders.JPEGLosslessSV1Decoder, "_available", {})
    stored = np.zeros((8, 8), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, Modality="CT")
    frame = base64.b64decode(JPEG_LOSSLESS)
    encapsulated(path, frame, pydicom.uid.JPEGLosslessSV1)
    with pytest.raises(
        FedcliError, match=r"a\.dcm is compressed as JPEG Lossless, .* no decoder is installed"
    ) as error:
        read(path)
    assert "pip install" in error.value.hint
    assert str(tmp_path) not in error.value.sentence
