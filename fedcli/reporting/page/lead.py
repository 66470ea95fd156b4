"""The head of a page: the comparison in one sentence, and the numbers that a reader looks for first."""

from collections.abc import Sequence
from typing import Any

from ... import console
from ..row import Row


def title(compared: Sequence[Row]) -> str:
    """The methods and their data."""
    labels = list(dict.fromkeys(row.scores.label for row in compared))
    named = ", ".join(labels[:-1]) + f" and {labels[-1]}" if len(labels) > 1 else labels[0]
    datasets = list(dict.fromkeys(row.scores.dataset for row in compared))
    return f"{named if len(labels) < 6 else f'{len(labels)} methods'} on {', '.join(datasets)}"


def sentence(compared: Sequence[Row]) -> str:
    """The comparison in one sentence."""
    several = len(compared) > 1
    what = f"{len(compared)} systems" if several else compared[0].scores.label
    datasets = list(dict.fromkeys(row.scores.dataset for row in compared))
    seeds = {row.runs for row in compared}
    repeated = f" with {console.counted(max(seeds), 'seed', 'seeds')}{' each' * several}" if len(seeds) == 1 else ""
    clients = _span("client", [row.scores.roster_size for row in compared])
    rounds = _span("round", [row.scores.rounds for row in compared])
    return f"{what} trained on {' and '.join(datasets)} by {clients} for {rounds}{repeated}, {_corrupted(compared)}."


def facts(compared: Sequence[Row]) -> list[tuple[str, str]]:
    """The numbers a reader looks for first; of data and model those that all systems share."""
    shared: dict[str, set[Any]] = {
        "Classes": {len(row.scores.classes) for row in compared},
        "Test images": {row.scores.images for row in compared},
        "Clients": {row.scores.roster_size for row in compared},
        "Rounds": {row.scores.rounds for row in compared},
        "Runs": {sum(row.runs for row in compared)},
        "Model": {row.scores.model.get("name") for row in compared},
        "Trained parameters": {row.scores.model.get("trainable") for row in compared},
    }
    alike = {name: values.pop() for name, values in shared.items() if len(values) == 1}
    return [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in alike.items() if value]


def _span(noun: str, numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low if low == high else f'{low} to {high}'} {noun}{'s' * (high != 1)}"


def _corrupted(compared: Sequence[Row]) -> str:
    kinds = [row.scores.corruption for row in compared]
    about = kinds[0]
    if not any(kinds):
        return "on images as they are"
    if about is None or any(kind != about for kind in kinds):
        return "on data that are not the same for all (see the notes)"
    who = console.counted(len(about["clients"]), "client", "clients")
    kind = about["kind"].replace("-", " ")
    return f"with {kind} of severity {about['severity']} on {who} and on a copy of the test set"
