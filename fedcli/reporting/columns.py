"""Whose numbers stand in the columns of a report, by name; and the numbers of several runs as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..comparison.systems import BEST, LAST, Scored
from ..errors import UsageError, nearest
from ..metrics import METRICS, PARITY, title
from ..metrics.task import ONE, SEVERAL
from ..scores import numbers, views
from ..scores.parts import SHOT_GROUPS, VERSIONS, Number
from ..scores.scores import GLOBAL, RECALL, Scores
from ..scores.statistics.over_runs import over_runs
from ..scores.table import Score, Where
from .quantities import VERSION_NAMES, between_groups

POOLED = "pooled"
SHOWN = ONE.usual
BETWEEN = views.WORST, views.GAP
AREAS = ONE.area, SEVERAL.area
STD_AMONG = views.AMONG[1]
Numbers = Mapping[Where, Score]
Names = dict[str, Where]  # of columns -> whose numbers


@dataclass(frozen=True)
class Value:
    """A number of one run, or of several as one, on the scale from 0 to 1."""

    mean: Number
    std: Number = None


def shown(scores: Scores, metrics: Sequence[str] = SHOWN) -> Sequence[str]:
    """The metrics of a run that are shown: those given, or the usual ones of its data."""
    several = scores.usual == SEVERAL.usual and tuple(metrics[:2]) == SHOWN
    return (*SEVERAL.usual, *metrics[2:]) if several else metrics


def all_numbers(scores: Scores, at: str) -> dict[Where, Score]:
    """Every score of a run, over the rounds that it is asked for."""
    scored = numbers.numbers(scores, best=at == BEST)
    every = {where: score for where, score in scored if not where.metric.startswith("bytes")}
    if at != LAST:
        return every
    # groups are averaged over the rounds first: none of one round alone
    return {
        where: Score([None], score.rounds[-1:]) if where.measure in views.ACROSS else score.alone()
        for where, score in every.items()
    }


def joined(scores: Sequence[Score | None], spread: str) -> Value:
    """A number of runs that differ in the seed alone, as one; without a mean where a run does not have it."""
    known = [score for score in scores if score and score.mean is not None]
    if not known or len(known) < len(scores):
        return Value(None)
    if len(known) == 1 and spread == POOLED:
        return Value(known[0].mean, known[0].std)
    over = over_runs(known)
    return Value(over.mean, over.std(spread))


def columns(known: Numbers, run: Scored, metrics: Sequence[str], view: str = "") -> Names:
    """The columns of one run, or of a view of its models, in the order in which they are shown.

    known: all numbers of the run. metrics: of all images, such as accuracy, or names of single columns, which are those
        of numbers in full or without the version of the images. Raises UsageError for an unknown one.
    """
    scores = run.scores
    metrics = shown(scores, metrics)
    overall = [name for name in metrics if name in scores.versions["clean"]]
    cells = {
        f"{version} {metric}": Where(version, view, metric=metric)
        for version in VERSIONS
        for metric in overall
    }
    found = {} if view else _of_models(run, overall)
    none_asked = tuple(overall) in (ONE.usual, SEVERAL.usual)
    for attribute in scores.groups:
        where = Where("clean", view, attribute)
        found |= {
            f"{attribute} ES-AUC ({auc})": where._replace(metric=f"es_{auc}") for auc in AREAS
        }
        for metric in overall[-1:] if none_asked else overall:
            found |= {
                f"{attribute} {what} {metric}": where._replace(metric=metric, measure=what)
                for what in BETWEEN
            }
    cells |= {name: where for name, where in found.items() if where in known}
    return (
        cells
        if view
        else cells | _named(known, scores, [name for name in metrics if name not in overall])
    )


def _of_models(run: Scored, overall: Sequence[str]) -> Names:
    """Recalls by shots, where they were asked for, clients' own models, and scores among clients."""
    scores, asked = run.scores, SHOT_GROUPS if "shots" in run.options else ()
    auc, first = scores.usual[1], shown(scores)[0]
    names = {f"clean {group} recall": Where("clean", label=group, metric=RECALL) for group in asked}
    for model in scores.personal:
        plain = model.replace("_", " ")
        names |= {
            f"{plain} {version} {auc}": Where(version, model=model, metric=auc)
            for version in VERSIONS
        }
    among = [
        (STD_AMONG, auc),
        *((what, own) for own in overall if own not in METRICS for what in views.AMONG[1:]),
    ]
    names |= {f"{what} {metric}": Where(metric=metric, measure=what) for what, metric in among}
    if scores.among_clients_global:
        for whose, model in (("own", ""), (GLOBAL, GLOBAL)):
            where = Where(model=model, metric=first, measure=views.AMONG[0])
            names[f"{where.measure} {first} {whose} model"] = where
    return names


def check_names(metrics: Sequence[str], own: Sequence[str] = ()) -> None:
    """Refuse a metric that no scores have; a name with a blank in it depends on the data. Raises UsageError.

    own: names of metrics from outside the package that are asked for.
    """
    known = [*METRICS, *own, *PARITY, *(f"{name}_ovr_macro" for name in PARITY)]
    for name in metrics:
        if " " not in name and name not in known and not between_groups(name):
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, known))


def group_columns(scores: Scores, attribute: str, version: str, metric: str) -> Names:
    """One metric between the groups of an attribute, then of every group; {} where the run has none."""
    groups = scores.groups.get(attribute, {}).get(version, {})
    where = Where(version, attribute=attribute, metric=metric)
    between = {name: where._replace(measure=name) for name in (*BETWEEN, *views.ACROSS)}
    scaled = {"ES-AUC": where._replace(metric=f"es_{metric}")} if metric in AREAS else {}
    each = {group: where._replace(group=group) for group in next(iter(groups.values()), {})}
    return scaled | between | each if groups else {}


def _as_column(name: str, scores: Scores) -> str:
    """A number between groups by the name of its column; other names as they are."""
    quantity = between_groups(name)
    if quantity is None:
        return name
    by_title = {title(metric).lower(): metric for metric in scores.versions["clean"]}
    metric = by_title.get(quantity.metric.lower(), quantity.metric) or scores.usual[1]
    version = VERSION_NAMES.get(quantity.version, quantity.version)
    where = Where(version, attribute=quantity.attribute, metric=metric, measure=quantity.measure)
    return numbers.name(where)


def _named(known: Numbers, scores: Scores, names: Sequence[str]) -> Names:
    """The columns that these names mean. Raises UsageError for a name that means none."""
    every = {numbers.name(where): where for where in known} if names else {}
    short: dict[
        str, list[str]
    ] = {}  # names of each column, without the version of the images, or what else is plain
    for column in every:
        version, _, rest = column.partition(" ")
        short[column] = [column, rest if version in VERSIONS else column]
        if (base := short[column][1].partition(" by ")[0]).startswith(PARITY):
            short[column] += [base, base.removesuffix("_ovr_macro")]
    meant: Names = {}
    for name in names:
        text = _as_column(name, scores)
        own = {column: where for column, where in every.items() if text in short[column]}
        if not own:
            texts = {
                *scores.versions["clean"],
                *(text for texts in short.values() for text in texts),
            }
            plain = [
                text for text in texts if " " not in text
            ]  # not those of each group and client: hundreds
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, texts, plain))
        meant |= own
    return meant
