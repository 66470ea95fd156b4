"""Origin of the numbers: the images that a run was trained and tested on, as their flow and as
Table 1 (classes and attributes of the images of each site and part); each method's rule, settings
and traffic; the stages with their hashes.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ...data import image_counts, manifest
from ...figures.figure import NothingToDraw
from ...figures.kinds import flow
from ...io.files import read_text
from ...options import recorded
from ...runs.train_options import TrainOptions, used
from ...scores.existing import with_operating_points
from ...scores.table import HIDDEN
from .. import timing
from ..rows import Rows, SystemRow
from ..table import Cell, Column, Heads, ReportTable, Section
from ..tables import BYTES, DOWN, UP, megabytes

TABLE_ONE = (
    "Images, and their share of the column in percent. Columns: training, validation and test "
    "images of each client, and all test images; unknown: images without a value."
)
HIDING = f" {HIDDEN}: few images, or a count that would reveal few images, by the policy of a site."
FLOW = "From the manifests of the run's data; what a step left out is shown next to it."
PARTS = "train", "val", "test"
CLIENTS = 12  # more of them stand together in one column for each part
Values = dict[str, int | None]  # images by value, None of what a site hides
Clients = Mapping[str, Mapping[str, Values]]  # by client and part
Columns = dict[tuple[str, str], Values]  # by the head of a client's columns, and part
TOTAL = ""  # in place of a class or attribute: all images of a part
DIGITS = 12  # of a sha256; the manifests hold all of them
READINGS = {
    "paper": "the paper's formula",
    "released": "what its authors' code computes",
    "original": "a baseline's own first paper",
}
STAGES = "dataset", "partition", "corruption"
ELSEWHERE = "method", "rule", "settings", "seed"  # options that the table of methods has
# field of timing.Clocks -> head of the column, how it is written, in which unit of the field's
CLOCKS = {
    "minutes": ("minutes", "{:.2f}", 1),
    "images_per_second": ("images per second", "{:,.0f}", 1),
    "evaluation": ("scoring (%)", "{:.1f}", 100),
    "peak_bytes": ("peak memory (GB)", "{:.2f}", 1e-9),
    "compute": ("of matrix speed (%)", "{:.0f}", 100),
    "traffic": ("of memory speed (%)", "{:.0f}", 100),
    "watt_hours": ("energy (Wh)", "{:.2f}", 1),
    "gpu_watt_hours": ("energy of the GPU (Wh)", "{:.2f}", 1),
}
CLOCKS_LEGEND = (
    "Images per second: during training. Scoring: share of the time spent on test curves and "
    "validation. Peak memory: of the process, or on the GPU (10^9 bytes). Of matrix speed: the "
    "rate of products and convolutions while clients trained, as a share of that of one large "
    "matrix product. Of memory speed: the rate at which operations read and wrote bytes, as a "
    "share of that of a large copy. Both are measured after runs of 5 seconds or more. Times vary "
    "from run to run."
)
LINEAGE = (
    "Every stage's manifest lists the hashes of its files and of the stages before it; shown are "
    f"the first {DIGITS} digits of each manifest's own sha256. Commands are shown as recorded, "
    "without paths."
)
ENERGIES = {  # shown where some run knows it
    "watt_hours": " Energy: of the machine's processors and their memory, with all that ran there.",
    "gpu_watt_hours": " Energy of the GPU: of its board, with all that ran there.",
}


def images(row: SystemRow) -> list[ReportTable]:
    """Table 1 of a system's first run, and the flow of its images, where the data are there."""
    tables = table_one(row.run_files[0]) if row.run_files else []
    if row.which_data:
        tables = [replace(table, title=f"{table.title}, {row.which_data}") for table in tables]
    with suppress(NothingToDraw):
        lines = []
        for step, count, comment, _ in flow.frame(row).itertuples(index=False):
            lines.append([step, int(count), comment])
        heads = ["step", "images", "about"]
        tables.append(ReportTable.of(f"Flow of images: {row.run_name}", heads, lines, FLOW))
    return tables


def table_one(run: Path) -> list[ReportTable]:
    """The images that a run was trained on by site and part; of images at sites, as the sites
    described them.
    """
    counts = {name: _columns(clients) for name, clients in _images_by_client(run).items()}
    if not counts:
        return []
    totals = {column: images[TOTAL] or 0 for column, images in counts.pop(TOTAL).items()}
    columns = list(dict.fromkeys(chain.from_iterable(counts.values())))
    lines: list[list[Any]] = [["all", *(totals[column] for column in columns)]]
    for name, by_column in counts.items():
        if _is_client(by_column):
            continue
        for value in dict.fromkeys(chain.from_iterable(by_column.values())):
            cells = [_cell(by_column.get(column, {}), value, totals[column]) for column in columns]
            lines.append([f"{name}: {value}", *cells])
    heads: Heads = ["images", *(Column(part, over=client) for client, part in columns)]
    legend = TABLE_ONE
    every_count = chain.from_iterable(by_column.values() for by_column in counts.values())
    if any(None in images.values() for images in every_count):
        legend += HIDING
    return [ReportTable.of("Table 1: images by site and part", heads, lines, legend)]


def _images_by_client(run: Path) -> Mapping[str, Any]:
    """The TOTAL and the images of each class or attribute by client; {} where no data are there."""
    partition = manifest.parent(run, "corruption", "partition")
    if partition and manifest.parent(partition, "dataset"):
        totals = {}
        for client, parts in image_counts.totals(partition).items():
            totals[client] = {part: {TOTAL: count} for part, count in parts.items()}
        return {TOTAL: totals, **image_counts.of_manifest(partition)}
    sites = manifest.parent(run, "sites")
    if partition or not sites:
        return {}
    clients: dict[str, Any] = {TOTAL: {}}
    for site in manifest.read(sites).options["sites"]:
        described = json.loads(read_text(sites.parent / f"{site}.json"))
        images = described["images"]
        clients[TOTAL][site] = {part: {TOTAL: count} for part, count in images.items()}
        for name, counts in described["counts"].items():
            parts = {part: counts[part] for part in PARTS if part in counts}
            clients.setdefault(name, {})[site] = parts
    return clients


def _is_client(by_column: Columns) -> bool:
    """Tell whether every client holds images of a single value, as sites do: a table of it would be
    of zeros.
    """
    values = set()
    for (client, _), images in by_column.items():
        present = {value for value, count in images.items() if count != 0}
        if client == image_counts.ALL:
            continue
        if len(present) != 1:
            return False
        values |= present
    return len(values) > 1


def _columns(clients: Clients) -> Columns:
    """The images of each value in a column; of many clients together, None where one of them hides
    its images.
    """
    columns: Columns = {}
    for client, parts in clients.items():
        together = len(clients) > CLIENTS and client != image_counts.ALL
        head = "clients" if together else client
        for part, images in parts.items():
            column = columns.setdefault((head, part), {})
            for value, count in images.items():
                before = column.get(value, 0)
                column[value] = None if before is None or count is None else before + count
    return columns


def _cell(images: Values, value: str, total: int) -> Cell:
    """Images of a value, with their share. total: the images of the column."""
    count = images.get(value, 0)
    if count is None:
        return Cell(HIDDEN)
    text = f"{count:,} ({100 * count / total:.1f})" if total else "-"
    return Cell(text, number=count)


def settings(compared: Rows, clocked: bool) -> Section:
    """The methods that ran, and under a title of their own the options that all systems share.

    clocked: whether a table says how long training took.
    """
    heads: Heads = ["method", "rule", "its options", "seeds", DOWN, UP]
    tables = [ReportTable.of("Methods", heads, [_method_line(row) for row in compared], BYTES)]
    options = _options(compared)
    same = {name: values[0] for name, values in options.items() if len(set(values)) == 1}
    title = "Options of training"
    lines = [[name, *values] for name, values in options.items() if name not in same]
    if lines:
        heads = ["option", *(row.name for row in compared)]
        tables.append(ReportTable.of(f"{title} that differ", heads, lines))
        title += " that all share"
    if clocked:
        tables += _times(compared)
    pairs = list(same.items())
    return Section(
        "settings",
        "Methods and settings",
        tables,
        pairs=pairs,
        pairs_title=title,
    )


def _method_line(row: SystemRow) -> list[Any]:
    scores = row.scores
    rule = scores.rule
    if rule in READINGS:
        rule += f": {READINGS[rule]}"
    options = [f"{key}={value}" for key, value in scores.settings.items() if key != "rule"]
    seeds = ", ".join(map(str, row.seeds))
    traffic = [megabytes(scores.bytes.down).text, megabytes(scores.bytes.up).text]
    return [row.name, rule, ", ".join(options) or "-", seeds, *traffic]


def _options(compared: Rows) -> dict[str, list[str]]:
    """The values of each option that some run used, one of each system, by its title."""
    titles = {
        option.name: f"{option.title} (--{option.typed})" for option in recorded(TrainOptions)
    }
    options = {titles["rounds"]: [str(row.scores.rounds) for row in compared]}
    for name in dict.fromkeys(chain.from_iterable(used(row.scores.options) for row in compared)):
        if name not in ELSEWHERE:
            values = [_option_in_words(row.scores.options.get(name)) for row in compared]
            options[titles.get(name, name.replace("_", " "))] = values
    return options


def _option_in_words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _times(compared: Rows) -> list[ReportTable]:
    clocks = {row.name: timing.of_runs(row.paths) for row in compared}
    measured = [clock for clock in clocks.values() if clock]
    if not measured:
        return []
    legend = "Measured on the machine that trained"
    if any(row.runs > 1 for row in compared):
        legend += ", mean over seeds"
    legend += f". {CLOCKS_LEGEND}"
    fields = list(CLOCKS)
    for name, sentence in ENERGIES.items():
        if all(getattr(clock, name) is None for clock in measured):
            fields.remove(name)
        else:
            legend += sentence
    lines = []
    for name, clock in clocks.items():
        lines.append([name, *(_clock_text(clock, field) for field in fields)])
    heads = ["method", *(CLOCKS[field][0] for field in fields)]
    return [ReportTable.of("Time and memory", heads, lines, legend)]


def _clock_text(clock: timing.ClockTimes | None, field: str) -> str:
    _, form, unit = CLOCKS[field]
    value = getattr(clock, field, None)
    return "-" if value is None else form.format(unit * value)


def operating(row: SystemRow) -> list[Path]:
    """The evaluations whose operating points are shown with a system's scores."""
    return list(filter(None, map(with_operating_points, row.paths)))


def lineage(compared: Rows, others: Iterable[Path] = ()) -> Section:
    """Every stage behind the numbers, once: what it is, the command that made it, its hash.

    others: evaluations that some of the numbers are from, beside those of the systems.
    """
    evaluations = [path for row in compared for path in row.paths]
    stages: dict[Path, manifest.Manifest] = {}
    for path in chain.from_iterable(map(_stages, [*evaluations, *others])):
        stages.setdefault(path, manifest.read(path))
    lines = []
    for path, stage in sorted(stages.items(), key=lambda item: manifest.KINDS.index(item[1].kind)):
        name = path.parent.name
        above = path.parent.parent
        if stage.kind == "scores" and above.name == "scores":
            name = f"{above.parent.name}/scores/{name}"
        command = shlex.join(["fedcli", *stage.made_by])
        lines.append([stage.kind, name, command, manifest.sha256(path)[:DIGITS]])
    table = ReportTable.of(
        "",
        ["stage", "folder", "command", "sha256"],
        lines,
        LINEAGE,
    )
    return Section("lineage", "From data to scores", [table])


def _stages(path: Path) -> list[Path]:
    """A scores.json and all that it was made from, the first first; a run may have begun with
    another.
    """
    runs: list[Path] = []
    run = manifest.parent(path, "run")
    while run:
        runs.insert(0, run)
        run = manifest.parent(run, "run")
    trained = runs[-1] if runs else path
    data = [manifest.parent(trained, kind) for kind in STAGES]
    tested = manifest.parent(path, *STAGES)  # images of its own, other than those of the run
    if tested:
        data += [*(manifest.parent(tested, kind) for kind in STAGES), tested]
    return [*filter(None, data), *runs, path]
