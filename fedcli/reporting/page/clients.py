"""The part of the page about clients: who holds what, and how good the models are for each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from ...compare.systems import BEST
from ...data import image_counts, manifest
from ...scores.scores import Scores
from ..columns import POOLED, area, better_low, find, joined
from ..section import Section
from ..table import Cell, Column, Table, of_text, percent
from .marked import best_of
from .systems import System

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


def section(compared: list[System], at: str, spread: str | None, metrics: Sequence[str]) -> Section:
    """Tables and words; of many clients those that fare worst, and the whole table folded."""
    pairs, text = list(_rosters(compared)), []
    scored = [system for system in compared if system.scores.clients]
    if scored and at != BEST:
        if any(_differ(system.scores) for system in scored):
            pairs += _scores(scored, spread or POOLED, metrics)
        else:
            text = [SHARED]
    shown = [table for tables, _ in pairs for table in tables]
    folded = [table for _, tables in pairs for table in tables]
    return Section("clients", "Clients", tables=shown, folded=folded, text=text)


def _rosters(compared: list[System]) -> Iterator[Tables]:
    """One table per partition: training images of each client by class, and its parts."""
    partitions = dict.fromkeys(path for system in compared if (path := system.stage("partition")))
    for path in partitions:
        body = manifest.read(path).body
        corrupted = {c for system in compared if system.stage("partition") == path for c in system.corrupted_clients}
        classes = body["classes"] if len(body["classes"]) <= CLASSES else []
        lines = [
            [c["client"], "corrupted" if c["client"] in corrupted else "clean",
             *(f"{c[p]:,}" for p in ("train", "val", "test")),
             *(f"{n:,}" for n in c["class_counts"][: len(classes)])]
            for c in body["roster"]
        ]  # fmt: skip
        legend = "Images of each of the client's own parts, then its training images by class."
        title = "Who holds what" + (f" ({path.parent.name})" if len(partitions) > 1 else "")
        whole = of_text(title, ["client", "images", "train", "val", "test", *classes], lines, legend)
        yield _folded(whole, [client["train"] for client in body["roster"]], "with the fewest training images")
        for name, counts in image_counts.of_manifest(path).items():
            if name != image_counts.CLASS:
                table = of_text(f"{title}: {name}", *image_counts.lines(counts), OF_ATTRIBUTE)
                yield ([table], []) if len(table.rows) <= LONG else ([], [table])


def _folded(table: Table, order: Sequence[float], which: str) -> Tables:
    """The table itself, or, where it is long, the clients that come first in this order, and all of them folded."""
    if len(table.rows) <= LONG:
        return [table], []
    first = sorted(range(len(order)), key=lambda place: order[place])[:OPEN]
    title = f"{table.title}: the {OPEN} of {len(table.rows):,} clients {which}"
    every = replace(table, title=f"{table.title}: all {len(table.rows):,} clients")
    return [replace(table, title=title, rows=[table.rows[place] for place in first])], [every]


def _differ(scores: Scores) -> bool:
    return scores.personal_models or any(client.part == "own" for client in scores.clients.values())


def _scores(scored: list[System], spread: str, metrics: Sequence[str]) -> Iterator[Tables]:
    """A table per metric: a row per client, a column per system."""
    for metric in metrics:
        yield from _tables(scored, f"{metric} of each client", OWN, metric, "", spread, best=True)
    attributes = (name for system in scored for client in system.scores.clients.values() for name in client.groups)
    for name in dict.fromkeys(attributes):
        title = f"ES-AUC by {name} of each client"
        yield from _tables(scored, title, EQUITY, f"es_{area(scored[0].scores)}", name, spread, best=False)


def _tables(
    scored: list[System], title: str, legend: str, metric: str, attribute: str, spread: str, *, best: bool
) -> Iterator[Tables]:
    """best: whether the best for each client is marked."""
    columns = [_column(system, metric, attribute, spread) for system in scored]
    clients = list(dict.fromkeys(client for column in columns for client in column))
    lower = better_low(metric)
    rows, order = [], []
    for client in clients:
        cells = [column.get(client, Cell()) for column in columns]
        rows.append([Cell(client), *(best_of(scored, cells, lower) if best else cells)])
        numbers = [cell.number for cell in cells if cell.number is not None]
        order.append(sum(numbers) / len(numbers) * (-1 if lower else 1) if numbers else inf)
    if min(order, default=inf) < inf:
        heads = [Column("client"), *(Column(system.name) for system in scored)]
        table = Table(title, heads, rows, legend + (BEST_OF if best and len(scored) > 1 else ""))
        which = f"with the {'highest' if lower else 'lowest'} {'mean over the methods' if len(scored) > 1 else 'score'}"
        yield _folded(table, order, which)


def _column(system: System, metric: str, attribute: str, spread: str) -> dict[str, Cell]:
    """client -> what its number is over rounds and seeds."""
    runs = [
        {
            name: value
            for name, client in scores.clients.items()
            if (value := find(known, metric, client.version, attribute, client=name))
        }
        for known, scores in zip(system.row.known, system.each, strict=True)
    ]
    return {name: percent(value.mean, value.std) for name, value in joined(runs, spread).items()}
