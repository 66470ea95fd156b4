"""What a run recorded round by round, as curves: rounds.jsonl of a finished or an unfinished run.

A series is named as in the record: loss, weights, what clients report (gap), what the server keeps (epsilon), and
"clean balanced_accuracy" where --eval-every scored the test set. A name that is taken already gets a word in front, a
title that is taken says who reported it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import manifest
from ..errors import FedcliError, HashError

KINDS = "loss", "test", "weights", "reports", "server"  # in the order they are shown
METRICS = {"balanced_accuracy": "Balanced accuracy", "auc_ovo_macro": "AUC, one class against one"}
TITLES = {  # of what clients and server report, where its name would be read as something else
    "gap": "Generalisation gap",
    "loss_before": "Loss of the received model",
    "mean_loss": "Mean loss of the global model",
    "mu": "mu, the pull to the global model",
    "training_accuracy": "Accuracy while training",
    "training_loss": "Cross-entropy while training",
}
Key = tuple[str, ...]  # kind, then the names below it


@dataclass(frozen=True)
class Series:
    """One quantity over rounds: a curve per client, or a single one whose client is "".

    Attributes:
        title, unit: for a person; the unit, or whose numbers they are.
        curves: client -> numbers [T, 2], round and value; NaN where the record has null.
        shares: parts of a whole, whose mean over clients says nothing.
        own: every method has a quantity of its own under this title.
    """

    title: str
    unit: str
    curves: dict[str, np.ndarray]
    shares: bool = False
    own: bool = False

    @property
    def values(self) -> np.ndarray:
        """All values of all clients, NaN among them."""
        return np.concatenate([curve[:, 1] for curve in self.curves.values()])

    @property
    def scalar(self) -> bool:
        return set(self.curves) == {""}


@dataclass(frozen=True)
class Record:
    """A run's series by name.

    Attributes:
        clients: how many took part.
        played, rounds: rounds in the record, and rounds asked for.
        options: what was asked for, the method's settings among it; empty where that is not known.
    """

    folder: Path
    label: str
    dataset: str
    clients: int
    played: int
    rounds: int
    series: dict[str, Series]
    options: dict[str, Any]


def read(path: Path) -> Record:
    """The record of a run: its folder, its run.json or its rounds.jsonl. Raises FedcliError, HashError."""
    if not path.exists():
        raise FedcliError(f"no such run: {path}", "give the folder of a run, or its run.json")
    folder = path if path.is_dir() else path.parent
    record = folder / "rounds.jsonl"
    if not record.is_file():
        raise FedcliError(f"{folder} holds no record of rounds", "give the folder of a run, or its run.json")
    about = _about(folder)
    lines = _lines(record)
    if not lines:
        raise FedcliError(f"{record} has no round yet", "wait until the first round is played")
    try:
        points = list(_points(lines, about["roster"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FedcliError(f"{record} is damaged", "restore it, or train the run again") from None
    series = _series(points)
    clients = {client for found in series.values() for client in found.curves if client}
    return Record(
        folder,
        about["label"],
        about["dataset"],
        len(clients),
        len(lines),
        about["rounds"] or len(lines),
        series,
        _flat(about["options"]),
    )


def _flat(options: dict[str, Any]) -> dict[str, Any]:
    settings = options.get("settings")
    return {**options, **(settings if isinstance(settings, dict) else {})}


def _about(folder: Path) -> dict[str, Any]:
    """Label, dataset, rounds asked for and roster; of an unfinished run what can be found out."""
    if (folder / "run.json").is_file():
        found = manifest.read(folder / "run.json", "run")
        if manifest.sha256(folder / "rounds.jsonl") != found.files.get("rounds.jsonl"):
            raise HashError(
                f"{folder / 'rounds.jsonl'} is not the file run.json was written for", "restore it, or train again"
            )
        return {key: found.body[key] for key in ("label", "dataset", "rounds", "roster")} | {"options": found.options}
    try:
        settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        options = settings["options"]
        label, rounds = options["method"], options["rounds"]
    except (OSError, ValueError, KeyError, TypeError):
        return {"label": folder.resolve().name, "dataset": "", "rounds": None, "roster": None, "options": {}}
    try:
        body = manifest.read(folder / settings["data_path"], "partition", "corruption").body
        roster = [client["client"] for client in body["roster"]]
    except (FedcliError, KeyError, TypeError):
        body, roster = {}, None
    return {
        "label": label, "dataset": body.get("dataset", ""), "rounds": rounds, "roster": roster, "options": options
    }  # fmt: skip


def _lines(record: Path) -> list[dict[str, Any]]:
    """The whole lines; a run that is playing, or was killed, may have half of one at the end."""
    text = record.read_text(encoding="utf-8", errors="replace")
    try:
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except ValueError:
        raise FedcliError(f"{record} is damaged", "restore it, or train the run again") from None


def _points(lines: list[dict[str, Any]], roster: list[str] | None) -> Iterator[tuple[Key, str, int, float]]:
    """(series, client, round, value) of all that is one number per round or per client and round."""
    for line in lines:
        t = int(line["round"])
        who = line.get("clients") or roster or [f"client {k}" for k in range(len(line["loss"]))]
        columns = {("loss",): line["loss"], ("weights",): line["weights"]}
        columns |= {("reports", name): column for name, column in line.get("reports", {}).items()}
        for key, column in columns.items():
            for client, value in zip(who, column, strict=True):
                yield key, client, t, _number(value)
        for name, value in line.get("server", {}).items():
            yield ("server", name), "", t, _number(value)
        for version, scores in line.get("test", {}).items():
            for metric, value in scores.items():
                yield ("test", version, metric), "", t, _number(value)


def _number(value: float | None) -> float:
    return np.nan if value is None or not np.isfinite(value) else float(value)


def _series(points: list[tuple[Key, str, int, float]]) -> dict[str, Series]:
    found: dict[Key, dict[str, list[tuple[int, float]]]] = {}
    for key, client, t, value in points:
        found.setdefault(key, {}).setdefault(client, []).append((t, value))
    named: dict[str, Series] = {}
    for key in sorted(found, key=lambda key: KINDS.index(key[0])):  # stable: else as recorded
        title, unit, scale = _words(key)
        if any(title == other.title and unit != other.unit and key[0] != "test" for other in named.values()):
            title, unit = f"{title}, {unit}", ""
        curves = {client: np.array(pairs) * [1, scale] for client, pairs in found[key].items()}
        named[_name(key, named)] = Series(title, unit, curves, shares=key[0] == "weights", own=key[0] == "loss")
    return named


def _name(key: Key, taken: dict[str, Series]) -> str:
    kind, name = key[0], " ".join(key[1:] or key)
    return {"reports": f"reported {name}", "server": f"server {name}"}.get(kind, name) if name in taken else name


def _words(key: Key) -> tuple[str, str, float]:
    """Title, unit and scale of a series."""
    kind, name = key[0], " ".join(key[-1].split("_"))
    if kind == "loss":
        return "Training loss", "mean over local steps", 1
    if kind == "weights":
        return "Weight in the aggregation", "share", 1
    if kind == "test":
        title, on = METRICS.get(key[2]), f"{key[1]} test images"
        return (title, f"{on} (%)", 100) if title else (name, on, 1)
    name = TITLES.get(key[-1]) or (name if len(name) < 3 else name[0].upper() + name[1:])
    return name, "reported by clients" if kind == "reports" else "kept by the server", 1
