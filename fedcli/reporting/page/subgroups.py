"""The parts of the page about groups, about each of several labels per image, and about clients:
how many images each has, how good the models are for each, and how much they differ.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from math import inf
from operator import itemgetter
from pathlib import Path

import numpy as np

from ... import printed
from ...comparison.cautions import (
    SCALED,
    doubtful_decisions,
    has_small_group,
    hidden_note,
    small_clients,
    small_decides,
    small_groups,
    unknown_group,
)
from ...comparison.systems import BEST
from ...console import capital
from ...data import image_counts, manifest
from ...metrics import METRICS, PARITY, better_low, title
from ...printed import fixed
from ...scores import numbers, views
from ...scores.scores import RunScores
from ...scores.table import Score, Where
from ...scores.views import ACROSS
from ...scores.views import compared as is_compared
from ..columns import Names, group_columns, joined, shown
from ..rows import Rows, SystemRow, differ, scores_of
from ..single_runs import unreliable
from ..table import DAGGER, Cell, Column, ReportTable, Section, mark, percent
from . import provenance

GROUPS = "In percent, as in the table of scores."
SIZES = "[n]: {images} of a group."
OVER_CLASSES = " Each is the mean over classes, each class against all others."
UNSURE = " †: one group is too small, so the whole column is unreliable."
MACRO = "_ovr_macro"  # each class against all others
OF_LABELS = "auc", "average_precision", "balanced_accuracy", "f1"
LABELS = (
    "In percent, on the clean test images; ± as in the table of scores. Images: test "
    "images that have the label. A label is assigned at a probability of 1/2. No "
    "best is marked, as no test is made for single labels."
)
LABEL_GROUPS = (
    "In percent, of the last round's model on the clean test images: the gap of the AUC between "
    "the best and the worst group, and the differences in decisions, all better when low."
)
UNSURE_LABEL = (
    " † marks a number for which all images, or those of a group, have too few patients, or too "
    "few with the label or without it."
)
SHARED = (
    "No client has test images of its own, so the scores are the same for all: on the clean test "
    "images for clean clients and on the corrupted ones for corrupted clients, as in the table of "
    "scores."
)
OWN = (
    "In percent: each client's own model if it has one, otherwise the global model, on the "
    "client's own test images if it has any, otherwise on all; ± as in the table of scores. † "
    "marks a client with too few test images, or too few of a class."
)
DIFFERING = " A corrupted client's test images are corrupted as its training images are."
EQUITY = (
    "In percent, on the client's own test images; ± as in the table of scores. The groups of one "
    "client are often too small for a reliable score, so no best is marked."
)
ROSTER = "Images of each of the client's own parts, then its training images by class."
BEST_OF = " Bold marks the best for a client, without a test."
OF_ATTRIBUTE = "Images of each part; all: the whole test set."
CLASSES = 24  # more of them make no table
OPEN = 10  # clients of a table that is folded
LONG = 20  # rows from which on a table is folded
Tables = tuple[list[ReportTable], list[ReportTable]]  # open and folded ones


def of_groups(compared: Rows, metrics: Sequence[str]) -> Iterator[Section]:
    """A section for each attribute that some system was scored by.

    metrics: shown beside the usual ones, where groups are compared by them.
    """
    for attribute in dict.fromkeys(chain.from_iterable(row.scores.groups for row in compared)):
        rows = [row for row in compared if _has_groups(row, attribute)]
        yield _group_section(rows, attribute, metrics)


def _has_groups(row: SystemRow, attribute: str) -> bool:
    return all(attribute in run.groups for run in row.each)


def _group_section(
    rows: Rows,
    attribute: str,
    metrics: Sequence[str],
) -> Section:
    """Tables of clean images, and folded those of other versions."""
    usual = [*shown(rows[0].scores), *filter(is_compared, metrics)]
    scored = {*shown(rows[0].scores)}
    for row in rows:
        scored.update(*row.scores.groups[attribute].values())
    usual = list(dict.fromkeys(metric for metric in usual if metric in scored))
    words = numbers.versions(scores_of(rows))
    tables: list[ReportTable] = []
    folded: list[ReportTable] = []
    for version in dict.fromkeys(chain.from_iterable(row.scores.groups[attribute] for row in rows)):
        of_version = tables if version == "clean" else folded
        images = f"{words.get(version, version)} test images"
        of_version += _group_tables(rows, attribute, version, usual, images)
        of_version += _decisions(rows, attribute, version, images)
    title = f"Groups by {attribute}"
    return Section(f"group-{attribute}", title, tables=tables, folded=folded)


def _group_tables(
    rows: Rows, attribute: str, version: str, metrics: list[str], images: str
) -> Iterator[ReportTable]:
    """A table of each metric, the last of them first, with what the numbers mean below the first of
    them.
    """
    heads = _group_heads(rows, attribute)
    for metric in reversed(metrics):
        names: Names = {}
        for scores in scores_of(rows):
            names |= group_columns(scores, attribute, version, metric)
        unsure = [_unsure(row, attribute, version, metric) for row in rows]
        legend = ""
        if version == "clean" and metric == metrics[-1]:
            legend = _groups_legend(rows, attribute)
        yield from _by_system(
            f"{capital(title(metric))}: {images}", rows, names, heads, legend, unsure
        )


def _group_heads(rows: Rows, attribute: str) -> dict[str, str]:
    """The groups with their sizes, where all test sets have the same, and a mark where one is small
    in all of them.
    """
    runs = scores_of(rows)
    has_sizes = _has_equal_groups(runs, attribute)
    small_by_run = [small_groups(scores, attribute) for scores in runs]
    heads = {}
    for scores in runs:
        for group, score in scores.members(attribute).items():
            heads[group] = f"{group} [{score.size}]" if has_sizes else group
            if all(group in small for small in small_by_run):
                heads[group] += f" {DAGGER}"
    return heads


def _has_equal_groups(runs: Sequence[RunScores], attribute: str) -> bool:
    """Tell whether the groups have as many test images in all runs."""
    sizes = []
    for scores in runs:
        members = scores.members(attribute)
        sizes.append({group: score.size for group, score in members.items()})
    return not differ(sizes)


def _groups_legend(rows: Rows, attribute: str) -> str:
    """The meaning of the numbers and marks in tables of groups, and the images that have no group
    or are hidden.
    """
    runs = scores_of(rows)
    sentences = [GROUPS]
    if _has_equal_groups(runs, attribute):
        images = "scored images" if runs[0].unscored else "test images"
        sentences.append(SIZES.format(images=images))
    sentences.append(unreliable(runs, [attribute]))
    sentences.append(hidden_note(runs, attribute))
    if len(rows) > 1:
        sentences.append(
            "Bold marks the best, without a test; never a gap that is smaller only because "
            "groups lost."
        )
    unknown = unknown_group(runs, attribute)
    if unknown:
        sentences.append(f"{capital(unknown)}.")
    return " ".join(filter(None, sentences))


def _decisions(
    rows: Rows,
    attribute: str,
    version: str,
    images: str,
) -> Iterator[ReportTable]:
    """The differences in decisions between the groups of an attribute."""
    names: Names = {}
    heads = {}
    for parity in PARITY:
        for metric in (parity, f"{parity}{MACRO}"):
            names[metric] = Where(version, attribute=attribute, metric=metric)
            heads[metric] = title(parity)
    scores = next(row.scores for row in rows if version in row.scores.groups[attribute])
    undefined = scores.grouped[attribute].undefined_rates
    legend = "In percent, better when low."
    if len(scores.classes) > 2:
        legend += OVER_CLASSES
    unsure = [doubtful_decisions(row.scores, attribute, list(names)) for row in rows]
    if any(unsure):
        legend += UNSURE
    if undefined:
        image = "scored image" if scores.unscored else "image"
        legend += f" Left out, as no {image} defines them: {', '.join(undefined)}."
    elif version != "clean":
        legend = ""
    yield from _by_system(f"Differences in decisions: {images}", rows, names, heads, legend, unsure)


def _unsure(
    row: SystemRow,
    attribute: str,
    version: str,
    metric: str,
) -> set[str]:
    """The columns of one system that a small group decides: its own, and those of all groups."""
    small: set[str] = set()
    for scores in row.each:
        small |= small_groups(scores, attribute, metric).keys()
    if has_small_group(row.each, attribute, metric):
        small |= {SCALED, *ACROSS}
    return small | small_decides(row.each, attribute, version, metric, row.at)


def of_labels(compared: Rows) -> Section:
    """Scores of each label, then how much it differs between the groups of each attribute."""
    scored = [row for row in compared if row.scores.several_labels]
    tables = []
    for metric in OF_LABELS if scored else ():
        name = f"{capital(_of_label(metric))} of each label"
        tables.append(_label_table(name, scored, [Where("clean", metric=metric)], LABELS))
    for attribute in dict.fromkeys(chain.from_iterable(row.scores.groups for row in scored)):
        gap = Where("clean", attribute=attribute, metric="auc", measure="gap")
        columns = [gap, *(gap._replace(metric=name, measure="") for name in PARITY)]
        name = f"Each label between groups by {attribute}"
        tables.append(_label_table(name, scored, columns, LABEL_GROUPS))
    return Section("labels", "Each label", tables)


def _of_label(metric: str) -> str:
    if f"{metric}_macro" in METRICS:
        return title(f"{metric}_macro").partition(",")[0]
    return title(metric)


def _label_table(
    name: str,
    scored: Rows,
    columns: Sequence[Where],
    legend: str,
) -> ReportTable:
    labels = scored[0].scores.labels["clean"]
    heads = ["label", "images"]
    for row in scored:
        for where in columns:
            metric = _of_label(where.metric) if len(columns) > 1 else ""
            heads.append(" ".join(filter(None, [row.name, where.measure, metric])))
    lines = []
    unsure = ""
    for label in scored[0].scores.classes:
        if label in labels:
            count = _images_with(label, scores_of(scored))
            wheres = [where._replace(label=label) for where in columns]
            cells = [_label_cell(row, where) for row in scored for where in wheres]
            if any(cell.doubtful for cell in cells):
                unsure = UNSURE_LABEL
            lines.append([label, count, *cells])
    return ReportTable.of(name, heads, lines, legend + unsure)


def _images_with(label: str, runs: Sequence[RunScores]) -> int | None:
    """The test images that have a label; None where the test sets differ in it."""
    counts = []
    for scores in runs:
        labels = scores.labels["clean"]
        if label in labels:
            any_score = next(iter(labels[label].overall["clean"].values()))
            counts.append(any_score.count)
    return None if differ(counts) else counts[0]


def _label_cell(row: SystemRow, where: Where) -> Cell:
    """The score of a label, or what lies between groups; in doubt where there are few patients,
    of a group too, or few have the label or few have it not.
    """
    scores = [numbers_of_run.get(where) for numbers_of_run in row.known]
    if where.attribute:
        scores = list(chain.from_iterable(_scores_of_groups(run, where) for run in row.each))
    doubtful = any(score and score.small for score in scores)
    return row.cell(where, doubtful=doubtful)


def _scores_of_groups(scores: RunScores, where: Where) -> list[Score]:
    """The AUC of a label in each group that has one."""
    of_label = scores.labels[where.version].get(where.label)
    if of_label is None:
        return []
    column = of_label.columns(where.attribute, where.version).get("auc", {})
    return [score for score in column.values() if score.last is not None]


def _by_system(
    name: str,
    rows: Rows,
    names: Names,
    heads: Mapping[str, str],
    legend: str,
    doubtful: Sequence[Set[str]],
) -> list[ReportTable]:
    """A table with a row per system and a column for each number that some system has; none without
    one.

    heads: of columns that are not called by their name. doubtful: of each system, the columns whose
    number a small group decides.
    """
    columns = [Column("method")]
    cells: list[Sequence[Cell]] = [[Cell(row.name) for row in rows]]
    for key, where in names.items():
        column = [row.cell(where, doubtful=key in unsure) for row, unsure in zip(rows, doubtful)]
        if where.measure == views.GAP:
            column = [_of_printed(gap, row, names) for gap, row in zip(column, rows)]
        if any(cell.number is not None for cell in column):
            lower = numbers.is_lower(where)
            columns.append(Column(heads.get(key, key), lower=lower))
            column = _with_best(rows, column, lower)
            if where.measure == views.GAP:
                for k, row in enumerate(rows):
                    if not _gains(row, rows[0], names):
                        column[k] = replace(column[k], best=False)
            cells.append(column)
    if len(columns) == 1:
        return []
    return [ReportTable(name, columns, list(zip(*cells)), legend)]


def _gains(row: SystemRow, reference: SystemRow, names: Names) -> bool:
    """Tell whether some group fares better than in the first row, the reference: else a smaller
    gap is no gain.
    """
    if row is reference:
        return True
    for where in names.values():
        if where.group:
            change = row.percent(where) - reference.percent(where)
            gain = -change if better_low(where.metric) else change
            if gain > 0:
                return True
    return False


def _of_printed(gap: Cell, row: SystemRow, names: Names) -> Cell:
    """A gap in the table of its groups: the difference of their scores as they stand there."""
    if gap.number is None:
        return gap
    scores = [row.cell(where).number for where in names.values() if where.group]
    digits = len(gap.text.partition(".")[2])
    return replace(gap, text=fixed(printed.gap(gap.number, scores, digits), digits))


def _with_best(rows: Rows, cells: Sequence[Cell], lower: bool) -> list[Cell]:
    """The systems' cells with the best marked; these scores have no test."""
    among = [row.comparable for row in rows]
    return mark(
        Column("", lower=lower),
        cells,
        among,
        lambda first, second: True,
    )


def of_clients(compared: Rows, metrics: Sequence[str]) -> Section:
    """Tables and words; of many clients those that fare worst, and the whole table folded."""
    pairs = list(_rosters(compared))
    text = []
    scored = [row for row in compared if row.scores.clients and row.at != BEST]
    if any(_has_own(row) for row in scored):
        pairs += _scores_of_clients(scored, metrics)
    elif scored:
        text.append(SHARED)
    tables = list(chain.from_iterable(tables for tables, _ in pairs))
    folded = list(chain.from_iterable(folded for _, folded in pairs))
    return Section(
        "clients",
        "Clients",
        tables=tables,
        folded=folded,
        text=text,
    )


def _has_own(row: SystemRow) -> bool:
    """Tell whether some client of a system has a model or test images of its own, or test images
    that are corrupted otherwise than another's.
    """
    clients = row.scores.clients.values()
    has_images = any(client.part == "own" or client.corruption for client in clients)
    return bool(row.scores.personal_models) or has_images


def _scores_of_clients(scored: Rows, metrics: Sequence[str]) -> Iterator[Tables]:
    """Each metric of each client, then what lies between the groups of each attribute; a legend
    below the first.
    """
    clients = list(chain.from_iterable(row.scores.clients.values() for row in scored))
    legend = OWN
    if any(client.corruption for client in clients):
        legend += DIFFERING
    for metric in metrics:
        name = f"{capital(title(metric))} of each client"
        yield from _client_tables(scored, name, legend, metric)
        legend = ""
    scaled = f"es_{scored[0].scores.usual[1]}"
    legend = EQUITY
    for attribute in dict.fromkeys(chain.from_iterable(client.groups for client in clients)):
        name = f"ES-AUC by {attribute} of each client"
        yield from _client_tables(scored, name, legend, scaled, attribute)
        legend = ""


def _rosters(compared: Rows) -> Iterator[Tables]:
    """The clients of each partition: their training images by class, and their parts."""
    rows_by_partition: dict[Path, list[SystemRow]] = {}
    for row in compared:
        partition = row.stage("partition")
        if partition:
            rows_by_partition.setdefault(partition, []).append(row)
    for path, rows in rows_by_partition.items():
        title = "Images of each client"
        if len(rows_by_partition) > 1:
            title += f" ({path.parent.name})"
        if rows[0].which_data:
            title += f", {rows[0].which_data}"
        yield _roster(title, manifest.read(path).body, rows)
        yield from _attributes(title, path)


def _roster(title: str, body: manifest.Body, rows: Rows) -> Tables:
    roster = body["roster"]
    corrupted = set()
    for row in rows:
        corrupted.update((row.scores.corruption or {}).get("clients", []))
    classes = body["classes"] if len(body["classes"]) <= CLASSES else []
    parts = [part for part in provenance.PARTS if any(map(itemgetter(part), roster))]
    lines = []
    for client in roster:
        images = "corrupted" if client["client"] in corrupted else "clean"
        counts = [client[part] for part in parts] + client["class_counts"][: len(classes)]
        lines.append([client["client"], images, *counts])
    table = ReportTable.of(
        title,
        ["client", "images", *parts, *classes],
        lines,
        ROSTER,
    )
    return _folded(
        table,
        [client["train"] for client in roster],
        "with the fewest training images",
    )


def _attributes(title: str, path: Path) -> Iterator[Tables]:
    """The images of each client by the values of each attribute, where Table 1 has not all
    clients.
    """
    if len(manifest.read(path).body["roster"]) <= provenance.CLIENTS:
        return
    for name, counts in image_counts.of_manifest(path).items():
        if name != image_counts.CLASS:
            table = ReportTable.of(
                f"{title}: {name}",
                *image_counts.lines(counts),
                OF_ATTRIBUTE,
            )
            yield ([], [table]) if len(table.rows) > LONG else ([table], [])


def _folded(table: ReportTable, order: Sequence[float], which: str) -> Tables:
    """The table itself, or, where it is long, the clients that come first in this order, and all of
    them folded.
    """
    if len(table.rows) <= LONG:
        return [table], []
    rows = [table.rows[row] for row in np.argsort(order, kind="stable")[:OPEN]]
    title = f"{table.title}: the {OPEN} of {len(table.rows):,} clients {which}"
    every = replace(table, title=f"{table.title}: all {len(table.rows):,} clients")
    return [replace(table, title=title, rows=rows)], [every]


def _client_tables(
    scored: Rows, title: str, legend: str, metric: str, attribute: str = ""
) -> Iterator[Tables]:
    """The best for each client is marked, but for what lies between the groups of an attribute."""
    columns = [_column(row, metric, attribute) for row in scored]
    lower = better_low(metric)
    rows = []
    order = []  # the worst first, then clients without a number
    for client in dict.fromkeys(chain.from_iterable(columns)):
        cells = [column.get(client, Cell()) for column in columns]
        numbers = [cell.number for cell in cells if cell.number is not None]
        mean = sum(numbers) / len(numbers) if numbers else inf
        order.append(-mean if lower and numbers else mean)
        rows.append([client, *(cells if attribute else _with_best(scored, cells, lower))])
    if min(order, default=inf) == inf:
        return
    score = "score"
    if len(scored) > 1:
        score = "mean over the methods"
        if legend and not attribute:
            legend += BEST_OF
    table = ReportTable.of(
        title,
        ["client", *(row.name for row in scored)],
        rows,
    )
    which = f"with the {'highest' if lower else 'lowest'} {score}"
    yield _folded(replace(table, legend=legend), order, which)


def _column(row: SystemRow, metric: str, attribute: str) -> dict[str, Cell]:
    """The number of each client over rounds and seeds, in doubt where it has few images."""
    scores_by_client: dict[str, list[Score | None]] = {}
    for run, (numbers_of_run, scores) in enumerate(zip(row.known, row.each)):
        for name, client in scores.clients.items():
            where = Where(
                client.version,
                attribute=attribute,
                client=name,
                metric=metric,
            )
            of_runs = scores_by_client.setdefault(name, [None] * row.runs)
            of_runs[run] = numbers_of_run.get(where)
    small = () if attribute else small_clients(row.scores, metric)
    cells = {}
    for name, of_runs in scores_by_client.items():
        if any(of_runs):
            value = joined(of_runs, row.over)
            cell = percent(value.mean, value.std, doubtful=name in small)
            cells[name] = cell.rounded(1)
    return cells
