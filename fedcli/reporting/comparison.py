"""Tests of systems in tables and sentences: one system against another, and several against a reference."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from .. import console
from ..compare import verdict
from ..compare.tested import Comparison
from ..compare.verdict import (
    HIGHER,
    INCONCLUSIVE,
    LOWER,
    MODELS_ONLY,
    SIGNIFICANT,
    UNITS,
    Against,
    Compared,
    Difference,
)
from ..scores.groups import SMALL, unknown_note
from ..scores.statistics.bootstrap import BCA
from ..scores.statistics.significance import sign_floor
from .table import Column, Heads, Table, percent

TESTS = {"mcnemar": "McNemar's exact test of the decisions", "delong": "DeLong's test of auc_binary"}
OF_MODELS = (
    "These tests ask whether two trained models differ on these images. They do not account for repeated training, "
    "so p may be below 0.05 where the verdict is neither `higher` nor `lower`."
)
SHORT = 30  # characters of settings that fit behind a name
SCORES_SAY = {
    HIGHER: "{b} is higher than {a} in {what}",
    LOWER: "{b} is lower than {a} in {what}",
    MODELS_ONLY: "{b} and {a} as trained here differ significantly in {what}, but {reason}",
    INCONCLUSIVE: "the difference in {what} is inconclusive",
}
GAPS_SAY = SCORES_SAY | {
    HIGHER: "{b} has a larger {what} than {a}",
    LOWER: "{b} has a smaller {what} than {a}",
}
AGAINST_SAYS = {
    HIGHER: "higher than {a}",
    LOWER: "lower than {a}",
    MODELS_ONLY: "different from {a} as trained here",
    INCONCLUSIVE: "inconclusive against {a}",
}
SCORES = (
    "A score is the mean over the last five rounds (all of a shorter run), then over {over}, ± population standard "
    "deviation over rounds and {over}; the difference is B - A; the test set has {drawn}."
)
SCORE = (
    "In percent: each score is the mean over the last five rounds (all of a shorter run), then over {over}; the "
    "difference is to {reference}. "
)
OF_BCA = "Intervals are bias-corrected and accelerated (BCa)."
OF_GAPS = "Chance alone produces a gap, so the interval of a gap's difference need not contain the difference."
Named = tuple[str, Difference]  # a score by its name in the table, or a system by its own


def body(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON values, with the sentences, notes and legend."""
    values, sample = asdict(comparison), comparison.sample
    values |= {name: getattr(sample, name) for name in ("over", "overlap", "test_images", "unit", "units")}
    values["samples"] = sample.count
    for side, name in names(comparison).items():
        values["systems"][side]["name"] = name
    del values["remarks"], values["sample"]
    texts = {"sentences": sentences(comparison), "notes": notes(comparison), "legend": legend(comparison)}
    return values | texts


def names(comparison: Comparison) -> dict[str, str]:
    """Labels; of one method twice, with what differs, or A and B where that is long."""
    labels = {side: about["label"] for side, about in comparison.systems.items()}
    if labels["a"] != labels["b"]:
        return labels
    differing = {side: ", ".join(f"{row['what']}={row[side]}" for row in comparison.settings) for side in "ab"}
    if all(0 < len(text) <= SHORT for text in differing.values()):
        return {side: f"{labels[side]} ({differing[side]})" for side in "ab"}
    return {side: f"{labels[side]} {side.upper()}" for side in "ab"}


def table(comparison: Comparison) -> Table:
    """The scores, then the gaps between groups on the clean images."""
    sample, several = comparison.sample, comparison.sample.count > 1
    runs = console.counted(sample.count, sample.over[:-1], sample.over)
    runs += "" if sample.count == comparison.pairs else f", {comparison.pairs} runs"
    sides = [f"{side.upper()}: {name}, {runs}" for side, name in names(comparison).items()]
    drawn = "images" if sample.unit == "image" else "patients"
    over = [f"p over {drawn}", *([f"p over {sample.over}"] if several else [])]
    lines = [
        [
            name,
            *(percent(of.mean, of.std_pooled).plain for of in (row.a, row.b)),
            *_tested(row, row.difference, several),
        ]
        for name, row in _scores(comparison) + _gaps(comparison)
    ]
    return Table.of("", ["score (%)", *sides, "B-A", "95 % interval", *over, "verdict"], lines)


def _tested(row: Difference, difference: float | None, several: bool = True) -> list[str]:
    """The difference, its interval and p, and the verdict; several: whether there is a p over seeds."""
    ps = [row.p_holm, *([row.p_seeds_holm] if several else [])]
    numbers = [verdict.signed(difference), verdict.interval_text(row), *map(verdict.p_text, ps)]
    return [*numbers, row.verdict or ""]


def _scores(comparison: Comparison) -> list[tuple[str, Compared]]:
    return [(f"{row.version} {row.metric}", row) for row in comparison.rows]


def _gaps(comparison: Comparison) -> list[tuple[str, Compared]]:
    """Of the clean images, as in a report: the corrupted ones' are in the JSON."""
    return [
        (f"{attribute} gap {row.metric}", row)
        for attribute, part in comparison.groups.items()
        for row in part.gaps
        if row.version == "clean"
    ]


def sentences(comparison: Comparison) -> list[str]:
    """Sentences on the scores, on the gaps, and on what neither can say."""
    kinds = [(_scores(comparison), SCORES_SAY, "scores"), (_gaps(comparison), GAPS_SAY, "gaps")]
    lines = [_sentence(rows, names(comparison), texts, noun) for rows, texts, noun in kinds if rows]
    inconclusive = any(row.verdict == INCONCLUSIVE for rows, *_ in kinds for _, row in rows)
    return lines + ([verdict.NOT_EQUAL] if inconclusive else [])


def _sentence(rows: Sequence[Named], systems: dict[str, str], texts: dict[str, str], noun: str) -> str:
    parts = []
    for kind, why, alike in _alike(rows):
        every = f"{'any of the' if kind == INCONCLUSIVE else 'all'} {len(rows)} {noun}"
        what = every if len(alike) == len(rows) > 2 else _listed(alike)
        text = texts[kind].format(reason=why, what=what, **systems)
        parts.append(f"{text}: {why}" if kind == INCONCLUSIVE and why else text)
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def _alike(rows: Iterable[Named]) -> list[tuple[str, str, list[str]]]:
    """Verdict, reason, and the names of those that have both, in the order of the verdicts."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, row in rows:
        if row.verdict:
            kinds.setdefault((row.verdict, row.reason or ""), []).append(name)
    order = list(SCORES_SAY)
    return [(*kind, alike) for kind, alike in sorted(kinds.items(), key=lambda item: order.index(item[0][0]))]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def image_tests(comparison: Comparison) -> list[str]:
    """A line for each test of the last round's models, image by image: its p for each run; then what they are not."""
    alone = comparison.sample.units == comparison.sample.test_images
    independent = "" if alone else ", with a patient's images taken as independent"
    lines: dict[str, list[str]] = {}
    for pair in comparison.images:
        for version, tests in pair["versions"].items():
            for test, result in tests.items():
                head = f"{TESTS[test]} on the last round's models, {version} images{independent}"
                lines.setdefault(head, []).append(f"{verdict.p_text(result['p'])} ({pair['which']})")
    return [f"{head}: p {', '.join(ps)}." for head, ps in lines.items()] + ([OF_MODELS] if lines else [])


def legend(comparison: Comparison) -> str:
    """The numbers of the table in words."""
    sample = comparison.sample
    scores = SCORES.format(over=sample.over, drawn=console.counted(sample.units, sample.unit, UNITS[sample.unit]))
    more = [OF_BCA] * (comparison.interval == BCA) + [OF_GAPS] * bool(_gaps(comparison))
    return " ".join([scores, verdict.legend(comparison.rows, comparison.resamples), *more])


def notes(comparison: Comparison) -> list[str]:
    """Notes for a reader: models of another kind or that learned nothing, few seeds, patients or images of a group."""
    sample = comparison.sample
    sides = [(name, comparison.systems[side]) for side, name in names(comparison).items()]
    notes = [*comparison.remarks, *(f"{name}: {about['warning']}" for name, about in sides if about["warning"])]
    notes += [f"{name} {about['one_class']}" for name, about in sides if about["one_class"]]
    notes += _of_samples(comparison) if sample.count > 1 else []
    if sample.units < SMALL:
        few = console.counted(sample.units, sample.unit, UNITS[sample.unit])
        notes.append(f"{few} in the test set, fewer than {SMALL}: the intervals may be too narrow")
    for attribute, part in comparison.groups.items():
        unknown = unknown_note(attribute, part.unknown, sample.test_images)
        small = [
            f"{attribute} {value} is a small group: {why}; its score is unreliable" for value, why in part.small.items()
        ]
        notes += [*([unknown] if unknown else []), *small]
    return notes


def _of_samples(comparison: Comparison) -> list[str]:
    """Notes on what tests over seeds, folds or splits cannot give."""
    count, over, notes = comparison.sample.count, comparison.sample.over, []
    if (floor := sign_floor(count)) >= SIGNIFICANT:
        notes.append(
            f"Wilcoxon's test over {count} {over} cannot give a p below {floor:g}, whatever the numbers "
            "(six are needed for 0.05); the t test assumes normally distributed differences instead"
        )
    if same := [name for name, row in _scores(comparison) + _gaps(comparison) if row.p_seeds is None]:
        text = f"{_listed(same)}: the difference is the same in every {over[:-1]}"
        notes.append(f"{text}, so there is no test over {over}")
    return notes


def table_against(rows: Sequence[Against], score: str, reference: str) -> Table:
    """The reference first, then the others with their tests; score: such as "clean accuracy"."""
    over = verdict.sampled(rows)
    ps = [f"p over {what}" for what in ("patients", over)]
    heads: Heads = ["method", Column(score, "%"), "difference", "95 % interval", *ps, "verdict"]
    lines = [[row.name, row.mean, *_against(row, rows[0].mean)] for row in rows]
    legend = SCORE.format(over=over, reference=reference) + verdict.legend(rows, verdict.enough(len(rows) - 1))
    return Table.of(f"Against {reference}: {score}", heads, lines, legend)


def _against(row: Against, reference: float | None) -> list[str]:
    if row.difference is None:
        return ["-", "-", "-", "-", "reference" if row.is_reference else f"not tested: {row.note}"]
    difference = row.difference
    if row.mean is not None and reference is not None and abs(row.mean - reference - difference) < 1e-9:
        difference = (round(100 * row.mean, 2) - round(100 * reference, 2)) / 100  # of the means as they are shown
    return _tested(row, difference)


def sentence_against(rows: Iterable[Against], reference: str) -> str:
    """A sentence on the rows, those alike together, without a full stop; "" where none could be tested."""
    return "; ".join(
        f"{AGAINST_SAYS[kind].format(a=reference)}{f' ({why})' if why else ''}: {', '.join(alike)}"
        for kind, why, alike in _alike((row.name, row) for row in rows)
    )


def tests_against(tests: Sequence[tuple[str, str, Sequence[Against]]]) -> tuple[list[str], list[Table]]:
    """Sentences on the tests of several scores, and a table for each; a legend stands below the last.

    tests: the score in words, the name of the reference, and the systems against it.
    """
    tables = [table_against(rows, score, reference) for score, reference, rows in tests]
    said = {score: sentence_against(rows, reference) for score, reference, rows in tests}
    sentences = [f"{score}: {sentence}." for score, sentence in said.items() if sentence]
    if any(row.verdict == INCONCLUSIVE for *_, rows in tests for row in rows):
        sentences.append(verdict.NOT_EQUAL)
    return sentences, [*(replace(table, legend="") for table in tables[:-1]), *tables[-1:]]
