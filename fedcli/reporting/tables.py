"""The rows of a report as tables, with their marks, and in every format; what all rows share is said once, above.

The best of a column is marked where its lead over all comparable rows is significant, or where no column has a test;
the legend says which. What a group too small to be reliable decides is never the best.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from .. import console
from ..comparison.cautions import levelling_down
from ..comparison.systems import BEST, LAST5
from ..comparison.tested import Leads, order
from ..comparison.verdict import ENOUGH, SIGNIFICANT
from ..errors import UsageError, nearest
from ..metrics import RESAMPLED
from ..scores import numbers, views
from ..scores.parts import AVERAGE, MODELS
from ..scores.table import Where
from . import by_group, comparison, head, writers
from .columns import Value
from .row import Row
from .rows import has_two_rules, notes, shortened
from .table import Cell, Column, Table, mark, number, percent

FORMATS = "markdown", "latex", "csv", "json"
AMONG = " among rows of the same data and rounds"
UNRANKED = "No best is marked: no two rows share data and rounds."
TESTED = "{mark}: the best{among}, significantly better than every other row over {over} (p < {level:g}, Bonferroni)."
MODELS_ALONE = (
    "{mark}: the best{among}, significantly better than every other row over test patients (p < {level:g}, "
    "Bonferroni); {trained} each."
)
UNTESTED = "{mark}: the best of the column{among}, not tested."
SIGNIFICANTLY = f"Significant: p < {SIGNIFICANT:g} in a bootstrap test over test patients, adjusted over the rows (Holm)."
GROUPS = {
    "worst": "worst: the group that scores lowest",
    "gap": "gap: the best group minus the worst",
    "ES-AUC": "ES-AUC: AUC divided by one plus the sum of its distances to the groups' AUCs",
}
DOWNWARD = "↓"  # behind the head of numbers that are better when low
LOWER = f"{DOWNWARD} lower is better."
CALIBRATION = "Calibration error: 15 bins of equal width."
OWN = "Own model: each client's own on its test images (pFL in Fed-MAS); global model: the shared one there (gFL)."
SHOTS = "Head, medium and tail classes have many, some and few training images."
VIEWS = "True group at test: the model is told the group of each test image; group-blind: the same model without it."
BYTES = (
    "MB (10^6 bytes) sent to (down) and by (up) each client in a round, mean over clients and rounds: the trained "
    "parameters and what the method sends beside them."
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
class Report:
    """Tables of the same rows: all scores, then what lies between groups.

    whole: all columns in one table, under their ids. about: what all rows share. measured: what the numbers are.
    verdicts: which rows differ from the first, and by how much; levelled: whose gap is smaller as no group gained.
    legends: a line for each sign, for tests and for methods. captions: of each table what it shows, and what the first
    has not said.
    """

    rows: Sequence[Row]
    whole: Table
    tables: Sequence[Table]
    about: Sequence[str]
    measured: Sequence[str]
    verdicts: Sequence[str]
    levelled: Sequence[str]
    notes: Sequence[str]
    legends: Sequence[str]
    captions: Sequence[Sequence[str]]


def report(rows: list[Row], *, long_names: bool = False, best: str = "*") -> Report:
    """Tables of rows with their marks; the tests that a mark needs are made here. best: how the best is marked."""
    columns = _columns(rows)
    leads = Leads(
        [row.scored for row in rows],
        list(dict.fromkeys(_of(rows, column.key).metric for column in columns)),
    )
    marked = [_marked(rows, column, leads) for column in columns]
    if leads.samples is not None:  # a mark means one thing in a table: significantly better
        marked = [
            _marked(rows, column, leads)
            if _has_test(_of(rows, column.key))
            else [replace(cell, best=False) for cell in cells]
            for column, cells in zip(columns, marked, strict=True)
        ]
    whole_names = [
        replace(row, short=row.scores.label).named(row.differs) if long_names else row.name
        for row in rows
    ]
    names = [[name, row.scores.rule] for name, row in zip(whole_names, rows, strict=True)]
    costs = _costs(rows)
    lines = [
        [*name, *cells, *(column[place] for column in costs.values())]
        for place, (name, *cells) in enumerate(zip(names, *marked, strict=True))
    ]
    whole = Table.of("", ["method", "rule", *columns, *costs], lines)
    shown = shortened(rows)
    parts = _parts(shown, whole)
    verdicts = [] if long_names else _verdicts(shown, leads, parts[0].digits if parts else 1)
    same = [
        place for place, row in enumerate(shown) if not row.is_view and row.data == rows[0].data
    ]
    systems = [(shown[place].name, shown[place].scored) for place in same]
    levelled = list(levelling_down(systems, lambda of, place: leads.row(same[0], same[place], of)))
    about, measured = (
        head.about(rows),
        head.columns_in_words(rows, [_of(rows, column.key) for column in columns]),
    )
    legends, *of_parts = (
        _legend(rows, table, leads, best, tested=bool(verdicts)) for table in (whole, *parts)
    )
    said = [*about, *measured, *verdicts]
    said += [line for legend in of_parts[:1] for line in legend if line not in said]
    captions = [said, *([line for line in legend if line not in said] for legend in of_parts[1:])][
        : len(parts)
    ]
    remarks = [*notes(shown), *levelled]
    return Report(
        rows, whole, parts, about, measured, verdicts, levelled, remarks, legends, captions
    )


def render(rows: list[Row], format: str) -> str:
    """The rows as markdown, latex, csv or json. Raises UsageError for another format."""
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}", nearest(format, FORMATS))
    made = report(rows, long_names=format == "csv", best="Bold" if format == "latex" else "*")
    if format == "csv":
        return writers.comma_separated(made.whole)
    if format == "json":
        return _json(made)
    remarks = [f"Note: {note}." for note in made.notes]
    if format == "latex":
        return writers.latex(made.tables, made.captions, remarks)
    parts = [
        f"{table.title}:\n\n" * bool(table.title)
        + writers.markdown(table)
        + f"\n\n{table.legend}" * bool(table.legend)
        for table in made.tables
    ]
    below = "\n".join([*made.verdicts, *made.legends, *remarks])
    return console.printable(
        "\n\n".join(filter(None, [*made.about, *made.measured, *parts, below])) + "\n"
    )


def _columns(rows: list[Row]) -> list[Column]:
    known = {name for row in rows for name, value in row.cells.items() if value.mean is not None}
    versions = numbers.versions(scores for row in rows for scores in row.each)
    columns = []
    for key in dict.fromkeys(name for row in rows for name in row.cells if name in known):
        over, name = numbers.words(_of(rows, key), versions)
        columns.append(Column(name, "%", over, numbers.is_lower(_of(rows, key)), 2, key))
    return columns


def _of(rows: Sequence[Row], key: str) -> Where:
    return next((row.heads[key] for row in rows if key in row.heads), Where())


def _marked(rows: list[Row], column: Column, leads: Leads) -> list[Cell]:
    """The cells of a column with the best marked: significantly better; where nothing in the table has a test, best."""
    values = [row.cells.get(column.key, Value(None)) for row in rows]
    cells = [
        percent(value.mean, value.std, doubtful=column.key in row.doubtful)
        for row, value in zip(rows, values, strict=True)
    ]
    others, of = sum(cell.number is not None for cell in cells) - 1, _of(rows, column.key)

    def leading(first: int, second: int) -> bool:
        one_view = not rows[first].is_view and not rows[second].is_view  # which predictions are of
        tested = one_view and rows[first].at == LAST5 and _has_test(of)
        better = (
            leads.test(Where(of.version, metric=of.metric), first, second, others)
            if tested
            else None
        )
        return leads.samples is None if better is None else better

    return mark(column, cells, [row.comparable for row in rows], leading)


def _has_test(of: Where) -> bool:
    """Tell whether the paired tests are of this quantity: a score of all images of a version."""
    return of == Where(of.version, metric=of.metric) and bool(of.version) and of.metric in RESAMPLED


def _verdicts(rows: Sequence[Row], leads: Leads, digits: int) -> list[str]:
    """Sentences on the metrics shown by default, of each row against the first of the same data and rounds.

    digits: behind the point of the scores in the table.
    """
    own = [row for row in rows if not row.is_view]
    if len(own) < 2 or leads.samples is None or own[0].at != LAST5:
        return []
    versions = numbers.versions(scores for row in own for scores in row.each)
    systems = {row.name: row.scored for row in own if row.comparable == own[0].comparable}
    if len(systems) < 2:
        return []
    version = AVERAGE if all(MODELS[1] in row.scores.versions for row in own) else MODELS[0]
    where = (
        f" ({versions[version]})"
        if version == AVERAGE
        else f" on {versions.get(version, version)} images"
    )
    return [
        sentence
        for metric in own[0].scores.usual
        for sentence in comparison.said_against(
            order(systems, own[0].name, metric, version),
            own[0].name,
            comparison.spoken(metric) + where,
            digits=digits,
        )
    ]


def _costs(rows: list[Row]) -> dict[str, list[Cell]]:
    """Costs of training in time and bytes, where it was asked for: no score, so no best is marked."""
    costs = {}
    if any(row.bytes for row in rows):
        for name, way in ((DOWN, "down"), (UP, "up")):
            costs[name] = [megabytes(row.bytes[way] if row.bytes else None) for row in rows]
    if any(row.minutes is not None for row in rows):
        costs["minutes"] = [number(row.minutes) for row in rows]
    return costs


def megabytes(count: float | None) -> Cell:
    """Bytes in MB with three digits, of prompts of some thousand bytes as of models of hundreds of megabytes."""
    if count is None:
        return Cell()
    size = count / 1e6
    return Cell(f"{size:.0f}" if size >= 100 else f"{size:.3g}", number=size)


def _parts(rows: list[Row], whole: Table) -> list[Table]:
    """The table of all images, then one of what lies between groups; `rule` stands where one method has two."""
    rules = [[Cell(row.scores.rule)] for row in rows] if has_two_rules(rows) else [[] for _ in rows]
    before = [Column("method"), *([Column("rule")] if rules[0] else [])]
    between = [
        bool(of.attribute and not of.group)
        for of in (_of(rows, column.key) for column in whole.columns)
    ]
    tables = []
    for groups in (False, True):
        places = [at for at, column in enumerate(whole.columns) if at > 1 and between[at] == groups]
        overs = list(dict.fromkeys(whole.columns[at].over or at for at in places))
        places.sort(
            key=lambda at: overs.index(whole.columns[at].over or at)
        )  # those under one head together
        shown, title, said = [whole.columns[at] for at in places], "", list[str]()
        columns = [
            replace(
                column,
                digits=None,
                name=f"{column.name} {DOWNWARD}" if column.lower else column.name,
            )
            for column in shown
        ]
        worst = [_lowest(rows, _of(rows, column.key)) for column in shown]
        if groups:
            of_all = {column.over.partition(": ")[2] for column in columns}
            title = f"Between groups of the clean images{f': {of_all.pop()}, %' if len(of_all) == 1 else ''}"
            said = [
                words
                for part, words in GROUPS.items()
                if any(column.name.startswith(part) for column in columns)
            ]
            if not of_all:
                columns = [
                    replace(column, over=column.over.partition(": ")[0], unit="")
                    for column in columns
                ]
        lines = [
            [Cell(row.name), *rule, *(line[at].rounded(1) if groups else line[at] for at in places)]
            for row, rule, line in zip(rows, rules, whole.rows, strict=True)
        ]
        for at, names in enumerate(worst):
            if len({*names} - {""}) == 1:
                columns[at] = replace(columns[at], name=f"{columns[at].name}: {max(names)}")
                continue
            for line, name in zip(lines, names, strict=True):
                line[len(before) + at] = replace(line[len(before) + at], whose=name)
        legend = f"{'; '.join(said)}." if said else ""
        tables += [Table.of(title, [*before, *columns], lines, legend)] if places else []
    return tables


def _lowest(rows: Sequence[Row], of: Where) -> list[str]:
    """Of each row the group that scores worst on average, where that is what a column is of; else ""."""
    if of.measure != views.WORST:
        return [""] * len(rows)
    names, of = [], of._replace(measure="")
    for row in rows:
        groups = row.scores.groups.get(of.attribute, {}).get(of.version, {}).get(of.metric, {})
        if any(score.hidden for score in groups.values()):
            groups = {}
        means = {
            group: row.value(of._replace(group=group)).mean for group in groups if not row.is_view
        }
        names.append("" if views.is_tied(means) else views.worst_of(means, of.metric))
    return names


def _legend(rows: list[Row], whole: Table, leads: Leads, best: str, *, tested: bool) -> list[str]:
    """A legend of the marks, of columns that not every table has, of tests and of methods.

    best: how the best is marked. tested: whether sentences say what is significant.
    """
    keys = " ".join(column.key or column.name for column in whole.columns)
    there = {
        LOWER: any(column.lower for column in whole.columns),
        _marks(rows, leads, best): any(cell.best for row in whole.rows for cell in row),
        UNRANKED: len(rows) > 1 and len({row.comparable for row in rows}) == len(rows),
        by_group.unreliable((of for row in rows for of in row.each), clients=True): any(
            cell.doubtful for row in whole.rows for cell in row
        ),
        CALIBRATION: "calibration_error" in keys,
        SHOTS: " recall" in keys,
        OWN: "own model" in keys,
        BYTES: DOWN in keys,
        VIEWS: any(row.view for row in rows),
        SIGNIFICANTLY: tested,
        head.rules(rows): True,
    }
    return [words for words, needed in there.items() if needed and words]


def _marks(rows: list[Row], leads: Leads, best: str) -> str:
    among = AMONG if len({row.comparable for row in rows if not row.is_view}) > 1 else ""
    if leads.samples is None:
        return UNTESTED.format(mark=best, among=among)
    over, trained = (
        f"patients and over {leads.over}",
        console.counted(leads.samples, "training", "trainings"),
    )
    text = TESTED if leads.samples >= ENOUGH else MODELS_ALONE
    return text.format(mark=best, among=among, over=over, level=SIGNIFICANT, trained=trained)


def _json(made: Report) -> str:
    lines = []
    for row, line in zip(made.rows, made.whole.rows, strict=True):
        marked = {column.key: cell for column, cell in zip(made.whole.columns, line, strict=True)}
        of_best = {"chosen": row.chosen, "left_out": row.left_out} if row.at == BEST else {}
        cells = {
            name: {
                "mean": value.mean,
                "std": value.std,
                "lower_is_better": numbers.is_lower(_of(made.rows, name)),
            }
            | {"best": cell.best, "small_group_decides": cell.doubtful}
            for name, value in row.cells.items()
            for cell in [marked.get(name, Cell())]
        }
        of_run = {key: getattr(row.scores, key) for key in OF_RUN}
        lines.append(
            of_run | {key: getattr(row, key) for key in OF_ROW} | of_best | {"cells": cells}
        )
    body = {
        "legend": f"shares from 0 to 1: {head.measured(made.rows)}.",
        "notes": list(made.notes),
        "rows": lines,
    }
    if ranks := [asdict(test) for test in comparison.rank_tests(made.rows)]:
        body["ranks"] = ranks
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
