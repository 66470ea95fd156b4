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
from .verdict import Compared, adjusted

DEPENDENT = "McNemar's and DeLong's tests take images as independent, and patients have several: see p over patients"


@dataclass(frozen=True)
class GroupTests:
    """The gaps between the groups of an attribute, and each group; small: group -> why; unknown: images in no group,
    None where sites hide that."""

    gaps: list[Compared]
    each: list[Compared]
    small: dict[str, str]
    unknown: int | None


def headline(paired: Paired, resamples: Resamples, metrics: Sequence[str]) -> list[Compared]:
    """A row for each version and metric that all runs have."""
    return _rows(
        paired,
        resamples,
        [Where(version, metric=metric) for version in VERSIONS for metric in metrics],
    )


def group_tests(
    paired: Paired, resamples: Resamples, metrics: Sequence[str], name: str
) -> GroupTests:
    """Gaps between the groups of an attribute, and each group, in both systems.

    A group's place among the groups may differ from fold to fold.
    """
    runs = one_of_each([run for run, _ in paired.pairs])
    first, by = predicted(runs[0].path), Where(attribute=name)
    all_groups = [
        by._replace(version=version, metric=metric)
        for version in first.tables
        for metric in metrics
    ]
    return GroupTests(
        _rows(paired, resamples, [of._replace(measure=GAP) for of in all_groups]),
        _rows(
            paired,
            resamples,
            [of._replace(group=group) for of in all_groups for group in first.grouping(name)[1]],
        ),
        small_in_sets({run.which: run.scores for run in runs}, name),
        _unknown(runs, name),
    )


def _rows(paired: Paired, resamples: Resamples, scores: Iterable[Where]) -> list[Compared]:
    """Rows of one pair of systems each, where there is nothing to adjust."""
    rows = (difference(of, paired, resamples) for of in scores)
    return [adjusted(row, row.p, row.p_seeds) for row in rows if row]


def difference(of: Where, paired: Paired, resamples: Resamples) -> Compared | None:
    """One score of both systems; None where some run does not have it or it cannot be resampled.

    Both means, the difference, its interval and p over patients weigh every run alike, as tables of a report do; tests
    over folds or splits take one number of each, however many runs it has.
    """
    pairs, sample, _ = paired
    scores_a = _of_all([run for run, _ in pairs], of)
    scores_b = _of_all([run for _, run in pairs], of)
    if not scores_a or not scores_b or not can_resample(pairs, of):
        return None
    first, second = over_runs(scores_a), over_runs(scores_b)
    assert first.mean is not None and second.mean is not None  # of runs that have the score
    differences = drawn_difference(pairs, of, resamples)  # [B]
    units = differing(pairs, of)
    a = sample.means([_mean(score) for score in scores_a])
    b = sample.means([_mean(score) for score in scores_b])
    t = paired_t(a, b, overlap=sample.overlap)
    tests = {
        "corrected_t" if sample.overlap else "paired_t": asdict(t),
        "wilcoxon": asdict(wilcoxon(a, b)),
    }
    row = Compared(
        version=of.version,
        metric=of.metric,
        group=of.group,
        a=first,
        b=second,
        difference=second.mean - first.mean,
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
    if (_patients(pairs, of) if of.group else sample.units) < 2:
        return row
    low, high = interval(differences)
    if resamples.bca and not any(predicted(run.path).counted for pair in pairs for run in pair):
        without = left_difference(pairs, of, resamples, sample.sets)
        low, high = bca_interval(row.difference, differences, without)
    return replace(row, low=low, high=high)


def _of_all(runs: Sequence[Scored], of: Where) -> list[Score]:
    """A score of every run; none where some run does not have it."""
    of_runs = [run.number(of) for run in runs]
    scores = [score for score in of_runs if score]
    return scores if len(scores) == len(runs) else []


def _mean(score: Score) -> float:
    mean = over_runs([score]).mean
    assert mean is not None
    return mean


def _patients(pairs: Pairs, of: Where) -> int:
    sets = [predicted(run.path) for run in one_of_each([run for run, _ in pairs])]
    return sum(len(np.unique(found.of(of.attribute).units[found.members(of)])) for found in sets)


def _unknown(runs: Sequence[Scored], attribute: str) -> int | None:
    """Test images in no group of an attribute; None where sites hide that of some."""
    total = 0
    for run in runs:
        images = predicted(run.path)
        unknown = int((images.grouping(attribute)[0] < 0).sum())
        counted = run.scores.grouped[attribute].unknown if images.counted else unknown
        if counted is None:
            return None
        total += counted
    return total


def image_tests(a: Scored, b: Scored) -> dict[str, Any]:
    """McNemar's test, and DeLong's of two classes, on the last round's models of one pair of runs.

    Of several labels per image McNemar's is of the images whose labels are all right. Both take images as independent,
    so where a patient has several they are None, and `reason` says why.
    """
    first, second = predicted(a.path), predicted(b.path)
    result: dict[str, Any] = {"seed": a.seed, "which": a.which, "versions": {}}
    independent = len(np.unique(first.units)) == len(first.units)
    for version in () if first.counted else first.last:  # which need single images
        if version not in second.last or len(first.last[version]) + len(second.last[version]) > 2:
            continue  # several models answer for one image
        y, tables = first.y, [first.last[version][0], second.last[version][0]]
        right = [np.all(Task.of(y).right(table, y), axis=1) for table in tables]  # bool [N]
        tests: dict[str, Any] = {"mcnemar": asdict(mcnemar(*right))}
        if y.ndim == 1 and tables[0].shape[1] == 2 and np.bincount(y, minlength=2).min() > 1:
            a_scores, b_scores = (probabilities(table)[:, 1] for table in tables)
            tests["delong"] = asdict(delong(a_scores, b_scores, y))
        if not independent:
            tests = dict.fromkeys(tests) | {"reason": DEPENDENT}
        result["versions"][version] = tests
    return result
