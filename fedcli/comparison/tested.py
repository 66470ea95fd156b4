"""Systems tested against each other on the same test images: in what they differ, by how much, what can be said of it.

Runs of equal seeds are paired. A score is the mean over the kept rounds (the last five), then over runs, as in a
report: a fold of more runs weighs more. Patients are drawn anew with the trained models held fixed, which gives the
interval of the difference and the first p; the t test over seeds, folds or splits gives the second. Holm's adjustment
is over the systems that are tested against one in one score, never over scores: of two there is nothing to adjust.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..metrics import CLASSES, LABELS, RESAMPLED, TWO, names
from ..scores import numbers
from ..scores.groups import Patients
from ..scores.own_metrics import is_own
from ..scores.parts import AVERAGE, VERSIONS
from ..scores.scores import SYNTHETIC
from ..scores.statistics.bootstrap import BCA, LEVEL, PERCENTILE
from ..scores.statistics.over_runs import over_runs
from ..scores.statistics.significance import OverSeeds, holm
from ..scores.table import Where
from .cautions import TOO_NARROW
from .difference import GroupTests, difference, group_tests, headline, image_tests
from .pairing import Sample, one_of_each, paired
from .predicted import one_class, predicted
from .resampling import Resamples
from .systems import Scored, read, refuse_mixed, settings
from .verdict import RESAMPLES, Against, Compared, Difference, adjusted, enough, significant


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that can be said of b against a. Differences are b minus a, on the 0..1 scale.

    Attributes:
        systems: "a" and "b", each with its method, label, rule, seeds, warning, and `one_class`, where its models
            answer one class for every image.
        settings: in what the two differ before any score. level: of the intervals. pairs: of runs.
        interval: how intervals are made of resamples, "percentile" or "bca".
        images: tests of the last round's models, image by image, of each pair of runs.
        remarks: what pairing has to say. versions: the words for versions of the test images.
    """

    systems: dict[str, dict[str, Any]]
    settings: list[dict[str, str]]
    level: float
    resamples: int
    interval: str
    pairs: int
    sample: Sample
    rows: list[Compared]
    groups: dict[str, GroupTests]
    images: list[dict[str, Any]]
    remarks: list[str]
    versions: dict[str, str] = field(default_factory=dict)


def compare(
    a: list[Path],
    b: list[Path],
    *,
    metrics: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    interval: str = PERCENTILE,
) -> Comparison:
    """All that can be said of b against a, from their scores.json and the predictions beside them.

    metrics: None for the two that reports show. interval: "percentile" or "bca", how intervals are made of resamples.
    Raises FedcliError where the runs share no seed or no test set, UsageError for an unknown metric.
    """
    first_system, second_system = read(a), read(b)
    refuse_mixed([*first_system, *second_system])
    pairs, sample, notes = of = paired(first_system, second_system)
    runs = [run for pair in pairs for run in pair]
    asked = tuple(dict.fromkeys(metrics or runs[0].scores.usual))
    _check(asked, runs[0])
    drawn = Resamples(resamples, seed, interval == BCA)
    attributes = [
        name for name in runs[0].scores.groups if all(name in run.scores.groups for run in runs)
    ]
    for run in console.progress(runs, label="compare", total=len(runs)):
        for attribute in ("", *attributes):
            drawn.table(run, attribute)
    rows = headline(of, drawn, asked)
    if not rows:
        raise FedcliError(
            "the two systems have no score in common",
            "evaluate both on the same versions of the images",
        )
    return Comparison(
        systems={side: _side([pair[k] for pair in pairs]) for k, side in enumerate("ab")},
        settings=settings(*(run.scores for run in pairs[0])),
        level=LEVEL,
        resamples=resamples,
        interval=PERCENTILE if predicted(runs[0].path).counted else interval,
        pairs=len(pairs),
        sample=sample,
        rows=rows,
        groups={name: group_tests(of, drawn, asked, name) for name in attributes},
        images=[image_tests(*pair) for pair in pairs],
        remarks=_remarks(runs, notes),
        versions=numbers.versions(run.scores for run in runs),
    )


def _remarks(runs: Sequence[Scored], notes: Sequence[str]) -> list[str]:
    """Notes on the test images, before those on the systems. notes: of pairing."""
    remarks = [SYNTHETIC] if runs[0].scores.sample else []
    remarks += notes
    sets = [predicted(run.path) for run in one_of_each([*runs])]
    patients = reduce(add, (Patients.of(images.y, images.units) for images in sets))
    rare = patients.rare(runs[0].scores.classes)
    if rare:
        remarks.append(f"{rare} in the test set: {TOO_NARROW}")
    return remarks


def _side(runs: list[Scored]) -> dict[str, Any]:
    first = runs[0].scores
    groups = "it is given the true group of each test image" if first.views else ""
    return {
        "method": first.method,
        "label": first.name,
        "rule": first.rule,
        "seeds": [run.seed for run in runs],
        "warning": "; ".join(filter(None, [first.warning, groups])),
        "one_class": one_class(runs, AVERAGE),
    }


def order(
    systems: Mapping[str, Sequence[Scored]],
    reference: str,
    metric: str,
    version: str,
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> list[Against]:
    """Every system against one of them in one score, p adjusted by Holm over them; the reference first, without a test.

    resamples: of the test patients; None for verdict.enough() of them.

    `note` says what to beware of, the reason of the verdict among it, and of a system that cannot be tested against
    the reference, for want of a common seed, test set or score, why.
    Raises UsageError for an unknown reference, version or metric.
    """
    for word, known, what in (
        (reference, systems, "system"),
        (version, VERSIONS, "version of the test images"),
    ):
        if word not in known:
            raise UsageError(f"no {what} is named {word!r}", nearest(word, known))
    others = [name for name in systems if name != reference]
    score, base = Where(version, metric=metric), systems[reference]
    _check((metric,), base[0])
    drawn = Resamples(resamples or enough(len(others)), seed)
    tests = [_test(base, systems[name], drawn, score) for name in others]
    ps = zip(
        holm([row.p for row, _ in tests]), holm([row.p_seeds for row, _ in tests]), strict=True
    )
    rows = [
        (row if row.difference is None else adjusted(row, *p), note)
        for (row, note), p in zip(tests, ps, strict=True)
    ]
    return [
        _against(name, systems[name], score, row, note, is_reference=name == reference)
        for name, (row, note) in zip(
            [reference, *others], [(Difference(), "the reference"), *rows], strict=True
        )
    ]


def _test(
    reference: Sequence[Scored], runs: Sequence[Scored], drawn: Resamples, score: Where
) -> tuple[Difference, str]:
    """One system's test against the reference and what to beware of; where there is none, why."""
    try:
        of = paired(reference, runs)
    except FedcliError as error:
        return Difference(), error.sentence
    row = difference(score, of, drawn)
    return (
        (row, "; ".join(of.notes))
        if row
        else (Difference(), "the two have no such score in common")
    )


def _against(
    name: str, runs: Sequence[Scored], of: Where, test: Difference, note: str, *, is_reference: bool
) -> Against:
    of_runs = [run.number(of) for run in runs]
    scores = [score for score in of_runs if score]
    mean = over_runs(scores) if len(scores) == len(runs) else OverSeeds(None, None, None, len(runs))
    stuck = one_class(runs, of.version)
    return Against(
        name=name,
        is_reference=is_reference,
        note="; ".join(filter(None, [test.reason, note, stuck])),
        warning="; ".join(filter(None, [note if test.difference is not None else "", stuck])),
        **vars(mean),
        **{each.name: getattr(test, each.name) for each in fields(Difference)},
    )


def check_names(metrics: Sequence[str], known: Sequence[str] = RESAMPLED) -> None:
    """Refuse a metric that no interval can be made of. Raises UsageError."""
    for metric in metrics:
        if is_own(metric):
            hint = f"fedcli report --metric {metric} shows it with its interval"
            raise UsageError(
                f"{metric} is a metric of your own, and the tests here are made for fedcli's", hint
            )
        if metric not in known:
            raise UsageError(f"no interval can be made of {metric!r}", nearest(metric, known))


def _check(metrics: Sequence[str], run: Scored) -> None:
    needs = (
        LABELS if run.scores.several_labels else TWO if len(run.scores.classes) == 2 else CLASSES
    )
    check_names(metrics, names(needs, resampled=True))


class Leads:
    """Tests of pairs of systems, for the marks of a table: each is made when it is first asked for.

    systems: each system's runs. metrics: those that are shown; only some of them have a test.
    samples: the fewest seeds, folds or splits of a pair that was tested; None before any was.
    """

    def __init__(self, systems: Sequence[Sequence[Scored]], metrics: Sequence[str]):
        self.systems = systems
        self.samples: int | None = None
        self.over = "seeds"
        self._metrics = tuple(metric for metric in metrics if metric in RESAMPLED)
        self._drawn = Resamples(enough(len(systems) - 1))
        self._rows: dict[tuple[int, int, Where], Difference | None] = {}

    def test(self, score: Where, first: int, second: int, comparisons: int) -> bool | None:
        """Tell whether two systems differ significantly in a score; None where there is no test of it.

        comparisons: how many the best of the column is part of; p is multiplied by it (Bonferroni), so that no table
        of tests that adjusts over the same systems (Holm) can contradict the mark. Fewer than three seeds are tested
        over patients alone.
        """
        if score.metric not in self._metrics or (row := self.row(first, second, score)) is None:
            return None
        samples = row.samples or 0
        self.samples, self.over = min(samples, self.samples or samples), row.over or ""
        row = adjusted(row, *(p and min(1.0, comparisons * p) for p in (row.p, row.p_seeds)))
        return significant(row)

    def row(self, first: int, second: int, score: Where) -> Difference | None:
        """One test, not adjusted, of the later system against the earlier; None where the two share no seed or test
        set, or have no predictions, as the legend then says."""
        key = min(first, second), max(first, second), score
        if key not in self._rows:
            row, _ = _test(self.systems[key[0]], self.systems[key[1]], self._drawn, score)
            self._rows[key] = None if row.difference is None else adjusted(row, row.p, row.p_seeds)
        return self._rows[key]
