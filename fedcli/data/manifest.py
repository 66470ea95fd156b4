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
from ..io.locks import remove_abandoned, renaming, scratch
from ..provenance import other_code
from . import manifest_bodies

KINDS = ("dataset", "partition", "corruption", "sites", "run", "scores", "audit")
AGAIN = "run the stage again that wrote it"
FORMAT = 1  # raised when a reader of an older format would misread a newer one


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
        return (
            json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
            + "\n"
        )


Body = dict[str, Any]  # of a manifest
Build = Callable[[Path], Body]
KEYS = {f.name for f in fields(Manifest)}


@dataclass(frozen=True)
class Destination:
    """The place of a stage's result."""

    work: Path  # folder of all results
    out: Path | None = (
        None  # folder of this one; None for a name under work that its options and parents give
    )
    made_by: list[str] = field(default_factory=list)  # the command, without locations


def read(path: Path, *kinds: str, whole: bool = False) -> Manifest:
    """Read a manifest (or the one in a folder), hashes unchecked; whole: no key may be absent. Raises FedcliError."""
    return _read(find(path, *kinds), kinds, whole)


@remembered(2048)  # a report looks at each of its manifests tens of times
def _read(path: Path, kinds: tuple[str, ...], whole: bool) -> Manifest:
    """A manifest, not to be written into."""
    hint = "give the .json that a fedcli command printed"
    try:
        raw = json.loads(text := read_text(path, hint))
        if not isinstance(raw, dict) or raw.keys() != KEYS:
            raise ValueError(f"its keys are not {', '.join(sorted(KEYS))}")
        if "\\u" in text:
            if "\\u0000" in json.dumps(
                raw, ensure_ascii=False
            ):  # which no name of a file has, and no text
                raise ValueError("it holds zero bytes")
            json.dumps(
                raw, ensure_ascii=False
            ).encode()  # half of a character cannot be written again
        known = Manifest(**raw)
    except (FedcliError, ValueError, RecursionError) as error:
        if isinstance(error.__context__, OSError):  # what it holds is not known
            raise
        raise FedcliError(f"{path} is not a fedcli manifest: {error}"[:300], hint) from None
    if known.kind not in KINDS:
        what = f"{path} is not a fedcli manifest: its kind is {known.kind!r}"
        raise FedcliError(what, f"known kinds: {', '.join(KINDS)}")
    if known.format != FORMAT:
        what = f"{path} has manifest format {known.format}; this fedcli reads {FORMAT}"
        raise FedcliError(what, "make it again with this version")
    if kinds and known.kind not in kinds:
        what = f"{path} is a {known.kind} manifest; this command reads {' or '.join(kinds)}"
        raise FedcliError(what, "give another path, or none to use the newest")
    shapes.check(vars(known), manifest_bodies.shape(known.kind), path, AGAIN, whole=whole)
    return known


def find(path: Path, *kinds: str) -> Path:
    """The manifest file a path stands for: itself, or the one in a folder."""
    if path.is_dir():
        known = [path / f"{kind}.json" for kind in (kinds or KINDS)]
        inside = [file for file in known if file.is_file() or file.is_symlink()]
        if len(inside) == 1:
            return find(inside[0])
        if (path / "settings.json").is_file() and not inside:
            raise FedcliError(
                f"{path} holds an unfinished run", f"go on with: fedcli train --resume --out {path}"
            )
        names = ", ".join(p.name for p in inside) or "none"
        raise FedcliError(
            f"{path} is a folder with no single manifest in it (found: {names})",
            "give the path of the .json itself",
        )
    if path.is_symlink() and not path.exists():
        raise FedcliError(
            f"{path} is a link to {path.readlink()}, which is not there",
            "restore it, or mount its disk",
        )
    if not path.is_file():
        raise FedcliError(
            f"no such manifest: {path}",
            "give the path of a file or folder; `fedcli ls` lists what there is",
        )
    return path


def verify(path: Path, *kinds: str) -> Manifest:
    """Read a manifest and check every hash in its chain. Raises HashError (exit code 3)."""
    path = find(path, *kinds)
    manifest = read(path, *kinds, whole=True)
    if absent := [
        name for name in manifest_bodies.FILES.get(manifest.kind, []) if name not in manifest.files
    ]:
        raise FedcliError(f"{path} does not list {absent[0]}", AGAIN)
    if path.name in manifest.files:
        raise FedcliError(f"{path} lists itself", AGAIN)
    for name, digest in manifest.files.items():
        file = inside(path.parent, name)
        if not file.is_file():
            raise FedcliError(
                f"{path.name} lists {name}, which is not there ({file})",
                "restore the file or run the stage again",
            )
        if sha256(file) != digest:
            raise HashError(
                f"{file} is not the file {path} was written for: its sha256 differs",
                "restore it, or run the stage again",
            )
    for name, digest in manifest.parents.items():
        parent = _parent(path, name)
        if sha256(parent) != digest:
            raise HashError(
                f"{parent} has changed since {path} was made from it", "run the later stages again"
            )
        verify(parent)
    return manifest


def inside(folder: Path, name: str) -> Path:
    """folder/name, refused if it would leave the folder (also through a link)."""
    target = folder / name
    try:
        leads_out = Path(name).is_absolute() or not target.resolve().is_relative_to(
            folder.resolve()
        )
    except (OSError, RuntimeError):
        raise FedcliError(
            f"{target} is a link to itself", "put the file back, or run the stage again"
        ) from None
    if leads_out:
        raise FedcliError(
            f"the manifest in {folder} names a file outside its folder: {name!r}",
            "do not use a manifest from a source you do not trust",
        )
    return target


def _parent(path: Path, name: str) -> Path:
    parent = Path(os.path.normpath(path.parent / name))
    if Path(name).is_absolute() or parent.name not in {f"{kind}.json" for kind in KINDS}:
        raise FedcliError(
            f"{path} names a parent that is no manifest: {name!r}",
            "do not use a manifest from a source you do not trust",
        )
    if not parent.is_file():
        raise FedcliError(
            f"{path} was made from {parent}, which is not there",
            "keep the folders of a chain together when moving them",
        )
    return parent


def parent(path: Path, *kinds: str) -> Path | None:
    """Path of the nearest ancestor manifest of one of these kinds, or None."""
    path = find(path)
    parents = [(read(p), p) for p in (_parent(path, name) for name in read(path).parents)]
    for manifest, p in parents:
        if manifest.kind in kinds:
            return p
    for _, p in sorted(
        parents, key=lambda pair: pair[0].kind == "run"
    ):  # a run's own data before its first run's
        if further := parent(p, *kinds):
            return further
    return None


def above(path: Path, *kinds: str) -> Path:
    """The manifest itself where it is of one of these kinds, else as parent() finds it. Raises FedcliError for none."""
    path = find(path)
    nearest = path if read(path).kind in kinds else parent(path, *kinds)
    if nearest is None:
        hint = "make the chain again: prepare, partition, corrupt"
        raise FedcliError(f"{path} has no {' or '.join(kinds)} manifest above it", hint)
    return nearest


def identity(options: dict[str, Any], parents: list[Path]) -> str:
    """Eight hex digits that name a stage's result: its options and its parents' bytes."""
    text = json.dumps([options, [sha256(p) for p in parents]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def place(
    work: Path, out: Path | None, kind: str, slug: str, options: dict[str, Any], parents: list[Path]
) -> Path:
    """The folder of a stage's result: --out, or a name under --work that its options and parents give."""
    slug = f"{slug[:70]}-SYNTHETIC" if of_sample(parents) else slug
    slug = re.sub(r"[^\w+-]+", "_", slug)  # it may come from a manifest: no path in it
    return on_one_line(out or work / f"{kind}s" / f"{slug[:80]}-{identity(options, parents)}")


def of_sample(parents: list[Path]) -> bool:
    """Tell whether one of these manifests was made from a synthetic sample."""
    return any(read(path).body.get("sample") for path in parents)


def marked(body: dict[str, Any], parents: list[Path]) -> dict[str, Any]:
    """A body that says where it was made from a synthetic sample."""
    return body | ({"sample": True} if of_sample(parents) else {})


def make(
    kind: str,
    slug: str,
    to: Destination,
    options: dict[str, Any],
    parents: list[Path],
    build: Build,
) -> Path:
    """Run one stage into the folder that place() gives, see stage()."""
    folder = place(to.work, to.out, kind, slug, options, parents)
    return stage(
        kind, folder=folder, made_by=to.made_by, options=options, parents=parents, build=build
    )


def stage(
    kind: str,
    *,
    folder: Path,
    made_by: list[str],
    options: dict[str, Any],
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
        if not (why := damaged(target, options, parents)):
            made = reuse(target, options, parents)
            remove_abandoned(folder)
            return made
        console.say(f"{why}; making it again")
    with scratch(folder) as temporary:
        body = marked(build(temporary), parents)
        with flushing(temporary):
            seal(temporary, Manifest(kind, made_by, options, links(folder, parents), {}, body))
        with renaming(folder):
            if folder.exists() and not damaged(target, options, parents):
                return reuse(
                    target, options, parents
                )  # another process finished the same stage first
            _move(temporary, folder, target)
    flush(folder.parent)
    return target


def damaged(target: Path, options: dict[str, Any], parents: list[Path]) -> str:
    """The file that was lost or changed, where the result at target is the one asked for; "" where none was."""
    if not target.is_file() or _other(read(target), options, parents):
        return ""
    try:
        verify(target)
    except FedcliError as error:
        return error.sentence
    return ""


def _move(made: Path, folder: Path, target: Path) -> None:
    """Put a result where it belongs, in place of a damaged one, whose folder may hold files that are not ours.

    The manifest comes last: until then the one before it is there, and says that the result is damaged.
    """
    if not folder.exists():
        os.rename(made, folder)
        return
    before, now = read(target).files, read(made / target.name).files
    for name in now:
        inside(folder, name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(made / name, inside(folder, name))
    for name in before.keys() - now.keys():
        inside(folder, name).unlink(missing_ok=True)
    os.replace(made / target.name, target)
    sync(folder)


def _other(old: Manifest, options: dict[str, Any], parents: list[Path]) -> list[str]:
    """In what a result differs from the one asked for."""
    keys = [
        k
        for k in sorted({*old.options, *options})
        if k != "code" and old.options.get(k) != options.get(k)
    ]
    named = [f"{k} {old.options.get(k)!r}, now {options.get(k)!r}" for k in keys]
    named += other_code(old.options.get("code", {}), options.get("code", {}))
    same_parents = sorted(old.parents.values()) == sorted(sha256(p) for p in parents)
    return named + ([] if same_parents else ["the data it was made from"])


def reuse(target: Path, options: dict[str, Any], parents: list[Path]) -> Path:
    """The finished result at target if it is the one asked for, else an error."""
    if not target.is_file():
        hint = "give another --out, a folder that is not there yet"
        raise FedcliError(f"{target.parent} is in use and holds no {target.name}", hint)
    if differing := _other(verify(target), options, parents):
        raise FedcliError(
            f"{target.parent} already holds another result ({'; '.join(differing)})",
            f"give another {'--name or ' * (target.name == 'run.json')}--out, or remove that folder",
        )
    console.say(f"already made: {target.parent}")
    with contextlib.suppress(OSError):  # a folder we may only read
        os.utime(target)  # the newest manifest is the one used last
    return target


def named(path: Path) -> dict[str, str]:
    """A file that a person gave, as options record it."""
    return {"name": path.name, "sha256": sha256(path)}


def links(folder: Path, parents: list[Path]) -> dict[str, str]:
    """Parents as a manifest in folder names them."""
    return {
        Path(os.path.relpath(p.resolve(), folder.resolve())).as_posix(): sha256(p) for p in parents
    }


def seal(folder: Path, manifest: Manifest, outside: tuple[str, ...] = ()) -> Path:
    """Hash every file in folder into the manifest and write it there; `outside`, locks and half-written files are no
    part of the result."""
    path = folder / f"{manifest.kind}.json"
    files = {
        p.relative_to(folder).as_posix(): sha256(p)
        for p in sorted(folder.rglob("*"))
        if p.is_file()
        and p != path
        and not p.name.startswith(".")
        and p.suffix != ".tmp"
        and not {*outside}.intersection(p.relative_to(folder).parts)
    }
    write_text(path, replace(manifest, files=files).text)
    return path
