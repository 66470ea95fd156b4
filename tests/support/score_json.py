"""Scores of logits as scores.json has them in its nested form."""

import numpy as np
from nested_scores import ABOUT

from fedcli.scores import shots, views
from fedcli.scores.facts import ScoredImages, facts, label_facts
from fedcli.scores.nested import nested
from fedcli.scores.parts import MODELS
from fedcli.scores.scores import RunScores
from fedcli.scores.statistics.intervals import Answered, add_group_intervals, add_intervals
from fedcli.scores.table import Score, Where

BY = "by"  # the attribute


def quality(versions, y, groupings, *, classes=None, units=None, how=None):
    """The nested form of logits [N, C] by version, round and model; how: the method of intervals, if there are any."""
    kinds = next(iter(versions.values()))[0][0].shape[1]
    images = ScoredImages(y, classes or [f"class {c}" for c in range(kinds)], groupings, units)
    table = {}
    answered = {v: Answered(rounds[-1], y, units, groupings) for v, rounds in versions.items()}
    for version, rounds in versions.items():
        rounds_kept = range(7 - len(rounds), 7)
        table |= facts(Where(version), images, zip(rounds_kept, rounds, strict=True), groupings)
        if how:
            add_group_intervals(table, Where(version), answered[version], how)
    if how:
        add_intervals(table, Where(), answered, how)
    return nested(RunScores(**ABOUT, grouped=images.grouped(), table=table))


def group_scores(logits, y, groups, values, *, classes=None, units=None):
    """Scores of groups of one model, and the differences between them."""
    grouped = summary_of_groups([logits], y, groups, values, classes=classes, units=units)
    return grouped["last_round"]


def summary_of_groups(tables, y, groups, values, *, classes=None, units=None):
    """Scores of groups from logits [N, C] of each round."""
    rounds = {"clean": [[table] for table in tables]}
    scores = quality(rounds, y, {BY: (groups, values)}, classes=classes, units=units)
    return scores["groups"][BY]["clean"]


def summary(versions, y):
    """Scores of logits [N, C] of each version and round, and of the average."""
    tables = {}
    for version, rounds in versions.items():
        tables[version] = [[table] for table in rounds]
    return quality(tables, y, {})["versions"]


def intervals(answers, y, units, how="percentile"):
    """Intervals from logits [N, C] of each version and model."""
    return quality({v: [tables] for v, tables in answers.items()}, y, {}, units=units, how=how)[
        "intervals"
    ]


def group_intervals(tables, y, units, groups, values, how="percentile"):
    """Intervals of groups from logits [N, C] of each model."""
    scores = quality({"clean": [tables]}, y, {BY: (groups, values)}, units=units, how=how)
    return scores["groups"][BY]["clean"].get("intervals", {})


def column_of(scores):
    return {group: Score([score], [1]) for group, score in scores.items()}


def spread(scores, *, low=False):
    """Differences between the scores of groups, in one round."""
    column = column_of(scores)
    names = ("worst", "best")
    edges = views.edges(column, low=low) or (None, None)
    between = views.between(column, low=low)
    result = {}
    for name, edge in zip(names, edges, strict=True):
        result[name] = edge and {"group": edge[0], "score": edge[1]}
    for short, name in (("gap", views.GAP), ("std", views.STD), ("average", views.MEAN)):
        result[short] = between[name].last
    return result


def across(scores):
    mean, std = views.across(column_of(scores)).values()
    return {"average": mean.last, "std_sample": std.last}


def equity_scaled(overall, scores):
    return views.equity_scaled(Score([overall], [1]), column_of(scores)).last


def shot_scores(logits, y, classes, counts, limits):
    """Scores of classes by number of training images, from logits [N, C] by version, round and model."""
    table = {}
    for version in MODELS:
        if version in logits:
            rounds = list(enumerate(logits[version], 1))
            table |= shots.shot_facts(Where(version), y, rounds, np.array(counts), limits)
    return nested(
        RunScores(**ABOUT, shots=shots.shots(y, classes, np.array(counts), limits), table=table)
    )["shots"]


def label_scores(logits, y, labels, groupings):
    """Scores of labels from logits [N, L] by version, round and model."""
    images = ScoredImages(y, labels, groupings)
    table = {}
    for version, rounds in logits.items():
        table |= label_facts(Where(version), images, list(enumerate(rounds, 1)))
    return nested(RunScores(**ABOUT, table=table))["labels"]
