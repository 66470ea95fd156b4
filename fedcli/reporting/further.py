"""Scores beside the usual ones, of each run that has them: under other corruptions and a backdoor, of every client's
model at the other clients, and of the last round's model adapted to the test images."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..console import capital
from ..metrics import apart, title
from ..scores import numbers, views
from ..scores.parts import AS_TRAINED, PATCHED, SUCCESS, AdaptedScore
from ..scores.scores import Scores
from ..scores.table import Score
from .columns import SHOWN, shown
from .table import DAGGER, Cell, Column, Heads, Table, bounded, percent

SEVERITIES = (
    "Mean of the last five rounds ± their standard deviation, in %, on all test images. In training: whether clients "
    "trained on images of this kind and severity, of this kind at another severity, or of neither (unseen)."
)
SAME = "The interval of every change includes 0."
BACKDOOR = "Test images of other classes than the target that are called the target, with the patch and without it."
BY_GROUP = "In percent, of the last round's model; the gap is between the best and the worst group."
CROSS_SITE = (
    "In percent, last round's models on clean test images. A row is whose model it is, a column whose test images; in "
    "brackets their number. Where both are the same client, nothing was transferred."
)
ADAPTED = (
    "In %, last round's model. none: as it was trained; below it the change in points, with a 95 % interval over "
    "bootstrap resamples that both share. bn: batch-norm statistics of these images. prior: their class prior by EM. "
    "temperature: fitted to validation images. Labels of these images choose nothing. Calibration errors grow in "
    "resamples, so that their intervals are rough."
)
Cells = dict[str, dict[str, list[AdaptedScore]]]  # group -> adaptation -> of each metric


def by_severity(
    named: Sequence[tuple[str, Scores]], metrics: Sequence[str] = SHOWN
) -> Iterator[Table]:
    """A table of each run whose scores hold other corruptions. named: name and scores of each run."""
    attacked = [
        (name, scores.part().overall)
        for name, scores in named
        if PATCHED[0] in scores.part().overall
    ]
    if attacked:
        lines = [
            [name, *(cell for version in PATCHED for cell in _cells(of[version], [SUCCESS]))]
            for name, of in attacked
        ]
        heads: Heads = ["", *(Column(version, "%", lower=True) for version in PATCHED)]
        yield Table.of("Success of the backdoor", heads, lines, BACKDOOR)
    known = [(name, scores) for name, scores in named if scores.severities]
    for name, scores in known:
        overall = scores.part().overall
        lines = [
            [*level, *_cells(overall[version], metrics)] for version, *level in _levels(scores)
        ]
        heads = [
            "test images",
            "severity",
            "in training",
            *(Column(title(metric), "%") for metric in metrics),
        ]
        yield Table.of(
            "Severities" + (f": {name}" if len(known) > 1 else ""), heads, lines, SEVERITIES
        )


def by_severity_and_group(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table for each run and attribute: a line for each kind and severity, a column for each group."""
    for name, scores in named:
        metric, part = scores.usual[1], scores.part()
        for attribute in scores.groups if scores.severities else ():
            lines = []
            for version, *level, _ in _levels(scores):
                gap = part.lies(attribute, version, metric, views.GAP)
                column = part.groups[attribute][version][metric].values()
                lines.append([*level, *(score.last for score in column), gap and gap.last])
            heads: Heads = [
                "test images",
                "severity",
                *(Column(group, "%") for group in scores.members(attribute)),
            ]
            caption = f"{capital(title(metric))} by severity and {attribute}: {name or scores.name}"
            yield Table.of(caption, [*heads, Column("gap", "points", lower=True)], lines, BY_GROUP)


def _levels(scores: Scores) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Version of the test images, its kind in words, its severity, and whether clients trained on it."""
    yield "clean", "clean", None, None
    for kind, levels in scores.severities.items():
        for severity, at in sorted(levels.items(), key=lambda level: int(level[0])):
            other = "another severity" if at.kind_in_training else "unseen"
            seen = "this severity" if at.severity_in_training else other
            yield f"{kind} {severity}", kind.replace("-", " "), severity, seen


def _cells(scores: Mapping[str, Score], metrics: Sequence[str]) -> list[Cell]:
    shown = [scores.get(metric, Score()) for metric in metrics]
    return [percent(score.last if score.mean is None else score.mean, score.std) for score in shown]


def cross_site(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """Tables of each run whose scores hold them. named: name and scores of each run."""
    for name, scores in named:
        if not (rows := scores.cross_site):
            continue
        sizes = {
            client: next(iter(metrics.values())).count
            for client, metrics in next(iter(rows.values())).items()
        }
        heads: Heads = [
            "trained at",
            *(Column(f"{client} [{count}]", "%") for client, count in sizes.items()),
        ]
        known = next(iter(next(iter(rows.values())).values()))  # not names of single columns
        for metric in (name for name in shown(scores) if name in known):
            lines = [
                [model, *(tested[client][metric].last for client in sizes)]
                for model, tested in rows.items()
            ]
            yield Table.of(
                f"Trained at and tested on: {title(metric)}, {name or scores.name}",
                heads,
                lines,
                CROSS_SITE,
            )


def adapted(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table of all images and one for each attribute, of each version of them, of each run that has such scores.

    named: name and scores of each run.
    """
    for name, scores in named:
        cells: dict[tuple[str, str], Cells] = {}
        for each in scores.adapted.scores if scores.adapted else ():
            if not each.attribute or each.metric != "accuracy":  # which of groups finds no room
                of_group = cells.setdefault((each.version, each.attribute), {}).setdefault(
                    each.group, {}
                )
                of_group.setdefault(each.adaptation, []).append(each)
        words = numbers.versions([scores])
        for (version, attribute), groups in cells.items():
            whose = f"{name or scores.name}{attribute and f', by {attribute}'}"
            caption = f"Adapted to the {words.get(version, version)} test images: {whose}"
            legend = ADAPTED if (version, attribute) == [*cells][-1] else ""
            yield _table(caption, attribute, groups, scores.members(attribute), legend)
        if scores.adapted and (prior := scores.adapted.prior):
            heads: Heads = ["images", *(Column(each, "%") for each in scores.classes)]
            lines = [[where, *(of[each] for each in scores.classes)] for where, of in prior.items()]
            yield Table.of(f"Class prior: {name or scores.name}", heads, lines)


def _table(
    caption: str, attribute: str, groups: Cells, members: dict[str, Score], legend: str
) -> Table:
    """Each row says by itself whose it is and of which adaptation: a wide table repeats its first column alone."""
    rows: list[list[str | Cell]] = []
    changed: list[str] = []
    scored = {
        group: of
        for group, of in groups.items()
        if any(each.value is not None for each in of[AS_TRAINED])
    }
    small = {group for group in scored if group and members.get(group, Score()).small}
    if small & _decide_a_gap(scored):
        small.add("")  # the gap's own key
    for group, adaptations in scored.items():
        mark = DAGGER if group in small else ""
        whose = f"{group or 'gap'}{mark}, " if attribute else ""
        for adaptation, scores in adaptations.items():
            first = adaptation == AS_TRAINED
            images = f"{scores[0].images:,}" if first and (group or not attribute) else ""
            values = [
                percent(each.value)
                if first
                else Cell(bounded(each.difference, each.low, each.high, sign="+").text)
                for each in scores
            ]
            rows.append([f"{whose}{adaptation}", images, *values])
            if beyond := [
                f"{way} {title(each.metric)}" for each in scores if (way := _direction(each))
            ]:
                changed.append(f"{whose}{adaptation}: {', '.join(beyond)}")
    shown = [Column(title(each.metric), "%") for each in next(iter(groups.values()))[AS_TRAINED]]
    heads: Heads = [f"{attribute}, adapted" if attribute else "adapted", "images", *shown]
    verdict = f"Changes whose interval excludes 0: {'; '.join(changed)}." if changed else SAME
    return Table.of(caption, heads, rows, f"{verdict} {legend}".strip())


def _decide_a_gap(scored: Cells) -> set[str]:
    """The groups between which the gap of one of the metrics is, as the model was trained."""
    ends: set[str] = set()
    values_by_metric: dict[str, dict[str, float | None]] = {}
    for group, adaptations in scored.items():
        for score in adaptations[AS_TRAINED] if group else ():
            values_by_metric.setdefault(score.metric, {})[group] = score.value
    for values in values_by_metric.values():
        pair = views.worst_and_best(values, low=False)
        ends |= {name for name, _ in pair or ()}
    return ends


def _direction(score: AdaptedScore) -> str:
    """The side of zero on which the interval of a change lies, in words; "" where it holds zero or there is none."""
    if score.low is None or score.high is None:
        return ""
    return "higher" if apart(score.low, 0.0) > 0 else "lower" if apart(score.high, 0.0) < 0 else ""
