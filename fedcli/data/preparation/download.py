"""Files of a dataset from where its card says they are: said how much, agreed to, then each fetched and checked.

A file is written beside its name and renamed when it is whole; an archive is unpacked beside the folder that it becomes
and removed, but for one that was there before: plain files alone, none outside of it, no more than is declared.
download.json in the folder says what was received. A card's hash is the one that its source publishes, or, where the
card says so, that of copies which others received. Where nobody publishes one, the hash in download.json stands for it:
what is received later must be the same.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import console
from ...errors import NO_ROOM, REFUSED, FedcliError, HashError, UsageError, nearest
from ...io.files import write_text
from ...io.locks import held
from ...shapes import read_json
from ..sources.cards import Fetching, on_disk, size
from .archives import unpack
from .transfer import Remaining, in_words, transfer

RECORD = "download.json"


@dataclass(frozen=True)
class Wanted:
    """Files of one card that shall be in a folder."""

    known: Fetching
    folder: Path
    files: tuple[dict[str, Any], ...]

    @property
    def missing(self) -> list[dict[str, Any]]:
        """Files that are not there yet, whole or not."""
        return [file for file in self.files if not _place(self.folder, file).exists()]


def wanted(known: Fetching, folder: Path, paths: Sequence[str] = ()) -> Wanted:
    """Files of a card by their paths and what belongs with them; none for all. Raises FedcliError, UsageError."""
    files = {file["path"]: file for file in known.files}
    if not known.needed:
        raise UsageError(
            f"{known.name} has nothing to download", f"where its images are from: {known.where}"
        )
    if not files:
        raise FedcliError(
            f"a command cannot download {known.name}, a person has to ask for it", by_hand(known)
        )
    if odd := [path for path in paths if path not in files]:
        raise UsageError(f"{known.name} has no file {odd[0]!r} to download", nearest(odd[0], files))
    chosen = dict.fromkeys(
        name for path in paths or files for name in (path, *files[path].get("beside", ()))
    )
    return Wanted(known, folder, tuple(files[path] for path in chosen))


def by_hand(known: Fetching, then: str = "") -> str:
    """Steps for a person; then: the last."""
    about = f", about {in_words(known.download_bytes)}" if known.download_bytes else ""
    return (
        f"1. get it from {known.where} (licence: {known.licence}{about}); "
        f"2. unpack it into a folder; 3. {then or f'fedcli prepare {known.name} --raw that folder'}"
    )


def download(every: Sequence[Wanted], *, accepted: bool) -> None:
    """Put files into their folders; those that are there and whole are kept.

    accepted: the licences are; on a terminal a person is asked. Raises FedcliError, HashError, UsageError; of a file
    that cannot be had after all others are there.
    """
    for each in every:
        if each.known.rest:
            console.warn(f"{each.known.name}: {each.known.rest.format(folder=each.folder)}")
    once = {_place(each.folder, file): (each, file) for each in every for file in each.missing}
    missing = list(once.values())  # two datasets may share their images
    if missing:
        _say_and_check_space(missing)
        _agree([each.known for each in every if each.missing], accepted)
    faults: dict[str, FedcliError] = {}
    remaining = Remaining()
    for each, file in missing:
        part = _part(each.folder / file["path"])
        remaining.bytes_by_part[str(part)] = size(file) - _kept(each.folder, file)
    for each in every:
        each.folder.mkdir(parents=True, exist_ok=True)
        with held(
            each.folder / ".download.lock",
            f"{each.folder} is being filled",
            "wait for it",
            told=console.say,
        ):
            for file in each.files:
                try:
                    _get(file, each, remaining)
                except FedcliError as fault:  # of one host, which need not be that of the next file
                    faults[f"{file['path']} of {each.known.name}"] = fault
    if not faults:
        return
    first = next(iter(faults.values()))
    if sum(len(each.files) for each in every) == 1:
        raise first
    for each_fault in faults.values():
        console.fail(each_fault.sentence, each_fault.hint)
    missing_of_all = f"{console.counted(len(faults), 'file is', 'files are')} missing: {console.listed([*faults])}"
    raise type(first)(
        missing_of_all,
        "the reason stands above; the same command fetches what is missing, nothing twice",
    )


def received(folder: Path) -> dict[str, Any]:
    """Files received by the folder's record, path -> url, bytes, sha256; nothing where there is no record."""
    hint, path = "remove it: files that are whole are not fetched again", folder / RECORD
    return (
        read_json(path, {str: {"url": str, "bytes": int, "sha256": str}}, hint)
        if path.exists()
        else {}
    )


def _agree(every: Sequence[Fetching], accepted: bool) -> None:
    """Show licences and have them accepted. Raises UsageError."""
    for known in every:
        console.say(f"licence of {known.name}: {known.licence}; cite: {known.citation}")
    if accepted:
        return
    names = console.listed([known.name for known in every])
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"Do you accept the licence of {names}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    hint = "read it, then add --accept-licence; nothing was downloaded"
    raise UsageError(f"the licence of {names} has to be accepted", hint)


def _say_and_check_space(missing: list[tuple[Wanted, dict[str, Any]]]) -> None:
    """Say how much comes, before it does. Raises FedcliError where the disk has no room for it."""
    archives = max((size(file) for _, file in missing if "unpack" in file), default=0)
    kept = sum(_kept(each.folder, file) for each, file in missing)
    coming = sum(size(file) for _, file in missing) - kept
    need = sum(on_disk(file) for _, file in missing) + archives - kept
    place = next(
        p for p in (missing[0][0].folder, *missing[0][0].folder.absolute().parents) if p.is_dir()
    )
    free = shutil.disk_usage(place).free
    console.say(
        f"{in_words(coming)} to download, {in_words(need)} on disk at most; {in_words(free)} are free"
    )
    if need > free:
        hint = "free some space, or give a folder on another disk"
        raise FedcliError(
            f"{in_words(need)} are needed in {place}, where {in_words(free)} are free", hint
        )


def _place(folder: Path, file: dict[str, Any]) -> Path:
    return folder / file.get("unpack", file["path"])


def _part(path: Path) -> Path:
    """The place of a file before it is whole, under a name that no browser gives."""
    return path.with_name(f".{path.name}.part")


def _kept(folder: Path, file: dict[str, Any]) -> int:
    part = _part(folder / file["path"])
    return min(part.stat().st_size, size(file)) if part.is_file() else 0


def _get(file: dict[str, Any], each: Wanted, remaining: Remaining) -> None:
    path, record, target = (
        each.folder / file["path"],
        received(each.folder),
        _place(each.folder, file),
    )
    before, part = record.get(file["path"], {}), _part(path)
    known = {key: value for key, value in {**before, **file}.items() if key in ("md5", "sha256")}
    if target != path and not target.is_dir() and (target.exists() or target.is_symlink()):
        kind = "a link that leads to no folder" if target.is_symlink() else "no folder"
        raise FedcliError(
            f"{target} is {kind}, and the archive becomes a folder of that name",
            "move it away, or give another folder: nothing is overwritten",
        )
    if target != path and target.is_dir():
        checked = "" if before else "; it was not checked, as it was not downloaded by this command"
        console.say(f"already there: {target}{checked}")
        part.unlink(missing_ok=True)
        return
    if there := path.exists():
        digests, odd = _digests(path, known) if path.is_file() else ({}, "")
        if odd or not digests:
            what = f"its {odd} differs" if odd else "it is no plain file"
            raise FedcliError(
                f"{path} is there and is not the file that was published: {what}",
                "move it away, or give another folder: nothing is overwritten",
            )
        console.say(
            f"already there: {path}{'' if known else '; nobody publishes a hash to check it by'}"
        )
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (
            not known and "unpack" not in file
        ):  # its end may be of another version than its beginning
            part.unlink(missing_ok=True)
        transfer(file, part, each.known.redirects, remaining)
        digests, odd = _digests(part, known)
        if odd:
            part.unlink()
            was = "published" if "md5" in file or "sha256" in file else "received before"
            raise HashError(
                f"{file['url']} is not the file that was {was}: its {odd} differs",
                "try again later",
            )
        if target == path:
            os.rename(part, path)
    at = path if there or target == path else part
    entry = {"url": file["url"], "bytes": at.stat().st_size, "sha256": digests["sha256"]}
    if target != path:
        _unpack_once(at, part, target, 2 * on_disk(file))
    if before != entry:
        write_text(
            each.folder / RECORD,
            json.dumps(record | {file["path"]: entry}, indent=1, sort_keys=True) + "\n",
        )


def _unpack_once(archive: Path, part: Path, target: Path, most_bytes: int) -> None:
    """Unpack an archive and remove it where it was downloaded; also a broken one, which would be so the next time too."""
    try:
        unpack(archive, target, most_bytes)
    except OSError as error:
        if error.errno not in (*NO_ROOM, *REFUSED):
            part.unlink(missing_ok=True)
        raise
    except Exception:
        part.unlink(missing_ok=True)
        raise
    part.unlink(missing_ok=True)


def _digests(path: Path, known: dict[str, str]) -> tuple[dict[str, str], str]:
    """SHA-256, and where a source publishes it MD5, which finds damage and not malice; and the kind of hash that is not
    as known, of which some makers publish the first digits, "" for none."""
    digests = {}
    for kind in ("sha256", *(["md5"] if "md5" in known else [])):
        with path.open("rb") as file:
            digests[kind] = hashlib.file_digest(file, kind).hexdigest()
    kinds = {"md5": "MD5", "sha256": "SHA-256"}
    return digests, next(
        (kinds[kind] for kind, value in known.items() if not digests[kind].startswith(value)), ""
    )
