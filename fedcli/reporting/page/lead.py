"""The first screen of a page: where its images come from, the comparison in one sentence, the numbers that a reader
looks for first, the question, its answer in sentences with sizes and intervals, one figure, and how certain that is."""

from collections.abc import Iterator, Sequence

import numpy as np

from ... import console
from ...comparison.cautions import small_decides, small_groups
from ...comparison.tested import order
from ...comparison.verdict import INCONCLUSIVE, RESAMPLES, Against
from ...errors import FedcliError, UsageError, nearest
from ...figures import inline
from ...figures.kinds import FIGURES
from ...metrics import RESAMPLED, title
from ...printed import fixed
from ...scores.numbers import versions
from ...scores.parts import AVERAGE, MODELS, VERSIONS
from ...scores.scores import Scores
from ...scores.statistics.bootstrap import LEVEL
from ...scores.table import Where
from ...scores.views import GAP, worst_of
from ..comparison import said_against, spoken, tests_against
from ..evidence import card_of
from ..head import chance
from ..row import Row
from ..table import Column, Heads, Section, Table

MADE_UP = "Generated images: a made-up sample in the layout of {}. Its numbers say nothing about patients."
MOST_LISTED = 7  # classes or clients
MOST_NAMED = 4  # systems whose numbers stand in a sentence


def heading(compared: Sequence[Row]) -> str:
    """The methods and their data."""
    labels = list(dict.fromkeys(row.label for row in compared))
    datasets = list(dict.fromkeys(row.scores.dataset for row in compared))
    return f"{console.listed(labels) if len(labels) < 6 else f'{len(labels)} methods'} on {', '.join(datasets)}"


def generated(compared: Sequence[Row]) -> str:
    """A sentence that says so where images are generated, as their samples and cards declare; "" of real ones."""
    said = [
        MADE_UP.format(row.scores.dataset)
        if row.scores.sample
        else card_of(row.scores).get("generated", "")
        for row in compared
    ]
    return " ".join(filter(None, dict.fromkeys(said)))


def sentence(compared: Sequence[Row]) -> str:
    """The comparison in one sentence."""
    several = len(compared) > 1
    what = f"{len(compared)} systems" if several else compared[0].label
    datasets = list(dict.fromkeys(described(row.scores) for row in compared))
    seeds = {row.runs for row in compared}
    repeated = (
        f" with {console.counted(max(seeds), 'seed', 'seeds')}{' each' * several}"
        if len(seeds) == 1
        else ""
    )
    clients = _span("client", [row.scores.roster_size for row in compared])
    rounds = _span("round", [row.scores.rounds for row in compared])
    data = f"{'; '.join(datasets)}. {console.capital(what)}"
    return f"{data} trained by {clients} for {rounds}{repeated}, {_corrupted(compared)}."


def described(scores: Scores) -> str:
    """The images in words; of a card of any images, which has no classes, without what it says of their files."""
    card = card_of(scores)
    title = card.get("title", scores.dataset)
    return title if card.get("classes") else title.partition(":")[0]


def facts(compared: Sequence[Row]) -> list[tuple[str, str]]:
    """The numbers a reader looks for first; of data and model those that all systems share."""
    each = []
    for row in compared:
        scores = row.scores
        drawn = [
            score for score in scores.versions["clean"].values() if score.unit.startswith("patient")
        ]
        name, trained = scores.model.get("name"), scores.model.get("trainable")
        each.append(
            {
                "Test images": f"{scores.images:,}"
                + (f" of {drawn[0].units:,} patients or lesions" if drawn else ""),
                "Classes": _named(scores.classes),
                "Chance": chance(row.each).partition(": ")[2].rstrip("."),
                "Clients": _named(list(scores.clients)) or str(scores.roster_size),
                "Model": f"{name}{f', {trained:,} trained parameters' if trained else ''}"
                if name
                else "",
            }
        )
    values_of = {name: {about[name] for about in each} for name in each[0]}
    return [
        (name, values.pop())
        for name, values in values_of.items()
        if len(values) == 1 and "" not in values
    ]


def _named(names: Sequence[str]) -> str:
    return (
        f"{len(names)}: {', '.join(names)}"
        if 0 < len(names) <= MOST_LISTED
        else f"{len(names) or ''}"
    )


def _span(noun: str, numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low if low == high else f'{low} to {high}'} {noun}{'s' * (high != 1)}"


def _corrupted(compared: Sequence[Row]) -> str:
    kinds = [row.scores.corruption for row in compared]
    about = kinds[0]
    if not any(kinds):
        return _augmented(compared)
    if about is None or any(kind != about for kind in kinds):
        return "on data that are not the same for all (see the notes)"
    who = console.counted(len(about["clients"]), "client", "clients")
    named = f" ({', '.join(about['clients'])})" if 0 < len(about["clients"]) < 4 else ""
    kind = about["kind"].replace("-", " ")
    return (
        f"with {kind} of severity {about['severity']} on {who}{named} and on a copy of the test set"
    )


def _augmented(compared: Sequence[Row]) -> str:
    """The training images without a corruption: as they are, or with the augmentation that the options name."""
    kinds = [row.scores.options.get("augment") or "none" for row in compared]
    if all(kind == "none" for kind in kinds):
        return "on images as they are"
    alike = all(kind == kinds[0] for kind in kinds)
    named = f", augmented by {kinds[0]}" if alike and isinstance(kinds[0], str) else ", augmented"
    return f"on images without corruption{named}"


def section(
    compared: Sequence[Row], findings: Sequence[str], notes: Sequence[str], *, asked: bool
) -> Section:
    """findings: of tests between systems. asked: whether they are those that a page was given, under their own head."""
    alone = _alone(compared[0]) if len(compared) == 1 and not asked else ()
    said = [*findings, *alone, *(() if asked else _groups(compared))]
    try:
        panels = [inline.of_picture(FIGURES["forest"].picture(compared))]
    except FedcliError:  # no score that it shows
        panels = []
    return Section(
        "answer",
        "What these runs show" if asked else question(compared),
        panels=panels,
        findings=said,
        notes=notes,
    )


def question(compared: Sequence[Row]) -> str:
    """The question that a reader has of these systems."""
    attributes = list(dict.fromkeys(name for row in compared for name in row.attributes))
    groups = f" for every group by {console.listed(attributes)}" if attributes else ""
    if len(compared) == 1:
        return f"How good is {compared[0].label}" + (
            f", and is it as good{groups}?" if groups else "?"
        )
    others = [row.label for row in compared[1:]]
    named = (
        console.listed(list(dict.fromkeys(others)), "or")
        if len(others) < MOST_NAMED
        else "any of the others"
    )
    return f"Is {named} better than {compared[0].label}" + (f", and{groups}?" if groups else "?")


def _alone(row: Row) -> Iterator[str]:
    words = versions(row.each)
    for metric in row.scores.usual[::-1]:
        parts = []
        for version in MODELS:
            where = Where(version, metric=metric)
            value, (low, high) = row.percent(where), row.bounds(where)
            interval = f"{fixed(low, 1)} to {fixed(high, 1)}"
            bounds = f" (95 % interval {interval})" if np.isfinite(low) else ""
            parts += (
                [f"{fixed(value, 1)} %{bounds} on {words.get(version, version)} images"]
                if np.isfinite(value)
                else []
            )
        if parts:
            yield f"{row.name} scores {' and '.join(parts)} in {title(metric)}."


def _groups(compared: Sequence[Row]) -> Iterator[str]:
    """For each attribute the groups that fare worst, and the gap, on clean images."""
    area = compared[0].scores.usual[1]
    for attribute in compared[0].scores.groups:
        known = [
            (row, worst)
            for row in compared
            if attribute in row.scores.groups and (worst := _worst(row, attribute))
        ]
        if not known:
            continue
        gaps = [
            row.percent(Where("clean", attribute=attribute, metric=area, measure=GAP))
            for row, _ in known
        ]
        names = list(dict.fromkeys(group for _, (group, _) in known))
        small = " (not a reliable score)" * all(
            group in small_groups(known[0][0].scores, attribute) for group in names
        )
        if len(known) > MOST_NAMED:
            lows = [value for _, (_, value) in known]
            numbers = f"{min(lows):.1f} to {max(lows):.1f} %, up to {max(gaps):.1f} points below the best group"
        else:
            numbers = ", ".join(
                f"{value:.1f} %{f' ({row.label})' * (len(known) > 1)}" for row, (_, value) in known
            )
            distances = console.listed([f"{gap:.1f}" for gap in gaps])
            numbers += f"; the gap to the best group is {distances} points"
        lowest = f"{console.listed(names, 'or')}{small} has the lowest"
        if not any(gap > 0 for gap in gaps):
            lowest = "no group scores lower than another in"
            small = ""
        if not small and _is_doubtful_gap([row for row, _ in known], attribute):
            numbers += " (not a reliable gap)"
        among = " among the groups that have one" if _lacks_a_score(known[0][0], attribute) else ""
        yield f"By {attribute}, {lowest} {spoken(area)} on clean images{among}: {numbers}."


def _is_doubtful_gap(rows: Sequence[Row], attribute: str) -> bool:
    """Tell whether a small group decides the gap of one of the rows."""
    area = rows[0].scores.usual[1]
    return any(GAP in small_decides(row.each, attribute, "clean", area, row.at) for row in rows)


def _lacks_a_score(row: Row, attribute: str) -> bool:
    """Tell whether a group with test images has no score."""
    column = row.scores.groups[attribute]["clean"].get(row.scores.usual[1], {})
    return any(score.count and score.last is None for score in column.values())


def _worst(row: Row, attribute: str) -> tuple[str, float] | None:
    metric = row.scores.usual[1]
    values = {
        group: row.percent(Where("clean", attribute=attribute, group=group, metric=metric))
        for group in row.scores.members(attribute)
    }
    if any(score.hidden for score in row.scores.members(attribute).values()):
        return None
    group = worst_of(values, metric)
    return (group, values[group]) if np.isfinite([*values.values()]).sum() > 1 else None


def tests(
    compared: Sequence[Row], metrics: Sequence[str], reference: str
) -> tuple[list[str], list[Table], list[str]]:
    """All systems against one, on the average of clean and corrupted images where there are both: what it says in
    sentences, a table per metric, and what to beware of.

    reference: a name, label or method; default: the first. Raises UsageError for an unknown one.
    """
    if len(compared) < 2:
        return [], [], []
    names = {
        text: row.name
        for row in reversed(compared)
        for text in (row.scores.method, row.scores.label, row.name)
    }
    if reference and reference not in names:
        raise UsageError(f"no row of the report is named {reference!r}", nearest(reference, names))
    base = names[reference] if reference else compared[0].name
    systems = {row.name: row.scored for row in compared}
    version = AVERAGE if all("corrupted" in row.scores.versions for row in compared) else "clean"
    words_of = versions(run for row in compared for run in row.each)
    on = f"clean and {words_of['corrupted']} images" if version == AVERAGE else "clean images"
    tested: list[tuple[str, str, list[Against]]] = []
    said, warnings = [], []
    for metric in (metric for metric in reversed(metrics) if metric in RESAMPLED):
        words = title(metric)
        console.say(f"testing {words} against {base}")
        against = order(systems, base, metric, version)
        shown = [
            row for row in against if not tested or row.verdict != INCONCLUSIVE
        ]  # else in the tables alone
        said += said_against(shown, base, f"{spoken(metric)} on {on}", intervals=True)
        tested.append((f"{words}, {on}", base, against))
        warnings += [f"{row.name}: {row.warning}" for row in against if row.warning]
    return said, tests_against(tested)[1], warnings


def intervals(compared: Sequence[Row], metrics: Sequence[str]) -> list[Table]:
    """The scores of the report's tables with their intervals over patients; none where there are no intervals."""
    every = {(v, m): [_interval(row, v, m) for row in compared] for m in metrics for v in VERSIONS}
    shown = {name: column for name, column in every.items() if any(column)}
    if not shown:
        return []
    known = (
        (row, name) for k, row in enumerate(compared) for name, column in shown.items() if column[k]
    )
    some, (version, metric) = next(known)
    first = some.scores.versions[version][metric]
    unit, units = (
        ("patient", "patients or lesions")
        if first.unit.startswith("patient")
        else ("image", "images")
    )
    level = f"{100 * LEVEL:g} %"
    kind = "BCa " if first.is_bca else ""
    legend = (
        f"In percent: the scores of the tables, each with its {level} {kind}interval over {RESAMPLES:,} bootstrap "
        f"resamples of the {first.units:,} {units} of the test set. It shows how much a score depends on the test "
        "patients, not on training again. Two methods whose intervals overlap may still differ: see the tests below."
    )
    words = versions(run for row in compared for run in row.each)
    heads: Heads = [
        "method",
        *(Column(words.get(of, of), "%", title(metric)) for of, metric in shown),
    ]
    lines = [[row.name, *texts] for row, *texts in zip(compared, *shown.values(), strict=True)]
    return [Table.of(f"Scores with {level} intervals by {unit}", heads, lines, legend)]


def _interval(row: Row, version: str, metric: str) -> str | None:
    value, ends = (
        row.percent(Where(version, metric=metric)),
        row.bounds(Where(version, metric=metric)),
    )
    if not np.isfinite([value, *ends]).all():
        return None
    low, high = ends
    return f"{fixed(value, 1)} ({fixed(low, 1)} – {fixed(high, 1)})"
