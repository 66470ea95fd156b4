"""The record of a run round by round, as curves: rounds.jsonl of a finished or an unfinished run.

A series is named as in the record: loss, weights, what clients report (gap), what the server keeps
(epsilon), and "clean balanced_accuracy" where --eval-every scored the test set, and of its groups
"clean accuracy of female by sex", "clean average accuracy by sex" and "clean worst accuracy by
sex", "validation balanced_accuracy" where clients have validation parts. A name that is taken
already gets a word in front, a title that is taken says who reported it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ..comparison.systems import shared_parts
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
    "supervised_loss/divergence_loss": "L_sup / L_f",
}
Key = tuple[str, ...]  # kind, then the names below it
Line = dict[str, Any]  # of rounds.jsonl
Number = float | None
Points = dict[str, list[tuple[int, Number]]]  # by client: round and value
Words = tuple[str, str, float]  # title, unit, and the factor of the values in that unit


@dataclass(frozen=True)
class Series:
    """One quantity over rounds: a curve per client, or a single one whose client is "".

    Attributes:
        title, unit: for a person; the unit, or whose numbers they are.
        curves: client -> numbers [T, 2], round and value; NaN where the record has null.
        kind: one of KINDS. Weights are parts of a whole, whose mean over clients says nothing;
            under the title of the loss every method has a quantity of its own; tests and groups are
            scores of the global model on test or validation images, those of groups are shown where
            they are asked for by name.
    """

    title: str
    unit: str
    curves: dict[str, ndarray]
    kind: str = "reports"

    @property
    def values(self) -> ndarray:
        """All values of all clients, NaN among them."""
        values_of_clients = [curve[:, 1] for curve in self.curves.values()]
        return np.concatenate(values_of_clients)

    @property
    def scalar(self) -> bool:
        return set(self.curves) == {""}

    @property
    def tested(self) -> bool:
        return self.kind in ("test", "group")

    def frame(self) -> "DataFrame":
        """A line per client and round: client, round, value."""
        import pandas

        curves = list(self.curves.values())
        lengths = [len(curve) for curve in curves]
        clients = np.repeat(list(self.curves), lengths)
        points = np.concatenate(curves)
        rounds = points[:, 0].astype(int)
        values = points[:, 1]
        return pandas.DataFrame({"client": clients, "round": rounds, "value": values})


@dataclass(frozen=True)
class Record:
    """A run's series by name.

    Attributes:
        clients: how many took part.
        played, rounds: rounds in the record, and rounds asked for.
        options: what was asked for, the method's settings among it; empty where that is not known.
        data: the options of the stages above, such as "corruption ratio"; empty where they are not
            known.
        corrupted: clients whose images were corrupted.
        histograms: name -> round -> counts int64 [N, bins] of each client, bins (low, high] of
            [0, 1]; at some rounds.
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
    histograms: dict[str, dict[int, ndarray]]

    @property
    def asked(self) -> dict[str, Any]:
        """All that the run and its data were asked for, see systems.identity."""
        return {
            "label": self.label,
            "dataset": self.dataset,
            **self.options,
            **self.data,
        }


def with_ratios(record: Record, names: Iterable[str]) -> Record:
    """The record with those of these names that are ratios, such as
    supervised_loss/divergence_loss, among its series.
    """
    series = dict(record.series)
    for name in names:
        above, _, below = name.partition("/")
        if name not in series and above in series and below in series:
            series[name] = _ratio(name, series[above], series[below])
    return replace(record, series=series)


def _ratio(name: str, above: Series, below: Series) -> Series:
    """The ratio of two series, of each client and round that both have."""
    curves = {}
    for client, curve in above.curves.items():
        other = below.curves.get(client, curve[:0])
        divisors = dict(other.tolist())
        points = []
        for t, value in curve.tolist():
            if divisors.get(t):
                points.append([t, value / divisors[t]])
        curves[client] = np.array(points).reshape(-1, 2)
    title = TITLES.get(name, f"{above.title} / {below.title}")
    return Series(title, "ratio", curves)


def over_runs(runs: Iterable[Series]) -> "DataFrame":
    """A line per round: round, value, low and high.

    value: the mean over runs of the mean over clients. low, high: that minus and plus its std
    (ddof 1), NaN in a round that fewer than two runs have.
    """
    import pandas

    means = [series.frame().groupby("round")["value"].mean() for series in runs]
    by_round = pandas.concat(means).groupby("round")
    mean = by_round.mean()
    std = by_round.std()
    low = mean - std
    high = mean + std
    return pandas.DataFrame({"value": mean, "low": low, "high": high}).reset_index()


def heading(records: list[Record]) -> str:
    """A line on what was recorded."""
    record = records[0]
    datasets = {record.dataset for record in records}
    on = ""
    if record.dataset and len(datasets) == 1:
        on = f" on {record.dataset}"
    if len(records) > 1:
        seeds = {record.options.get("seed") for record in records}
        labels = dict.fromkeys(record.label for record in records)
        parts = [f"{len(records)} runs{on}", *shared_parts(list(labels))]
        if len(seeds) > 1:
            parts.append(f"{len(seeds)} seeds")
        return ", ".join(parts)
    rounds = f"{record.rounds} rounds"
    if record.played != record.rounds:
        rounds = f"{record.played} of {rounds}"
    return f"{record.label}{on}: {record.clients} clients, {rounds}"


def option(record: Record, key: str) -> Any:
    """The value of an option, a list as text; None where neither run nor data have it.

    It is that of the run, or else of the nearest stage above it that has it.
    """
    options = {**record.data, **record.options}
    stages = [f"{stage} {key}" for stage in reversed(STAGES)]
    for name in (key, *stages):
        value = options.get(name)
        if isinstance(value, list):
            return ", ".join(map(str, value))
        if value is not None:
            return value
    return None


def read(path: Path) -> Record:
    """The record of a run: its folder, its run.json or its rounds.jsonl.

    Raises FedcliError, HashError.
    """
    hint = "give the folder of a run, or its run.json"
    if not path.exists():
        raise FedcliError(f"no such run: {path}", hint)
    folder = path if path.is_dir() else path.parent
    file = folder / "rounds.jsonl"
    if not file.is_file():
        raise FedcliError(f"{folder} holds no record of rounds", hint)
    facts = _facts(folder)
    lines = _lines(file)
    if not lines:
        raise FedcliError(f"{file} has no round yet", "wait until the first round is finished")
    try:
        series = _series(_points(lines, facts.pop("roster")))
        histograms = _histograms(lines)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FedcliError(f"{file} is damaged", "restore it, or train the run again") from None
    clients: set[str] = set()
    for curves in series.values():
        clients |= set(curves.curves) - {""}
    rounds = facts.pop("rounds") or len(lines)
    return Record(
        folder,
        clients=len(clients),
        played=len(lines),
        rounds=rounds,
        series=series,
        histograms=histograms,
        **facts,
    )


def _facts(folder: Path) -> dict[str, Any]:
    """Label, dataset, rounds asked for, roster, options, data and corrupted, as far as known."""
    facts: dict[str, Any] = {
        "label": folder.resolve().name,
        "dataset": "",
        "rounds": None,
        "roster": None,
        "options": {},
        "data": {},
        "corrupted": [],
    }
    if (folder / "run.json").is_file():
        facts |= _of_finished(folder / "run.json")
    else:
        with suppress(FedcliError, OSError, ValueError, KeyError, TypeError, RecursionError):
            _add_unfinished(folder, facts)
    settings = facts["options"].get("settings")
    if isinstance(settings, dict):
        facts["options"] = {**facts["options"], **settings}
    return facts


def _of_finished(path: Path) -> dict[str, Any]:
    run = manifest.verify(path, "run")
    facts = _of_data(manifest.parent(path, *STAGES[1:]))
    for key in ("label", "dataset", "rounds", "roster"):
        facts[key] = run.body[key]
    facts["options"] = run.options
    return facts


def _add_unfinished(folder: Path, facts: dict[str, Any]) -> None:
    """Add what is known of an unfinished run, step by step, as each may fail."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    options = settings["options"]
    facts |= {"label": options["method"], "rounds": options["rounds"], "options": options}
    path = folder / settings["data_path"]
    body = manifest.read(path, "partition", "corruption").body
    roster = [client["client"] for client in body["roster"]]
    facts |= {"roster": roster, "dataset": body.get("dataset", "")}
    facts |= _of_data(path)


def _of_data(path: Path | None) -> dict[str, Any]:
    """data: options of a partition or corruption and of the stages above it; corrupted: clients.

    Each option has its stage's name before it.
    """
    if path is None:
        return {"data": {}, "corrupted": []}
    stage = manifest.read(path)
    options = dict(stage.options)
    corrupted = []
    if stage.kind == "corruption":
        corrupted = stage.body["clients"]
        options["ratio"] = stage.body["ratio"]
        roster = [client["client"] for client in stage.body["roster"]]
        clients = options.pop("clients", [])
        unlisted = len(roster) - len(clients)
        if clients != roster[unlisted:]:  # else the ratio alone says which
            options["clients"] = clients
    data = _of_data(manifest.parent(path, *STAGES))["data"]
    for key, value in options.items():
        data[f"{stage.kind} {key}"] = value
    return {"data": data, "corrupted": corrupted}


def _lines(file: Path) -> list[Line]:
    """The whole lines; a run that is playing, or was killed, may have half of one at the end."""
    text = file.read_text(encoding="utf-8", errors="replace")
    whole = text[: text.rfind("\n") + 1]
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        raise FedcliError(f"{file} is damaged", "restore it, or train the run again") from None


def _points(lines: list[Line], roster: list[str] | None) -> dict[Key, Points]:
    """Round and value of each client, by series; the client of a single number is ""."""
    points: dict[Key, Points] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        t = int(line["round"])
        clients = line.get("clients") or roster
        if not clients:
            clients = [f"client {k}" for k in range(len(line["loss"]))]
        for key, column in _columns(line).items():
            for client, value in zip(clients, column, strict=True):
                points[key][client].append((t, value))
        for key, value in _numbers(line).items():
            points[key][""].append((t, value))
    return points


def _columns(line: Line) -> dict[Key, list[Number]]:
    """All that is a number per client."""
    columns: dict[Key, list[Number]] = {}
    columns[("loss",)] = line["loss"]
    columns[("weights",)] = line["weights"]
    for name, column in line.get("reports", {}).items():
        columns["reports", name] = column
    return columns


def _numbers(line: Line) -> dict[Key, Number]:
    """All that is one number."""
    numbers: dict[Key, Number] = {}
    for name, value in line.get("server", {}).items():
        numbers["server", name] = value
    versions = {**line.get("test", {})}
    if "validation" in line:
        versions["validation"] = line["validation"]
    for version, scores in versions.items():
        for name, score in scores.items():
            numbers["test", version, name] = score
    for version, attributes in line.get("groups", {}).items():
        for attribute, groups in attributes.items():
            for name, score in _of_groups(groups).items():
                numbers["group", version, f"{name} by {attribute}"] = score
    return numbers


def _of_groups(groups: dict[str, dict[str, Number]]) -> dict[str, Number]:
    """Each score of each group, "accuracy of mnist", and their mean and smallest.

    A score that a group does not have is left out of "average accuracy" and "worst accuracy".
    """
    numbers: dict[str, Number] = {}
    for metric in next(iter(groups.values()), {}):
        values = {group: scores[metric] for group, scores in groups.items()}
        finite = [value for value in values.values() if value is not None and np.isfinite(value)]
        numbers[f"average {metric}"] = sum(finite) / len(finite) if finite else None
        numbers[f"worst {metric}"] = min(finite, default=None)
        for group, value in values.items():
            numbers[f"{metric} of {group}"] = value
    return numbers


def _histograms(lines: list[Line]) -> dict[str, dict[int, ndarray]]:
    histograms: dict[str, dict[int, ndarray]] = {}
    for line in lines:
        for name, counts in line.get("histograms", {}).items():
            by_round = histograms.setdefault(name, {})
            by_round[int(line["round"])] = np.array(counts, int)
    return histograms


def _series(points_by_key: dict[Key, Points]) -> dict[str, Series]:
    series: dict[str, Series] = {}
    keys = sorted(points_by_key, key=lambda key: KINDS.index(key[0]))
    for key in keys:  # else as recorded
        kind = key[0]
        title, unit, scale = _words(key)
        units = {other.unit for other in series.values() if other.title == title}
        if kind not in ("test", "group") and units - {unit}:
            title = f"{title}, {unit}"
            unit = ""
        curves = {}
        for client, points in points_by_key[key].items():
            curve = np.array(points, float) * [1, scale]
            curves[client] = np.where(np.isfinite(curve), curve, np.nan)
        name = _name(key, series)
        series[name] = Series(title, unit, curves, kind)
    return series


def _name(key: Key, series: dict[str, Series]) -> str:
    kind = key[0]
    name = " ".join(key[1:] or key)
    if name in series and kind == "reports":
        return f"reported {name}"
    if name in series and kind == "server":
        return f"server {name}"
    return name


def _words(key: Key) -> Words:
    kind = key[0]
    if kind == "loss":
        return "Training loss", "mean over local steps", 1
    if kind == "weights":
        return "Weight in the aggregation", "share", 1
    if kind == "group":
        return _words_of_group(key[1], key[2])
    if kind == "test":
        return _words_of_test(key[1], key[2])
    unit = "reported by clients" if kind == "reports" else "kept by the server"
    return _title(key[1]), unit, 1


def _words_of_group(version: str, name: str) -> Words:
    words = [title(word) if word in METRICS else word for word in name.split(" ")]
    score = capital(" ".join(words))
    return f"{score}, {version}", f"{version} test images (%)", 100


def _words_of_test(version: str, metric: str) -> Words:
    images = f"{version} test images"
    if version == "validation":
        images = "validation images"
    if metric in METRICS:
        score = capital(title(metric))
        return f"{score}, {version}", f"{images} (%)", 100
    score = metric.replace("_", " ")
    return f"{score}, {version}", images, 1


def _title(name: str) -> str:
    if name in TITLES:
        return TITLES[name]
    words = name.replace("_", " ")
    return words if len(words) < 3 else capital(words)
