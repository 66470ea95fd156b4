"""fedcli ls."""

from pathlib import Path
from typing import Any

from .. import console, shapes
from ..errors import FedcliError, sentence
from ..io.files import read_text
from ..system import terminal
from . import method_facts
from .shell import common as o
from .shell.shown import show_json

HEADLINE = "balanced_accuracy"
OF_LABELS = "auc_macro"  # of several labels per image, marked so
HEAD, OF_LABELS_HEAD = f"{HEADLINE} (%)", f"{OF_LABELS} (%)"
ON_VALIDATION = (
    "validation "  # before a head: of the round that is best on the clients' validation images
)
MARKS = {  # head -> what stands behind its number, since all are in one column
    HEAD: "",
    OF_LABELS_HEAD: f" ({OF_LABELS})",
    ON_VALIDATION + HEAD: " (validation)",
    ON_VALIDATION + OF_LABELS_HEAD: f" (validation {OF_LABELS})",
}
IN_WORDS = {HEAD: "balanced accuracy (%)"}  # heads of the table that JSON names otherwise
OPTIONS, DIFFERS = "options", "what differs"
COLUMNS = {
    "dataset": ["dataset", "data", "images", "pixels", "default clients"],
    "partition": ["partition", "of", "data", "scheme", "clients"],
    "corruption": ["corruption", "of", "data", "kind", "severity", "clients"],
    "run": ["run", "method", DIFFERS, "data", "seed", "rounds", HEAD],
}
DATASET = {"count": int, "size": [int], "clients": (int, None)}
SETTINGS = {"options": {"method": str, "seed": int, "rounds": int}, "data_path": str}
OF_EVERY_SCHEME = "scheme", "clients", "val", "minimum", "seed", "materialize"
REAL, SAMPLE, GENERATED = "real", "SYNTHETIC", "generated"


def ls(work: o.Work = o.DEFAULT_WORK, json: o.Json = False) -> None:
    """List datasets, partitions, corruptions and runs.

    They are those under --work, runs with their seed, rounds and main score.

    The score is the newest evaluation's mean over the last five rounds, of clean and corrupted images where a run has
    both. Where the clients have validation images, it is that of the round that is best on these, and no test score.
    - stands for a run that was not evaluated. "what differs" names the options in which a method's runs differ.
    An unfinished run shows the rounds played. The column "data" says what was made from a synthetic sample or from
    generated images. With --json numbers are numbers, and "rounds_played" is below "rounds" in an unfinished run.
    """
    every = listed(work)
    if json:
        show_json(every)
        return
    if not any(every.values()):
        raise FedcliError(f"nothing is under {work}", "make a dataset with `fedcli prepare NAME`")
    for kind in filter(every.get, COLUMNS):
        heads = [IN_WORDS.get(head, head) for head in COLUMNS[kind]]
        terminal.table(heads, [_cells(entry) for entry in every[kind]])


def listed(work: Path) -> dict[str, list[dict[str, Any]]]:
    """The entries of each kind, of runs with what differs."""
    every = {kind: _lines(work, kind) for kind in COLUMNS}
    _name_differences(every["run"])
    return every


def _cells(entry: dict[str, Any]) -> list[str]:
    shown = {name: "-" if value is None else str(value) for name, value in entry.items()}
    if "method" in shown:
        shown["method"] = shown["method"].removesuffix(
            f", {SAMPLE} data"
        )  # its column "data" says so
    if (played := shown.pop("rounds_played", None)) not in (None, shown.get("rounds")):
        shown["rounds"] = f"{played} of {shown['rounds']}"
    for head, mark in MARKS.items():
        if entry.get(head) is not None:
            shown[head] = f"{entry[head]:.1f}{mark}"
    return list(shown.values())


def _name_differences(runs: list[dict[str, Any]]) -> None:
    """Say of each run in which options it differs from others of its method; its options are taken out."""
    for run in runs:
        own = run[OPTIONS]
        alike = [other for other in runs if other[OPTIONS].get("method") == own.get("method")]
        differs = [
            name for name in own if any(other[OPTIONS].get(name) != own[name] for other in alike)
        ]
        run[DIFFERS] = ", ".join(
            f"{name.replace('_', '-')} {_short(own[name])}" for name in differs
        )
    for run in runs:
        del run[OPTIONS]


def _options(options: dict[str, Any]) -> dict[str, Any]:
    settings = options.get("settings")
    own = options | (settings if isinstance(settings, dict) else {})
    return {
        name: value
        for name, value in own.items()
        if name not in ("settings", "seed", "rounds", "code")
    }


def _short(value: Any) -> str:
    """A value as a table shows it: a number as it is typed, a hash by its first digits, of what is named the name."""
    if isinstance(value, dict):
        if "value" in value:  # of an attribute
            return str(value["value"])
        return (
            str(value["name"])
            if "name" in value
            else ", ".join(f"{k} {_short(v)}" for k, v in value.items())
        )
    if isinstance(value, list):
        return ",".join(map(_short, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)[:8] if len(str(value)) == 64 else str(value)


def _lines(work: Path, kind: str) -> list[dict[str, Any]]:
    """An entry for each result of a kind that can be read, unfinished runs last; for another a warning."""
    from ..data import last_used

    lines, paths = [], last_used.every(work / f"{kind}s", kind)
    if kind == "run":
        finished = {path.parent for path in paths}
        paths += [
            path
            for path in sorted(work.glob("runs/*/settings.json"))
            if path.parent not in finished
        ]
    for path in paths:
        try:
            lines.append(
                _unfinished(path.parent) if path.name == "settings.json" else _line(kind, path)
            )
        except (FedcliError, OSError) as error:  # OSError: another process has just removed it
            console.warn(f"left out {path.parent}: {sentence(error)}")
    return lines


def _line(kind: str, path: Path) -> dict[str, Any]:
    from ..data import manifest

    made, name = manifest.read(path, kind, whole=True), path.parent.name
    body, data = made.body, _origin(made.body)
    if kind == "dataset":
        shapes.check(body, DATASET, path, manifest.AGAIN)
        return _entry(kind, name, data, body["count"], body["size"][0], body["clients"])
    if kind == "partition":
        return _entry(
            kind,
            name,
            body["dataset"],
            data,
            _scheme(body["scheme"], made.options),
            len(body["roster"]),
        )
    if kind == "corruption":
        about = (
            name,
            body["dataset"],
            data,
            body["kind"].replace("-", " "),
            body["severity"],
            len(body["clients"]),
        )
        return _entry(kind, *about)
    played = {"rounds_played": body["rounds"]}
    return (
        _entry(kind, name, body["label"], "", data, made.options.get("seed"), body["rounds"])
        | played
        | _score(path.parent)
        | {OPTIONS: _options(made.options)}
    )


def _entry(kind: str, *values: Any) -> dict[str, Any]:
    return dict(zip(COLUMNS[kind], values, strict=False))


def _origin(body: dict[str, Any]) -> str:
    from ..data.sources import cards

    name = str(body.get("dataset") or body.get("name"))
    return SAMPLE if body.get("sample") else GENERATED if cards.is_generated(name) else REAL


def _scheme(name: str, options: dict[str, Any]) -> str:
    """The way clients were made: the scheme with its own options, such as "by center" or "dirichlet alpha 1"."""
    own = {
        key: value
        for key, value in options.items()
        if key not in OF_EVERY_SCHEME and value not in (None, [], False)
    }
    if noise := own.pop("label_noise", None):
        own["noisy labels"] = list(noise["each"])
    if lost := own.pop("hidden_attributes", None):
        own["hidden"] = [f"{name} {lost['share']:g}" for name in lost["hide"]]
    if attack := own.pop("attack", None):
        own[attack["kind"]] = [f"{attack['strength']:g} by", *attack["clients"]]
    words = {key.replace("_", " "): _short(value) for key, value in own.items()}
    named = (
        word if key == name else key if word == "yes" else f"{key} {word}"
        for key, word in words.items()
    )
    return " ".join(filter(None, [name, ", ".join(named)]))


def _score(run: Path) -> dict[str, float | None]:
    """The score of the newest evaluation of a run in percent, by the head of its column."""
    from ..data import last_used, manifest
    from ..scores.scores import Scores

    scores = list(run.glob("scores/*/scores.json"))
    if not scores:
        return {HEAD: None}
    newest = max(scores, key=last_used.age)
    known = Scores.of(manifest.read(newest, "scores").body, newest)
    if known.best:
        return {f"{ON_VALIDATION}{known.best.metric} (%)": 100 * known.best.validation}
    versions = known.versions
    of_version = versions.get("average") or versions.get("clean", {})
    several = OF_LABELS in of_version
    score = of_version.get(OF_LABELS if several else HEADLINE)
    mean = score.mean if score else None
    return {OF_LABELS_HEAD if several else HEAD: None if mean is None else 100 * mean}


def _unfinished(run: Path) -> dict[str, Any]:
    from ..data import manifest

    path, record = run / "settings.json", run / "rounds.jsonl"
    asked = shapes.read_json(path, SETTINGS, manifest.AGAIN)
    options, below = asked["options"], run / asked["data_path"]
    data = _origin(manifest.read(below).body) if below.is_file() else "-"
    played = read_text(record).count("\n") if record.is_file() else 0
    about = _entry(
        "run", run.name, _label(options["method"]), "", data, options["seed"], options["rounds"]
    )
    return about | {"rounds_played": played, HEAD: None, OPTIONS: _options(options)}


def _label(method: str) -> str:
    """The label that a finished run of a method of fedcli has; of another method its name."""
    labels = {name: facts["label"] for facts in method_facts.all_facts() for name in facts["names"]}
    return " + ".join(labels.get(half.lower(), half) for half in method.split("+"))
