"""Systems as figures see them: runs that differ in nothing but seeds and folds, their scores, and their test images as
the last round's model answers them, with groups and clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..comparison.resampling import bounds
from ..comparison.systems import LAST5, Scored
from ..data import manifest
from ..errors import UsageError, nearest
from ..labels import counts
from ..metrics import Task, chances
from ..scores import predictions
from ..scores.clinical_shape import CLIENT, positives
from ..scores.groups import grouping
from ..scores.parts import MODELS
from ..scores.scores import Scores
from ..scores.statistics.over_runs import mean_of
from ..scores.table import Score, Where
from .drawing import ALL, MOST_CLASSES, MOST_LINES, OF_ALL
from .figure import NothingToDraw

BY = "an attribute, whose groups are shown beside all images, or client"
VERSION = "of the test images: clean or corrupted"
LAST_ROUND = "This figure shows the last round, tables the mean of the last rounds."


@dataclass(frozen=True)
class Seen:
    """One version of the test images.

    Attributes:
        chances: [N, C]; y: [N], or [N, L]; units: [N], each image's patient, or its id.
        by_patient: whether units are patients or lesions.
        groupings: attribute -> place of each image's group [N], -1 of none, and the groups' names; "client" among them.
    """

    classes: list[str]
    ids: np.ndarray
    chances: np.ndarray
    y: np.ndarray
    units: np.ndarray
    by_patient: bool
    groupings: dict[str, tuple[np.ndarray, list[str]]]

    def members(self, attribute: str) -> list[tuple[str, int, np.ndarray]]:
        """Name, place of the look, and images of all together and of each group, at most MOST_LINES of them."""
        everyone = [(ALL, OF_ALL, np.arange(len(self.ids)))]
        if not attribute:
            return everyone
        place, names = self.groupings[attribute]
        sizes = np.bincount(place[place >= 0], minlength=len(names))
        shown = sorted(np.argsort(-sizes, kind="stable")[:MOST_LINES].tolist())
        return everyone + [
            (names[k], at, np.flatnonzero(place == k)) for at, k in enumerate(shown) if sizes[k]
        ]

    def parts(
        self, attribute: str, name: str
    ) -> Iterator[tuple[str, int, np.ndarray, np.ndarray, np.ndarray]]:
        """Of each group its name, the place of its look, and for one class of its images: the probability [n], whether
        it is theirs [n], and units [n]. Images of which the label is not known are left out."""
        c = self.classes.index(name)
        for group, place, members in self.members(attribute):
            known, label = Task.of(self.y).of_class(self.y[members], c)
            if len(known):
                yield group, place, self.chances[at := members[known], c], label, self.units[at]


@dataclass(frozen=True, kw_only=True)
class System:
    """One or several runs.

    Attributes:
        scored: what evaluation wrote of each run. known: every number of each run, over the rounds that count.
        at: which rounds these are.
        place: among the systems of a page or figure, which gives the colour.
        differs: the options in which it differs from the other systems. mark: stands for them where they are long.
    """

    scored: Sequence[Scored]
    known: Sequence[Mapping[Where, Score]] = ()
    at: str = LAST5
    place: int = 0
    differs: str = ""
    mark: str = ""

    @property
    def name(self) -> str:
        return self.scores.name

    @property
    def paths(self) -> list[Path]:
        return [run.path for run in self.scored]

    @property
    def each(self) -> list[Scores]:
        return [run.scores for run in self.scored]

    @property
    def scores(self) -> Scores:
        """Of the first run."""
        return self.scored[0].scores

    def percent(self, where: Where) -> float:
        """A score in percent, the mean over its runs; NaN where a run does not have it."""
        mean = mean_of([known.get(where) for known in self.known])
        return np.nan if mean is None else 100 * mean

    def bounds(self, of: Where) -> tuple[float, float]:
        """Its 95 % interval over patients, in percent; NaN where there is none."""
        low, high = bounds(self.scored, of, self.at) or (np.nan, np.nan)
        return 100 * low, 100 * high

    @property
    def one(self) -> str:
        """The name of the first run."""
        which = self.scored[0].which * (len(self.scored) > 1)
        return f"{self.name}, {which}" if which else self.name

    @cached_property
    def versions(self) -> dict[str, Seen]:
        """Version -> its test images as the first run answers them; none where there are no answers beside the
        scores, where they were counted at sites, and where every client answers for itself."""
        scores, path = self.scores, self.paths[0]
        file = path.parent / "predictions.h5"
        kept = predictions.read(file) if file.is_file() and not scores.curves else None
        if kept is None or not kept.logits:
            return {}
        groupings = {name: grouping(name, kept.groups, scores.attributes) for name in scores.groups}
        if kept.tests and (run := manifest.parent(path, "run")):
            owner = np.full(len(kept.id), -1)
            for row, places in kept.tests.items():
                owner[places] = row
            groupings[CLIENT] = owner, manifest.read(run).body["roster"]
        units = np.unique(kept.id if kept.unit is None else kept.unit, return_inverse=True)[1]
        shared = kept.y, units, kept.unit is not None, groupings
        return {
            version: Seen(scores.classes, kept.id, chances(rounds[max(rounds)], kept.y), *shared)
            for version in MODELS
            if (rounds := kept.logits.get(version))
        }

    @property
    def groupings(self) -> list[str]:
        """Attributes whose groups can be shown, "client" among them."""
        of_images = (by for images in self.versions.values() for by in images.groupings)
        return list(dict.fromkeys([*self.scores.groups, *of_images]))

    def images(self, version: str, by: str) -> Seen:
        """One version of the test images. Raises NothingToDraw where no model answers for them, UsageError."""
        if not self.versions:
            raise NothingToDraw(
                f"{self.one}: no single model answers for single images",
                "draw forest, or another run",
            )
        if version not in self.versions:
            raise UsageError(
                f"{self.one} has no {version} test images", nearest(version, self.versions)
            )
        if by and by not in (groupings := self.versions[version].groupings):
            raise UsageError(f"{self.one} has no scores by {by!r}", nearest(by, groupings))
        return self.versions[version]

    def heading(self, shown: str, by: str, version: str) -> str:
        """The title of a figure of one version of the test images."""
        return f"{shown}{f' by {by}' if by else ''}, {version} test images: {self.one}"

    def shown_classes(self, images: Seen) -> list[str]:
        """The classes that curves are drawn of: those that were described, else the second of two, else those of which
        there are most images."""
        if self.scores.clinical:
            return list(self.scores.clinical["classes"])[:MOST_CLASSES]
        names = positives(images.classes, (), several=Task.of(images.y).several)
        of_class = dict(
            zip(images.classes, counts(images.y, len(images.classes)).tolist(), strict=True)
        )
        chosen = sorted(names, key=lambda name: -of_class[name])[:MOST_CLASSES]
        return [name for name in names if name in chosen and of_class[name]]
