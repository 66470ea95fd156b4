"""The result of a kind that was made or used last, which a command takes where it is given no
path."""

import os
import time
from pathlib import Path

from .. import console
from ..errors import ACCESS, FedcliError
from . import manifest, not_chosen

MADE_BY = {
    "dataset": "`fedcli prepare NAME`",
    "partition": "`fedcli prepare NAME` and then `fedcli partition`",
    "corruption": "`fedcli corrupt gaussian`",
    "sites": "`fedcli train METHOD --sites FILE`",
    "run": "`fedcli train METHOD`",
    "scores": "`fedcli evaluate`",
    "audit": "`fedcli audit`",
}
STEPS = list(MADE_BY)  # in the order in which one is made from another
SLACK = 60 * 10**9  # nanoseconds by which the clock of a file server may be ahead


def every(folder: Path, kind: str) -> list[Path]:
    """The manifests of a kind in the folders of this one; one that is a broken link is among them,
    so that it is read and complained of, where Path.glob() would leave it out. One that may not be
    entered is named."""
    folders = sorted(folder.glob("*"))
    for path in closed(folder, *folders):
        console.warn(f"left out {path}: Permission denied")
    manifests = [path / f"{kind}.json" for path in folders]
    return [path for path in manifests if os.path.lexists(path)]


def closed(*paths: Path) -> list[Path]:
    """The folders among paths that this process may not enter: Path.glob() passes over them in
    silence."""
    closed_folders = []
    for path in paths:
        try:
            if path.is_dir():
                os.scandir(path).close()
                (path / ".").stat()
        except PermissionError:
            closed_folders.append(path)
    return closed_folders


def newest(work: Path, *kinds: str) -> Path:
    """The manifest of these kinds that was made or used last under the work folder, and is not of a
    run that a sweep did not choose; a link counts wherever it leads."""
    paths = []
    for path in work.glob("**/*.json"):
        if path.stem in kinds and ".tmp" not in str(path.relative_to(work)):
            paths.append(path)
    if paths:
        return max(not_chosen.without(paths, work), key=age)
    check_open(work)
    begun = sorted(work.glob("runs/*/settings.json"))
    if "run" in kinds and begun:
        hint = f"of {begun[-1].parent}: {manifest.next_step(begun[-1].parent)}"
        raise FedcliError(f"no run under {work} is finished", hint)
    if set(kinds) >= {"dataset", "run"}:
        raise FedcliError(f"nothing is under {work}", f"make a dataset with {MADE_BY['dataset']}")
    hint = f"make one with {MADE_BY[kinds[-1]]}, or give its path"
    raise FedcliError(f"no {' or '.join(kinds)} manifest under {work}", hint)


def unfinished(runs: Path) -> list[Path]:
    """The settings.json of each run in a folder that has not finished, the one used last at the
    end."""
    paths = runs.glob("*/settings.json")
    return sorted((path for path in paths if not (path.parent / "run.json").exists()), key=age)


def check_open(work: Path) -> None:
    """Raises FedcliError where what is missed may lie in a folder that this process may not
    enter."""
    closed_folders = closed(work, *work.glob("*"), *work.glob("*/*"))
    if closed_folders:
        raise FedcliError(f"Permission denied: {closed_folders[0]}", ACCESS)


def age(path: Path) -> tuple[int, int, str]:
    """A key that sorts results by when they were made or used last: a link by its own time, as it
    may lead anywhere.

    What another process has just removed comes first, and so does a time in the future, which a
    wrong clock left. Where
    file times are whole seconds, a chain may be made within one: what is made from the other comes
        later.
    """
    try:
        changed = path.lstat().st_mtime_ns
    except FileNotFoundError:
        changed = -1
    if changed > time.time_ns() + SLACK:
        changed = 0
    step = STEPS.index(path.stem) if path.stem in STEPS else -1
    return changed, step, str(path)
