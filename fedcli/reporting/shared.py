"""What all rows of a report share, said once above its tables, and their names without it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import console
from ..data.sources import cards
from ..errors import FedcliError
from ..scores.scores import Scores
from ..scores.table import Score
from .row import Row


def shortened(rows: Sequence[Row]) -> list[Row]:
    """Rows whose names hold only what differs: no part of the label, and no number of seeds, that all have."""
    parts = _parts_of_all(rows)
    unlike = len({row.runs for row in rows}) > 1
    return [
        replace(
            row, short=", ".join(part for part in row.scores.label.split(", ") if part not in parts), names_runs=unlike
        )
        for row in rows
    ]


def _parts_of_all(rows: Sequence[Row]) -> list[str]:
    """Parts behind the method's own name that the labels of several systems share."""
    first, *others = [row.scores.label.split(", ") for row in rows if not row.is_view]
    return [part for part in first[1:] if all(part in other[1:] for other in others)] if others else []


def has_two_rules(rows: Sequence[Row]) -> bool:
    """Tell whether one method is shown by the paper's rule and by that of released code."""
    return any(
        row.scores.rule != other.scores.rule and row.scores.method == other.scores.method
        for row in rows
        for other in rows
    )


def _rules(own: Sequence[Row]) -> str:
    """By which rule the numbers were computed, where that is no column."""
    if has_two_rules(own):
        return ""
    by_rule: dict[str, list[str]] = {}
    for row in own:
        by_rule.setdefault(row.scores.rule, []).append(row.scores.label.partition(",")[0])
    parts = [f"{rule} for {', '.join(dict.fromkeys(labels))}" for rule, labels in by_rule.items() if rule]
    return f"Rule: {'; '.join(parts)}." if len(parts) > 1 else ""


def sentences(rows: Sequence[Row]) -> list[str]:
    """The data and whether they are real, the test images, chance, and what was asked of all runs alike."""
    own = [row for row in rows if not row.is_view]
    texts = [_data(own), _tested(own), chance(own)]
    alike = _parts_of_all(rows)
    if (count := _one([row.runs for row in own])) and count > 1:
        alike += [f"{count} {own[0].drawn}"]
    elif count and (seed := _one([row.seeds[0] for row in own])) not in ("", None):
        alike += [f"seed {seed}"]
    who = "All rows" if len(own) > 1 else own[0].scores.label
    below = " ".join(filter(None, [f"{who}: {', '.join(alike)}." if alike else "", _rules(own)]))
    return list(filter(None, [" ".join(filter(None, texts)), below]))


def _data(own: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.scores.dataset for row in own))
    made_up = "SYNTHETIC sample, no patients" if any(row.scores.sample for row in own) else _generated(names)
    kinds = _one([_corruption(row) for row in own])
    clients = _one([console.counted(row.scores.roster_size, "client", "clients") for row in own])
    rounds = _one([console.counted(row.scores.rounds, "round", "rounds") for row in own])
    return f"{', '.join(filter(None, [' and '.join(names), made_up, clients, rounds, kinds]))}."


def _generated(names: Sequence[str]) -> str:
    for name in names:
        try:
            about = cards.read(name)
        except FedcliError:  # data of one's own
            continue
        if about.get("generated"):
            return "generated images, no patients"
    return ""


def _corruption(row: Row) -> str:
    about = row.scores.corruption
    if not about:
        return ""
    who = about["clients"]
    named = ", ".join(who) if len(who) < 4 else f"{len(who)} clients"
    return f"{about['kind'].replace('-', ' ')} of severity {about['severity']} on {named}"


def _tested(own: Sequence[Row]) -> str:
    texts = []
    for row in own:
        score = _of_clean(row.scores)
        patients = f", {score.units:,} patients" if score.unit.startswith("patient") else ""
        texts.append(f"{score.count:,} test images{patients}." if score.count else "")
    return _one(texts)


def chance(own: Sequence[Row]) -> str:
    """The level of guessing in the metrics that are shown by default, in a sentence; "" where it differs."""
    classes = _one([len(scores.classes) - len(_of_clean(scores).missing) for row in own for scores in row.each])
    if own[0].scores.several_labels:
        classes = 2  # of each label: with it and without
    return "" if not classes or classes < 2 else f"Chance: {100 / classes:.1f} % balanced accuracy, 50 % AUC."


def _of_clean(scores: Scores) -> Score:
    known = scores.versions["clean"].values()
    return next((each for each in known if each.unit), next(iter(known)))


def _one(values: Sequence[Any]) -> Any:
    """What all have alike; nothing where they differ."""
    return values[0] if all(value == values[0] for value in values) else ""
