"""Numbers that papers print, as the files beside the recipes have them."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "recipes" / "published"


def rows(name: str) -> dict[str, dict[str, dict[str, float]]]:
    """Row -> column -> mean and, where there is one, std."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def means(name: str) -> dict[str, dict[str, float]]:
    """Row -> column -> mean."""
    means = {}
    for row, cells in rows(name).items():
        means[row] = {column: cell["mean"] for column, cell in cells.items()}
    return means
