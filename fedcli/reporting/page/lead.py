"""The first screen of a page: where its images come from, the comparison in one sentence, the
numbers that a reader looks for first, the question, its answer in sentences with sizes and
intervals, one figure, and how certain that is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from ... import console
from ...comparison.cautions import small_decides, small_groups
from ...comparison.ranks import datasets_of
from ...comparison.verdict import RESAMPLES, Against
from ...data import units
from ...data.corruption.mixture import spoken as corruption_in_words
from ...errors import FedcliError
from ...figures import inline
from ...figures.kinds import FIGURES
from ...metrics import title
from ...printed import fixed
from ...scores.groups import SCORED_IMAGE
from ...scores.numbers import versions
from ...scores.parts import MODELS, VERSIONS
from ...scores.scores import RunScores
from ...scores.statistics.bootstrap import LEVEL
from ...scores.table import Score, Where
from ...scores.views import GAP, is_tied, worst_of
from ..columns import shown
from ..comparison import spoken, tests_against
from ..dataset_card import card_of
from ..head import attack_in_words, chance
from ..rows import Rows, SystemRow, differ, gap_in_points, scores_of, unique
from ..table import Column, Heads, ReportTable, Section

MADE_UP = (
    "Generated images: a made-up sample in the layout of {}. Its numbers say nothing about "
    "patients."
)
PANEL = 6.4  # inches: as wide as a panel of the first screen is beside its height
MOST_LISTED = 7  # classes or clients
MOST_NAMED = 4  # systems whose numbers stand in a sentence


INTERVALS = (
    "In percent: the scores of the tables, each with its {level} {kind}interval over "
    "{resamples:,} bootstrap resamples of the {drawn}. It shows how much a score depends on these "
    "{units}, not on training again. Two methods whose intervals overlap may still differ: see the "
    "tests below."
)


def heading(compared: Rows) -> str:
    """The methods and their data."""
    labels = list(dict.fromkeys(row.label for row in compared))
    methods = console.listed(labels) if len(labels) < 6 else f"{len(labels)} methods"
    datasets = unique(datasets_of([row.scores for row in compared]))
    return f"{methods} on {', '.join(datasets)}"


def generated(compared: Rows) -> str:
    """A sentence that says so where images are generated, as their samples and cards declare; "" of
    real ones.
    """
    sentences = []
    for row in compared:
        sentence = card_of(row.scores).get("generated", "")
        if row.scores.sample:
            sentence = MADE_UP.format(row.scores.dataset)
        sentences.append(sentence)
    return " ".join(filter(None, dict.fromkeys(sentences)))


def sentence(compared: Rows) -> str:
    """The comparison in one sentence."""
    datasets = dict.fromkeys(described(row.scores) for row in compared)
    systems = compared[0].label if len(compared) == 1 else f"{len(compared)} methods"
    clients = _span("client", [row.scores.roster_size for row in compared])
    rounds = _span("round", [row.scores.rounds for row in compared])
    runs = [(row.runs, row.drawn) for row in compared]
    repeated = ""
    if not differ(runs):
        count, nouns = runs[0]
        repeated = f" with {console.counted(count, nouns.removesuffix('s'), nouns)}"
        if len(compared) > 1:
            repeated += " each"
    begin = f"{'; '.join(datasets)}. {console.capital(systems)}"
    return f"{begin} trained by {clients} for {rounds}{repeated}, {_corrupted(compared)}."


def described(scores: RunScores) -> str:
    """The images in words; of a card of any images, which has no classes, without what it says of
    their files.
    """
    card = card_of(scores)
    title = card.get("title", scores.dataset)
    return title if card.get("classes") else title.partition(":")[0]


def facts(compared: Rows) -> list[tuple[str, str]]:
    """The numbers a reader looks for first; of data and model those that all systems share."""
    facts = _facts(compared[0])
    for row in compared[1:]:
        other = _facts(row)
        facts = {name: value for name, value in facts.items() if other[name] == value}
    return [(name, value) for name, value in facts.items() if value]


def _facts(row: SystemRow) -> dict[str, str]:
    scores = row.scores
    images = unique(map(_test_images, row.each))
    model = scores.model.get("name") or ""
    trained = scores.model.get("trainable")
    if model and trained:
        model += f", {trained:,} trained parameters"
    return {
        "Test images": images[0] if len(images) == 1 else "",
        "Classes": _named(scores.classes),
        "Chance": chance(row.each).partition(": ")[2].rstrip("."),
        "Clients": _named(list(scores.clients)) or str(scores.roster_size),
        "Model": model,
    }


def _test_images(scores: RunScores) -> str:
    """The number of test images, and of their patients where these are known."""
    if scores.unscored:
        return scores.unscored.sentence
    images = f"{scores.images:,}"
    patients = [score for score in scores.versions["clean"].values() if _is_by_patient(score)]
    if patients:
        images += f" of {patients[0].units:,} {units.plural(scores.noun)}"
    return images


def _is_by_patient(score: Score) -> bool:
    """Tell whether the interval of a score is over patients rather than images."""
    return score.unit.startswith("patient")


def _named(names: Sequence[str]) -> str:
    """The number of names, and if they are few the names; "" of none."""
    if not names:
        return ""
    return f"{len(names)}: {', '.join(names)}" if len(names) <= MOST_LISTED else str(len(names))


def _span(noun: str, numbers: list[int]) -> str:
    low = min(numbers)
    counted = console.counted(max(numbers), noun, f"{noun}s")
    return counted if low == max(numbers) else f"{low} to {counted}"


def _corrupted(compared: Rows) -> str:
    """The corruption or augmentation of the training images, and an attack on training."""
    corruptions = [row.scores.corruption or {} for row in compared]
    attacks = [attack_in_words(row) for row in compared]
    if differ(corruptions) or differ(attacks):
        return "on data that are not the same for all (see the notes)"
    corruption = corruptions[0]
    attack = f"with an {attacks[0]}" if attacks[0] else ""
    if not corruption:
        images = _augmented(compared, attacked=bool(attack))
        return ", ".join(filter(None, [images, attack]))
    names = corruption["clients"]
    clients = console.counted(len(names), "client", "clients")
    if 0 < len(names) < 4:
        clients += f" ({', '.join(names)})"
    kind = corruption_in_words(corruption)
    images = f"with {kind} on {clients} and on a copy of the test set"
    return ", ".join(filter(None, [images, attack]))


def _augmented(compared: Rows, *, attacked: bool) -> str:
    """The training images without a corruption: as they are, or with the augmentation that the
    options name. attacked: whether a client attacks, which may change its images.
    """
    kinds = [row.scores.options.get("augment") or "none" for row in compared]
    if all(kind == "none" for kind in kinds):
        return "" if attacked else "on images as they are"
    augmented = "on images augmented" if attacked else "on images without corruption, augmented"
    if "none" in kinds:
        augmented += " for some of the methods"
    elif isinstance(kinds[0], str) and not differ(kinds):
        augmented += f" by {kinds[0]}"
    return augmented


def section(
    compared: Rows,
    findings: Sequence[str],
    notes: Sequence[str],
    *,
    answered: bool,
) -> Section:
    """The question and its answer. findings: of tests between systems; answered: whether a page was
    given them, so that they come alone, under a head of their own.
    """
    sentences = list(findings)
    if not answered and len(compared) == 1:
        sentences += _scores_of(compared[0])
    if not answered:
        sentences += _groups(compared)
    try:
        picture = FIGURES["forest"].picture(compared)
        panels = [inline.of_picture(replace(picture, size=(PANEL, picture.size[1])))]
    except FedcliError:  # no score that it shows
        panels = []
    title = "What these runs show" if answered else question(compared)
    return Section(
        "answer",
        title,
        panels=panels,
        findings=sentences,
        notes=notes,
    )


def question(compared: Rows) -> str:
    """The question that a reader has of these systems."""
    attributes = list(dict.fromkeys(chain.from_iterable(row.attributes for row in compared)))
    label = compared[0].label
    others = list(dict.fromkeys(row.label for row in compared[1:]))
    text = f"How good is {label}"
    groups = ", and is it as good"
    if len(compared) > 1:
        systems = console.listed(others, "or")
        if len(compared) > MOST_NAMED:
            systems = "any of the others"
        text = f"Is {systems} better than {label}"
        groups = ", and"
    if attributes:
        text += f"{groups} for every group by {console.listed(attributes)}"
    return f"{text}?"


def _scores_of(row: SystemRow) -> Iterator[str]:
    """A sentence on the test images that sites hide, and on each usual metric of a single system on
    the versions of the test images.
    """
    words = versions(row.each)
    if row.scores.unscored:
        yield f"{console.capital(row.scores.unscored.sentence)}."
    for metric in dict.fromkeys([*row.scores.usual[::-1], *shown(row.scores)]):
        parts = []
        for version in MODELS:
            where = Where(version, metric=metric)
            value = row.percent(where)
            low, high = row.bounds(where)
            bounds = ""
            if np.isfinite(low):
                bounds = f" (95 % interval {fixed(low, 1)} to {fixed(high, 1)})"
            if np.isfinite(value):
                images = f"{words.get(version, version)} images"
                parts.append(f"{fixed(value, 1)} %{bounds} on {images}")
        if parts:
            yield f"{row.name} scores {' and '.join(parts)} in {title(metric)}."


def _groups(compared: Rows) -> Iterator[str]:
    """For each attribute the groups that fare worst, and the gap, on clean images."""
    for attribute in compared[0].scores.groups:
        lowest = []
        for row in compared:
            worst = _worst(row, attribute) if attribute in row.scores.groups else None
            if worst:
                lowest.append((row, *worst))
        if lowest:
            yield _lowest_groups(attribute, compared[0].scores.usual[1], lowest)


def _lowest_groups(
    attribute: str,
    metric: str,
    lowest: list[tuple[SystemRow, list[str], float]],
) -> str:
    """The sentence on the groups of an attribute that fare worst. lowest: system, groups and their
    score in percent.
    """
    rows, groups, scores = zip(*lowest)
    where = Where("clean", attribute=attribute, metric=metric, measure=GAP)
    gaps = [gap_in_points(row, where) for row in rows]
    names = list(dict.fromkeys(chain(*groups)))
    unreliable = ""
    if all(_are_small(row, attribute, worst) for row, worst, _ in lowest):
        unreliable = " (not a reliable score)"
    if len(rows) > MOST_NAMED:
        numbers = (
            f"{min(scores):.1f} to {max(scores):.1f} %, up to {max(gaps):.1f} points below the "
            "best group"
        )
    else:
        labels = [row.label for row in rows]
        if len(set(labels)) < len(rows):
            labels = [row.name for row in rows]
        texts = [f"{score:.1f} % ({label})" for label, score in zip(labels, scores)]
        if len(rows) == 1:
            texts = [f"{scores[0]:.1f} %"]
        distances = console.listed([f"{gap:.1f}" for gap in gaps])
        numbers = f"{', '.join(texts)}; the gap to the best group is {distances} points"
    if not names or not any(gap > 0 for gap in gaps):
        lowest_groups = "no group scores lower than another in"
        unreliable = ""
    elif len(rows) == 1 and len(names) > 1:
        lowest_groups = f"{console.listed(names)}{unreliable} have the lowest"
    else:
        lowest_groups = f"{console.listed(names, 'or')}{unreliable} has the lowest"
    if not unreliable and _is_doubtful_gap(rows, attribute, metric):
        numbers += " (not a reliable gap)"
    some_lack = any(_lacks_a_score(row, where) for row in rows)
    among = " among the groups that have one" if some_lack else ""
    score = f"{spoken(metric)} on clean images{among}"
    return f"By {attribute}, {lowest_groups} {score}: {numbers}."


def _are_small(row: SystemRow, attribute: str, groups: Sequence[str]) -> bool:
    """Tell whether each of these groups has too few images in a test set of a system."""
    small: set[str] = set()
    for scores in row.each:
        small |= set(small_groups(scores, attribute))
    return set(groups) <= small


def _is_doubtful_gap(rows: Rows, attribute: str, metric: str) -> bool:
    """Tell whether a small group decides the gap of one of the rows."""
    return any(GAP in small_decides(row.each, attribute, "clean", metric, row.at) for row in rows)


def _lacks_a_score(row: SystemRow, where: Where) -> bool:
    """Tell whether a group with test images has no score. where: the attribute and the metric."""
    column = row.scores.groups[where.attribute]["clean"].get(where.metric, {})
    return any(score.count and score.last is None for score in column.values())


def _worst(row: SystemRow, attribute: str) -> tuple[list[str], float] | None:
    """The groups with the lowest score, [] where all have the same, and the score in percent; None
    where fewer than two groups have one.
    """
    metric = row.scores.usual[1]
    values = {}
    for group, score in row.scores.members(attribute).items():
        if score.hidden:
            return None
        where = Where("clean", attribute=attribute, group=group, metric=metric)
        values[group] = row.percent(where)
    if np.isfinite([*values.values()]).sum() < 2:
        return None
    groups = worst_of(values, metric)
    return [] if is_tied(values) else groups, values[groups[0]]


def tests(
    compared: Rows, tests: Mapping[Where, Sequence[Against]]
) -> tuple[list[ReportTable], list[str]]:
    """A table for each score that all systems were tested in, and what to beware of."""
    words = versions(scores_of(compared))
    warnings = []
    scores = []
    for where, rows in tests.items():
        score = f"{title(where.metric)}, {words.get(where.version, where.version)} images"
        scores.append((score, rows[0].name, rows))
        warnings += [f"{row.name}: {row.warning}" for row in rows if row.warning]
    return tests_against(scores)[1], list(dict.fromkeys(warnings))


def intervals(compared: Rows, metrics: Sequence[str]) -> list[ReportTable]:
    """The scores of the report's tables with their intervals over patients; none where there are no
    intervals.
    """
    columns = {}
    for metric in metrics:
        for version in VERSIONS:
            where = Where(version, metric=metric)
            column = [_interval(row, where) for row in compared]
            if any(column):
                columns[where] = column
    if not columns:
        return []
    words = versions(scores_of(compared))
    heads: Heads = ["method"]
    for where in columns:
        version = words.get(where.version, where.version)
        heads.append(Column(version, "%", title(where.metric)))
    lines = zip([row.name for row in compared], *columns.values())
    drawn: list[tuple[str, Score]] = []
    for k, row in enumerate(compared):
        wheres = [where for where, column in columns.items() if column[k]]
        if wheres:
            drawn += [_drawn(scores, wheres[0]) for scores in row.each]
    names = unique(name for name, _ in drawn)
    counts = [score.units for _, score in drawn]
    plural = console.listed([units.plural(name) for name in names], "or")
    sampled = f"{plural} of each test set"
    if len(names) == 1 and not differ(counts):
        sampled = f"{counts[0]:,} {plural} of the test set"
    level = f"{100 * LEVEL:g} %"
    legend = INTERVALS.format(
        level=level,
        kind="BCa " if all(score.is_bca for _, score in drawn) else "",
        resamples=RESAMPLES,
        drawn=sampled,
        units=plural,
    )
    unit = console.listed(names, "or")
    return [ReportTable.of(f"Scores with {level} intervals by {unit}", heads, lines, legend)]


def _drawn(scores: RunScores, where: Where) -> tuple[str, Score]:
    """The noun of what the intervals of a run draw, and a score that has one."""
    score = scores.versions[where.version][where.metric]
    if _is_by_patient(score):
        return scores.noun, score
    return SCORED_IMAGE if scores.unscored else units.IMAGE, score


def _interval(row: SystemRow, where: Where) -> str | None:
    value = row.percent(where)
    low, high = row.bounds(where)
    if not np.isfinite([value, low, high]).all():
        return None
    return f"{fixed(value, 1)} ({fixed(low, 1)} – {fixed(high, 1)})"
