"""Images that a run was trained and tested on: their flow, and Table 1, classes and attributes of the images of each
site and part, with those of which a value is not known."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...data import image_counts, manifest
from ...figures.figure import NothingToDraw
from ...figures.kinds import flow
from ...io.files import read_text
from ..row import Row
from ..table import Cell, Column, Heads, Table

LEGEND = (
    "Images, and their share of the column in percent. Columns: training, validation and test images of each client, "
    "and all test images; unknown: images without a value."
)
FEW = "few"
HIDDEN = f" {FEW}: so few that the site does not say, or needed to hide such a count; sums and shares are without them."
FLOW = "From the manifests of the run's data; what was left out of a step stands beside it."
CLIENTS = 12  # more of them stand together in one column for each part
Values = Mapping[str, int | None]  # images by value


def of_row(row: Row) -> list[Table]:
    """Of the data of a system's first run, and its images after each step, where the data are there."""
    shown = list(tables(row.run_files[0])) if row.run_files else []
    with suppress(NothingToDraw):
        lines = [[step, int(images), about] for step, images, about, _ in flow.frame(row).itertuples(index=False)]
        shown.append(Table.of(f"Flow of images: {row.name}", ["step", "images", "about"], lines, FLOW))
    return shown


def tables(run: Path) -> Iterator[Table]:
    """Of the data that a run was trained on, where they are there; of images at sites as the sites described them."""
    partition, sites = manifest.parent(run, "corruption", "partition"), manifest.parent(run, "sites")
    if partition and manifest.parent(partition, "dataset"):
        known: Mapping[str, Any] = image_counts.of_manifest(partition)
    elif sites:
        known = _described(sites)
    else:
        return
    counts = {name: _columns(clients) for name, clients in known.items()}
    columns = list(dict.fromkeys(column for by_column in counts.values() for column in by_column))
    classes = counts[image_counts.CLASS]
    lines: list[list[Any]] = [["all", *(sum(filter(None, classes.get(column, {}).values())) for column in columns)]]
    for name, by_column in counts.items():
        if _is_client(by_column):
            continue
        for value in dict.fromkeys(value for known in by_column.values() for value in known):
            lines.append([f"{name}: {value}", *(_cell(by_column.get(column, {}), value) for column in columns)])
    heads: Heads = ["images", *(Column(part, over=who) for who, part in columns)]
    hidden = any(None in values.values() for by_column in counts.values() for values in by_column.values())
    yield Table.of("Table 1: images by site and part", heads, lines, LEGEND + HIDDEN * hidden)


def _described(sites: Path) -> dict[str, dict[str, dict[str, dict[str, int | None]]]]:
    """Class or attribute -> site -> part -> value -> images, None of a count that the site hides."""
    made: dict[str, dict[str, dict[str, dict[str, int | None]]]] = {}
    for site in manifest.read(sites).options["sites"]:
        for name, parts in json.loads(read_text(sites.parent / f"{site}.json"))["counts"].items():
            made.setdefault(name, {})[site] = parts
    return made


def _is_client(by_column: Mapping[tuple[str, str], Values]) -> bool:
    """Tell whether every client holds images of a single value, as sites do: a table of it would be of zeros."""
    own = [
        [v for v, n in values.items() if n != 0] for (who, _), values in by_column.items() if who != image_counts.ALL
    ]
    return len({value for values in own for value in values}) > 1 and all(len(values) == 1 for values in own)


def _columns(clients: Mapping[str, Mapping[str, Values]]) -> dict[tuple[str, str], dict[str, int | None]]:
    """(client, part) -> value -> images; of many clients together, without those that are hidden."""
    several = len(clients) > CLIENTS
    made: dict[tuple[str, str], dict[str, int | None]] = {}
    for client, parts in clients.items():
        who = "clients" if several and client != image_counts.ALL else client
        for part, by_value in parts.items():
            column = made.setdefault((who, part), {})
            for value, images in by_value.items():
                column[value] = (column.get(value) or 0) + (images or 0) if several else images
    return made


def _cell(by_value: Values, value: str) -> Cell:
    images, total = by_value.get(value, 0), sum(filter(None, by_value.values()))
    if images is None:
        return Cell(FEW)
    return Cell(f"{images:,} ({100 * images / total:.1f})" if total else "-", number=images)
