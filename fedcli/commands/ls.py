"""fedcli ls."""

from itertools import compress
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
HEAD = f"{HEADLINE} (%)"
OF_LABELS_HEAD = f"{OF_LABELS} (%)"
# before a head: of the round that is best on the clients' validation images
ON_VALIDATION = "validation "
MARKS = {  # head -> text behind its number, since all are in one column
    HEAD: "",
    OF_LABELS_HEAD: f" ({OF_LABELS})",
    ON_VALIDATION + HEAD: " (validation)",
    ON_VALIDATION + OF_LABELS_HEAD: f" (validation {OF_LABELS})",
}
IN_WORDS = {HEAD: "balanced accuracy (%)"}  # heads of the table that JSON names otherwise
OPTIONS = "options"
DIFFERS = "what differs"
PLAYED = "rounds_played"
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
Entry = dict[str, Any]


def ls(work: o.Work = o.DEFAULT_WORK, json: o.Json = False) -> None:
    """List datasets, partitions, corruptions and runs.

    The list has everything under --work, runs with their seed, rounds and main score.

    The score is the newest evaluation's mean over the last five rounds, over clean and corrupted
    images if a run has both. If the clients have validation images, it is the validation score of
    the best round, not a test score. - means that a run was not evaluated. "what differs" names the
    options in which a method's runs differ. An unfinished run shows the rounds trained so far. The
    column "data" marks what was made from a synthetic sample or from generated images. With --json
    numbers are numbers, and in an unfinished run "rounds_played" is smaller than "rounds".
    """
    entries = listed(work)
    if json:
        show_json(entries)
        return
    if not any(entries.values()):
        raise FedcliError(f"nothing is under {work}", "make a dataset with `fedcli prepare NAME`")
    for kind, rows in entries.items():
        if rows:
            _show(COLUMNS[kind], [cells(entry) for entry in rows])


def _show(heads: list[str], rows: list[list[str]]) -> None:
    """A table, without the column of differences where no run differs."""
    shown = []
    for head, *texts in zip(heads, *rows):
        shown.append(head != DIFFERS or any(texts))
    titles = [IN_WORDS.get(head, head) for head in compress(heads, shown)]
    terminal.table(titles, [list(compress(row, shown)) for row in rows])


def listed(work: Path) -> dict[str, list[Entry]]:
    """The entries of each kind, of runs with what differs."""
    entries = {kind: _entries(work, kind) for kind in COLUMNS}
    _name_differences(entries["run"])
    return entries


def cells(entry: Entry) -> list[str]:
    """An entry as a row of its table."""
    row = {name: "-" if value is None else str(value) for name, value in entry.items()}
    if "method" in row:
        row["method"] = row["method"].removesuffix(f", {SAMPLE} data")  # the column "data" says so
    played = row.pop(PLAYED, None)
    if played not in (None, row.get("rounds")):
        row["rounds"] = f"{played} of {row['rounds']}"
    for head, mark in MARKS.items():
        if entry.get(head) is not None:
            row[head] = f"{entry[head]:.1f}{mark}"
    return list(row.values())


def _name_differences(runs: list[Entry]) -> None:
    """Say of each run in which options it differs from others of its method, in place of all its
    options.
    """
    all_options = [run.pop(OPTIONS) for run in runs]
    for run, options in zip(runs, all_options, strict=True):
        method = options.get("method")
        others = [other for other in all_options if other.get("method") == method]
        differences = []
        for name, value in options.items():
            if any(other.get(name) != value for other in others):
                differences.append(f"{name.replace('_', '-')} {_short(value)}")
        run[DIFFERS] = ", ".join(differences)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """The options in which runs of a method may differ, with its settings."""
    settings = options.get("settings")
    values = options | settings if isinstance(settings, dict) else dict(options)
    for name in ("settings", "seed", "rounds", "code"):
        values.pop(name, None)
    return values


def _short(value: Any) -> str:
    """A value as a table shows it: a number as it is typed, a hash by its first digits, the name of
    what has one.
    """
    if isinstance(value, dict):
        for key in ("value", "name"):  # of an attribute, and of code
            if key in value:
                return str(value[key])
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ",".join(map(_short, value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    text = str(value)
    return text[:8] if len(text) == 64 else text


def _entries(work: Path, kind: str) -> list[Entry]:
    """An entry for each result of a kind that can be read, unfinished runs last; for another a
    warning.
    """
    from ..data import last_used

    paths = last_used.every(work / f"{kind}s", kind)
    if kind == "run":
        finished = {path.parent for path in paths}
        settings = sorted(work.glob("runs/*/settings.json"))
        paths += [path for path in settings if path.parent not in finished]
    entries = []
    for path in paths:
        read = _unfinished if path.name == "settings.json" else READERS[kind]
        try:
            entries.append(read(path))
        except (FedcliError, OSError) as error:  # OSError: another process has just removed it
            console.warn(f"left out {path.parent}: {sentence(error)}")
    return entries


def _dataset(path: Path) -> Entry:
    from ..data import manifest

    body = manifest.read(path, "dataset", whole=True).body
    origin = _origin(body)
    shapes.check(body, DATASET, path, manifest.AGAIN)
    return _entry(
        "dataset",
        path,
        origin,
        body["count"],
        body["size"][0],
        body["clients"],
    )


def _partition(path: Path) -> Entry:
    from ..data import manifest

    partition = manifest.read(path, "partition", whole=True)
    body = partition.body
    scheme = _scheme(body["scheme"], partition.options)
    return _entry(
        "partition",
        path,
        body["dataset"],
        _origin(body),
        scheme,
        len(body["roster"]),
    )


def _corruption(path: Path) -> Entry:
    from ..data import manifest

    body = manifest.read(path, "corruption", whole=True).body
    noise = [body["kind"].replace("-", " "), body["severity"], len(body["clients"])]
    return _entry("corruption", path, body["dataset"], _origin(body), *noise)


def _finished(path: Path) -> Entry:
    from ..data import manifest

    run = manifest.read(path, "run", whole=True)
    body = run.body
    seed = run.options.get("seed")
    entry = _entry(
        "run",
        path,
        body["label"],
        "",
        _origin(body),
        seed,
        body["rounds"],
    )
    entry[PLAYED] = body["rounds"]
    return entry | _score(path.parent) | {OPTIONS: _options(run.options)}


def _unfinished(path: Path) -> Entry:
    from ..data import manifest

    settings = shapes.read_json(path, SETTINGS, manifest.AGAIN)
    options = settings["options"]
    data = path.parent / settings["data_path"]
    origin = _origin(manifest.read(data).body) if data.is_file() else "-"
    label = _label(options["method"])
    entry = _entry(
        "run",
        path,
        label,
        "",
        origin,
        options["seed"],
        options["rounds"],
    )
    record = path.parent / "rounds.jsonl"
    entry[PLAYED] = read_text(record).count("\n") if record.is_file() else 0
    return entry | {HEAD: None, OPTIONS: _options(options)}


READERS = {
    "dataset": _dataset,
    "partition": _partition,
    "corruption": _corruption,
    "run": _finished,
}


def _entry(kind: str, path: Path, *values: Any) -> Entry:
    """The name of a result and these values under the heads of its kind."""
    return dict(zip(COLUMNS[kind], [path.parent.name, *values], strict=False))


def _origin(body: dict[str, Any]) -> str:
    from ..data.sources import cards

    if body.get("sample"):
        return SAMPLE
    name = str(body.get("dataset") or body.get("name"))
    return GENERATED if cards.is_generated(name) else REAL


def _scheme(name: str, options: dict[str, Any]) -> str:
    """The way clients were made: the scheme with its own options, such as "by center" or "dirichlet
    alpha 1".
    """
    values = {}
    for key, value in options.items():
        if key not in OF_EVERY_SCHEME and value not in (None, [], False):
            values[key] = value
    if noise := values.pop("label_noise", None):
        values["noisy labels"] = list(noise["each"])
    if hidden := values.pop("hidden_attributes", None):
        values["hidden"] = [f"{attribute} {hidden['share']:g}" for attribute in hidden["hide"]]
    if attack := values.pop("attack", None):
        values[attack["kind"]] = [f"{attack['strength']:g} by", *attack["clients"]]
    details = []
    for key, value in values.items():
        word = _short(value)
        title = key.replace("_", " ")
        if title == name:
            details.append(word)
        else:
            details.append(title if word == "yes" else f"{title} {word}")
    return f"{name} {', '.join(details)}".strip()


def _score(run: Path) -> dict[str, float | None]:
    """The score of the newest evaluation of a run in percent, by the head of its column."""
    from ..data import last_used, manifest
    from ..scores.scores import RunScores

    paths = list(run.glob("scores/*/scores.json"))
    if not paths:
        return {HEAD: None}
    newest = max(paths, key=last_used.age)
    scores = RunScores.of(manifest.read(newest, "scores").body, newest)
    if scores.best:
        return {f"{ON_VALIDATION}{scores.best.metric} (%)": 100 * scores.best.validation}
    versions = scores.versions
    by_metric = versions.get("average") or versions.get("clean", {})
    metric = OF_LABELS if OF_LABELS in by_metric else HEADLINE
    score = by_metric.get(metric)
    mean = score.mean if score else None
    return {f"{metric} (%)": None if mean is None else 100 * mean}


def _label(method: str) -> str:
    """The label that a finished run of a method of fedcli has; of another method its name."""
    methods = method_facts.by_name()
    labels = []
    for half in method.split("+"):
        facts = methods.get(half.lower())
        labels.append(facts["label"] if facts else half)
    return " + ".join(labels)
