"""fedcli inspect."""

import json as text
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import terminal
from ..errors import FedcliError, UsageError
from . import options as o

PARTS = "train", "val", "test"
SPLITTING = "dataset", "partition"  # kinds that say what trains and what tests
HOLDING = *SPLITTING, "corruption"  # kinds that say who holds what
CLASS = "class"
CALLED = {"scores": "scores", "unfinished run": "an unfinished run", "HDF5": "an HDF5 file"}


def inspect(
    path: Annotated[
        str | None,
        typer.Argument(help="manifest, its folder, or an HDF5 file; default: the newest manifest under --work"),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="exit code 1 if train and test share a patient, lesion or image; default: of the newest dataset or "
            "partition",
        ),
    ] = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Show what a manifest, shard or run holds, after checking every hash above it (exit code 3 if one differs).

    For a dataset and a partition also which patients, lesions or identical images train and test share.
    """
    from ..data import manifest

    target = Path(path) if path and path != "-" else None
    if target and target.suffix == ".h5":
        found = _h5(target)
    elif target and target.is_dir() and (target / "settings.json").is_file() and not (target / "run.json").is_file():
        found = _unfinished(target)
    else:
        kinds = SPLITTING if strict and path is None else manifest.KINDS
        found = _manifest(o.source(path, work, *kinds))
    if strict and "overlap" not in found:
        what = CALLED.get(found["kind"], f"a {found['kind']}")
        raise UsageError(f"--strict is for a dataset or partition, not for {what}", _instead(found))
    _show(found, json)
    if strict:
        _refuse_overlap(found["overlap"])


def _show(found: dict[str, Any], json: bool) -> None:
    if json:
        o.show_json(found)
        return
    if found["kind"] == "scores":
        _print_scores(Path(found["path"]), found)
        return
    if found["kind"] == "partition":
        _print_partition(found)
        return
    counts = found.pop("counts", {})
    o.show_tree(_readable(found))
    _print_counts(counts)


def _instead(found: dict[str, Any]) -> str:
    """A hint that names what --strict could have been about: the data of this run, corruption or scores."""
    from ..data import manifest

    above = manifest.parent(Path(found["path"]), *SPLITTING) if found["kind"] in manifest.KINDS else None
    return f"give a dataset or partition, such as {above}" if above else "give a dataset or partition"


def _refuse_overlap(found: dict[str, Any]) -> None:
    from ..data import overlap

    if sentence := overlap.sentence(found):
        raise FedcliError(sentence, "prepare again with a split that keeps them together, or correct the files")


def _readable(found: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose numbers about skew stand in sentences; one without them as it is."""
    if "overlap" in found and found["overlap"]["patients"] is None:
        found = found | {"overlap": found["overlap"] | {"patients": "this dataset has no patient or lesion ids"}}
    if found["kind"] != "partition" or "skew" not in found["body"]:
        return found
    from ..data.skew import readable

    return found | {"body": found["body"] | {"skew": readable(found["body"]["skew"])}}


def _print_partition(found: dict[str, Any]) -> None:
    """What a person looks for first: who holds what, how unlike they are, what train and test share."""
    body = dict(_readable(found)["body"])
    roster, classes = body.pop("roster"), body.pop("classes")
    o.show_tree({"name": Path(found["path"]).resolve().parent.name, "made_by": found["made_by"]})
    lines = [[c["client"], *map(str, c["class_counts"]), *(str(c[part]) for part in PARTS)] for c in roster]
    terminal.table(
        ["client", *classes, *PARTS],
        lines,
        title="Training images by class, and all by part",
    )
    _print_counts({name: held for name, held in found["counts"].items() if name != CLASS})
    parts = {"skew": body.pop("skew", None), "overlap": _readable(found)["overlap"], "body": body}
    o.show_tree({name: part for name, part in parts.items() if part is not None})
    o.show_tree({key: found[key] for key in ("kind", "path", "options", "hashes", "parents", "files")})


def _print_counts(counts: dict[str, Any]) -> None:
    """A table for each class or attribute: images by client and part."""
    from ..data.holdings import lines

    for name, clients in counts.items():
        terminal.table(*lines(clients), title=f"Images by {name}, client and part")


def _print_scores(path: Path, found: dict[str, Any]) -> None:
    from ..reporting import writers
    from ..reporting.rows import rows
    from ..reporting.tables import report

    o.show_tree({key: found[key] for key in ("path", "kind", "made_by", "hashes", "parents", "files")})
    for table in report(rows([path])).tables:
        writers.show(table)
    print("Everything else, per client and per round: --json.")


def _manifest(path: Path) -> dict[str, Any]:
    from ..data import holdings, manifest, overlap

    checked = manifest.verify(path)
    found: dict[str, Any] = {"overlap": overlap.find(path)} if checked.kind in SPLITTING else {}
    if checked.kind in HOLDING:
        found["counts"] = holdings.of_manifest(path)
    return {
        "path": str(path),
        "kind": checked.kind,
        "made_by": " ".join(["fedcli", *checked.made_by]),
        "hashes": "verified",
        "options": checked.options,
        "parents": checked.parents,
        "files": checked.files,
        "body": checked.body,
        **found,
    }


def _unfinished(folder: Path) -> dict[str, Any]:
    settings = text.loads((folder / "settings.json").read_text(encoding="utf-8"))
    record = folder / "rounds.jsonl"
    done = len(record.read_text(encoding="utf-8").splitlines()) if record.exists() else 0
    return {
        "path": str(folder),
        "kind": "unfinished run",
        "rounds_played": done,
        "resume": f"fedcli train --resume --out {folder}",
        **settings,
    }


def _h5(path: Path) -> dict[str, Any]:
    from ..data.pool import contents

    if not path.is_file():
        raise FedcliError(f"no such file: {path}", "give a manifest or an HDF5 file that fedcli wrote")
    return {"path": str(path), "kind": "HDF5", "hashes": _checked(path), **contents(path)}


def _checked(path: Path) -> str:
    """Verify the manifest that lists a file. Raises HashError."""
    from ..data import manifest

    for folder in (path.parent, path.parent.parent):
        for above in [folder / f"{kind}.json" for kind in manifest.KINDS]:
            if above.is_file() and path.relative_to(folder).as_posix() in manifest.read(above).files:
                manifest.verify(above)
                return f"verified by {above.name}"
    return "not checked: no manifest beside it lists this file"
