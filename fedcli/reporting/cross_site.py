"""Models at other sites: every client's on each client's test part, and the last round's adapted to test images."""

from collections.abc import Iterable, Iterator, Sequence

from ..metrics import apart, title
from ..scores import numbers
from ..scores.parts import AS_TRAINED, AdaptedScore
from ..scores.scores import Scores
from ..scores.table import Score
from .columns import SHOWN, shown
from .table import DAGGER, Cell, Column, Heads, Table, percent

LEGEND = (
    "In percent, last round's models on clean test images. A row is whose model it is, a column whose test images; in "
    "brackets their number. Where both are the same client, nothing was transferred."
)
ADAPTED = (
    "In %, last round's model. none: as it was trained; below it the change in points, with a 95 % interval over "
    "bootstrap resamples that both share. bn: batch-norm statistics of these images. prior: their class prior by EM. "
    "temperature: fitted to validation images. Labels of these images choose nothing. Calibration errors grow in "
    "resamples, so that their intervals are rough."
)
SAME = "The interval of every change holds 0."
Cells = dict[str, dict[str, list[AdaptedScore]]]  # group -> adaptation -> of each metric


def tables(named: Iterable[tuple[str, Scores]], metrics: Sequence[str] = SHOWN) -> Iterator[Table]:
    """Tables of each run whose scores hold them. named: name and scores of each run."""
    for name, scores in named:
        if not (rows := scores.cross_site):
            continue
        sizes = {client: next(iter(metrics.values())).count for client, metrics in next(iter(rows.values())).items()}
        heads: Heads = ["trained at", *(Column(f"{client} [{count}]", "%") for client, count in sizes.items())]
        known = next(iter(next(iter(rows.values())).values()))  # not names of single columns
        for metric in (name for name in shown(scores, metrics) if name in known):
            lines = [[model, *(tested[client][metric].last for client in sizes)] for model, tested in rows.items()]
            yield Table.of(f"Trained at and tested on: {title(metric)}, {name or scores.name}", heads, lines, LEGEND)


def adapted(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table of all images and one for each attribute, of each version of them, of each run that has such scores.

    named: name and scores of each run.
    """
    for name, scores in named:
        cells: dict[tuple[str, str], Cells] = {}
        for each in scores.adapted.scores if scores.adapted else ():
            if not each.attribute or each.metric != "accuracy":  # which of groups finds no room
                of_group = cells.setdefault((each.version, each.attribute), {}).setdefault(each.group, {})
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


def _table(caption: str, attribute: str, groups: Cells, members: dict[str, Score], legend: str) -> Table:
    """Each row says by itself whose it is and of which adaptation: a wide table repeats its first column alone."""
    rows: list[list[str | Cell]] = []
    changed: list[str] = []
    scored = {group: of for group, of in groups.items() if any(each.value is not None for each in of[AS_TRAINED])}
    for group, adaptations in scored.items():
        whose = f"{group or 'gap'}{DAGGER * bool(members.get(group, Score()).small)}, " if attribute else ""
        for adaptation, scores in adaptations.items():
            first = adaptation == AS_TRAINED
            images = f"{scores[0].images:,}" if first and (group or not attribute) else ""
            values = [percent(each.value) if first else _change(each) for each in scores]
            rows.append([f"{whose}{adaptation}", images, *values])
            if beyond := [f"{way} {title(each.metric)}" for each in scores if (way := _direction(each))]:
                changed.append(f"{whose}{adaptation}: {', '.join(beyond)}")
    shown = [Column(title(each.metric), "%") for each in next(iter(groups.values()))[AS_TRAINED]]
    heads: Heads = [f"{attribute}, adapted" if attribute else "adapted", "images", *shown]
    verdict = f"Changes whose interval leaves 0 out: {'; '.join(changed)}." if changed else SAME
    return Table.of(caption, heads, rows, f"{verdict} {legend}".strip())


def _direction(score: AdaptedScore) -> str:
    """The side of zero on which the interval of a change lies, in words; "" where it holds zero or there is none."""
    if score.low is None or score.high is None:
        return ""
    return "higher" if apart(score.low, 0.0) > 0 else "lower" if apart(score.high, 0.0) < 0 else ""


def _change(score: AdaptedScore) -> Cell:
    if score.difference is None:
        return Cell()
    bounds = "" if score.low is None or score.high is None else f" ({100 * score.low:.1f} to {100 * score.high:.1f})"
    return Cell(f"{100 * score.difference:+.1f}{bounds}")
