"""The leaves that ARCHITECTURE.md declares: parts of fedcli that can be deleted."""

import re
from functools import cache
from pathlib import Path

import fedcli

PACKAGE = Path(fedcli.__file__).parent
PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
ROW = re.compile(r"^\| ([^`|]+) \| (\d+) \| (`.*) \|$", re.M)


@cache
def sizes() -> dict[str, int]:
    """Leaf -> thousands of syntax nodes that the page says it has."""
    return {name: int(thousands) for name, thousands, _ in ROW.findall(PAGE.read_text("utf-8"))}


@cache
def files() -> dict[str, list[Path]]:
    """Leaf -> its Python files. Raises FileNotFoundError for one that does not exist."""
    leaves = {}
    for name, _, text in ROW.findall(PAGE.read_text("utf-8")):
        listed, _, excepted = text.partition("; not ")
        kept = re.findall(r"`(\w+)`", excepted)
        paths = []
        for pattern in re.findall(r"`([^`]+)`", listed):
            found = sorted(PACKAGE.glob(f"{pattern}**/*.py" if pattern[-1] == "/" else pattern))
            if not found:
                raise FileNotFoundError(pattern)
            paths += [path for path in found if path.stem not in kept or len(found) == 1]
        leaves[name] = paths
    return leaves
