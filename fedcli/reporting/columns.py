"""Numbers of a run in the cells of a report, by the name of their column."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..compare.systems import BEST, LAST
from ..errors import UsageError, nearest
from ..metrics import METRICS, PARITY, better_low
from ..metrics.task import ONE, SEVERAL
from ..scores import numbers, views
from ..scores.parts import SHOT_GROUPS, VERSIONS, Number
from ..scores.scores import Scores
from ..scores.statistics import over_seeds
from ..scores.table import Score, Where

POOLED, RUNS = SPREADS = "pooled", "runs"
SHOWN = ONE.usual
BETWEEN = views.WORST, views.GAP


@dataclass(frozen=True)
class Value:
    """A number of one run, or of several as one, on the scale from 0 to 1.

    values: what mean and std are of, one for each kept round. lower: whether it is better when low.
    """

    mean: Number
    std: Number = None
    lower: bool = False
    values: Sequence[Number] = ()


Values = Mapping[str, Value]  # by the name of an entry, or of a column


def shown(scores: Scores, metrics: Sequence[str] = SHOWN) -> Sequence[str]:
    """The metrics of a run that are shown: those given, or the usual ones of its data."""
    usual = area(scores) == SEVERAL.area and tuple(metrics[:2]) == SHOWN
    return (*SEVERAL.usual, *metrics[2:]) if usual else metrics


def area(scores: Scores) -> str:
    """The area under the curve that stands for a run."""
    return (SEVERAL if any(SEVERAL.area in metrics for metrics in scores.versions.values()) else ONE).area


def all_values(scores: Scores, at: str) -> dict[str, Value]:
    """Every score of a run by the name of its entry, such as "clean gap accuracy by sex"."""
    found = numbers.numbers(scores, best=at == BEST)
    return {numbers.name(where): _value(where, x, at) for where, x in found if not where.metric.startswith("bytes")}


def _value(where: Where, score: Score, at: str) -> Value:
    lower = numbers.is_lower(where)
    if at == LAST:  # groups are averaged over the rounds first: none of one round alone
        last = None if where.measure in views.ACROSS else score.last
        return Value(last, None, lower, [last])
    return Value(score.mean, score.std, lower, score.values)


def columns(known: Values, scores: Scores, *, by_shots: bool, metrics: Sequence[str]) -> dict[str, Value]:
    """The cells of one run by column, in the order columns are shown.

    known: all values of the run. metrics: of all images, such as accuracy, or names of single columns, which are those
        of entries in full or without the version of the images. Raises UsageError for an unknown one.
    """
    metrics, auc = shown(scores, metrics), area(scores)
    overall = [name for name in metrics if name in scores.versions["clean"]]
    cells = dict(_overall(known, overall))
    if by_shots:
        cells |= {f"clean {name} recall": value for name in SHOT_GROUPS if (value := known.get(f"clean {name} recall"))}
    for model in (name.replace("_", " ") for name in scores.personal):
        named = {f"{model} {version} {auc}": find(known, auc, version, model=model) for version in VERSIONS}
        cells |= {name: value for name, value in named.items() if value}
    among = {f"std among clients {auc}": find(known, auc, measure="std among clients")}
    for own in (name for name in overall if name not in METRICS):
        among |= {f"{what} {own}": find(known, own, measure=what) for what in views.AMONG[1:]}
    if scores.among_clients_global:
        for whose, model in (("own", ""), ("global", "global")):
            first = shown(scores)[0]
            mean = find(known, first, measure="mean among clients", model=model)
            among[f"mean among clients {first} {whose} model"] = mean
    cells |= {name: value for name, value in among.items() if value}
    cells |= dict(_between(known, scores, overall))
    return cells | _named(known, scores, [name for name in metrics if name not in overall])


def check_names(metrics: Sequence[str], own: Sequence[str] = ()) -> None:
    """Refuse a metric that no scores have; a name with a blank in it depends on the data. Raises UsageError.

    own: names of metrics from outside the package that are asked for.
    """
    known = [*METRICS, *own, *PARITY, *(f"{name}_ovr_macro" for name in PARITY)]
    for name in metrics:
        if " " not in name and name not in known:
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, known))


def view_columns(known: Values, view: str, scores: Scores, metrics: Sequence[str]) -> dict[str, Value]:
    """The cells of one view of a run's models; of the best round only the first view is known."""
    metrics = shown(scores, metrics)
    return {**dict(_overall(known, metrics, view)), **dict(_between(known, scores, metrics, view))}


def group_values(known: Values, scores: Scores, attribute: str, version: str, metric: str) -> dict[str, Value]:
    """One metric of every group of an attribute, then what lies between the groups; {} where that is not known."""
    groups = scores.groups.get(attribute, {}).get(version, {})
    if not groups:
        return {}
    where = {"version": version, "attribute": attribute}
    each = {value: find(known, metric, **where, group=value) for value in next(iter(groups.values()))}
    each |= {name: find(known, metric, **where, measure=name) for name in (*BETWEEN, *views.ACROSS)}
    each |= {"ES-AUC": find(known, f"es_{metric}", **where)} if metric in (ONE.area, SEVERAL.area) else {}
    return {name: value for name, value in each.items() if value}


def parity_values(known: Values, attribute: str, version: str) -> dict[str, Value]:
    """The differences in decisions between the groups of an attribute, under their names."""
    names = [f"{name}{which}" for name in PARITY for which in ("", "_ovr_macro")]
    differences = {name: find(known, name, version, attribute) for name in names}
    return {name: value for name, value in differences.items() if value}


def find(
    known: Values, metric: str, version: str = "", attribute: str = "", *, group: str = "", client: str = "",
    model: str = "", measure: str = "",
) -> Value | None:  # fmt: skip
    """One value of a run; None where it has none of this name."""
    where = Where(version, "", attribute, group, client, "", model, metric, measure)
    return known.get(numbers.name(where))


def joined(runs: Sequence[Values], spread: str) -> dict[str, Value]:
    """The values of runs that differ in the seed alone, as one; None where a run has no number."""
    names = dict.fromkeys(name for values in runs for name in values)
    return {name: _joined([values.get(name) for values in runs], spread) for name in names}


def _joined(values: Sequence[Value | None], spread: str) -> Value:
    known = [value for value in values if value]
    if len(known) < len(values) or any(value.mean is None for value in known):
        return Value(None, None, known[0].lower)
    if len(known) == 1 and spread == POOLED:
        return known[0]
    over = over_seeds([value.values for value in known])
    return Value(over.mean, over.std(spread), known[0].lower)


def percent(share: float | None) -> str:
    """A share as it is printed."""
    return "" if share is None else f"{100 * share:.2f}"


def _overall(known: Values, metrics: Sequence[str], model: str = "") -> Iterator[tuple[str, Value]]:
    for version in VERSIONS:
        for metric in metrics:
            missing = Value(None, None, better_low(metric))
            yield f"{version} {metric}", find(known, metric, version, model=model) or missing


def _between(
    known: Values, scores: Scores, metrics: Sequence[str], model: str = ""
) -> Iterator[tuple[str, Value]]:  # fmt: skip
    """Differences between the groups of the clean test images: of the AUC, or of the metrics asked for."""
    for attribute in scores.groups:
        where = {"version": "clean", "attribute": attribute, "model": model}
        named = {f"{attribute} ES-AUC ({auc})": find(known, f"es_{auc}", **where) for auc in (ONE.area, SEVERAL.area)}
        for metric in metrics[-1:] if tuple(metrics) in (ONE.usual, SEVERAL.usual) else metrics:
            named |= {f"{attribute} {what} {metric}": find(known, metric, **where, measure=what) for what in BETWEEN}
        yield from ((name, value) for name, value in named.items() if value)


def _named(known: Values, scores: Scores, names: Sequence[str]) -> dict[str, Value]:
    """The columns that these names mean. Raises UsageError for a name that means none."""
    short = {column: _short_names(column) for column in known} if names else {}
    meant: dict[str, Value] = {}
    for name in names:
        own = {column: known[column] for column in known if name in short[column]}
        if not own:
            every = {*scores.versions["clean"], *(text for texts in short.values() for text in texts)}
            plain = [text for text in every if " " not in text]  # not those of each group and client: hundreds
            raise UsageError(f"the scores have no metric {name!r}", nearest(name, every, plain))
        meant |= own
    return meant


def _short_names(column: str) -> list[str]:
    """Names of a column: in full, without the version of the images, of differences also without the
    attribute."""
    version, _, rest = column.partition(" ")
    short = rest if version in VERSIONS else column
    base = short.partition(" by ")[0]
    return [column, short, *([base, base.removesuffix("_ovr_macro")] if base.startswith(PARITY) else [])]
