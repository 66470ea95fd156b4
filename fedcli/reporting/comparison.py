"""Tests of systems in tables and sentences: one system against another, and several against a
reference.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from string import ascii_lowercase
from typing import Any

from .. import console, printed
from ..comparison import verdict
from ..comparison.ranks import Ranks, by_method, friedman
from ..comparison.tested import Comparison
from ..comparison.verdict import (
    HIGHER,
    INCONCLUSIVE,
    LOWER,
    MODELS_ONLY,
    Against,
    ComparedScore,
    Difference,
)
from ..data import units
from ..metrics import METRICS, title
from ..printed import percents
from ..scores.groups import SMALL, unknown_note
from ..scores.numbers import is_lower
from ..scores.statistics.bootstrap import BCA
from ..scores.table import Number, Where
from .rows import Rows, shared_parts, systems_of
from .table import NONE, Column, ReportTable, heads

OF_METHOD = "method", "rule", "method settings"  # in which systems of two methods may differ
SAME = 1e-9  # below which two differences of means are one
SHORT = 30  # characters of settings that fit behind a name
ABOUT = (
    "Mean of the last five rounds (all of a shorter run), in %; change: {b} minus {a}. 95 % "
    "interval{bca} and p {units}: {resamples:,} resamples of the {count} {units}, with the "
    "trained models held fixed."
)
SEEDS = "p seeds: paired t test."
SPLITS = "p {over}: corrected resampled t test (Nadeau and Bengio 2003)."
OF_GAPS = "Resampling widens gaps, so the interval may lie beside the change."
UNTESTED = "not tested"  # the kind of a remark, beside the verdicts
REMARKS = {
    HIGHER: "a difference between the methods: both p are below 0.05",
    MODELS_ONLY: "true of these trained models; {reason}",
    INCONCLUSIVE: "no significant difference: {reason}",
    UNTESTED: "not tested: {reason}",
}
RANKS = (
    "Mean of a method's ranks on the datasets, by clean images; 1 is the best, and equal scores "
    "share a rank. Friedman's test as of Iman and Davenport, and Nemenyi's critical difference "
    "(Demsar 2006)."
)
NO_DIFFERENCE = "no significant difference, which does not show that they are equal."
SCORE = (
    "In %: mean of the last five rounds (all of a shorter run) and over {over}; difference: to "
    "{reference}. "
)
Remark = tuple[str, str]  # a verdict and its reason


def body(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values, with the sentences, notes and legend."""
    values = asdict(comparison)
    for name in ("remarks", "sample", "versions"):
        del values[name]
    for name in ("over", "overlap", "test_images", "unit", "units"):
        values[name] = getattr(comparison.sample, name)
    values["samples"] = comparison.sample.count
    for side, name in names(comparison).items():
        values["systems"][side]["name"] = name
    values["sentences"] = sentences(comparison)
    values["notes"] = notes(comparison)
    values["legend"] = legend(comparison)
    return values


def names(comparison: Comparison) -> dict[str, str]:
    """Side -> its label; of one method twice, with what differs, or A and B where that is long."""
    shared = _shared(comparison)
    labels = {}
    differences = {}
    for side, system in comparison.systems.items():
        parts = [part for part in system["label"].split(", ") if part not in shared]
        labels[side] = ", ".join(parts)
        settings = [f"{row['what']}={row[side]}" for row in comparison.settings]
        differences[side] = ", ".join(settings)
    if labels["a"] != labels["b"]:
        return labels
    if all(0 < len(text) <= SHORT for text in differences.values()):
        return {side: f"{labels[side]} ({differences[side]})" for side in "ab"}
    return {side: f"{labels[side]} {side.upper()}" for side in "ab"}


def _shared(comparison: Comparison) -> list[str]:
    """The parts of the labels of two methods that both have: the heading says them once."""
    labels = [system["label"] for system in comparison.systems.values()]
    methods = {label.partition(", ")[0] for label in labels}
    return shared_parts(labels) if len(methods) > 1 else []


def spoken(metric: str) -> str:
    """A metric in a sentence."""
    return title(metric).removesuffix(", one-vs-one")


def table(comparison: Comparison) -> ReportTable:
    """A line for each score and for each gap between groups on clean images, with the letter of its
    remark.
    """
    sample = comparison.sample
    sides = names(comparison)
    letters = _letters(comparison)
    has_seeds = sample.count > 1
    lines = []
    for name, row in _rows(comparison):
        means = [None if side.mean is None else percents(side.mean) for side in (row.a, row.b)]
        tests = _tests(
            row,
            _as_printed(row, row.b.mean, row.a.mean, 1),
            1,
            has_seeds=has_seeds,
        )
        lines.append([name, *means, *tests, letters.get(_remark(row), "")])
    columns = ["", sides["a"], sides["b"], "change", "95 % interval", f"p {_units(comparison)}"]
    if has_seeds:
        columns.append(f"p {sample.over}")
    return ReportTable.of("", [*columns, ""], lines)


def _units(comparison: Comparison) -> str:
    return units.plural(comparison.sample.unit)


def _is_partial(comparison: Comparison) -> bool:
    """Tell whether sites hide some of the test images."""
    return any(system["unscored"] for system in comparison.systems.values())


def _remark(row: Difference) -> Remark:
    kind = HIGHER if row.verdict == LOWER else row.verdict or ""
    if verdict.is_untested(row):
        kind = UNTESTED
    return kind, row.reason or ""


def _letters(comparison: Comparison) -> dict[Remark, str]:
    """A letter in brackets for each remark; an inconclusive test without a reason has none."""
    remarks = dict.fromkeys(_remark(row) for _, row in _rows(comparison))
    lettered = [remark for remark in remarks if remark[0] and remark != (INCONCLUSIVE, "")]
    return {
        remark: f"({letter})" for remark, letter in zip(lettered, ascii_lowercase, strict=False)
    }


def heading(comparison: Comparison) -> str:
    """The settings in which the two systems differ, and the number of their runs, in a sentence."""
    sample = comparison.sample
    sides = names(comparison)
    runs = console.counted(sample.count, sample.over[:-1], sample.over)
    runs += " each" if sample.count == comparison.pairs else f", {comparison.pairs} runs each"
    shared = _shared(comparison)
    if shared:
        runs += f", both with {console.listed(shared)}"
    has_two_methods = comparison.systems["a"]["method"] != comparison.systems["b"]["method"]
    parts = []
    if has_two_methods:
        parts.append("the method")
    for row in comparison.settings:
        if not has_two_methods or row["what"] not in OF_METHOD:
            parts.append(f"{row['what']} ({row['a']}, {row['b']})")
    differences = console.listed(parts)
    if len(parts) == 1:
        differences += " alone"
    return f"{sides['b']} against {sides['a']}, {runs}; they differ in {differences}."


def _tests(
    row: Difference,
    difference: Number,
    digits: int = 2,
    *,
    has_seeds: bool = True,
) -> list[str]:
    """The difference, its interval and p; has_seeds: whether there is a p over seeds."""
    tests = [
        verdict.signed(difference, digits),
        verdict.interval_text(row, digits),
        verdict.p_text(row.p_holm),
    ]
    if has_seeds:
        tests.append(verdict.p_text(row.p_seeds_holm))
    return tests


def _rows(comparison: Comparison) -> list[tuple[str, ComparedScore]]:
    """Scores and gaps by name, those that differ first."""
    rows = []
    for row in comparison.rows:
        version = comparison.versions.get(row.version, row.version)
        rows.append((f"{spoken(row.metric)}, {version}", row))
    rows += _gaps(comparison)
    return sorted(rows, key=lambda named_row: named_row[1].verdict in (None, "", INCONCLUSIVE))


def _gaps(comparison: Comparison) -> list[tuple[str, ComparedScore]]:
    """The gaps on clean images, as in a report: those on corrupted ones are in the JSON."""
    gaps = []
    for attribute, part in comparison.groups.items():
        for row in part.gaps:
            if row.version == "clean":
                name = f"gap by {attribute}, {spoken(row.metric)}"
                gaps.append((name, _of_printed(row, part.each)))
    return gaps


def _of_printed(gap: ComparedScore, of_groups: Sequence[ComparedScore]) -> ComparedScore:
    """A gap as reports print it: the distance of the groups' scores as they are printed."""
    if gap.a.mean is None or gap.b.mean is None:
        return gap
    scores = [row for row in of_groups if (row.version, row.metric) == (gap.version, gap.metric)]
    a = _gap_in_points(gap.a.mean, [row.a.mean for row in scores]) / 100
    b = _gap_in_points(gap.b.mean, [row.b.mean for row in scores]) / 100
    difference = gap.difference
    if difference is not None and abs(gap.b.mean - gap.a.mean - difference) < SAME:
        difference = b - a
    return replace(
        gap,
        a=replace(gap.a, mean=a),
        b=replace(gap.b, mean=b),
        difference=difference,
    )


def _gap_in_points(gap: float, means: Iterable[Number]) -> float:
    scores = [100 * mean for mean in means if mean is not None]
    return printed.gap(100 * gap, scores, 1)


def remarks(comparison: Comparison) -> list[str]:
    """The remarks of the table: a line a letter, then one for all others."""
    lines = []
    for (kind, reason), letter in _letters(comparison).items():
        lines.append(f"{letter} {REMARKS[kind].format(reason=reason)}.")
    if any(_remark(row) == (INCONCLUSIVE, "") for _, row in _rows(comparison)):
        rest = "Others" if lines else "All"
        lines.append(f"{rest}: {NO_DIFFERENCE}")
    return lines


def sentences(comparison: Comparison) -> list[str]:
    """A sentence for each score and gap that differs significantly, then one on all others."""
    sides = names(comparison)
    texts = []
    others = []
    untested: dict[str, list[str]] = {}  # by the reason
    for name, row in _rows(comparison):
        if verdict.is_untested(row):
            untested.setdefault(row.reason or "", []).append(name)
        elif row.verdict == INCONCLUSIVE:
            others.append(name)
        elif row.verdict is not None:
            change = _as_printed(row, row.b.mean, row.a.mean, 1)
            texts.append(_sentence(sides["b"], row, change, f"{sides['a']} in {name}"))
    if others:
        pair = f"between {sides['b']} and {sides['a']}"
        texts.append(f"No significant difference {pair} in {console.listed(others)}.")
        texts.append(verdict.NOT_EQUAL)
    for reason, names_of_scores in untested.items():
        texts.append(f"Not tested in {console.listed(names_of_scores)}: {reason}.")
    return texts


def legend(comparison: Comparison) -> str:
    """The numbers of the table in words."""
    sample = comparison.sample
    text = ABOUT.format(
        **names(comparison),
        bca=" (BCa)" if comparison.interval == BCA else "",
        units=_units(comparison),
        resamples=comparison.resamples,
        count=f"{sample.units:,} scored" if _is_partial(comparison) else f"{sample.units:,}",
    )
    texts = [text]
    if sample.count > 1:
        texts.append(SEEDS if sample.over == "seeds" else SPLITS.format(over=sample.over))
    if _gaps(comparison):
        texts.append(OF_GAPS)
    return " ".join(texts)


def notes(comparison: Comparison) -> list[str]:
    """Notes for a reader: models of another kind or that learned nothing, few seeds, patients or
    images of a group.
    """
    sample = comparison.sample
    systems = {name: comparison.systems[side] for side, name in names(comparison).items()}
    notes = [*comparison.remarks]
    for separator, key in ((": ", "warning"), (" ", "one_class")):
        notes += [
            f"{name}{separator}{system[key]}" for name, system in systems.items() if system[key]
        ]
    if sample.units < SMALL:
        few = console.counted(sample.units, sample.unit, units.plural(sample.unit))
        share = "scored" if _is_partial(comparison) else "in the test set"
        notes.append(f"{few} {share}, fewer than {SMALL}: the intervals may be too narrow")
    for attribute, part in comparison.groups.items():
        unknown = unknown_note(attribute, part.unknown, sample.test_images)
        if unknown:
            notes.append(unknown)
        compared_groups = {row.group for row in part.each}
        for group, reason in part.small.items():
            consequence = "so its score is unreliable"
            if group not in compared_groups:
                consequence = "so it is not compared"
            notes.append(f"{attribute} {group}: {reason}, {consequence}")
    return notes


def table_against(
    rows: Sequence[Against],
    score: str,
    reference: str,
) -> ReportTable:
    """The reference first, then the others with their tests; score: such as "clean accuracy"."""
    over = verdict.sampled(rows)
    lines = []
    for row in rows:
        if row.difference is not None:
            difference = _as_printed(row, row.mean, rows[0].mean, 2)
            said = UNTESTED if verdict.is_untested(row) else row.verdict or ""
            tests = [*_tests(row, difference), said]
        else:
            reason = "reference" if row.is_reference else f"not tested: {row.note}"
            tests = [*[NONE] * 4, reason]
        lines.append([row.name, row.mean, *tests])
    columns = heads("method") + heads(score, unit="%") + heads("difference", "95 % interval")
    tested = next((row for row in rows if row.unit), rows[0])
    patients = units.plural(verdict.noun(tested))
    columns += heads(f"p over {patients}", f"p over {over}", "verdict")
    tests_in_words = verdict.legend(rows, verdict.enough(len(rows) - 1))
    legend = SCORE.format(over=over, reference=reference) + tests_in_words
    return ReportTable.of(
        f"Against {reference}: {score}",
        columns,
        lines,
        legend,
    )


def said_against(
    rows: Iterable[Against],
    reference: str,
    score: str,
    *,
    intervals: bool = False,
    digits: int = 1,
) -> list[str]:
    """Sentences on systems against the reference, with direction and size, and intervals where
    there is room for them; those without a significant difference are together. digits: of the
    scores in a table beside it.
    """
    rows = list(rows)
    base = next((row.mean for row in rows if row.is_reference), None)
    texts = []
    others = []
    for row in rows:
        difference = _as_printed(row, row.mean, base, digits)
        interval = f"95 % interval {verdict.interval_text(row, 1)}"
        if verdict.is_untested(row):
            texts.append(f"{row.name}: not tested against {reference} in {score}: {row.reason}.")
        elif row.verdict == INCONCLUSIVE:
            points = f"{verdict.signed(difference, digits)} points, {interval}"
            others.append(f"{row.name} ({points})" if intervals else row.name)
        elif row.verdict:
            base_score = f"{reference} in {score}"
            if intervals:
                base_score += f" ({interval})"
            texts.append(_sentence(row.name, row, difference, base_score, digits))
    if others:
        texts.append(_no_difference(others, reference, score))
    return texts


def _no_difference(names: Sequence[str], reference: str, scores: str) -> str:
    return f"{console.listed(names)}: no significant difference from {reference} in {scores}."


def _sentence(
    name: str,
    row: Difference,
    difference: Number,
    base_score: str,
    digits: int = 1,
) -> str:
    """A sentence on a significant difference. base_score: the other system and the score, in
    words.
    """
    points = difference or 0.0
    direction = "higher" if points > 0 else "lower"
    size = f"{percents(abs(points), digits)} points {direction}"
    return f"{name}: {size} than {base_score}{_certainty(row)}."


def _as_printed(
    row: Difference,
    mean: Number,
    reference: Number,
    digits: int,
) -> Number:
    """The difference of two scores as they are printed, so that a reader finds it in the table."""
    if row.difference is None or mean is None or reference is None:
        return row.difference
    if abs(mean - reference - row.difference) >= SAME:
        return row.difference  # paired runs of several
    return (round(100 * mean, digits) - round(100 * reference, digits)) / 100


def _certainty(row: Difference) -> str:
    """The end of a sentence on a difference: what it is significant over, and how many trainings
    that is of.
    """
    over = row.over or "seeds"
    unit = units.plural(row.unit or units.PATIENT)
    significant = f", significant over test {unit}"
    if row.verdict != MODELS_ONLY:
        return f"{significant} and {over}"
    if row.samples == 1:
        return f"{significant}; one training each"
    if (row.samples or 0) < verdict.ENOUGH:
        return f"{significant}; {row.samples} {over} are too few to judge the method"
    return f"{significant}, not over {over}"


def tests_against(
    tests: Sequence[tuple[str, str, Sequence[Against]]],
) -> tuple[list[str], list[ReportTable]]:
    """Sentences on the tests of several scores, and a table for each; a legend stands below the
    last.

    tests: the score, such as "clean accuracy", the name of the reference, and the systems against
    it.
    """
    tables: list[ReportTable] = []
    texts = []
    scores_by_names: dict[tuple[str, str], list[str]] = {}
    for name, reference, rows in tests:
        score = in_words(name)
        tables = [replace(table, legend="") for table in tables]
        tables.append(table_against(rows, score, reference))
        inconclusive = [
            row for row in rows if row.verdict == INCONCLUSIVE and not verdict.is_untested(row)
        ]
        texts += said_against([row for row in rows if row not in inconclusive], reference, score)
        others = [row.name for row in inconclusive]
        if others:
            key = (console.listed(others), reference)
            scores_by_names.setdefault(key, []).append(score)
    for (names, reference), scores in scores_by_names.items():
        in_scores = scores[0]
        if len(scores) > 1:
            in_scores = f"any of {len(scores)} scores: {console.listed(scores)}"
        texts.append(_no_difference([names], reference, in_scores))
    if scores_by_names:
        texts.append(verdict.NOT_EQUAL)
    return texts, tables


def in_words(score: str) -> str:
    """The name of a score or column, such as "clean balanced_accuracy", with the metric in
    words.
    """
    words = re.split(r"(\w+)", score)
    return "".join(spoken(word) if word in METRICS else word for word in words)


def rank_tests(rows: Rows) -> list[Ranks]:
    """Friedman's test in each usual metric of clean images, of the methods that every dataset has
    one row of; none of fewer than two datasets or three methods.
    """
    systems = systems_of(rows)
    if len({row.scores.dataset for row in systems}) < 2:
        return []
    tests = []
    for metric in rows[0].scores.usual:
        where = Where("clean", metric=metric)
        scores = {}
        numbers = by_method((row.scores, row.value(where).mean) for row in systems)
        for method, means in numbers.items():
            scores[method] = [mean for mean in means if mean is not None]
        is_whole = all(len(scores[method]) == len(numbers[method]) for method in numbers)
        if len(scores) > 2 and is_whole:
            tests.append(friedman(metric, scores, lower=is_lower(where)))
    return tests


def rank_tables(tests: Sequence[Ranks]) -> list[ReportTable]:
    """The mean ranks of every method, and below them what the tests say."""
    if not tests:
        return []
    columns = heads("method")
    legend = [RANKS]
    for test in tests:
        columns.append(Column("mean rank", "", title(test.metric), lower=True, digits=2))
        legend.append(f"{title(test.metric)}: {test.said}")
    legend.append(tests[0].caution)
    lines = []
    for name in tests[0].ranks:
        lines.append([name, *[test.ranks[name] for test in tests]])
    heading = f"Methods ranked over {tests[0].datasets} datasets"
    return [ReportTable.of(heading, columns, lines, " ".join(legend).strip())]
