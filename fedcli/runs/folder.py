"""The folder of a training: what it was begun with, who holds it, and its lines."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import shapes
from ..data import last_used
from ..errors import FedcliError, HashError
from ..federation import state as states
from ..io.files import read_text, write_text
from ..io.locks import held
from ..options import Source
from ..provenance import other_code

PATH = (str, None)
CODE = {str: {str: str}}  # half of a method -> where it comes from
SETTINGS = {
    "options": {"method": str, "rounds": int, "settings": dict, "code?": CODE},
    "environment": {"device": str, "threads": int},
    "data": str, "data_path": str, "weights": PATH, "teacher": PATH, "then": PATH, "device?": str, "sha256": str,
}  # fmt: skip


def unfinished(work: Path, out: Path | None) -> Path:
    """The run folder to resume: --out, or the newest unfinished one under --work."""
    begun = [path.parent for path in work.glob("runs/*/settings.json") if not (path.parent / "run.json").exists()]
    folders = [folder for folder in ([out] if out else begun) if (folder / "settings.json").is_file()]
    if not folders:
        last_used.check_open(out or work)
        raise FedcliError(
            f"no unfinished run in {out or work}",
            "start one with fedcli train METHOD; a second stage (--then) goes on by giving its whole command again",
        )
    return max(folders, key=lambda folder: last_used.age(folder / "settings.json"))


def seen_from(folder: Path, path: Source | None) -> str | None:
    """A path as the folder sees it, so that both may move together; what is no path (imagenet) stays as it is."""
    if path is None or not Path(path).exists():
        return None if path is None else str(path)
    return Path(os.path.relpath(Path(path).resolve(), folder.resolve())).as_posix()


def seen_back(folder: Path, path: str | None) -> str | None:
    """The path that seen_from() was given, as this process can open it."""
    return str(folder / path) if path and (folder / path).exists() else path


def precision(folder: Path) -> str:
    """In which precision a run folder was begun; "" where it holds none."""
    return asked(folder)["options"].get("precision", "") if (folder / "settings.json").is_file() else ""


def asked(folder: Path) -> dict[str, Any]:
    """settings.json of a run folder. Raises FedcliError if it is damaged, HashError if it was changed."""
    path = folder / "settings.json"
    again = "remove its folder and train again"
    try:
        asked = json.loads(read_text(path, again))
    except (ValueError, RecursionError):
        raise FedcliError(f"{path} is damaged", again) from None
    shapes.check(asked, SETTINGS, f"{path} is damaged", again)
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
def claimed(folder: Path) -> Iterator[None]:
    """Hold the run folder, so that two processes never train into one."""
    with held(folder / ".lock", f"another process is training into {folder}", "wait for it, or give another --out"):
        if links := [folder / name for name in ("state", "models") if (folder / name).is_symlink()]:
            raise FedcliError(f"{links[0]} is a link out of the folder of the run", "remove it, or give another --out")
        yield


def settle(folder: Path, settings: dict[str, Any], *, resume: bool, force: bool) -> list[str]:
    """Compare with what the folder was begun with; returns what --force overrode."""
    path = folder / "settings.json"
    if not path.exists():
        if strange := [p.name for p in folder.iterdir() if p.name != ".lock" and p.suffix != ".tmp"]:
            raise FedcliError(f"{folder} holds other files ({strange[0]})", "give another --out, or remove that folder")
        sealed = {**settings, "sha256": _digest(settings)}
        write_text(path, json.dumps(sealed, indent=1, sort_keys=True) + "\n")
        return []
    old = asked(folder)
    differing = differences(old, settings)
    if not resume:
        done = states.saved(folder / "state")
        at = (
            f"after round {int(done[-1].stem)} of {old['options']['rounds']}"
            if done
            else "before its first round ended"
        )
        hint = (
            "add --resume to go on, or give another --out"
            if not differing
            else "give another --out, or remove that folder"
        )
        raise FedcliError(f"{folder} holds an unfinished run, stopped {at}", hint)
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
