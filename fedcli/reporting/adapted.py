"""The last round's model adapted to the test images, beside none: scores, and what each adaptation changes for whom."""

from collections.abc import Iterable, Iterator

from ..metrics import title
from ..scores import numbers
from ..scores.parts import AS_TRAINED, AdaptedScore
from ..scores.scores import Scores
from .table import DAGGER, Cell, Column, Heads, Table, percent

LEGEND = (
    "In %, last round's model. none: as it was trained; below it the change in points, with a 95 % interval over "
    "bootstrap resamples that both share. bn: batch-norm statistics of these images. prior: their class prior by EM. "
    "temperature: fitted to validation images. Labels of these images choose nothing. Calibration errors grow in "
    "resamples, so that their intervals are rough."
)
Cells = dict[str, dict[str, list[AdaptedScore]]]  # group -> adaptation -> of each metric


def tables(named: Iterable[tuple[str, Scores]]) -> Iterator[Table]:
    """A table of all images and one for each attribute, of each version of them, of each run that has such scores.

    named: name and scores of each run.
    """
    for name, scores in named:
        cells: dict[tuple[str, str], Cells] = {}
        for each in scores.adapted.scores if scores.adapted else ():
            if each.attribute and each.metric == "accuracy":  # of groups, for lack of room
                continue
            of_group = cells.setdefault((each.version, each.attribute), {}).setdefault(each.group, {})
            of_group.setdefault(each.adaptation, []).append(each)
        words = numbers.versions([scores])
        for (version, attribute), groups in cells.items():
            whose = f"{name or scores.name}{attribute and f', by {attribute}'}"
            caption = f"Adapted to the {words.get(version, version)} test images: {whose}"
            legend = LEGEND if (version, attribute) == [*cells][-1] else ""
            yield _table(
                caption, attribute, groups, {g: some.small for g, some in scores.members(attribute).items()}, legend
            )
        if scores.adapted and (prior := scores.adapted.prior):
            lines = [[where, *(of[each] for each in scores.classes)] for where, of in prior.items()]
            yield Table.of(
                f"Class prior: {name or scores.name}",
                ["images", *(Column(each, "%") for each in scores.classes)],
                lines,
            )


def _table(caption: str, attribute: str, groups: Cells, small: dict[str, str], legend: str) -> Table:
    rows: list[list[str | Cell]] = []
    for group, adaptations in groups.items():
        for adaptation, scores in adaptations.items():
            first = adaptation == AS_TRAINED
            whose = f"{group or 'gap'}{DAGGER * bool(small.get(group))}" if first else ""
            images = f"{scores[0].images:,}" if first and (group or not attribute) else ""
            values = [percent(each.value) if first else _change(each) for each in scores]
            rows.append([*([whose] if attribute else []), images, adaptation, *values])
    shown = [Column(title(each.metric), "%") for each in next(iter(groups.values()))[AS_TRAINED]]
    heads: Heads = [*([attribute] if attribute else []), "images", "adapted", *shown]
    return Table.of(caption, heads, rows, legend)


def _change(score: AdaptedScore) -> Cell:
    if score.difference is None:
        return Cell()
    bounds = "" if score.low is None or score.high is None else f" ({100 * score.low:.1f} to {100 * score.high:.1f})"
    return Cell(f"{100 * score.difference:+.1f}{bounds}")
