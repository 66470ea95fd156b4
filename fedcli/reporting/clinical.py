"""Operating points, threshold transfer, calibration, decision curves and conformal sets as tables:
one of each class, which `evaluate --clinical` prints, and topics by name, whose columns and legends
are in topics.toml.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from .. import console
from ..comparison.cautions import small_clients, small_groups
from ..comparison.verdict import p_text
from ..data import units
from ..errors import UsageError
from ..metrics import title
from ..scores import numbers
from ..scores.clinical_shape import BEFORE_AFTER, CLIENT, POOLED, select
from ..scores.scores import RunScores
from .dataset_card import card_of
from .rows import Rows
from .table import DAGGER, NONE, Column, ReportTable, bounded, percent

SUBGROUPS = 10  # of lowest accuracy
UNSURE = (
    f" {DAGGER} marks a group that is too small, lacks a class or has few images of one, and a "
    "gap, whatever its p, that depends on such a group."
)
RULES = {
    "youden": "largest sensitivity + specificity",
    "cost": "a missed one costs {} false alarms",
}
WITH_INTERVAL = "sensitivity", "specificity"
PREDICTIVE = "ppv", "npv"
USUAL = "sensitivity=0.95"  # the rule of several that is shown
INTERVALS = (
    "In %, with 95 % Wilson intervals{}, of the last round's model; a slope of 1 is ideal, below 1 "
    "overconfident."
)
TOO_NARROW = " (too narrow, since they take a patient's images as independent)"
Facts = dict[str, Any]  # numbers of a line by name
Small = Mapping[str, Set[str]]  # attribute, or CLIENT -> groups that are too small
Lines = Iterator[tuple[Any, ...]]  # labels of each line, then its numbers


@dataclass(frozen=True)
class Topic:
    """A table: its word for --show, its title, the columns of labels, those of numbers by name, and
    its legend.
    """

    option: str
    title: str
    labels: Sequence[str]
    numbers: Mapping[str, Column]
    legend: str

    @property
    def columns(self) -> list[Column | str]:
        return [*self.labels, *self.numbers.values()]

    def table(self, name: str, lines: Lines) -> list[ReportTable]:
        """One table, or none where there is no line."""
        rows = []
        for *labels, facts in lines:
            cells = [rate(facts.get(key)) for key in self.numbers]
            rows.append([*labels, *cells])
        if not rows:
            return []
        table = ReportTable.of(
            f"{self.title}: {name}",
            self.columns,
            rows,
            self.legend,
        )
        if any(DAGGER in cell.plain for cell in chain.from_iterable(table.rows)):
            table = replace(table, legend=table.legend + UNSURE)
        return [table]


Topics = Sequence[Topic]


def intervals(scores: RunScores) -> str:
    """A sentence on the numbers of by_class(): what they are of, and how far their intervals hold
    where patients have several images.
    """
    score = scores.versions["clean"][scores.usual[0]]
    has_several = 0 < score.units < score.count
    caution = units.worded(TOO_NARROW, scores.noun) if has_several else ""
    return INTERVALS.format(caution)


def rate(value: Any) -> Any:
    """A share with its interval as a cell; whatever else as its column shows it."""
    if not isinstance(value, dict):
        return value
    if value["value"] is None:
        return None
    return bounded(value["value"], value["low"], value["high"])


def _read_topics() -> dict[str, Topic]:
    topics = {}
    text = Path(__file__).with_name("topics.toml").read_text(encoding="utf-8")
    for name, topic in tomllib.loads(text).items():
        columns = topic.pop("numbers").items()
        topics[name] = Topic(**topic, numbers={key: Column(**column) for key, column in columns})
    return topics


TOPICS = _read_topics()
BY_CLASS = TOPICS["class"]
HEADLINE = [TOPICS[name] for name in ("points", "calibration", "net benefit")]
EVERY = [topic for topic in TOPICS.values() if topic.option]
OPTIONS = list(dict.fromkeys(topic.option for topic in EVERY))
MORE = f"More: --show {', '.join(OPTIONS)}, or all."


def tables(runs: Iterable[tuple[str, RunScores]], topics: Topics = EVERY) -> Iterator[ReportTable]:
    """Tables of each run whose scores hold them. runs: name and scores of each run. topics: those
    that are shown.
    """
    for name, scores in runs:
        if scores.clinical:
            of_classes = _of_classes(name or scores.name, scores, topics)
            for table in chain(of_classes, _of_all(name or scores.name, scores, topics)):
                yield replace(table, legend=units.worded(table.legend, scores.noun))


def read(options: Iterable[str]) -> list[Topic]:
    """The topics that --show names, several of them also with commas between. Raises UsageError."""
    names = [name.strip() for text in options for name in text.split(",")]
    for name in names:
        if name not in (*OPTIONS, "all"):
            raise UsageError(f"--show {name!r} is unknown", f"there are: {', '.join(OPTIONS)}, all")
    return [topic for topic in EVERY if topic.option in names or "all" in names]


def elsewhere(rows: Rows) -> str:
    """A line on how to see the operating points that some of these systems have; "" where none
    has.
    """
    if not any(scores.clinical for row in rows for scores in row.each):
        return ""
    how = "`fedcli evaluate RUN --clinical` or `fedcli report --format html`"
    return f"Operating points and calibration are there too: {how}."


def rule_in_words(rule: str) -> str:
    """For what a threshold was chosen."""
    name, _, value = rule.partition("=")
    if name in RULES:
        return RULES[name].format(value)
    return f"{100 * float(value):g} % {name}"


def _of_classes(
    name: str,
    scores: RunScores,
    topics: Topics,
) -> Iterator[ReportTable]:
    """The tables of each class on each version of the test images."""
    words = numbers.versions([scores])
    small = _too_small(scores)
    for (label, version), described in select(scores.clinical, "classes/*/*"):
        images = f"{label}, {words.get(version, version)} test images, {name}"
        for key, lines in CLASS_LINES.items():
            if TOPICS[key] in topics:
                yield from TOPICS[key].table(images, lines(described, small))


def _too_small(scores: RunScores, *metrics: str) -> Small:
    """The groups and clients that are too small for these metrics, or for any."""
    small = {name: set(small_groups(scores, name, *metrics)) for name in scores.groups}
    small[CLIENT] = set(small_clients(scores, scores.usual[1]))
    return small


def _marked(attribute: str, group: str, small: Small) -> str:
    """A group's name, with a dagger where it is too small."""
    return f"{group}{DAGGER}" if group in small.get(attribute, ()) else group


def _points(described: Facts, _: Small) -> Lines:
    share = {"prevalence": described["overall"]["prevalence"]}
    for point in _pooled(described):
        yield rule_in_words(point["rule"]), point["overall"] | share


def _points_by_group(described: Facts, small: Small) -> Lines:
    for point in _pooled(described):
        for attribute, group, facts in _groups(point, small):
            count = {"count": facts["selected"]["total"]}
            yield rule_in_words(point["rule"]), attribute, group, facts | count


def _transfer(described: Facts, small: Small) -> Lines:
    """The differences between groups, in doubt where one of these is too small."""
    for point in described["operating"]:
        for attribute, groups in point["groups"].items():
            gaps = _rate_gaps(groups) | point["differences"].get(attribute, {})
            doubtful = not small.get(attribute, set()).isdisjoint(groups)
            cells = {name: percent(gap, doubtful=doubtful) for name, gap in gaps.items()}
            yield rule_in_words(point["rule"]), point["choice"], attribute, cells


def _calibration(described: Facts, small: Small) -> Lines:
    yield "all", NONE, described["overall"]
    yield from _groups(described, small)


def _net_benefit(described: Facts, small: Small) -> Lines:
    without_clients = described | {"clients": {}}
    groups = _groups(without_clients, small)
    for *labels, facts in [("all", "", described["overall"]), *groups]:
        for column, strategy in ((1, "model"), (2, "treat all")):
            benefit = {f"{line[0]:g}": 100 * line[column] for line in facts["net_benefit"]}
            yield *labels, strategy, benefit


CLASS_LINES: dict[str, Callable[[Facts, Small], Lines]] = {
    "points": _points,
    "points by group": _points_by_group,
    "transfer": _transfer,
    "calibration": _calibration,
    "net benefit": _net_benefit,
}


def _pooled(described: Facts) -> list[Facts]:
    """The operating points at one threshold for all images."""
    return [point for point in described["operating"] if point["choice"] == POOLED]


def _groups(described: Facts, small: Small) -> Lines:
    """Attribute, group and numbers of each group, and of each client where it has any."""
    for (attribute, group), facts in select(described, "groups/*/*"):
        yield attribute, _marked(attribute, group, small), facts
    for client, facts in described.get("clients", {}).items():
        yield CLIENT, _marked(CLIENT, client, small), facts


def _rate_gaps(groups: Facts) -> Facts:
    """Largest minus smallest rate of the groups, where at least two have one."""
    rates: dict[str, list[float]] = {"tpr": [], "fpr": []}
    for point in groups.values():
        sensitivity = point["sensitivity"]["value"]
        if sensitivity is not None:
            rates["tpr"].append(sensitivity)
        specificity = point["specificity"]["value"]
        if specificity is not None:
            rates["fpr"].append(1 - specificity)
    return {name: max(values) - min(values) for name, values in rates.items() if len(values) > 1}


def _of_all(
    name: str,
    scores: RunScores,
    topics: Topics,
) -> Iterator[ReportTable]:
    """The tables of all classes together."""
    clinical = scores.clinical or {}
    words = numbers.versions([scores])
    if TOPICS["agreement"] in topics:
        ordered = card_of(scores).get("ordered")
        topic = TOPICS["agreement" if ordered else "unordered"]
        yield from topic.table(name, _agreement(clinical, words))
    sets = list(select(clinical, "conformal/*/*"))
    if sets and TOPICS["sets"] in topics:
        title = TOPICS["sets"].title.format(100 * sets[0][1]["level"])
        # whether a set holds the class of an image does not depend on the other classes
        lines = _conformal(sets, words, _too_small(scores, "accuracy"))
        yield from replace(TOPICS["sets"], title=title).table(name, lines)
    if TOPICS["gaps"] in topics:
        yield from TOPICS["gaps"].table(name, _gaps(scores, clinical, words))
    if TOPICS["subgroups"] in topics:
        yield from TOPICS["subgroups"].table(name, _lowest(clinical, words))


def _agreement(clinical: Facts, words: Mapping[str, str]) -> Lines:
    for version, agreement in clinical["agreement"].items():
        facts = agreement | clinical["temperature"].get(version, {})
        for key in BEFORE_AFTER:
            for when, value in zip(("before", "after"), facts.get(key, ())):
                facts[f"{key} {when}"] = value
        yield words.get(version, version), facts


def _conformal(sets: list[Any], words: Mapping[str, str], small: Small) -> Lines:
    for (version,), covered in sets:
        quantiles = words.get(version, version), covered["choice"]
        yield *quantiles, "all", "", covered
        for (attribute, group), coverage in select(covered, "groups/*/*"):
            size = covered["set_sizes"].get(attribute, {}).get(group)
            name = _marked(attribute, group, small)
            yield *quantiles, attribute, name, {"coverage": coverage, "set_size": size}


def _gaps(scores: RunScores, clinical: Facts, words: Mapping[str, str]) -> Lines:
    """The gaps, in doubt where the best or the worst group is too small or lacks a class, and their
    p.
    """
    for (attribute, version, metric), test in select(clinical, "gaps/*/*/*"):
        members = scores.members(attribute)
        edges = scores.part().edges(attribute, version, metric) or ()
        doubtful = any(members[name].small for name, _ in edges if name)
        gap = percent(test["gap"], doubtful=doubtful)
        images = words.get(version, version)
        yield attribute, images, title(metric), {"gap": gap, "p": p_text(test["p"])}


def _lowest(clinical: Facts, words: Mapping[str, str]) -> Lines:
    for version, subgroups in clinical["subgroups"].items():
        for subgroup in subgroups[:SUBGROUPS]:
            texts = {key: p_text(subgroup[key]) for key in ("p", "p_holm")}
            images = words.get(version, version)
            yield images, subgroup["attribute"], subgroup["group"], subgroup | texts


def by_class(scores: RunScores) -> Iterator[ReportTable]:
    """Decisions at one threshold, group by group: a table of each described class, on every version
    of the test images of one class, of several on clean ones; with the errors of all images in
    numbers, and which other thresholds there are.
    """
    clinical = scores.clinical or {"classes": {}}
    one_class = len(clinical["classes"]) == 1
    for (label, version), described in select(clinical, "classes/*/*"):
        if one_class or version == "clean":
            yield _class_table(scores, label, version, described)


def _class_table(
    scores: RunScores,
    label: str,
    version: str,
    described: Facts,
) -> ReportTable:
    """The table of one class; without a threshold its columns of decisions are left out."""
    pooled = [point for point in _pooled(described) if point["overall"]["threshold"] is not None]
    usual = [point for point in pooled if point["rule"] == USUAL]
    operating: Facts = next(iter([*usual, *pooled]), {"groups": {}, "overall": None})
    lines = [_class_line("all", described["overall"], operating["overall"])]
    small = _too_small(scores)
    for (attribute, group), facts in select(described, "groups/*/*"):
        name = _marked(attribute, group, small)
        if len(described["groups"]) > 1:
            name = f"{attribute} {name}"
        point = operating["groups"].get(attribute, {}).get(group)
        lines.append(_class_line(name, facts, point))
    columns = enumerate(zip(*lines))
    filled = itemgetter(*[k for k, column in columns if column.count(None) < len(lines)])
    title = label
    if len(scores.versions) > 1:
        title += f", {numbers.versions([scores]).get(version, version)} images"
    validation = scores.clinical["validation"] if scores.clinical else 0
    images = console.counted(
        validation,
        "validation image",
        "validation images",
    )
    legend = ""
    if pooled:
        threshold = operating["overall"]["threshold"]
        title += f", threshold {threshold:.3g}: {rule_in_words(operating['rule'])} on {images}"
        legend = _errors(scores, label, operating["overall"])
    else:
        title += f": no threshold from {images}; fedcli partition --val 0.2 keeps some"
    if len(pooled) > 1:
        legend += f" Other thresholds ({len(pooled) - 1}): --show thresholds."
    return ReportTable.of(
        title,
        filled(BY_CLASS.columns),
        map(filled, lines),
        legend,
    )


def _class_line(name: str, described: Facts, point: Facts | None) -> list[Any]:
    """A line of a class's table: the rates at a threshold where there is one, and what no threshold
    changes.
    """
    facts = dict(described)
    if point:
        facts |= {key: rate(point[key]) for key in WITH_INTERVAL}
        facts |= {key: point[key]["value"] for key in PREDICTIVE}
    return [name, described["count"], *(facts.get(key) for key in BY_CLASS.numbers)]


def _errors(scores: RunScores, label: str, point: Facts) -> str:
    """The images that decisions at a threshold miss, and the false alarms, in numbers."""
    sick = point["sensitivity"]
    healthy = point["specificity"]
    others = [name for name in scores.classes if name != label]
    other = "others"
    if len(others) == 1 and not scores.several_labels:
        other = others[0]
    missed = f"{sick['total'] - sick['counted']} of {sick['total']} {label} missed"
    alarms = f"{healthy['total'] - healthy['counted']} of {healthy['total']} {other}"
    return f"{missed}, {alarms} are false alarms."
