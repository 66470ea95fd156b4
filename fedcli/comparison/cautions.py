"""Cautions without which no score may be read: models that may be no better than chance, systems whose gap between
groups is smaller because the best group lost, while no group gained (levelling down), and numbers between groups that a
group too small to be reliable decides: they are marked and are never the best.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from ..errors import FedcliError
from ..metrics import PARITY, apart, better_low, title
from ..metrics.task import ONE, SEVERAL
from ..scores import table, views
from ..scores.groups import JOIN
from ..scores.numbers import versions
from ..scores.parts import MODELS
from ..scores.scores import Scores
from ..scores.table import Score, Where
from .predicted import one_class
from .systems import BEST, LAST, LAST5, Scored
from .verdict import Difference, interval_text, signed, significant

TOO_NARROW = "intervals may be too narrow, and p too small"
SCALED = "ES-AUC"
SPREADS = views.AMONG[1:]  # numbers that one client can decide
BY_FEW = "; a group with few images, or few or none of a class, decides the gap"
PRIOR, ADVICE = "--prior logit-adjust, ", "Try {prior}a higher --lr or more rounds"


def at_chance(runs: Sequence[Scored]) -> str:
    """On which images these runs may be no better than chance, in words, with advice; "" where they are better.

    A run counts where the lower bound of its interval is not above chance, which is one divided by the classes that the
    test images have, or 1/2 of several labels per image.
    """
    parts = []
    for version, word in (
        (MODELS[0], MODELS[0]),
        (MODELS[1], versions(run.scores for run in runs)[MODELS[1]]),
    ):
        if not (stuck := [run for run in runs if _is_stuck(run, version)]):
            continue
        which = f" ({'; '.join(run.which for run in stuck)})" if len(stuck) < len(runs) else ""
        same = ""
        with suppress(FedcliError):  # there are no predictions beside them
            same = one_class(stuck, version)
        metric = stuck[0].scores.usual[0]
        scores = [run.scores.versions[version][metric] for run in stuck]
        values, lows = (
            ", ".join(f"{100 * x:.1f}" for x in each)
            for each in zip(*((i.last, i.low) for i in scores))
        )
        chance = f"{100 / stuck[0].scores.answers(version):.1f} %"
        parts.append(
            f"gives the same answer for every {word} image{which}"
            if same
            else f"may be no better than chance ({chance}) on {word} images{which}: {title(metric)} {values} % in the "
            f"last round, whose 95 % interval begins at {lows} %"
        )
    uncorrected = all(run.scores.options.get("prior") in (None, "none") for run in runs)
    prior = PRIOR * (
        uncorrected and not runs[0].scores.several_labels
    )  # which no prior can be given for
    return f"{'; '.join(parts)}. {ADVICE.format(prior=prior)}" if parts else ""


def _is_stuck(run: Scored, version: str) -> bool:
    score = run.scores.versions.get(version, {}).get(run.scores.usual[0])
    if score is None or score.low is None:
        return False
    seen = run.scores.answers(version)
    return seen > 1 and bool(apart(score.low, 1 / seen) <= 0)


def levelling_down(
    systems: Sequence[tuple[str, Sequence[Scored]]], test: Callable[[Where, int], Difference | None]
) -> Iterator[str]:
    """A sentence for each attribute and each system, given with its name, that levels down against the first one.

    test: of a score and the place of a system: its test against the first, None where there is none.
    """
    for place, (name, runs) in enumerate(systems[1:], 1):
        base, first = systems[0]
        for attribute in (each for each in runs[0].scores.groups if each in first[0].scores.groups):
            before, after = _group_means(first, attribute), _group_means(runs, attribute)
            shared = [group for group in after if group in before]
            if len(shared) < 2:
                continue
            was, now = [before[group] for group in shared], [after[group] for group in shared]
            narrower = (max(was) - min(was)) - (max(now) - min(now))
            if apart(narrower, 0.0) > 0 and (apart(now, was) <= 0).all():
                best, area = max(shared, key=lambda group: before[group]), runs[0].scores.usual[1]
                tested = test(
                    Where("clean", attribute=attribute, metric=area, measure=views.GAP), place
                )
                sure = tested is not None and significant(tested)
                each = [run.scores for run in (*first, *runs)]
                few = BY_FEW * (views.GAP in small_decides(each, attribute, "clean", area, LAST5))
                yield (
                    f"{name}: smaller gap by {attribute} than {base}"
                    f"{' only because' if sure else ', as'} no group gained and {best} fell from "
                    f"{100 * before[best]:.1f} to {100 * after[best]:.1f} % {title(area)} (levelling down"
                    f"{'' if sure else _unsure(tested)}{few})"
                )


def _unsure(tested: Difference | None) -> str:
    if tested is None or tested.low is None:
        return " in these runs, not tested"
    change = f"{signed(tested.difference, 1)} points, 95 % interval {interval_text(tested, 1)}"
    return f" in these runs; the gap's change is not significant: {change}"


def _group_means(runs: Sequence[Scored], attribute: str) -> dict[str, float]:
    """Each group's mean over rounds and runs on clean images, of groups that have a score in every run."""
    area = runs[0].scores.usual[1]
    each = [
        run.scores.groups[attribute]["clean"].get(area, {})
        for run in runs
        if attribute in run.scores.groups
    ]
    known = {
        group: [m for scores in each if (m := scores.get(group, Score()).mean) is not None]
        for group in each[0]
    }
    return {
        group: float(np.mean(means)) for group, means in known.items() if len(means) == len(each)
    }


def doubtful(runs: Sequence[Scores], metrics: Sequence[str], at: str, view: str = "") -> list[str]:
    """The columns of a report, of one system's scores or of one view of them, that a small group or client decides."""
    shown = list(dict.fromkeys([*metrics, ONE.area, *SEVERAL.usual]))
    columns = []
    for name in dict.fromkeys(name for scores in runs for name in scores.groups):
        for metric in shown:
            for what in sorted(small_decides(runs, name, "clean", metric, at, view)):
                columns.append(f"{name} {what} {metric}")
            if has_small_group(runs, name, metric):
                columns.append(f"{name} {SCALED} ({metric})")
    for metric in shown:
        if any(small_clients(scores, metric) for scores in runs):
            columns += [f"{what} {metric}" for what in SPREADS]
    return columns


def has_small_group(runs: Sequence[Scores], attribute: str, metric: str) -> bool:
    """Tell whether a group that is too small has a share in a number of all groups, such as the ES-AUC."""
    for scores in runs:
        column = scores.groups.get(attribute, {}).get("clean", {}).get(metric, {})
        small = small_groups(scores, attribute, metric)
        if any(column[group].last is not None for group in small if group in column):
            return True
    return False


def small_clients(scores: Scores, metric: str) -> dict[str, str]:
    """The clients with too few test images of their own for a reliable score, with the reason."""
    small: dict[str, str] = {}
    for name, client in scores.clients.items():
        score = scores.part(client=name).overall.get(client.version, {}).get(metric)
        if client.part == "own" and score and score.small and score.last is not None:
            small[name] = score.small
    return small


def small_decides(
    runs: Sequence[Scores], attribute: str, version: str, metric: str, at: str, view: str = ""
) -> set[str]:
    """The numbers between groups ("worst group", "gap") that a small group decides in some round that counts."""
    decided: set[str] = set()
    for scores in runs:
        small = small_groups(scores, attribute, metric).keys()
        if not small or not views.compared(metric) or (at == BEST and view):
            continue
        part = scores.part(model=table.BEST) if at == BEST else scores.part(view)
        column = part.groups.get(attribute, {}).get(version, {}).get(metric, {})
        for values in zip(
            *(score.values[-1:] if at == LAST else score.values for score in column.values())
        ):
            edges = (
                views.edges(
                    dict(zip(column, [Score([value]) for value in values])), low=better_low(metric)
                )
                or ()
            )
            names = [name for name, _ in edges]
            decided |= {views.WORST} if small & {*names[:1]} else set()
            decided |= {views.GAP} if small & {*names} else set()
    return decided


def small_groups(scores: Scores, attribute: str, *metrics: str) -> dict[str, str]:
    """The groups too small to be reliable, with the reason; the same in every version and round.

    metrics: the scores that are shown; none where any may be.
    A group without any test image, such as a hospital that is left out, has no score that could be unreliable.
    """
    return {
        group: score.small
        for group, score in scores.members(attribute, metrics).items()
        if score.small and score.count
    }


def small_in_sets(sets: Mapping[str, Scores], attribute: str) -> dict[str, str]:
    """Groups too small to be reliable in some of several test sets, with the reason, and in which of them.

    sets: which test set -> the scores of a run on it.
    """
    reasons: dict[str, list[str]] = {}
    members = {which: scores.members(attribute) for which, scores in sets.items()}
    for value in dict.fromkeys(
        value for known in members.values() for value, score in known.items() if score.count
    ):
        for which, scores in sets.items():
            absent = value not in members[which] or not members[which][value].count
            if why := "no test image" if absent else small_groups(scores, attribute).get(value):
                reasons.setdefault(value, []).append(f"{why} ({which})" if len(sets) > 1 else why)
    return {value: "; ".join(whys) for value, whys in reasons.items()}


def unreliable_groups(scores: Scores) -> list[str]:
    """Sentences on all test images where a class has few, on groups of few images, and on each that lacks a class."""
    overall = next(iter(scores.versions["clean"].values()), Score()).missing
    sentences = _of_all_images(scores)
    few, lacking = [], []
    for name in scores.groups:
        for value in small_groups(scores, name):
            score = scores.members(name)[value]
            classes = [
                scores.classes[at]
                for at in score.missing
                if at not in overall and at < len(scores.classes)
            ]
            if JOIN in score.small or not classes:
                few.append(f"{name} {value} ({score.small})")
            else:
                seen, known = (
                    len(scores.classes) - len(score.missing),
                    len(scores.classes) - len(overall),
                )
                lacking.append(
                    f"{name} {value} has no test image of {' or '.join(classes)}: its AUC covers {seen} of {known} "
                    "classes"
                )
    if few:
        sentences.append(f"groups of few test images: {', '.join(few)}")
    return sentences + lacking


def _of_all_images(scores: Scores) -> list[str]:
    """A sentence where all test images together are few, or those of a class are."""
    small = scores.versions["clean"].get(scores.usual[1], Score()).small
    return [f"few test images: {small}; {TOO_NARROW}"] if small else []


def doubtful_decisions(scores: Scores, attribute: str, names: Sequence[str]) -> set[str]:
    """Those of these differences in decisions that a small group may decide: all, where there is one.

    the table holds no group's own rates, so which groups differ most is not known.
    """
    return (
        {name for name in names if name.startswith(PARITY)}
        if small_groups(scores, attribute)
        else set()
    )
