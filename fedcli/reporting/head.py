"""Sentences above the tables of a report, each once: the data, the test images, chance, what all
rows share, the rounds that numbers are of and the meaning of their columns; and, for the last line,
whose formula each method follows.
"""

from collections.abc import Sequence
from typing import Any

from ..comparison.ranks import datasets_of
from ..comparison.systems import LAST, LAST5, shared_parts
from ..console import capital, counted, listed
from ..data import units
from ..data.corruption.mixture import spoken as corruption_in_words
from ..data.sources import cards
from ..scores import numbers
from ..scores.choice import DISTANCE, WORST
from ..scores.parts import AVERAGE, MODELS
from ..scores.scores import RunScores
from ..scores.table import Where
from .columns import POOLED, STD_AMONG
from .comparison import spoken
from .rows import (
    Rows,
    SystemRow,
    differ,
    has_two_rules,
    scores_of,
    systems_of,
    unique,
)

SPREADS = {
    POOLED: " and over {runs} ± standard deviation over all of them",
    "runs": " and over {runs} ± sample standard deviation (ddof 1) of the runs' means",
}
OF_ROUNDS = " ± standard deviation over these rounds"
RULES = {  # of one method, of several
    "released": ("as its authors' code computes it", "as their authors' code computes them"),
    "original": ("as in its own first paper", "as in their own first papers"),
    "paper": ("as in its paper", "as in their papers"),
}
SEVERAL_CORRUPTIONS = "the corruption that a row was trained with"
ON_VALIDATION = "on the clients' validation images"


def about(rows: Rows) -> list[str]:
    """A sentence each on the data and whether they are real, the test images, what was asked of all
    runs alike, and chance.
    """
    systems = systems_of(rows)
    guessing = chance(scores_of(systems))
    texts = [_data(systems), _test_images(systems), _shared(systems), guessing]
    return [text for text in texts if text]


def _shared(systems: Rows) -> str:
    """The parts of the label and the number of runs, or the seed, that all systems share."""
    parts = shared_parts([row.scores.name for row in systems])
    if not differ([row.runs for row in systems]):
        seeds = [row.seeds[0] for row in systems]
        if systems[0].runs > 1:
            parts.append(f"{systems[0].runs} {systems[0].drawn}")
        elif not differ(seeds) and seeds[0] not in ("", None):
            parts.append(f"seed {seeds[0]}")
    if not parts:
        return ""
    sentence = f"{', '.join(parts)}."
    return f"All rows: {sentence}" if len(systems) > 1 else capital(sentence)


def columns_in_words(rows: Rows, wheres: Sequence[Where]) -> list[str]:
    """The rounds that are averaged, and the meaning of less usual columns. wheres: whose numbers
    these have.
    """
    words = numbers.versions(scores_of(rows))
    versions = {where.version for where in wheres if where.metric and not where.attribute}
    corruptions = unique(
        corruption_in_words(row.scores.corruption) for row in rows if row.scores.corruption
    )
    meanings = []
    if MODELS[1] in versions and corruptions:
        corruption = corruptions[0] if len(corruptions) == 1 else SEVERAL_CORRUPTIONS
        meanings.append(f"{words[MODELS[1]]}: the same test images with {corruption}")
    if AVERAGE in versions:
        meanings.append(f"{words[AVERAGE]}: the mean of clean and {words[MODELS[1]]}")
    metrics = unique(spoken(where.metric) for where in wheres if where.measure == STD_AMONG)
    if metrics:
        std = numbers.MEASURES[STD_AMONG]
        meanings.append(f"{std}: standard deviation of {' and '.join(metrics)} over clients")
    text = f"Scores in %: {measured(rows)}."
    if meanings:
        text += f" {'; '.join(meanings)}."
    return [text]


def measured(rows: Rows) -> str:
    """The rounds whose models the numbers are of, and over what they spread."""
    spread = ""
    for row in rows:
        if row.spread and not spread:
            spread = SPREADS[row.spread].format(runs=row.drawn)
    if rows[0].at == LAST5:
        return _of_kept_rounds(rows, spread)
    if rows[0].at == LAST:
        return f"of the last round's model{spread}"
    metric = next((choice["metric"] for row in rows for choice in row.chosen), "")
    if metric.startswith(DISTANCE):
        return f"of the kept model with the smallest {metric} {ON_VALIDATION}{spread}"
    if metric.startswith(WORST):
        return f"of the kept model with the highest {metric} {ON_VALIDATION}{spread}"
    return f"of the model from the round that was best {ON_VALIDATION}{spread}"


def _of_kept_rounds(rows: Rows, spread: str) -> str:
    kept_rounds = [list(scores.kept_rounds) for scores in scores_of(rows)]
    words = "the last five rounds (all of a shorter run)"
    if not differ(kept_rounds):
        rounds = kept_rounds[0]
        if len(rounds) == 1 and not spread:
            return f"of round {rounds[0]} alone, so ± is 0"
        if len(rounds) > 1:
            link = "to" if len(rounds) > 2 else "and"
            words = f"rounds {rounds[0]} {link} {rounds[-1]}"
    return f"mean of {words}{spread or OF_ROUNDS}"


def rules(rows: Rows) -> str:
    """Whose formula each method follows, where they differ and no column says so."""
    systems = systems_of(rows)
    methods_by_rule: dict[str, list[str]] = {}
    for row in sorted(systems, key=lambda row: row.scores.rule == "paper"):  # most follow it
        if row.scores.rule and not row.own_code:
            method = row.scores.label.partition(",")[0]
            methods_by_rule.setdefault(row.scores.rule, []).append(method)
    own_code = unique(row.own_code for row in systems)
    if has_two_rules(systems) or len(methods_by_rule) + len(own_code) < 2:
        methods_by_rule = {}
    parts = []
    for rule, methods in methods_by_rule.items():
        names = unique(methods)
        words = f"by the rule {rule}"
        if rule in RULES:
            of_one, of_several = RULES[rule]
            words = of_one if len(names) == 1 else of_several
        are_rest = rule == "paper" and len(names) > 1 and not own_code
        parts.append(f"{'the others' if are_rest else listed(names)} {words}")
    parts += own_code
    return f"Methods: {'; '.join(parts)}." if parts else ""


def chance(every: Sequence[RunScores]) -> str:
    """The level of guessing in the metrics that are shown by default, in a sentence; "" where it
    differs.
    """
    classes = _common([scores.answers() for scores in every])
    if not classes or classes < 2:
        return ""
    scored = "scored " if every[0].unscored else ""
    answers = "for each label" if every[0].several_labels else f"with {classes} {scored}classes"
    level = capital(every[0].chance_in_words())
    return f"{level} {answers}: {100 / classes:.1f} % balanced accuracy, 50 % AUC."


def _data(systems: Rows) -> str:
    """The datasets, clients, rounds, corruption and attack; without those in which systems
    differ.
    """
    names = " and ".join(unique(datasets_of([row.scores for row in systems])))
    if any(row.scores.sample for row in systems):
        names += " (SYNTHETIC sample, not of patients)"
    elif any(cards.is_generated(row.scores.dataset) for row in systems):
        names += " (generated images, not of patients)"
    parts = [
        names,
        _common([counted(row.scores.roster_size, "client", "clients") for row in systems]),
        _common([counted(row.scores.rounds, "round", "rounds") for row in systems]),
        _common([_corruption(row) for row in systems]),
        _common([attack_in_words(row) for row in systems]),
    ]
    return f"{', '.join(filter(None, parts))}."


def _corruption(row: SystemRow) -> str:
    corruption = row.scores.corruption
    if not corruption:
        return ""
    return f"{corruption_in_words(corruption)} on {_clients(corruption['clients'])}"


def attack_in_words(row: SystemRow) -> str:
    """The kind of attack on a system's training, and by whom; "" where there is none."""
    stage = row.scores.data.get("partition")
    attack = stage.options.get("attack") if stage else None
    if not attack:
        return ""
    clients = _clients(attack["clients"])
    return f"attack by {clients} ({attack['kind']} {attack['strength']:g})"


def _clients(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{len(names)} clients"


def _test_images(systems: Rows) -> str:
    """The number of test images and of their patients; "" where it differs."""
    texts = []
    for row in systems:
        text = _common([_test_images_of(run) for run in row.each])
        if text:
            for sentence in row.shared_patients:
                text += f" {capital(sentence)}."
        texts.append(text)
    return _common(texts)


def _test_images_of(run: RunScores) -> str:
    """The number of a run's test images and of their patients; "" where it is not known."""
    scores = list(run.versions["clean"].values())
    score = next((score for score in scores if score.unit), scores[0])
    if not score.count:
        return ""
    if run.unscored:
        return f"{capital(run.unscored.sentence)}."
    text = f"{score.count:,} test images"
    if score.unit.startswith("patient"):
        text += f" of {score.units:,} {units.plural(run.noun)}"
    return f"{text}."


def _common(values: Sequence[Any]) -> Any:
    """The value that all share; "" where they differ."""
    return "" if differ(list(values)) else values[0]
