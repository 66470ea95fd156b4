"""Corruption errors of systems relative to a reference: the mean corruption error (mCE).

Source: Hendrycks and Dietterich, ICLR 2019, arXiv 1903.12261, section 4.2. With E(f, c, s) the
error of a system f on test images of corruption c and severity s,

    CE(f, c)           sum over s of E(f, c, s) / sum over s of E(reference, c, s)
    relative CE(f, c)  the same of E(f, c, s) - E(f, clean)
    mCE                the mean of CE over the corruptions, in percent

MedMNIST-C (Di Salvo et al., arXiv 2406.17536) takes the balanced error, 1 - balanced accuracy, for
E; ImageNet-C the error, 1 - accuracy. Its reference is AlexNet, here a system of the report. A
relative CE has no meaning where the reference loses nothing, so such corruptions are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..comparison.systems import BEST, LAST, LAST5, grouped
from ..data.corruption.kinds import in_words
from ..scores.parts import Number
from .rows import Rows, SystemRow, base_of, systems_of
from .table import Cell, Column, ReportTable, heads, percent

METRICS = {"balanced_accuracy": "balanced error", "accuracy": "error"}
CLEAN = "clean"
LEGEND = (
    "{error}, in %: 1 - {metric}, mean over severity {severities} of {kinds} "
    "corruptions. mCE: the mean over corruptions of its sum over severities, divided "
    "by {reference}'s; relative: the same of the loss against clean images "
    "(Hendrycks and Dietterich, 2019; MedMNIST-C)."
)
LEFT_OUT = " {reference} loses nothing under {kinds}, which the relative mCE leaves out."
ALONE = "{error}, in %: 1 - {metric}, mean over severity {severities}."
NOT_OF_BEST = (
    " Means over the last five rounds: the round that validation chose is not scored under these "
    "corruptions."
)

Errors = Mapping[str, Sequence[float]]  # kind -> of each severity


@dataclass(frozen=True)
class Robustness:
    """One system under corruptions, by one metric.

    Attributes:
        errors: kind -> the mean error over severities. ce, relative: kind -> divided by the
            reference's; of the reference 1. A kind is missing where it has no meaning.
    """

    clean: float
    errors: dict[str, float]
    ce: dict[str, float] = field(default_factory=dict)
    relative: dict[str, float] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Number]:
        return {
            "clean": self.clean,
            "corrupted": _mean(self.errors),
            "mce": _mean(self.ce),
            "relative_mce": _mean(self.relative),
        }


def _mean(by_kind: Mapping[str, float]) -> Number:
    return float(np.mean(list(by_kind.values()))) if by_kind else None


def robustness(
    clean: float,
    errors: Errors,
    reference_clean: float,
    reference: Errors,
) -> Robustness:
    """A system's errors relative to those of a reference."""
    ce = {}
    relative = {}
    for kind, of_kind in errors.items():
        total = sum(reference[kind])
        if total > 0:
            ce[kind] = sum(of_kind) / total
        lost = total - len(of_kind) * reference_clean
        if lost > 1e-12:
            relative[kind] = (sum(of_kind) - len(of_kind) * clean) / lost
    means = {kind: float(np.mean(of_kind)) for kind, of_kind in errors.items()}
    return Robustness(clean, means, ce, relative)


def _shared_levels(systems: Rows) -> dict[str, list[str]]:
    """Kind -> the severities under which every run of every system was scored."""
    first, *others = [scores.severities for row in systems for scores in row.each]
    levels = {}
    for kind, of_first in first.items():
        shared = set(of_first)
        for scored in others:
            shared &= set(scored.get(kind, {}))
        if shared:
            levels[kind] = sorted(shared, key=int)
    return levels


def _errors(
    row: SystemRow,
    levels: Mapping[str, Sequence[str]],
    metric: str,
) -> tuple[float, Errors] | None:
    """The error on clean images, and by kind; None where the metric has no meaning somewhere."""
    clean = _score(row, CLEAN, metric)
    by_kind = {}
    for kind, severities in levels.items():
        values = [_score(row, f"{kind} {level}", metric) for level in severities]
        if clean is None or None in values:
            return None
        by_kind[kind] = [1 - value for value in values if value is not None]
    return (1 - clean, by_kind) if clean is not None else None


def _score(row: SystemRow, version: str, metric: str) -> Number:
    """The mean over the runs of a system, each over the rounds that count; None where one lacks
    it.
    """
    values = []
    for scores in row.each:
        score = scores.part().overall[version].get(metric)
        if score is None:
            return None
        is_last = row.at == LAST or score.mean is None
        values.append(score.last if is_last else score.mean)
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) else None


def of_systems(
    systems: Rows,
    reference: str,
    metric: str,
) -> tuple[str, dict[str, Robustness]]:
    """The reference's name, and name -> robustness of systems that share data; {} of none.

    Raises UsageError for a reference that is none of them.
    """
    levels = _shared_levels(systems)
    errors_by_name = {}
    for row in systems:
        errors = _errors(row, levels, metric) if levels else None
        if errors is not None:
            errors_by_name[row.name] = errors
    base = base_of(systems, reference)
    if base not in errors_by_name:
        return base, {}
    of_base = errors_by_name[base]
    return base, {name: robustness(*errors, *of_base) for name, errors in errors_by_name.items()}


def tables(rows: Rows, reference: str = "") -> Iterator[ReportTable]:
    """Tables of systems that share data and were scored under corruptions: the mCE, and the errors
    by kind.

    reference: a name, label or method; default: the first of each. Raises UsageError.
    """
    for alike, chosen in _scored(rows, reference):
        levels = _shared_levels(alike)
        rounds = NOT_OF_BEST if alike[0].at == BEST else ""
        for metric, error in METRICS.items():
            base, by_name = of_systems(alike, chosen, metric)
            if not by_name:
                continue
            words = {
                "error": error[0].upper() + error[1:],
                "metric": metric.replace("_", " "),
                "severities": _severities(levels),
                "kinds": len(levels),
                "reference": base,
            }
            if len(by_name) > 1:
                title = f"Mean corruption error relative to {base}: {error}"
                legend = LEGEND.format(**words) + _left_out(base, by_name, levels)
                legend += rounds
                yield _summary(title, by_name, legend)
            if metric == next(iter(METRICS)):
                title = f"{words['error']} by corruption"
                yield _by_kind(title, by_name, ALONE.format(**words) + rounds)


def _scored(rows: Rows, reference: str) -> Iterator[tuple[list[SystemRow], str]]:
    """Systems that share data and were scored under corruptions, and the reference where it is one
    of them, else "".

    Raises UsageError for a reference that is no row.
    """
    systems = []
    for row in systems_of(rows):
        if all(scores.severities for scores in row.each):
            systems.append(row)
    base = base_of(systems_of(rows), reference) if systems else ""
    for alike in grouped(systems, lambda row: row.comparable):
        names = [row.name for row in alike]
        yield list(alike), base if base in names else ""


def _severities(levels: Mapping[str, Sequence[str]]) -> str:
    distinct = {level for of_kind in levels.values() for level in of_kind}
    return ", ".join(sorted(distinct))


def _left_out(base: str, by_name: Mapping[str, Robustness], levels: Mapping[str, object]) -> str:
    kinds = [in_words(kind) for kind in levels if kind not in by_name[base].relative]
    if not kinds:
        return ""
    return LEFT_OUT.format(reference=base, kinds=", ".join(kinds))


def _summary(title: str, by_name: Mapping[str, Robustness], legend: str) -> ReportTable:
    columns = heads("") + heads("clean", "corrupted", unit="%", lower=True)
    columns += heads("mCE", "relative mCE", unit="%", lower=True)
    lines = [[name, *map(_cell, one.facts.values())] for name, one in by_name.items()]
    return ReportTable.of(title, columns, lines, legend)


def _by_kind(title: str, by_name: Mapping[str, Robustness], legend: str) -> ReportTable:
    """A line for each kind and a column for each system."""
    columns = [Column("test images"), *heads(*by_name, unit="%", lower=True)]
    first = next(iter(by_name.values()))
    lines = [["clean", *[_cell(one.clean) for one in by_name.values()]]]
    for kind in first.errors:
        lines.append([in_words(kind), *[_cell(one.errors[kind]) for one in by_name.values()]])
    lines.append(["mean of corruptions", *[_cell(_mean(one.errors)) for one in by_name.values()]])
    return ReportTable.of(title, columns, lines, legend)


def _cell(value: Number) -> Cell:
    return percent(value)


def facts(rows: Rows, reference: str = "") -> list[dict[str, object]]:
    """The numbers of the tables, for --json: a record for each system, metric and reference.

    "rounds" names the rounds that the numbers are means over, as in the rows of a report: "last5"
    also where the rows are of the best round, which is not scored under these corruptions.

    Raises UsageError.
    """
    records: list[dict[str, object]] = []
    for alike, chosen in _scored(rows, reference):
        rounds = LAST5 if alike[0].at == BEST else alike[0].at
        for metric in METRICS:
            base, by_name = of_systems(alike, chosen, metric)
            for name, one in by_name.items():
                record = {"system": name, "reference": base, "metric": metric, "rounds": rounds}
                by_kind = {"errors": one.errors, "ce": one.ce, "relative_ce": one.relative}
                records.append({**record, **one.facts, **by_kind})
    return records
