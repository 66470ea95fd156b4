"""Scores of runs in bootstrap resamples of the test patients, the same draws for every run of one test set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..metrics import gap
from ..scores import resampled
from ..scores.bootstrap import bootstrap_all
from ..scores.groups import CROSS, cross
from ..scores.parts import VERSIONS
from ..scores.resampled import Columns, mean
from .answers import Answers, answers
from .systems import Scored


class Sampler:
    """Resampled scores of runs, each run's made once. Equal test sets get equal draws of patients.

    jackknife: a jackknife.Jackknife where intervals are to be BCa, else None.
    """

    def __init__(
        self, metrics: Sequence[str], resamples: int, seed: int, version: str | None = None, jackknife: Any = None
    ):
        self.jackknife = jackknife
        self.metrics, self.resamples, self.seed = metrics, resamples, seed
        self.versions = (version,) if version else VERSIONS
        self.made: dict[Path, dict[str, Columns]] = {}
        self.by_group: dict[tuple[Path, str], dict[str, tuple[Columns, Columns]]] = {}

    def take(self, run: Scored) -> None:
        """Make all that compare asks of a run."""
        self.scores(run)
        for name in run.scores.groups:
            self.groups(run, name)

    def scores(self, run: Scored) -> dict[str, Columns]:
        """version -> metric -> [B], the mean over kept rounds (and over the models that answer)."""
        if run.path not in self.made:
            made = self._kept(run) or self._drawn(run)
            if len(made) == 2:
                made["average"] = mean(list(made.values()))
            self.made[run.path] = made
        return self.made[run.path]

    def _kept(self, run: Scored) -> dict[str, Columns]:
        """What evaluate kept of these resamples; {} where it did not."""
        if (self.resamples, self.seed) != (resampled.RESAMPLES, resampled.SEED):
            return {}
        kept = resampled.read(run.path.parent)
        return {version: self._asked(kept[version]) for version in VERSIONS if version in kept and self._needs(version)}

    def _drawn(self, run: Scored) -> dict[str, Columns]:
        answered = answers(run.path)
        needed = [version for version in answered.tables if self._needs(version)]
        return {version: mean(self._draws(run, answered, answered.tables[version])) for version in needed}

    def _needs(self, version: str) -> bool:
        return version in self.versions or "average" in self.versions

    def _asked(self, columns: Columns) -> Columns:
        return {metric: columns[metric] for metric in self.metrics if metric in columns}

    def groups(self, run: Scored, name: str) -> dict[str, tuple[Columns, Columns]]:
        """version -> (metric -> [B, G] of each group, metric -> [B] the gap between best and worst)."""
        if (run.path, name) not in self.by_group:
            answered = answers(run.path).of(name)
            group_of, _ = grouping(run, name)
            made = {}
            for version, tables in answered.tables.items():
                drawn = self._draws(run, answered, tables, group_of)
                made[version] = mean(drawn), mean([{m: gap(c) for m, c in columns.items()} for columns in drawn])
            self.by_group[run.path, name] = made
        return self.by_group[run.path, name]

    def group(self, run: Scored, name: str, value: str) -> dict[str, Columns]:
        """version -> metric -> [B] of one group, by its name."""
        g = grouping(run, name)[1].index(value)
        return {version: {m: c[:, g] for m, c in each.items()} for version, (each, _) in self.groups(run, name).items()}

    def _draws(
        self, run: Scored, answered: Answers, tables: Sequence[np.ndarray], groups: np.ndarray | None = None
    ) -> list[Columns]:
        images = [run.identity, answered.id[0]] if answered.counted else answered.id  # counts of two are not paired
        seed = resampled.seed_of(images, self.seed)
        known = {"resamples": self.resamples, "seed": seed, "groups": groups}
        return [self._asked(each) for each in bootstrap_all(tables, answered.y, answered.units, **known)]


def grouping(run: Scored, name: str) -> tuple[np.ndarray, list[str]]:
    """The group of each image [N], -1 for none, and the groups' names."""
    codes, values = answers(run.path).of(name).groups, run.scores.attributes
    parts = {part: (codes[part], values[part]) for part in name.split(CROSS)}
    return cross(parts) if len(parts) > 1 else parts[name]
