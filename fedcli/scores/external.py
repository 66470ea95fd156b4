"""A run's models on test images that are not its own: another hospital's, dataset's or division's.

Classes are paired by name or by a table of one's own; images of a class without a partner are left
out and counted. Attributes keep their names: values that the run's data do not have come after
those that they have.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import console
from ..data import manifest, units
from ..data.prepare_options import PrepareOptions
from ..data.shard import Shard, Shards, load_tests
from ..data.sources.tables import lacking, read_cells
from ..errors import FedcliError, UsageError, nearest
from ..labels import joined
from ..runs.finished import FinishedRun, part
from ..runs.initial import data_of as trained_on
from .parts import External

KINDS = ("dataset", "partition", "corruption")
HINT = "give a CSV with the columns theirs and ours"
Array = np.ndarray
# attribute -> its values, the run's first, and the index of each of the other data's among them
Values = dict[str, tuple[list[str], Array]]


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
        """The options that scores.json records; the manifest itself is among the parents."""
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


def asked(
    run: Path,
    on: Path | None,
    classes: Path | None,
    *,
    everything: bool,
) -> Asked:
    """The meaning of the flags for a run's manifest. Raises FedcliError, HashError, UsageError."""
    if on is None:
        for flag, value in (("map-classes", classes), ("all-images", everything)):
            if value:
                fault = f"--{flag} is about other test images than the run's"
                raise UsageError(fault, "add --on MANIFEST")
        return Asked()
    path = manifest.find(on, *KINDS)
    theirs = manifest.verify(path, *KINDS)
    if everything and theirs.kind != "dataset":
        fault = f"--all-images is about a dataset, and {path} is a {theirs.kind}"
        raise UsageError(fault, "give its dataset to --on")
    ours = manifest.read(manifest.above(run, "corruption", "partition", "sites"))
    pairs = _pairs(classes, theirs.body["classes"], ours.body["classes"], path)
    return Asked(path, everything, pairs)


def _pairs(
    file: Path | None,
    theirs: list[str],
    ours: list[str],
    path: Path,
) -> dict[str, str]:
    """Class of theirs -> class of ours, "" for none.

    Raises FedcliError where a class of theirs has no line.
    """
    if file is None:
        _check_all_are_ours(theirs, ours, path)
        return {name: name for name in theirs}
    head, records = read_cells(file, HINT)
    missing = [name for name in ("theirs", "ours") if name not in head]
    if missing:
        columns = ", ".join(head)
        raise FedcliError(f"{file} has {lacking(missing)}, only {columns}", HINT)
    pairs: dict[str, str] = {}
    for record in records:
        name = record[head.index("theirs")]
        partner = record[head.index("ours")]
        if name in pairs:
            raise FedcliError(f"{file}: {name!r} is named twice", "one line for each class")
        if name not in theirs:
            hint = nearest(name, theirs)
            raise FedcliError(f"{file}: {name!r} is no class of {path}", hint)
        if partner and partner not in ours:
            fault = f"{file}: {partner!r} is no class of the run"
            raise FedcliError(fault, nearest(partner, ours))
        pairs[name] = partner
    for name in theirs:
        if name not in pairs:
            fault = f"{file} has no line for the class {name!r} of {path}"
            raise FedcliError(fault, f"add the line {name},")
    return pairs


def _check_all_are_ours(theirs: list[str], ours: list[str], path: Path) -> None:
    for name in theirs:
        if name not in ours:
            classes = ", ".join(ours)
            hint = f"say with --map-classes FILE what it is here; the run's classes: {classes}"
            fault = f"{path} has the class {name!r}, which the run does not have"
            raise FedcliError(fault, hint)


def with_tests(run: FinishedRun, tests: Asked) -> tuple[FinishedRun, External | None]:
    """The run with other test images, which belong to none of its clients. Raises FedcliError."""
    path = tests.path
    if path is None:
        return run, None
    _check_images(run, path)
    channels = run.manifest.body["model"]["channels"]
    others = load_tests(
        path,
        channels=channels,
        device=run.device,
        everything=tests.everything,
    )
    if others.test["clean"].multi_label != run.data.test["clean"].multi_label:
        fault = f"{path} and the run's data do not both have one label per image, or several"
        raise FedcliError(fault, "give another --on")
    _check_unseen(run, path, others)
    columns: Values = {}
    for name, values in others.attributes.items():
        columns[name] = _values(run.data.attributes.get(name, []), values)
    test = {}
    rows = np.zeros(0, np.int64)
    for version, shard in others.test.items():
        test[version], rows = _as_ours(
            shard,
            tests.classes,
            others.classes,
            run.data,
            columns,
        )
    if not len(rows):
        fault = f"{path} holds no test image of the run's classes"
        raise FedcliError(fault, "give another --on or --map-classes")
    values_by_attribute = {name: values for name, (values, _) in columns.items()}
    test_patients = None if others.test_patients is None else others.test_patients[rows]
    client_test = {client: np.zeros(0, np.int64) for client in run.data.roster}
    data = replace(
        run.data,
        test=test,
        attributes=values_by_attribute,
        corrupted=[],
        test_patients=test_patients,
        client_test=client_test,
    )
    tested_on = _described(tests, path, len(rows), len(others.test["clean"]))
    console.say(tested_on.sentence)
    return replace(run, data=data), tested_on


def _described(tests: Asked, path: Path, images: int, total: int) -> External:
    scored = manifest.read(path)
    name_key = "name" if scored.kind == "dataset" else "dataset"
    tested_part = "all" if tests.everything else "test"
    held_out = scored.body.get("held_out") or {}
    return External(
        kind=scored.kind,
        dataset=scored.body[name_key],
        sha256=manifest.sha256(path),
        part=tested_part,
        images=images,
        left_out=total - images,
        classes=tests.classes,
        held_out=held_out,
    )


def _check_images(run: FinishedRun, path: Path) -> None:
    """Refuse images of another size; warn where they were prepared in another way."""
    sides = manifest.read(path).body["size"]
    size = run.manifest.body["model"]["size"]
    if sides != [size, size]:
        fault = f"{path} has images of {sides[0]} px, the run's network takes {size} px"
        raise FedcliError(fault, f"prepare them with --size {size}")
    theirs = manifest.read(_dataset(path)).options
    ours = manifest.read(_dataset(run.images or run.path)).options
    differing = []
    for option in PrepareOptions.marked("pixels"):
        way = _in_words(theirs.get(option.name))
        our_way = _in_words(ours.get(option.name))
        if way != our_way:
            differing.append(f"--{option.typed} {way}, the run's {our_way}")
    if differing:
        listed = ", ".join(differing)
        console.warn(f"{path} was prepared in another way: {listed}")


def _in_words(option: Any) -> str:
    return "on" if option is True else str(option or "off")


def data_of(run: FinishedRun) -> Path:
    """The manifest of the images that a run was trained on, or of its sites."""
    return run.images or trained_on(run.path)


def noun(run: FinishedRun, tests: Path | None) -> str:
    """The noun of what the ids of the test images stand for. tests: the manifest of other ones."""
    dataset = manifest.read(_dataset(tests or data_of(run)))
    return units.noun(dataset.body["unit"])


def is_of_same_dataset(run: FinishedRun, path: Path) -> bool:
    """Tell whether the data at a path are of the dataset that the run was trained on."""
    ours = manifest.sha256(_dataset(run.images or run.path))
    return ours == manifest.sha256(_dataset(path))


def _dataset(path: Path) -> Path:
    """The manifest of the dataset above a run or its data."""
    data = path
    if manifest.read(path).kind == "run":
        data = manifest.parent(path, "corruption", "partition") or path
    return manifest.above(data, "dataset")


def _check_unseen(run: FinishedRun, path: Path, others: Shards) -> None:
    """Refuse images that the run's clients trained or validated on."""
    if not is_of_same_dataset(run, path):
        return
    shards = [*run.data.train.values(), *run.data.val.values()]
    ids = np.concatenate([shard.ids for shard in shards])
    count = int(np.isin(others.test["clean"].ids, ids).sum())
    if count:
        images = console.counted(count, "image", "images")
        raise FedcliError(
            f"the run's clients trained or validated on {images} of {path}",
            "score images that no client has seen: leave --all-images out, or give another --on",
        )


def _values(ours: list[str], theirs: list[str]) -> tuple[list[str], Array]:
    """The values of an attribute, the run's first, and the index of each of theirs among them.

    The index of an unknown one, -1, comes last.
    """
    values = [*ours, *(value for value in theirs if value not in ours)]
    indices = [values.index(value) for value in theirs]
    return values, np.array([*indices, -1])


def _as_ours(
    shard: Shard,
    pairs: dict[str, str],
    theirs: list[str],
    data: Shards,
    columns: Values,
) -> tuple[Shard, Array]:
    """The images whose class the run has, with its class numbers, and their rows [N]."""
    device = shard.y.device
    numbers = []
    for name in theirs:
        partner = pairs[name]
        numbers.append(data.classes.index(partner) if partner else -1)
    y = joined(shard.y.cpu().numpy(), np.array(numbers), len(data.classes))
    rows = np.flatnonzero(y >= 0) if y.ndim == 1 else np.arange(len(y))
    groups = {}
    for name, column in shard.groups.items():
        _, indices = columns[name]
        codes = indices[column.cpu().numpy()]
        groups[name] = torch.from_numpy(codes).to(device)
    labels = torch.from_numpy(y).to(device)
    renamed = replace(
        shard,
        y=labels,
        groups=groups,
        classes=len(data.classes),
        derived={},
    )
    return part(renamed, rows), rows
