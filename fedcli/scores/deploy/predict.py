"""A run's model on image files that are in no dataset.

They are read, prepared and scored as the run's own images were. What prepare did is taken from the
manifest of the dataset that the run was trained on: the reader, the window of a CT, the fit, the
size. A dataset whose images are no single files has no reader for them; files are then read as
those of one's own images are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import console, extensions
from ...data import manifest, originals, sources
from ...data.originals import Originals
from ...data.pool import Row
from ...data.prepare_options import PrepareOptions
from ...data.shard import Shard
from ...data.sources.formats.photographs import fit_image, match_channels, shrunk_decoding
from ...data.sources.own_files import own_images
from ...data.sources.source import Source, Unreadable
from ...errors import FedcliError, UsageError, nearest
from ...metrics import chances
from ...runs import finished as runs
from ...runs.finished import FinishedRun
from ...runs.initial import data_of, is_at_sites
from ...runs.own_code import file_of
from ..clinical.chosen import OperatingPoint
from .foreign import FEWEST, Known, features_of, pixel_facts
from .operating import points

BATCH = 64  # images in memory at a time
AREA = "INTER_AREA where {} more than {}, else INTER_CUBIC (OpenCV)"  # as fit_image() does
STRETCH = AREA.format("the image has", "size x size pixels")
PAD = AREA.format("it is", "size")
RESIZE = {
    "stretch": f"to size x size by {STRETCH}",
    "pad": f"its longer side to size by {PAD}, then black around it",
}
# options of one's own images, for datasets that have none
OWN = {"channels": "auto", "white": "auto"}
Array = np.ndarray
Unread = tuple[str, str]  # a file and why it was not read


@dataclass(frozen=True)
class Preprocessing:
    """The steps of prepare on every image of a dataset.

    Attributes:
        channels: of the prepared images; the network may repeat one to three.
        originals: facts of the training images' files, where prepare kept them.
    """

    dataset: str
    source: Source
    choices: PrepareOptions
    channels: int
    originals: Originals | None = None

    @classmethod
    def of(cls, run: FinishedRun) -> "Preprocessing":
        """The steps by the chain of manifests above a run's images. Raises FedcliError."""
        path = manifest.above(run.images or data_of(run.path), "dataset")
        dataset = manifest.read(path)
        if "merged" in dataset.options:
            fault = f"{path} was merged of datasets that were prepared in ways of their own"
            hint = "prepare the new files as one of them, then fedcli evaluate --on"
            raise FedcliError(fault, hint)
        name = dataset.options["dataset"]
        choices = PrepareOptions.of_record(name, dataset.options)
        code = dataset.options.get("code", {})
        source = f"{file_of(name, code)}:{name}" if "file" in code else name
        with extensions.named_by(path):
            reader = sources.source(source)
        if not reader.per_file:
            reader = own_images.SOURCE
            choices = choices.completed({**OWN, **choices.own})
        return cls(
            name,
            reader,
            choices,
            dataset.body["channels"],
            originals.read(path.parent),
        )

    def read(self, path: Path) -> tuple[Array, Array]:
        """uint8 [S, S, C] of one file, and pixel_facts() [3] of its own colours at that size.

        Raises Unreadable.
        """
        if not path.exists():
            raise Unreadable("no such file")
        if not path.is_file():
            raise Unreadable("not a regular file")
        with shrunk_decoding(self.choices):
            row = Row(path.name, 0, path.name)
            image = self.source.decode(
                path.parent,
                row,
                self.choices,
            )
        fitted = self._fitted(match_channels(image, self.channels))
        in_colour = fitted
        if image.shape[2] > self.channels:  # colours that a grey model loses
            in_colour = self._fitted(image)
        return fitted, pixel_facts(in_colour[None])[0]

    def differences(self, path: Path) -> list[str]:
        """The differences of a file from the training images' files, in words.

        Raises Unreadable.
        """
        if not self.originals:
            return []
        return self.originals.differences(originals.original(path))

    def _fitted(self, image: Array) -> Array:
        return fit_image(
            image,
            self.choices.size,
            self.choices.fit,
            self.choices.clahe,
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """The steps for whoever has to do the same without fedcli."""
        chosen = self.choices
        steps = {
            "size": chosen.size,
            "channels": self.channels,
            "resize": RESIZE[chosen.fit],
        }
        return steps | chosen.record(chosen.marked("pixels"))


@dataclass(frozen=True)
class Predicted:
    """Chances [N, C] of N files, in the order in which they were named.

    unreadable: (file, why). several: an image may have several labels, each decided for where its
    chance is at least 1/2. operating: thresholds of single classes, chosen on the run's validation
    images. foreign: each file's differences from the training images in words, "" where there are
    none.
    """

    files: list[str]
    classes: list[str]
    chances: Array
    unreadable: list[Unread]
    several: bool = False
    operating: list[OperatingPoint] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def at_points(self) -> list[list[bool | None]]:
        """For each operating point the decision on each file.

        None on a file that is foreign to the training images.
        """
        decisions: list[list[bool | None]] = []
        for point in self.operating:
            calls = zip(
                point.decide(self.chances, self.classes),
                self.foreign,
                strict=True,
            )
            decisions.append([None if foreign else positive for positive, foreign in calls])
        return decisions

    @property
    def decisions(self) -> list[str]:
        """The most likely class of each, or its labels with | between them."""
        if not self.files:
            return []
        if not self.several:
            return [self.classes[c] for c in self.chances.argmax(1)]
        decisions = []
        for row in self.chances:
            chances = zip(self.classes, row, strict=True)
            likely = (name for name, chance in chances if chance >= 0.5)
            decisions.append("|".join(likely))
        return decisions


def named_files(paths: Iterable[Path]) -> tuple[list[Path], list[Unread]]:
    """The files that paths mean: themselves, and of a folder every image in it.

    The second list is of those in a folder that are left out, with why. Raises FedcliError.
    """
    files: list[Path] = []
    left_out: list[Unread] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside, others, outside = own_images.image_files(path)
        for name, why in outside:
            left_out.append((str(path / name), why))
        if others:
            count = console.counted(len(others), "file is", "files are")
            console.say(f"{path}: {count} no image, such as {others[0]}")
        files += [path / name for name in inside]
    if not files and not left_out:
        suffixes = ", ".join(own_images.SUFFIXES)
        raise FedcliError("there is no image to score", f"files that are read: {suffixes}")
    return list(dict.fromkeys(files)), left_out


def check_client(run: FinishedRun, client: str | None) -> None:
    """Refuse a client without a model of its own; and none, where only clients have a model.

    Raises UsageError.
    """
    roster = run.data.roster
    if client is None:
        if runs.trains_alone(run):
            names = ", ".join(roster[:8])
            raise UsageError(
                f"in {run.path} every client trained alone, so there is no global model",
                f"name one with --client: {names}",
            )
        return
    if client not in roster:
        raise UsageError(f"the run has no client {client!r}", nearest(client, roster))
    if not (runs.has_personal_models(run) or runs.trains_alone(run)):
        hint = "leave --client out: the global model answers"
        raise UsageError(f"{run.path} keeps no models of its clients", hint)


def predict(
    run: FinishedRun,
    paths: Iterable[Path],
    client: str | None = None,
    **requested: Any,
) -> Predicted:
    """Chances of each class by the last round's model, and decisions at its operating points.

    A file that cannot be read is listed. paths: files, and folders of them. requested: operating
    points, as points() takes them. Raises FedcliError where no file can be read, UsageError.
    """
    files, unreadable = named_files(paths)
    check_client(run, client)
    if manifest.of_sample([run.path]):
        console.warn(
            "this run was trained on SYNTHETIC data: its probabilities say nothing about patients"
        )
    operating = points(run, client, **requested)
    preprocessing = Preprocessing.of(run)
    runs.load_model(run, run.rounds[-1], client)
    training = Known.of(run, client)
    _say_compared(run, training)
    done: list[str] = []
    foreign: list[str] = []
    tables: list[Array] = []
    starts = range(0, len(files), BATCH)
    batches = [files[start : start + BATCH] for start in starts]
    for batch in console.progress(batches, label="predict", total=len(batches)):
        images = _read(batch, preprocessing, unreadable)
        if not images:
            continue
        shard = shard_of(np.stack([image.pixels for image in images]), run)
        tables.append(runs.logits(run.net, shard, run.method.local))
        facts = np.stack([image.facts for image in images])
        reasons = training.reasons(facts, features_of(run, shard))
        for image, differences in zip(images, reasons, strict=True):
            done.append(image.file)
            foreign.append("; ".join(image.differences + differences))
    if not done:
        count = console.counted(len(unreadable), "file", "files")
        raise FedcliError(f"none of {count} can be read", ": ".join(unreadable[0]))
    _warn_of_foreign(done, foreign)
    labels = run.data.test["clean"].y.cpu().numpy()[:0]
    logits = np.concatenate(tables)
    return Predicted(
        files=done,
        classes=run.data.classes,
        chances=chances(logits, labels),
        unreadable=unreadable,
        several=labels.ndim == 2,
        operating=operating,
        foreign=foreign,
    )


def _say_compared(run: FinishedRun, training: Known) -> None:
    """Say which training images new ones are compared with, where it is not all of them."""
    if not training.comparable:
        console.warn(
            "no training images are here: new images cannot be compared with the training data"
        )
    elif not len(training.features):
        console.say(
            f"fewer than {FEWEST} training images are here: new ones are not compared with their "
            "features"
        )
    elif is_at_sites(run.path):
        console.say(
            "the run was trained at sites: new images are compared only with the images of --data"
        )


class _Image(NamedTuple):
    """A file that was read; facts: of its pixels."""

    file: str
    pixels: Array
    facts: Array
    differences: list[str]


def _read(
    files: Sequence[Path],
    preprocessing: Preprocessing,
    unreadable: list[Unread],
) -> list[_Image]:
    """The files that can be read; the others are added to `unreadable`."""
    images = []
    for path in files:
        try:
            pixels, facts = preprocessing.read(path)
            images.append(_Image(str(path), pixels, facts, preprocessing.differences(path)))
        except Unreadable as error:
            unreadable.append((str(path), str(error)))
    return images


def _warn_of_foreign(files: Sequence[str], foreign: Sequence[str]) -> None:
    """Warn of files that differ from the training images."""
    flagged = [(file, why) for file, why in zip(files, foreign, strict=True) if why]
    if flagged:
        file, why = flagged[0]
        images = console.counted(len(files), "image is", "images are")
        count = len(flagged)
        console.warn(
            f"{count} of {images} foreign to the training images, such as {file}: {why}; "
            "do not rely on their probabilities"
        )


def shard_of(images: Array, run: FinishedRun) -> Shard:
    """Prepared images uint8 [N, S, S, C] as a test set without labels and groups."""
    count = len(images)
    rows = torch.arange(count, device=run.device)
    unknown = torch.full((count,), -1, device=run.device)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).to(run.device)
    ids = np.arange(count).astype(str)
    groups = {name: unknown.clone() for name in run.data.attributes}
    channels = run.manifest.body["model"]["channels"]
    return Shard(
        pixels,
        rows,
        torch.zeros_like(rows),
        ids,
        groups,
        len(run.data.classes),
        channels,
    )
