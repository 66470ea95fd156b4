"""Headers of DICOM files: our walk over the first bytes finds what pydicom finds."""

import os
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from raw_folders import write_slice
from slice_values import rewritten

from fedcli.data.sources.formats.dicom_header import ask_pydicom, read_header, walk
from fedcli.data.sources.source import Unreadable


@pytest.mark.parametrize(
    ("age", "years"), [("045Y", 45), ("006M", 0.5), ("365D", 365 / 365.25), ("", None)]
)
def test_the_header_tells_sex_and_age(tmp_path, age, years):
    stored = np.zeros((4, 4), np.int16)
    path = write_slice(
        tmp_path / "a.dcm",
        stored,
        PatientID="P1",
        PatientSex="F",
        PatientAge=age,
    )
    header = read_header(path)
    assert (header.patient, header.sex) == ("P1", "F")
    assert np.isnan(header.age) if years is None else header.age == years


def test_the_study_stands_in_for_a_missing_patient(tmp_path):
    stored = np.zeros((4, 4), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, PatientID="", StudyInstanceUID="1.9")
    assert read_header(path).patient == "1.9"


@pytest.mark.parametrize(
    "syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian]
)
@pytest.mark.parametrize(
    ("fields", "plain"),
    [
        ({"PatientID": "P1 ", "PatientSex": "F", "PatientAge": "045Y"}, True),
        ({"PatientID": None, "StudyInstanceUID": "1.2.3"}, True),
        ({"PatientID": "Müller", "SpecificCharacterSet": "ISO_IR 100"}, False),
        (
            {
                "PatientID": "P1",
                "PatientComments": "x" * 10_000,
                "AdditionalPatientHistory": "x" * 10_000,
            },
            False,
        ),
        ({"PatientID": "P1", "ReferencedImageSequence": Sequence([Dataset()])}, True),
    ],
)
def test_walking_the_first_bytes_finds_what_pydicom_finds(tmp_path, fields, plain, syntax):
    stored = np.zeros((4, 4), np.int16)
    path = write_slice(tmp_path / "a.dcm", stored, **fields)
    rewritten(path, syntax)
    data = path.read_bytes()[: 2**14]
    result = walk(data)
    expected = ask_pydicom(path)
    assert (result is not None) == (plain and syntax != ExplicitVRBigEndian)
    if result is not None:
        lines = {tag: value for tag, value in result.items() if value and tag >> 16 != 2}
        assert lines == {tag: value for tag, value in expected.items() if value}
    expected = str(fields["PatientID"] or "1.2.3").strip()
    assert read_header(path).patient == expected


def test_a_damaged_header_is_left_to_pydicom(tmp_path):
    stored = np.zeros((4, 4), np.int16)
    path = tmp_path / "a.dcm"
    whole = write_slice(path, stored, PatientID="P1").read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(128, 500, 300):
        changed = bytearray(whole)
        changed[position] = rng.integers(256)
        (tmp_path / "b.dcm").write_bytes(changed)
        try:
            read_header(tmp_path / "b.dcm")
        except Unreadable as error:
            sentence = str(error)
        else:
            sentence = ""
        assert str(tmp_path) not in sentence


@pytest.mark.skipif(
    not os.environ.get("FEDCLI_REAL_DATA"), reason="FEDCLI_REAL_DATA names no folder"
)
def test_walking_real_scanners_files_finds_what_pydicom_finds():
    folder = Path(os.environ["FEDCLI_REAL_DATA"], "ct_head")
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("LICENSE", "DIRFILE")]
    plain = 0
    for file in files:
        data = file.read_bytes()[: 2**14]
        tags = walk(data)
        plain += tags is not None
        expected = {tag: value for tag, value in ask_pydicom(file).items() if value}
        assert (
            tags is None or {tag: v for tag, v in tags.items() if v and tag >> 16 != 2} == expected
        )
    assert len(files) == 37
    assert plain > 20
