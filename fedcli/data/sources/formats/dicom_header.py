"""The patient of a slice: the first fields of a DICOM file, without its pixels.

All files of a folder are asked before any is decoded. pydicom takes for that a third of the time of
decoding, so the few bytes are walked here, and pydicom is asked about files that are not plain: a
sequence of unknown length, big endian, deflated, letters beyond ASCII, several values, or anything
else that is odd.
"""

import hashlib
import math
import struct
import warnings
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..source import Unreadable, unreadable

BYTES = 2**14  # of a file, in which its patient usually is
MOST = 2**29  # bytes of one frame, and of all that a deflated file holds
READERS = 8  # threads
DIGITS = 16  # of a digest; chance makes no two of a million equal
PREFIX = 132  # bytes before the first field: a preamble and DICM
FILE_META = 2  # group of the fields that say how the rest of the file is written

# tags
SYNTAX = 0x00020010
SEX = 0x00100040
AGE = 0x00101010
PATIENT = 0x00100020
STUDY = 0x0020000D
ROWS = 0x00280010
TEXTS = SEX, AGE, PATIENT, STUDY
KNOWN = SYNTAX, *TEXTS

HEAD = struct.Struct("<HH2sH")  # group, element, type and length of a field
ODD = (0, 0, 2**32)  # the head of a field that is not plain: it ends behind all data

# types whose length takes four bytes
WIDE = b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV"

# transfer syntaxes
IMPLICIT = b"1.2.840.10008.1.2"
DEFLATED = b"1.2.840.10008.1.2.1.99"
BIG_ENDIAN = b"1.2.840.10008.1.2.2"

PER_YEAR = {"Y": 1, "M": 12, "W": 52.18, "D": 365.25}  # units of an age


@dataclass(frozen=True)
class Header:
    """Facts of a slice about its patient; "" and NaN where it is silent."""

    patient: str
    sex: str
    age: float  # years


def read_header(path: Path) -> Header:
    """A slice's patient, or its study where it names none. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            fields = walk(file.read(BYTES))
        if fields is None:
            fields = ask_pydicom(path)
    except Exception as error:  # pydicom: a dozen unrelated types for damaged files
        raise unreadable(error, path) from error
    if ROWS not in fields:
        raise Unreadable("holds no image")
    patient = fields.get(PATIENT) or fields.get(STUDY) or ""
    sex = fields.get(SEX, "")
    age = years(fields.get(AGE, ""))
    return Header(patient, sex, age)


def patients(raw: Path, files: Sequence[str]) -> list[str]:
    """A digest of each file's PatientID, of its study where it has none.

    It tells who is who, without the identifier; "" of a file that says neither or cannot be read.
    """
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda file: _patient(raw / file), files))


def _patient(path: Path) -> str:
    try:
        name = read_header(path).patient.strip()
    except Unreadable:  # decode meets it again, and says so
        return ""
    if not name:
        return ""
    digest = hashlib.sha256(f"DICOM patient {name}".encode())
    return digest.hexdigest()[:DIGITS]


def walk(data: bytes) -> dict[int, str] | None:
    """The fields, by tag, that a file starts with; None for one that is not plain."""
    if data[128:PREFIX] != b"DICM":
        return None
    fields: dict[int, str] = {}
    position = PREFIX
    explicit = True  # whether fields behind the file meta information have types
    while position + 12 <= len(data):
        tag, start, length = _head(data, position, explicit)
        if tag > ROWS:
            return fields
        end = start + length
        if end > len(data):  # also where the length is unknown, 2^32 - 1
            return None
        if tag == ROWS:
            fields[ROWS] = "there"
            return fields
        if tag in KNOWN:
            value = data[start:end].rstrip(b"\0 ")
            if not value.isascii() or b"\\" in value or value in (DEFLATED, BIG_ENDIAN):
                return None
            fields[tag] = value.decode()
            if tag == SYNTAX and value == IMPLICIT:
                explicit = False
        position = end
    return None


def _head(data: bytes, position: int, explicit: bool) -> tuple[int, int, int]:
    """Tag, start and length of the field that begins here; ODD where its type is none."""
    group, element, kind, length = HEAD.unpack_from(data, position)
    start = position + 8
    if group > FILE_META and not explicit:
        length = int.from_bytes(data[position + 4 : start], "little")
    elif kind in WIDE:
        length = int.from_bytes(data[start : start + 4], "little")
        start += 4
    elif not kind.isalpha():
        return ODD
    return group << 16 | element, start, length


def check_inflated(path: Path) -> None:
    """Refuse a deflated file that pydicom, which has no bound, would inflate beyond MOST bytes."""
    from pydicom.filereader import read_file_meta_info

    file_meta = read_file_meta_info(path)
    if file_meta.get("TransferSyntaxUID") != DEFLATED.decode():
        return
    count = 0
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    with path.open("rb") as file:
        file.seek(_end_of_file_meta(file))
        while piece := inflater.unconsumed_tail or file.read(2**16):
            count += len(inflater.decompress(piece, 2**20))
            if count > MOST:
                raise Unreadable(f"is deflated, and holds more than {MOST:,} bytes")


def _end_of_file_meta(file: BinaryIO) -> int:
    """The byte behind the file meta information, field by field as readers do.

    Its own length is optional.
    """
    end = PREFIX
    while True:
        file.seek(end)
        head = file.read(12)
        if len(head) < 12 or int.from_bytes(head[:2], "little") != FILE_META:
            return end
        kind = head[4:6]
        if kind in WIDE:
            end += 12 + int.from_bytes(head[8:12], "little")
        elif kind.isalpha():
            end += 8 + int.from_bytes(head[6:8], "little")
        else:  # against the standard, without types
            end += 8 + int.from_bytes(head[4:8], "little")


def ask_pydicom(path: Path) -> dict[int, str]:
    """Reads the same fields by pydicom."""
    from pydicom.filereader import read_partial

    check_inflated(path)
    fields = {}
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd but harmless values; what matters raises
        slice_ = read_partial(file, stop_when=lambda tag, *_: tag > ROWS)
        for tag in TEXTS:
            if tag in slice_:
                fields[tag] = str(slice_[tag].value or "")
        if ROWS in slice_:
            fields[ROWS] = "there"
    return fields


def years(age: str) -> float:
    """DICOM's age such as 045Y, 010M, 003W or 012D; NaN of any other text."""
    count = age[:-1]
    unit = age[-1:]
    if count.isdecimal() and unit in PER_YEAR:
        return int(count) / PER_YEAR[unit]
    return math.nan
