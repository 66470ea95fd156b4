"""Runs and their data: each method's rule, settings and traffic, and the chain of stages with their hashes."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ...data import manifest
from ...options import recorded
from ...runs.train_options import TrainOptions
from .. import timing
from ..row import Row
from ..section import Section
from ..table import Table
from ..tables import BYTES, DOWN, UP, megabytes

DIGITS = 12  # of a sha256; the manifests hold all of them
READINGS = {
    "paper": "the paper's formula",
    "released": "what its authors' code computes",
    "original": "a baseline's own first paper",
}
STAGES = "dataset", "partition", "corruption"
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


def settings(compared: Sequence[Row], clocked: bool) -> Section:
    """The methods that ran, and under a title of their own the options that all systems share.

    clocked: whether a table says how long training took.
    """
    differ, alike = _options(compared)
    title = "Options of training" + (" that all share" if differ else "")
    tables = [_methods(compared), *differ, *(_times(compared) if clocked else [])]
    return Section("settings", "Methods and settings", tables, pairs=alike, pairs_title=title)


def _methods(compared: Sequence[Row]) -> Table:
    lines = [
        [
            row.name,
            f"{rule}: {READINGS[rule]}" if (rule := row.scores.rule) in READINGS else rule,
            ", ".join(f"{key}={value}" for key, value in row.scores.settings.items() if key != "rule") or "-",
            ", ".join(str(seed) for seed in row.seeds),
            *(megabytes(count).text for count in (row.scores.bytes.down, row.scores.bytes.up)),
        ]
        for row in compared
    ]
    return Table.of("Methods", ["method", "rule", "its options", "seeds", DOWN, UP], lines, BYTES)


def _times(compared: Sequence[Row]) -> list[Table]:
    clocks = {row.name: timing.of_runs(row.paths) for row in compared}
    measured = [clock for clock in clocks.values() if clock]
    unknown = [name for name in ENERGIES if all(getattr(clock, name) is None for clock in measured)]
    shown = {name: column for name, column in CLOCKS.items() if name not in unknown}
    lines = [
        [name, *("-" if (value := getattr(clock, field, None)) is None else form.format(unit * value)
                 for field, (_, form, unit) in shown.items())]
        for name, clock in clocks.items()
    ]  # fmt: skip
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


def _options(compared: Sequence[Row]) -> tuple[list[Table], list[tuple[str, str]]]:
    names = dict.fromkeys(name for row in compared for name in row.scores.options if name != "seed")
    said = {option.name: f"{option.title} (--{option.typed})" for option in recorded(TrainOptions)}
    options = {said["rounds"]: [str(row.scores.rounds) for row in compared]}
    words = {True: "yes", False: "no", None: "none"}
    for name in names:
        values = [row.scores.options.get(name) for row in compared]
        options[said.get(name, name.replace("_", " "))] = [
            words[value] if isinstance(value, bool | None) else str(value) for value in values
        ]
    alike = {name: values[0] for name, values in options.items() if len(set(values)) == 1}
    lines = [[name, *values] for name, values in options.items() if name not in alike]
    table = Table.of("Options of training that differ", ["option", *(row.name for row in compared)], lines)
    return [table] if lines else [], list(alike.items())


def section(compared: Sequence[Row]) -> Section:
    """Every stage behind the numbers, once: what it is, the command that made it, its hash."""
    stages = dict.fromkeys(stage for row in compared for path in row.paths for stage in _above(path))
    lines = []
    for path in sorted(stages, key=lambda path: manifest.KINDS.index(manifest.read(path).kind)):
        stage, folder = manifest.read(path), path.parent
        inside = stage.kind == "scores" and folder.parent.name == "scores"
        name = f"{folder.parent.parent.name}/scores/{folder.name}" if inside else folder.name
        lines.append([stage.kind, name, shlex.join(["fedcli", *stage.made_by]), manifest.sha256(path)[:DIGITS]])
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
    tested = manifest.parent(path, *STAGES)  # data of its own, where scores are on other images than the run's
    stages = [manifest.parent(trained, kind) for kind in STAGES]
    stages += [manifest.parent(tested, kind) for kind in STAGES] + [tested] if tested else []
    return [*(stage for stage in stages if stage), *paths]
