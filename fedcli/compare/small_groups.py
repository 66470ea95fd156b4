"""Numbers between groups that a group too small to be reliable decides: they are marked and are never the best."""

from collections.abc import Iterator, Mapping, Sequence

from ..metrics import PARITY, better_low
from ..metrics.task import ONE, SEVERAL
from ..scores.groups import spread
from ..scores.parts import Group
from ..scores.scores import Quality, Scores
from .systems import BEST, LAST


def doubtful(qualities: Sequence[Quality], metrics: Sequence[str], at: str) -> list[str]:
    """The columns of a report, of one system's scores or of one view of them, that a small group decides."""
    attributes = dict.fromkeys(name for quality in qualities for name in quality.groups)
    return [
        f"{name} {what} {metric}"
        for name in attributes
        for metric in dict.fromkeys([*metrics, ONE.area, *SEVERAL.usual])
        for what in sorted(small_decides(qualities, name, "clean", metric, at))
    ]


def small_decides(qualities: Sequence[Quality], attribute: str, version: str, metric: str, at: str) -> set[str]:
    """The numbers between groups ("worst group", "gap") that a small group decides in some round that counts."""
    decided: set[str] = set()
    for quality in qualities:
        small = small_groups(quality, attribute)
        for scores in _rounds(quality, attribute, version, metric, at) if small else ():
            between = spread(scores, low=better_low(metric))
            worst, best = (edge and edge.group for edge in (between.worst, between.best))
            decided |= {"worst group"} if worst in small else set()
            decided |= {"gap"} if {worst, best} & small.keys() else set()
    return decided


def small_groups(quality: Quality, attribute: str) -> dict[str, str]:
    """The groups too small to be reliable, with the reason; the same in every version and round."""
    groups = _groups(quality, attribute)
    return {value: part.reason for value, part in groups.items() if part.small}


def _groups(quality: Quality, attribute: str) -> Mapping[str, Group]:
    """Those of the clean images; none of an unknown attribute."""
    return quality.groups[attribute]["clean"].last_round.groups if attribute in quality.groups else {}


def small_in_sets(sets: Mapping[str, Quality], attribute: str) -> dict[str, str]:
    """Groups too small to be reliable in some of several test sets, with the reason, and in which of them.

    sets: which test set -> the scores of a run on it.
    """
    reasons: dict[str, list[str]] = {}
    for value in dict.fromkeys(value for quality in sets.values() for value in _groups(quality, attribute)):
        for which, quality in sets.items():
            absent = value not in _groups(quality, attribute)
            if why := "no test image" if absent else small_groups(quality, attribute).get(value):
                reasons.setdefault(value, []).append(f"{why} ({which})" if len(sets) > 1 else why)
    return {value: "; ".join(whys) for value, whys in reasons.items()}


def small_groups_note(scores: Scores) -> str:
    """The small groups, and why they are; "" without any."""
    small = [(f"{name} {value}", why) for name in scores.groups for value, why in small_groups(scores, name).items()]
    if len(small) == 1:
        return f"{small[0][0]} of {scores.dataset} is a small group: {small[0][1]}"
    return f"small groups of {scores.dataset}: " + ", ".join(f"{name} ({why})" for name, why in small) if small else ""


def doubtful_decisions(quality: Quality, attribute: str, names: Sequence[str]) -> set[str]:
    """Those of these differences in decisions that a small group may decide: all, where there is one.

    scores.json holds no group's own rates, so which groups differ most is not known.
    """
    return {name for name in names if name.startswith(PARITY)} if small_groups(quality, attribute) else set()


def _rounds(quality: Quality, attribute: str, version: str, metric: str, at: str) -> Iterator[dict[str, float | None]]:
    """Each group's score in each round that counts."""
    if at == BEST:
        best = quality.best_on_validation if isinstance(quality, Scores) else None
        if best and version in best.groups.get(attribute, {}):
            groups = best.groups[attribute][version].groups
            yield {value: part.metrics.get(metric) for value, part in groups.items()}
        return
    groups = quality.groups.get(attribute, {}).get(version)
    each = groups.each.get(metric, {}) if groups else {}
    rounds = [over.per_round[-1:] if at == LAST else over.per_round for over in each.values()]
    yield from (dict(zip(each, scores, strict=True)) for scores in zip(*rounds, strict=True))
