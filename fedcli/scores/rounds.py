"""Scores of several rounds, versions or clients as one: what a number in scores.json is made of."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from .. import metrics
from ..metrics import better_low
from .groups import across
from .parts import (
    AMONG,
    BetweenRounds,
    Groups,
    GroupScores,
    GroupsOverRounds,
    OverRounds,
    Score,
    Summary,
)
from .tree import Among, Client

Logits = dict[str, list[list[np.ndarray]]]  # version -> kept round -> logits [N, C] of each model that answers


def over_rounds(values: list[float | None]) -> OverRounds:
    """One metric over the kept rounds. Labels do not change, so it is defined in all rounds or in none."""
    if None in values:
        return OverRounds(values[-1], None, None, values)
    return OverRounds(values[-1], float(np.mean(values)), float(np.std(values)) if len(values) > 1 else None, values)


def over_rounds_each(rounds: list[Mapping[str, float | None]]) -> dict[str, OverRounds]:
    """Each metric over the kept rounds."""
    return {metric: over_rounds([each[metric] for each in rounds]) for metric in rounds[-1]}


def summary(rounds: list[Score]) -> Summary:
    """Scores of the kept rounds."""
    last = rounds[-1]
    return Summary(last.count, last.classes_missing, over_rounds_each([each.metrics for each in rounds]))


def summary_of_groups(rounds: list[GroupScores]) -> Groups:
    """Group scores of the kept rounds: the last round in full, what lies between groups and each group over them."""
    last = rounds[-1]
    each = {
        metric: {value: over_rounds([r.groups[value].metrics[metric] for r in rounds]) for value in last.groups}
        for metric in last.between
    }
    over = GroupsOverRounds(
        over_rounds([r.es_auc_ovo_macro for r in rounds]),
        None if last.es_auc_macro is None else over_rounds([r.es_auc_macro for r in rounds]),
        over_rounds_each([r.differences for r in rounds]),
        {metric: _between(rounds, metric) for metric in last.between},
    )
    return Groups(
        last, over, each, {m: across({v: o.mean_last5 for v, o in column.items()}) for m, column in each.items()}
    )


def _between(rounds: list[GroupScores], metric: str) -> BetweenRounds:
    between = [r.between[metric] for r in rounds]
    worst = over_rounds([b.worst and b.worst.score for b in between])
    return BetweenRounds(
        worst, *(over_rounds([getattr(b, name) for b in between]) for name in ("gap", "std", "average"))
    )


def mean(scores: list[Any]) -> Any:
    """Mean of scores of the same images, nested or not; what is no number stays where all agree, and else is None."""
    first = scores[0]
    if is_dataclass(first) and all(scores):
        return type(first)(
            **{part.name: mean([getattr(score, part.name) for score in scores]) for part in fields(first)}
        )
    if isinstance(first, dict):
        return {key: mean([score[key] for score in scores]) for key in first}
    if isinstance(first, list) and first and (isinstance(first[0], dict) or is_dataclass(first[0])):
        return [mean(list(each)) for each in zip(*scores, strict=True)]
    if isinstance(first, float):
        return mean_of_numbers(scores)
    return first if all(score == first for score in scores) else None


def mean_of_numbers(numbers: list[float | None]) -> float | None:
    """None where one of them has no meaning."""
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if len(known) == len(numbers) else None


def with_average(versions: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Scores of each version's rounds, and the mean of both versions in each round where there are two."""
    if "corrupted" not in versions:
        return versions
    pairs = zip(versions["clean"], versions["corrupted"], strict=True)
    return {**versions, "average": [mean(list(pair)) for pair in pairs]}


def among(clients: dict[str, Client], *, personal: bool) -> dict[str, Among]:
    """Spread of each headline metric and each of one's own over clients that have it; None where nothing can vary."""
    scores = {name: client.metrics for name, client in clients.items()}
    return _among(scores, () if _share_images(clients) and not personal else AMONG)


def among_global(clients: dict[str, Client]) -> dict[str, Among]:
    """The same for the global model on each client's images; on shared images it has a mean, but nothing varies."""
    scores = {name: client.global_model.metrics for name, client in clients.items() if client.global_model}
    return _among(scores, ("mean",) if _share_images(clients) else AMONG)


def _share_images(clients: dict[str, Client]) -> bool:
    tests = {(client.version, client.part, client.corruption) for client in clients.values()}
    return len(tests) == 1 and "whole" in next(iter(tests))


def _among(clients: dict[str, dict[str, OverRounds]], names: tuple[str, ...]) -> dict[str, Among]:
    """These numbers over clients, each of every round and then averaged, and of each round; None for the others."""
    columns, out = {"mean": np.mean, "std": np.std, "worst": np.min}, {}
    headline = metrics.names(metrics.CLASSES, metrics.LABELS, headline=True)
    having = next(iter(clients.values()), metrics.names(metrics.CLASSES))
    own = [name for name in having if name not in metrics.METRICS]
    for metric in [*(name for name in headline if name in having), *own]:
        rounds = [scores[metric].per_round for scores in clients.values() if scores[metric].last is not None]
        table = np.array(rounds, float).T  # [rounds, clients], NaN where one's own metric has no meaning in a round
        known = names if len(rounds) > 1 and np.isfinite(table).all() else ()
        columns["worst"] = np.max if better_low(metric) else np.min
        per_round = {name: f(table, axis=1) if name in known else None for name, f in columns.items()}
        means = {name: None if each is None else float(each.mean()) for name, each in per_round.items()}
        out[metric] = Among(
            **means, per_round={name: None if each is None else each.tolist() for name, each in per_round.items()}
        )
    return out
