"""Verdicts on the difference between two systems in a score, their reasons, and both in words.

The same four verdicts stand in every table and page that tests systems against each other:

    higher, lower   p over patients is below 0.05, there are three seeds or more, and p over seeds is below 0.05 as well
    significant for these trained models, not across seeds
                    p over patients is below 0.05, but there are fewer than three seeds, or p over seeds is not below
                    0.05
    inconclusive    p over patients is not below 0.05, which does not show that the two are equal

Folds, or splits drawn anew, may take the place of seeds. Where all seeds have the very same difference there is no p
over them, and that over patients is used alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .. import console
from ..scores.resampled import RESAMPLES  # of the test patients
from ..scores.statistics import OverSeeds

SIGNIFICANT = 0.05
ENOUGH = 3  # seeds, folds or splits, below which no difference is attributed to the method
FEW = 6  # patients that differ, below which no exact sign test has a p below SIGNIFICANT
HIGHER, LOWER, INCONCLUSIVE = "higher", "lower", "inconclusive"
MODELS_ONLY = "significant for these trained models, not across seeds"
UNITS = {"patient or lesion": "patients or lesions", "image": "images"}
NOT_EQUAL = "An inconclusive difference does not show that the two are equal: the intervals show how large it may be."
HOLM = "p is adjusted (Holm) over the systems of a table, not over scores; intervals are not adjusted"
OVER_PATIENTS = (
    "95 % interval and p over patients: {resamples} bootstrap resamples of the patients of the test set, with the "
    "trained models held fixed; where n patients differ at all, p is at least 2 / 2^n"
)
OVER_SEEDS = "p over seeds: paired t test, with the test images held fixed"
OVER_SPLITS = (
    "p over {over}: corrected resampled t test (Nadeau and Bengio, Machine Learning 52, 2003), its variance factor "
    "1/J + n_test/n_train, here 1/{count} + {overlap:.3g}; each of the {over} has test images of its own, but their "
    "training sets overlap, so that p of a plain paired t test or of Wilcoxon's test would be too small"
)
WORDS = (
    f"{HIGHER.capitalize()} or {LOWER}: both p are below 0.05, with {ENOUGH} {{over}} or more; {MODELS_ONLY}: p over "
    "patients is below 0.05, but there are too few {over}, or they vary too much, to attribute the difference to the "
    f"method; {INCONCLUSIVE}: p over patients is not below 0.05, which does not show that they are equal"
)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One system against another in a score; all None of what cannot be tested.

    Attributes:
        difference: of the means, b minus a; low, high: its 95 % interval over patients; p: over patients.
        differing: patients of which the two answer differently at all; p is no less than `floor`.
        over: "seeds", "folds" or "splits"; samples: how many of them; overlap: test images per training image.
        over_seeds: the tests over them by name; p_seeds: the one that counts.
        p_holm, p_seeds_holm: both p adjusted for the number of systems; verdict, reason: what they let one say.
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
class Compared(Difference):
    """A score of the systems a and b; group: "" of all images."""

    version: str
    metric: str
    group: str = ""
    a: OverSeeds
    b: OverSeeds


@dataclass(frozen=True, kw_only=True)
class Against(Difference):
    """A system against the reference, of which `is_reference` holds.

    warning: what to beware of; note: the same behind the reason of the verdict, or why there is no test.
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
    """A row with its adjusted p, and what they let one say."""
    row = replace(row, p_holm=p, p_seeds_holm=p_seeds)
    row = replace(row, verdict=verdict(row))
    return replace(row, reason=reason(row))


def verdict(row: Difference) -> str:
    """One of the four words, of a row with adjusted p."""
    if not _below(row.p_holm):
        return INCONCLUSIVE
    assert row.samples is not None and row.difference is not None  # it has a p
    seeds = row.p_seeds_holm is None or _below(row.p_seeds_holm)
    tested = (row.over_seeds or {}).values()  # each fold alike; of folds with unlike numbers of runs
    opposed = any(test["difference"] * row.difference < 0 for test in tested)
    if row.samples < ENOUGH or not seeds or opposed:
        return MODELS_ONLY
    return HIGHER if row.difference > 0 else LOWER


def reason(row: Difference) -> str:
    """Why a row's verdict is neither higher nor lower; "" where there is no more to say."""
    over, samples, differing = row.over, row.samples, row.differing
    assert over and samples is not None  # it has a verdict
    if row.verdict == MODELS_ONLY:
        count = console.counted(samples, f"{over[:-1]} is", f"{over} are")
        few = f"{count} too few to attribute the difference to the method"
        varies = f"it varies too much from {over[:-1]} to {over[:-1]} to be attributed to the method"
        return few if samples < ENOUGH else varies
    if row.verdict == INCONCLUSIVE and differing and differing < FEW and row.unit:
        differ = console.counted(differing, f"{row.unit} differs", f"{UNITS[row.unit]} differ")
        return f"only {differ}, so p cannot be below {row.floor:g}"
    if row.verdict == INCONCLUSIVE and samples >= ENOUGH and _below(row.p_seeds_holm):
        return f"the {over} agree, but other test patients might reverse it"
    return ""


def _below(p: float | None) -> bool:
    return p is not None and p < SIGNIFICANT


def sampled(rows: Iterable[Difference]) -> str:
    """What the second p of a table's rows is over: "seeds", "folds" or "splits"."""
    return next((row.over for row in rows if row.over), "seeds")


def enough(comparisons: int) -> int:
    """Resamples, 2,000 or more, with which Holm's adjustment over so many comparisons leaves p below 0.05 possible.

    The smallest p is 2 / (resamples + 1); times the comparisons, it shall be half of 0.05 at most.
    """
    needed = math.ceil(4 * comparisons / SIGNIFICANT)
    return max(RESAMPLES, 1000 * math.ceil(needed / 1000))


def legend(rows: Sequence[Difference], resamples: int = RESAMPLES) -> str:
    """What the intervals, p and verdicts of rows are, whether of compare or of order."""
    most = max((row for row in rows if row.over), key=lambda row: row.samples or 0, default=Difference(over="seeds"))
    parts = [OVER_PATIENTS.format(resamples=resamples)]
    if most.samples and most.samples > 1:
        splits = OVER_SPLITS.format(over=most.over, count=most.samples, overlap=most.overlap or 0.0)
        parts.append(OVER_SEEDS if most.over == "seeds" else splits)
    return f"{'. '.join([*parts, HOLM, WORDS.format(over=sampled(rows))])}."


def p_text(p: float | None) -> str:
    """A p as every table prints it."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(share: float | None) -> str:
    """A difference in percent, with its sign."""
    return "-" if share is None else f"{100 * share:+.2f}"


def interval_text(row: Difference) -> str:
    """The bounds of the difference, in percent."""
    return "-" if row.low is None else f"{signed(row.low)} to {signed(row.high)}"
