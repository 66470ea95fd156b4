"""The parts of the page about groups, about each of several labels per image, and about clients: how many images each
has, how good the models are for each, and how much they differ."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import inf

from ...comparison.cautions import (
    SCALED,
    doubtful_decisions,
    has_small_group,
    hidden_note,
    small_clients,
    small_decides,
    small_groups,
)
from ...comparison.systems import BEST
from ...console import capital
from ...data import image_counts, manifest
from ...metrics import METRICS, PARITY, better_low, title
from ...scores import numbers
from ...scores.groups import unknown_note
from ...scores.table import Score, Where
from ...scores.views import ACROSS
from ...scores.views import compared as is_compared
from ..columns import Names, group_columns, joined, shown
from ..rows import Row
from ..single_runs import unreliable
from ..table import DAGGER, Cell, Column, Section, Table, mark, percent
from . import provenance

GROUPS = "In percent, as in the table of scores; [n]: test images of a group."
OVER_CLASSES = " Each is the mean over classes, each class against all others."
UNSURE = " †: one group is too small, so the whole column is unreliable."
OF_LABELS = "auc", "average_precision", "balanced_accuracy", "f1"
LABELS = (
    "In percent, on the clean test images; ± as in the table of scores. Images: test images that have the label. A "
    "label is decided for at a probability of 1/2. No best is marked, as no test is made for single labels."
)
LABEL_GROUPS = (
    "In percent, of the last round's model on the clean test images: the gap of the AUC between the best and the worst "
    "group, and the differences in decisions, all better when low."
)
SHARED = (
    "No client has test images of its own, so the scores are the same for all: on the clean test images for clean "
    "clients and on the corrupted ones for corrupted clients, as in the table of scores."
)
OWN = (
    "In percent: each client's own model if it has one, otherwise the global model, on the client's own test images if "
    "it has any, otherwise on all; ± as in the table of scores. † marks a client with too few test images, or too few "
    "of a class."
)
EQUITY = (
    "In percent, on the client's own test images; ± as in the table of scores. The groups of one client are often too "
    "small for a reliable score, so no best is marked."
)
BEST_OF = " Bold marks the best for a client, without a test."
OF_ATTRIBUTE = "Images of each part; all: the whole test set."
CLASSES = 24  # more of them make no table
OPEN = 10  # clients of a table that is folded
LONG = 20  # rows from which on a table is folded
Tables = tuple[list[Table], list[Table]]  # open and folded ones


def of_groups(compared: Sequence[Row], metrics: Sequence[str]) -> Iterator[Section]:
    """A section for each attribute that some system was scored by.

    metrics: shown beside the usual ones, where groups are compared by them.
    """
    for attribute in dict.fromkeys(name for row in compared for name in row.scores.groups):
        by = [row for row in compared if all(attribute in run.groups for run in row.each)]
        versions = list(
            dict.fromkeys(version for row in by for version in row.scores.groups[attribute])
        )
        scored = {
            metric
            for row in by
            for known in row.scores.groups[attribute].values()
            for metric in known
        }
        more = [metric for metric in metrics if is_compared(metric) and metric in scored]
        usual = list(dict.fromkeys([*shown(by[0].scores), *more]))
        words = numbers.versions(scores for row in by for scores in row.each)
        tables = {
            of: list(_group_tables(by, attribute, of, usual, words.get(of, of))) for of in versions
        }
        yield Section(
            f"group-{attribute}",
            f"Groups by {attribute}",
            tables=tables.pop("clean", []),
            folded=[table for folded in tables.values() for table in folded],
        )


def _group_tables(
    by: Sequence[Row], attribute: str, version: str, metrics: list[str], on: str
) -> Iterator[Table]:
    """metrics: the last of them first, with what the numbers mean below the first of them. on: the version in words."""
    first, small = by[0].scores, small_groups(by[0].scores, attribute)
    missing = unknown_note(attribute, first.grouped[attribute].unknown, first.images)
    sizes = {
        group: f"{group} [{score.size}]{f' {DAGGER}' if group in small else ''}"
        for group, score in first.members(attribute).items()
    }
    legend = f"{GROUPS} {unreliable(by[0].each, attribute)}".rstrip()
    hidden = hidden_note((scores for row in by for scores in row.each), attribute)
    if hidden:
        legend += f" {hidden}"
    legend += " Bold marks the best, without a test." * (len(by) > 1) + (
        f" {capital(missing)}." if missing else ""
    )
    for metric in reversed(metrics):
        names: Names = {}
        for scores in (scores for row in by for scores in row.each):
            names |= group_columns(scores, attribute, version, metric)
        unsure = [_unsure(row, attribute, version, metric) for row in by]
        below = legend if version == "clean" and metric == metrics[-1] else ""
        yield from by_system(
            f"{capital(title(metric))}: {on} test images", by, names, sizes, below, unsure
        )
    names_of = [f"{name}{which}" for name in PARITY for which in ("", "_ovr_macro")]
    decisions = {name: Where(version, attribute=attribute, metric=name) for name in names_of}
    unsure = [doubtful_decisions(row.scores, attribute, list(decisions)) for row in by]
    words = {name: title(name.removesuffix("_ovr_macro")) for name in decisions}
    known = next(row.scores for row in by if version in row.scores.groups[attribute])
    undefined = known.grouped[attribute].undefined_rates
    below = "In percent, better when low." + OVER_CLASSES * (len(known.classes) > 2)
    below += UNSURE * bool(small_groups(known, attribute))
    below += f" Left out, as no image defines them: {', '.join(undefined)}." if undefined else ""
    below *= version == "clean" or bool(undefined)
    yield from by_system(
        f"Differences in decisions: {on} test images", by, decisions, words, below, unsure
    )


def _unsure(row: Row, attribute: str, version: str, metric: str) -> set[str]:
    """The columns of one system that a small group decides: its own, and those of all groups."""
    small = {*small_groups(row.scores, attribute, metric)}
    if has_small_group(row.each, attribute, metric):
        small |= {SCALED, *ACROSS}
    return small | small_decides(row.each, attribute, version, metric, row.at)


def of_labels(compared: Sequence[Row]) -> Section:
    """Scores of each label, then how much it differs between the groups of each attribute."""
    scored, tables = [row for row in compared if row.scores.several_labels], []
    for metric in OF_LABELS if scored else ():
        name = f"{capital(_of_label(metric))} of each label"
        tables.append(_label_table(name, scored, [Where("clean", metric=metric)], LABELS))
    for attribute in dict.fromkeys(name for row in scored for name in row.scores.groups):
        where = Where("clean", attribute=attribute)
        shown = [
            where._replace(metric="auc", measure="gap"),
            *(where._replace(metric=name) for name in PARITY),
        ]
        tables.append(
            _label_table(f"Each label between groups by {attribute}", scored, shown, LABEL_GROUPS)
        )
    return Section("labels", "Each label", tables)


def _of_label(metric: str) -> str:
    return (
        title(f"{metric}_macro").partition(",")[0]
        if f"{metric}_macro" in METRICS
        else title(metric)
    )


def _label_table(called: str, scored: Sequence[Row], shown: Sequence[Where], legend: str) -> Table:
    labels = scored[0].scores.labels["clean"]
    heads = [
        Column(
            " ".join(
                filter(None, [row.name, where.measure, _of_label(where.metric) * (len(shown) > 1)])
            )
        )
        for row in scored
        for where in shown
    ]
    lines = [
        [
            label,
            next(iter(labels[label].overall["clean"].values())).count,
            *(_label_cell(row, where._replace(label=label)) for row in scored for where in shown),
        ]
        for label in scored[0].scores.classes
        if label in labels
    ]
    return Table.of(called, ["label", "images", *heads], lines, legend)


def _label_cell(row: Row, where: Where) -> Cell:
    """The score of a label, in doubt where few patients have it or few have it not; or what lies between groups."""
    score = row.known[0].get(where)
    return row.cell(where, doubtful=bool(score and score.small))


def by_system(
    called: str,
    lines: Sequence[Row],
    names: Names,
    heads: Mapping[str, str],
    legend: str,
    doubtful: Sequence[Set[str]],
) -> list[Table]:
    """A table with a row per system and a column for each number that some system has; none without one.

    heads: of columns that are not called by their name. doubtful: of each system, the columns whose number a small
    group decides.
    """
    columns, cells = [Column("method")], [[Cell(row.name) for row in lines]]
    for name, where in names.items():
        column = [
            row.cell(where, doubtful=name in some)
            for row, some in zip(lines, doubtful, strict=True)
        ]
        if any(cell.number is not None for cell in column):
            columns.append(Column(heads.get(name, name), lower=numbers.is_lower(where)))
            cells.append(best_of(lines, column, numbers.is_lower(where)))
    return (
        [Table(called, columns, list(zip(*cells, strict=True)), legend)] if len(columns) > 1 else []
    )


def best_of(lines: Sequence[Row], cells: Sequence[Cell], lower: bool) -> list[Cell]:
    """The systems' cells with the best marked; these scores have no test."""
    return mark(
        Column("", lower=lower),
        cells,
        [row.comparable for row in lines],
        lambda first, second: True,
    )


def of_clients(compared: Sequence[Row], metrics: Sequence[str]) -> Section:
    """Tables and words; of many clients those that fare worst, and the whole table folded."""
    pairs, text = list(_rosters(compared)), []
    scored = [row for row in compared if row.scores.clients and row.at != BEST]
    clients = [client for row in scored for client in row.scores.clients.values()]
    if any(row.scores.personal_models for row in scored) or any(
        client.part == "own" for client in clients
    ):
        for place, metric in enumerate(metrics):
            pairs += _client_tables(
                scored, f"{capital(title(metric))} of each client", OWN * (place == 0), metric
            )
        scaled = f"es_{scored[0].scores.usual[1]}"
        for place, name in enumerate(
            dict.fromkeys(name for client in clients for name in client.groups)
        ):
            pairs += _client_tables(
                scored, f"ES-AUC by {name} of each client", EQUITY * (place == 0), scaled, name
            )
    elif scored:
        text = [SHARED]
    shown = [table for tables, _ in pairs for table in tables]
    folded = [table for _, tables in pairs for table in tables]
    return Section("clients", "Clients", tables=shown, folded=folded, text=text)


def _rosters(compared: Sequence[Row]) -> Iterator[Tables]:
    """One table per partition: training images of each client by class, and its parts."""
    by_partition = {path: row for row in compared if (path := row.stage("partition"))}
    partitions = {
        path: [row for row in compared if row.stage("partition") == path] for path in by_partition
    }
    for path, rows in partitions.items():
        body = manifest.read(path).body
        corrupted = {
            client for row in rows for client in (row.scores.corruption or {}).get("clients", [])
        }
        classes = body["classes"] if len(body["classes"]) <= CLASSES else []
        parts = [part for part in ("train", "val", "test") if any(c[part] for c in body["roster"])]
        lines = [
            [
                c["client"],
                "corrupted" if c["client"] in corrupted else "clean",
                *(c[part] for part in parts),
                *c["class_counts"][: len(classes)],
            ]
            for c in body["roster"]
        ]
        legend = "Images of each of the client's own parts, then its training images by class."
        title = "Images of each client" + (f" ({path.parent.name})" if len(partitions) > 1 else "")
        whole = Table.of(title, ["client", "images", *parts, *classes], lines, legend)
        yield _folded(
            whole, [client["train"] for client in body["roster"]], "with the fewest training images"
        )
        for name, counts in image_counts.of_manifest(path).items():
            if (
                name != image_counts.CLASS and len(body["roster"]) > provenance.CLIENTS
            ):  # else in Table 1
                table = Table.of(f"{title}: {name}", *image_counts.lines(counts), OF_ATTRIBUTE)
                yield ([table], []) if len(table.rows) <= LONG else ([], [table])


def _folded(table: Table, order: Sequence[float], which: str) -> Tables:
    """The table itself, or, where it is long, the clients that come first in this order, and all of them folded."""
    if len(table.rows) <= LONG:
        return [table], []
    first = sorted(range(len(order)), key=lambda place: order[place])[:OPEN]
    title = f"{table.title}: the {OPEN} of {len(table.rows):,} clients {which}"
    every = replace(table, title=f"{table.title}: all {len(table.rows):,} clients")
    return [replace(table, title=title, rows=[table.rows[place] for place in first])], [every]


def _client_tables(
    scored: Sequence[Row], title: str, legend: str, metric: str, attribute: str = ""
) -> Iterator[Tables]:
    """The best for each client is marked, but for what lies between the groups of an attribute."""
    columns = [_column(row, metric, attribute) for row in scored]
    lower = better_low(metric)
    rows, order = [], []
    for client in dict.fromkeys(client for column in columns for client in column):
        cells = [column.get(client, Cell()) for column in columns]
        rows.append([client, *(cells if attribute else best_of(scored, cells, lower))])
        numbers = [cell.number for cell in cells if cell.number is not None]
        order.append(sum(numbers) / len(numbers) * (-1 if lower else 1) if numbers else inf)
    if min(order, default=inf) < inf:
        several = len(scored) > 1
        table = Table.of(title, ["client", *(row.name for row in scored)], rows)
        which = f"with the {'highest' if lower else 'lowest'} {'mean over the methods' if several else 'score'}"
        yield _folded(
            replace(table, legend=legend and legend + BEST_OF * (several and not attribute)),
            order,
            which,
        )


def _column(row: Row, metric: str, attribute: str) -> dict[str, Cell]:
    """client -> what its number is over rounds and seeds."""
    numbers: dict[str, list[Score | None]] = {}
    for place, (known, scores) in enumerate(zip(row.known, row.each, strict=True)):
        for name, client in scores.clients.items():
            where = Where(client.version, attribute=attribute, client=name, metric=metric)
            numbers.setdefault(name, [None] * row.runs)[place] = known.get(where)
    small = set() if attribute else {*small_clients(row.scores, metric)}
    values = {name: joined(scores, row.over) for name, scores in numbers.items() if any(scores)}
    return {
        name: percent(value.mean, value.std, doubtful=name in small)
        for name, value in values.items()
    }
