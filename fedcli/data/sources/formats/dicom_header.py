"""Whom a slice shows: the first fields of a DICOM file, without its pixels.

All files of a folder are asked before the first is decoded. pydicom takes for that a third of the time of decoding, so
the few bytes are walked here, and pydicom is asked about files that are not plain: a sequence of unknown length, big
endian, deflated, letters beyond ASCII, several values, or anything else that is odd.
"""

import hashlib
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
SYNTAX, SEX, AGE, PATIENT, STUDY, ROWS = (
    0x00020010,
    0x00100040,
    0x00101010,
    0x00100020,
    0x0020000D,
    0x00280010,
)
WIDE = (
    b"OB",
    b"OD",
    b"OF",
    b"OL",
    b"OV",
    b"OW",
    b"SQ",
    b"SV",
    b"UC",
    b"UN",
    b"UR",
    b"UT",
    b"UV",
)  # four bytes of length
IMPLICIT, DEFLATED, BIG_ENDIAN = (
    b"1.2.840.10008.1.2",
    b"1.2.840.10008.1.2.1.99",
    b"1.2.840.10008.1.2.2",
)


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
        fields = ask_pydicom(path) if fields is None else fields
    except Exception as error:  # pydicom: a dozen unrelated types for damaged files
        raise unreadable(error, path) from error
    if ROWS not in fields:
        raise Unreadable("holds no image")
    return Header(
        fields.get(PATIENT) or fields.get(STUDY) or "",
        fields.get(SEX, ""),
        years(fields.get(AGE, "")),
    )


def patients(raw: Path, files: Sequence[str]) -> list[str]:
    """A digest of each file's PatientID, of its study where it has none: whom it shows, without the identifier.

    "" of a file that says neither or cannot be read.
    """
    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(lambda file: _patient(raw / file), files))


def _patient(path: Path) -> str:
    try:
        name = read_header(path).patient.strip()
    except Unreadable:  # decode meets it again, and says so
        return ""
    return hashlib.sha256(f"DICOM patient {name}".encode()).hexdigest()[:DIGITS] if name else ""


def walk(data: bytes) -> dict[int, str] | None:
    """The fields, by tag, that a file starts with; None for one that is not plain."""
    if data[128:132] != b"DICM":
        return None
    fields: dict[int, str] = {}
    at, explicit = 132, True
    while at + 12 <= len(data):
        group, element, kind, length = struct.unpack_from("<HH2sH", data, at)
        tag, start = group << 16 | element, at + 8
        if group > 2 and not explicit:
            (length,) = struct.unpack_from("<I", data, at + 4)
        elif kind in WIDE:
            (length,), start = struct.unpack_from("<I", data, start), at + 12
        elif not kind.isalpha():
            return None
        if tag > ROWS:
            return fields
        if start + length > len(data):  # also where the length is unknown, 2^32 - 1
            return None
        if tag in (SYNTAX, SEX, AGE, PATIENT, STUDY):
            value = data[start : start + length].rstrip(b"\0 ")
            if not value.isascii() or b"\\" in value:
                return None
            fields[tag] = value.decode()
        if tag == SYNTAX and value in (DEFLATED, BIG_ENDIAN):
            return None
        explicit = explicit and not (tag == SYNTAX and value == IMPLICIT)
        if tag == ROWS:
            return fields | {ROWS: "there"}
        at = start + length
    return None


def check_inflated(path: Path) -> None:
    """Refuse a deflated file that pydicom, which has no bound, would inflate to more than MOST bytes."""
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
    """The byte behind the file meta information, found field by field as readers do: its own length is optional."""
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
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd but harmless values; what matters raises
        slice_ = read_partial(file, stop_when=lambda tag, *_: tag > ROWS)
        fields = {
            tag: str(slice_[tag].value or "") for tag in (SEX, AGE, PATIENT, STUDY) if tag in slice_
        }
        return fields | ({ROWS: "there"} if ROWS in slice_ else {})


def years(age: str) -> float:
    """DICOM's age such as 045Y, 010M, 003W or 012D."""
    per_year = {"Y": 1, "M": 12, "W": 52.18, "D": 365.25}
    return (
        int(age[:-1]) / per_year[age[-1]]
        if age[:-1].isdecimal() and age[-1] in per_year
        else float("nan")
    )
