"""Tables of numbers as text, so that a test shows them as they are read on paper."""

import pytest

CONSTANTS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def number(text):
    """An int where the text has neither point nor exponent, else a float."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    try:
        return int(text)
    except ValueError:
        return float(text)


def rows(text):
    """Lists of numbers: `rows("1 2.5; 3 nan")` is [[1, 2.5], [3, nan]]."""
    lines = []
    for line in text.split(";"):
        lines.append([number(word) for word in line.split()])
    lengths = {len(line) for line in lines}
    if len(lengths) != 1 or 0 in lengths:
        pytest.fail(f"rows of unlike lengths: {text}")
    return lines
