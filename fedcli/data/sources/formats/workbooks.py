"""Excel workbooks as tables of texts, where openpyxl is installed: pip install 'fedcli[excel]'.

A workbook is a zip file of XML, which a small file can make huge: its unpacked size and its cells
are counted before they are kept.
"""

import datetime
import zipfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from .... import console
from ....errors import FedcliError
from ....io.files import LARGEST_TEXT, regular

SUFFIXES = ".xlsx", ".xlsm"
OTHER_SHEETS = ".xls", ".xlsb", ".ods", ".numbers"
LARGEST = LARGEST_TEXT // 2  # bytes of all parts, unpacked
MOST_CELLS = 20_000_000
LOCK = "~$"  # begins the name of the file that Excel keeps while a workbook is open
INSTALL = "save it as CSV, or pip install 'fedcli[excel]'"
AS_CSV = "save it as CSV in UTF-8"


def is_workbook(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def refuse_others(path: Path) -> None:
    """Raises FedcliError for a spreadsheet that is neither CSV nor an Excel workbook of today."""
    if path.suffix.lower() in OTHER_SHEETS:
        raise FedcliError(f"{path} is a spreadsheet of the kind {path.suffix}", AS_CSV)


def read(path: Path) -> list[list[str]]:
    """The rows of the first sheet as texts.

    They are without empty rows, and without empty columns at the end. Raises FedcliError where
    openpyxl is not installed, and for a file that is no workbook or too large.
    """
    check_size(path)
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise FedcliError(f"{path} is an Excel workbook", INSTALL) from None
    try:
        with path.open("rb") as file:
            workbook = load_workbook(file, read_only=True, data_only=True)
            names = workbook.sheetnames
            sheet = workbook[names[0]]
            sheet.reset_dimensions()  # a file may claim a million empty columns
            with closing(sheet.iter_rows(values_only=True)) as lines:
                rows = _texts(path, lines)
    except FedcliError:
        raise
    except Exception as error:  # broken workbooks raise KeyError, ValueError and more
        raise FedcliError(f"{path} is not a readable Excel workbook: {error}", AS_CSV) from None
    if len(names) > 1:
        console.say(f"{path.name}: the sheet {names[0]!r} is read, the first of {len(names)}")
    return rows


def check_size(path: Path) -> None:
    """Raises FedcliError for a zip file that is too large when it is unpacked.

    Of any other file its reader says so.
    """
    if not zipfile.is_zipfile(regular(path)):
        return
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > LARGEST:
        unpacked_mib = unpacked >> 20
        most_mib = LARGEST >> 20
        size = f"{unpacked_mib} MiB unpacked, more than {most_mib}"
        raise FedcliError(f"{path} has {size}", AS_CSV)


def _texts(path: Path, rows: Iterable[tuple[Any, ...]]) -> list[list[str]]:
    """The cells of each row that is not empty, all rows as wide as the widest.

    Raises FedcliError for too many.
    """
    lines = list[list[str]]()
    cells = 0
    for row in rows:
        cells += len(row) + 1
        if cells > MOST_CELLS:
            raise FedcliError(f"{path} has more than {MOST_CELLS:,} cells", AS_CSV)
        line = [_text(value) for value in row]
        while line and not line[-1]:
            line.pop()
        if line:
            lines.append(line)
    width = max(map(len, lines), default=0)
    for line in lines:
        line += [""] * (width - len(line))
    return lines


def _text(value: Any) -> str:
    """A cell as Excel's own CSV has it: whole numbers without a point, dates as 2024-03-09."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return str(value).strip()
