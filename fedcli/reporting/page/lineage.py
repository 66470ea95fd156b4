"""Runs and their data: each method's rule, settings and traffic, and the chain of stages with their hashes."""

import shlex
from pathlib import Path
from typing import Any

from ...data import manifest
from .. import timing
from ..section import Section
from ..table import Table, of_text
from ..tables import DOWN, UP, megabytes
from .systems import System

DIGITS = 12  # of a sha256; the manifests hold all of them
READINGS = {
    "paper": "the paper's formula",
    "released": "what its authors' code computes",
    "original": "a baseline's own first paper",
}
STAGES = "dataset", "partition", "corruption"
ENERGIES = {
    "watt_hours": ("energy", "the machine's processors and their memory"),
    "gpu_watt_hours": ("energy of the GPU", "its board"),
}  # field of Clocks -> head of the column, what it is of


def settings(compared: list[System], clocked: bool) -> Section:
    """The methods that ran, and under a title of their own the options that all systems share.

    clocked: whether a table says how long training took.
    """
    differ, alike = _options(compared)
    title = "Options of training" + (" that all share" if differ else "")
    times = _times(compared) if clocked else []
    tables = [_methods(compared), *differ, *times]
    return Section("settings", "Methods and settings", tables=tables, pairs=alike, pairs_title=title)


def _methods(compared: list[System]) -> Table:
    lines = [
        [system.name, _rule(system.scores.rule), _settings(system.scores.settings),
         ", ".join(str(seed) for seed in system.row.seeds), *_sent(system.row.bytes)]
        for system in compared
    ]  # fmt: skip
    heads = ["method", "rule", "its options", "seeds", DOWN, UP]
    legend = (
        "MB (10^6 bytes) sent to (down) and by (up) each client in a round, mean over clients and rounds: the trained "
        "parameters and what the method sends beside them."
    )
    return of_text("Methods", heads, lines, legend)


def _sent(traffic: dict[str, float] | None) -> list[str]:
    return [megabytes(traffic and traffic[way]).text for way in ("down", "up")]


def _times(compared: list[System]) -> list[Table]:
    """Time and memory of training; none where no run has its clocks."""
    clocks = {system.name: timing.of_runs(system.row.paths) for system in compared}
    lines = [[name, *_taken(measured)] for name, measured in clocks.items()]
    heads = [
        "method",
        "minutes",
        "images per second",
        "scoring (%)",
        "peak memory (GB)",
        "of matrix speed (%)",
        "of memory speed (%)",
    ]
    about_energy = ""
    for field, (head, whose) in ENERGIES.items():
        if any(getattr(measured, field, None) is not None for measured in clocks.values()):
            about_energy += f" {head[:1].upper()}{head[1:]}: of {whose}, with all that ran there."
            heads.append(f"{head} (Wh)")
            lines = [[*line, _energy(measured, field)] for line, measured in zip(lines, clocks.values(), strict=True)]
    several = ", mean over seeds" if any(system.row.runs > 1 for system in compared) else ""
    legend = (
        f"Measured on the machine that trained{several}. Images per second: during training. Scoring: share of the "
        "time spent on test curves and validation. Peak memory: of the process, or on the GPU (10^9 bytes). Of "
        "matrix speed: the rate of products and convolutions while clients trained, as a share of that of one large "
        "matrix product. Of memory speed: the rate at which operations read and wrote bytes, as a share of that of a "
        "large copy. Both are measured after runs of 5 seconds or more. "
        f"Times vary from run to run.{about_energy}"
    )
    return [of_text("Time and memory", heads, lines, legend)] if any(clocks.values()) else []


def _taken(measured: timing.Clocks | None) -> list[str]:
    if measured is None:
        return ["-"] * 6
    share, peak = measured.evaluation, measured.peak_bytes
    known = [
        ("{:.2f}", measured.minutes),
        ("{:,.0f}", measured.images_per_second),
        ("{:.1f}", None if share is None else 100 * share),
        ("{:.2f}", None if peak is None else peak / 1e9),
        *(("{:.0f}", None if value is None else 100 * value) for value in (measured.compute, measured.traffic)),
    ]
    return ["-" if value is None else form.format(value) for form, value in known]


def _energy(measured: timing.Clocks | None, field: str) -> str:
    hours = getattr(measured, field, None)
    return "-" if hours is None else f"{hours:.2f}"


def _rule(rule: str) -> str:
    return f"{rule}: {READINGS[rule]}" if rule in READINGS else rule


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items() if key != "rule") or "-"


def _options(compared: list[System]) -> tuple[list[Table], list[tuple[str, str]]]:
    """Options of training: a table of those in which the systems differ, and those that all share."""
    names = dict.fromkeys(name for system in compared for name in system.scores.options if name != "seed")
    options = {"rounds": [str(system.scores.rounds) for system in compared]}
    options |= {
        name.replace("_", " "): [_value(system.scores.options.get(name)) for system in compared] for name in names
    }
    alike = {name: values[0] for name, values in options.items() if len(set(values)) == 1}
    lines = [[name, *values] for name, values in options.items() if name not in alike]
    differ = (
        [of_text("Options of training that differ", ["option", *(system.name for system in compared)], lines)]
        if lines
        else []
    )
    return differ, list(alike.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def section(compared: list[System]) -> Section:
    """Every stage behind the numbers, once: what it is, the command that made it, its hash."""
    stages = dict.fromkeys(stage for system in compared for path in system.row.paths for stage in _above(path))
    lines = sorted(map(_line, stages), key=lambda line: manifest.KINDS.index(line[0]))
    legend = (
        "Every stage's manifest lists the hashes of its files and of the stages before it; shown are the first "
        f"{DIGITS} digits of each manifest's own sha256. Commands are shown as recorded, without paths."
    )
    table = of_text("", ["stage", "folder", "command", "sha256"], lines, legend)
    return Section("lineage", "From data to scores", tables=[table])


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


def _line(path: Path) -> list[str]:
    stage, folder = manifest.read(path), path.parent
    inside = stage.kind == "scores" and folder.parent.name == "scores"
    name = f"{folder.parent.parent.name}/scores/{folder.name}" if inside else folder.name
    return [stage.kind, name, shlex.join(["fedcli", *stage.made_by]), manifest.sha256(path)[:DIGITS]]
