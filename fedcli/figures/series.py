"""The record of a run round by round, as curves: rounds.jsonl of a finished or an unfinished run.

A series is named as in the record: loss, weights, what clients report (gap), what the server keeps (epsilon), and
"clean balanced_accuracy" where --eval-every scored the test set, and of its groups "clean accuracy of female by sex",
"clean average accuracy by sex" and "clean worst accuracy by sex", "validation balanced_accuracy" where clients have
validation parts. A name that is taken already gets a word in front, a title that is taken says who reported it.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..console import capital
from ..data import manifest
from ..errors import FedcliError
from ..metrics import METRICS, title

if TYPE_CHECKING:
    from pandas import DataFrame

STAGES = "dataset", "partition", "corruption"
KINDS = "loss", "test", "group", "weights", "reports", "server"  # in the order they are shown
TITLES = {  # of what clients and server report, where its name would be read as something else
    "gap": "Generalisation gap",
    "loss_before": "Loss of the received model",
    "mean_loss": "Mean loss of the global model",
    "mu": "mu, the proximal coefficient",
    "supervised_loss": "Supervised loss, L_sup",
    "divergence_loss": "Divergence from the teacher, L_f",
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
        kind: one of KINDS. Weights are parts of a whole, whose mean over clients says nothing; under the title of the
            loss every method has a quantity of its own; tests and groups are scores of the global model on test or
            validation images, those of groups are shown where they are asked for by name.
    """

    title: str
    unit: str
    curves: dict[str, np.ndarray]
    kind: str = "reports"

    @property
    def values(self) -> np.ndarray:
        """All values of all clients, NaN among them."""
        return np.concatenate([curve[:, 1] for curve in self.curves.values()])

    @property
    def scalar(self) -> bool:
        return set(self.curves) == {""}

    @property
    def tested(self) -> bool:
        return self.kind in ("test", "group")

    def frame(self) -> "DataFrame":
        """A line per client and round: client, round, value."""
        import pandas

        clients = np.repeat(list(self.curves), [len(curve) for curve in self.curves.values()])
        table = np.concatenate(list(self.curves.values()))
        return pandas.DataFrame(
            {"client": clients, "round": table[:, 0].astype(int), "value": table[:, 1]}
        )


@dataclass(frozen=True)
class Record:
    """A run's series by name.

    Attributes:
        clients: how many took part.
        played, rounds: rounds in the record, and rounds asked for.
        options: what was asked for, the method's settings among it; empty where that is not known.
        data: the options of the stages above, such as "corruption ratio"; empty where they are not known.
        corrupted: clients whose images were corrupted.
        histograms: name -> round -> counts int64 [N, bins] of each client, bins (low, high] of [0, 1]; at some rounds.
    """

    folder: Path
    label: str
    dataset: str
    clients: int
    played: int
    rounds: int
    series: dict[str, Series]
    options: dict[str, Any]
    data: dict[str, Any]
    corrupted: list[str]
    histograms: dict[str, dict[int, np.ndarray]]

    @property
    def asked(self) -> dict[str, Any]:
        """All that the run and its data were asked for, see systems.identity."""
        return {"label": self.label, "dataset": self.dataset, **self.options, **self.data}


def over_runs(runs: Iterable[Series]) -> "DataFrame":
    """A line per round: round, the mean over runs of the mean over clients, and that minus and plus its std (ddof 1),
    which is NaN in a round that fewer than two runs have."""
    import pandas

    means = [series.frame().groupby("round")["value"].mean() for series in runs]
    by_round = pandas.concat(means).groupby("round")
    mean, std = by_round.mean(), by_round.std()
    return pandas.DataFrame({"value": mean, "low": mean - std, "high": mean + std}).reset_index()


def heading(records: list[Record]) -> str:
    """A line on what was recorded."""
    if len(records) > 1:
        datasets, seeds = {r.dataset for r in records}, {r.options.get("seed") for r in records}
        on = f" on {records[0].dataset}" if len(datasets) == 1 and "" not in datasets else ""
        return f"{len(records)} runs{on}" + (f", {len(seeds)} seeds" if len(seeds) > 1 else "")
    record = records[0]
    on = f" on {record.dataset}" if record.dataset else ""
    played = f"{record.played} of " * (record.played != record.rounds) + f"{record.rounds} rounds"
    return f"{record.label}{on}: {record.clients} clients, {played}"


def option(record: Record, key: str) -> Any:
    """The value of an option, of the run or else of the nearest stage above it that has it, a list as text; None where
    none has it."""
    stages = [f"{stage} {key}" for stage in reversed(STAGES)]
    known = {**record.data, **record.options}
    value = next((known[name] for name in (key, *stages) if known.get(name) is not None), None)
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def read(path: Path) -> Record:
    """The record of a run: its folder, its run.json or its rounds.jsonl. Raises FedcliError, HashError."""
    if not path.exists():
        raise FedcliError(f"no such run: {path}", "give the folder of a run, or its run.json")
    folder = path if path.is_dir() else path.parent
    record = folder / "rounds.jsonl"
    if not record.is_file():
        raise FedcliError(
            f"{folder} holds no record of rounds", "give the folder of a run, or its run.json"
        )
    about, lines = _about(folder), _lines(record)
    if not lines:
        raise FedcliError(f"{record} has no round yet", "wait until the first round is played")
    try:
        series = _series(list(_points(lines, about.pop("roster"))))
        histograms = _histograms(lines)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FedcliError(f"{record} is damaged", "restore it, or train the run again") from None
    clients = {client for one_series in series.values() for client in one_series.curves if client}
    rounds = about.pop("rounds") or len(lines)
    return Record(
        folder,
        clients=len(clients),
        played=len(lines),
        rounds=rounds,
        series=series,
        histograms=histograms,
        **about,
    )


def _about(folder: Path) -> dict[str, Any]:
    """Label, dataset, rounds asked for, roster, options, data and corrupted; of an unfinished run what can be found
    out."""
    about: dict[str, Any] = {
        "label": folder.resolve().name,
        "dataset": "",
        "rounds": None,
        "roster": None,
    }
    about |= {"options": {}, "data": {}, "corrupted": []}
    if (folder / "run.json").is_file():
        run = manifest.verify(folder / "run.json", "run")
        about |= {key: run.body[key] for key in ("label", "dataset", "rounds", "roster")}
        about["options"] = run.options
        about |= _of_data(manifest.parent(folder / "run.json", *STAGES[1:]))
    else:
        with suppress(FedcliError, OSError, ValueError, KeyError, TypeError, RecursionError):
            settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
            options = settings["options"]
            about |= {"label": options["method"], "rounds": options["rounds"], "options": options}
            path = folder / settings["data_path"]
            body = manifest.read(path, "partition", "corruption").body
            about |= {
                "roster": [client["client"] for client in body["roster"]],
                "dataset": body.get("dataset", ""),
            }
            about |= _of_data(path)
    settings = about["options"].get("settings")
    about["options"] = {**about["options"], **(settings if isinstance(settings, dict) else {})}
    return about


def _of_data(path: Path | None) -> dict[str, Any]:
    """Options of a partition or corruption and of what it was made from, each with its stage's name before it, and the
    clients whose images were corrupted."""
    if path is None:
        return {"data": {}, "corrupted": []}
    stage = manifest.read(path)
    options, body = dict(stage.options), stage.body
    if stage.kind == "corruption":
        options["ratio"] = body["ratio"]
        names = [client["client"] for client in body["roster"]]
        clients = options.pop("clients", [])
        if clients != names[len(names) - len(clients) :]:  # else the ratio alone says which
            options["clients"] = clients
    above = _of_data(manifest.parent(path, *STAGES))["data"]
    data = above | {f"{stage.kind} {key}": value for key, value in options.items()}
    return {"data": data, "corrupted": body["clients"] if stage.kind == "corruption" else []}


def _lines(record: Path) -> list[dict[str, Any]]:
    """The whole lines; a run that is playing, or was killed, may have half of one at the end."""
    text = record.read_text(encoding="utf-8", errors="replace")
    try:
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except ValueError:
        raise FedcliError(f"{record} is damaged", "restore it, or train the run again") from None


def _points(
    lines: list[dict[str, Any]], roster: list[str] | None
) -> Iterator[tuple[Key, str, int, float | None]]:
    """(series, client, round, value) of all that is one number per round or per client and round."""
    for line in lines:
        t = int(line["round"])
        who = line.get("clients") or roster or [f"client {k}" for k in range(len(line["loss"]))]
        columns: dict[Key, list[float | None]] = {
            ("loss",): line["loss"],
            ("weights",): line["weights"],
        }
        columns |= {("reports", name): column for name, column in line.get("reports", {}).items()}
        for key, column in columns.items():
            for client, value in zip(who, column, strict=True):
                yield key, client, t, value
        scored = line.get("test", {}) | (
            {"validation": line["validation"]} if "validation" in line else {}
        )
        alone: dict[Key, float | None] = {
            ("server", name): value for name, value in line.get("server", {}).items()
        }
        alone |= {
            ("test", version, name): score
            for version, of in scored.items()
            for name, score in of.items()
        }
        for version, attributes in line.get("groups", {}).items():
            for attribute, groups in attributes.items():
                alone |= {
                    ("group", version, f"{name} by {attribute}"): value
                    for name, value in _between(groups)
                }
        yield from ((key, "", t, value) for key, value in alone.items())


def _between(groups: dict[str, dict[str, float | None]]) -> Iterator[tuple[str, float | None]]:
    """Each score of each group, "accuracy of mnist", and their mean and smallest, "average accuracy"; one that a group
    does not have is left out of them."""
    for metric in next(iter(groups.values()), {}):
        values = {group: scores[metric] for group, scores in groups.items()}
        known = [value for value in values.values() if value is not None and np.isfinite(value)]
        yield f"average {metric}", sum(known) / len(known) if known else None
        yield f"worst {metric}", min(known, default=None)
        yield from ((f"{metric} of {group}", value) for group, value in values.items())


def _histograms(lines: list[dict[str, Any]]) -> dict[str, dict[int, np.ndarray]]:
    histograms: dict[str, dict[int, np.ndarray]] = {}
    for line in lines:
        for name, counts in line.get("histograms", {}).items():
            histograms.setdefault(name, {})[int(line["round"])] = np.array(counts, int)
    return histograms


def _series(points: list[tuple[Key, str, int, float | None]]) -> dict[str, Series]:
    by_key: dict[Key, dict[str, list[tuple[int, float | None]]]] = {}
    for key, client, t, value in points:
        by_key.setdefault(key, {}).setdefault(client, []).append((t, value))
    named: dict[str, Series] = {}
    for key in sorted(by_key, key=lambda key: KINDS.index(key[0])):  # stable: else as recorded
        title, unit, scale = _words(key)
        alike = (other for other in named.values() if other.title == title and other.unit != unit)
        if key[0] not in ("test", "group") and any(alike):
            title, unit = f"{title}, {unit}", ""
        curves = {
            client: np.array(pairs, float) * [1, scale] for client, pairs in by_key[key].items()
        }
        finite = {
            client: np.where(np.isfinite(curve), curve, np.nan) for client, curve in curves.items()
        }
        named[_name(key, named)] = Series(title, unit, finite, key[0])
    return named


def _name(key: Key, taken: dict[str, Series]) -> str:
    kind, name = key[0], " ".join(key[1:] or key)
    return (
        {"reports": f"reported {name}", "server": f"server {name}"}.get(kind, name)
        if name in taken
        else name
    )


def _words(key: Key) -> tuple[str, str, float]:
    kind, name = key[0], " ".join(key[-1].split("_"))
    if kind == "loss":
        return "Training loss", "mean over local steps", 1
    if kind == "weights":
        return "Weight in the aggregation", "share", 1
    if kind == "group":
        words = [title(word) if word in METRICS else word for word in key[-1].split(" ")]
        return f"{capital(' '.join(words))}, {key[1]}", f"{key[1]} test images (%)", 100
    if kind == "test":
        on = "validation images" if key[1] == "validation" else f"{key[1]} test images"
        known = key[2] in METRICS
        return (
            (f"{capital(title(key[2]))}, {key[1]}", f"{on} (%)", 100)
            if known
            else (f"{name}, {key[1]}", on, 1)
        )
    name = TITLES.get(key[-1]) or (name if len(name) < 3 else capital(name))
    return name, "reported by clients" if kind == "reports" else "kept by the server", 1
