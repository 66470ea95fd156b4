"""Operating points, threshold transfer, calibration, decision curves and conformal sets as tables: one of each class,
which `evaluate --clinical` prints, and topics by name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import console
from ..comparison.verdict import p_text
from ..errors import UsageError
from ..metrics import PARITY, title
from ..scores import numbers
from ..scores.clinical_shape import BEFORE_AFTER, CLIENT, POOLED, select
from ..scores.scores import Scores
from .evidence import card_of
from .rows import Row
from .table import DAGGER, NONE, Column, Table, bounded, percent

SHOWN_AT = (0.05, 0.1, 0.2, 0.3, 0.5)  # threshold probabilities of the table; scores.json has more
SUBGROUPS = 10  # of lowest accuracy
WILSON = "(95 % Wilson interval, with a patient's images taken as independent)"
UNSURE = (
    f" {DAGGER} marks a gap that a group which is too small, or lacks a class or has few images of one, decides, "
    "whatever its p."
)
Facts = dict[str, Any]  # numbers of a line by name
Line = tuple[Any, ...]  # names of what it is of, then its numbers


@dataclass(frozen=True)
class Topic:
    """A table: its title, the columns of what a line is of, those of its numbers by their names, and what they are."""

    title: str
    of: Sequence[str]
    numbers: Mapping[str, Column]
    legend: str

    def table(self, name: str, lines: Iterable[Line]) -> Iterator[Table]:
        """One table, or none where there is no line."""
        rows = [
            [*names, *(rate(facts.get(key)) for key in self.numbers)] for *names, facts in lines
        ]
        if rows:
            table = Table.of(
                f"{self.title}: {name}", [*self.of, *self.numbers.values()], rows, self.legend
            )
            doubtful = any(cell.doubtful for row in table.rows for cell in row)
            yield replace(table, legend=table.legend + UNSURE * doubtful)


def rate(value: Any) -> Any:
    """A share with its interval as a cell; whatever else as its column shows it."""
    if not isinstance(value, dict):
        return value
    return (
        bounded(*(value[key] for key in ("value", "low", "high")))
        if value["value"] is not None
        else None
    )


def _columns(unit: str = "", *, lower: bool = False, digits: int = 2, **titles: str):
    """Columns that are alike, by the names of their numbers."""
    return {name: Column(title, unit, lower=lower, digits=digits) for name, title in titles.items()}


GROUP = "attribute", "group"
CHOSEN = "threshold chosen for"
WORDS = {
    "youden": "largest sensitivity + specificity",
    "cost": "a missed one costs {} false alarms",
}
COUNT = _columns(count="images")
SHARE = _columns("%", prevalence="share")
FOUND = _columns("%", sensitivity="sensitivity", specificity="specificity", ppv="PPV", npv="NPV")
POINTS = Topic(
    "Operating points",
    [CHOSEN],
    _columns(digits=4, threshold="threshold") | FOUND | SHARE,
    f"In percent, {WILSON}, of the last round's model. A threshold is chosen on the clients' validation images alone "
    "and carried to the test images; PPV and NPV depend on the share of the class, which stands beside them.",
)
BY_GROUP = Topic(
    "Operating points by group",
    [CHOSEN, *GROUP],
    COUNT | FOUND,
    f"In percent, {WILSON}, at the pooled threshold.",
)
TRANSFER = Topic(
    "Threshold transfer",
    [CHOSEN, "thresholds", "attribute"],
    _columns("points", lower=True, tpr="TPR gap", fpr="FPR gap")
    | {
        name: Column(title, "points", lower=True)
        for name, title in zip(PARITY, ("DPD", "EOD", "AOD"), strict=True)
    },
    "Differences between groups at the carried thresholds, in percentage points, better when low: of sensitivity (TPR) "
    "and of false positive rate (FPR), largest minus smallest; demographic parity (DPD), equalized odds (EOD) and "
    "average odds (AOD). Thresholds: one for all (pooled), one for each client, or one for each group of an attribute.",
)
CALIBRATION = Topic(
    "Calibration",
    GROUP,
    COUNT
    | SHARE
    | _columns("%", average_precision="AP", sensitivity_at_specificity_95="TPR at 95 %")
    | _columns(lower=True, digits=4, brier="Brier")
    | _columns(calibration_slope="slope", calibration_intercept="intercept")
    | _columns(lower=True, digits=4, integrated_calibration_index="ICI"),
    "AP: average precision, to be read beside the share of the class; TPR at 95 %: sensitivity at 95 % specificity on "
    "these images' own ROC curve; Brier score, better when low; slope and intercept of calibration: 1 and 0 are ideal, "
    "a slope below 1 says that probabilities are too extreme; ICI: integrated calibration index, how far probabilities "
    "are on average from the share that they come true in (local regression), better when low.",
)
BENEFIT = Topic(
    "Net benefit",
    [*GROUP, "strategy"],
    {f"{p:g}": Column(f"{p:g}", over="at p") for p in SHOWN_AT},
    "Net benefit in true positives per 100 images at a threshold probability p: TP/n - FP/n * p/(1-p). A model is of "
    "use where it is above both treating all and treating none (0).",
)
AGREEMENT = Topic(
    "Agreement and temperature",
    ["test images"],
    _columns(
        digits=4, matthews_correlation="Matthews correlation", quadratic_kappa="quadratic kappa"
    )
    | _columns(temperature="temperature")
    | {
        f"{name} {when}": Column(when, over=title, digits=4)
        for name, title in zip(BEFORE_AFTER, ("NLL", "ECE", "Brier of all classes"), strict=True)
        for when in ("before", "after")
    },
    "Decisions are the most likely class. The temperature divides the logits; it is fitted on validation images, "
    "and no other score here uses it. Quadratic kappa is for classes in an order.",
)
SETS = Topic(
    "Conformal sets at {:g} %",
    ["test images", "quantiles", *GROUP],
    _columns("%", coverage="coverage") | _columns(set_size="set size"),
    "Sets of classes that hold the true one with a chance of at least the level if test and validation images come "
    f"from the same distribution, quantiles from validation images: coverage in percent, {WILSON}, and mean number of "
    "classes in a set.",
)
GAPS = Topic(
    "Gaps between groups, last round",
    ["attribute", "test images", "score"],
    _columns("points", lower=True, gap="gap") | _columns(p="p"),
    "Between best and worst group, of the last round's model. p: permutation test over 1,000 assignments of the "
    "groups to the patients, the observed one among them: the share whose gap is at least as large; not adjusted for "
    "the number of lines. Where patients have images of several groups, the groups of a patient's images are assigned "
    "together to a patient with as many images, and in any order among these.",
)
LOWEST = Topic(
    "Subgroups of lowest accuracy",
    ["test images", "attributes", "subgroup"],
    _columns(images="images")
    | _columns("%", accuracy="accuracy")
    | _columns("points", difference="difference")
    | _columns(p="p", p_holm="p (Holm)"),
    "Of all subgroups of at least 30 patients by one attribute or two crossed, the ten of lowest accuracy; difference: "
    "from all other images. p: permutation test as for gaps; Holm: adjusted for all subgroups that were tested.",
)
UNORDERED = replace(
    AGREEMENT,
    numbers={key: column for key, column in AGREEMENT.numbers.items() if key != "quadratic_kappa"},
    legend=AGREEMENT.legend.removesuffix(" Quadratic kappa is for classes in an order."),
)
HEADLINE = POINTS, CALIBRATION, BENEFIT
NAMED = {  # what --show takes
    "thresholds": (POINTS, BY_GROUP),
    "transfer": (TRANSFER,),
    "calibration": (CALIBRATION,),
    "net-benefit": (BENEFIT,),
    "conformal": (SETS,),
    "agreement": (AGREEMENT,),
    "gaps": (GAPS,),
    "subgroups": (LOWEST,),
}
EVERY = [topic for topics in NAMED.values() for topic in topics]
WITH_INTERVAL = "sensitivity", "specificity"
USUAL = "sensitivity=0.95"  # the rule of several that is shown
RATES = [
    column if name in WITH_INTERVAL else replace(column, digits=None)
    for name, column in FOUND.items()
]
INTERVALS = "In %, with 95 % Wilson intervals, of the last round's model; a slope of 1 is ideal, below 1 overconfident."
MORE = f"More: --show {', '.join(NAMED)}, or all."


def tables(named: Iterable[tuple[str, Scores]], topics: Sequence[Topic] = EVERY) -> Iterator[Table]:
    """Tables of each run whose scores hold them. named: name and scores of each run. topics: those that are shown."""
    for name, scores in named:
        if scores.clinical:
            yield from _of_classes(name or scores.name, scores, topics)
            yield from _of_all(name or scores.name, scores, topics)


def read(asked: Iterable[str]) -> list[Topic]:
    """The topics that --show names, several of them also with commas between. Raises UsageError."""
    names = [name.strip() for text in asked for name in text.split(",")]
    for name in names:
        if name not in (*NAMED, "all"):
            raise UsageError(f"--show {name!r} is unknown", f"there are: {', '.join(NAMED)}, all")
    return [
        topic
        for name, topics in NAMED.items()
        if name in names or "all" in names
        for topic in topics
    ]


def elsewhere(rows: Sequence[Row]) -> str:
    """A line on how to see the operating points that some of these systems have; "" where none has."""
    there = any(scores.clinical for row in rows for scores in row.each)
    how = "`fedcli evaluate RUN --clinical` or `fedcli report --format html`"
    return f"Operating points and calibration are there too: {how}." if there else ""


def _of_classes(name: str, scores: Scores, shown: Sequence[Topic]) -> Iterator[Table]:
    clinical, words = scores.clinical or {}, numbers.versions([scores])
    for (label, version), known in select(clinical, "classes/*/*"):
        share, operating = {"prevalence": known["overall"]["prevalence"]}, known["operating"]
        pooled = [each for each in operating if each["choice"] == POOLED]
        lines: dict[str, list[Line]] = {
            POINTS.title: [
                (rule_in_words(each["rule"]), each["overall"] | share) for each in pooled
            ],
            BY_GROUP.title: [
                (rule_in_words(each["rule"]), *names, point | {"count": point["selected"]["total"]})
                for each in pooled
                for *names, point in _parts(each)
            ],
            TRANSFER.title: [
                (
                    rule_in_words(each["rule"]),
                    each["choice"],
                    attribute,
                    _ranges(points) | each["differences"].get(attribute, {}),
                )
                for each in operating
                for attribute, points in each["groups"].items()
            ],
            CALIBRATION.title: [("all", NONE, known["overall"]), *_parts(known)],
            BENEFIT.title: [
                (
                    *names,
                    strategy,
                    {f"{line[0]:g}": 100 * line[place] for line in described["net_benefit"]},
                )
                for *names, described in [
                    ("all", "", known["overall"]),
                    *_parts(known | {"clients": {}}),
                ]
                for place, strategy in ((1, "model"), (2, "treat all"))
            ],
        }
        for topic in (topic for topic in shown if topic.title in lines):
            yield from topic.table(
                f"{label}, {words.get(version, version)} test images, {name}", lines[topic.title]
            )


def rule_in_words(rule: str) -> str:
    """For what a threshold was chosen."""
    name, _, value = rule.partition("=")
    return WORDS[name].format(value) if name in WORDS else f"{100 * float(value):g} % {name}"


def _parts(known: Facts) -> Iterator[Line]:
    """Attribute, group and numbers of each group, and of each client where it has any."""
    for attribute, groups in [*known["groups"].items(), (CLIENT, known.get("clients", {}))]:
        for group, facts in groups.items():
            yield attribute, group, facts


def _ranges(points: Facts) -> Facts:
    """Largest minus smallest rate of the groups, where at least two have one."""
    found = [point["sensitivity"]["value"] for point in points.values()]
    alarms = [
        None if (rate := point["specificity"]["value"]) is None else 1 - rate
        for point in points.values()
    ]
    known = {
        "tpr": [x for x in found if x is not None],
        "fpr": [x for x in alarms if x is not None],
    }
    return {name: max(rates) - min(rates) for name, rates in known.items() if len(rates) > 1}


def _of_all(name: str, scores: Scores, shown: Sequence[Topic]) -> Iterator[Table]:
    clinical, words = scores.clinical or {}, numbers.versions([scores])
    scaled = {
        version: {
            f"{key} {when}": value
            for key in BEFORE_AFTER
            for when, value in zip(("before", "after"), of[key])
        }
        | of
        for version, of in clinical["temperature"].items()
    }
    if AGREEMENT in shown:
        topic = AGREEMENT if card_of(scores).get("ordered") else UNORDERED
        yield from topic.table(
            name,
            [(words.get(v, v), of | scaled.get(v, {})) for v, of in clinical["agreement"].items()],
        )
    sets = [(version, of) for (version,), of in select(clinical, "conformal/*/*")]
    for level in {of["level"] for _, of in sets[:1]} if SETS in shown else ():
        lines = [
            (words.get(version, version), of["choice"], *part)
            for version, of in sets
            for part in _covered(of)
        ]
        yield from replace(SETS, title=SETS.title.format(100 * level)).table(name, lines)
    if GAPS in shown:
        tests = select(clinical, "gaps/*/*/*")
        lines = [
            (by, on, title(of), _gap(test, scores, by, on, of)) for (by, on, of), test in tests
        ]
        yield from GAPS.table(name, lines)
    if LOWEST in shown:
        found = [
            (v, subgroup)
            for v, subgroups in clinical["subgroups"].items()
            for subgroup in subgroups[:SUBGROUPS]
        ]
        lowest = [
            (
                v,
                of["attribute"],
                of["group"],
                of | {key: p_text(of[key]) for key in ("p", "p_holm")},
            )
            for v, of in found
        ]
        yield from LOWEST.table(name, lowest)


def _covered(of: Facts) -> Iterator[Line]:
    yield "all", "", of
    for (attribute, group), coverage in select(of, "groups/*/*"):
        yield (
            attribute,
            group,
            {"coverage": coverage, "set_size": of["set_sizes"].get(attribute, {}).get(group)},
        )


def _gap(test: Facts, scores: Scores, attribute: str, version: str, metric: str) -> Facts:
    """The gap, in doubt where its best or its worst group is too small or lacks a class, and its p."""
    ends = scores.part().edges(attribute, version, metric) or ()
    doubtful = any(scores.members(attribute)[name].small for name, _ in ends if name)
    return {"gap": percent(test["gap"], doubtful=doubtful), "p": p_text(test["p"])}


def by_class(scores: Scores) -> Iterator[Table]:
    """Decisions at one threshold, group by group: a table of each described class, on every version of the test images
    of one class, of several on clean ones; with the errors of all images in numbers, and which other thresholds there
    are."""
    clinical, words = scores.clinical or {"classes": {}}, numbers.versions([scores])
    several = len(clinical["classes"]) > 1
    for (label, version), known in select(clinical, "classes/*/*"):
        if several and version != "clean":
            continue
        pooled = [each for each in known["operating"] if each["choice"] == POOLED]
        pooled = [each for each in pooled if each["overall"]["threshold"] is not None]
        point = next(
            (each for each in pooled if each["rule"] == USUAL), pooled[0] if pooled else None
        )
        images = f", {words.get(version, version)} images" if len(scores.versions) > 1 else ""
        chosen = console.counted(clinical["validation"], "validation image", "validation images")
        title = (
            f"{label}{images}: no threshold from {chosen}; fedcli partition --val 0.2 keeps some"
        )
        legend, at_point = "", point["overall"] if point else None
        if point and at_point:
            rule, threshold = rule_in_words(point["rule"]), at_point["threshold"]
            title = f"{label}{images}, threshold {threshold:.3g}: {rule} on {chosen}"
            found, passed = at_point["sensitivity"], at_point["specificity"]
            others = [name for name in scores.classes if name != label]
            other = others[0] if len(others) == 1 and not scores.several_labels else "others"
            legend = f"{found['total'] - found['counted']} of {found['total']} {label} missed, "
            legend += f"{passed['total'] - passed['counted']} of {passed['total']} {other} are false alarms."
            legend += (
                f" Other thresholds ({len(pooled) - 1}): --show thresholds."
                if len(pooled) > 1
                else ""
            )
        lines = [_line("all", known["overall"], at_point)]
        for attribute, groups in known["groups"].items():
            before = f"{attribute} " if len(known["groups"]) > 1 else ""
            at = point["groups"].get(attribute, {}) if point else {}
            lines += [
                _line(f"{before}{group}", described, at.get(group))
                for group, described in groups.items()
            ]
        heads = ["", "images", *RATES, Column("AP", "%"), Column("calibration slope")]
        kept = [at for at in range(len(heads)) if any(line[at] is not None for line in lines)]
        shown = [[line[at] for at in kept] for line in lines]
        yield Table.of(title, [heads[at] for at in kept], shown, legend)


def _line(name: str, described: Facts, point: Facts | None) -> list[Any]:
    rates = (
        [rate(point[key]) if key in WITH_INTERVAL else point[key]["value"] for key in FOUND]
        if point
        else []
    )
    rates = rates or [None] * len(FOUND)
    return [
        name,
        described["count"],
        *rates,
        described["average_precision"],
        described["calibration_slope"],
    ]
