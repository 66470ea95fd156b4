"""fedcli inspect."""

import json as text
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from ..common_options import ATTRIBUTE, INPUT
from ..errors import FedcliError, UsageError
from ..io.files import regular
from ..options import Flag, Source
from ..system import terminal
from .shell import common as o
from .shell.shown import show_json, show_rows, show_tables, show_tree

PARTS = "train", "val", "test"
SPLITTING = "dataset", "partition"  # kinds that say what trains and what tests
HOLDING = *SPLITTING, "corruption"  # kinds with counts of images by client
CALLED = {"scores": "scores", "unfinished run": "an unfinished run", "HDF5": "an HDF5 file"}


def inspect(
    path: Annotated[
        Source | None,
        "manifest, its folder, or an HDF5 file; default: the newest manifest under --work",
        INPUT,
    ] = None,
    strict: Annotated[
        bool,
        "exit code 1 if train and test share a patient, lesion or image, or train and validation a patient or lesion; "
        "default: of the newest dataset or partition",
    ] = False,
    power: Annotated[
        str | None,
        "also how wide intervals of this class will be for each group of the test images, and how small a gap they can "
        "show",
        Flag("CLASS"),
    ] = None,
    quality: Annotated[
        bool,
        "also noise, sharpness, contrast and more of each client's training images, and who stands out; the path may "
        "be a folder of sites' descriptions",
    ] = False,
    by: Annotated[
        str | None, "with --quality: an attribute, or class, in place of clients", ATTRIBUTE
    ] = None,
    everything: Annotated[bool, "options, hashes and files too", Flag(typed="all")] = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Show and verify a dataset, partition or run.

    The hashes of its files and of all that it was made from are checked first; the exit code is 3 if one differs.

    For a dataset and a partition also which patients, lesions or identical images train and test share, how many images
    are of nearly one colour, and how many are identical to another image of their part.
    """
    from .. import console
    from ..data import glance, manifest, overlap
    from ..reporting.power import tables
    from ..stages.call import source

    target = None if path is None else Path(path)
    if by and not quality:
        raise UsageError(
            "--by is for --quality", f"add --quality, or see fedcli plot counts for images by {by}"
        )
    kept = target and any((target / f"{kind}.json").is_file() for kind in manifest.KINDS)
    if quality and target and target.is_dir() and not kept:
        facts: dict[str, Any] = {"path": str(target), "kind": "descriptions"}
    elif target and target.suffix == ".h5":
        facts = _h5(target)
    elif (
        target
        and target.is_dir()
        and (target / "settings.json").is_file()
        and not (target / "run.json").is_file()
    ):
        facts = _unfinished(target)
    else:
        kinds: Sequence[str] = HOLDING if power or quality else manifest.KINDS
        kinds = SPLITTING if strict and path is None else kinds
        facts = _manifest(source(path, work, *kinds))
    if strict and "overlap" not in facts:
        what = CALLED.get(facts["kind"], f"a {facts['kind']}")
        raise UsageError(f"--strict is for a dataset or partition, not for {what}", _instead(facts))
    if power:
        _add_power(facts, power)
    if quality:
        _add_quality(facts, by or "")
    _show(facts, json, everything)
    if power and not json:
        show_tables(tables(facts["power"], power))
    if strict:
        for line in glance.of_contents(facts["contents"]):
            console.warn(line)
    if strict and (sentence := overlap.sentence(facts["overlap"])):
        raise FedcliError(sentence, overlap.remedy(facts["overlap"]))


def _show(facts: dict[str, Any], json: bool, everything: bool) -> None:
    """Print all but what stands in tables of its own."""
    if json:
        show_json(facts)
        return
    if facts["kind"] == "scores":
        _print_scores(Path(facts["path"]), facts)
        return
    if "quality" in facts:
        _print_quality(facts["quality"])
        return
    if facts["kind"] in HOLDING:
        _print_data(facts)
    if facts["kind"] not in HOLDING or everything:
        show_tree(
            {
                key: value
                for key, value in _readable(facts).items()
                if key not in ("power", "counts", "contents")
            }
        )


def _add_power(facts: dict[str, Any], name: str) -> None:
    from ..reporting import power

    if facts["kind"] not in HOLDING:
        what = CALLED.get(facts["kind"], f"a {facts['kind']}")
        raise UsageError(
            f"--power is about test images, not about {what}", "give a dataset or partition"
        )
    facts["power"] = power.of_manifest(Path(facts["path"]), name)


def _add_quality(facts: dict[str, Any], by: str) -> None:
    """Measure the images, or read what sites counted of theirs."""
    import numpy as np

    from ..data import manifest, originals, quality_by_site
    from ..data.quality import BINS, MEASURES

    path, said = Path(facts["path"]), None
    if facts["kind"] in HOLDING:
        known = quality_by_site.of_manifest(path, by).histograms
        said = originals.read(manifest.above(path, "dataset").parent)
    elif facts["kind"] in ("sites", "descriptions"):
        if by:
            raise UsageError(
                "--by needs the images, and a site tells of all its images together",
                "leave --by out",
            )
        known = quality_by_site.of_descriptions(path if path.is_dir() else path.parent)
    else:
        what = CALLED.get(facts["kind"], f"a {facts['kind']}")
        raise UsageError(
            f"--quality is about images, not about {what}", "give a dataset or partition"
        )
    what = by or quality_by_site.SITES
    facts["quality"] = {
        "by": what,
        "sites": quality_by_site.facts(known),
        "findings": quality_by_site.findings(known, what),
        "edges": {of.name: of.values(np.arange(BINS + 1)).tolist() for of in MEASURES},
        "original_files": said.said if said else None,
        "sample": bool(facts.get("body", {}).get("sample")),
    }


def _print_quality(about: dict[str, Any]) -> None:
    from ..data import quality_by_site

    for title, (heads, rows) in quality_by_site.tables(about["sites"], about["by"]).items():
        terminal.table(heads, rows, title=title)
    made_up = "SYNTHETIC sample: these images say nothing about patients" * about["sample"]
    print(*about["findings"], *filter(None, [about["original_files"], made_up]), sep="\n")


def _instead(facts: dict[str, Any]) -> str:
    """A hint that names what --strict could have been about: the data of this run, corruption or scores."""
    from ..data import manifest

    above = (
        manifest.parent(Path(facts["path"]), *SPLITTING)
        if facts["kind"] in manifest.KINDS
        else None
    )
    return (
        f"give a dataset or partition, such as {above}" if above else "give a dataset or partition"
    )


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose numbers about skew stand in sentences, and a dataset's usual number of clients is called so."""
    body = dict(facts.get("body", {}))
    if facts["kind"] == "dataset" and "clients" in body:
        body["usual number of clients"] = body.pop("clients")
    if facts["kind"] == "partition" and "skew" in body:
        from ..data.skew import readable

        body["skew"] = readable(body["skew"])
    return facts | {"body": body} if body else facts


def _print_data(facts: dict[str, Any]) -> None:
    """Print what a person looks for: images, classes, groups, patients, counts by client, what train and test share."""
    from ..data import glance, image_counts, manifest, overlap

    path, body, counts = Path(facts["path"]), facts["body"], facts["counts"]
    if facts["kind"] == "dataset":
        lines = [f"{facts['kind']} {path.resolve().parent.name}", *glance.of_dataset(path, counts)]
    else:
        dataset = manifest.read(manifest.above(path, "dataset")).body
        lines = [
            f"{facts['kind']} {path.resolve().parent.name}, of {dataset['name']}",
            *glance.of_partition(body),
        ]
        if "contents" in facts:
            lines += glance.of_contents(facts["contents"])
    print(*lines, sep="\n")
    if facts["kind"] != "dataset":
        _print_clients(body)
        for name, clients in glance.groups(counts, facts["options"].get("by", ())).items():
            terminal.table(*image_counts.lines(clients), title=f"Images by {name}")
    if "overlap" in facts:
        patients = "no patient and " if facts["overlap"]["patients"] else ""
        print(
            overlap.sentence(facts["overlap"])
            or f"train and test share {patients}no identical image"
        )
    print("Options, hashes and all counts: --all, or --json.")


def _print_clients(body: dict[str, Any]) -> None:
    """A table of the images of each client, by class, part and corruption."""
    kinds = dict.fromkeys(body.get("clients", ()), f"{body.get('kind')} {body.get('severity')}")
    kinds |= {
        client: f"{one['kind']} {one['severity']}"
        for one in body.get("each", ())
        for client in one["clients"]
    }
    changed = {"label_noise": "labels changed", "hidden_attributes": "attributes hidden"}
    kinds |= {client: words for key, words in changed.items() for client in body.get(key, {})}
    if attack := body.get("attack"):
        kinds |= dict.fromkeys(attack["clients"], f"{attack['kind']} {attack['strength']:g}")
    lines = [
        [
            c["client"],
            *map(str, c["class_counts"]),
            *(str(c[part]) for part in PARTS),
            *[kinds.get(c["client"], "")] * bool(kinds),
        ]
        for c in body["roster"]
    ]
    heads = ["client", *body["classes"], *PARTS, *["corrupted"] * bool(kinds)]
    terminal.table(heads, lines, title="Training images by class, and all by part")


def _print_scores(path: Path, facts: dict[str, Any]) -> None:
    from ..reporting.rows import rows

    show_tree(
        {key: facts[key] for key in ("path", "kind", "made_by", "hashes", "parents", "files")}
    )
    show_rows(rows([path]))
    print("Everything else, per client and per round: --json.")


def _manifest(path: Path) -> dict[str, Any]:
    from ..data import image_contents, image_counts, manifest, overlap
    from ..io.hdf5 import open_hdf5

    checked = manifest.verify(path)
    if checked.kind == "run":
        from ..scores.existing import refuse_changed

        refuse_changed(path)
    extra: dict[str, Any] = {}
    if checked.kind in SPLITTING:
        extra["overlap"] = overlap.find(path)
        extra["contents"] = image_contents.of_manifest(path)
    if checked.kind in HOLDING:
        extra["counts"] = image_counts.of_manifest(path)
    for file in [path.parent / name for name in checked.files if name.endswith(".h5")]:
        with open_hdf5(file):  # a hash says nothing of numbers that lie outside of the file
            pass
    said = {
        name: getattr(checked, name) for name in ("kind", "options", "parents", "files", "body")
    }
    made_by = " ".join(["fedcli", *checked.made_by])
    return {
        "path": str(path),
        "kind": "",
        "made_by": made_by,
        "hashes": "verified",
        **said,
        **extra,
    }


def _unfinished(folder: Path) -> dict[str, Any]:
    settings = text.loads((folder / "settings.json").read_text(encoding="utf-8"))
    record = folder / "rounds.jsonl"
    done = len(record.read_text(encoding="utf-8").splitlines()) if record.exists() else 0
    about = {"path": str(folder), "kind": "unfinished run", "rounds_played": done}
    return {**about, "resume": f"fedcli train --resume --out {folder}", **settings}


def _h5(path: Path) -> dict[str, Any]:
    from ..data.pool import contents

    regular(path, "give a manifest or an HDF5 file that fedcli wrote")
    return {"path": str(path), "kind": "HDF5", "hashes": _checked(path), **contents(path)}


def _checked(path: Path) -> str:
    """Verify the manifest that lists a file. Raises HashError."""
    from ..data import manifest

    for folder in (path.parent, path.parent.parent):
        for above in [folder / f"{kind}.json" for kind in manifest.KINDS]:
            if (
                above.is_file()
                and path.relative_to(folder).as_posix() in manifest.read(above).files
            ):
                manifest.verify(above)
                return f"verified by {above.name}"
    return "not checked: no manifest beside it lists this file"
