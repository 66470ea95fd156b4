"""The part of the page about clients: how many images each has, and how good the models are for each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from ...compare.systems import BEST
from ...console import capital
from ...data import image_counts, manifest
from ...metrics import better_low, title
from ...scores.table import Score, Where
from ..columns import joined
from ..row import Row
from ..section import Section
from ..table import Cell, Table, percent
from . import table_one
from .group_tables import best_of

SHARED = (
    "No client has test images of its own, so the scores are the same for all: on the clean test images for clean "
    "clients and on the corrupted ones for corrupted clients, as in the table of scores."
)
OWN = (
    "In percent: each client's own model if it has one, otherwise the global model, on the client's own test images if "
    "it has any, otherwise on all; ± as in the table of scores."
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


def section(compared: Sequence[Row], metrics: Sequence[str]) -> Section:
    """Tables and words; of many clients those that fare worst, and the whole table folded."""
    pairs, text = list(_rosters(compared)), []
    scored = [row for row in compared if row.scores.clients and row.at != BEST]
    clients = [client for row in scored for client in row.scores.clients.values()]
    if any(row.scores.personal_models for row in scored) or any(client.part == "own" for client in clients):
        for place, metric in enumerate(metrics):
            pairs += _tables(scored, f"{capital(title(metric))} of each client", OWN * (place == 0), metric)
        scaled = f"es_{scored[0].scores.usual[1]}"
        for place, name in enumerate(dict.fromkeys(name for client in clients for name in client.groups)):
            pairs += _tables(scored, f"ES-AUC by {name} of each client", EQUITY * (place == 0), scaled, name)
    elif scored:
        text = [SHARED]
    shown = [table for tables, _ in pairs for table in tables]
    folded = [table for _, tables in pairs for table in tables]
    return Section("clients", "Clients", tables=shown, folded=folded, text=text)


def _rosters(compared: Sequence[Row]) -> Iterator[Tables]:
    """One table per partition: training images of each client by class, and its parts."""
    by_partition = {path: row for row in compared if (path := row.stage("partition"))}
    partitions = {path: [row for row in compared if row.stage("partition") == path] for path in by_partition}
    for path, rows in partitions.items():
        body = manifest.read(path).body
        corrupted = {client for row in rows for client in (row.scores.corruption or {}).get("clients", [])}
        classes = body["classes"] if len(body["classes"]) <= CLASSES else []
        parts = [part for part in ("train", "val", "test") if any(c[part] for c in body["roster"])]
        lines = [
            [c["client"], "corrupted" if c["client"] in corrupted else "clean", *(c[part] for part in parts),
             *c["class_counts"][: len(classes)]]
            for c in body["roster"]
        ]  # fmt: skip
        legend = "Images of each of the client's own parts, then its training images by class."
        title = "Images of each client" + (f" ({path.parent.name})" if len(partitions) > 1 else "")
        whole = Table.of(title, ["client", "images", *parts, *classes], lines, legend)
        yield _folded(whole, [client["train"] for client in body["roster"]], "with the fewest training images")
        for name, counts in image_counts.of_manifest(path).items():
            if name != image_counts.CLASS and len(body["roster"]) > table_one.CLIENTS:  # else in Table 1
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


def _tables(scored: Sequence[Row], title: str, legend: str, metric: str, attribute: str = "") -> Iterator[Tables]:
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
        yield _folded(replace(table, legend=legend and legend + BEST_OF * (several and not attribute)), order, which)


def _column(row: Row, metric: str, attribute: str) -> dict[str, Cell]:
    """client -> what its number is over rounds and seeds."""
    numbers: dict[str, list[Score | None]] = {}
    for place, (known, scores) in enumerate(zip(row.known, row.each, strict=True)):
        for name, client in scores.clients.items():
            where = Where(client.version, attribute=attribute, client=name, metric=metric)
            numbers.setdefault(name, [None] * row.runs)[place] = known.get(where)
    values = {name: joined(scores, row.over) for name, scores in numbers.items() if any(scores)}
    return {name: percent(value.mean, value.std) for name, value in values.items()}
