"""Scores of two systems as rows: both means, their difference, its interval and tests, and the verdict."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..metrics import Task, probabilities
from ..scores.bca import bca_interval
from ..scores.bootstrap import bootstrap_p, interval
from ..scores.parts import Group, OverRounds
from ..scores.statistics import delong, mcnemar, over_seeds, paired_t, sign_floor, wilcoxon
from .answers import answers, differing, resampled
from .comparison import GroupTests
from .jackknife import Jackknife, of_mean
from .pairs import Sample
from .sampler import Sampler, grouping
from .systems import Pairs, Scored
from .verdicts import Compared, adjusted

Numbers = list[list[float]]  # kept rounds of each run


def headline(pairs: Pairs, sampler: Sampler, sample: Sample) -> list[Compared]:
    """A row for each version and metric that all runs have."""
    rows, sides = [], list(zip(*pairs, strict=True))
    for version in sampler.versions:
        for metric in sampler.metrics:
            numbers = [[over_rounds(run, metric, version) for run in side] for side in sides]
            if all(all(side) for side in numbers) and resampled(pairs, metric, version):
                drawn = [[sampler.scores(run)[version][metric] for run in side] for side in sides]
                left = _left(pairs, sampler, lambda made, run: made.scores(run)[version][metric])  # noqa: B023
                about = {"version": version, "metric": metric}
                rows.append(_row(about, numbers, drawn, sample, differing(pairs, metric, version), left))
    return rows


def over_rounds(run: Scored, metric: str, version: str) -> list[float] | None:
    """A score in each kept round; None where the run does not have it."""
    versions = run.scores.versions
    return _known(versions[version].metrics.get(metric)) if version in versions else None


def _known(over_rounds: OverRounds | None) -> list[float] | None:
    return over_rounds.per_round if over_rounds and over_rounds.mean_last5 is not None else None


def _left(pairs: Pairs, sampler: Sampler, left_of: Callable[[Jackknife, Scored], np.ndarray]) -> list[np.ndarray]:
    """The difference of each pair without each patient in turn [U], for BCa intervals; [] for percentile intervals.

    Also [] where sites counted: whose image is whose is not known.
    """
    made = sampler.jackknife
    if made is None or any(answers(run.path).counted for pair in pairs for run in pair):
        return []
    return [left_of(made, b) - left_of(made, a) for a, b in pairs]


def _row(
    about: dict[str, str], numbers: list[Numbers], drawn: list[list[np.ndarray]], sample: Sample, units: int,
    left: list[np.ndarray],
) -> Compared:  # fmt: skip
    """One score of both systems: kept rounds of each run, and its resamples [B] of each run.

    Both means, the difference, its interval and p over patients weigh every run alike, as tables of a report do; tests
    over folds or splits take one number of each, however many runs it has.

    units: patients that the two answer differently. left: see _left.
    """
    first, second = map(over_seeds, numbers)
    difference = second.mean - first.mean
    differences = np.mean([y - x for x, y in zip(*drawn, strict=True)], axis=0)  # [B]
    low, high = interval(differences) if sample.units > 1 else (None, None)
    if left and sample.units > 1:
        each = [float(np.mean(y) - np.mean(x)) for x, y in zip(*numbers, strict=True)]
        low, high = bca_interval(difference, differences, of_mean(each, left, sample.sets))
    a, b = (sample.means(side) for side in numbers)
    t = paired_t(a, b, overlap=sample.overlap)
    tests = {"corrected_t" if sample.overlap else "paired_t": asdict(t), "wilcoxon": asdict(wilcoxon(a, b))}
    return Compared(
        **about,
        a=first,
        b=second,
        difference=difference,
        low=low,
        high=high,
        p=bootstrap_p(differences, units),
        differing=units,
        unit=sample.unit,
        floor=sign_floor(units),
        over=sample.over,
        samples=sample.count,
        overlap=sample.overlap,
        over_seeds=tests if sample.count > 1 else None,
        p_seeds=t.p,
    )


def judged(rows: list[Compared]) -> list[Compared]:
    """Rows of one pair of systems each, where there is nothing to adjust."""
    return [adjusted(row, row.p, row.p_seeds) for row in rows]


def group_tests(pairs: Pairs, sampler: Sampler, name: str, sample: Sample) -> GroupTests:
    """Gaps between the groups of an attribute, and each group, in both systems."""
    gaps, each, sides = [], [], list(zip(*pairs, strict=True))
    for version in answers(pairs[0][0].path).tables:
        for metric in sampler.metrics:
            about = {"version": version, "metric": metric}
            numbers = [[_gap_rounds(run, name, version, metric) for run in side] for side in sides]
            if all(all(side) for side in numbers) and resampled(pairs, metric, version):
                drawn = [[sampler.groups(run, name)[version][1][metric] for run in side] for side in sides]
                units = differing(pairs, metric, version, lambda run: grouping(run, name)[0] >= 0)
                left = _left(pairs, sampler, lambda made, run: made.groups(run, name)[version][1][metric])  # noqa: B023
                gaps.append(_row(about, numbers, drawn, sample, units, left))
            each += _each(pairs, sampler, name, about, sample)
    known = _one_of_each([run for run, _ in pairs])
    small, unknown = _small(known, name), [int((grouping(run, name)[0] < 0).sum()) for run in known]
    return GroupTests(judged(gaps), judged(each), small, sum(unknown))


def _gap_rounds(run: Scored, name: str, version: str, metric: str) -> list[float] | None:
    groups = run.scores.groups[name].get(version)
    between = groups.over_rounds.metrics.get(metric) if groups else None
    return _known(between.gap) if between else None


def _each(pairs: Pairs, sampler: Sampler, name: str, about: dict[str, str], sample: Sample) -> list[Compared]:
    """A row for each group that has the score in all runs; its place among the groups may differ from fold to fold."""
    rows, sides = [], list(zip(*pairs, strict=True))
    version, metric = about["version"], about["metric"]
    for value in grouping(pairs[0][0], name)[1]:
        own = replace(sample, units=_patients([run for run, _ in pairs], name, value))
        numbers = [[_group_rounds(run, name, value, version, metric) for run in side] for side in sides]
        if all(all(side) for side in numbers) and resampled(pairs, about["metric"], version):
            drawn = [[sampler.group(run, name, value)[version][metric] for run in side] for side in sides]
            units = differing(pairs, metric, version, lambda run, value=value: _of_group(run, name, value))
            left = _left(pairs, sampler, lambda made, run, value=value: made.group(run, name, value, version, metric))
            rows.append(_row(about | {"group": value}, numbers, drawn, own, units, left))
    return rows


def _group_rounds(run: Scored, name: str, value: str, version: str, metric: str) -> list[float] | None:
    groups = run.scores.groups[name].get(version)
    return _known(groups.each.get(metric, {}).get(value)) if groups else None


def _of_group(run: Scored, name: str, value: str) -> np.ndarray:
    """Whether each image is of a group: bool [N]."""
    group_of, values = grouping(run, name)
    return group_of == values.index(value)


def _patients(runs: list[Scored], name: str, value: str) -> int:
    """How many patients of a group there are in all test sets together; a run may have no such group."""
    known = [run for run in _one_of_each(runs) if value in grouping(run, name)[1]]
    return sum(len(np.unique(answers(run.path).of(name).units[_of_group(run, name, value)])) for run in known)


def _one_of_each(runs: list[Scored]) -> list[Scored]:
    """A run of each test set."""
    return list({answers(run.path).id.tobytes(): run for run in reversed(runs)}.values())[::-1]


def _small(runs: list[Scored], name: str) -> dict[str, str]:
    """Groups too small to be reliable, with the reason; of several test sets, in which of them."""
    parts = [(run.which, run.scores.groups[name]["clean"].last_round.groups) for run in runs]
    small, absent = {}, Group(True, "no test image")
    for value in dict.fromkeys(value for _, part in parts for value in part):
        groups = [(which, part.get(value, absent)) for which, part in parts]
        reasons = [
            f"{group.reason} ({which})" if len(parts) > 1 else group.reason for which, group in groups if group.small
        ]
        small |= {value: "; ".join(reasons)} if reasons else {}
    return small


def image_tests(a: Scored, b: Scored) -> dict[str, Any]:
    """McNemar's test, and DeLong's of two classes, on the last round's models of one pair of runs.

    Of several labels per image McNemar's is of the images whose labels are all right.
    """
    answers_a, answers_b = answers(a.path), answers(b.path)
    result: dict[str, Any] = {"seed": a.seed, "which": a.which, "versions": {}}
    for version in () if answers_a.counted else answers_a.last:  # which need single images
        if version not in answers_b.last or len(answers_a.last[version]) + len(answers_b.last[version]) > 2:
            continue  # several models answer for one image
        first, second = answers_a.last[version][0], answers_b.last[version][0]
        tests = {"mcnemar": asdict(mcnemar(_right(first, answers_a.y), _right(second, answers_a.y)))}
        if answers_a.y.ndim == 1 and first.shape[1] == 2 and np.bincount(answers_a.y, minlength=2).min() > 1:
            tests["delong"] = asdict(delong(probabilities(first)[:, 1], probabilities(second)[:, 1], answers_a.y))
        result["versions"][version] = tests
    return result


def _right(table: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether each image is classified correctly, in all its labels: bool [N]."""
    return Task.of(y).right(table, y).all(1)
