"""Verdicts on the difference between two systems in a score, their reasons, and both in words.

Every table and page that tests systems against each other has one of the same four
(docs/verdicts.md). Folds, or splits drawn anew, may take the place of seeds. If all seeds have the
very same difference there is no p over them, and p over patients is used alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .. import console
from ..data import units
from ..printed import percents
from ..scores.statistics.resampled import RESAMPLES  # of the test patients
from ..scores.statistics.significance import OverSeeds

SIGNIFICANT = 0.05
ENOUGH = 3  # seeds, folds or splits, below which no difference is attributed to the method
FEW = 6  # patients that differ, below which no exact sign test has a p below SIGNIFICANT
HIGHER, LOWER, INCONCLUSIVE = "higher", "lower", "inconclusive"
MODELS_ONLY = "significant for these trained models, not across seeds"
ONE_PATIENT = "a class has images of one patient only, so no interval and no p over patients"
NOT_EQUAL = "Not significant does not mean equal: the intervals show how large a difference may be."
HOLM = (
    "p is adjusted (Holm) over the systems of a table, not over scores; intervals are not adjusted"
)
OVER_PATIENTS = (
    "95 % interval and p over patients (images, if no patients are known): "
    "{resamples} bootstrap resamples of the test set's, with the trained models held "
    "fixed; if only n of them differ at all, p is at least 2 / 2^n"
)
OVER_SEEDS = "p over seeds: paired t test, with the test images held fixed"
OVER_SPLITS = (
    "p over {over}: corrected resampled t test (Nadeau and Bengio, Machine Learning "
    "52, 2003), its variance factor 1/J + n_test/n_train, here 1/{count} + "
    "{overlap:.3g}; each of the {over} has its own test images, but their training "
    "sets overlap, so that p of a plain paired t test or of Wilcoxon's test would be "
    "too small"
)
WORDS = (
    f"{HIGHER.capitalize()} or {LOWER}: both p are below 0.05, with {ENOUGH} {{over}} or more; "
    f"{MODELS_ONLY}: p over patients is below 0.05, but there are too few {{over}}, or they vary "
    f"too much, to attribute the difference to the method; {INCONCLUSIVE}: p over patients is not "
    "below 0.05, which does not show that they are equal"
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One system against another in a score; all None if it cannot be tested.

    Attributes:
        difference: b minus a, of the means; low, high: its 95 % interval over patients; p: over
            patients.
        differing: the number of patients that the two answer differently; p is no less than
            `floor`.
        over: "seeds", "folds" or "splits"; samples: their number; overlap: test images per training
            image.
        over_seeds: the tests over seeds, folds or splits by name; p_seeds: the p that counts.
        p_holm, p_seeds_holm: both p adjusted for the number of systems.
        verdict, reason: the conclusion.
    """

    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    differing: int | None = None
    unit: str | None = None
    floor: float | None = None
    over: str | None = None
    samples: int | None = None
    overlap: float | None = None
    over_seeds: dict[str, Any] | None = None
    p_seeds: float | None = None
    p_seeds_holm: float | None = None
    verdict: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class ComparedScore(Difference):
    """A score of the systems a and b; group is "" for all images."""

    version: str
    metric: str
    group: str = ""
    a: OverSeeds
    b: OverSeeds


@dataclass(frozen=True, kw_only=True)
class Against(Difference):
    """A system against the reference; the reference itself has `is_reference`.

    Attributes:
        warning: cautions about the test.
        note: the reason of the verdict and the cautions, or why there is no test.
    """

    name: str
    mean: float | None
    std_pooled: float | None
    std_runs: float | None
    runs: int
    note: str
    warning: str = ""
    is_reference: bool = False


Row = TypeVar("Row", bound=Difference)


def adjusted(row: Row, p: float | None, p_seeds: float | None) -> Row:
    """A tested row with its adjusted p, and the verdict that they allow."""
    verdict, reason = _verdict(row, p, p_seeds)
    return replace(
        row,
        p_holm=p,
        p_seeds_holm=p_seeds,
        verdict=verdict,
        reason=reason,
    )


def _verdict(
    row: Difference,
    p: float | None,
    p_seeds: float | None,
) -> tuple[str, str]:
    """A verdict and its reason, which is "" if the verdict needs none."""
    samples = row.samples or 0
    one_sample = (row.over or "")[:-1]
    if not _below(p):
        return INCONCLUSIVE, _why_inconclusive(row, p, p_seeds)
    if samples < ENOUGH:
        count = console.counted(samples, f"{one_sample} is", f"{row.over} are")
        return MODELS_ONLY, f"{count} too few to attribute the difference to the method"
    agrees_over_samples = p_seeds is None or _below(p_seeds)
    if agrees_over_samples and not _reverses(row):
        return HIGHER if (row.difference or 0.0) > 0 else LOWER, ""
    reason = f"it varies too much from {one_sample} to {one_sample} to be attributed to the method"
    return MODELS_ONLY, reason


def noun(row: Difference) -> str:
    """The noun of what the test images are grouped by, in a legend or a reason."""
    return row.unit if row.unit and row.unit != units.IMAGE else units.PATIENT


def _why_inconclusive(
    row: Difference,
    p: float | None,
    p_seeds: float | None,
) -> str:
    differing = row.differing or 0
    if p is None:
        return units.worded(ONE_PATIENT, noun(row))
    if 0 < differing < FEW:
        unit = row.unit or units.PATIENT
        count = console.counted(
            differing,
            f"{unit} differs",
            f"{units.plural(unit)} differ",
        )
        return f"only {count}, so p cannot be below {row.floor:g}"
    if (row.samples or 0) >= ENOUGH and _below(p_seeds):
        others = f"other test {units.plural(noun(row))}"
        return f"the {row.over} agree, but {others} might reverse it"
    return ""


def _reverses(row: Difference) -> bool:
    """Tell whether a test over folds of unlike numbers of runs has the difference the other way
    round.
    """
    difference = row.difference or 0.0
    tests = (row.over_seeds or {}).values()
    return any(test["difference"] * difference < 0 for test in tests)


def significant(row: Difference) -> bool:
    """Tell whether a judged difference may be called one: of fewer than ENOUGH seeds, for these
    trained models.
    """
    few_samples = (row.samples or 0) < ENOUGH
    differs = row.verdict in (HIGHER, LOWER)
    return differs or (row.verdict == MODELS_ONLY and few_samples)


def is_untested(row: Difference) -> bool:
    """Tell whether a row is inconclusive because it has no p over patients."""
    return row.verdict == INCONCLUSIVE and row.p_holm is None


def _below(p: float | None) -> bool:
    return p is not None and p < SIGNIFICANT


def sampled(rows: Iterable[Difference]) -> str:
    """The kind of sample of a table's second p: "seeds", "folds" or "splits"."""
    for row in rows:
        if row.over:
            return row.over
    return "seeds"


def enough(comparisons: int) -> int:
    """The number of resamples, 2,000 or more, at which p adjusted over so many comparisons (Holm)
    can be below 0.05.

    The smallest p is 2 / (resamples + 1); times the comparisons, it shall be half of 0.05 at most.
    """
    needed = math.ceil(4 * comparisons / SIGNIFICANT)
    return max(RESAMPLES, 1000 * math.ceil(needed / 1000))


def legend(rows: Sequence[Difference], resamples: int = RESAMPLES) -> str:
    """A legend of the intervals, p and verdicts of rows, whether of compare or of order."""
    parts = [OVER_PATIENTS.format(resamples=resamples)]
    tested = [row for row in rows if row.samples]
    largest = max(
        tested,
        key=lambda row: row.samples or 0,
        default=Difference(),
    )
    samples = largest.samples or 0
    if samples > 1 and largest.over == "seeds":
        parts.append(OVER_SEEDS)
    elif samples > 1:
        overlap = largest.overlap or 0.0
        parts.append(OVER_SPLITS.format(over=largest.over, count=samples, overlap=overlap))
    parts += [HOLM, WORDS.format(over=sampled(rows))]
    return units.worded(f"{'. '.join(parts)}.", noun(largest))


def p_text(p: float | None) -> str:
    """A p as every table prints it."""
    if p is None:
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(share: float | None, digits: int = 2) -> str:
    """A difference in percent, with its sign; 0 has none."""
    if share is None:
        return "-"
    text = percents(share, digits)
    return f"+{text}" if float(text) > 0 else text


def interval_text(row: Difference, digits: int = 2) -> str:
    """The bounds of the difference, in percent."""
    if row.low is None:
        return "-"
    return f"{signed(row.low, digits)} to {signed(row.high, digits)}"
