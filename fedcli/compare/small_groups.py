"""Numbers between groups that a group too small to be reliable decides: they are marked and are never the best."""

from collections.abc import Iterator, Mapping, Sequence

from ..metrics import PARITY, better_low
from ..metrics.task import ONE, SEVERAL
from ..scores import table, views
from ..scores.scores import Scores
from ..scores.table import Score
from .systems import BEST, LAST


def doubtful(runs: Sequence[Scores], metrics: Sequence[str], at: str, view: str = "") -> list[str]:
    """The columns of a report, of one system's scores or of one view of them, that a small group decides."""
    attributes = dict.fromkeys(name for scores in runs for name in scores.groups)
    return [
        f"{name} {what} {metric}"
        for name in attributes
        for metric in dict.fromkeys([*metrics, ONE.area, *SEVERAL.usual])
        for what in sorted(small_decides(runs, name, "clean", metric, at, view))
    ]


def small_decides(
    runs: Sequence[Scores], attribute: str, version: str, metric: str, at: str, view: str = ""
) -> set[str]:
    """The numbers between groups ("worst group", "gap") that a small group decides in some round that counts."""
    decided: set[str] = set()
    for scores in runs:
        small = small_groups(scores, attribute).keys()
        for column in _rounds(scores, view, attribute, version, metric, at) if small else ():
            edges = [name for name, _ in views.edges(column, low=better_low(metric)) or ()]
            decided |= {views.WORST} if small & set(edges[:1]) else set()
            decided |= {views.GAP} if small & set(edges) else set()
    return decided


def small_groups(scores: Scores, attribute: str) -> dict[str, str]:
    """The groups too small to be reliable, with the reason; the same in every version and round."""
    return {group: score.small for group, score in scores.members(attribute).items() if score.small}


def small_in_sets(sets: Mapping[str, Scores], attribute: str) -> dict[str, str]:
    """Groups too small to be reliable in some of several test sets, with the reason, and in which of them.

    sets: which test set -> the scores of a run on it.
    """
    reasons: dict[str, list[str]] = {}
    for value in dict.fromkeys(value for scores in sets.values() for value in scores.members(attribute)):
        for which, scores in sets.items():
            absent = value not in scores.members(attribute)
            if why := "no test image" if absent else small_groups(scores, attribute).get(value):
                reasons.setdefault(value, []).append(f"{why} ({which})" if len(sets) > 1 else why)
    return {value: "; ".join(whys) for value, whys in reasons.items()}


def small_groups_note(scores: Scores) -> str:
    """The small groups, and why they are; "" without any."""
    small = [(f"{name} {value}", why) for name in scores.groups for value, why in small_groups(scores, name).items()]
    if len(small) == 1:
        return f"{small[0][0]} of {scores.dataset} is a small group: {small[0][1]}"
    return f"small groups of {scores.dataset}: " + ", ".join(f"{name} ({why})" for name, why in small) if small else ""


def doubtful_decisions(scores: Scores, attribute: str, names: Sequence[str]) -> set[str]:
    """Those of these differences in decisions that a small group may decide: all, where there is one.

    the table holds no group's own rates, so which groups differ most is not known.
    """
    return {name for name in names if name.startswith(PARITY)} if small_groups(scores, attribute) else set()


def _rounds(
    scores: Scores, view: str, attribute: str, version: str, metric: str, at: str
) -> Iterator[dict[str, Score]]:
    """Each group's score in each round that counts."""
    if at == BEST and view:
        return
    part = scores.part(model=table.BEST) if at == BEST else scores.part(view)
    column = part.groups.get(attribute, {}).get(version, {}).get(metric, {}) if views.compared(metric) else {}
    rounds = [score.values[-1:] if at == LAST else score.values for score in column.values()]
    for values in zip(*rounds, strict=True):
        yield {group: Score([value]) for group, value in zip(column, values, strict=True)}
