"""The rows of a report as tables, with their marks, and in every format; what all rows share is
said once, above.

The best of a column is marked if its lead over all comparable rows is significant, or if no column
has a test; the legend says which. A column that a group too small to be reliable decides has no
best.
"""

import json
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import console
from ..comparison.cautions import SPREADS, levelling_down
from ..comparison.systems import BEST, LAST5, grouped
from ..comparison.tested import Leads, can_test, order
from ..comparison.verdict import ENOUGH, SIGNIFICANT, Against
from ..data import units
from ..errors import UsageError, nearest
from ..printed import fixed
from ..scores import numbers, views
from ..scores.parts import MODELS
from ..scores.table import Number, Where
from . import comparison, head, writers
from .columns import Value
from .rows import (
    Rows,
    SystemRow,
    compared,
    gap_in_points,
    has_two_rules,
    notes,
    scores_of,
    shortened,
    systems_of,
    unique,
)
from .single_runs import unreliable
from .table import Cell, Column, ReportTable, mark, number, percent

FORMATS = "markdown", "latex", "csv", "json"
AMONG = " among rows of the same data and rounds"
UNRANKED = "No best is marked: no two rows share data and rounds."
TESTED = (
    "{mark}: the best{among}, significantly better than every other row over {over} (p < "
    "{level:g}, Bonferroni)."
)
MODELS_ALONE = (
    "{mark}: the best{among}, significantly better than every other row over test patients (p < "
    "{level:g}, Bonferroni); {trained} each."
)
UNTESTED = "{mark}: the best of the column{among}, not tested."
GROUPS = {
    "worst": "worst: the group that fares worst",
    "gap": "gap: the distance between the best and the worst group",
    "ES-AUC": "ES-AUC: AUC divided by one plus the sum of its distances to the groups' AUCs",
}
BETWEEN_GROUPS = "Between groups of the clean images"
DOWNWARD = "↓"  # behind the head of numbers that are better when low
LOWER = f"{DOWNWARD} lower is better."
CALIBRATION = "Calibration error: 15 bins of equal width."
OWN = (
    "Own model: each client's own on its test images (pFL in Fed-MAS); global model: the shared "
    "one there (gFL)."
)
SHOTS = "Head, medium and tail classes have many, some and few training images."
VIEWS = (
    "True group at test: the model is given the group of each test image; "
    "group-blind: the same model without it."
)
BYTES = (
    "MB (10^6 bytes) sent to (down) and by (up) each client in a round, mean over "
    "clients and rounds: the trained parameters and what the method sends in "
    "addition."
)
OF_RUN = "method", "label", "rule", "settings", "rounds", "roster_size", "sample"  # in JSON
OF_ROW = (
    "name",
    "view",
    "runs",
    "seeds",
    "drawn",
    "options",
    "data",
    "attributes",
    "warning",
    "small_groups",
    "shot_groups",
    "differs",
    "mark",
    "at",
    "spread",
    "minutes",
    "bytes",
)
DOWN, UP = "MB down per client and round", "MB up per client and round"


@dataclass(frozen=True)
class ScoresReport:
    """Tables of the same rows: all scores, then what lies between groups.

    whole: all columns in one table, under their ids. about: what all rows share. measured: what the
    numbers are.
    tests: of the scores that are shown, of each system against the first one; verdicts: these in
    words; levelled: whose gap is smaller as no group gained.
    legends: a line for each sign, for tests and for methods, also those that one table needs.
    captions: of each table what it shows, and what the first has not said.
    """

    rows: Rows
    whole: ReportTable
    tables: Sequence[ReportTable]
    about: Sequence[str]
    measured: Sequence[str]
    tests: Mapping[Where, Sequence[Against]]
    verdicts: Sequence[str]
    levelled: Sequence[str]
    notes: Sequence[str]
    legends: Sequence[str]
    legends_by_table: Sequence[Sequence[str]]
    captions: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Filled:
    """A column with a cell or text of each row, and whose numbers these are."""

    column: Column
    cells: Sequence[Any] = ()
    where: Where = Where()

    @property
    def is_between(self) -> bool:
        """Tell whether its numbers lie between the groups of an attribute."""
        return bool(self.where.attribute and not self.where.group)


def report(
    rows: Rows,
    *,
    long_names: bool = False,
    best: str = "*",
) -> ScoresReport:
    """Tables of rows with their marks; the tests that a mark needs are made here. best: how the
    best is marked.
    """
    columns = _columns(rows)
    leads = Leads([row.scored for row in rows], unique(column.where.metric for column in columns))
    # the first pass makes the tests: if there are any, marks mean one thing in all columns
    for column in columns:
        _cells(rows, column, leads)
    scores = [replace(column, cells=_cells(rows, column, leads)) for column in columns]
    short_rows = shortened(rows)
    names = [row.name for row in rows]
    if long_names:
        names = [replace(row, short=row.scores.label).named(row.differs) for row in rows]
    filled = [*scores, *_costs(rows)]
    whole = _table("", names, [row.scores.rule for row in rows], filled)
    tables = _parts(short_rows, filled)
    tests: Mapping[Where, Sequence[Against]] = {}
    if not long_names:
        tests = _tests(compared(short_rows), [column.where for column in scores], leads)
    verdicts = comparison.answers(
        tests,
        numbers.versions(scores_of(rows)),
        tables[0].digits if tables else 1,
    )
    subject, *details = head.about(rows)
    measured = head.columns_in_words(rows, [column.where for column in scores])
    captions = []
    legends = [_legend(rows, table, leads, best) for table in tables]
    shared = [f"Scores on {subject}", *details, *measured]
    for table, lines in zip(tables, legends):
        captions.append([line for line in lines if line not in shared])
        if table is tables[0]:
            captions[0] = shared = shared + captions[0]
    levelled = _levelled(short_rows, leads)
    return ScoresReport(
        rows=rows,
        whole=whole,
        tables=tables,
        about=[" ".join([subject, *details])],
        measured=measured,
        tests=tests,
        verdicts=verdicts,
        levelled=levelled,
        notes=[*notes(short_rows), *levelled],
        legends=_legend(rows, whole, leads, best),
        legends_by_table=legends,
        captions=captions,
    )


def render(rows: Rows, format: str) -> str:
    """The rows as markdown, latex, csv or json. Raises UsageError for another format."""
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}", nearest(format, FORMATS))
    best = "Bold" if format == "latex" else "*"
    tabled = report(rows, long_names=format == "csv", best=best)
    if format == "csv":
        return writers.comma_separated(tabled.whole)
    if format == "json":
        return _json(tabled)
    remarks = [f"Note: {note}." for note in tabled.notes]
    if format == "latex":
        return writers.latex(tabled.tables, tabled.captions, [*tabled.verdicts, *remarks])
    parts = [*tabled.about, *tabled.measured, "\n".join(tabled.verdicts)]
    for table in tabled.tables:
        title = f"{table.title}:" if table.title else ""
        parts += [title, writers.markdown(table), table.legend]
    parts.append("\n".join([*tabled.legends, *remarks]))
    text = "\n\n".join(filter(None, parts))
    return console.printable(f"{text}\n")


def _wheres(rows: Iterable[SystemRow]) -> Mapping[str, Where]:
    """Column -> whose numbers it has, by the first row with it."""
    return ChainMap(*(row.heads for row in rows))


def _columns(rows: Rows) -> list[_Filled]:
    """The columns of which some row has a number, in the order of the rows' cells, still without
    cells.
    """
    wheres = _wheres(rows)
    has_number: dict[str, bool] = {}
    for row in rows:
        for key, value in row.cells.items():
            has_number[key] = has_number.get(key, False) or value.mean is not None
    versions = numbers.versions(scores_of(rows))
    columns = []
    for key in has_number:
        if has_number[key]:
            where = wheres.get(key, Where())
            over, name = numbers.words(where, versions)
            column = Column(name, "%", over, numbers.is_lower(where), 2, key)
            columns.append(_Filled(column, where=where))
    return columns


def _cells(rows: Rows, filled: _Filled, leads: Leads) -> list[Cell]:
    """The cells of a column with the best marked: significantly better; if nothing in the table has
    a test, best.
    """
    column = filled.column
    where = filled.where
    has_test = _is_overall(where) and can_test(where.metric)
    cells = []
    for row in rows:
        value = row.cells.get(column.key, Value(None))
        cells.append(percent(value.mean, value.std, doubtful=column.key in row.doubtful))
    others = sum(cell.number is not None for cell in cells) - 1

    def is_better(index: int, other: int) -> bool:
        better = None
        has_view = rows[index].is_view or rows[other].is_view
        if has_test and not has_view and rows[index].at == LAST5:
            better = leads.test(where, index, other, others)
        return leads.samples is None if better is None else better

    if leads.samples is not None and not has_test:
        return cells
    return mark(column, cells, [row.comparable for row in rows], is_better)


def _tests(
    rows: Rows,
    wheres: Iterable[Where],
    leads: Leads,
) -> dict[Where, list[Against]]:
    """Tests of every system against the first one in the scores of all images that are shown: on
    each version of the images, or on both together where only that is shown.
    """
    if len(rows) < 2 or leads.samples is None or rows[0].at != LAST5:
        return {}
    systems = {row.name: row.scored for row in rows}
    tested = [where for where in wheres if _is_overall(where) and can_test(where.metric)]
    of_models = [where for where in tested if where.version in MODELS]
    tests = {}
    for where in of_models or tested:
        tests[where] = order(systems, rows[0].name, where.metric, where.version)
    return tests


def _is_overall(where: Where) -> bool:
    """Tell whether a score is of all images of a version: of others there are no paired tests."""
    return bool(where.version) and where == Where(where.version, metric=where.metric)


def _levelled(rows: Rows, leads: Leads) -> list[str]:
    """Sentences on the systems that level down compared with the first, of the rows of the same
    data.
    """
    data = rows[0].data
    indices = [k for k, row in enumerate(rows) if not row.is_view and row.data == data]
    systems = [(rows[k].name, rows[k].scored) for k in indices]
    return list(levelling_down(systems, lambda where, k: leads.row(indices[0], indices[k], where)))


def _costs(rows: Rows) -> list[_Filled]:
    """Costs of training in time and bytes, where it was asked for: no score, so no best is
    marked.
    """
    costs = []
    if any(row.bytes for row in rows):
        for name, way in ((DOWN, "down"), (UP, "up")):
            cells = [megabytes(row.bytes[way] if row.bytes else None) for row in rows]
            costs.append(_Filled(Column(name), cells))
    if any(row.minutes is not None for row in rows):
        costs.append(_Filled(Column("minutes"), [number(row.minutes) for row in rows]))
    return costs


def megabytes(count: Number) -> Cell:
    """Bytes in MB with three digits, of prompts of some thousand bytes as of models of hundreds of
    megabytes.
    """
    if count is None:
        return Cell()
    size = count / 1e6
    text = f"{size:.0f}" if size >= 100 else f"{size:.3g}"
    return Cell(text, number=size)


def _table(
    title: str,
    names: Sequence[str],
    rules: Sequence[str],
    columns: Sequence[_Filled],
    legend: str = "",
) -> ReportTable:
    """A table of these columns behind the rows' names and their rules, if there are any."""
    columns = [_Filled(Column("rule"), rules), *columns] if rules else columns
    columns = [_Filled(Column("method"), names), *columns]
    lines = zip(*[filled.cells for filled in columns])
    return ReportTable.of(
        title,
        [filled.column for filled in columns],
        lines,
        legend,
    )


def _parts(rows: Rows, columns: list[_Filled]) -> list[ReportTable]:
    """The table of all images, then one of what lies between groups; `rule` is shown if one method
    has two.
    """
    names = [row.name for row in rows]
    rules = [row.scores.rule for row in rows] if has_two_rules(rows) else []
    of_images = [_as_part(filled) for filled in columns if not filled.is_between]
    between = [_as_part(filled) for filled in columns if filled.is_between]
    tables = []
    if of_images:
        tables.append(_table("", names, rules, _by_heading(of_images)))
    if between:
        legend = []
        for measure, words in GROUPS.items():
            if any(filled.column.name.startswith(measure) for filled in between):
                legend.append(words)
        metric, between = _by_metric([_with_worst(filled, rows) for filled in between], rows)
        title = BETWEEN_GROUPS
        if metric:
            title += f": {metric}, %"
        text = f"{'; '.join(legend)}." if legend else ""
        tables.append(_table(title, names, rules, _by_heading(between), text))
    return tables


def _as_part(filled: _Filled) -> _Filled:
    """The column as a part of the table has it: with the mark of low numbers, and digits by the
    spreads.
    """
    column = replace(filled.column, digits=None)
    if column.lower:
        column = replace(column, name=f"{column.name} {DOWNWARD}")
    return replace(filled, column=column)


def _by_heading(columns: list[_Filled]) -> list[_Filled]:
    """The columns with those under one heading next to each other."""
    groups = grouped(columns, lambda filled: filled.column.over or filled.column.name)
    return [filled for group in groups for filled in group]


def _by_metric(columns: list[_Filled], rows: Rows) -> tuple[str, list[_Filled]]:
    """The metric in words and columns without it, if all columns are of one metric; else "" and the
    columns.
    """
    words = set()
    without = []
    for filled in columns:
        attribute = f"by {filled.where.attribute}"
        words.add(filled.column.over.removeprefix(f"{attribute}: "))
        column = replace(filled.column, over=attribute, unit="")
        cells = [cell.rounded(1) for cell in filled.cells]
        if filled.where.measure == views.GAP:
            cells = [_printed_gap(cell, row, filled.where) for cell, row in zip(cells, rows)]
        without.append(replace(filled, column=column, cells=cells))
    if len(words) > 1:
        return "", columns
    return words.pop(), without


def _printed_gap(cell: Cell, row: SystemRow, where: Where) -> Cell:
    """The cell with the gap that a table of the groups shows."""
    if cell.number is None:
        return cell
    return replace(cell, text=fixed(gap_in_points(row, where), 1))


def _with_worst(filled: _Filled, rows: Rows) -> _Filled:
    """A column of worst groups with the group's name: in the head if all rows have the same, else
    in the cells.
    """
    if filled.where.measure != views.WORST:
        return filled
    groups = [_lowest(row, filled.where) for row in rows]
    names = {group for group, cell in zip(groups, filled.cells) if cell.number is not None}
    if len(names) == 1 and "" not in names:
        column = replace(filled.column, name=f"{filled.column.name}: {names.pop()}")
        return replace(filled, column=column)
    cells = [replace(cell, whose=group) for cell, group in zip(filled.cells, groups)]
    return replace(filled, cells=cells)


def _lowest(row: SystemRow, where: Where) -> str:
    """The name of the group of a row that scores worst on average; "" if that is not known."""
    groups = row.scores.groups.get(where.attribute, {}).get(where.version, {})
    column = groups.get(where.metric, {})
    if row.is_view or any(score.hidden for score in column.values()):
        return ""
    of_group = where._replace(measure="")
    means = {group: row.value(of_group._replace(group=group)).mean for group in column}
    worst = views.worst_of(means, where.metric)
    return "" if views.is_tied(means) or not worst else console.listed(worst)


def _legend(
    rows: Rows,
    whole: ReportTable,
    leads: Leads,
    best: str,
) -> list[str]:
    """A legend of the marks, of columns that not every table has, and of methods.

    best: how the best is marked.
    """
    keys = " ".join(column.key or column.name for column in whole.columns)
    cells = [cell for row in whole.rows for cell in row]
    is_needed = {
        LOWER: any(column.lower for column in whole.columns),
        _marks(rows, leads, best): any(cell.best for cell in cells),
        UNRANKED: len(rows) > 1 and len({row.comparable for row in rows}) == len(rows),
        _unreliable(rows, whole): True,
        CALIBRATION: "calibration_error" in keys,
        SHOTS: " recall" in keys,
        OWN: "own model" in keys,
        BYTES: DOWN in keys,
        VIEWS: any(row.view for row in rows),
        head.rules(rows): True,
    }
    noun = rows[0].scores.noun
    return [units.worded(line, noun) for line, needed in is_needed.items() if needed and line]


def _unreliable(rows: Rows, whole: ReportTable) -> str:
    """A line on the small clients, and the small groups of each attribute, where a column of
    theirs is marked."""
    wheres = _wheres(rows)
    marked = []
    for column, cells in zip(whole.columns, whole.cells):
        if any(cell.doubtful for cell in cells):
            marked.append(wheres.get(column.key, Where()))
    of_clients = any(where.measure in SPREADS for where in marked)
    attributes = unique(where.attribute for where in marked if where.attribute)
    return unreliable(scores_of(rows), attributes, clients=of_clients)


def _marks(rows: Rows, leads: Leads, best: str) -> str:
    among = ""
    if len({row.comparable for row in systems_of(rows)}) > 1:
        among = AMONG
    if leads.samples is None:
        return UNTESTED.format(mark=best, among=among)
    text = TESTED if leads.samples >= ENOUGH else MODELS_ALONE
    return text.format(
        mark=best,
        among=among,
        over=f"patients and over {leads.over}",
        level=SIGNIFICANT,
        trained=console.counted(leads.samples, "training", "trainings"),
    )


def _json(tabled: ScoresReport) -> str:
    wheres = _wheres(tabled.rows)
    columns = [column.key for column in tabled.whole.columns]
    lines = []
    for row, cells in zip(tabled.rows, tabled.whole.rows):
        line = {key: getattr(row.scores, key) for key in OF_RUN}
        line |= {key: getattr(row, key) for key in OF_ROW}
        if row.at == BEST:
            line |= {"chosen": row.chosen, "left_out": row.left_out}
        cell_by_key = dict(zip(columns, cells))
        line["cells"] = {}
        for key, value in row.cells.items():
            cell = cell_by_key.get(key, Cell())
            line["cells"][key] = vars(value) | {
                "lower_is_better": numbers.is_lower(wheres.get(key, Where())),
                "best": cell.best,
                "small_group_decides": cell.doubtful,
            }
        lines.append(line)
    body: dict[str, Any] = {
        "legend": f"shares from 0 to 1: {head.measured(tabled.rows)}.",
        "notes": list(tabled.notes),
        "rows": lines,
    }
    ranks = [asdict(test) for test in comparison.rank_tests(tabled.rows)]
    if ranks:
        body["ranks"] = ranks
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
