"""The rows of a report as tables, with their marks, and in every format.

The best of a column is marked where its lead over all comparable rows is significant, or where no column has a test;
the legend says which. What a group too small to be reliable decides is never the best.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import console
from ..compare.cautions import levelling_down
from ..compare.systems import BEST, LAST, LAST5, Quantity
from ..compare.tested import Leads
from ..compare.verdict import ENOUGH, SIGNIFICANT
from ..errors import UsageError, nearest
from ..metrics import RESAMPLED
from ..scores.choice import DISTANCE, WORST
from ..scores.parts import VERSIONS
from . import writers
from .columns import POOLED, Value
from .row import Row
from .rows import notes
from .table import Cell, Column, Table, mark, number, percent

FORMATS = "markdown", "latex", "csv", "json"
MOMENTS = {
    LAST5: "mean over the last five rounds (all rounds of a shorter run) ± population standard deviation over them",
    LAST: "the score of the last round's model",
    BEST: "the score of the model from the round with the highest balanced_accuracy on the clients' validation images",
}
SEEDS = {
    POOLED: "A row of several seeds shows the mean of its runs' means ± the population standard deviation over {all} "
    "of all its runs.",
    "runs": "A row of several seeds shows the mean of its runs' means ± the sample standard deviation (ddof 1) of "
    "those means.",
}
LOWER = "Gaps, standard deviations and differences are better when low; groups are those of the clean test set."
AMONG = " among rows of the same data and rounds"
UNRANKED = "No best is marked, as no two rows share data and rounds."
TESTED = (
    "{mark} marks the best of a column{among} if it is significantly better than every other row in paired tests over "
    "{over} (p below {level:g} after Bonferroni's correction for the number of other rows)."
)
MODELS_ALONE = "With {samples} this holds for these trained models, not for training again."
UNTESTED = "{mark} marks the best of a column{among}; no test stands behind it."
OTHERS = "Columns of other quantities have no test here, and so no mark."
DOUBTS = "† marks a number decided by a group that is too small or lacks a class; it is never marked as the best."
CALIBRATION = "calibration_error is better when low (15 bins of equal width)."
OWN = (
    "Mean among clients, own model: each client's own model on the client's test images, averaged over clients (pFL in "
    "Fed-MAS); global model: the one model shared by all on the same images (on all test images: gFL in Fed-MAS, here "
    "clean)."
)
SHOTS = (
    "Head, medium and tail recall: the mean recall of the classes with many, some and few training images, on the "
    "clean test set."
)
VIEWS = (
    "A row 'true group at test' is of a model that is given the group of each test image; 'group-blind' is the same "
    "model without it, as in a clinic that does not know the group or may not use it."
)
BYTES = (
    "MB (10^6 bytes) sent to (down) and by (up) each client in a round, mean over clients and rounds: the trained "
    "parameters and what the method sends beside them."
)
OF_RUN = "method", "label", "rule", "settings", "rounds", "roster_size", "sample"  # in JSON
OF_ROW = (
    "name", "view", "runs", "seeds", "drawn", "options", "data", "attributes", "warning", "small_groups", "shot_groups",
    "differs", "mark", "at", "spread", "minutes", "bytes",
)  # fmt: skip
DOWN, UP = "MB down per client and round", "MB up per client and round"


@dataclass(frozen=True)
class Report:
    """Tables of the same rows: all scores, then what lies between the groups of each attribute.

    whole: all columns in one table. legend: what the numbers are, with {mark} for how the best is marked.
    """

    rows: Sequence[Row]
    whole: Table
    tables: Sequence[Table]
    notes: Sequence[str]
    _legend: str

    def legend(self, marked: str = "*") -> str:
        """A legend of the numbers. marked: how the best of a column is marked."""
        return self._legend.replace("{mark}", marked)


def report(rows: list[Row], *, long_names: bool = False) -> Report:
    """Tables of rows with their marks; the tests that a mark needs are made here."""
    columns = _columns(rows)
    leads = Leads([row.scored for row in rows], list(dict.fromkeys(column.name for column in columns)))
    marked = [_marked(rows, column, leads) for column in columns]
    if leads.samples is not None:  # a mark means one thing in a table: significantly better
        marked = [
            _marked(rows, column, leads) if _has_test(column) else [replace(cell, best=False) for cell in cells]
            for column, cells in zip(columns, marked, strict=True)
        ]
    names = [[row.long_name if long_names else row.name, row.scores.rule] for row in rows]
    costs = _costs(rows)
    lines = [
        [*name, *cells, *(column[place] for column in costs.values())]
        for place, (name, *cells) in enumerate(zip(names, *marked, strict=True))
    ]
    whole = Table.of("", ["method", "rule", *columns, *costs], lines)
    same = [(row.name, row.scored) for row in rows if not row.is_view and row.data == rows[0].data]
    said = [*notes(rows), *levelling_down(same)]
    return Report(rows, whole, _parts(rows, whole), said, _legend(rows, whole, leads))


def render(rows: list[Row], format: str) -> str:
    """The rows as markdown, latex, csv or json. Raises UsageError for another format."""
    if format not in FORMATS:
        raise UsageError(f"unknown report format {format!r}", nearest(format, FORMATS))
    made = report(rows, long_names=format == "csv")
    if format == "csv":
        return writers.comma_separated(made.whole)
    if format == "json":
        return _json(made)
    remarks = [f"Note: {note}." for note in made.notes]
    if format == "latex":
        return writers.latex(made.whole, [made.legend("Bold"), *remarks])
    parts = [f"{table.title}:\n\n" * bool(table.title) + writers.markdown(table) for table in made.tables]
    return console.printable("\n\n".join([*parts, "\n".join([made.legend(), *remarks])]) + "\n")


def _columns(rows: list[Row]) -> list[Column]:
    """Columns in which some row has a number."""
    known = {name: value.lower for row in rows for name, value in row.cells.items() if value.mean is not None}
    columns = []
    for title in dict.fromkeys(name for row in rows for name in row.cells if name in known):
        over, _, name = title.partition(" ")
        over, name = (over, name) if over in VERSIONS else ("", title)
        columns.append(Column(name, "%", over, known[title]))
    return columns


def _marked(rows: list[Row], column: Column, leads: Leads) -> list[Cell]:
    """The cells of a column with the best marked: significantly better; where nothing in the table has a test, best."""
    values = [row.cells.get(column.title, Value(None)) for row in rows]
    cells = [
        percent(value.mean, value.std, doubtful=column.title in row.doubtful)
        for row, value in zip(rows, values, strict=True)
    ]
    others = sum(cell.number is not None for cell in cells) - 1

    def leading(first: int, second: int) -> bool:
        one_view = not rows[first].is_view and not rows[second].is_view  # which predictions are of
        tested = one_view and rows[first].at == LAST5 and column.over
        better = leads.test(Quantity(column.over, column.name), first, second, others) if tested else None
        return leads.samples is None if better is None else better

    return mark(column, cells, [row.comparable for row in rows], leading)


def _has_test(column: Column) -> bool:
    """Tell whether the paired tests are of this quantity: a score on a version of the test images."""
    return bool(column.over) and column.name in RESAMPLED


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
    """The table without groups, then one for each attribute, its name left out of the headings."""
    names = dict.fromkeys(name for row in rows for name in row.attributes)
    by_attribute: dict[str, list[int]] = {"": [], **{name: [0, 1] for name in names}}
    for place, column in enumerate(whole.columns):
        of = (name for name in names if column.title.startswith(f"{name} "))
        by_attribute[max(of, key=len, default="")].append(place)
    tables = []
    for name, places in by_attribute.items():
        part = whole.only(places)
        if name:
            columns = [replace(c, name=c.title.removeprefix(f"{name} "), over="") for c in part.columns]
            part = replace(part, title=f"Groups by {name}", columns=columns)
        tables += [part] if not name or len(places) > 2 else []
    return tables


def _legend(rows: list[Row], whole: Table, leads: Leads) -> str:
    """A legend of the numbers and the marks, and the columns that not every table has."""
    titles = " ".join(column.title for column in whole.columns)
    there = {
        f"In percent: {_numbers(rows)}": True,
        _marks(rows, whole, leads): True,
        DOUBTS: any(cell.doubtful for row in whole.rows for cell in row),
        LOWER: any(column.lower for column in whole.columns),
        CALIBRATION: "calibration_error" in titles,
        SHOTS: " recall" in titles,
        OWN: "own model" in titles,
        BYTES: DOWN in titles,
        VIEWS: any(row.view for row in rows),
    }
    return " ".join(words for words, needed in there.items() if needed and words)


def _numbers(rows: Sequence[Row]) -> str:
    """Of which models the numbers are, and over what they spread."""
    at, spread = rows[0].at, next((row.spread for row in rows if row.spread), None)
    metric = next((kept["metric"] for row in rows for kept in row.chosen), "")
    shown = MOMENTS[at]
    if at == BEST and metric.startswith((DISTANCE, WORST)):
        how = "smallest" if metric.startswith(DISTANCE) else "highest"
        shown = f"the score of the kept model with the {how} {metric} on the clients' validation images"
    every = "the rounds" if at == LAST5 else "the models"
    return f"{shown}.{f' {SEEDS[spread].format(all=every)}' if spread else ''}"


def _marks(rows: list[Row], whole: Table, leads: Leads) -> str:
    """A sentence on how the best is found; "" of a single row."""
    keys = [row.comparable for row in rows if not row.is_view]
    if len(rows) < 2:
        return ""
    if len({*keys}) == len(keys) > 1:
        return UNRANKED
    among = AMONG if len({*keys}) > 1 else ""
    if leads.samples is None:
        return UNTESTED.replace("{among}", among)
    enough = leads.samples >= ENOUGH
    over = f"the test patients and over {leads.over}" if enough else "the test patients"
    alone = MODELS_ALONE.format(samples=console.counted(leads.samples, leads.over[:-1], leads.over))
    tested = TESTED.replace("{mark}", "{{mark}}").format(among=among, over=over, level=SIGNIFICANT)
    others = not all(map(_has_test, whole.columns[2:]))
    return " ".join([tested, *([] if enough else [alone]), *([OTHERS] if others else [])])


def _json(made: Report) -> str:
    """Numbers in full, with the marks of each."""
    lines = []
    for row, line in zip(made.rows, made.whole.rows, strict=True):
        marked = {column.title: cell for column, cell in zip(made.whole.columns, line, strict=True)}
        of_best = {"chosen": row.chosen, "left_out": row.left_out} if row.at == BEST else {}
        cells = {
            name: {"mean": value.mean, "std": value.std, "lower_is_better": value.lower}
            | {"best": cell.best, "small_group_decides": cell.doubtful}
            for name, value in row.cells.items()
            for cell in [marked.get(name, Cell())]
        }
        of_run = {key: getattr(row.scores, key) for key in OF_RUN}
        lines.append(of_run | {key: getattr(row, key) for key in OF_ROW} | of_best | {"cells": cells})
    body = {"legend": f"shares from 0 to 1: {_numbers(made.rows)}", "notes": list(made.notes), "rows": lines}
    return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
