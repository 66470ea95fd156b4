"""States of an unfinished run, each with the hashes of all that a resume from it takes over.

    state/<round>.h5    see federation/state.py
    state/<round>.json  sha256 of that file, of the record's lines up to that round, and of the models kept by then

The second is written after the first: a state without it is not whole, and the one before it is used.
"""

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

from .. import console, shapes
from ..data import manifest
from ..errors import FedcliError, HashError
from ..federation import state as states
from ..federation.client_state import ClientStateStore
from ..federation.state import RunState
from ..io.files import read_text, sha256, write_text

SHAPE = {"state": str, "lines": str, "models": {str: str}}
RESTORE = "restore it, or remove the folder and train again"


def save(folder: Path, state: RunState, roster: list[str]) -> None:
    """Write the state of a run folder, and what it goes with."""
    path = states.save(folder / "state", state, roster)
    with (folder / "rounds.jsonl").open("rb") as file:
        lines = b"".join(islice(file, state.round))
    models = {path.stem: sha256(path) for path in _models(folder, state.round)}
    sealed = {"state": sha256(path), "lines": hashlib.sha256(lines).hexdigest(), "models": models}
    write_text(path.with_suffix(".json"), json.dumps(sealed, indent=1, sort_keys=True) + "\n")


def _models(folder: Path, round: int) -> list[Path]:
    known = sorted((folder / "models").glob("*.h5"))
    return [path for path in known if path.stem.isdecimal() and int(path.stem) <= round]


def newest(
    folder: Path, first: RunState, roster: list[str], device: str, store: ClientStateStore | None = None
) -> RunState:
    """The newest whole state of a run folder, or the first; says why a newer one is not used.

    Raises HashError where a line or a model that goes with it was changed.
    """
    for path in reversed(states.saved(folder / "state")):
        try:
            sealed = _sealed(path)
            state = states.restore(path, roster, device, store)
            if len(state.theta) != len(first.theta):
                raise FedcliError(f"{path} is of another network ({len(state.theta)} numbers, not {len(first.theta)})")
        except FedcliError as error:
            console.say(f"{error.sentence}; using the state before it")
            continue
        _verify(folder, sealed, state.round)
        return state
    return first


def _sealed(path: Path) -> dict[str, Any]:
    beside = path.with_suffix(".json")
    try:
        sealed = json.loads(read_text(beside))
    except ValueError as error:
        raise FedcliError(f"{beside} is damaged: {error}") from None
    shapes.check(sealed, SHAPE, beside, "")
    if sha256(path) != sealed["state"]:
        raise FedcliError(f"{path} is damaged: its sha256 differs")
    return sealed


def _verify(folder: Path, sealed: dict[str, Any], round: int) -> None:
    record = folder / "rounds.jsonl"
    lines = read_text(record).splitlines(keepends=True) if record.exists() else []
    if len(lines) < round:
        raise FedcliError(f"{record} has {len(lines)} lines, but the state is of round {round}", RESTORE)
    if hashlib.sha256("".join(lines[:round]).encode()).hexdigest() != sealed["lines"]:
        raise HashError(f"{record} was changed since round {round} was saved", RESTORE)
    for name, digest in sealed["models"].items():
        model = manifest.inside(folder, f"models/{name}.h5")
        if not model.is_file() or sha256(model) != digest:
            raise HashError(f"{model} was changed since round {round} was saved", RESTORE)


def remove(folder: Path) -> None:
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
