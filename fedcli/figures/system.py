"""Systems as figures see them: runs that differ in nothing but seeds and folds, and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import FedcliError, UsageError, nearest
from ..metrics.task import ONE, SEVERAL
from ..scores.scores import Scores
from .figure import Options
from .seen import Seen, seen


@dataclass(frozen=True)
class System:
    """One or several runs.

    Attributes:
        place: among the systems that are compared, which gives the colour.
        paths, each: the scores.json of each run and what it holds.
        which: the first run in words, "" where there is no other.
    """

    place: int
    name: str
    paths: Sequence[Path]
    each: Sequence[Scores]
    which: str = ""

    @property
    def scores(self) -> Scores:
        """Of the first run."""
        return self.each[0]

    @property
    def one(self) -> str:
        """The name of the first run."""
        return f"{self.name}, {self.which}" if self.which else self.name

    @cached_property
    def versions(self) -> dict[str, Seen]:
        """Version -> its test images as the first run answers them."""
        return {images.version: images for images in seen(self.paths[0], self.scores)}

    @property
    def variants(self) -> list[Options]:
        """Version of the test images and attribute of each picture that is drawn of single images."""
        return [
            {"by": by, "version": version}
            for version, images in self.versions.items()
            for by in images.groupings or ("",)
        ]

    def images(self, version: str, by: str) -> Seen:
        """One version of the test images. Raises FedcliError where no model answers for them, UsageError."""
        if not self.versions:
            raise FedcliError(f"{self.one}: no single model answers for single images", "draw forest, or another run")
        if version not in self.versions:
            raise UsageError(f"{self.one} has no {version} test images", nearest(version, self.versions))
        if by and by not in (groupings := self.versions[version].groupings):
            raise UsageError(f"{self.one} has no scores by {by!r}", nearest(by, groupings))
        return self.versions[version]


def area(scores: Scores) -> str:
    """The area under the curve that stands for a run."""
    return usual(scores)[1]


def usual(scores: Scores) -> tuple[str, str]:
    """The metrics that are shown where none are asked for."""
    several = any(SEVERAL.area in metrics for metrics in scores.versions.values())
    return (SEVERAL if several else ONE).usual
