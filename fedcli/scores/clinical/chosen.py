"""Thresholds that finished evaluations of a run chose, each with the data that chose it.

A run that was trained at sites has no validation images of its own: `evaluate --on` takes those of
one site, and its thresholds are for that site's data alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...data import manifest
from ..clinical_shape import POOLED, check, select
from ..existing import evaluations

DATA = ("corruption", "partition", "sites")  # manifests of a run's data
DIGITS = 12  # of a sha256 in a text; files hold all of them


@dataclass(frozen=True)
class OperatingPoint:
    """An image is called `positive` where its probability of it is at least the threshold.

    images: validation images that the threshold was chosen on. data, sha256: name and hash of the
    data they are from. scores: the evaluation that chose it; None of an exported model.
    """

    positive: str
    rule: str
    threshold: float
    images: int
    data: str = ""
    sha256: str = ""
    scores: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.positive} at {self.rule}"

    @property
    def source(self) -> str:
        """The data whose validation images chose the threshold, in words."""
        return f"{self.data} (sha256 {self.sha256[:DIGITS]})"

    @property
    def recorded(self) -> dict[str, Any]:
        """The point for json."""
        return {
            "positive": self.positive,
            "rule": self.rule,
            "threshold": self.threshold,
            "images": self.images,
            "chosen_on": "validation",
            "data": self.data,
            "data_sha256": self.sha256,
        }

    def decide(self, chances: np.ndarray, classes: Sequence[str]) -> list[bool]:
        """The decisions on images of probabilities [N, C]."""
        column = chances[:, classes.index(self.positive)]
        return (column >= self.threshold).tolist()


def chosen_points(run: Path) -> list[OperatingPoint]:
    """The pooled thresholds of every finished `evaluate --clinical` of a run.json.

    They are each once for each data.
    """
    digest = manifest.sha256(run)
    points: dict[tuple[str, str, str], OperatingPoint] = {}
    for path, scored in evaluations(run.parent / "scores"):
        if "clinical" in scored.options and digest in scored.parents.values():
            for point in _points(run, path):
                points[point.positive, point.rule, point.sha256] = point
    return list(points.values())


def _points(run: Path, scores: Path) -> Iterator[OperatingPoint]:
    """The pooled thresholds of one evaluation."""
    body = manifest.verify(scores, "scores").body
    clinical = check(body.get("clinical"), scores)
    data, sha256 = chosen_on(run, body.get("external"))
    images = clinical["validation"]
    for (name, version), operating in select(clinical, "classes/*/*/operating/*"):
        threshold = operating["thresholds"].get("")
        if version == "clean" and operating["choice"] == POOLED and threshold is not None:
            yield OperatingPoint(
                name,
                operating["rule"],
                threshold,
                images,
                data,
                sha256,
                scores,
            )


def chosen_on(run: Path, external: Mapping[str, Any] | None) -> tuple[str, str]:
    """Name and hash of the data whose validation images choose thresholds.

    external: of the scores, the other test images that were asked for. Those of a run that was
    trained at sites have the validation images too; other runs have their own.
    """
    path = manifest.parent(run, *DATA)
    assert path is not None  # every run names its data
    data = manifest.read(path)
    if external and data.kind == "sites":
        return site_of(data.body, external["dataset"], external["sha256"])
    return data.body["dataset"], manifest.sha256(path)


def chosen_here(run: Path, images: Path) -> tuple[str, str]:
    """Name and hash of the data whose validation images choose thresholds of an opened run.

    images: the manifest of the images at hand.
    """
    path = manifest.parent(run, *DATA)
    digest = manifest.sha256(images)
    dataset = manifest.read(images).body["dataset"]
    if path is not None:
        data = manifest.read(path)
        if data.kind == "sites":
            return site_of(data.body, dataset, digest)
    return dataset, digest


def site_of(
    sites: Mapping[str, Any],
    dataset: str,
    sha256: str,
) -> tuple[str, str]:
    """The name of the one site that described data of this hash, and the hash.

    Without such a site the name is that of the dataset.
    """
    digests = sites.get("data", {})
    names = [site for site, digest in digests.items() if digest == sha256]
    return names[0] if len(names) == 1 else dataset, sha256
