"""Systems tested against each other on the same test images: their differences, with intervals and
verdicts.

Runs of equal seeds are paired. A score is the mean over the kept rounds (the last five), then over
runs, as in a report: a fold of more runs weighs more. Patients are resampled_scores anew with the
trained models held fixed, which gives the interval of the difference and the first p; the t test
over seeds, folds or splits gives the second. Holm's adjustment is over the systems that are tested
against one in one score, never over scores: of two systems there is nothing to adjust.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from itertools import chain, product
from operator import add
from pathlib import Path
from typing import Any

from .. import console
from ..data import shared_patients
from ..errors import FedcliError, UsageError, nearest
from ..metrics import CLASSES, LABELS, RESAMPLED, TWO, names, own
from ..scores import numbers
from ..scores.groups import SCORED_IMAGE, Patients
from ..scores.own_metrics import is_own
from ..scores.parts import AVERAGE, MODELS, VERSIONS
from ..scores.scores import SYNTHETIC
from ..scores.statistics.bootstrap import BCA, LEVEL, PERCENTILE
from ..scores.statistics.over_runs import over_runs
from ..scores.statistics.significance import OverSeeds, holm
from ..scores.table import Where
from .cautions import TOO_NARROW
from .difference import GroupTests, difference, group_tests, headline, image_tests
from .pairing import Sample, one_of_each, paired
from .predicted import can_resample, one_class, predicted
from .resampling import Resamples
from .systems import Scored, read, refuse_mixed, settings
from .verdict import RESAMPLES, Against, ComparedScore, Difference, adjusted, enough, significant

MANY = 10  # methods, whose tests take so long that progress is shown
TOGETHER = 10  # methods whose resamples are drawn at once: what is kept of them fits in memory


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of b with a. Differences are b minus a, on the 0..1 scale.

    Attributes:
        systems: "a" and "b", each with its method, label, rule, seeds, warning, `one_class`, if its
            models answer one class for every image, and `unscored`, if sites hide some images.
        settings: differences before any score. level: of the intervals. pairs: the number of pairs
            of runs.
        interval: the kind of intervals, "percentile" or "bca".
        images: tests of the last round's models, image by image, of each pair of runs.
        remarks: notes on the pairs and the test images. versions: words for versions of the test
            images.
    """

    systems: dict[str, dict[str, Any]]
    settings: list[dict[str, str]]
    level: float
    resamples: int
    interval: str
    pairs: int
    sample: Sample
    rows: list[ComparedScore]
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
    """The comparison of b with a, from their scores.json and the predictions next to them.

    metrics: None for the two that reports show. interval: the kind of intervals, "percentile" or
    "bca". Raises FedcliError if the runs share no seed or no test set, UsageError for an unknown
    metric.
    """
    runs_a = read(a)
    runs_b = read(b)
    refuse_mixed([*runs_a, *runs_b])
    pairing = paired(runs_a, runs_b)
    runs = [run for pair in pairing.pairs for run in pair]
    chosen_metrics = tuple(dict.fromkeys(metrics or runs[0].scores.usual))
    _check(chosen_metrics, runs)
    resampled_scores = Resamples(resamples, seed, interval == BCA)
    attributes = _shared_attributes(runs)
    for run in console.progress(runs, label="compare", total=len(runs)):
        for attribute in ("", *attributes):
            resampled_scores.table(run, attribute)
    rows = headline(pairing, resampled_scores, chosen_metrics)
    if not rows:
        raise _nothing_to_compare(runs)
    pair_a, pair_b = pairing.pairs[0]
    is_counted = predicted(runs[0].path).counted
    tests_by_attribute = {
        name: group_tests(pairing, resampled_scores, chosen_metrics, name) for name in attributes
    }
    tests_of_images = [image_tests(run_a, run_b) for run_a, run_b in pairing.pairs]
    versions = numbers.versions(run.scores for run in runs)
    sides = {
        "a": _side([run for run, _ in pairing.pairs]),
        "b": _side([run for _, run in pairing.pairs]),
    }
    return Comparison(
        systems=sides,
        settings=settings(pair_a.scores, pair_b.scores),
        level=LEVEL,
        resamples=resamples,
        interval=PERCENTILE if is_counted else interval,
        pairs=len(pairing.pairs),
        sample=pairing.sample,
        rows=rows,
        groups=tests_by_attribute,
        images=tests_of_images,
        remarks=_remarks(runs, pairing.notes),
        versions=versions,
    )


def _shared_attributes(runs: Sequence[Scored]) -> list[str]:
    """Attributes that every run was evaluated by, in the order of the first run."""
    attributes = list(runs[0].scores.groups)
    for run in runs[1:]:
        attributes = [name for name in attributes if name in run.scores.groups]
    return attributes


def _remarks(runs: Sequence[Scored], pairing_notes: Sequence[str]) -> list[str]:
    """Notes on the test images, before and after those on the pairs."""
    remarks = [SYNTHETIC] if runs[0].scores.sample else []
    remarks += pairing_notes
    of_patients = (shared_patients.sentence(run.scores.shared_patients) for run in runs)
    remarks += list(dict.fromkeys(filter(None, of_patients)))
    sets = [predicted(run.path) for run in one_of_each([*runs])]
    noun = runs[0].scores.noun
    patients = reduce(add, (Patients.of(images.y, images.units, noun) for images in sets))
    share = " in the test set"
    if runs[0].scores.unscored:
        patients = replace(patients, unit=SCORED_IMAGE)
        share = ""
    rare = patients.rare(runs[0].scores.classes)
    if rare:
        remarks.append(f"{rare}{share}: {TOO_NARROW}")
    return remarks


def _side(runs: list[Scored]) -> dict[str, Any]:
    scores = runs[0].scores
    warnings = [scores.warning]
    if scores.views:
        warnings.append("it is given the true group of each test image")
    seeds = [run.seed for run in runs]
    unscored = scores.unscored.sentence if scores.unscored else ""
    return {
        "method": scores.method,
        "label": scores.name,
        "rule": scores.rule,
        "seeds": seeds,
        "warning": _joined(warnings),
        "one_class": one_class(runs, AVERAGE),
        "unscored": unscored,
    }


def _joined(texts: Sequence[str | None]) -> str:
    """Texts with semicolons between them, without empty ones."""
    return "; ".join(text for text in texts if text)


def order(
    systems: Mapping[str, Sequence[Scored]],
    reference: str,
    metric: str,
    version: str,
    *,
    resamples: int | None = None,
    seed: int = 0,
) -> list[Against]:
    """Every system against one of them in one score, the reference first and without a test.

    p is adjusted over the systems (Holm). resamples: of the test patients; None for
    verdict.enough() of them. `note` has cautions, among them the reason of the verdict; for a
    system that cannot be tested against the reference, as they have no common seed, test set or
    score, it has the reason.
    Raises UsageError for an unknown reference, version or metric.
    """
    if reference not in systems:
        hint = nearest(reference, systems)
        raise UsageError(f"no system is named {reference!r}", hint)
    if version not in VERSIONS:
        hint = nearest(version, VERSIONS)
        raise UsageError(f"no version of the test images is named {version!r}", hint)
    others = [name for name in systems if name != reference]
    score = Where(version, metric=metric)
    reference_runs = systems[reference]
    _check((metric,), reference_runs)
    resampled_scores = Resamples(resamples or enough(len(others)), seed)
    tests = []
    for done, name in enumerate(others, start=1):
        if len(others) > MANY:
            line = f"tests of {metric} against {reference}: {done} of {len(others)}, {name}"
            console.status(line)
        if done % TOGETHER == 1:
            next_systems = [systems[other] for other in others[done - 1 : done - 1 + TOGETHER]]
            runs = [_drawn_runs(reference_runs, system, score) for system in next_systems]
            resampled_scores.draw(list(chain(*runs)), score.attribute)
        tests.append(_test(reference_runs, systems[name], resampled_scores, score))
    ps = holm([row.p for row, _ in tests])
    ps_seeds = holm([row.p_seeds for row, _ in tests])
    reference_test = Difference()
    rows = [_against(reference, reference_runs, score, reference_test, "the reference")]
    rows[0] = replace(rows[0], is_reference=True)
    for name, (row, note), p, p_seeds in zip(others, tests, ps, ps_seeds, strict=True):
        if row.difference is not None:
            row = adjusted(row, p, p_seeds)
        rows.append(_against(name, systems[name], score, row, note))
    return rows


def _nothing_to_compare(runs: Sequence[Scored]) -> FedcliError:
    """An error on systems that share no score, with the reason where sites show one class alone."""
    for run in runs:
        if run.scores.unscored and run.scores.unscored.of_one_class:
            return FedcliError(
                f"{run.path}: {run.scores.unscored.sentence}", "compare them with --metric accuracy"
            )
    return FedcliError(
        "the two systems have no score in common",
        "evaluate both on the same versions of the images",
    )


def _drawn_runs(
    reference: Sequence[Scored], runs: Sequence[Scored], score: Where
) -> Iterator[Scored]:
    """The runs whose resamples a test of one system needs; none where there is no such test."""
    with suppress(FedcliError):  # _test() says what is wrong
        pairs = paired(reference, runs).pairs
        if can_resample(pairs, score):
            yield from chain(*pairs)


def _test(
    reference: Sequence[Scored],
    runs: Sequence[Scored],
    resampled_scores: Resamples,
    score: Where,
) -> tuple[Difference, str]:
    """One system's test against the reference, and cautions; if there is no test, the reason."""
    try:
        pairing = paired(reference, runs)
    except FedcliError as error:
        return Difference(), error.sentence
    row = difference(score, pairing, resampled_scores)
    if row is None:
        return Difference(), "the two have no such score in common"
    return row, "; ".join(pairing.notes)


def _against(
    name: str, runs: Sequence[Scored], score: Where, test: Difference, note: str
) -> Against:
    numbers_of_runs = [run.number(score) for run in runs]
    scores = [number for number in numbers_of_runs if number]
    mean = OverSeeds(None, None, None, len(runs))
    if len(scores) == len(runs):
        mean = over_runs(scores)
    stuck = one_class(runs, score.version)
    caution = note if test.difference is not None else ""
    joined_note = _joined([test.reason, note, stuck])
    joined_warning = _joined([caution, stuck])
    test_columns = {column.name: getattr(test, column.name) for column in fields(Difference)}
    return Against(
        name=name,
        note=joined_note,
        warning=joined_warning,
        **vars(mean),
        **test_columns,
    )


def check_names(metrics: Sequence[str], available: Sequence[str] = RESAMPLED) -> None:
    """Refuse a metric that has no intervals. Raises UsageError."""
    for metric in metrics:
        if metric in available:
            continue
        if is_own(metric):
            hint = f"fedcli report --metric {metric} shows it with its interval"
            raise UsageError(
                f"{metric} is a metric of your own, and the tests here are made for fedcli's", hint
            )
        hint = nearest(metric, available)
        raise UsageError(f"no interval can be made of {metric!r}", hint)


def can_test(metric: str) -> bool:
    """Tell whether a score has intervals: one of fedcli's, or of one's own that was asked for."""
    return metric in RESAMPLED or metric in [of_user.name for of_user in own()]


def _check(metrics: Sequence[str], runs: Sequence[Scored]) -> None:
    """Refuse metrics without intervals, or that the scores lack. Raises UsageError, FedcliError."""
    own_names = [metric.name for metric in own()]
    for run, name in product(runs, own_names):
        if name not in run.scores.versions[MODELS[0]]:
            hint = "give the run, which is then evaluated again, and not its scores"
            raise FedcliError(f"{run.path} has no score {name}", hint)
    run = runs[0]
    needs = CLASSES
    if run.scores.several_labels:
        needs = LABELS
    elif len(run.scores.classes) == 2:
        needs = TWO
    check_names(metrics, [*names(needs, resampled=True), *own_names])


class Leads:
    """Tests of pairs of systems, for the marks of a table: each is made when it is first asked for.

    systems: each system's runs. metrics: those of the table; only some of them have a test.
    samples: the fewest seeds, folds or splits of a pair that was tested; None before any was.
    """

    def __init__(
        self,
        systems: Sequence[Sequence[Scored]],
        metrics: Sequence[str],
    ):
        self.systems = systems
        self.samples: int | None = None
        self.over = "seeds"
        self._metrics = tuple(filter(can_test, metrics))
        self._resampled_scores = Resamples(enough(len(systems) - 1))
        self._rows: dict[tuple[int, int, Where], Difference | None] = {}

    def test(
        self,
        score: Where,
        system: int,
        other: int,
        comparisons: int,
    ) -> bool | None:
        """Tell whether two systems differ significantly in a score; None if there is no test of it.

        comparisons: the number of comparisons that the best of the column is part of; p is
        multiplied by it (Bonferroni), so that no table of tests that adjusts over the same systems
        (Holm) can contradict the mark. Fewer than three seeds are tested over patients alone.
        """
        if score.metric not in self._metrics:
            return None
        row = self.row(system, other, score)
        if row is None:
            return None
        samples = row.samples or 0
        self.samples = min(samples, self.samples or samples)
        self.over = row.over or ""
        p = _bonferroni(row.p, comparisons)
        p_seeds = _bonferroni(row.p_seeds, comparisons)
        return significant(adjusted(row, p, p_seeds))

    def row(self, system: int, other: int, score: Where) -> Difference | None:
        """One test, not adjusted, of the later system against the earlier.

        None if the two share no seed or test set, or have no predictions, as the legend then says.
        """
        earlier, later = sorted((system, other))
        key = earlier, later, score
        if key not in self._rows:
            row, _ = _test(
                self.systems[earlier],
                self.systems[later],
                self._resampled_scores,
                score,
            )
            is_tested = row.difference is not None
            self._rows[key] = adjusted(row, row.p, row.p_seeds) if is_tested else None
        return self._rows[key]


def _bonferroni(p: float | None, comparisons: int) -> float | None:
    if not p:
        return p
    return min(1.0, comparisons * p)
