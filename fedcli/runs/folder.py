"""The folder of a training: who may train in it, its lines and its states."""

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
from ..io.locks import LOCK, held, is_held
from ..shapes import read_json
from . import settings
from .finished import KEPT

SEALED = {"state": str, "lines": str, "models": {str: str}}
BUSY = "add --wait to wait for it, or give another --out"
RESTORE = "restore it, or remove the folder and train again"


def unfinished(work: Path, out: Path | None) -> Path:
    """The run folder to resume: --out, or the newest unfinished one under --work."""
    paths = last_used.unfinished(work / "runs")
    folders = [path.parent for path in paths if path.is_file()]
    if out:
        folders = [out] if (out / "settings.json").is_file() else []
    if not folders:
        last_used.check_open(out or work)
        raise FedcliError(
            f"no unfinished run in {out or work}",
            "start one with fedcli train METHOD; a second stage (--then) goes on by giving its "
            "whole command again",
        )
    return folders[-1]


def refuse_waiting(runs: Path, options: dict[str, Any], *, typed: bool) -> None:
    """Refuse to begin a run anew that was to be resumed, where one waits that differs only in code.

    typed: on a command line, where one of its method and seed that waits with other options is
        refused too.
    Raises HashError, UsageError.
    """
    waiting = list(_waiting(runs))
    for folder, waiting_options in waiting:
        _refuse_changed_code(folder, waiting_options, options)
    if not typed:
        return
    for folder, waiting_options in waiting:
        same_method = waiting_options["method"] == options["method"]
        same_seed = waiting_options.get("seed") == options["seed"]
        if same_method and same_seed and not is_held(folder / LOCK):
            _refuse_other_options(folder, waiting_options, options)
    console.say("no unfinished run to resume: training from the first round")


def _refuse_changed_code(
    folder: Path,
    old: dict[str, Any],
    new: dict[str, Any],
) -> None:
    """Raise HashError where only the code of these options is another."""
    old_code = old.get("code", {})
    new_code = new.get("code", {})
    if old_code == new_code or old_code.keys() != new_code.keys():
        return
    if {**old, "code": None} != {**new, "code": None}:
        return
    changed = [code for half, code in old_code.items() if code != new_code[half]]
    name = changed[0].get("file") or changed[0].get("package")
    raise HashError(
        f"{name} was changed since {folder} was begun",
        "restore it to go on, or leave --resume out to begin anew",
    )


def _refuse_other_options(
    folder: Path,
    old: dict[str, Any],
    new: dict[str, Any],
) -> None:
    """Raise UsageError: the unfinished run of this folder has other options, or other data."""
    differing = [name for name in new if old.get(name) != new[name]]
    words = [f"{name.replace('_', ' ')} {old.get(name)}" for name in differing]
    difference = f"with {', '.join(words)}" if words else "on other data"
    stop = _stop(folder, old["rounds"])
    raise UsageError(
        f"no unfinished run has these options: {folder} stopped {stop} and was begun {difference}",
        f"go on with it: fedcli train --resume --out {folder}; to train anew, leave --resume out",
    )


def _stop(folder: Path, rounds: int) -> str:
    """The round after which an unfinished run stopped, in words."""
    paths = states.saved(folder / "state")
    if not paths:
        return "before its first round ended"
    return f"after round {int(paths[-1].stem)} of {rounds}"


def _waiting(runs: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders of unfinished runs, the newest first, and the options of each."""
    for path in reversed(last_used.unfinished(runs)):
        with suppress(FedcliError):  # of another run: its own resume says what is wrong
            yield path.parent, settings.load(path.parent)["options"]


@contextmanager
def claimed(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the run folder, so that two processes never train into one.

    wait: until another process has trained into it, in place of an error.
    """
    report = console.status if wait else None
    with held(folder / LOCK, f"another process is training into {folder}", BUSY, tell=report):
        for name in ("state", "models"):
            if (folder / name).is_symlink():
                raise FedcliError(
                    f"{folder / name} is a link out of the folder of the run",
                    "remove it, or give another --out",
                )
        yield


def settle(
    folder: Path,
    content: dict[str, Any],
    *,
    resume: bool,
    force: bool,
) -> list[str]:
    """Write the settings of a new run, or compare them with those it was begun with.

    content: of settings.json.
    Returns the differences that --force overrode. Raises FedcliError.
    """
    if not (folder / "settings.json").exists():
        _check_empty(folder)
        settings.write(folder, content)
        return []
    old = settings.load(folder)
    differing = settings.differences(old, content)
    if not resume:
        stop = _stop(folder, old["options"]["rounds"])
        hint = "add --resume to go on, or give another --out"
        if differing:
            hint = "give another --out, or remove that folder"
        raise FedcliError(f"{folder} holds an unfinished run, stopped {stop}", hint)
    if differing and not force:
        raise FedcliError(
            f"{folder} was begun with another {'; another '.join(differing)}",
            "resume with the same values, or add --force to go on and record it",
        )
    return differing


def _check_empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != LOCK and path.suffix != ".tmp":
            raise FedcliError(
                f"{folder} holds other files ({path.name})",
                "give another --out, or remove that folder",
            )


def append(file: Any, line: dict[str, Any]) -> None:
    """Write a line of JSON, to the disk before this returns."""
    text = json.dumps(line, sort_keys=True)
    file.write(f"{text}\n")
    file.flush()
    os.fsync(file.fileno())


def save_state(folder: Path, state: RunState, roster: list[str]) -> None:
    """Write the state of a run folder, and the hashes of all that a resume from it takes over.

        state/<round>.h5    see federation/state.py
        state/<round>.json  sha256 of that file, of the record's lines up to that round, and of the
                            models kept by then

    The second is written after the first: a state without it is not whole, and the one before it
    is used.
    """
    path = states.save(folder / "state", state, roster)
    with (folder / "rounds.jsonl").open("rb") as file:
        lines = b"".join(islice(file, state.round))
    models = {}
    for model in (folder / "models").glob("*.h5"):
        if model.stem.isdecimal() and int(model.stem) <= state.round:
            with suppress(FileNotFoundError):  # a round that is played meanwhile may remove it
                models[model.stem] = sha256(model)
    sealed = {
        "state": sha256(path),
        "lines": hashlib.sha256(lines).hexdigest(),
        "models": models,
    }
    text = json.dumps(sealed, indent=1, sort_keys=True)
    write_text(path.with_suffix(".json"), f"{text}\n")


def newest_state(
    folder: Path,
    start: RunState,
    roster: list[str],
    device: str,
    store: ClientStateStore | None = None,
) -> RunState:
    """The newest whole state of a run folder, or the start; a message where a newer one is damaged.

    Raises HashError where a line or a model that goes with it was changed.
    """
    for path in reversed(states.saved(folder / "state")):
        try:
            sealed = _sealed(path)
            state = states.restore(path, roster, device, store)
            numbers = len(state.theta)
            if numbers != len(start.theta):
                text = f"{numbers} numbers, not {len(start.theta)}"
                raise FedcliError(f"{path} is of another network ({text})")
        except FedcliError as error:
            console.say(f"{error.sentence}; using the state before it")
            continue
        _verify(folder, sealed, state.round)
        return state
    return start


def _sealed(path: Path) -> dict[str, Any]:
    sealed = read_json(path.with_suffix(".json"), SEALED)
    if sha256(path) != sealed["state"]:
        raise FedcliError(f"{path} is damaged: its sha256 differs")
    return sealed


def _verify(folder: Path, sealed: dict[str, Any], round: int) -> None:
    """Raise HashError for a changed line or model up to this round, FedcliError for lost lines."""
    record = folder / "rounds.jsonl"
    lines = read_lines(record)
    if len(lines) < round:
        text = f"{record} has {len(lines)} lines, but the state is of round {round}"
        raise FedcliError(text, RESTORE)
    text = "".join(lines[:round])
    if hashlib.sha256(text.encode()).hexdigest() != sealed["lines"]:
        raise HashError(f"{record} was changed since round {round} was saved", RESTORE)
    for name, digest in sealed["models"].items():
        model = manifest.inside(folder, f"models/{name}.h5")
        # with patience, rounds after the state have removed models that no end of the run needs
        is_old = name.isdecimal() and int(name) <= len(lines) - KEPT
        if is_old and not model.exists():
            continue
        if not model.is_file() or sha256(model) != digest:
            raise HashError(f"{model} was changed since round {round} was saved", RESTORE)


def read_lines(record: Path) -> list[str]:
    """The lines of rounds.jsonl with their ends; [] without the file."""
    if not record.exists():
        return []
    return read_text(record).splitlines(keepends=True)


def remove_states(folder: Path) -> None:
    """Remove the states of a run folder, and nothing else that may lie beside them."""
    state_folder = folder / "state"
    if state_folder.is_symlink() or not state_folder.is_dir():
        return
    for path in states.saved(state_folder):
        states.remove(path)
    for path in state_folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    if not any(state_folder.iterdir()):
        state_folder.rmdir()
