"""Tests of systems in tables and sentences: one system against another, and several against a
reference.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from string import ascii_lowercase
from typing import Any

from .. import console, printed
from ..comparison import verdict
from ..comparison.difference import GroupTests
from ..comparison.ranks import Ranks, by_method, datasets_of, friedman
from ..comparison.systems import shared_parts
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
from ..scores import views
from ..scores.groups import SMALL, unknown_note
from ..scores.numbers import is_lower
from ..scores.parts import AVERAGE, MODELS
from ..scores.statistics.bootstrap import BCA
from ..scores.table import Number, Where
from .rows import Rows, systems_of
from .table import NONE, Cell, Column, ReportTable, heads

OF_METHOD = "method", "rule", "method settings"  # in which systems of two methods may differ
SAME = 1e-9  # below which two differences of means are one
MOST_NAMED = 12  # systems with sentences of their own
SHORT = 30  # characters of settings that fit behind a name
ABOUT = (
    "Mean of the last five rounds (all of a shorter run), in %; change: {b} minus {a}. 95 % "
    "interval{bca} and p {units}: {resamples:,} resamples of the {count} {units}, with the "
    "trained models held fixed."
)
SEEDS = "p seeds: paired t test."
SPLITS = "p {over}: corrected resampled t test (Nadeau and Bengio 2003)."
OF_GAPS = "Resampling widens gaps, so the interval need not contain the change."
UNRELIABLE_GAPS = (
    "†: decided by a group with too few images, or without one of the classes, so not reliable."
)
SIDES = "a", "b"
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
    "In %: mean of the last five rounds (all of a shorter run) and over {over}; "
    "difference: from {reference}. "
)
CERTAIN = (
    "In brackets: 95 % intervals over test {patients}. Significant: p < 0.05 over these, adjusted "
    "over the rows (Holm)"
)
Remark = tuple[str, str]  # a verdict and its reason
Change = tuple[str, Difference, Number]  # the images in words, a test, the difference as printed
UNSURE = {False: ("no significant difference", "from"), True: ("not tested", "against")}


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
    unreliable = _unreliable_gaps(comparison)
    has_seeds = sample.count > 1
    lines = []
    for name, row in _rows(comparison):
        means = []
        for side in SIDES:
            mean = getattr(row, side).mean
            text = NONE if mean is None else percents(mean)
            means.append(Cell(text, doubtful=(name, side) in unreliable))
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
    differ = "differ only" if len(parts) == 1 else "differ"
    return f"{sides['b']} against {sides['a']}, {runs}; they {differ} in {console.listed(parts)}."


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
                gaps.append((_gap_name(attribute, row), _of_printed(row, part.each)))
    return gaps


def _gap_name(attribute: str, gap: ComparedScore) -> str:
    return f"gap by {attribute}, {spoken(gap.metric)}"


def _unreliable_gaps(comparison: Comparison) -> set[tuple[str, str]]:
    """The names and sides of the gaps on clean images whose worst or best group is too small."""
    unreliable = set()
    for attribute, part in comparison.groups.items():
        for gap in part.gaps:
            if gap.version != "clean":
                continue
            for side in sides_of_small_groups(gap, part):
                unreliable.add((_gap_name(attribute, gap), side))
    return unreliable


def sides_of_small_groups(gap: ComparedScore, part: GroupTests) -> list[str]:
    """The systems whose worst or best group is too small, so that it decides their gap."""
    scores = _scores_of_groups(gap, part.each)
    sides = []
    for side in SIDES:
        means = {row.group: getattr(row, side).mean for row in scores}
        ends = views.worst_and_best(means, low=False)
        if ends and any(group in part.small for group, _ in ends):
            sides.append(side)
    return sides


def _scores_of_groups(
    gap: ComparedScore,
    of_groups: Sequence[ComparedScore],
) -> list[ComparedScore]:
    """The groups' scores that a gap is the distance of."""
    return [row for row in of_groups if (row.version, row.metric) == (gap.version, gap.metric)]


def _of_printed(gap: ComparedScore, of_groups: Sequence[ComparedScore]) -> ComparedScore:
    """A gap as reports print it: the distance of the groups' scores as they are printed."""
    if gap.a.mean is None or gap.b.mean is None:
        return gap
    scores = _scores_of_groups(gap, of_groups)
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
    """A sentence for each metric and gap that differs significantly, then one on all others."""
    sides = names(comparison)
    changes = Changes()
    rows = [(spoken(row.metric), row) for row in comparison.rows if row.version in MODELS]
    rows += [(name.replace(", ", " in "), row) for name, row in _gaps(comparison)]
    for metric, row in rows:
        images = comparison.versions.get(row.version, row.version)
        points = _as_printed(row, row.b.mean, row.a.mean, 1)
        changes.add(sides["b"], metric, (images, row, points))
    return changes.sentences(sides["a"])


def answers(
    tests: Mapping[Where, Sequence[Against]],
    versions: Mapping[str, str],
    digits: int = 1,
) -> list[str]:
    """Sentences on each system against the reference: a metric on every version of the images.

    tests: of each score the rows of all systems, the reference first. versions: words for versions
    of the test images. digits: of the scores in the table below.
    """
    changes = Changes()
    rows: Sequence[Against] = ()
    for where, rows in tests.items():
        images = versions.get(where.version, where.version)
        if where.version == AVERAGE:
            images = f"clean and {versions[MODELS[1]]}"
        changes.add_all(rows, spoken(where.metric), images, digits)
    return changes.sentences(rows[0].name, digits) if rows else []


class Changes:
    """Tests of systems against one reference, in sentences.

    by_system: of each system and metric, in words, the tests on some images: the images in words,
    the test, and the difference as it is printed.
    """

    def __init__(self) -> None:
        self.by_system: dict[str, dict[str, list[Change]]] = {}
        self.rows: list[Difference] = []

    def add(self, system: str, metric: str, change: Change) -> None:
        """Add a test, unless none could be made."""
        if change[1].verdict is not None:
            self.by_system.setdefault(system, {}).setdefault(metric, []).append(change)
            self.rows.append(change[1])

    def add_all(self, rows: Sequence[Against], metric: str, images: str, digits: int) -> None:
        """Add the tests of all systems in one score."""
        mean = next((row.mean for row in rows if row.is_reference), None)
        for row in rows:
            points = _as_printed(row, row.mean, mean, digits)
            self.add(row.name, metric, (images, row, points))

    def sentences(self, reference: str, digits: int = 1) -> list[str]:
        """A sentence for each system and metric in which some images show a difference; the others
        are together, for all systems without one in the same metrics. The last says how certain
        they are. With more than MOST_NAMED systems, there is a sentence for each score instead.
        """
        if len(self.by_system) > MOST_NAMED:
            return [*self._by_score(reference, digits), verdict.NOT_EQUAL, self._certainty()]
        texts = []
        scores_by_name: dict[tuple[str, str], list[str]] = {}  # by system and images
        for name, by_metric in self.by_system.items():
            for metric, changes in by_metric.items():
                if all(_is_inconclusive(row) for _, row, _ in changes):
                    images = console.listed([images for images, _, _ in changes], "or")
                    scores_by_name.setdefault((name, images), []).append(metric)
                else:
                    texts.append(f"{name}: {metric} {_sizes(changes, metric, reference, digits)}.")
        names_by_score: dict[str, list[str]] = {}
        for (name, images), metrics in scores_by_name.items():
            score = console.listed(metrics, "or") + _on(images, "images")
            names_by_score.setdefault(score, []).append(name)
        for score, systems in names_by_score.items():
            difference = f"no significant difference from {reference} in {score}"
            texts.append(f"{console.listed(systems)}: {difference}.")
        if names_by_score:
            texts.append(verdict.NOT_EQUAL)
        return [*texts, self._certainty()] if texts else []

    def _by_score(self, reference: str, digits: int) -> Iterator[str]:
        """A sentence for each metric on each version of the images: the systems above and below the
        reference, and the number of the others.
        """
        tests_by_score: dict[str, dict[str, Change]] = {}
        for name, by_metric in self.by_system.items():
            for metric, changes in by_metric.items():
                for change in changes:
                    score = metric + _on(change[0], "images")
                    tests_by_score.setdefault(score, {})[name] = change
        for score, tests in tests_by_score.items():
            parts = []
            for verb in _verbs(score):
                sizes = _sizes_by_system(tests, score, verb, digits)
                if sizes:
                    parts.append(f"{verb}: {console.listed(sizes)}")
            without = [row for _, row, _ in tests.values() if row.verdict == INCONCLUSIVE]
            for is_untested, (words, _) in UNSURE.items():
                count = [verdict.is_untested(row) for row in without].count(is_untested)
                if count:
                    parts.append(f"{words}: {count} of {len(tests)}")
            heading = f"{console.capital(score)}, in points against {reference}"
            yield f"{heading}. {console.capital('; '.join(parts))}."

    def _certainty(self) -> str:
        """A sentence on the brackets, and on what a significant difference holds for."""
        largest = max(self.rows, key=lambda row: row.samples or 0)
        text = CERTAIN.format(patients=units.plural(largest.unit or units.PATIENT))
        samples = min(row.samples or 0 for row in self.rows)
        if samples >= verdict.ENOUGH:
            return f"{text}, and over {largest.over}."
        trainings = console.counted(samples, "training", "trainings")
        return f"{text}. With {trainings} of each, other trainings may differ."


def _verbs(score: str) -> tuple[str, str]:
    """The words for a score above and below another."""
    return ("larger", "smaller") if score.startswith("gap by ") else (HIGHER, LOWER)


def _sizes_by_system(tests: Mapping[str, Change], score: str, verb: str, digits: int) -> list[str]:
    """Each system with a significant difference in the direction of a verb: its name, the size and
    the interval.
    """
    sizes = []
    for name, (_, row, difference) in tests.items():
        is_lower = _is_lower(row)
        if row.verdict != INCONCLUSIVE and verb == _verbs(score)[is_lower]:
            size = _size(difference, digits)
            sizes.append(f"{name} {size} ({_in_brackets(row, lower=is_lower)})")
    return sizes


def _is_lower(row: Difference) -> bool:
    return (row.difference or 0.0) < 0


def _size(difference: Number, digits: int) -> str:
    """A difference without its sign, in points; "less than 0.1" where 0.0 would be printed."""
    size = percents(abs(difference or 0.0), digits)
    return size if float(size) else f"less than {0.1**digits:.{digits}f}"


def _is_inconclusive(row: Difference) -> bool:
    return row.verdict == INCONCLUSIVE and not verdict.is_untested(row)


def _on(images: str, noun: str) -> str:
    return f" on {images} {noun}" if images else ""


def _sizes(changes: Sequence[Change], metric: str, reference: str, digits: int) -> str:
    """Differences of a metric, the significant ones first, with their intervals."""
    higher, lower = _verbs(metric)
    parts: list[str] = []
    for images, row, difference in sorted(changes, key=lambda change: _rank(change[1])):
        is_lower = _is_lower(row)
        unit = "" if parts else " points"
        size = f"{_size(difference, digits)}{unit} {lower if is_lower else higher}"
        link = "than"
        if row.verdict == INCONCLUSIVE:
            size, link = UNSURE[verdict.is_untested(row)]
        to = "" if parts else f" {link} {reference}"
        on = _on(images, "ones" if parts else "images")
        parts.append(f"{size}{to}{on} ({_in_brackets(row, lower=is_lower)})")
    return ", ".join(parts)


def _rank(row: Difference) -> int:
    """The place of a difference in its sentence."""
    return (row.verdict == INCONCLUSIVE) + verdict.is_untested(row)


def _in_brackets(row: Difference, *, lower: bool) -> str:
    """The interval of a difference, of a significant one as its size, and its doubts."""
    if verdict.is_untested(row):
        return row.reason or ""
    if row.low is None or row.high is None:
        return verdict.interval_text(row, 1)
    if row.verdict == INCONCLUSIVE:
        text = verdict.interval_text(row, 1)
        excludes_zero = row.low * row.high > 0
        return f"{text}; {row.reason}" if excludes_zero and row.reason else text
    low, high = (-row.high, -row.low) if lower else (row.low, row.high)
    text = f"{percents(low)} to {percents(high)}"
    if row.verdict == MODELS_ONLY and (row.samples or 0) >= verdict.ENOUGH:
        text += f"; not over {row.over}"
    return text


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
    if _unreliable_gaps(comparison):
        texts.append(UNRELIABLE_GAPS)
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
    points = (round(100 * mean, digits) - round(100 * reference, digits)) / 100
    low = points if row.low is None else round(row.low, digits + 2)
    high = points if row.high is None else round(row.high, digits + 2)
    # rounded scores may differ by more than the interval of their difference allows
    return points if low <= points <= high else row.difference


def tests_against(
    tests: Sequence[tuple[str, str, Sequence[Against]]],
) -> tuple[list[str], list[ReportTable]]:
    """Sentences on the tests of several scores, and a table for each; a legend stands below the
    last.

    tests: the score, such as "clean accuracy", the name of the reference, and the systems against
    it.
    """
    tables: list[ReportTable] = []
    changes_by_reference: dict[str, Changes] = {}
    for name, reference, rows in tests:
        score = in_words(name)
        tables = [replace(table, legend="") for table in tables]
        tables.append(table_against(rows, score, reference))
        changes = changes_by_reference.setdefault(reference, Changes())
        changes.add_all(rows, score, "", 1)
    texts = []
    for reference, changes in changes_by_reference.items():
        texts += changes.sentences(reference)
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
    if len(set(datasets_of([row.scores for row in systems]))) < 2:
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
