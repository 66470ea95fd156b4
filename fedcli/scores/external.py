"""A run's models on test images that are not its own: another hospital's, another dataset's, another division's.

Classes are paired by name or by a table of one's own; images of a class without a partner are left out and counted.
Attributes keep their names: values that the run's data do not have come after those that they have.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import console
from ..data import manifest
from ..data.preparation.merge import PREPARED
from ..data.shard import Shard, Shards, load_tests
from ..data.sources.tables import lacking, read_cells
from ..errors import FedcliError, UsageError, nearest
from ..labels import joined
from ..runs.finished import Run, part
from ..runs.initial import data_of as trained_on
from .parts import External

KINDS = "dataset", "partition", "corruption"
HINT = "give a CSV with the columns theirs and ours"


@dataclass(frozen=True)
class Asked:
    """The meaning of `--on`, `--map-classes` and `--all-images`.

    Attributes:
        path: of the manifest; None for the run's own test images.
        classes: class of the manifest -> class of the run, "" for none.
    """

    path: Path | None = None
    everything: bool = False
    classes: dict[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """As scores.json records it; the manifest itself is among the parents."""
        if self.path is None:
            return {}
        return {
            "on": manifest.read(self.path).kind,
            "all_images": self.everything,
            "map_classes": self.classes,
        }

    @property
    def parents(self) -> list[Path]:
        return [self.path] if self.path else []


def asked(run: Path, on: Path | None, classes: Path | None, *, everything: bool) -> Asked:
    """The meaning of the flags for a run's manifest. Raises FedcliError, HashError, UsageError."""
    if on is None:
        if given := [
            flag for flag, value in (("map-classes", classes), ("all-images", everything)) if value
        ]:
            raise UsageError(
                f"--{given[0]} is about other test images than the run's", "add --on MANIFEST"
            )
        return Asked()
    path = manifest.find(on, *KINDS)
    theirs = manifest.verify(path, *KINDS)
    if everything and theirs.kind != "dataset":
        raise UsageError(
            f"--all-images is about a dataset, and {path} is a {theirs.kind}",
            "give its dataset to --on",
        )
    ours = manifest.read(manifest.above(run, "corruption", "partition", "sites"))
    return Asked(
        path, everything, _pairs(classes, theirs.body["classes"], ours.body["classes"], path)
    )


def _pairs(file: Path | None, theirs: list[str], ours: list[str], path: Path) -> dict[str, str]:
    """Class of theirs -> class of ours, "" for none. Raises FedcliError where a class of theirs has no line."""
    if file is None:
        if unknown := [name for name in theirs if name not in ours]:
            hint = (
                f"say with --map-classes FILE what it is here; the run's classes: {', '.join(ours)}"
            )
            raise FedcliError(
                f"{path} has the class {unknown[0]!r}, which the run does not have", hint
            )
        return {name: name for name in theirs}
    head, records = read_cells(file, HINT)
    if missing := [name for name in ("theirs", "ours") if name not in head]:
        raise FedcliError(f"{file} has {lacking(missing)}, only {', '.join(head)}", HINT)
    pairs: dict[str, str] = {}
    for record in records:
        name, own = record[head.index("theirs")], record[head.index("ours")]
        if name not in theirs or name in pairs:
            what, hint = f"is no class of {path}", nearest(name, theirs)
            what, hint = (
                ("is named twice", "one line for each class") if name in pairs else (what, hint)
            )
            raise FedcliError(f"{file}: {name!r} {what}", hint)
        if own and own not in ours:
            raise FedcliError(f"{file}: {own!r} is no class of the run", nearest(own, ours))
        pairs[name] = own
    if unmapped := [name for name in theirs if name not in pairs]:
        raise FedcliError(
            f"{file} has no line for the class {unmapped[0]!r} of {path}",
            f"add the line {unmapped[0]},",
        )
    return pairs


def with_tests(run: Run, wanted: Asked) -> tuple[Run, External | None]:
    """The run with other test images, which belong to none of its clients. Raises FedcliError."""
    if wanted.path is None:
        return run, None
    _check_images(run, wanted.path)
    channels = run.manifest.body["model"]["channels"]
    others = load_tests(
        wanted.path, channels=channels, device=run.device, everything=wanted.everything
    )
    if others.test["clean"].multi_label != run.data.test["clean"].multi_label:
        what = f"{wanted.path} and the run's data do not both have one label per image, or several"
        raise FedcliError(what, "give another --on")
    _check_unseen(run, wanted, others)
    columns = {
        name: _values(run.data.attributes.get(name, []), values)
        for name, values in others.attributes.items()
    }
    test, kept = {}, np.zeros(0, np.int64)
    for version, shard in others.test.items():
        test[version], kept = _as_ours(shard, wanted.classes, others.classes, run.data, columns)
    if not len(kept):
        what = f"{wanted.path} holds no test image of the run's classes"
        raise FedcliError(what, "give another --on or --map-classes")
    attributes = {name: values for name, (values, _) in columns.items()}
    patients = None if others.test_patients is None else others.test_patients[kept]
    data = replace(
        run.data,
        test=test,
        attributes=attributes,
        corrupted=[],
        test_patients=patients,
        client_test={client: np.zeros(0, np.int64) for client in run.data.roster},
    )
    scored = manifest.read(wanted.path)
    name = scored.body["name" if scored.kind == "dataset" else "dataset"]
    tested_on = External(
        scored.kind,
        name,
        manifest.sha256(wanted.path),
        "all" if wanted.everything else "test",
        len(kept),
        len(others.test["clean"]) - len(kept),
        wanted.classes,
        scored.body.get("held_out") or {},
    )
    console.say(tested_on.sentence)
    return replace(run, data=data), tested_on


def _check_images(run: Run, path: Path) -> None:
    """Refuse images of another size; say where they were prepared in another way."""
    theirs, size = manifest.read(path).body, run.manifest.body["model"]["size"]
    if theirs["size"] != [size, size]:
        has = f"{path} has images of {theirs['size'][0]} px, the run's network takes {size} px"
        raise FedcliError(has, f"prepare them with --size {size}")
    options = [manifest.read(_dataset(at)).options for at in (path, run.images or run.path)]
    ways = [
        ["on" if (way := each.get(name)) is True else str(way or "off") for name in PREPARED]
        for each in options
    ]
    flags = (f"--{name.replace('_', '-')}" for name in PREPARED)
    if differing := [
        f"{flag} {its}, the run's {own}" for flag, its, own in zip(flags, *ways) if its != own
    ]:
        console.warn(f"{path} was prepared in another way: {', '.join(differing)}")


def data_of(run: Run) -> Path:
    """The manifest of the images that a run was trained on, or that stand for those of its sites."""
    return run.images or trained_on(run.path)


def is_of_same_dataset(run: Run, path: Path) -> bool:
    """Tell whether the data at a path are of the dataset that the run was trained on."""
    return manifest.sha256(_dataset(run.images or run.path)) == manifest.sha256(_dataset(path))


def _dataset(path: Path) -> Path:
    data = (
        manifest.parent(path, "corruption", "partition")
        if manifest.read(path).kind == "run"
        else path
    )
    return manifest.above(data or path, "dataset")


def _check_unseen(run: Run, wanted: Asked, others: Shards) -> None:
    assert wanted.path is not None
    if not is_of_same_dataset(run, wanted.path):
        return
    ids = [shard.ids for part in (run.data.train, run.data.val) for shard in part.values()]
    if seen := int(np.isin(others.test["clean"].ids, np.concatenate(ids)).sum()):
        what = f"the run's clients trained or validated on {console.counted(seen, 'image', 'images')} of {wanted.path}"
        raise FedcliError(
            what,
            "score images that no client has seen: leave --all-images out, or give another --on",
        )


def _values(ours: list[str], theirs: list[str]) -> tuple[list[str], np.ndarray]:
    """The values of an attribute, the run's first, and the place of each of theirs among them, -1 of unknown last."""
    values = [*ours, *(value for value in theirs if value not in ours)]
    return values, np.array([*(values.index(value) for value in theirs), -1])


def _as_ours(
    shard: Shard,
    pairs: dict[str, str],
    theirs: list[str],
    data: Shards,
    columns: dict[str, tuple[list[str], np.ndarray]],
) -> tuple[Shard, np.ndarray]:
    """The images whose class the run has, with its class numbers, and their places [N] in the shard."""
    place = np.array([data.classes.index(pairs[name]) if pairs[name] else -1 for name in theirs])
    y = joined(shard.y.cpu().numpy(), place, len(data.classes))
    kept = np.flatnonzero(y >= 0) if y.ndim == 1 else np.arange(len(y))
    groups = {
        name: torch.from_numpy(columns[name][1][column.cpu().numpy()]).to(shard.y.device)
        for name, column in shard.groups.items()
    }
    renamed = replace(
        shard,
        y=torch.from_numpy(y).to(shard.y.device),
        groups=groups,
        classes=len(data.classes),
        derived={},
    )
    return part(renamed, kept), kept
