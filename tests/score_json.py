"""Functions of evaluation, their results as scores.json holds them."""

from fedcli.scores import groups, intervals, rounds, shots
from fedcli.scores.parts import Score
from fedcli.scores.schema import encode


def as_json(function):
    return lambda *args, **options: encode(function(*args, **options))


across, group_scores, spread = map(as_json, (groups.across, groups.group_scores, groups.spread))
group_intervals, intervals = map(as_json, (intervals.group_intervals, intervals.intervals))
among, shot_scores = map(as_json, (rounds.among, shots.shot_scores))


def summary(tables, y):
    """Of logits [N, C] of each round."""
    return encode(rounds.summary([Score.of(table, y) for table in tables]))


def summary_of_groups(tables, *grouping):
    return encode(rounds.summary_of_groups([groups.group_scores(table, *grouping) for table in tables]))
