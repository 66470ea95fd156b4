"""fedcli inspect."""

import json as text
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .. import console
from ..common_options import ATTRIBUTE, INPUT
from ..errors import FedcliError, UsageError
from ..io.files import regular
from ..leaves import is_installed, require
from ..options import Flag, Source
from ..system import terminal
from .shell import common as o
from .shell.shown import PARTS, show_json, show_report, show_tables, show_tree

if TYPE_CHECKING:
    from ..data.quality_by_site import Histograms

SPLITTING = "dataset", "partition"  # kinds that say what trains and what tests
HOLDING = *SPLITTING, "corruption"  # kinds with counts of images by client
KINDS_IN_WORDS = {
    "scores": "scores",
    "unfinished run": "an unfinished run",
    "HDF5": "an HDF5 file",
}
GIVE_DATA = "give a dataset or partition"
CHANGED = {  # key of a partition -> words for the clients below it
    "label_noise": "labels changed",
    "hidden_attributes": "attributes hidden",
}
SYNTHETIC = "SYNTHETIC sample: these images say nothing about patients"
Facts = dict[str, Any]
Inspected = Annotated[
    Source | None,
    "manifest, its folder, or an HDF5 file; default: the newest manifest under --work",
    INPUT,
]
Strict = Annotated[
    bool,
    "exit code 1 if train and test share a patient, lesion or image, or train and validation a "
    "patient or lesion; default: of the newest dataset or partition",
]
Power = Annotated[
    str | None,
    "also how wide intervals of this class will be for each group of the test images, and how "
    "small a gap they can show",
    Flag("CLASS"),
]
Quality = Annotated[
    bool,
    "also noise, sharpness, contrast and more of each client's training images, and "
    "which client stands out; the path may be a folder of sites' descriptions",
]
By = Annotated[str | None, "with --quality: an attribute, or class, instead of clients", ATTRIBUTE]
Everything = Annotated[bool, "options, hashes and files too", Flag(typed="all")]


def inspect(
    path: Inspected = None,
    strict: Strict = False,
    power: Power = None,
    quality: Quality = False,
    by: By = None,
    everything: Everything = False,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Show and verify a dataset, partition or run.

    First the hashes of its files and of everything it was made from are checked; the exit code is 3
    if one differs.

    For a dataset or partition it also shows the patients, lesions and identical images that train
    and test share, and counts images of nearly one colour and images identical to another one of
    their part.
    """
    if by and not quality:
        hint = f"add --quality, or see fedcli plot counts for images by {by}"
        raise UsageError("--by is for --quality", hint)
    facts = _read(
        path,
        work,
        _kinds(path, strict=strict, needs_images=bool(power) or quality),
        quality,
    )
    if strict and "overlap" not in facts:
        sentence = f"--strict is for a dataset or partition, not for {_kind(facts)}"
        raise UsageError(sentence, _instead(facts))
    if power:
        _add_power(facts, power)
    if quality:
        _add_quality(facts, by or "")
    if json:
        show_json(facts)
    else:
        _print(facts, everything)
    if power and not json:
        from ..data.shared_patients import noun_of
        from ..reporting.power import tables

        show_tables(tables(facts["power"], power, noun_of(Path(facts["path"]))))
    if strict:
        _refuse_overlap(facts)


def _kinds(
    path: Source | None,
    *,
    strict: bool,
    needs_images: bool,
) -> Sequence[str]:
    """Kinds of manifests that can be inspected so; the newest of them is where no path is typed."""
    from ..data import manifest

    if strict and path is None:
        return SPLITTING
    return HOLDING if needs_images else manifest.KINDS


def _read(
    source_path: Source | None,
    work: Path,
    kinds: Sequence[str],
    quality: bool,
) -> Facts:
    """Facts of what a path names; without one of the newest manifest of these kinds."""
    from ..data import manifest
    from ..stages.call import source

    if source_path is not None:
        path = Path(source_path)
        files = [f"{kind}.json" for kind in manifest.KINDS]
        if quality and path.is_dir() and not any((path / file).is_file() for file in files):
            return {"path": str(path), "kind": "descriptions"}
        if path.suffix == ".h5":
            return _h5(path)
        if (path / "settings.json").is_file() and not (path / "run.json").is_file():
            return _unfinished(path)
    return _manifest(source(source_path, work, *kinds))


def _kind(facts: Facts) -> str:
    """The kind of what is inspected, as a sentence names it."""
    kind = facts["kind"]
    return KINDS_IN_WORDS.get(kind, f"a {kind}")


def _refuse_overlap(facts: Facts) -> None:
    """Warn of odd contents. Raises FedcliError where train and test share patients or images."""
    from ..data import glance, overlap

    for line in glance.of_contents(facts["contents"]):
        console.warn(line)
    sentence = overlap.sentence(facts["overlap"])
    if sentence:
        raise FedcliError(sentence, overlap.remedy(facts["overlap"]))


def _print(facts: Facts, everything: bool) -> None:
    """Print all facts but those that have tables of their own."""
    kind = facts["kind"]
    if kind == "scores":
        _print_scores(Path(facts["path"]), facts)
    elif "quality" in facts:
        _print_quality(facts["quality"])
    else:
        if kind in HOLDING:
            _print_data(facts)
        if kind not in HOLDING or everything:
            tree = _readable(facts)
            for key in ("power", "counts", "contents"):
                tree.pop(key, None)
            show_tree(tree)


def _add_power(facts: Facts, name: str) -> None:
    from ..reporting import power

    if facts["kind"] not in HOLDING:
        sentence = f"--power is about test images, not about {_kind(facts)}"
        raise UsageError(sentence, GIVE_DATA)
    facts["power"] = power.of_manifest(Path(facts["path"]), name)


def _add_quality(facts: Facts, by: str) -> None:
    """Measure the images, or read what sites counted of theirs."""
    import numpy as np

    require("fedcli.data.quality_by_site", "--quality")
    from ..data import manifest, originals, quality_by_site
    from ..data.quality import BINS, MEASURES

    histograms = _histograms(facts, by)
    unit = by or quality_by_site.SITES
    original_files = None
    if facts["kind"] in HOLDING:
        dataset = manifest.above(Path(facts["path"]), "dataset")
        files = originals.read(dataset.parent)
        original_files = files.said if files else None
    edges = np.arange(BINS + 1)
    facts["quality"] = {
        "by": unit,
        "sites": quality_by_site.facts(histograms),
        "findings": quality_by_site.findings(histograms, unit),
        "edges": {measure.name: measure.values(edges).tolist() for measure in MEASURES},
        "original_files": original_files,
        "sample": bool(facts.get("body", {}).get("sample")),
    }


def _histograms(facts: Facts, by: str) -> "Histograms":
    from ..data import quality_by_site

    path = Path(facts["path"])
    if facts["kind"] in HOLDING:
        return quality_by_site.of_manifest(path, by).histograms
    if facts["kind"] not in ("sites", "descriptions"):
        sentence = f"--quality is about images, not about {_kind(facts)}"
        raise UsageError(sentence, GIVE_DATA)
    if by:
        sentence = "--by needs the images, and a site describes all its images together"
        raise UsageError(sentence, "leave --by out")
    return quality_by_site.of_descriptions(path if path.is_dir() else path.parent)


def _print_quality(quality: Facts) -> None:
    from ..data import quality_by_site

    tables = quality_by_site.tables(quality["sites"], quality["by"])
    for title, (heads, rows) in tables.items():
        terminal.table(heads, rows, title=title)
    lines = [*quality["findings"]]
    if quality["original_files"]:
        lines.append(quality["original_files"])
    if quality["sample"]:
        lines.append(SYNTHETIC)
    print(*lines, sep="\n")


def _instead(facts: Facts) -> str:
    """A hint that names what --strict could have been about: the data of this run, corruption or
    scores.
    """
    from ..data import manifest

    if facts["kind"] in manifest.KINDS:
        data = manifest.parent(Path(facts["path"]), *SPLITTING)
        if data:
            return f"{GIVE_DATA}, such as {data}"
    return GIVE_DATA


def _readable(facts: Facts) -> Facts:
    """The facts with sentences for numbers about skew, and a name for a dataset's usual number of
    clients.
    """
    body = dict(facts.get("body", {}))
    if not body:
        return dict(facts)
    if facts["kind"] == "dataset" and "clients" in body:
        body["usual number of clients"] = body.pop("clients")
    if facts["kind"] == "partition" and "skew" in body:
        from ..data.skew import readable

        body["skew"] = readable(body["skew"])
    return facts | {"body": body}


def _print_data(facts: Facts) -> None:
    """Print what a person looks for: images, classes, groups, patients, counts by client, what
    train and test share.
    """
    from ..data import glance, image_counts, manifest, overlap, units

    path = Path(facts["path"])
    body = facts["body"]
    counts = facts["counts"]
    title = f"{facts['kind']} {path.resolve().parent.name}"
    if facts["kind"] == "dataset":
        print(title, *glance.of_dataset(path, counts), sep="\n")
    else:
        dataset = manifest.read(manifest.above(path, "dataset")).body
        lines = glance.of_partition(body, units.noun(dataset["unit"]))
        if "contents" in facts:
            lines += glance.of_contents(facts["contents"])
        print(f"{title}, of {dataset['name']}", *lines, sep="\n")
        _print_clients(body)
        for name, clients in glance.groups(counts, facts["options"].get("by", ())).items():
            terminal.table(*image_counts.lines(clients), title=f"Images by {name}")
    if "overlap" in facts:
        patients = ""
        if facts["overlap"]["patients"]:
            patients = f"no {overlap.noun(facts['overlap'])} and "
        nothing = f"train and test share {patients}no identical image"
        print(overlap.sentence(facts["overlap"]) or nothing)
    if is_installed("fedcli.figures.kinds.samples"):
        print("Images by client and class: fedcli plot samples, with this path.")
    print("Options, hashes and all counts: --all, or --json.")


def _print_clients(body: Facts) -> None:
    """A table of the images of each client, by class, part and corruption."""
    changes = _changes(body)
    heads = ["client", *body["classes"], *PARTS]
    if changes:
        heads.append("corrupted")
    rows = []
    for client in body["roster"]:
        counts = [*client["class_counts"], *(client[part] for part in PARTS)]
        row = [client["client"], *map(str, counts)]
        if changes:
            row.append(changes.get(client["client"], ""))
        rows.append(row)
    terminal.table(
        heads,
        rows,
        title="Training images by class, and all by part",
    )


def _changes(body: Facts) -> dict[str, str]:
    """Words for the changes to the data of each client that has any."""
    changes = dict.fromkeys(body.get("clients", ()), f"{body.get('kind')} {body.get('severity')}")
    for noise in body.get("each", ()):
        changes |= dict.fromkeys(noise["clients"], f"{noise['kind']} {noise['severity']}")
    for key, words in CHANGED.items():
        changes |= dict.fromkeys(body.get(key, {}), words)
    if attack := body.get("attack"):
        changes |= dict.fromkeys(attack["clients"], f"{attack['kind']} {attack['strength']:g}")
    return changes


def _print_scores(path: Path, facts: Facts) -> None:
    from ..reporting.rows import rows
    from ..reporting.tables import report

    names = ("path", "kind", "made_by", "hashes", "parents", "files")
    show_tree({name: facts[name] for name in names})
    show_report(report(rows([path])))
    print("Everything else, per client and per round: --json.")


def _manifest(path: Path) -> Facts:
    """Facts of a manifest, whose hashes and those above it are checked. Raises HashError."""
    from ..data import image_contents, image_counts, manifest, overlap
    from ..io.hdf5 import open_hdf5

    verified = manifest.verify(path)
    kind = verified.kind
    if kind == "run":
        from ..scores.existing import refuse_changed

        refuse_changed(path)
    facts = {
        "path": str(path),
        "kind": kind,
        "made_by": " ".join(["fedcli", *verified.made_by]),
        "hashes": "verified",
        "options": verified.options,
        "parents": verified.parents,
        "files": verified.files,
        "body": verified.body,
    }
    if kind in SPLITTING:
        facts["overlap"] = overlap.find(path)
        facts["contents"] = image_contents.of_manifest(path)
    if kind in HOLDING:
        facts["counts"] = image_counts.of_manifest(path)
    for name in verified.files:
        if name.endswith(".h5"):
            with open_hdf5(path.parent / name):
                pass  # a hash says nothing of numbers that lie outside of the file
    return facts


def _unfinished(folder: Path) -> Facts:
    settings = text.loads((folder / "settings.json").read_text(encoding="utf-8"))
    record = folder / "rounds.jsonl"
    rounds = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    return {
        "path": str(folder),
        "kind": "unfinished run",
        "rounds_played": len(rounds),
        "resume": f"fedcli train --resume --out {folder}",
        **settings,
    }


def _h5(path: Path) -> Facts:
    from ..data.pool import contents

    regular(path, "give a manifest or an HDF5 file that fedcli wrote")
    return {
        "path": str(path),
        "kind": "HDF5",
        "hashes": _checked(path),
        **contents(path),
    }


def _checked(path: Path) -> str:
    """Verify the manifest that lists a file, and say which. Raises HashError."""
    from ..data import manifest

    for folder in (path.parent, path.parent.parent):
        name = path.relative_to(folder).as_posix()
        for kind in manifest.KINDS:
            above = folder / f"{kind}.json"
            if above.is_file() and name in manifest.read(above).files:
                manifest.verify(above)
                return f"verified by {above.name}"
    return "not checked: no manifest in its folder lists this file"
