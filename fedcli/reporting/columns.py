"""The columns of a report by name, each with whose number it is; and the numbers of several runs as
one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from ..comparison.systems import BEST, LAST, Scored
from ..errors import UsageError, nearest
from ..metrics import METRICS, PARITY, title
from ..metrics.task import ONE, SEVERAL
from ..scores import numbers, views
from ..scores.parts import SHOT_GROUPS, VERSIONS, Number
from ..scores.scores import GLOBAL, RECALL, RunScores
from ..scores.statistics.over_runs import over_runs
from ..scores.table import Score, Where
from .quantities import VERSION_NAMES, between_groups

POOLED = "pooled"
SHOWN = ONE.usual
ACCURACY = "accuracy"  # the only score where sites show one class alone
BETWEEN = views.WORST, views.GAP
AREAS = ONE.area, SEVERAL.area
MEAN_AMONG, STD_AMONG, WORST_AMONG = views.AMONG
BY_CLASS = "_ovr_macro"  # behind the name of a parity of each class against the rest
Numbers = Mapping[Where, Score]
Names = dict[str, Where]  # of columns -> whose numbers


@dataclass(frozen=True)
class Value:
    """A number of one run, or of several as one, on the scale from 0 to 1."""

    mean: Number
    std: Number = None


def shown(scores: RunScores, metrics: Sequence[str] = SHOWN) -> Sequence[str]:
    """The metrics of a run that are shown: those given, or the usual ones of its data."""
    if scores.usual == SEVERAL.usual and tuple(metrics[:2]) == SHOWN:
        return (*SEVERAL.usual, *metrics[2:])
    if scores.unscored and scores.unscored.of_one_class and tuple(metrics[:2]) == SHOWN:
        return (ACCURACY, *metrics[2:])
    return metrics


def all_numbers(scores: RunScores, rounds: str) -> dict[Where, Score]:
    """Every score of a run, over the rounds of that name: LAST5, LAST or BEST."""
    table = {}
    for where, score in numbers.numbers(scores, best=rounds == BEST):
        if where.metric.startswith("bytes"):
            continue
        if rounds != LAST:
            table[where] = score
        elif where.measure in views.ACROSS:
            # groups are averaged over the rounds first: none of one round alone
            table[where] = Score([None], score.rounds[-1:])
        else:
            table[where] = score.alone()
    return table


def joined(scores: Sequence[Score | None], spread: str) -> Value:
    """A number of runs that differ in the seed alone, as one; without a mean if a run does not have
    it.
    """
    scored = [score for score in scores if score and score.mean is not None]
    if not scored or len(scored) < len(scores):
        return Value(None)
    if len(scored) == 1 and spread == POOLED:
        return Value(scored[0].mean, scored[0].std)
    several = over_runs(scored)
    return Value(several.mean, several.std(spread))


def columns(
    table: Numbers,
    run: Scored,
    metrics: Sequence[str],
    view: str = "",
) -> Names:
    """The columns of one run, or of a view of its models, in the order in which they are shown.

    table: all numbers of the run. metrics: of all images, such as accuracy, or names of single
        columns, which are those of numbers in full or without the version of the images. Raises
        UsageError for an unknown one.
    """
    scores = run.scores
    metrics = shown(scores, metrics)
    overall = [name for name in metrics if name in scores.versions["clean"]]
    names = _of_versions("", Where(view=view), overall)
    further = {} if view else _of_models(run, overall)
    for attribute in scores.groups:
        further |= _of_attribute(Where("clean", view, attribute), overall)
    names |= {name: where for name, where in further.items() if where in table}
    if not view:
        names |= _named(table, scores, [name for name in metrics if name not in overall])
    return names


def _of_versions(model: str, where: Where, metrics: Iterable[str]) -> Names:
    """Columns of metrics on every version of the test images. model: in words, "" for the run's."""
    names = {}
    for version, metric in product(VERSIONS, metrics):
        name = f"{model} {version} {metric}".lstrip()
        names[name] = where._replace(version=version, metric=metric)
    return names


def _of_attribute(where: Where, overall: Sequence[str]) -> Names:
    """Columns of what lies between the groups of an attribute."""
    names = {}
    for area in AREAS:
        names[f"{where.attribute} ES-AUC ({area})"] = where._replace(metric=f"es_{area}")
    are_usual = tuple(overall) in (ONE.usual, SEVERAL.usual)
    for metric, measure in product(overall[-1:] if are_usual else overall, BETWEEN):
        name = f"{where.attribute} {measure} {metric}"
        names[name] = where._replace(metric=metric, measure=measure)
    return names


def _of_models(run: Scored, overall: Sequence[str]) -> Names:
    """Recalls by shots, where they were asked for, clients' own models, and scores among
    clients.
    """
    scores = run.scores
    area = scores.usual[1]
    names: Names = {}
    for shots in SHOT_GROUPS if "shots" in run.options else ():
        names[f"clean {shots} recall"] = Where(
            "clean",
            label=shots,
            metric=RECALL,
        )
    for model in scores.personal:
        names |= _of_versions(model.replace("_", " "), Where(model=model), [area])
    names[f"{STD_AMONG} {area}"] = Where(metric=area, measure=STD_AMONG)
    own_metrics = [metric for metric in overall if metric not in METRICS]
    for metric, measure in product(own_metrics, (STD_AMONG, WORST_AMONG)):
        names[f"{measure} {metric}"] = Where(metric=metric, measure=measure)
    if scores.among_clients_global:
        metric = shown(scores)[0]
        where = Where(metric=metric, measure=MEAN_AMONG)
        names[f"{MEAN_AMONG} {metric} own model"] = where
        names[f"{MEAN_AMONG} {metric} {GLOBAL} model"] = where._replace(model=GLOBAL)
    return names


def check_names(metrics: Sequence[str], further: Sequence[str] = ()) -> None:
    """Refuse a metric that no scores have; a name with a blank in it depends on the data. Raises
    UsageError.

    further: names of metrics from outside the package that are asked for.
    """
    names = [*METRICS, *further, *PARITY, *(f"{name}{BY_CLASS}" for name in PARITY)]
    for name in metrics:
        if " " not in name and name not in names and not between_groups(name):
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, names))


def chosen(heads: Names, words: Sequence[str], versions: Mapping[str, str]) -> Names:
    """The columns of which a word names the images, the measure, the metric or the attribute; all
    of them without words.

    versions: words for versions of the test images. Raises UsageError for a word that names none.
    """
    if not words:
        return heads
    parts = {name: _parts_of_head(name, where, versions) for name, where in heads.items()}
    wanted = {word.strip().lower() for text in words for word in text.split(",")}
    for word in sorted(wanted):
        if not any(word in named for named in parts.values()):
            known = sorted(set().union(*parts.values()))
            short = [text for text in known if " " not in text]
            raise UsageError(f"the report has no column {word!r}", nearest(word, known, short))
    return {name: where for name, where in heads.items() if parts[name] & wanted}


def _parts_of_head(name: str, where: Where, versions: Mapping[str, str]) -> set[str]:
    """The words by which a column may be named, in small letters."""
    over, measure = numbers.words(where, versions)
    parts = [name, over, measure, where.metric, title(where.metric), where.attribute, where.group]
    return {part.lower() for part in parts if part}


def group_columns(
    scores: RunScores,
    attribute: str,
    version: str,
    metric: str,
) -> Names:
    """One metric between the groups of an attribute, then of every group; {} where the run has
    none.
    """
    scores_by_metric = scores.groups.get(attribute, {}).get(version, {})
    if not scores_by_metric:
        return {}
    where = Where(version, attribute=attribute, metric=metric)
    names: Names = {}
    if metric in AREAS:
        names["ES-AUC"] = where._replace(metric=f"es_{metric}")
    for measure in (*BETWEEN, *views.ACROSS):
        names[measure] = where._replace(measure=measure)
    for group in next(iter(scores_by_metric.values())):
        names[group] = where._replace(group=group)
    return names


def _as_column(name: str, scores: RunScores) -> str:
    """A number between groups by the name of its column; other names as they are."""
    quantity = between_groups(name)
    if quantity is None:
        return name
    by_title = {title(metric).lower(): metric for metric in scores.versions["clean"]}
    metric = by_title.get(quantity.metric.lower(), quantity.metric) or scores.usual[1]
    version = VERSION_NAMES.get(quantity.version, quantity.version)
    where = Where(
        version,
        attribute=quantity.attribute,
        metric=metric,
        measure=quantity.measure,
    )
    return numbers.name(where)


def _named(table: Numbers, scores: RunScores, names: Sequence[str]) -> Names:
    """The columns that these names mean. Raises UsageError for a name that means none."""
    if not names:
        return {}
    wheres = {numbers.name(where): where for where in table}
    spellings = {column: list(_spellings(column)) for column in wheres}
    columns: Names = {}
    for name in names:
        text = _as_column(name, scores)
        matches = [column for column in wheres if text in spellings[column]]
        if not matches:
            texts = {*scores.versions["clean"], *chain.from_iterable(spellings.values())}
            # not the names of each group and client: hundreds
            plain = [text for text in texts if " " not in text]
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, texts, plain))
        columns |= {column: wheres[column] for column in matches}
    return columns


def _spellings(column: str) -> Iterator[str]:
    """A column's name in full, without the version of the images, and of a parity also the metric
    alone.
    """
    yield column
    version, _, rest = column.partition(" ")
    short = rest if version in VERSIONS else column
    yield short
    metric = short.partition(" by ")[0]
    if metric.startswith(PARITY):
        yield metric
        yield metric.removesuffix(BY_CLASS)
