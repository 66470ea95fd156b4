"""fedcli ls."""

import json as text
from pathlib import Path
from typing import Any

from .. import console, terminal
from ..errors import FedcliError
from . import options as o

HEADLINE = "balanced_accuracy"
COLUMNS = {
    "dataset": ["dataset", "data", "images", "pixels", "default clients"],
    "partition": ["partition", "of", "data", "scheme", "clients"],
    "corruption": ["corruption", "of", "data", "kind", "severity", "clients"],
    "run": ["run", "method", "data", "seed", "rounds", f"{HEADLINE} (%)"],
}
OF_EVERY_SCHEME = "scheme", "clients", "val", "minimum", "seed", "materialize"
REAL, SAMPLE = "real", "SYNTHETIC"


def ls(work: o.Work = o.DEFAULT_WORK, json: o.Json = False, quiet: o.Quiet = False, debug: o.Debug = False) -> None:
    """List what is under --work: datasets, partitions, corruptions, and runs with seed, rounds and headline score.

    The score is the newest evaluation's mean over the last five rounds, of clean and corrupted images where a run has
    both; - stands for a run that was not evaluated. An unfinished run shows the rounds played. The column "data" says
    what was made from a synthetic sample.
    """
    listed = {kind: [_line(kind, path) for path in _manifests(work, kind)] for kind in COLUMNS}
    listed["run"] += [_unfinished(path.parent) for path in sorted(work.glob("runs/*/settings.json")) if _begun(path)]
    if json:
        o.show_json({kind: [dict(zip(COLUMNS[kind], line, strict=True)) for line in listed[kind]] for kind in COLUMNS})
        return
    if not any(listed.values()):
        raise FedcliError(f"nothing is under {work}", "make a dataset with `fedcli prepare NAME`")
    shown = [kind for kind in COLUMNS if listed[kind]]
    for kind in shown:
        terminal.table(COLUMNS[kind], listed[kind])
        if kind != shown[-1]:
            print()


def _manifests(work: Path, kind: str) -> list[Path]:
    """Those of a kind that can be read; of another, a warning."""
    from ..data import manifest

    paths = []
    for path in sorted(work.glob(f"{kind}s/*/{kind}.json")):
        try:
            manifest.read(path, kind)
        except FedcliError as error:
            console.warn(f"left out {path.parent}: {error.sentence}")
            continue
        paths.append(path)
    return paths


def _line(kind: str, path: Path) -> list[str]:
    from ..data import manifest

    made, name = manifest.read(path), path.parent.name
    body, data = made.body, SAMPLE if made.body.get("sample") else REAL
    if kind == "dataset":
        return [name, data, f"{body['count']}", f"{body['size'][0]}", f"{body['clients']}"]
    if kind == "partition":
        return [name, body["dataset"], data, _scheme(body["scheme"], made.options), str(len(body["roster"]))]
    if kind == "corruption":
        return [name, body["dataset"], data, body["kind"], str(body["severity"]), str(len(body["clients"]))]
    return [name, body["label"], data, str(made.options.get("seed")), str(body["rounds"]), _headline(path.parent)]


def _data(path: Path) -> str:
    """Of what the manifest that a run was begun from is made; "-" where it is gone."""
    from ..data import manifest

    return "-" if not path.is_file() else SAMPLE if manifest.read(path).body.get("sample") else REAL


def _scheme(name: str, options: dict[str, Any]) -> str:
    """How clients were made: the scheme with its own options, such as "by center" or "dirichlet alpha=1.0"."""
    own = {
        key: value for key, value in options.items() if key not in OF_EVERY_SCHEME and value not in (None, [], False)
    }
    words = [
        text.dumps(value)
        if isinstance(value, dict)
        else ",".join(map(str, value))
        if isinstance(value, list)
        else str(value)
        for value in own.values()
    ]
    return " ".join([name, *(word if key == name else f"{key}={word}" for key, word in zip(own, words, strict=True))])


def _headline(run: Path) -> str:
    """The score of the newest evaluation of a run."""
    from ..data import manifest

    scores = list(run.glob("scores/*/scores.json"))
    if not scores:
        return "-"
    versions = manifest.read(max(scores, key=lambda path: path.stat().st_mtime_ns), "scores").body["versions"]
    mean = versions.get("average", versions["clean"])[HEADLINE]["mean_last5"]
    return "-" if mean is None else f"{100 * mean:.2f}"


def _begun(settings: Path) -> bool:
    return not (settings.parent / "run.json").is_file()


def _unfinished(run: Path) -> list[str]:
    settings: dict[str, Any] = text.loads((run / "settings.json").read_text(encoding="utf-8"))
    asked, data = settings["options"], run / settings["data_path"]
    record = run / "rounds.jsonl"
    played = len(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else 0
    return [run.name, asked["method"], _data(data), str(asked["seed"]), f"{played} of {asked['rounds']}", "-"]
