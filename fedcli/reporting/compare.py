"""Two systems on the same test images: in what they differ, by how much, and what can be said of it.

A system is a method in one setting, trained with one seed or several; runs of equal seeds are paired. A score is the
mean over the kept rounds (the last five), then over runs, as in a report: a fold of more runs weighs more. There are
two sources of chance:

    test patients   the trained models stay, the patients are drawn anew (bootstrap.bootstrap, the same draw for every
                    model); this gives the interval of the difference and the first p
    training        the test images stay, and the paired t test takes the seeds as the sample; where folds or other
                    splits take the place of seeds nothing stays, and the t test is Nadeau and Bengio's corrected one;
                    Wilcoxon's test stands beside it with the smallest p that so few seeds can give

What the two p let one say is in verdicts.py. Holm's adjustment is over the systems that are tested against one in one
score, never over scores: of two systems there is nothing to adjust. McNemar's and DeLong's tests are of the last
round's models, seed by seed, and take images as independent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from .. import console
from ..errors import FedcliError, UsageError, nearest
from ..metrics import CLASSES, LABELS, RESAMPLED, TWO, names
from ..scores.bca import BCA, PERCENTILE
from ..scores.bootstrap import LEVEL
from ..scores.own_metrics import is_own
from ..scores.parts import VERSIONS
from ..scores.statistics import OverSeeds, holm, over_seeds
from .answers import answers, one_class
from .columns import SHOWN, shown
from .comparison import Comparison, Side
from .jackknife import Jackknife
from .pairs import paired, sample_of
from .sampler import Sampler
from .systems import Pairs, Scored, read, refuse_mixed, settings
from .tested import group_tests, headline, image_tests, judged, over_rounds
from .verdicts import RESAMPLES, Against, Difference, adjusted, enough


def compare(
    a: list[Path], b: list[Path], *, metrics: Sequence[str] = SHOWN, resamples: int = RESAMPLES, seed: int = 0,
    interval: str = PERCENTILE,
) -> Comparison:  # fmt: skip
    """All that can be said of b against a, from their scores.json and the predictions beside them.

    interval: "percentile" or "bca", how intervals are made of resamples.
    Raises FedcliError where the runs share no seed or no test set, UsageError for an unknown metric.
    """
    first_system, second_system = read(a), read(b)
    refuse_mixed([*first_system, *second_system])
    pairs, notes = paired(first_system, second_system)
    made = Jackknife() if interval == BCA else None
    sampler = Sampler(_checked(metrics, pairs[0][0]), resamples, seed, jackknife=made)
    for run in console.progress([run for pair in pairs for run in pair], label="compare", total=2 * len(pairs)):
        sampler.take(run)
    first, second = (run.scores for run in pairs[0])
    sample = sample_of(pairs)
    rows = judged(headline(pairs, sampler, sample))
    if not rows:
        raise FedcliError("the two systems have no score in common", "evaluate both on the same versions of the images")
    return Comparison(
        systems={side: _side([pair[k] for pair in pairs]) for k, side in enumerate("ab")},
        settings=settings(first, second),
        level=LEVEL,
        resamples=resamples,
        interval=interval if not answers(pairs[0][0].path).counted else PERCENTILE,
        pairs=len(pairs),
        over=sample.over,
        samples=sample.count,
        overlap=sample.overlap,
        test_images=sample.test_images,
        unit=sample.unit,
        units=sample.units,
        rows=rows,
        groups={name: group_tests(pairs, sampler, name, sample) for name in _attributes(pairs)},
        images=[image_tests(*pair) for pair in pairs],
        remarks=[*notes, *filter(None, [sample.note])],
    )


def _attributes(pairs: Pairs) -> list[str]:
    """Those by which all runs were evaluated."""
    each = [run.scores.groups for pair in pairs for run in pair]
    return [name for name in each[0] if all(name in groups for groups in each)]


def order(
    systems: Mapping[str, Sequence[Scored]], reference: str, metric: str, version: str, *,
    resamples: int | None = None, seed: int = 0,
) -> list[Against]:  # fmt: skip
    """Every system against one of them in one score, p adjusted by Holm over them; the reference first, without a test.

    resamples: of the test patients; None for verdicts.enough() of them.

    `note` says what to beware of, the reason of the verdict among it, and of a system that cannot be tested against
    the reference, for want of a common seed, test set or score, why.
    Raises UsageError for an unknown reference, version or metric.
    """
    for word, known, what in ((reference, systems, "system"), (version, VERSIONS, "version of the test images")):
        if word not in known:
            raise UsageError(f"no {what} is named {word!r}", nearest(word, known))
    runs = {name: list(scored) for name, scored in systems.items()}
    others = [name for name in systems if name != reference]
    sampler = Sampler(_checked((metric,), runs[reference][0]), resamples or enough(len(others)), seed, version)
    tests = [_against(runs[reference], runs[name], sampler) for name in others]
    tested = [row for row, _ in tests if row.difference is not None]
    ps = iter(zip(holm([row.p for row in tested]), holm([row.p_seeds for row in tested]), strict=True))
    rows = [(adjusted(row, *next(ps)) if row.difference is not None else row, note) for row, note in tests]
    return [
        _row(name, runs[name], row, note, metric, version, is_reference=name == reference)
        for name, (row, note) in zip([reference, *others], [(Difference(), ""), *rows], strict=True)
    ]


def _against(reference: list[Scored], runs: list[Scored], sampler: Sampler) -> tuple[Difference, str]:
    """One system's test against the reference and what to beware of; where there is none, why."""
    try:
        pairs, notes = paired(reference, runs)
    except FedcliError as error:
        return Difference(), error.sentence
    rows = headline(pairs, sampler, sample := sample_of(pairs))
    return (
        (rows[0], "; ".join(filter(None, [*notes, sample.note])))
        if rows
        else (Difference(), "the two have no such score in common")
    )


def _row(
    name: str, runs: list[Scored], test: Difference, note: str, metric: str, version: str, *, is_reference: bool
) -> Against:
    rounds = [over_rounds(run, metric, version) for run in runs]
    mean = over_seeds(rounds) if all(rounds) else OverSeeds(None, None, None, len(runs))
    tested, stuck = test.difference is not None, one_class(runs, version)
    notes = [test.reason, "the reference" if is_reference else note, stuck]
    warning = "; ".join(filter(None, [note, stuck] if tested else [stuck]))
    numbers = {field.name: getattr(test, field.name) for field in fields(Difference)}
    about = {"note": "; ".join(filter(None, notes)), "warning": warning, "is_reference": is_reference}
    return Against(name=name, **vars(mean), **numbers, **about)


def check_names(metrics: Sequence[str]) -> None:
    """Refuse a metric that no interval can be made of. Raises UsageError."""
    _check(metrics, RESAMPLED)


def _check(metrics: Sequence[str], known: Sequence[str]) -> None:
    for metric in metrics:
        if is_own(metric):
            hint = f"fedcli report --metric {metric} shows it with its interval"
            raise UsageError(f"{metric} is a metric of your own, and the tests here are made for fedcli's", hint)
        if metric not in known:
            raise UsageError(f"no interval can be made of {metric!r}", nearest(metric, known))


def _checked(metrics: Sequence[str], run: Scored) -> tuple[str, ...]:
    needs = LABELS if run.scores.several_labels else TWO if len(run.scores.classes) == 2 else CLASSES
    metrics = shown(run.scores, metrics)
    _check(metrics, names(needs, resampled=True))
    return tuple(dict.fromkeys(metrics))


def _side(runs: list[Scored]) -> Side:
    first = runs[0].scores
    groups = "it is given the true group of each test image" if first.views else ""
    warning = "; ".join(filter(None, [first.warning, groups]))
    return Side(first.method, first.label, first.rule, [run.seed for run in runs], warning, one_class(runs, "average"))
