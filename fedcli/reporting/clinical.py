"""Operating points, threshold transfer, calibration, decision curves and conformal sets as tables."""

from collections.abc import Iterable, Iterator, Sequence

from ..compare.verdict import p_text
from ..metrics import PARITY
from ..scores.clinical_parts import CLIENT, POOLED, Clinical, Described, GapTest, OfClass, Operating, Point, Rate
from ..scores.scores import Scores
from .section import Section
from .table import DAGGER, Cell, Column, Table, heads, number, percent

RATES = "sensitivity", "specificity", "ppv", "npv"
RATE_HEADS = heads("sensitivity", "specificity", "PPV", "NPV", unit="%")
BENEFITS = (0.05, 0.1, 0.2, 0.3, 0.5)  # threshold probabilities of the table; scores.json has more
POINTS = (
    "In percent, [95 % Wilson interval, with a patient's images taken as independent], of the last round's model. A "
    "threshold is chosen on the clients' validation images alone and carried to the test images; PPV and NPV depend on "
    "the share of the class, which stands beside them."
)
BY_GROUP = "In percent, [95 % Wilson interval, with a patient's images taken as independent], at the pooled threshold."
TRANSFER = (
    "Differences between groups at the carried thresholds, in percentage points, better when low: of sensitivity (TPR) "
    "and of false positive rate (FPR), largest minus smallest; demographic parity (DPD), equalized odds (EOD) and "
    "average odds (AOD). Thresholds: one for all (pooled), one for each client, or one for each group of an attribute."
)
HONEST = (
    "AP: average precision, to be read beside the share of the class; TPR at 95 %: sensitivity at 95 % specificity on "
    "these images' own ROC curve; Brier score, better when low; slope and intercept of calibration: 1 and 0 are ideal, "
    "a slope below 1 says that probabilities are too extreme; ICI: integrated calibration index, how far probabilities "
    "are on average from the share that they come true in (local regression), better when low."
)
BENEFIT = (
    "Net benefit in true positives per 100 images at a threshold probability p: TP/n - FP/n * p/(1-p). A model is of "
    "use where it is above both treating all and treating none (0)."
)
SETS = (
    "Sets of classes that hold the true one with a chance of at least the level if test and validation images come "
    "from the same distribution, quantiles from validation images: coverage in percent, [95 % Wilson interval, with a "
    "patient's images taken as independent], and mean number of classes in a set."
)

GAPS = (
    "Between best and worst group, of the last round's model. p: permutation test over 1,000 assignments of the "
    "groups to the patients, the observed one among them: the share whose gap is at least as large; not adjusted for "
    "the number of lines. Where patients have images of several groups, the groups of a patient's images are assigned "
    "together to a patient with as many images, and in any order among these."
)
UNSURE = f" {DAGGER} marks a gap that a group which is too small or lacks a class decides, whatever its p."
SEARCHED = (
    "Of all subgroups of at least 30 images by one attribute or two crossed, the ten of lowest accuracy; difference: "
    "from all other images. p: permutation test as for gaps; Holm: adjusted for all subgroups that were tested."
)
SUBGROUPS = 10


def section(named: Sequence[tuple[str, Scores]]) -> Section:
    """All tables, and how to get those that are not there."""
    text = [how] if (how := missing(named)) else []
    return Section("clinical", "Operating points and calibration", tables=list(tables(named)), text=text)


def tables(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """All tables of each run whose scores hold them. named: name and scores of each run."""
    for name, scores in named:
        if scores.clinical:
            yield from _of_run(name or scores.label, scores.clinical)
            yield from _tested(name or scores.label, scores.clinical, scores)


def headline(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """Operating points, calibration and net benefit alone, as a report of many runs has room for."""
    for name, scores in named:
        for label, versions in scores.clinical.classes.items() if scores.clinical else ():
            for version, known in versions.items():
                title = f"{label}, {version} test images, {name or scores.label}"
                yield from [_points(title, known)] if known.operating else []
                yield _honesty(title, known)
                yield _benefit(title, known)


def missing(named: Iterable[tuple[str, Scores]]) -> str:
    """Advice to get operating points, where runs have none; "" where all have them or none can."""
    without = {name: scores for name, scores in named if not scores.clinical and not scores.curves}
    if not without:
        return ""
    how = "`fedcli evaluate RUN --clinical` chooses thresholds on validation images"
    first = next(iter(without.values()))
    need = "" if first.best else ", which `fedcli partition --val 0.2` keeps before training"
    names = ", ".join(list(without)[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
    return f"No operating points of {names}: {how}{need}."


def _of_run(name: str, clinical: Clinical) -> Iterator[Table]:
    for label, versions in clinical.classes.items():
        for version, known in versions.items():
            title = f"{label}, {version} test images, {name}"
            if known.operating:
                yield _points(title, known)
                yield _groups(title, known)
                yield _transfer(title, known)
            yield _honesty(title, known)
            yield _benefit(title, known)
    yield from _overall(name, clinical)


def _points(title: str, known: OfClass) -> Table:
    """A line for each rule with the pooled threshold."""
    rows = [
        [Cell(each.rule), number(each.overall.threshold, digits=4), *_rates(each.overall), _share(known.overall)]
        for each in known.operating
        if each.choice == POOLED
    ]
    columns = [*heads("threshold chosen for", "threshold"), *RATE_HEADS, Column("share", "%")]
    return Table(f"Operating points: {title}", columns, rows, POINTS)


def _groups(title: str, known: OfClass) -> Table:
    """Sensitivity and specificity of each group and client at each pooled threshold."""
    rows = []
    for each in known.operating:
        if each.choice != POOLED:
            continue
        for attribute, points in {**each.groups, CLIENT: each.clients}.items():
            for value, point in points.items():
                count = str(point.selected.total)
                rows.append([Cell(each.rule), Cell(attribute), Cell(value), Cell(count), *_rates(point)])
    columns = [*heads("threshold chosen for", "attribute", "group", "images"), *RATE_HEADS]
    return Table(f"Operating points by group: {title}", columns, rows, BY_GROUP)


def _transfer(title: str, known: OfClass) -> Table:
    """Gaps between groups for each choice of thresholds."""
    rows = [
        [Cell(each.rule), Cell(each.choice), Cell(attribute), *_gaps(each, attribute)]
        for each in known.operating
        for attribute in each.groups
    ]
    gaps = heads("TPR gap", "FPR gap", "DPD", "EOD", "AOD", unit="points", lower=True)
    columns = [*heads("threshold chosen for", "thresholds", "attribute"), *gaps]
    return Table(f"Threshold transfer: {title}", columns, rows, TRANSFER)


def _gaps(each: Operating, attribute: str) -> list[Cell]:
    points = each.groups[attribute].values()
    sensitivity = [point.sensitivity.value for point in points if point.sensitivity.value is not None]
    alarms = [1 - point.specificity.value for point in points if point.specificity.value is not None]
    ranges = [max(rates) - min(rates) if len(rates) > 1 else None for rates in (sensitivity, alarms)]
    return [percent(value) for value in (*ranges, *(each.differences[attribute][name] for name in PARITY))]


def _honesty(title: str, known: OfClass) -> Table:
    """Calibration of all images, of each group and of each client."""
    rows = [[Cell("all"), Cell(), *_honest(known.overall)]]
    for attribute, groups in {**known.groups, CLIENT: known.clients}.items():
        rows += [[Cell(attribute), Cell(value), *_honest(of)] for value, of in groups.items()]
    columns = [*heads("attribute", "group", "images"), *heads("share", "AP", "TPR at 95 %", unit="%")]
    columns += [Column("Brier", lower=True), *heads("slope", "intercept"), Column("ICI", lower=True)]
    return Table(f"Calibration: {title}", columns, rows, HONEST)


def _honest(of: Described) -> list[Cell]:
    return [
        Cell(str(of.count)), _share(of), percent(of.average_precision), percent(of.sensitivity_at_specificity_95),
        number(of.brier, digits=4), number(of.calibration_slope), number(of.calibration_intercept),
        number(of.integrated_calibration_index, digits=4),
    ]  # fmt: skip


def _benefit(title: str, known: OfClass) -> Table:
    parts = {("all", ""): known.overall}
    parts |= {(attribute, value): of for attribute, groups in known.groups.items() for value, of in groups.items()}
    rows = []
    for (attribute, value), of in parts.items():
        at = {p: (model, everyone) for p, model, everyone in of.net_benefit}
        cells = [cell for p in BENEFITS for cell in _pair(at.get(p))]
        rows.append([Cell(attribute), Cell(value), *cells])
    at_each = [column for p in BENEFITS for column in heads("model", "treat all", over=f"p = {p:g}")]
    return Table(f"Net benefit: {title}", [*heads("attribute", "group"), *at_each], rows, BENEFIT)


def _pair(both: tuple[float, float] | None) -> list[Cell]:
    return [number(100 * part) if both else Cell() for part in both or (0.0, 0.0)]


def _overall(name: str, clinical: Clinical) -> Iterator[Table]:
    rows = []
    for version, both in clinical.agreement.items():
        scaled = clinical.temperature.get(version)
        cells = [number(both.matthews_correlation, digits=4), number(both.quadratic_kappa, digits=4)]
        if scaled:
            pairs = scaled.negative_log_likelihood, scaled.calibration_error_top_label, scaled.brier
            cells += [number(scaled.temperature), *(number(part, digits=4) for pair in pairs for part in pair)]
        rows.append([Cell(version), *cells, *(Cell() for _ in range(0 if scaled else 7))])
    columns = heads("test images", "Matthews correlation", "quadratic kappa", "temperature")
    for what in ("NLL", "ECE", "Brier of all classes"):
        columns += heads("before", "after", over=what)
    legend = (
        "Decisions are the most likely class. The temperature divides the logits; it is fitted on validation images, "
        "and no other score here uses it. Quadratic kappa is for classes in an order."
    )
    if rows:  # none of several labels per image
        yield Table(f"Agreement and temperature: {name}", columns, rows, legend)
    lines = [
        [Cell(version), Cell(each.choice), Cell(attribute), Cell(value), _interval(rate), number(size)]
        for version, sets in clinical.conformal.items()
        for each in sets
        for attribute, value, rate, size in [
            ("all", "", each.coverage, each.set_size),
            *((a, v, rate, each.set_sizes[a][v]) for a, groups in each.groups.items() for v, rate in groups.items()),
        ]
    ]
    if lines:
        level = next(iter(clinical.conformal.values()))[0].level
        columns = heads("test images", "quantiles", "attribute", "group")
        columns += [Column("coverage", "%"), Column("set size")]
        yield Table(f"Conformal sets at {100 * level:g} %: {name}", columns, lines, SETS)


def _tested(name: str, clinical: Clinical, scores: Scores) -> Iterator[Table]:
    """Permutation tests of the gaps, and the subgroups of lowest accuracy."""
    rows = [
        [*map(Cell, (attribute, version, metric)), _gap(test, scores, attribute, version, metric), Cell(p_text(test.p))]
        for attribute, versions in clinical.gaps.items()
        for version, known in versions.items()
        for metric, test in known.items()
    ]
    if rows:
        columns = [*heads("attribute", "test images", "score"), Column("gap", "points", lower=True), Column("p")]
        doubts = UNSURE * any(row[3].doubtful for row in rows)
        yield Table(f"Gaps between groups: {name}", columns, rows, GAPS + doubts)
    lines = [
        [Cell(version), Cell(each.attribute), Cell(each.group), Cell(str(each.images)), percent(each.accuracy),
         percent(each.difference), Cell(p_text(each.p)), Cell(p_text(each.p_holm))]
        for version, known in clinical.subgroups.items()
        for each in known[:SUBGROUPS]
    ]  # fmt: skip
    if lines:
        columns = heads("test images", "attributes", "subgroup", "images")
        columns += [Column("accuracy", "%"), Column("difference", "points"), *heads("p", "p (Holm)")]
        yield Table(f"Subgroups of lowest accuracy: {name}", columns, lines, SEARCHED)


def _gap(test: GapTest, scores: Scores, attribute: str, version: str, metric: str) -> Cell:
    """The gap, in doubt where its best or its worst group is too small or lacks a class."""
    ends = scores.part().edges(attribute, version, metric) or ()
    return percent(test.gap, doubtful=any(scores.members(attribute)[name].small for name, _ in ends if name))


def _rates(point: Point) -> list[Cell]:
    return [_interval(getattr(point, name)) for name in RATES]


def _interval(rate: Rate) -> Cell:
    if rate.value is None or rate.low is None or rate.high is None:
        return Cell()
    return Cell(f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]", number=100 * rate.value)


def _share(of: Described) -> Cell:
    return percent(of.prevalence)
