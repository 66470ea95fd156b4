"""Images that a run was trained and tested on: their flow, and Table 1, classes and attributes of the images of each
site and part, with those of which a value is not known."""

from collections.abc import Iterator
from pathlib import Path

from ..data import image_counts, manifest
from ..figures.kinds import flow
from ..figures.system import System
from .table import Cell, Column, Table, of_text

LEGEND = (
    "Images, and their share of the column in percent. Columns: training, validation and test images of each client, "
    "and all test images; unknown: images without a value."
)
FLOW = "From the manifests of the run's data; what was left out of a step stands beside it."
CLIENTS = 12  # more of them stand together in one column for each part


def tables(run: Path) -> Iterator[Table]:
    """Of the data that a run was trained on, where they are there."""
    partition = manifest.parent(run, "corruption", "partition")
    if not partition or not manifest.parent(partition, "dataset"):
        return
    counts = {name: _columns(clients) for name, clients in image_counts.of_manifest(partition).items()}
    heads = [Column("characteristic"), Column("value")]
    columns = list(dict.fromkeys(column for by_column in counts.values() for column in by_column))
    rows = []
    totals = {column: sum(counts[image_counts.CLASS].get(column, {}).values()) for column in columns}
    rows.append([Cell("images"), Cell(""), *(Cell(f"{totals[column]:,}") for column in columns)])
    for name, by_column in counts.items():
        values = list(dict.fromkeys(value for known in by_column.values() for value in known))
        rows += [
            [Cell(name), Cell(value), *(_cell(by_column.get(column, {}), value) for column in columns)]
            for value in values
        ]
    yield Table(
        "Table 1: images by site and part", [*heads, *(Column(part, over=who) for who, part in columns)], rows, LEGEND
    )


def _columns(clients: dict[str, dict[str, dict[str, int]]]) -> dict[tuple[str, str], dict[str, int]]:
    """(client, part) -> value -> images; of many clients together."""
    several = len(clients) > CLIENTS
    made: dict[tuple[str, str], dict[str, int]] = {}
    for client, parts in clients.items():
        who = "clients" if several and client != image_counts.ALL else client
        for part, by_value in parts.items():
            column = made.setdefault((who, part), {})
            for value, images in by_value.items():
                column[value] = column.get(value, 0) + images
    return made


def _cell(by_value: dict[str, int], value: str) -> Cell:
    images, total = by_value.get(value, 0), sum(by_value.values())
    return Cell(f"{images:,} ({100 * images / total:.1f})" if total else "-", number=images)


def flow_of(system: System) -> list[Table]:
    """The images after each step, where the data are there."""
    lines = [[step, f"{images:,}", about] for step, images, about, _ in flow.steps(system).itertuples(index=False)]
    return [of_text(f"Flow of images: {system.name}", ["step", "images", "about"], lines, FLOW)] if lines else []
