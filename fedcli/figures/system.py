"""Systems as figures see them: runs that differ in nothing but seeds and folds, and their scores.

Their test images are those that the last round's model answers, with groups and clients.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy import ndarray

from ..comparison.cautions import small_clients, small_groups
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
from ..scores.predictions import Predictions
from ..scores.scores import RunScores
from ..scores.statistics.over_runs import mean_of
from ..scores.table import Score, Where
from .drawing import ALL, MOST_CLASSES, MOST_LINES, OF_ALL
from .figure import NothingToDraw

LARGEST = f"the {MOST_LINES} largest groups"
By = Annotated[str, "an attribute, whose groups are shown next to all images, or client"]
VERSION = "of the test images: clean or corrupted"
LAST_ROUND = "This figure shows the last round, tables the mean of the last rounds."
OF_GROUPS = " of each group; the curve of all images has none"  # behind what bands are of
SMALL = " † marks groups that are too small, or in which a class is missing or has few images."
Groupings = dict[str, tuple[ndarray, list[str]]]


@dataclass(frozen=True)
class AnsweredImages:
    """One version of the test images, with the answers of a model.

    Attributes:
        chances: [N, C]; y: [N], or [N, L]; units: [N], each image's patient, or its id.
        by_patient: whether units are patients or lesions.
        groupings: attribute -> position of each image's group [N], -1 of none, and the groups'
            names; "client" among them.
    """

    classes: list[str]
    ids: ndarray
    chances: ndarray
    y: ndarray
    units: ndarray
    by_patient: bool
    groupings: Groupings

    def members(self, attribute: str) -> list[tuple[str, int, ndarray]]:
        """Name, position of the look, and images of all together and of each group.

        Of the groups at most MOST_LINES.
        """
        members = [(ALL, OF_ALL, np.arange(len(self.ids)))]
        if not attribute:
            return members
        group_of, names = self.groupings[attribute]
        grouped = group_of[group_of >= 0]
        sizes = np.bincount(grouped, minlength=len(names))
        largest = np.argsort(-sizes, kind="stable")[:MOST_LINES]
        for position, k in enumerate(sorted(largest.tolist())):
            if sizes[k]:
                rows = np.flatnonzero(group_of == k)
                members.append((names[k], position, rows))
        return members

    def parts(
        self, attribute: str, class_name: str
    ) -> Iterator[tuple[str, int, ndarray, ndarray, ndarray]]:
        """Name, position of the look, probability, label and units of each group, for one class.

        The last three are [n], over images whose label is known; the label is 1 for the class.
        """
        column = self.classes.index(class_name)
        task = Task.of(self.y)
        for group, position, members in self.members(attribute):
            labelled, label = task.of_class(self.y[members], column)
            if len(labelled):
                rows = members[labelled]
                scores = self.chances[rows, column]
                yield group, position, scores, label, self.units[rows]


@dataclass(frozen=True, kw_only=True)
class System:
    """One or several runs.

    Attributes:
        scored: what evaluation wrote of each run.
        known: every number of each run, over the rounds that count.
        at: which rounds these are.
        place: among the systems of a page or figure, which gives the colour.
        differs: the options in which it differs from the other systems.
        mark: stands for them where they are long.
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
    def each(self) -> list[RunScores]:
        return [run.scores for run in self.scored]

    @property
    def scores(self) -> RunScores:
        """The scores of the first run."""
        return self.scored[0].scores

    def percent(self, where: Where) -> float:
        """A score in percent, the mean over its runs; NaN where a run does not have it."""
        mean = mean_of([scores.get(where) for scores in self.known])
        return np.nan if mean is None else 100 * mean

    def bounds(self, where: Where) -> tuple[float, float]:
        """The 95 % interval of a score over patients, in percent; NaN where there is none."""
        interval = bounds(self.scored, where, self.at)
        low, high = interval or (np.nan, np.nan)
        return 100 * low, 100 * high

    def small_members(self, attribute: str) -> list[str]:
        """The groups of an attribute, or the clients, with too few images for a reliable curve."""
        area = self.scores.usual[1]
        if attribute == CLIENT:
            return list(small_clients(self.scores, area))
        return list(small_groups(self.scores, attribute, area))

    @property
    def run_name(self) -> str:
        """The name of the first run."""
        which = self.scored[0].which
        if which and len(self.scored) > 1:
            return f"{self.name}, {which}"
        return self.name

    @cached_property
    def versions(self) -> dict[str, AnsweredImages]:
        """Version -> its test images as the first run answers them.

        None where there are no answers beside the scores, where they were counted at sites, and
        where every client answers for itself.
        """
        file = self.paths[0].parent / "predictions.h5"
        if self.scores.curves or not file.is_file():
            return {}
        answers = predictions.read(file)
        if not answers.logits:
            return {}
        by_patient = answers.unit is not None
        units = answers.id if answers.unit is None else answers.unit
        _, unit_of = np.unique(units, return_inverse=True)
        groupings = self._groupings(answers)
        images = {}
        for version in MODELS:
            logits = answers.logits.get(version)
            if logits:
                images[version] = AnsweredImages(
                    self.scores.classes,
                    answers.id,
                    chances(logits[max(logits)], answers.y),
                    answers.y,
                    unit_of,
                    by_patient,
                    groupings,
                )
        return images

    @property
    def why_no_images(self) -> str:
        """Why there are no versions."""
        if self.scores.curves:
            return "its sites answered with counts, so there are no predictions of single images"
        if not (self.paths[0].parent / "predictions.h5").is_file():
            return "its scores have no predictions of single images"
        return "no single model answers for single images"

    def _groupings(self, answers: Predictions) -> Groupings:
        attributes = self.scores.attributes
        groupings = {}
        for name in self.scores.groups:
            groupings[name] = grouping(name, answers.groups, attributes)
        run = manifest.parent(self.paths[0], "run")
        if run and answers.tests:
            client_of = np.full(len(answers.id), -1)
            for client, rows in answers.tests.items():
                client_of[rows] = client
            groupings[CLIENT] = client_of, manifest.read(run).body["roster"]
        return groupings

    @property
    def groupings(self) -> list[str]:
        """Attributes whose groups can be shown, "client" among them."""
        names = list(self.scores.groups)
        for images in self.versions.values():
            names += images.groupings
        return list(dict.fromkeys(names))

    def images(self, version: str, attribute: str) -> AnsweredImages:
        """One version of the test images.

        Raises UsageError, and NothingToDraw where no model answers for them.
        """
        if not self.versions:
            sentence = f"{self.run_name}: {self.why_no_images}"
            raise NothingToDraw(sentence, "draw forest, or another run")
        if version not in self.versions:
            hint = nearest(version, self.versions)
            raise UsageError(f"{self.run_name} has no {version} test images", hint)
        images = self.versions[version]
        if attribute and attribute not in images.groupings:
            hint = nearest(attribute, images.groupings)
            raise UsageError(f"{self.run_name} has no scores by {attribute!r}", hint)
        return images

    def heading(self, subject: str, attribute: str, version: str) -> str:
        """The title of a figure of one version of the test images."""
        if attribute:
            subject = f"{subject} by {attribute}"
        return f"{subject}, {version} test images: {self.run_name}"

    def shown_classes(self, images: AnsweredImages) -> list[str]:
        """The classes that curves are drawn of.

        Those that were described, else the second of two, else those with most images.
        """
        if self.scores.clinical:
            return list(self.scores.clinical["classes"])[:MOST_CLASSES]
        has_several = Task.of(images.y).several
        names = positives(images.classes, (), several=has_several)
        sizes = counts(images.y, len(images.classes)).tolist()
        size_of = dict(zip(images.classes, sizes, strict=True))
        by_size = sorted(names, key=lambda name: -size_of[name])
        largest = by_size[:MOST_CLASSES]
        return [name for name in names if name in largest and size_of[name]]


def has_more_groups(images: AnsweredImages, attribute: str) -> bool:
    """Tell whether an attribute has groups with images that AnsweredImages.members() leaves out."""
    if not attribute:
        return False
    group_of, _ = images.groupings[attribute]
    groups = np.unique(group_of[group_of >= 0])
    return len(groups) > MOST_LINES


def largest_alone(images: AnsweredImages, attribute: str) -> str:
    """The end of a caption: that smaller groups are left out; "" where all are shown."""
    return f" Shown are {LARGEST}." if has_more_groups(images, attribute) else ""


def shared_images(systems: Sequence[System]) -> int:
    """The number of test images of all runs; 0 where it differs."""
    counts = {scores.images for system in systems for scores in system.each}
    return counts.pop() if len(counts) == 1 else 0


def shared_attributes(systems: Sequence[System]) -> list[str]:
    """Attributes by whose groups all systems are scored, in the order of the first."""
    attributes = []
    for attribute in systems[0].scores.groups:
        if all(attribute in system.scores.groups for system in systems):
            attributes.append(attribute)
    return attributes
