"""The folder of a training: what it was begun with, who holds it, its lines, and the states of an unfinished run."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from .. import console
from ..data import last_used, manifest
from ..errors import FedcliError, HashError, UsageError
from ..federation import state as states
from ..federation.client_state import ClientStateStore
from ..federation.state import RunState
from ..io.files import read_text, sha256, write_text
from ..io.locks import held, is_held
from ..options import Source
from ..provenance import other_code
from ..shapes import read_json

PATH = (str, None)
CODE = {str: {str: str}}  # half of a method -> where it comes from
SETTINGS = {
    "options": {"method": str, "rounds": int, "settings": dict, "code?": CODE},
    "environment": {"device": str, "threads": int},
    "data": str,
    "data_path": str,
    "weights": PATH,
    "teacher": PATH,
    "then": PATH,
    "device?": str,
    "sha256": str,
}
SEALED = {"state": str, "lines": str, "models": {str: str}}
BUSY = "add --wait to wait for it, or give another --out"
RESTORE = "restore it, or remove the folder and train again"


def unfinished(work: Path, out: Path | None) -> Path:
    """The run folder to resume: --out, or the newest unfinished one under --work."""
    begun = [
        path.parent
        for path in work.glob("runs/*/settings.json")
        if not (path.parent / "run.json").exists()
    ]
    folders = [
        folder for folder in ([out] if out else begun) if (folder / "settings.json").is_file()
    ]
    if not folders:
        last_used.check_open(out or work)
        raise FedcliError(
            f"no unfinished run in {out or work}",
            "start one with fedcli train METHOD; a second stage (--then) goes on by giving its whole command again",
        )
    return max(folders, key=lambda folder: last_used.age(folder / "settings.json"))


def refuse_waiting(runs: Path, options: dict[str, Any], *, typed: bool) -> None:
    """Refuse to begin a run anew that was to be resumed, where one waits of which only the code is another.

    typed: on a command line, where one of its method and seed that waits with other options is refused too.
    Raises HashError, UsageError.
    """
    waiting = list(_waiting(runs))
    for folder, begun in waiting:
        code, now = begun.get("code", {}), options.get("code", {})
        if (
            code != now
            and code.keys() == now.keys()
            and {**begun, "code": None} == {**options, "code": None}
        ):
            changed = next(about for half, about in code.items() if about != now[half])
            name = changed.get("file") or changed.get("package")
            hint = "restore it to go on, or leave --resume out to begin anew"
            raise HashError(f"{name} was changed since {folder} was begun", hint)
    if not typed:
        return
    for folder, begun in waiting:
        if (begun["method"], begun.get("seed")) != (options["method"], options["seed"]) or is_held(
            folder / ".lock"
        ):
            continue
        done = states.saved(folder / "state")
        at = (
            f"after round {int(done[-1].stem)} of {begun['rounds']}"
            if done
            else "before its first round ended"
        )
        differ = [
            f"{name.replace('_', ' ')} {begun.get(name)}"
            for name in options
            if begun.get(name) != options[name]
        ]
        other = f"with {', '.join(differ)}" if differ else "on other data"
        raise UsageError(
            f"no unfinished run has these options: {folder} stopped {at} and was begun {other}",
            f"go on with it: fedcli train --resume --out {folder}; to train anew, leave --resume out",
        )
    console.say("no unfinished run to resume: training from the first round")


def _waiting(runs: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders of unfinished runs, the newest first, and the options that each was begun with."""
    for path in sorted(runs.glob("*/settings.json"), key=last_used.age, reverse=True):
        if not (path.parent / "run.json").exists():
            with suppress(FedcliError):  # of another run: its own resume says what is wrong
                yield path.parent, asked(path.parent)["options"]


def seen_from(folder: Path, path: Source | None) -> str | None:
    """A path as the folder sees it, so that both may move together; what is no path (imagenet) stays as it is."""
    if path is None or not Path(path).exists():
        return None if path is None else str(path)
    return Path(os.path.relpath(Path(path).resolve(), folder.resolve())).as_posix()


def seen_back(folder: Path, path: str | None) -> str | None:
    """The path that seen_from() was given, as this process can open it."""
    return str(folder / path) if path and (folder / path).exists() else path


def asked(folder: Path) -> dict[str, Any]:
    """settings.json of a run folder. Raises FedcliError if it is damaged, HashError if it was changed."""
    path = folder / "settings.json"
    again = "remove its folder and train again"
    asked = read_json(path, SETTINGS, again)
    digest = asked.pop("sha256")
    if digest != _digest(asked):
        raise HashError(
            f"{path} was changed since the run was begun",
            "restore it; to train with other values, give another --out",
        )
    return asked


def _digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@contextmanager
def claimed(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the run folder, so that two processes never train into one; `wait` for another one that does."""
    told = console.status if wait else None
    with held(folder / ".lock", f"another process is training into {folder}", BUSY, told=told):
        if links := [folder / name for name in ("state", "models") if (folder / name).is_symlink()]:
            raise FedcliError(
                f"{links[0]} is a link out of the folder of the run",
                "remove it, or give another --out",
            )
        yield


def settle(folder: Path, settings: dict[str, Any], *, resume: bool, force: bool) -> list[str]:
    """Compare with what the folder was begun with; returns what --force overrode."""
    path = folder / "settings.json"
    if not path.exists():
        if strange := [
            p.name for p in folder.iterdir() if p.name != ".lock" and p.suffix != ".tmp"
        ]:
            raise FedcliError(
                f"{folder} holds other files ({strange[0]})",
                "give another --out, or remove that folder",
            )
        sealed = {**settings, "sha256": _digest(settings)}
        write_text(path, json.dumps(sealed, indent=1, sort_keys=True) + "\n")
        return []
    old = asked(folder)
    differing = differences(old, settings)
    if not resume:
        done = states.saved(folder / "state")
        last = f"after round {int(done[-1].stem)} of {old['options']['rounds']}" if done else ""
        what = f"{folder} holds an unfinished run, stopped {last or 'before its first round ended'}"
        another = "give another --out"
        raise FedcliError(
            what,
            f"{another}, or remove that folder"
            if differing
            else f"add --resume to go on, or {another}",
        )
    if differing and not force:
        raise FedcliError(
            f"{folder} was begun with another {'; another '.join(differing)}",
            "resume with the same values, or add --force to go on and record it",
        )
    return differing


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    differing = []
    for part in ("options", "environment"):
        for key in sorted({*old[part], *new[part]}):
            if key == "code":
                differing += other_code(old[part].get(key, {}), new[part].get(key, {}))
            elif old[part].get(key) != new[part].get(key):
                differing.append(f"{key} ({old[part].get(key)!r}, now {new[part].get(key)!r})")
    return differing + (["data manifest"] if old["data"] != new["data"] else [])


def append(file: Any, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, sort_keys=True) + "\n")
    file.flush()
    os.fsync(file.fileno())


def save_state(folder: Path, state: RunState, roster: list[str]) -> None:
    """Write the state of a run folder, and the hashes of all that a resume from it takes over.

        state/<round>.h5    see federation/state.py
        state/<round>.json  sha256 of that file, of the record's lines up to that round, and of the models kept by then

    The second is written after the first: a state without it is not whole, and the one before it is used.
    """
    path = states.save(folder / "state", state, roster)
    with (folder / "rounds.jsonl").open("rb") as file:
        lines = b"".join(islice(file, state.round))
    kept = [path for path in (folder / "models").glob("*.h5") if path.stem.isdecimal()]
    models = {path.stem: sha256(path) for path in kept if int(path.stem) <= state.round}
    sealed = {"state": sha256(path), "lines": hashlib.sha256(lines).hexdigest(), "models": models}
    write_text(path.with_suffix(".json"), json.dumps(sealed, indent=1, sort_keys=True) + "\n")


def newest_state(
    folder: Path,
    first: RunState,
    roster: list[str],
    device: str,
    store: ClientStateStore | None = None,
) -> RunState:
    """The newest whole state of a run folder, or the first; says why a newer one is not used.

    Raises HashError where a line or a model that goes with it was changed.
    """
    for path in reversed(states.saved(folder / "state")):
        try:
            sealed = _sealed(path)
            state = states.restore(path, roster, device, store)
            if len(state.theta) != len(first.theta):
                raise FedcliError(
                    f"{path} is of another network ({len(state.theta)} numbers, not {len(first.theta)})"
                )
        except FedcliError as error:
            console.say(f"{error.sentence}; using the state before it")
            continue
        _verify(folder, sealed, state.round)
        return state
    return first


def _sealed(path: Path) -> dict[str, Any]:
    sealed = read_json(path.with_suffix(".json"), SEALED)
    if sha256(path) != sealed["state"]:
        raise FedcliError(f"{path} is damaged: its sha256 differs")
    return sealed


def _verify(folder: Path, sealed: dict[str, Any], round: int) -> None:
    record = folder / "rounds.jsonl"
    lines = read_text(record).splitlines(keepends=True) if record.exists() else []
    if len(lines) < round:
        raise FedcliError(
            f"{record} has {len(lines)} lines, but the state is of round {round}", RESTORE
        )
    if hashlib.sha256("".join(lines[:round]).encode()).hexdigest() != sealed["lines"]:
        raise HashError(f"{record} was changed since round {round} was saved", RESTORE)
    for name, digest in sealed["models"].items():
        model = manifest.inside(folder, f"models/{name}.h5")
        if not model.is_file() or sha256(model) != digest:
            raise HashError(f"{model} was changed since round {round} was saved", RESTORE)


def remove_states(folder: Path) -> None:
    """Remove the states of a run folder, and nothing else that may lie beside them."""
    inside = folder / "state"
    if inside.is_symlink() or not inside.is_dir():
        return
    for path in states.saved(inside):
        states.remove(path)
    for path in inside.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    if not any(inside.iterdir()):
        inside.rmdir()
