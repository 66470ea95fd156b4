"""The JSON manifests that tie the stages together: who made what, from what, with which hashes.

A manifest holds no clock, no host and no absolute path, and its keys are sorted: the same input
gives the same bytes. Every stage verifies the chain above it before it starts, writes into a
folder of another name and renames that last, so a killed stage leaves nothing half made.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .. import console, shapes
from ..errors import FedcliError, HashError
from ..io.files import flush, flushing, on_one_line, read_text, remembered, sha256, sync, write_text
from ..io.locks import LOCK, is_held, remove_abandoned, renaming, scratch
from ..provenance import other_code
from . import manifest_bodies

Body = dict[str, Any]  # of a manifest
Options = dict[str, Any]  # of a manifest
KINDS = ("dataset", "partition", "corruption", "sites", "run", "scores", "audit")
NAMES = [f"{kind}.json" for kind in KINDS]
AGAIN = "run the stage again that wrote it"
FORMAT = 1  # raised when a reader of an older format would misread a newer one
UNTRUSTED = "do not use a manifest from a source you do not trust"


@dataclass(frozen=True)
class Manifest:
    """One stage's result."""

    kind: str  # one of KINDS
    made_by: list[str]  # the command, without locations
    options: dict[str, Any]  # every flag that decides the bytes, resolved
    parents: dict[str, str]  # path relative to this manifest -> sha256 of the manifest read
    files: dict[str, str]  # path inside this manifest's folder -> sha256 of the file written
    body: dict[str, Any]  # what the stage found: classes, roster, scores
    format: int = FORMAT

    @property
    def text(self) -> str:
        entries = asdict(self)
        text = json.dumps(
            entries,
            indent=1,
            sort_keys=True,
            ensure_ascii=False,
            allow_nan=False,
        )
        return f"{text}\n"


class UnreadableManifest(FedcliError):
    """A file that holds no manifest, of any format."""


Build = Callable[[Path], Body]
KEYS = {f.name for f in fields(Manifest)}


@dataclass(frozen=True)
class Destination:
    """The place of a stage's result."""

    work: Path  # folder of all results
    # folder of this one; None for a name under work that its options and parents give
    out: Path | None = None
    made_by: list[str] = field(default_factory=list)  # the command, without locations


def read(path: Path, *kinds: str, whole: bool = False) -> Manifest:
    """Read a manifest (or the one in a folder), hashes unchecked; whole: no key may be absent.
    Raises FedcliError."""
    return _read(find(path, *kinds), kinds, whole)


@remembered(2048)  # a report looks at each of its manifests tens of times
def _read(path: Path, kinds: tuple[str, ...], whole: bool) -> Manifest:
    """A manifest, not to be written into."""
    hint = "give the .json that a fedcli command printed"
    if path.name in NAMES:
        hint += "; if it is one, restore it, or remove its folder and run the stage again"
    try:
        manifest = _parsed(read_text(path, hint))
    except (FedcliError, ValueError, RecursionError) as error:
        if isinstance(error.__context__, OSError):  # what it holds is not known
            raise
        raise UnreadableManifest(f"{path} is not a fedcli manifest: {error}"[:300], hint) from None
    kind = manifest.kind
    if kind not in KINDS:
        sentence = f"{path} is not a fedcli manifest: its kind is {kind!r}"
        raise FedcliError(sentence, f"known kinds: {', '.join(KINDS)}")
    if manifest.format != FORMAT:
        sentence = f"{path} has manifest format {manifest.format}; this fedcli reads {FORMAT}"
        raise FedcliError(sentence, "make it again with this version")
    if kinds and kind not in kinds:
        sentence = f"{path} is a {kind} manifest; this command reads {' or '.join(kinds)}"
        raise FedcliError(sentence, "give another path, or none to use the newest")
    shapes.check(
        vars(manifest),
        manifest_bodies.shape(kind),
        path,
        AGAIN,
        whole=whole,
    )
    if kind in ("partition", "corruption"):
        _check_class_counts(path, manifest.body)
    return manifest


def _check_class_counts(path: Path, body: Body) -> None:
    """Raises FedcliError where the counts of a client are not one for each class."""
    classes = body.get("classes", [])
    for client in body.get("roster", []):
        if len(client.get("class_counts", classes)) != len(classes):
            sentence = f"{path}: class_counts of {client.get('client')} are not of each class"
            raise FedcliError(sentence, AGAIN)


def _parsed(text: str) -> Manifest:
    """Raises ValueError, RecursionError."""
    entries = json.loads(text)
    if not isinstance(entries, dict) or entries.keys() != KEYS:
        raise ValueError(f"its keys are not {', '.join(sorted(KEYS))}")
    if "\\u" in text:
        unescaped = json.dumps(entries, ensure_ascii=False)
        if "\\u0000" in unescaped:  # which no name of a file has, and no text
            raise ValueError("it holds zero bytes")
        unescaped.encode()  # half of a character cannot be written again
    return Manifest(**entries)


def find(path: Path, *kinds: str) -> Path:
    """The manifest file a path stands for: itself, or the one in a folder."""
    if path.is_dir():
        return _find_in(path, kinds or KINDS)
    if path.is_symlink() and not path.exists():
        sentence = f"{path} is a link to {path.readlink()}, which is not there"
        raise FedcliError(sentence, "restore it, or mount its disk")
    if not path.is_file():
        hint = "give the path of a file or folder; `fedcli ls` lists what there is"
        raise FedcliError(f"no such manifest: {path}", hint)
    return path


def _find_in(folder: Path, kinds: tuple[str, ...]) -> Path:
    paths = [folder / f"{kind}.json" for kind in kinds]
    manifests = [path for path in paths if path.is_file() or path.is_symlink()]
    if len(manifests) == 1:
        return find(manifests[0])
    if (folder / "settings.json").is_file() and not manifests:
        raise FedcliError(f"{folder} holds an unfinished run", next_step(folder))
    if not manifests:
        hint = "give the folder of another result; `fedcli ls` lists what there is"
        raise FedcliError(f"{folder} holds no {' or '.join(path.name for path in paths)}", hint)
    names = ", ".join(path.name for path in manifests)
    sentence = f"{folder} is a folder with no single manifest in it (found: {names})"
    raise FedcliError(sentence, "give the path of the .json itself")


def next_step(folder: Path) -> str:
    """Advice on a folder with a run that has not finished."""
    with contextlib.suppress(OSError, FedcliError):  # a folder that we may only read
        if is_held(folder / LOCK):
            return "it is being trained: wait for it to end; `fedcli ls` shows its rounds"
    return f"go on with: fedcli train --resume --out {folder}"


def verify(path: Path, *kinds: str) -> Manifest:
    """Read a manifest and check every hash in its chain. Raises HashError (exit code 3)."""
    path = find(path, *kinds)
    manifest = read(path, *kinds, whole=True)
    for name in manifest_bodies.FILES.get(manifest.kind, []):
        if name not in manifest.files:
            raise FedcliError(f"{path} does not list {name}", AGAIN)
    if path.name in manifest.files:
        raise FedcliError(f"{path} lists itself", AGAIN)
    for name, digest in manifest.files.items():
        _verify_file(path, name, digest)
    for name, digest in manifest.parents.items():
        parent = _parent(path, name)
        if sha256(parent) != digest:
            sentence = f"{parent} has changed since {path} was made from it"
            raise HashError(sentence, "run the later stages again")
        verify(parent)
    return manifest


def _verify_file(path: Path, name: str, digest: str) -> None:
    """Check a file that the manifest at path lists."""
    file = inside(path.parent, name)
    if not file.is_file():
        sentence = f"{path.name} lists {name}, which is not there ({file})"
        raise FedcliError(sentence, _restore(path))
    if sha256(file) != digest:
        sentence = f"{file} is not the file {path} was written for: its sha256 differs"
        raise HashError(sentence, _restore(path))


def _restore(path: Path) -> str:
    """Advice where a file that the manifest at path lists is lost or changed."""
    if path.name == "run.json":  # hours of training: never replaced unasked
        return f"restore it, or remove {path.parent} and train the run again"
    return "restore it, or run the stage again"


def inside(folder: Path, name: str) -> Path:
    """folder/name, refused if it would leave the folder (also through a link)."""
    target = folder / name
    try:
        leads_out = Path(name).is_absolute() or not target.resolve().is_relative_to(
            folder.resolve()
        )
    except (OSError, RuntimeError):
        hint = "put the file back, or run the stage again"
        raise FedcliError(f"{target} is a link to itself", hint) from None
    if leads_out:
        sentence = f"the manifest in {folder} names a file outside its folder: {name!r}"
        raise FedcliError(sentence, UNTRUSTED)
    return target


def _parent(path: Path, name: str) -> Path:
    parent = Path(os.path.normpath(path.parent / name))
    if Path(name).is_absolute() or parent.name not in NAMES:
        raise FedcliError(f"{path} names a parent that is no manifest: {name!r}", UNTRUSTED)
    if not parent.is_file():
        sentence = f"{path} was made from {parent}, which is not there"
        raise FedcliError(sentence, "keep the folders of a chain together when moving them")
    return parent


def parent(path: Path, *kinds: str) -> Path | None:
    """Path of the nearest ancestor manifest of one of these kinds, or None."""
    path = find(path)
    kind_by_path = {}
    for name in read(path).parents:
        parent_path = _parent(path, name)
        kind_by_path[parent_path] = read(parent_path).kind
    for parent_path, kind in kind_by_path.items():
        if kind in kinds:
            return parent_path
    # a run's own data before its first run's
    for parent_path in sorted(kind_by_path, key=lambda path: kind_by_path[path] == "run"):
        ancestor = parent(parent_path, *kinds)
        if ancestor:
            return ancestor
    return None


def above(path: Path, *kinds: str) -> Path:
    """The manifest itself where it is of one of these kinds, else as parent() finds it. Raises
    FedcliError for none."""
    path = find(path)
    if read(path).kind in kinds:
        return path
    nearest = parent(path, *kinds)
    if nearest is None:
        hint = "make the chain again: prepare, partition, corrupt"
        raise FedcliError(f"{path} has no {' or '.join(kinds)} manifest above it", hint)
    return nearest


def identity(options: Options, parents: list[Path]) -> str:
    """Eight hex digits that name a stage's result: its options and its parents' bytes."""
    hashes = [sha256(path) for path in parents]
    text = json.dumps([options, hashes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def place(
    work: Path,
    out: Path | None,
    kind: str,
    slug: str,
    options: Options,
    parents: list[Path],
) -> Path:
    """The folder of a stage's result: --out, or a name under --work that its options and parents
    give."""
    if of_sample(parents):
        slug = f"{slug[:70]}-SYNTHETIC"
    slug = re.sub(r"[^\w+-]+", "_", slug)  # it may come from a manifest: no path in it
    name = f"{slug[:80]}-{identity(options, parents)}"
    return on_one_line(out or work / f"{kind}s" / name)


def of_sample(parents: list[Path]) -> bool:
    """Tell whether one of these manifests was made from a synthetic sample."""
    return any(read(path).body.get("sample") for path in parents)


def marked(body: Body, parents: list[Path]) -> Body:
    """A body that says where it was made from a synthetic sample."""
    if of_sample(parents):
        return {**body, "sample": True}
    return body


def make(
    kind: str,
    slug: str,
    to: Destination,
    options: Options,
    parents: list[Path],
    build: Build,
) -> Path:
    """Run one stage into the folder that place() gives, see stage()."""
    folder = place(to.work, to.out, kind, slug, options, parents)
    return stage(
        kind,
        folder=folder,
        made_by=to.made_by,
        options=options,
        parents=parents,
        build=build,
    )


def stage(
    kind: str,
    *,
    folder: Path,
    made_by: list[str],
    options: Options,
    parents: list[Path],
    build: Build,
) -> Path:
    """Run one stage into folder and return its manifest's path; an equal result is not made again.

    build(folder) writes the stage's files and returns the manifest's body.
    """
    target = folder / f"{kind}.json"
    if folder.is_symlink() and not folder.exists():
        hint = "give another folder, or remove the link"
        raise FedcliError(f"{folder} is a link that leads nowhere", hint)
    if folder.exists():
        damage = damaged(target, options, parents)
        if not damage:
            reuse(target, options, parents)
            remove_abandoned(folder)
            return target
        console.say(f"{damage}; making it again")
    with scratch(folder) as temporary:
        body = marked(build(temporary), parents)
        with flushing(temporary):
            seal(temporary, Manifest(kind, made_by, options, links(folder, parents), {}, body))
        with renaming(folder):
            if folder.exists() and not damaged(target, options, parents):
                # another process finished the same stage first
                return reuse(target, options, parents)
            _move(temporary, folder, target)
    flush(folder.parent)
    return target


def damaged(target: Path, options: Options, parents: list[Path]) -> str:
    """The file that was lost or changed, where the result at target is the one asked for; "" where
    none was."""
    has_our_name = target.parent.name.endswith(identity(options, parents))
    if not target.is_file():
        return f"{target} is not there" if has_our_name else ""
    try:
        differences = _differences(read(target), options, parents)
    except UnreadableManifest as error:
        if has_our_name:
            return error.sentence
        raise
    if differences:
        return ""
    try:
        verify(target)
    except FedcliError as error:
        return error.sentence
    return ""


def _move(temporary: Path, folder: Path, target: Path) -> None:
    """Put a result where it belongs, in place of a damaged one, whose folder may hold files that
    are not ours.

    The manifest comes last: until then the one before it is there, and says that the result is
        damaged.
    """
    if not folder.exists():
        os.rename(temporary, folder)
        return
    old_files: dict[str, str] = {}
    with contextlib.suppress(FedcliError):  # where the manifest itself is lost or damaged
        old_files = read(target).files
    new_files = read(temporary / target.name).files
    for name in new_files:
        inside(folder, name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary / name, inside(folder, name))
    for name in old_files.keys() - new_files.keys():
        inside(folder, name).unlink(missing_ok=True)
    os.replace(temporary / target.name, target)
    sync(folder)


def _differences(
    old: Manifest,
    options: Options,
    parents: list[Path],
) -> list[str]:
    """The options, code and parents in which a result differs from the requested one."""
    differences = []
    for name in sorted({*old.options, *options} - {"code"}):
        old_value = old.options.get(name)
        value = options.get(name)
        if old_value != value:
            differences.append(f"{name} {old_value!r}, now {value!r}")
    differences += other_code(old.options.get("code", {}), options.get("code", {}))
    hashes = [sha256(path) for path in parents]
    if sorted(old.parents.values()) != sorted(hashes):
        differences.append("the data it was made from")
    return differences


def reuse(target: Path, options: Options, parents: list[Path]) -> Path:
    """The finished result at target if it is the one asked for, else an error."""
    if not target.is_file():
        hint = "give another --out, a folder that is not there yet"
        raise FedcliError(f"{target.parent} is in use and holds no {target.name}", hint)
    differences = _differences(verify(target), options, parents)
    if differences:
        sentence = f"{target.parent} already holds another result ({'; '.join(differences)})"
        flags = "--name or --out" if target.name == "run.json" else "--out"
        raise FedcliError(sentence, f"give another {flags}, or remove that folder")
    console.say(f"already made: {target.parent}")
    with contextlib.suppress(OSError):  # a folder we may only read
        os.utime(target)  # the newest manifest is the one used last
    return target


def named(path: Path) -> dict[str, str]:
    """A file that a person gave, as options record it."""
    return {"name": path.name, "sha256": sha256(path)}


def links(folder: Path, parents: list[Path]) -> dict[str, str]:
    """Parents as a manifest in folder names them."""
    links = {}
    for path in parents:
        relative = os.path.relpath(path.resolve(), folder.resolve())
        links[Path(relative).as_posix()] = sha256(path)
    return links


def seal(
    folder: Path,
    manifest: Manifest,
    outside: tuple[str, ...] = (),
) -> Path:
    """Hash every file in folder into the manifest and write it there; `outside`, locks and
    half-written files are no part of the result."""
    target = folder / f"{manifest.kind}.json"
    files = {}
    for path in sorted(folder.rglob("*")):
        if path == target or not path.is_file():
            continue
        name = path.relative_to(folder)
        is_unfinished = path.name.startswith(".") or path.suffix == ".tmp"
        if not is_unfinished and not set(outside).intersection(name.parts):
            files[name.as_posix()] = sha256(path)
    write_text(target, replace(manifest, files=files).text)
    return target
