"""The parts of the page about groups, one for each attribute, and about each of several labels per image: how good the
models are for each, and how much they differ."""

from collections.abc import Iterator, Mapping, Sequence, Set

from ...compare.cautions import doubtful_decisions, small_decides, small_groups
from ...compare.systems import LAST5
from ...console import capital
from ...metrics import METRICS, PARITY, title
from ...scores import numbers
from ...scores.groups import unknown_note
from ...scores.numbers import is_lower
from ...scores.scores import Scores
from ...scores.table import Where
from ...scores.views import compared as is_compared
from ..by_group import unreliable
from ..columns import Names, group_columns, shown
from ..row import Row
from ..section import Section
from ..table import DAGGER, Cell, Column, Table, mark

LEGEND = "In percent, as in the table of scores; [n]: test images of a group."
ROUNDS = " Worst group and gap are averages over rounds; they may not match the columns beside them."
OF_LABELS = "auc", "average_precision", "balanced_accuracy", "f1"
LABELS = (
    "In percent, on the clean test images; ± as in the table of scores. Images: test images that have the label. A "
    "label is decided for at a probability of 1/2. No best is marked, as no test is made for single labels."
)
LABEL_GROUPS = (
    "In percent, of the last round's model on the clean test images: the gap of the AUC between the best and the worst "
    "group, and the differences in decisions, all better when low."
)


def sections(compared: Sequence[Row], metrics: Sequence[str]) -> Iterator[Section]:
    """A section for each attribute that some system was scored by.

    metrics: shown beside the usual ones, where groups are compared by them.
    """
    for attribute in dict.fromkeys(name for row in compared for name in row.scores.groups):
        by = [row for row in compared if all(attribute in run.groups for run in row.each)]
        versions = list(dict.fromkeys(version for row in by for version in row.scores.groups[attribute]))
        scored = {metric for row in by for known in row.scores.groups[attribute].values() for metric in known}
        more = [metric for metric in metrics if is_compared(metric) and metric in scored]
        usual = list(dict.fromkeys([*shown(by[0].scores), *more]))
        words = numbers.versions(scores for row in by for scores in row.each)
        tables = {of: list(_tables(by, attribute, of, usual, words.get(of, of))) for of in versions}
        yield Section(
            f"group-{attribute}",
            f"Groups by {attribute}",
            tables=tables.pop("clean", []),
            folded=[table for folded in tables.values() for table in folded],
        )


def _tables(by: Sequence[Row], attribute: str, version: str, metrics: list[str], on: str) -> Iterator[Table]:
    """metrics: the last of them first, with what the numbers mean below the first of them. on: the version in words."""
    sizes, small = _sizes(by[0].scores, attribute), small_groups(by[0].scores, attribute)
    legend = _legend(by, attribute)
    for metric in reversed(metrics):
        names: Names = {}
        for scores in (scores for row in by for scores in row.each):
            names |= group_columns(scores, attribute, version, metric)
        yield from by_system(
            f"{capital(title(metric))}: {on} test images", by, names, heads=sizes,
            doubtful=[{*small} | small_decides(row.each, attribute, version, metric, row.at) for row in by],
            legend=legend if version == "clean" and metric == metrics[-1] else "",
        )  # fmt: skip
    names_of = [f"{name}{which}" for name in PARITY for which in ("", "_ovr_macro")]
    decisions = {name: Where(version, attribute=attribute, metric=name) for name in names_of}
    unsure = [doubtful_decisions(row.scores, attribute, list(decisions)) for row in by]
    words = {name: title(name.removesuffix("_ovr_macro")) for name in decisions}
    named, legend = f"Differences in decisions: {on} test images", _undefined(by, attribute, version)
    yield from by_system(named, by, decisions, heads=words, legend=legend, doubtful=unsure)


def _legend(by: Sequence[Row], attribute: str) -> str:
    legend = f"{LEGEND}{ROUNDS * (by[0].at == LAST5)} {unreliable(by[0].each, attribute)}".rstrip()
    if len(by) > 1:
        legend += " Bold marks the best, without a test."
    scores = by[0].scores
    missing = unknown_note(attribute, scores.grouped[attribute].unknown, scores.images)
    return f"{legend} {capital(missing)}." if missing else legend


def _sizes(scores: Scores, attribute: str) -> dict[str, str]:
    """A column's head for each group: its name and how many test images it has."""
    members, small = scores.members(attribute).items(), small_groups(scores, attribute)
    return {group: f"{group} [{score.count}]{f' {DAGGER}' * (group in small)}" for group, score in members}


def _undefined(by: Sequence[Row], attribute: str, version: str) -> str:
    scores = next(row.scores for row in by if version in row.scores.groups[attribute])
    missing = scores.grouped[attribute].undefined_rates
    left_out = f" Left out, as no image defines them: {', '.join(missing)}." if missing else ""
    unsure = " †: one group is too small, so the whole column is unreliable."
    unsure *= bool(small_groups(scores, attribute))
    mean = " Each is the mean over classes, each class against all others." * (len(scores.classes) > 2)
    return f"In percent, better when low.{mean}{unsure}{left_out}" * (version == "clean" or bool(left_out))


def of_labels(compared: Sequence[Row]) -> Section:
    return Section(
        "labels", "Each label", tables=list(_label_tables([row for row in compared if row.scores.several_labels]))
    )


def _label_tables(scored: Sequence[Row]) -> Iterator[Table]:
    """Scores of each label, then how much it differs between the groups of each attribute."""
    for metric in OF_LABELS if scored else ():
        yield _label_table(
            f"{capital(_of_label(metric))} of each label", scored, [Where("clean", metric=metric)], LABELS
        )
    for attribute in dict.fromkeys(name for row in scored for name in row.scores.groups):
        where = Where("clean", attribute=attribute)
        shown = [where._replace(metric="auc", measure="gap"), *(where._replace(metric=name) for name in PARITY)]
        yield _label_table(f"Each label between groups by {attribute}", scored, shown, LABEL_GROUPS)


def _of_label(metric: str) -> str:
    return title(f"{metric}_macro").partition(",")[0] if f"{metric}_macro" in METRICS else title(metric)


def _label_table(called: str, scored: Sequence[Row], shown: Sequence[Where], legend: str) -> Table:
    labels = scored[0].scores.labels["clean"]
    heads = [
        Column(" ".join(filter(None, [row.name, where.measure, _of_label(where.metric) * (len(shown) > 1)])))
        for row in scored
        for where in shown
    ]
    lines = [
        [
            label,
            next(iter(labels[label].overall["clean"].values())).count,
            *(row.cell(where._replace(label=label)) for row in scored for where in shown),
        ]
        for label in scored[0].scores.classes
        if label in labels
    ]
    return Table.of(called, ["label", "images", *heads], lines, legend)


def by_system(
    called: str, lines: Sequence[Row], names: Names, *,
    heads: Mapping[str, str] = {}, legend: str = "", doubtful: Sequence[Set[str]] = (),
) -> list[Table]:  # fmt: skip
    """A table with a row per system and a column for each number that some system has; none without one.

    heads: of columns that are not called by their name. doubtful: of each system, the columns whose number a small
    group decides.
    """
    columns, cells = [Column("method")], [[Cell(row.name) for row in lines]]
    unsure = doubtful or [set()] * len(lines)
    for name, where in names.items():
        column = [row.cell(where, doubtful=name in some) for row, some in zip(lines, unsure, strict=True)]
        if any(cell.number is not None for cell in column):
            columns.append(Column(heads.get(name, name), lower=is_lower(where)))
            cells.append(best_of(lines, column, is_lower(where)))
    return [Table(called, columns, list(zip(*cells, strict=True)), legend)] if len(columns) > 1 else []


def best_of(lines: Sequence[Row], cells: Sequence[Cell], lower: bool) -> list[Cell]:
    """The systems' cells with the best marked; these scores have no test."""
    return mark(Column("", lower=lower), cells, [row.comparable for row in lines], lambda first, second: True)
