"""Sentences above the tables of a report, each said once: the data, the test images, chance, what all rows share, of
which rounds the numbers are and what their columns mean; and, for the last line, whose formula each method follows."""

from collections.abc import Sequence
from typing import Any

from .. import console
from ..comparison.systems import BEST, LAST, LAST5
from ..data.corruption.mixture import spoken as corruption_in_words
from ..data.sources import cards
from ..metrics import title
from ..scores import numbers
from ..scores.choice import DISTANCE, WORST
from ..scores.parts import AVERAGE, MODELS
from ..scores.scores import Scores
from ..scores.table import Where
from .columns import POOLED, STD_AMONG
from .rows import Row
from .rows import has_two_rules, shared_parts

SPREADS = {
    None: " ± standard deviation over these rounds",
    POOLED: " and over {drawn} ± standard deviation over all of them",
    "runs": " and over {drawn} ± sample standard deviation (ddof 1) of the runs' means",
}
RULES = {  # of one method, of several
    "released": ("as its authors' code computes it", "as their authors' code computes them"),
    "original": ("as in its own first paper", "as in their own first papers"),
    "paper": ("as in its paper", "as in their papers"),
}


def about(rows: Sequence[Row]) -> list[str]:
    """The data and whether they are real, the test images, what was asked of all runs alike, and chance."""
    own = [row for row in rows if not row.is_view]
    alike = shared_parts(rows)
    if (count := _one([row.runs for row in own])) and count > 1:
        alike += [f"{count} {own[0].drawn}"]
    elif count and (seed := _one([row.seeds[0] for row in own])) not in ("", None):
        alike += [f"seed {seed}"]
    said = f"{'All rows: ' if len(own) > 1 else ''}{', '.join(alike)}." if alike else ""
    texts = [
        _data(own),
        _tested(own),
        console.capital(said),
        chance([scores for row in own for scores in row.each]),
    ]
    return [" ".join(filter(None, texts))]


def columns_in_words(rows: Sequence[Row], shown: Sequence[Where]) -> list[str]:
    """Of which rounds the numbers are, and what the columns that a reader may not know are. shown: whose numbers."""
    words = numbers.versions(scores for row in rows for scores in row.each)
    versions = {where.version for where in shown if where.metric and not where.attribute}
    texts = [f"Scores in %: {measured(rows)}."]
    how = list(
        dict.fromkeys(
            corruption_in_words(row.scores.corruption) for row in rows if row.scores.corruption
        )
    )
    with_it = how[0] if len(how) == 1 else "the corruption that a row was trained with"
    said = (
        [f"{words[MODELS[1]]}: the same test images with {with_it}"]
        if MODELS[1] in versions and how
        else []
    )
    said += (
        [f"{words[AVERAGE]}: the mean of clean and {words[MODELS[1]]}"]
        if AVERAGE in versions
        else []
    )
    among = list(dict.fromkeys(where.metric for where in shown if where.measure == STD_AMONG))
    over = " and ".join(title(metric).removesuffix(", one-vs-one") for metric in among)
    said += (
        [f"{numbers.MEASURES[STD_AMONG]}: standard deviation of {over} over clients"]
        if among
        else []
    )
    return [" ".join([*texts, f"{'; '.join(said)}."] if said else texts)]


def measured(rows: Sequence[Row]) -> str:
    """Of which rounds' models the numbers are, and over what they spread."""
    at, spread = rows[0].at, next((row.spread for row in rows if row.spread), None)
    drawn = next((row.drawn for row in rows if row.runs > 1), "seeds")
    over = SPREADS[spread].format(drawn=drawn)
    if at == LAST5:
        kept = _one([list(scores.kept_rounds) for row in rows for scores in row.each])
        if len(kept) == 1 and spread is None:
            return f"of round {kept[0]} alone, so ± is 0"
        some = (
            f"rounds {kept[0]} {'to' if len(kept) > 2 else 'and'} {kept[-1]}"
            if len(kept) > 1
            else ""
        )
        return f"mean of {some or 'the last five rounds (all of a shorter run)'}{over}"
    over = over if spread else ""
    if at == LAST:
        return f"of the last round's model{over}"
    metric = next((kept["metric"] for row in rows for kept in row.chosen), "")
    if metric.startswith((DISTANCE, WORST)):
        how = "smallest" if metric.startswith(DISTANCE) else "highest"
        return f"of the kept model with the {how} {metric} on the clients' validation images{over}"
    assert at == BEST
    return f"of the model from the round that was best on the clients' validation images{over}"


def rules(rows: Sequence[Row]) -> str:
    """Whose formula each method follows, where they differ and no column says so."""
    own = [row for row in rows if not row.is_view]
    by_rule: dict[str, list[str]] = {}
    for row in sorted(own, key=lambda row: row.scores.rule == "paper"):  # which the most follow
        if row.scores.rule:
            by_rule.setdefault(row.scores.rule, []).append(row.scores.label.partition(",")[0])
    if has_two_rules(own) or len(by_rule) < 2:
        return ""
    parts = []
    for rule, labels in by_rule.items():
        several = len(names := list(dict.fromkeys(labels))) > 1
        who = "the others" if several and rule == "paper" else console.listed(names)
        parts.append(f"{who} {RULES[rule][several] if rule in RULES else f'by the rule {rule}'}")
    return f"Methods: {'; '.join(parts)}."


def chance(every: Sequence[Scores]) -> str:
    """The level of guessing in the metrics that are shown by default, in a sentence; "" where it differs."""
    classes = _one([scores.answers() for scores in every])
    among = " for each label" if every[0].several_labels else f" with {classes} classes"
    return (
        ""
        if not classes or classes < 2
        else f"Chance{among}: {100 / classes:.1f} % balanced accuracy, 50 % AUC."
    )


def _data(own: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.scores.dataset for row in own))
    made_up = (
        "SYNTHETIC sample, not of patients"
        if any(row.scores.sample for row in own)
        else "generated images, not of patients" * any(map(cards.is_generated, names))
    )
    corrupted = [row.scores.corruption for row in own]
    kinds = _one(
        [f"{corruption_in_words(of)} on {_named(of['clients'])}" if of else "" for of in corrupted]
    )
    stages = [row.scores.data.get("partition") for row in own]
    attacked = [stage.options.get("attack") if stage else None for stage in stages]
    attacks = _one(
        [
            f"attack by {_named(of['clients'])} ({of['kind']} {of['strength']:g})" if of else ""
            for of in attacked
        ]
    )
    clients = _one([console.counted(row.scores.roster_size, "client", "clients") for row in own])
    rounds = _one([console.counted(row.scores.rounds, "round", "rounds") for row in own])
    named = f"{' and '.join(names)}{f' ({made_up})' * bool(made_up)}"
    return f"{', '.join(filter(None, [named, clients, rounds, kinds, attacks]))}."


def _named(clients: Sequence[str]) -> str:
    return ", ".join(clients) if len(clients) < 4 else f"{len(clients)} clients"


def _tested(own: Sequence[Row]) -> str:
    texts = []
    for row in own:
        known = list(row.scores.versions["clean"].values())
        score = next((each for each in known if each.unit), known[0])
        patients = f" of {score.units:,} patients" if score.unit.startswith("patient") else ""
        shared = "".join(f" {text}." for text in row.shared_patients)
        texts.append(f"{score.count:,} test images{patients}.{shared}" if score.count else "")
    return _one(texts)


def _one(values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else ""
