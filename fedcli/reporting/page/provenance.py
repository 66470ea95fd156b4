"""Origin of the numbers: the images that a run was trained and tested on, as their flow and as Table 1 (classes and
attributes of the images of each site and part); each method's rule, settings and traffic; the stages with their hashes.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...data import image_counts, manifest
from ...figures.figure import NothingToDraw
from ...figures.kinds import flow
from ...io.files import read_text
from ...options import recorded
from ...runs.train_options import TrainOptions
from ...scores.table import HIDDEN
from .. import timing
from ..rows import Row
from ..table import Cell, Column, Heads, Section, Table
from ..tables import BYTES, DOWN, UP, megabytes

TABLE_ONE = (
    "Images, and their share of the column in percent. Columns: training, validation and test images of each client, "
    "and all test images; unknown: images without a value."
)
HIDING = f" {HIDDEN}: few images, or a count that would reveal few images, by the policy of a site."
FLOW = "From the manifests of the run's data; what was left out of a step stands beside it."
PARTS = "train", "val", "test"
CLIENTS = 12  # more of them stand together in one column for each part
Values = Mapping[str, int | None]  # images by value
DIGITS = 12  # of a sha256; the manifests hold all of them
READINGS = {
    "paper": "the paper's formula",
    "released": "what its authors' code computes",
    "original": "a baseline's own first paper",
}
STAGES = "dataset", "partition", "corruption"
BELONGS = {  # options that have no effect unless one of others is on
    "dp_clip": ("dp_noise", "dp_sgd"),
    "dp_delta": ("dp_noise", "dp_sgd"),
    "nesterov": ("momentum",),
    "adapter_layers": ("adapters",),
    "local_adapters": ("adapters",),
}
CLOCKS = {  # field of timing.Clocks -> head of the column, how it is written, in which unit of the field's
    "minutes": ("minutes", "{:.2f}", 1),
    "images_per_second": ("images per second", "{:,.0f}", 1),
    "evaluation": ("scoring (%)", "{:.1f}", 100),
    "peak_bytes": ("peak memory (GB)", "{:.2f}", 1e-9),
    "compute": ("of matrix speed (%)", "{:.0f}", 100),
    "traffic": ("of memory speed (%)", "{:.0f}", 100),
    "watt_hours": ("energy (Wh)", "{:.2f}", 1),
    "gpu_watt_hours": ("energy of the GPU (Wh)", "{:.2f}", 1),
}
ENERGIES = {  # shown where some run knows it
    "watt_hours": " Energy: of the machine's processors and their memory, with all that ran there.",
    "gpu_watt_hours": " Energy of the GPU: of its board, with all that ran there.",
}


def images(row: Row) -> list[Table]:
    """Of the data of a system's first run, and its images after each step, where the data are there."""
    shown = list(table_one(row.run_files[0])) if row.run_files else []
    with suppress(NothingToDraw):
        lines = [
            [step, int(images), about]
            for step, images, about, _ in flow.frame(row).itertuples(index=False)
        ]
        shown.append(
            Table.of(f"Flow of images: {row.name}", ["step", "images", "about"], lines, FLOW)
        )
    return shown


def table_one(run: Path) -> Iterator[Table]:
    """Of the data that a run was trained on, where they are there; of images at sites as the sites described them."""
    partition, sites = (
        manifest.parent(run, "corruption", "partition"),
        manifest.parent(run, "sites"),
    )
    # class or attribute -> site -> part -> value -> images, None of what a site hides
    known: dict[str, Any] = {}
    images: dict[str, dict[str, int]] = {}  # site -> part -> images, of images at sites
    if partition and manifest.parent(partition, "dataset"):
        known |= image_counts.of_manifest(partition)
    elif sites:
        for site in manifest.read(sites).options["sites"]:
            described = json.loads(read_text(sites.parent / f"{site}.json"))
            images[site] = described["images"]
            for name, counted in described["counts"].items():
                parts = [part for part in PARTS if part in counted]
                known.setdefault(name, {})[site] = {part: counted[part] for part in parts}
    else:
        return
    counts = {name: _columns(clients) for name, clients in known.items()}
    totals = _totals(images)
    columns = list(dict.fromkeys(column for by_column in counts.values() for column in by_column))
    classes = counts[image_counts.CLASS]
    lines: list[list[Any]] = [
        ["all", *(_total(totals, column, classes.get(column, {})) for column in columns)]
    ]
    for name, by_column in counts.items():
        if _is_client(by_column):
            continue
        for value in dict.fromkeys(value for known in by_column.values() for value in known):
            lines.append(
                [
                    f"{name}: {value}",
                    *(
                        _cell(by_column.get(column, {}), value, totals.get(column))
                        for column in columns
                    ),
                ]
            )
    heads: Heads = ["images", *(Column(part, over=who) for who, part in columns)]
    hidden = any(
        None in values.values() for by_column in counts.values() for values in by_column.values()
    )
    yield Table.of("Table 1: images by site and part", heads, lines, TABLE_ONE + HIDING * hidden)


def _is_client(by_column: Mapping[tuple[str, str], Values]) -> bool:
    """Tell whether every client holds images of a single value, as sites do: a table of it would be of zeros."""
    own = [
        [v for v, n in values.items() if n != 0]
        for (who, _), values in by_column.items()
        if who != image_counts.ALL
    ]
    return len({value for values in own for value in values}) > 1 and all(
        len(values) == 1 for values in own
    )


def _columns(
    clients: Mapping[str, Mapping[str, Values]],
) -> dict[tuple[str, str], dict[str, int | None]]:
    """(client, part) -> value -> images; of many clients together, None where one of them hides its images."""
    made: dict[tuple[str, str], dict[str, int | None]] = {}
    for client, parts in clients.items():
        for part, by_value in parts.items():
            column = made.setdefault((_who(client, len(clients)), part), {})
            for value, images in by_value.items():
                before = column.get(value, 0)
                column[value] = None if before is None or images is None else before + images
    return made


def _totals(images: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    """(client, part) -> images; of many clients together."""
    totals: dict[tuple[str, str], int] = {}
    for client, parts in images.items():
        for part, count in parts.items():
            column = _who(client, len(images)), part
            totals[column] = totals.get(column, 0) + count
    return totals


def _who(client: str, clients: int) -> str:
    """The head of a client's columns."""
    return "clients" if clients > CLIENTS and client != image_counts.ALL else client


def _total(totals: Mapping[tuple[str, str], int], column: tuple[str, str], classes: Values) -> int:
    """The images of a column; without a description their classes together."""
    return totals[column] if column in totals else sum(filter(None, classes.values()))


def _cell(by_value: Values, value: str, total: int | None) -> Cell:
    """Images of a value, with their share. total: the images of the column; None: those of its values."""
    images = by_value.get(value, 0)
    if images is None:
        return Cell(HIDDEN)
    if total is None:
        total = sum(filter(None, by_value.values()))
    return Cell(f"{images:,} ({100 * images / total:.1f})" if total else "-", number=images)


def settings(compared: Sequence[Row], clocked: bool) -> Section:
    """The methods that ran, and under a title of their own the options that all systems share.

    clocked: whether a table says how long training took.
    """
    lines: list[list[Any]] = [
        [
            row.name,
            f"{rule}: {READINGS[rule]}" if (rule := row.scores.rule) in READINGS else rule,
            ", ".join(
                f"{key}={value}" for key, value in row.scores.settings.items() if key != "rule"
            )
            or "-",
            ", ".join(str(seed) for seed in row.seeds),
            *(megabytes(count).text for count in (row.scores.bytes.down, row.scores.bytes.up)),
        ]
        for row in compared
    ]
    tables = [
        Table.of("Methods", ["method", "rule", "its options", "seeds", DOWN, UP], lines, BYTES)
    ]
    said = {option.name: f"{option.title} (--{option.typed})" for option in recorded(TrainOptions)}
    options = {said["rounds"]: [str(row.scores.rounds) for row in compared]}
    words = {True: "yes", False: "no", None: "none"}
    names = dict.fromkeys(name for row in compared for name in row.scores.options)
    for name in (name for name in names if name != "seed" and _had_effect(name, compared)):
        values = [row.scores.options.get(name) for row in compared]
        options[said.get(name, name.replace("_", " "))] = [
            words[value] if isinstance(value, bool | None) else str(value) for value in values
        ]
    alike = {name: values[0] for name, values in options.items() if len(set(values)) == 1}
    title = "Options of training"
    if lines := [[name, *values] for name, values in options.items() if name not in alike]:
        tables.append(
            Table.of(f"{title} that differ", ["option", *(row.name for row in compared)], lines)
        )
        title += " that all share"
    tables += _times(compared) if clocked else []
    return Section(
        "settings", "Methods and settings", tables, pairs=list(alike.items()), pairs_title=title
    )


def _had_effect(name: str, compared: Sequence[Row]) -> bool:
    """Tell whether an option could change some run: one that belongs to others does where one of these is on."""
    owners = BELONGS.get(name)
    if owners is None:
        return True
    return any(row.scores.options.get(owner) for row in compared for owner in owners)


def _times(compared: Sequence[Row]) -> list[Table]:
    clocks = {row.name: timing.of_runs(row.paths) for row in compared}
    measured = [clock for clock in clocks.values() if clock]
    unknown = [name for name in ENERGIES if all(getattr(clock, name) is None for clock in measured)]
    shown = {name: column for name, column in CLOCKS.items() if name not in unknown}
    lines = [
        [
            name,
            *(
                "-" if (value := getattr(clock, field, None)) is None else form.format(unit * value)
                for field, (_, form, unit) in shown.items()
            ),
        ]
        for name, clock in clocks.items()
    ]
    several = ", mean over seeds" if any(row.runs > 1 for row in compared) else ""
    legend = (
        f"Measured on the machine that trained{several}. Images per second: during training. Scoring: share of the "
        "time spent on test curves and validation. Peak memory: of the process, or on the GPU (10^9 bytes). Of "
        "matrix speed: the rate of products and convolutions while clients trained, as a share of that of one large "
        "matrix product. Of memory speed: the rate at which operations read and wrote bytes, as a share of that of a "
        "large copy. Both are measured after runs of 5 seconds or more. "
        f"Times vary from run to run.{''.join(words for name, words in ENERGIES.items() if name in shown)}"
    )
    heads = ["method", *(head for head, _, _ in shown.values())]
    return [Table.of("Time and memory", heads, lines, legend)] if measured else []


def lineage(compared: Sequence[Row]) -> Section:
    """Every stage behind the numbers, once: what it is, the command that made it, its hash."""
    stages = dict.fromkeys(
        stage for row in compared for path in row.paths for stage in _above(path)
    )
    lines = []
    for path in sorted(stages, key=lambda path: manifest.KINDS.index(manifest.read(path).kind)):
        stage, folder = manifest.read(path), path.parent
        inside = stage.kind == "scores" and folder.parent.name == "scores"
        name = f"{folder.parent.parent.name}/scores/{folder.name}" if inside else folder.name
        lines.append(
            [
                stage.kind,
                name,
                shlex.join(["fedcli", *stage.made_by]),
                manifest.sha256(path)[:DIGITS],
            ]
        )
    legend = (
        "Every stage's manifest lists the hashes of its files and of the stages before it; shown are the first "
        f"{DIGITS} digits of each manifest's own sha256. Commands are shown as recorded, without paths."
    )
    table = Table.of("", ["stage", "folder", "command", "sha256"], lines, legend)
    return Section("lineage", "From data to scores", [table])


def _above(path: Path) -> list[Path]:
    """A scores.json and all that it was made from, the first first; a run may have begun with another."""
    paths, run = [path], manifest.parent(path, "run")
    while run:
        paths, run = [run, *paths], manifest.parent(run, "run")
    trained = manifest.parent(path, "run") or path
    tested = manifest.parent(
        path, *STAGES
    )  # data of its own, where scores are on other images than the run's
    stages = [manifest.parent(trained, kind) for kind in STAGES]
    stages += [manifest.parent(tested, kind) for kind in STAGES] + [tested] if tested else []
    return [*(stage for stage in stages if stage), *paths]
