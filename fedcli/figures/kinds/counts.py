"""Training images of every class and attribute by client.

Sources: FairFedMed (arXiv 2508.00873), figure 2, and Fed-MAS (arXiv 2307.14959), figures 2(b) and
3(a), show counts. Up to SEVERAL values are drawn as bars, more of them as a map whose empty cells
mean no images.
"""

from pathlib import Path
from typing import Annotated

from pandas import DataFrame

from ...data import image_counts, manifest
from ..drawing import COLOURS, OF_TICK, OF_TURNED, Axes, Picture, longest
from ..figure import Figure, register
from ..shapes import FITTING, amounts, bars, panels, picture, titled, wide

SEVERAL = len(COLOURS)  # values with a colour each
SIZE = 4.6, 3.2  # inches of a panel
BARS = 2.6  # inches of bars with the marks of their legend
SCALE = 1.3  # inches of a map's scale of colours
TURNED = 0.13  # inches of a name that is turned below a map
MAP = 2.2  # inches of a map, at least
IMAGES = "training images"
PERCENT = "training images (% of the client's)"


def frame(
    path: Path,
    *,
    percent: Annotated[bool, "shares of each client's images instead of their number"] = False,
) -> DataFrame:
    """A line per attribute, client and value: its training images, with percent in percent of the
    client's. The class is an attribute too.

    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    lines = []
    for name, clients in image_counts.of_manifest(source).items():
        training = {client: parts["train"] for client, parts in clients.items() if "train" in parts}
        values: dict[str, None] = {}
        for counts in training.values():
            values |= dict.fromkeys(counts)
        for client, counts in training.items():
            lines += [(name, client, value, counts.get(value, 0)) for value in values]
    table = DataFrame(lines, columns=["attribute", "client", "value", "images"])
    if percent:
        roster = manifest.read(source).body["roster"]
        images_by_client = {client["client"]: client["train"] for client in roster}
        totals = table["client"].map(images_by_client)
        table["percent"] = 100 * table["images"] / totals
    return titled(table, f"Images of each client: {dataset_of(source)}")


def partition_of(path: Path, *further: str) -> Path:
    """The partition or corruption manifest at a path, or of the run at that path.

    further: kinds of manifests that will do too.
    """
    from ...runs.initial import data_of  # imports torch

    if (path / "run.json").is_file():
        path = path / "run.json"
    kinds = "run", "corruption", "partition", *further
    source = manifest.find(path, *kinds)
    manifest.verify(source, *kinds)
    if manifest.read(source).kind == "run":
        return data_of(source)
    return source


def dataset_of(source: Path) -> str:
    """The dataset of a manifest by name, and whether it is a synthetic sample."""
    body = manifest.read(source).body
    name: str = body.get("dataset") or body["name"]
    if body.get("sample"):
        return f"{name}, SYNTHETIC data"
    return name


def draw(table: DataFrame) -> Picture:
    present = table[table["images"] > 0]
    is_name = present["client"] == present["value"]
    repeats = is_name.groupby(present["attribute"]).all()  # such as the sites, which the axis names
    shown = table[~table["attribute"].isin(repeats.index[repeats])]
    return picture(table, panels(shown, "attribute", _panel), size=_size(shown))


def _size(table: DataFrame) -> tuple[float, float]:
    """Inches of every panel: SIZE, or more where names need it."""
    width, height = SIZE
    beside = OF_TICK * longest(table["client"].unique())
    for _, part in table.groupby("attribute"):
        values = part["value"].unique()
        letters = OF_TURNED * longest(values)
        if len(values) <= SEVERAL:
            width = max(width, beside + BARS + letters)
        else:
            names = TURNED * min(len(values), FITTING)
            width = max(width, beside + SCALE + max(MAP, names))
            height = max(height, MAP + letters)
    return width, height


def _panel(part: DataFrame, axes: Axes) -> None:
    number = "images"
    words = IMAGES
    if "percent" in part:
        number = "percent"
        words = PERCENT
    cells = wide(part, "client", "value", number)
    if len(cells.columns) <= SEVERAL:
        bars(cells, axes, words)
    else:
        amounts(cells, axes, words)


QUESTION = "How many images of each class and group does each client have?"
register(Figure("counts", QUESTION, "data", frame, draw))
