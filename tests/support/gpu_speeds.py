"""What was measured on one H100, in benchmarks/h100.csv."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TABLE = (ROOT / "benchmarks/h100.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(_TABLE.splitlines()))


def images_per_second(part, what):
    """The speeds of one row of the table, by precision."""
    return {
        row["precision"]: int(row["images_per_second"])
        for row in ROWS
        if (row["part"], row["what"]) == (part, what)
    }
