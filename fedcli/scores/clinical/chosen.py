"""Thresholds that finished evaluations of a run chose, each with the data whose validation images chose it.

A run that was trained at sites has no validation images of its own: `evaluate --on` takes those of
one site, and its thresholds are for that site's data alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...data import manifest
from ..clinical_shape import POOLED, check, select
from ..existing import evaluations

HERE = "corruption", "partition", "sites"  # manifests of a run's data
DIGITS = 12  # of a sha256 in a text; files hold all of them


@dataclass(frozen=True)
class OperatingPoint:
    """An image is called `positive` where its probability of it is at least the threshold.

    images: validation images that the threshold was chosen on. data, sha256: name and hash of the
    data they are from.
    """

    positive: str
    rule: str
    threshold: float
    images: int
    data: str = ""
    sha256: str = ""

    @property
    def name(self) -> str:
        return f"{self.positive} at {self.rule}"

    @property
    def source(self) -> str:
        """The data whose validation images chose the threshold, in words."""
        return f"{self.data} (sha256 {self.sha256[:DIGITS]})"

    @property
    def recorded(self) -> dict[str, Any]:
        """For json."""
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
        """Of probabilities [N, C]."""
        return (chances[:, classes.index(self.positive)] >= self.threshold).tolist()


def chosen_points(run: Path) -> list[OperatingPoint]:
    """The pooled thresholds of every finished `evaluate --clinical` of a run.json, each once for each data."""
    digest = manifest.sha256(run)
    points: dict[tuple[str, str, str], OperatingPoint] = {}
    for path, scored in evaluations(run.parent / "scores"):
        if "clinical" not in scored.options or digest not in scored.parents.values():
            continue
        body = manifest.verify(path, "scores").body
        described = check(body.get("clinical"), path)
        data = chosen_on(run, body.get("external"))
        for (name, version), each in select(described, "classes/*/*/operating/*"):
            threshold = each["thresholds"].get("")
            if version == "clean" and each["choice"] == POOLED and threshold is not None:
                images = described["validation"]
                point = OperatingPoint(name, each["rule"], threshold, images, *data)
                points[name, each["rule"], point.sha256] = point
    return list(points.values())


def chosen_on(run: Path, external: Mapping[str, Any] | None) -> tuple[str, str]:
    """Name and hash of the data whose validation images choose thresholds.

    external: of the scores, the other test images that were asked for. Those of a run that was
    trained at sites have the validation images too; other runs have their own.
    """
    path = manifest.parent(run, *HERE)
    assert path is not None  # every run names its data
    data = manifest.read(path)
    if external and data.kind == "sites":
        return site_of(data.body, external["dataset"], external["sha256"])
    return data.body["dataset"], manifest.sha256(path)


def chosen_here(run: Path, images: Path) -> tuple[str, str]:
    """The same of an opened run. images: the manifest of the images at hand."""
    path = manifest.parent(run, *HERE)
    digest, dataset = manifest.sha256(images), manifest.read(images).body["dataset"]
    if path is None or manifest.read(path).kind != "sites":
        return dataset, digest
    return site_of(manifest.read(path).body, dataset, digest)


def site_of(sites: Mapping[str, Any], dataset: str, sha256: str) -> tuple[str, str]:
    """The name of the one site that described data of this hash, else of the dataset; and the hash."""
    names = [site for site, digest in sites.get("data", {}).items() if digest == sha256]
    return names[0] if len(names) == 1 else dataset, sha256
