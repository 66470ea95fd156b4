"""Training images of every class and attribute by client.

Sources: FairFedMed (arXiv 2508.00873), figure 2, and Fed-MAS (arXiv 2307.14959), figures 2(b) and 3(a), show counts.
Up to SEVERAL values are drawn as bars, more of them as a map whose empty cells mean no images.
"""

from pathlib import Path

from pandas import DataFrame

from ...data import image_counts, manifest
from ..drawing import COLOURS, Axes, Picture
from ..figure import Figure, register
from ..shapes import amounts, bars, panels, picture, titled, wide

SEVERAL = len(COLOURS)  # values with a colour each
SIZE = 4.6, 3.2  # inches of a panel
IMAGES = "training images"


def frame(path: Path) -> DataFrame:
    """A line per attribute, client and value: its training images. The class is an attribute too.

    path: a partition or corruption, or a run of one.
    """
    source = partition_of(path)
    lines = []
    for name, clients in image_counts.of_manifest(source).items():
        training = {client: parts["train"] for client, parts in clients.items() if "train" in parts}
        values = list(dict.fromkeys(value for counts in training.values() for value in counts))
        lines += [
            (name, client, v, counts.get(v, 0))
            for client, counts in training.items()
            for v in values
        ]
    table = DataFrame(lines, columns=["attribute", "client", "value", "images"])
    body = manifest.read(source).body
    return titled(
        table,
        f"Images of each client: {body['dataset']}" + ", SYNTHETIC data" * bool(body.get("sample")),
    )


def partition_of(path: Path) -> Path:
    """The partition or corruption manifest that a path is, or that a run's folder or manifest is of."""
    from ...runs.initial import data_of  # imports torch

    given = path / "run.json" if (path / "run.json").is_file() else path
    source = manifest.find(given, "run", "corruption", "partition")
    manifest.verify(source)
    return data_of(source) if manifest.read(source).kind == "run" else source


def draw(table: DataFrame) -> Picture:
    return picture(table, panels(table, "attribute", _panel), size=SIZE)


def _panel(part: DataFrame, axes: Axes) -> None:
    shown = wide(part, "client", "value", "images")
    (bars if len(shown.columns) <= SEVERAL else amounts)(shown, axes, IMAGES)


register(
    Figure(
        "counts",
        "How many images of each class and group does each client have?",
        "path",
        frame,
        draw,
    )
)
