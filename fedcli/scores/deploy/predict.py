"""A run's model on image files that are in no dataset: read, prepared and scored as the run's own images were.

What prepare did is taken from the manifest of the dataset that the run was trained on: the reader, the window of a CT,
the fit, the size. A dataset whose images are no single files has no reader for them; files are then read as those of
one's own images are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ... import console, extensions
from ...data import manifest, originals, sources
from ...data.originals import Originals
from ...data.pool import Row
from ...data.shard import Shard
from ...data.sources.formats.photographs import fit_image, match_channels, scaled_decoding
from ...data.sources.own_files import own_images
from ...data.sources.source import Choices, Source, Unreadable
from ...errors import FedcliError, UsageError, nearest
from ...metrics import chances
from ...runs import finished as runs
from ...runs.finished import Run
from ...runs.initial import data_of, is_at_sites
from ...runs.own_code import file_of
from ..clinical.chosen import OperatingPoint
from .foreign import FEWEST, Known, features_of, pixel_facts
from .operating import points

BATCH = 64  # images in memory at a time
AREA = "INTER_AREA where {} more than {}, else INTER_CUBIC (OpenCV)"  # as fit_image() does
RESIZE = {
    "stretch": f"to size x size by {AREA.format('the image has', 'size x size pixels')}",
    "pad": f"its longer side to size by {AREA.format('it is', 'size')}, then black around it",
}
OWN = {
    "channels": "auto",
    "white": "auto",
}  # options of one's own images, for datasets that have none


@dataclass(frozen=True)
class Preprocessing:
    """The steps of prepare on every image of a dataset.

    Attributes:
        channels: of the prepared images; the network may repeat one to three.
        originals: facts of the training images' files, where prepare kept them.
    """

    dataset: str
    source: Source
    choices: Choices
    channels: int
    originals: Originals | None = None

    @classmethod
    def of(cls, run: Run) -> "Preprocessing":
        """From the chain of manifests above a run's images. Raises FedcliError."""
        path = manifest.above(run.images or data_of(run.path), "dataset")
        dataset = manifest.read(path)
        if "merged" in dataset.options:
            what = f"{path} was merged of datasets that were prepared in ways of their own"
            raise FedcliError(
                what, "prepare the new files as one of them, then fedcli evaluate --on"
            )
        known = {each.name for each in fields(Choices)}
        choices = Choices(**{key: value for key, value in dataset.options.items() if key in known})
        name, code = dataset.options["dataset"], dataset.options.get("code", {})
        with extensions.named_by(path):
            reader = sources.source(f"{file_of(name, code)}:{name}" if "file" in code else name)
        if not reader.per_file:
            reader = own_images.SOURCE
            choices = Choices(**{**vars(choices), "own": {**OWN, **choices.own}})
        return cls(name, reader, choices, dataset.body["channels"], originals.read(path.parent))

    def read(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """uint8 [S, S, C] of one file, and pixel_facts() [3] of its own colours at that size. Raises Unreadable."""
        if not path.is_file():
            raise Unreadable("no such file" if not path.exists() else "not a regular file")
        with scaled_decoding(self.choices):
            image = self.source.decode(path.parent, Row(path.name, 0, path.name), self.choices)
        fitted = self._fitted(match_channels(image, self.channels))
        own = (
            self._fitted(image) if image.shape[2] > self.channels else fitted
        )  # colours that a grey model loses
        return fitted, pixel_facts(own[None])[0]

    def differences(self, path: Path) -> list[str]:
        """Those of a file from the training images' files, in words. Raises Unreadable."""
        return self.originals.differences(originals.original(path)) if self.originals else []

    def _fitted(self, image: np.ndarray) -> np.ndarray:
        return fit_image(image, self.choices.size, self.choices.fit, self.choices.clahe)

    @property
    def recorded(self) -> dict[str, Any]:
        """For whoever has to do the same without fedcli."""
        chosen = self.choices
        return {
            "size": chosen.size,
            "channels": self.channels,
            "fit": chosen.fit,
            "clahe": chosen.clahe,
            "window": chosen.window,
            "resize": RESIZE[chosen.fit],
            **({"scaled_decoding": True} if chosen.scaled_decoding else {}),
        }


@dataclass(frozen=True)
class Predicted:
    """Chances [N, C] of N files, in the order in which they were named; unreadable: (file, why).

    foreign: of each file its differences from the training images in words, "" where there are none.

    several: an image may have several labels, each decided for where its chance is at least 1/2.
    operating: thresholds of single classes, chosen on the run's validation images.
    """

    files: list[str]
    classes: list[str]
    chances: np.ndarray
    unreadable: list[tuple[str, str]]
    several: bool = False
    operating: list[OperatingPoint] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def at_points(self) -> list[list[bool | None]]:
        """For each operating point the decision on each file; None on a file that is foreign to the training images."""
        decided: list[list[bool | None]] = []
        for point in self.operating:
            calls = point.decide(self.chances, self.classes)
            pairs = zip(calls, self.foreign, strict=True)
            decided.append([None if foreign else positive for positive, foreign in pairs])
        return decided

    @property
    def decisions(self) -> list[str]:
        """The most likely class of each, or its labels with | between them."""
        if self.several:
            named = [zip(self.classes, row, strict=True) for row in self.chances]
            return ["|".join(name for name, chance in row if chance >= 0.5) for row in named]
        return [self.classes[place] for place in self.chances.argmax(1)] if self.files else []


def named_files(paths: Iterable[Path]) -> tuple[list[Path], list[tuple[str, str]]]:
    """The files that paths mean: themselves, and of a folder every image in it; and those in it that are left out, with
    why. Raises FedcliError."""
    files: list[Path] = []
    left_out: list[tuple[str, str]] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside, others, outside = own_images.image_files(path)
        left_out += [(str(path / name), why) for name, why in outside]
        if others:
            console.say(
                f"{path}: {console.counted(len(others), 'file is', 'files are')} no image, such as {others[0]}"
            )
        files += [path / name for name in inside]
    if not files and not left_out:
        raise FedcliError(
            "there is no image to score", f"files that are read: {', '.join(own_images.SUFFIXES)}"
        )
    return list(dict.fromkeys(files)), left_out


def check_client(run: Run, client: str | None) -> None:
    """Raises UsageError where a client is named that has no model of its own, or none where only clients have one."""
    if client is not None and client not in run.data.roster:
        raise UsageError(f"the run has no client {client!r}", nearest(client, run.data.roster))
    if client is not None and not (runs.has_personal_models(run) or runs.trains_alone(run)):
        raise UsageError(
            f"{run.path} keeps no models of its clients",
            "leave --client out: the global model answers",
        )
    if client is None and runs.trains_alone(run):
        hint = f"name one with --client: {', '.join(run.data.roster[:8])}"
        raise UsageError(
            f"in {run.path} every client trained alone, so there is no global model", hint
        )


def predict(run: Run, paths: Iterable[Path], client: str | None = None, **wanted: Any) -> Predicted:
    """Chances of each class by the last round's model, and decisions at its operating points; a file that cannot be
    read is listed.

    paths: files, and folders of them. wanted: operating points, as points() takes them. Raises FedcliError where no
    file can be read, UsageError.
    """
    files, unreadable = named_files(paths)
    check_client(run, client)
    if manifest.of_sample([run.path]):
        console.warn(
            "this run was trained on SYNTHETIC data: its probabilities say nothing about patients"
        )
    operating = points(run, client, **wanted)
    preprocessing = Preprocessing.of(run)
    runs.load_model(run, run.rounds[-1], client)
    known = Known.of(run, client)
    if not known.comparable:
        console.warn(
            "no training images are here: new images cannot be compared with the training data"
        )
    elif not len(known.features):
        console.say(
            f"fewer than {FEWEST} training images are here: new ones are not compared with their features"
        )
    elif is_at_sites(run.path):
        console.say(
            "the run was trained at sites: new images are compared with those of --data alone"
        )
    done: list[str] = []
    foreign: list[str] = []
    tables: list[np.ndarray] = []
    batches = [files[start : start + BATCH] for start in range(0, len(files), BATCH)]
    for batch in console.progress(batches, label="predict", total=len(batches)):
        read: list[tuple] = []  # name, pixels, facts of them, and differences of the file
        for path in batch:
            try:
                read.append((str(path), *preprocessing.read(path), preprocessing.differences(path)))
            except Unreadable as error:
                unreadable.append((str(path), str(error)))
        if read:
            names, images, facts, files_differ = zip(*read)
            done += names
            shard = shard_of(np.stack(images), run)
            tables.append(runs.logits(run.net, shard, run.method.local))
            images_differ = known.reasons(np.stack(facts), features_of(run, shard))
            foreign += [
                "; ".join([*first, *then])
                for first, then in zip(files_differ, images_differ, strict=True)
            ]
    if not done:
        what = f"none of {console.counted(len(unreadable), 'file', 'files')} can be read"
        raise FedcliError(what, ": ".join(unreadable[0]))
    if flagged := [(file, why) for file, why in zip(done, foreign, strict=True) if why]:
        what = f"{len(flagged)} of {console.counted(len(done), 'image is', 'images are')} foreign to the training images"
        console.warn(
            f"{what}, such as {flagged[0][0]}: {flagged[0][1]}; do not rely on their probabilities"
        )
    labels = run.data.test["clean"].y.cpu().numpy()[:0]
    table = chances(np.concatenate(tables), labels)
    return Predicted(
        done, run.data.classes, table, unreadable, labels.ndim == 2, operating, foreign
    )


def shard_of(images: np.ndarray, run: Run) -> Shard:
    """Prepared images uint8 [N, S, S, C] as a test set of which neither labels nor groups are known."""
    count = len(images)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).to(run.device)
    groups = {name: torch.full((count,), -1, device=run.device) for name in run.data.attributes}
    at = torch.arange(count, device=run.device)
    return Shard(
        pixels,
        at,
        torch.zeros_like(at),
        np.arange(count).astype(str),
        groups,
        len(run.data.classes),
        run.manifest.body["model"]["channels"],
    )
