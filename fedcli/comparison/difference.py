"""A score of two systems as a row: both means, their difference, its interval and tests."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..metrics import Task, probabilities
from ..scores.parts import VERSIONS
from ..scores.statistics.bootstrap import bca_interval, bootstrap_p, interval
from ..scores.statistics.over_runs import over_runs
from ..scores.statistics.significance import (
    delong,
    mcnemar,
    paired_t,
    sign_floor,
    wilcoxon,
)
from ..scores.table import Score, Where
from ..scores.views import GAP
from .cautions import small_in_sets
from .pairing import Paired, one_of_each
from .predicted import can_resample, differing, predicted
from .resampling import Resamples, drawn_difference, left_difference
from .systems import Pairs, Scored
from .verdict import ComparedScore, adjusted

DEPENDENT = (
    "McNemar's and DeLong's tests take images as independent, and patients have several: see p "
    "over patients"
)


@dataclass(frozen=True)
class GroupTests:
    """The gaps between the groups of an attribute, and each group.

    Attributes:
        small: the reason for each group that is too small.
        unknown: the number of images in no group, None where sites hide it.
    """

    gaps: list[ComparedScore]
    each: list[ComparedScore]
    small: dict[str, str]
    unknown: int | None


def headline(
    paired: Paired,
    resamples: Resamples,
    metrics: Sequence[str],
) -> list[ComparedScore]:
    """A row for each version and metric that all runs have."""
    wheres = [Where(version, metric=metric) for version in VERSIONS for metric in metrics]
    return _rows(paired, resamples, wheres)


def group_tests(
    paired: Paired, resamples: Resamples, metrics: Sequence[str], name: str
) -> GroupTests:
    """Gaps between the groups of an attribute, and each group, in both systems.

    A group's index among the groups may differ from fold to fold.
    """
    runs = one_of_each([run for run, _ in paired.pairs])
    images = predicted(runs[0].path)
    groups = images.grouping(name)[1]
    of_gaps = []
    of_groups = []
    for version in images.tables:
        for metric in metrics:
            where = Where(version, attribute=name, metric=metric)
            of_gaps.append(where._replace(measure=GAP))
            of_groups += [where._replace(group=group) for group in groups]
    scores_by_set = {run.which: run.scores for run in runs}
    return GroupTests(
        gaps=_rows(paired, resamples, of_gaps),
        each=_rows(paired, resamples, of_groups),
        small=small_in_sets(scores_by_set, name, metrics),
        unknown=_unknown(runs, name),
    )


def _rows(
    paired: Paired,
    resamples: Resamples,
    wheres: Iterable[Where],
) -> list[ComparedScore]:
    """Rows of one pair of systems each, so that there is nothing to adjust."""
    rows = []
    for where in wheres:
        row = difference(where, paired, resamples)
        if row:
            rows.append(adjusted(row, row.p, row.p_seeds))
    return rows


def difference(
    where: Where,
    paired: Paired,
    resamples: Resamples,
) -> ComparedScore | None:
    """One score of both systems; None if some run does not have it or it cannot be resampled.

    Both means, the difference, its interval and p over patients weigh every run alike, as tables of
    a report do; tests over folds or splits take one number of each, however many runs it has.
    """
    pairs, sample, _ = paired
    scores_a = _of_all([run for run, _ in pairs], where)
    scores_b = _of_all([run for _, run in pairs], where)
    if not scores_a or not scores_b or not can_resample(pairs, where):
        return None
    mean_a = over_runs(scores_a)
    mean_b = over_runs(scores_b)
    assert mean_a.mean is not None  # runs that have the score
    assert mean_b.mean is not None
    differences = drawn_difference(pairs, where, resamples)  # [B]
    units = differing(pairs, where)
    a = sample.means([_mean(score) for score in scores_a])
    b = sample.means([_mean(score) for score in scores_b])
    t = paired_t(a, b, overlap=sample.overlap)
    name_of_t = "corrected_t" if sample.overlap else "paired_t"
    tests = {name_of_t: asdict(t), "wilcoxon": asdict(wilcoxon(a, b))}
    tests_over_seeds = tests if sample.count > 1 else None
    row = ComparedScore(
        version=where.version,
        metric=where.metric,
        group=where.group,
        a=mean_a,
        b=mean_b,
        difference=mean_b.mean - mean_a.mean,
        p=bootstrap_p(differences, units),
        differing=units,
        unit=sample.unit,
        floor=sign_floor(units),
        over=sample.over,
        samples=sample.count,
        overlap=sample.overlap,
        over_seeds=tests_over_seeds,
        p_seeds=t.p,
    )
    patients = _patients(pairs, where) if where.group else sample.units
    if patients < 2:
        return row
    low, high = interval(differences)
    if resamples.bca and not _any_counted(pairs):
        without = left_difference(pairs, where, resamples, sample.sets)
        low, high = bca_interval(row.difference, differences, without)
    return replace(row, low=low, high=high)


def _any_counted(pairs: Pairs) -> bool:
    """Tell whether sites counted for some run."""
    return any(predicted(run.path).counted for pair in pairs for run in pair)


def _of_all(runs: Sequence[Scored], where: Where) -> list[Score]:
    """A score of every run; [] if some run does not have it."""
    scores = []
    for run in runs:
        score = run.number(where)
        if score is None:
            return []
        scores.append(score)
    return scores


def _mean(score: Score) -> float:
    mean = over_runs([score]).mean
    assert mean is not None
    return mean


def _patients(pairs: Pairs, where: Where) -> int:
    """The number of patients that a score covers, over all test sets."""
    patients = 0
    for run in one_of_each([run for run, _ in pairs]):
        images = predicted(run.path)
        units = images.of(where.attribute).units[images.members(where)]
        patients += len(np.unique(units))
    return patients


def _unknown(runs: Sequence[Scored], attribute: str) -> int | None:
    """The number of test images in no group of an attribute; None where sites hide it for some."""
    total = 0
    for run in runs:
        images = predicted(run.path)
        group_index = images.grouping(attribute)[0]
        unknown: int | None = int((group_index < 0).sum())
        if images.counted:
            unknown = run.scores.grouped[attribute].unknown
        if unknown is None:
            return None
        total += unknown
    return total


def image_tests(a: Scored, b: Scored) -> dict[str, Any]:
    """McNemar's test, and DeLong's of two classes, on the last round's models of one pair of runs.

    Of several labels per image McNemar's covers the images whose labels are all right. Both take
    images as independent, so if a patient has several they are None, and `reason` says why.
    """
    images_a = predicted(a.path)
    images_b = predicted(b.path)
    by_version: dict[str, Any] = {}
    result = {"seed": a.seed, "which": a.which, "versions": by_version}
    if images_a.counted:  # the tests need single images
        return result
    independent = len(np.unique(images_a.units)) == len(images_a.units)
    for version, tables_a in images_a.last.items():
        tables_b = images_b.last.get(version, [])
        if len(tables_a) != 1 or len(tables_b) != 1:  # several models answer for one image
            continue
        tests = _tests_of_images(images_a.y, tables_a[0], tables_b[0])
        if not independent:
            tests = dict.fromkeys(tests) | {"reason": DEPENDENT}
        by_version[version] = tests
    return result


def _tests_of_images(
    y: np.ndarray,
    logits_a: np.ndarray,
    logits_b: np.ndarray,
) -> dict[str, Any]:
    """Both tests of two models' answers [N, C] to the same images; DeLong's for two classes."""
    task = Task.of(y)
    right_a = np.all(task.right(logits_a, y), axis=1)  # bool [N]
    right_b = np.all(task.right(logits_b, y), axis=1)
    tests: dict[str, Any] = {"mcnemar": asdict(mcnemar(right_a, right_b))}
    if y.ndim == 1 and logits_a.shape[1] == 2 and np.bincount(y, minlength=2).min() > 1:
        scores_a = probabilities(logits_a)[:, 1]
        scores_b = probabilities(logits_b)[:, 1]
        tests["delong"] = asdict(delong(scores_a, scores_b, y))
    return tests
