"""fedcli rm."""

import secrets
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..io.locks import LOCK, is_held
from ..options import Flag
from .shell import common as o

RECORDS = "run.json", "settings.json"  # of a finished run, and of one that is not
Runs = Annotated[
    Sequence[str],
    "folders of runs, by path or by name as `fedcli ls` shows it",
    Flag("RUN", argument=True, local=True, access="reads"),
]
Yes = Annotated[bool, "remove without asking", Flag(local=True, access="typed")]


def rm(runs: Runs = (), yes: Yes = False, work: o.Work = o.DEFAULT_WORK) -> None:
    """Remove runs, with their models and scores.

    A run is not removed if it is outside of --work, if another run continues from it, or if a
    process is training it. Datasets and partitions are not removed either: delete their folders
    yourself.

    Examples: fedcli rm fedavg-9122e042; fedcli rm fedavg-9122e042 fedheal-51c3f0a7 --yes
    """
    if not runs:
        raise UsageError("give the runs to remove", "`fedcli ls` lists them")
    folders = list(dict.fromkeys(_folder(run, work) for run in runs))
    for folder in folders:
        _check(folder, folders, work)
    _confirm(folders, agreed=yes)
    for folder in folders:
        # at once, so that no half of a run is left where this process is killed
        removed = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
        folder.rename(removed)
        shutil.rmtree(removed)
        console.result(str(folder))


def _folder(run: str, work: Path) -> Path:
    """The folder of a run. Raises FedcliError."""
    named = work / "runs" / run
    path = Path(run)
    if "/" not in run and named.is_dir():
        path = named
    if path.name in RECORDS:
        path = path.parent
    if any((path / record).is_file() for record in RECORDS):
        return path
    folders = [folder.name for folder in (work / "runs").glob("[!.]*")]
    hint = nearest(run, folders) if folders else f"nothing is under {work / 'runs'}"
    raise FedcliError(f"{run} is no run", hint)


def _check(folder: Path, folders: Sequence[Path], work: Path) -> None:
    """Raises FedcliError for a run that may not be removed. folders: all that are."""
    real_folder = folder.resolve()
    if folder.is_symlink() or real_folder.parent != (work / "runs").resolve():
        hint = f"give --work, or remove it yourself: rm -r {folder}"
        raise FedcliError(f"{folder} is no folder in {work / 'runs'}", hint)
    if is_held(folder / LOCK):
        raise FedcliError(f"a process is training into {folder}", "wait for it, or stop it")
    removed = {other.resolve() for other in folders}
    for record in sorted((work / "runs").glob("[!.]*/run.json")):
        user = record.parent
        if user.resolve() not in removed and real_folder in _runs_before(record):
            hint = f"remove {user} too, or keep both"
            raise FedcliError(f"{user} goes on from {folder}, and names it", hint)


def _runs_before(record: Path) -> set[Path]:
    """The folders of the runs that a run was made from; none of a record that cannot be read."""
    from ..data import manifest

    try:
        parents = manifest.read(record, "run").parents
    except FedcliError as error:
        console.warn(f"{record.parent}: {error.sentence}")
        return set()
    return {(record.parent / parent).resolve().parent for parent in parents}


def _confirm(folders: Sequence[Path], *, agreed: bool) -> None:
    """Ask whoever types. Raises UsageError where nobody agrees."""
    if agreed:
        return
    sizes = [path.stat().st_size for folder in folders for path in folder.rglob("*")]
    count = console.counted(len(folders), "run", "runs")
    names = console.listed([folder.name for folder in folders])
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f"Remove {count} ({names}), {sum(sizes) / 1e6:.1f} MB? [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError("nothing was removed", "add --yes to remove without a question")
