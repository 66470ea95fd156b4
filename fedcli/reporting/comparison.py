"""Tests of systems in tables and sentences: one system against another, and several against a reference."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from string import ascii_lowercase
from typing import Any

from .. import console
from ..comparison import verdict
from ..comparison.ranks import Ranks, friedman
from ..comparison.tested import Comparison
from ..comparison.verdict import (
    HIGHER,
    INCONCLUSIVE,
    LOWER,
    MODELS_ONLY,
    UNITS,
    Against,
    Compared,
    Difference,
)
from ..metrics import METRICS, title
from ..printed import percents
from ..scores.groups import SMALL, unknown_note
from ..scores.numbers import is_lower
from ..scores.statistics.bootstrap import BCA
from ..scores.table import Where
from .rows import Row
from .table import Column, Heads, Table

OF_METHOD = "method", "rule", "method settings"  # in which systems of two methods may differ
SHORT = 30  # characters of settings that fit behind a name
ABOUT = (
    "Mean of the last five rounds (all of a shorter run), in %; change: {b} minus {a}. 95 % interval{bca} and "
    "p {units}: {resamples:,} resamples of the {count:,} {units}, with the trained models held fixed. {seeds}"
)
SEEDS = "p seeds: paired t test."
SPLITS = "p {over}: corrected resampled t test (Nadeau and Bengio 2003)."
OF_GAPS = "Resampling widens gaps, so the interval may lie beside the change."
REMARKS = {
    HIGHER: "a difference between the methods: both p are below 0.05",
    LOWER: "a difference between the methods: both p are below 0.05",
    MODELS_ONLY: "true of these trained models; {reason}",
    INCONCLUSIVE: "no significant difference: {reason}",
}
RANKS = (
    "Mean of a method's ranks on the datasets, by clean images; 1 is the best, and equal scores share a rank. "
    "Friedman's test as of Iman and Davenport, and Nemenyi's critical difference (Demsar 2006)."
)
NO_DIFFERENCE = "no significant difference, which does not show that they are equal."
SCORE = "In %: mean of the last five rounds (all of a shorter run) and over {over}; difference: to {reference}. "


def body(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values, with the sentences, notes and legend."""
    values, sample = asdict(comparison), comparison.sample
    values |= {
        name: getattr(sample, name) for name in ("over", "overlap", "test_images", "unit", "units")
    }
    values["samples"] = sample.count
    for side, name in names(comparison).items():
        values["systems"][side]["name"] = name
    del values["remarks"], values["sample"], values["versions"]
    texts = {
        "sentences": sentences(comparison),
        "notes": notes(comparison),
        "legend": legend(comparison),
    }
    return values | texts


def names(comparison: Comparison) -> dict[str, str]:
    """Labels; of one method twice, with what differs, or A and B where that is long."""
    shared = _shared(comparison)
    labels = {
        side: ", ".join(part for part in about["label"].split(", ") if part not in shared)
        for side, about in comparison.systems.items()
    }
    if labels["a"] != labels["b"]:
        return labels
    differing = {
        side: ", ".join(f"{row['what']}={row[side]}" for row in comparison.settings)
        for side in "ab"
    }
    if all(0 < len(text) <= SHORT for text in differing.values()):
        return {side: f"{labels[side]} ({differing[side]})" for side in "ab"}
    return {side: f"{labels[side]} {side.upper()}" for side in "ab"}


def _shared(comparison: Comparison) -> list[str]:
    """The parts of the labels of two methods that both have: the heading says them once."""
    first, second = (comparison.systems[side]["label"].split(", ") for side in "ab")
    return [part for part in first[1:] if part in second[1:]] if first[0] != second[0] else []


def spoken(metric: str) -> str:
    """A metric in a sentence."""
    return title(metric).removesuffix(", one-vs-one")


def table(comparison: Comparison) -> Table:
    """A line for each score and for each gap between groups on clean images, with the letter of its remark."""
    several, letters = comparison.sample.count > 1, _letters(comparison)
    sides, units = names(comparison), _units(comparison)
    lines = [
        [
            name,
            *(None if of.mean is None else percents(of.mean) for of in (row.a, row.b)),
            *_tested(row, _of_shown(row.difference, row.b.mean, row.a.mean, 1), several, digits=1),
            letters.get(_remark(row), ""),
        ]
        for name, row in _rows(comparison)
    ]
    over = [f"p {units}", *([f"p {comparison.sample.over}"] if several else [])]
    return Table.of("", ["", sides["a"], sides["b"], "change", "95 % interval", *over, ""], lines)


def _units(comparison: Comparison) -> str:
    return "images" if comparison.sample.unit == "image" else "patients"


def _remark(row: Difference) -> tuple[str, str]:
    verdict, reason = row.verdict or "", row.reason or ""
    return (HIGHER if verdict == LOWER else verdict), reason


def _letters(comparison: Comparison) -> dict[tuple[str, str], str]:
    remarks = [_remark(row) for _, row in _rows(comparison)]
    said = [
        remark
        for remark in dict.fromkeys(remarks)
        if remark[0] and (remark[0] != INCONCLUSIVE or remark[1])
    ]
    return {remark: f"({letter})" for remark, letter in zip(said, ascii_lowercase)}


def heading(comparison: Comparison) -> str:
    """In what the two systems differ, and how many runs they have."""
    sample, sides = comparison.sample, names(comparison)
    runs = console.counted(sample.count, sample.over[:-1], sample.over)
    runs += " each" if sample.count == comparison.pairs else f", {comparison.pairs} runs each"
    differing = [row for row in comparison.settings if row["what"] not in OF_METHOD]
    methods = (
        ["the method"]
        if len({about["method"] for about in comparison.systems.values()}) > 1
        else []
    )
    if not methods:
        differing = comparison.settings
    parts = methods + [f"{row['what']} ({row['a']}, {row['b']})" for row in differing]
    alone = " alone" if len(parts) == 1 else ""
    runs += f", both with {console.listed(shared)}" if (shared := _shared(comparison)) else ""
    return (
        f"{sides['b']} against {sides['a']}, {runs}; they differ in {console.listed(parts)}{alone}."
    )


def _tested(
    row: Difference, difference: float | None, several: bool = True, digits: int = 2
) -> list[str]:
    """The difference, its interval and p; several: whether there is a p over seeds."""
    ps = [row.p_holm, *([row.p_seeds_holm] if several else [])]
    return [
        verdict.signed(difference, digits),
        verdict.interval_text(row, digits),
        *map(verdict.p_text, ps),
    ]


def _rows(comparison: Comparison) -> list[tuple[str, Compared]]:
    """Scores and gaps by name, those that differ first."""
    words = comparison.versions
    rows = [
        (f"{spoken(row.metric)}, {words.get(row.version, row.version)}", row)
        for row in comparison.rows
    ]
    return sorted(
        rows + _gaps(comparison), key=lambda row: (row[1].verdict or INCONCLUSIVE) == INCONCLUSIVE
    )


def _gaps(comparison: Comparison) -> list[tuple[str, Compared]]:
    """Of the clean images, as in a report: the corrupted ones' are in the JSON."""
    return [
        (f"gap by {attribute}, {spoken(row.metric)}", row)
        for attribute, part in comparison.groups.items()
        for row in part.gaps
        if row.version == "clean"
    ]


def remarks(comparison: Comparison) -> list[str]:
    """The remarks of the table: a line a letter, then one for all others."""
    letters = _letters(comparison)
    lines = [
        f"{letter} {REMARKS[kind].format(reason=reason)}."
        for (kind, reason), letter in letters.items()
    ]
    others = [row for _, row in _rows(comparison) if _remark(row) == (INCONCLUSIVE, "")]
    return lines + ([f"{'Others' if lines else 'All'}: {NO_DIFFERENCE}"] if others else [])


def sentences(comparison: Comparison) -> list[str]:
    """A sentence for each score and gap that differs significantly, then one on all others."""
    sides, rows = names(comparison), _rows(comparison)
    others = [name for name, row in rows if row.verdict == INCONCLUSIVE]
    said = [
        _said(
            sides["b"],
            replace(row, difference=_of_shown(row.difference, row.b.mean, row.a.mean, 1)),
            sides["a"],
            name,
        )
        for name, row in rows
        if row.verdict not in (None, INCONCLUSIVE)
    ]
    if others:
        no = f"No significant difference between {sides['b']} and {sides['a']} in {console.listed(others)}."
        said += [no, verdict.NOT_EQUAL]
    return said


def legend(comparison: Comparison) -> str:
    """The numbers of the table in words."""
    sample, seeds = comparison.sample, ""
    if sample.count > 1:
        seeds = SEEDS if sample.over == "seeds" else SPLITS.format(over=sample.over)
    about = ABOUT.format(
        **names(comparison),
        bca=" (BCa)" * (comparison.interval == BCA),
        units=_units(comparison),
        resamples=comparison.resamples,
        count=sample.units,
        seeds=seeds,
    )
    return " ".join([about.rstrip(), *([OF_GAPS] if _gaps(comparison) else [])])


def notes(comparison: Comparison) -> list[str]:
    """Notes for a reader: models of another kind or that learned nothing, few seeds, patients or images of a group."""
    sample = comparison.sample
    sides = [(name, comparison.systems[side]) for side, name in names(comparison).items()]
    notes = [
        *comparison.remarks,
        *(f"{name}: {about['warning']}" for name, about in sides if about["warning"]),
    ]
    notes += [f"{name} {about['one_class']}" for name, about in sides if about["one_class"]]
    if sample.units < SMALL:
        few = console.counted(sample.units, sample.unit, UNITS[sample.unit])
        notes.append(f"{few} in the test set, fewer than {SMALL}: the intervals may be too narrow")
    for attribute, part in comparison.groups.items():
        unknown = unknown_note(attribute, part.unknown, sample.test_images)
        small = [
            f"{attribute} {value}: {why}, so its score is unreliable"
            for value, why in part.small.items()
        ]
        notes += [*([unknown] if unknown else []), *small]
    return notes


def table_against(rows: Sequence[Against], score: str, reference: str) -> Table:
    """The reference first, then the others with their tests; score: such as "clean accuracy"."""
    over = verdict.sampled(rows)
    ps = [f"p over {what}" for what in ("patients", over)]
    heads: Heads = ["method", Column(score, "%"), "difference", "95 % interval", *ps, "verdict"]
    lines = []
    for row in rows:
        if row.difference is None:
            tested = [
                "-",
                "-",
                "-",
                "-",
                "reference" if row.is_reference else f"not tested: {row.note}",
            ]
        else:
            tested = [
                *_tested(row, _of_shown(row.difference, row.mean, rows[0].mean, 2)),
                row.verdict or "",
            ]
        lines.append([row.name, row.mean, *tested])
    legend = SCORE.format(over=over, reference=reference) + verdict.legend(
        rows, verdict.enough(len(rows) - 1)
    )
    return Table.of(f"Against {reference}: {score}", heads, lines, legend)


def said_against(
    rows: Iterable[Against], reference: str, score: str, *, intervals: bool = False, digits: int = 1
) -> list[str]:
    """Sentences on systems against the reference, with direction and size, and intervals where there is room for them;
    those without a significant difference are together. digits: of the scores in a table beside it."""
    said, others, every = [], [], list(rows)
    base = next((row.mean for row in every if row.is_reference), None)
    for row in every:
        row = replace(row, difference=_of_shown(row.difference, row.mean, base, digits))
        if row.verdict == INCONCLUSIVE:
            bounds = (
                f" ({verdict.signed(row.difference, digits)} points, {_bounds(row)})"
                if intervals
                else ""
            )
            others.append(f"{row.name}{bounds}")
        elif row.verdict:
            said.append(
                _said(row.name, row, reference, score, f" ({_bounds(row)})" * intervals, digits)
            )
    if others:
        said.append(
            f"{console.listed(others)}: no significant difference from {reference} in {score}."
        )
    return said


def _bounds(row: Difference) -> str:
    return f"95 % interval {verdict.interval_text(row, 1)}"


def _said(
    name: str, row: Difference, reference: str, score: str, bounds: str = "", digits: int = 1
) -> str:
    difference = row.difference or 0.0
    way = "higher" if difference > 0 else "lower"
    return f"{name}: {percents(abs(difference), digits)} points {way} than {reference} in {score}{bounds}{_certain(row)}."


def _of_shown(
    difference: float | None, mean: float | None, reference: float | None, digits: int
) -> float | None:
    """The difference of two scores as they are printed, so that a reader finds it in the table."""
    if (
        difference is None
        or mean is None
        or reference is None
        or abs(mean - reference - difference) >= 1e-9
    ):
        return difference  # paired runs of several
    return (round(100 * mean, digits) - round(100 * reference, digits)) / 100


def _certain(row: Difference) -> str:
    """The end of a sentence on a difference: what it is significant over, and how many trainings that is of."""
    over, unit = row.over or "seeds", UNITS.get(row.unit or "", "patients").split()[0]
    if row.verdict != MODELS_ONLY:
        return f", significant over test {unit} and {over}"
    if row.samples == 1:
        return f", significant over test {unit}; one training each"
    if (row.samples or 0) < verdict.ENOUGH:
        return (
            f", significant over test {unit}; {row.samples} {over} are too few to judge the method"
        )
    return f", significant over test {unit}, not over {over}"


def tests_against(
    tests: Sequence[tuple[str, str, Sequence[Against]]],
) -> tuple[list[str], list[Table]]:
    """Sentences on the tests of several scores, and a table for each; a legend stands below the last.

    tests: the score, such as "clean accuracy", the name of the reference, and the systems against it.
    """
    named = [(in_words(score), reference, rows) for score, reference, rows in tests]
    tables = [table_against(rows, score, reference) for score, reference, rows in named]
    sentences, alike = [], dict[tuple[str, str], list[str]]()
    for score, reference, rows in named:
        sentences += said_against(
            [row for row in rows if row.verdict != INCONCLUSIVE], reference, score
        )
        if names := [row.name for row in rows if row.verdict == INCONCLUSIVE]:
            alike.setdefault((console.listed(names), reference), []).append(score)
    for (names_of_all, reference), scores in alike.items():
        where = (
            f"any of {len(scores)} scores: {console.listed(scores)}"
            if len(scores) > 1
            else scores[0]
        )
        sentences.append(f"{names_of_all}: no significant difference from {reference} in {where}.")
    if alike:
        sentences.append(verdict.NOT_EQUAL)
    return sentences, [*(replace(table, legend="") for table in tables[:-1]), *tables[-1:]]


def in_words(score: str) -> str:
    """The name of a score or column, such as "clean balanced_accuracy", with the metric in words."""
    return re.sub(r"\w+", lambda word: spoken(word[0]) if word[0] in METRICS else word[0], score)


def rank_tests(rows: Sequence[Row]) -> list[Ranks]:
    """Friedman's test in each usual metric of clean images, of the methods that every dataset has one row of; none of
    fewer than two datasets or three methods."""
    own = [row for row in rows if not row.is_view]
    datasets = list(dict.fromkeys(row.scores.dataset for row in own))
    of_method: dict[str, list[Row]] = {}
    for row in sorted(own, key=lambda row: datasets.index(row.scores.dataset)):
        settings = ", ".join(f"{key}={value}" for key, value in row.scores.settings.items())
        of_method.setdefault(f"{row.scores.label} ({settings})", []).append(row)
    whole = {
        name: of for name, of in of_method.items() if [row.scores.dataset for row in of] == datasets
    }
    if len(datasets) < 2 or len(whole) < 3:
        return []
    labels = [of[0].scores.label for of in whole.values()]
    names = [
        name if labels.count(label) > 1 else label
        for label, name in zip(labels, whole, strict=True)
    ]
    tests = []
    for where in (Where("clean", metric=metric) for metric in own[0].scores.usual):
        scores = {
            name: [row.value(where).mean for row in of]
            for name, of in zip(names, whole.values(), strict=True)
        }
        known = {
            name: [value for value in values if value is not None]
            for name, values in scores.items()
        }
        if known == scores:
            tests.append(friedman(where.metric, known, lower=is_lower(where)))
    return tests


def rank_tables(tests: Sequence[Ranks]) -> list[Table]:
    """The mean ranks of every method, and below them what the tests say."""
    if not tests:
        return []
    columns: Heads = [
        "method",
        *(Column("mean rank", "", title(of.metric), lower=True, digits=2) for of in tests),
    ]
    lines = [[name, *(test.ranks[name] for test in tests)] for name in tests[0].ranks]
    said = " ".join(
        [*(f"{title(test.metric)}: {test.said}" for test in tests), tests[0].caution]
    ).strip()
    return [
        Table.of(
            f"Methods ranked over {tests[0].datasets} datasets", columns, lines, f"{RANKS} {said}"
        )
    ]
