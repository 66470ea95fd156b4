"""CSV text: what stands in a cell is text in a spreadsheet too, and drives no terminal."""

import csv
import io
from collections.abc import Iterable

from ..console import printable

FORMULA = "=", "+", "-", "@", "\t", "\r"  # beginnings of what a spreadsheet computes


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    """Lines of cells as CSV. A text that a spreadsheet would compute gets a ' before it, control
    characters their code.

    Numbers stay as they are, also where they are given as text.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in lines:
        writer.writerow(map(_cell, line))
    return out.getvalue()


def _cell(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    return printable(f"'{cell}" if cell.startswith(FORMULA) and not _is_number(cell) else cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
