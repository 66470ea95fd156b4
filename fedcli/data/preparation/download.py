"""Files of a dataset from where its card says they are: said how much, agreed to, then each fetched
and checked.

A file is written beside its name and renamed when it is whole; an archive is unpacked beside the
folder that it becomes and removed, but for one that was there before: plain files alone, none
outside of it, no more than is declared. download.json in the folder says what was received. A
card's hash is the one that its source publishes, or, where the card says so, that of copies which
others received. Where nobody publishes one, the hash in download.json stands for it: what is
received later must be the same.
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
OVERWRITTEN = "move it away, or give another folder: nothing is overwritten"
KINDS = {"md5": "MD5", "sha256": "SHA-256"}  # of hashes
File = dict[str, Any]  # as a card declares it


@dataclass(frozen=True)
class Wanted:
    """Files of one card that shall be in a folder."""

    known: Fetching
    folder: Path
    files: tuple[File, ...]

    @property
    def missing(self) -> list[File]:
        """Files that are not there yet, whole or not."""
        return [file for file in self.files if not _place(self.folder, file).exists()]


def wanted(card: Fetching, folder: Path, paths: Sequence[str] = ()) -> Wanted:
    """Files of a card by their paths and what belongs with them; none for all. Raises FedcliError,
    UsageError."""
    name = card.name
    if not card.needed:
        raise UsageError(
            f"{name} has nothing to download", f"where its images are from: {card.where}"
        )
    files = {file["path"]: file for file in card.files}
    if not files:
        sentence = f"no command can download {name}: you have to request it"
        raise FedcliError(sentence, by_hand(card))
    chosen: dict[str, File] = {}
    for path in paths or files:
        if path not in files:
            sentence = f"{name} has no file {path!r} to download"
            raise UsageError(sentence, nearest(path, files))
        chosen[path] = files[path]
        for beside in files[path].get("beside", ()):
            chosen[beside] = files[beside]
    return Wanted(card, folder, tuple(chosen.values()))


def by_hand(card: Fetching, last_step: str = "") -> str:
    """Steps for a person."""
    licence = f"licence: {card.licence}"
    if card.download_bytes:
        licence += f", about {in_words(card.download_bytes)}"
    last_step = last_step or f"fedcli prepare {card.name} --raw that folder"
    return f"1. get it from {card.where} ({licence}); 2. unpack it into a folder; 3. {last_step}"


def download(requests: Sequence[Wanted], *, accepted: bool) -> None:
    """Put files into their folders; those that are there and whole are kept.

    accepted: the licences are; on a terminal a person is asked. Raises FedcliError, HashError,
    UsageError; of a file that cannot be had after all others are there.
    """
    for request in requests:
        if request.known.rest:
            rest = request.known.rest.format(folder=request.folder)
            console.warn(f"{request.known.name}: {rest}")
    missing = _missing(requests)
    if missing:
        _say_and_check_space(missing)
        _agree([request.known for request in requests if request.missing], accepted)
    remaining = Remaining()
    for folder, file in missing:
        part = _part(folder / file["path"])
        remaining.bytes_by_part[str(part)] = size(file) - _bytes_of_part(folder, file)
    faults: dict[str, FedcliError] = {}
    for request in requests:
        folder = request.folder
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder / ".download.lock"
        with held(lock, f"{folder} is being filled", "wait for it", tell=console.say):
            for file in request.files:
                try:
                    _get(file, request, remaining)
                except FedcliError as fault:  # of one host, which need not be that of the next file
                    faults[f"{file['path']} of {request.known.name}"] = fault
    if faults:
        count = sum(len(request.files) for request in requests)
        raise _fault_of_all(faults, count)


def _missing(requests: Sequence[Wanted]) -> list[tuple[Path, File]]:
    """Folders and files that are not there yet; two datasets may share their images."""
    missing: dict[Path, tuple[Path, File]] = {}
    for request in requests:
        for file in request.missing:
            missing[_place(request.folder, file)] = (request.folder, file)
    return list(missing.values())


def _fault_of_all(faults: dict[str, FedcliError], count: int) -> FedcliError:
    """The only fault of the only file; of more files one about all, whose reasons are said before.

    count: files in all.
    """
    fault = next(iter(faults.values()))
    if count == 1:
        return fault
    for fault_of_file in faults.values():
        console.fail(fault_of_file.sentence, fault_of_file.hint)
    files = console.counted(len(faults), "file is", "files are")
    hint = "the reason is printed above; the same command fetches what is missing, nothing twice"
    return type(fault)(f"{files} missing: {console.listed([*faults])}", hint)


def received(folder: Path) -> dict[str, Any]:
    """Files received by the folder's record, path -> url, bytes, sha256; nothing where there is no
    record."""
    path = folder / RECORD
    if not path.exists():
        return {}
    shape = {str: {"url": str, "bytes": int, "sha256": str}}
    return read_json(
        path,
        shape,
        "remove it: files that are whole are not fetched again",
    )


def _agree(cards: Sequence[Fetching], accepted: bool) -> None:
    """Show licences and have them accepted. Raises UsageError."""
    for card in cards:
        console.say(f"licence of {card.name}: {card.licence}; cite: {card.citation}")
    if accepted:
        return
    names = console.listed([card.name for card in cards])
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(
            f"Do you accept the licence of {names}? [y/N] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    hint = "read it, then add --accept-licence; nothing was downloaded"
    raise UsageError(f"the licence of {names} has to be accepted", hint)


def _say_and_check_space(missing: list[tuple[Path, File]]) -> None:
    """Say how much comes, before it does. Raises FedcliError where the disk has no room for it."""
    largest_archive = 0
    coming = 0
    needed = 0
    for folder, file in missing:
        received_bytes = _bytes_of_part(folder, file)
        coming += size(file) - received_bytes
        needed += on_disk(file) - received_bytes
        if "unpack" in file:
            largest_archive = max(largest_archive, size(file))
    needed += largest_archive
    folder, _ = missing[0]
    existing = _existing(folder)
    need = in_words(needed)
    free_bytes = shutil.disk_usage(existing).free
    free = in_words(free_bytes)
    console.say(f"{in_words(coming)} to download, {need} on disk at most; {free} are free")
    if needed > free_bytes:
        hint = "free some space, or give a folder on another disk"
        raise FedcliError(f"{need} are needed in {existing}, where {free} are free", hint)


def _existing(folder: Path) -> Path:
    """A folder, or the nearest one above it that is there."""
    if folder.is_dir():
        return folder
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _place(folder: Path, file: File) -> Path:
    if "unpack" in file:
        return folder / file["unpack"]
    return folder / file["path"]


def _part(path: Path) -> Path:
    """The place of a file before it is whole, under a name that no browser gives."""
    return path.with_name(f".{path.name}.part")


def _bytes_of_part(folder: Path, file: File) -> int:
    """Bytes of a file that an earlier download received."""
    part = _part(folder / file["path"])
    return min(part.stat().st_size, size(file)) if part.is_file() else 0


def _get(file: File, request: Wanted, remaining: Remaining) -> None:
    path = request.folder / file["path"]
    target = _place(request.folder, file)
    record = received(request.folder)
    before = record.get(file["path"], {})
    hashes = {}
    for kind, value in {**before, **file}.items():
        if kind in ("md5", "sha256"):
            hashes[kind] = value
    part = _part(path)
    if target != path:
        _check_target(target)
        if target.is_dir():
            unchecked = "; it was not checked, as it was not downloaded by this command"
            console.say(f"already there: {target}{'' if before else unchecked}")
            part.unlink(missing_ok=True)
            return
    if path.exists():
        archive = path
        digest = _check_existing(path, hashes)
    else:
        archive = part
        path.parent.mkdir(parents=True, exist_ok=True)
        # its end may be of another version than its beginning
        if not hashes and "unpack" not in file:
            part.unlink(missing_ok=True)
        transfer(file, part, request.known.redirects, remaining)
        digest = _check_received(file, part, hashes)
        if target == path:
            os.rename(part, path)
            archive = path
    entry = {
        "url": file["url"],
        "bytes": archive.stat().st_size,
        "sha256": digest,
    }
    if target != path:
        _unpack_once(archive, part, target, 2 * on_disk(file))
    if before != entry:
        record[file["path"]] = entry
        text = json.dumps(record, indent=1, sort_keys=True)
        write_text(request.folder / RECORD, f"{text}\n")


def _check_target(target: Path) -> None:
    """Refuse to unpack an archive to what is no folder."""
    if target.is_dir() or not (target.exists() or target.is_symlink()):
        return
    kind = "a link that leads to no folder" if target.is_symlink() else "no folder"
    sentence = f"{target} is {kind}, and the archive becomes a folder of that name"
    raise FedcliError(sentence, OVERWRITTEN)


def _check_existing(path: Path, hashes: dict[str, str]) -> str:
    """The SHA-256 of a file that was there before. Raises FedcliError where it is another one."""
    problem = "it is no plain file"
    digest = ""
    if path.is_file():
        digest, differing = _digest(path, hashes)
        problem = f"its {differing} differs" if differing else ""
    if problem:
        sentence = f"{path} exists, but is not the published file: {problem}"
        raise FedcliError(sentence, OVERWRITTEN)
    unchecked = "" if hashes else "; nobody publishes a hash to check it by"
    console.say(f"already there: {path}{unchecked}")
    return digest


def _check_received(file: File, part: Path, hashes: dict[str, str]) -> str:
    """The SHA-256 of a file that was downloaded. Raises HashError, and removes it, where it is
    another one."""
    digest, differing = _digest(part, hashes)
    if differing:
        part.unlink()
        earlier = "published" if "md5" in file or "sha256" in file else "received before"
        sentence = f"{file['url']} is not the file that was {earlier}: its {differing} differs"
        raise HashError(sentence, "try again later")
    return digest


def _unpack_once(
    archive: Path,
    part: Path,
    target: Path,
    most_bytes: int,
) -> None:
    """Unpack an archive and remove it where it was downloaded; also a broken one, which would be so
    the next time too."""
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


def _digest(path: Path, hashes: dict[str, str]) -> tuple[str, str]:
    """The SHA-256 of a file, and the kind of hash that is not the known one, "" for none.

    MD5, where a source publishes it, finds damage and not malice. Of a hash some makers publish the
    first digits.
    """
    digests = {"sha256": _hashed(path, "sha256")}
    if "md5" in hashes:
        digests["md5"] = _hashed(path, "md5")
    for kind, value in hashes.items():
        if not digests[kind].startswith(value):
            return digests["sha256"], KINDS[kind]
    return digests["sha256"], ""


def _hashed(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
