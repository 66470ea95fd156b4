"""All numbers of a run as one nested object, facts and views.

It is for people's scripts, and for the places of recipes. A place is a path of keys, such as
versions/clean/accuracy or groups/sex/clean/over_rounds/accuracy/gap.
"""

from collections.abc import Mapping
from typing import Any

from . import views
from .parts import PATCHED, SUCCESS
from .scores import GLOBAL, ByMetric, Grouped, Part, Scores, groups_of, with_average
from .statistics.bootstrap import BCA, LEVEL
from .statistics.intervals import RESAMPLES
from .table import BEST, Score

Nested = dict[str, Any]
Metrics = Mapping[str, Score]  # metric -> score of the same images
BETWEEN = {  # of the last round
    views.WORST: "worst",
    views.GAP: "gap",
    views.STD: "std",
    views.MEAN: "average",
}
OVER = BETWEEN | {
    views.WORST_IN_EACH: "worst_in_each_round",
    views.GAP_IN_EACH: "gap_in_each_round",
}
ACROSS = dict(zip(views.ACROSS, ("average", "std_sample"), strict=True))
RARE = (  # left out where empty
    "sample",
    "severities",
    "curves",
    "candidates",
    "external",
    "clinical",
    "train_images",
)
ELSEWHERE = ("grouped", "best")  # facts that are placed by their numbers


def nested(scores: Scores) -> Nested:
    """Facts of scores.json, with the numbers of its table and what follows from them."""
    facts = scores.facts()
    whole: Nested = {}
    for key, value in facts.items():
        if key not in ELSEWHERE and (value or key not in RARE):
            whole[key] = value
    whole |= _quality(scores, scores.part())
    whole["views"] = {view: _quality(scores, scores.part(view)) for view in scores.views}
    whole["best_on_validation"] = None
    if facts["best"]:
        whole["best_on_validation"] = facts["best"] | _best(scores)
    whole["personal"] = {}
    for model in scores.personal:
        whole["personal"][model] = _own_models(scores, scores.part(model=model))
    whole["clients"] = {name: _client(scores, name) for name in scores.clients}
    for key in ("among_clients", "among_clients_global"):
        by_metric = getattr(scores, key)
        whole[key] = {metric: _among(measures) for metric, measures in by_metric.items()}
    if scores.shots:
        versions = {version: _over_all(recalls) for version, recalls in scores.recalls.items()}
        whole["shots"] = facts["shots"] | {"versions": versions}
    if scores.severities:
        whole["severities"] = _severities(scores, facts["severities"])
    overall = scores.part().overall
    if PATCHED[0] in overall:
        whole["backdoor"] = {version: _over(overall[version][SUCCESS]) for version in PATCHED}
    if scores.cross_site:
        whole["cross_site"] = _cross_site(scores)
    if scores.labels:
        whole["labels"] = {}
        for version, parts in scores.labels.items():
            labels = {name: _label(part, version) for name, part in parts.items()}
            whole["labels"][version] = labels
    return whole


def _over(score: Score) -> Nested:
    """A number over the rounds; what is of the groups' means has its rounds under another name."""
    over: Nested = {"last": score.last, "mean_last5": score.mean, "std_last5": score.std}
    if not isinstance(score, views.OfMeans):
        over["per_round"] = score.values
    return over


def _over_all(scores: Metrics) -> Nested:
    return {name: _over(score) for name, score in scores.items()}


def _last_of_all(scores: Metrics) -> Nested:
    return {name: score.last for name, score in scores.items()}


def _images(metrics: Metrics) -> Nested:
    """The images that scores are of."""
    any_score = next(iter(metrics.values()), Score())
    reasons = [score.small for score in metrics.values()]
    reason = max(reasons, key=len, default="")
    count: int | None = any_score.count
    if any_score.hidden and not count:
        count = None
    return {
        "count": count,
        "classes_missing": list(any_score.missing),
        "small": bool(reason),
        "reason": reason,
    }


def _scored(metrics: Metrics) -> Nested:
    """Scores of the same images over the rounds, and what those are."""
    return _over_all(metrics) | _images(metrics)


def _in_last(metrics: Metrics) -> Nested:
    """Scores of the same images in the last round, and what those are."""
    return _last_of_all(metrics) | _images(metrics)


def _group(metrics: Metrics) -> Nested:
    """Scores of a group in the last round; `hidden` where sites hide images of it."""
    scored = _in_last(metrics)
    any_score = next(iter(metrics.values()))
    if any_score.hidden:
        scored["hidden"] = True
    return scored


def _intervals(metrics: Metrics) -> Nested:
    intervals = {}
    for name, score in metrics.items():
        if not score.interval:
            continue
        intervals[name] = {
            "value": score.last,
            "low": score.low,
            "high": score.high,
            "level": LEVEL,
            "resamples": RESAMPLES,
            "unit": score.unit,
            "units": score.units,
        }
        if score.is_bca:
            intervals[name]["method"] = BCA
    return intervals


def _intervals_of_all(scores: Mapping[str, Metrics]) -> Nested:
    """The intervals of each version or metric that has any."""
    intervals = {name: _intervals(metrics) for name, metrics in scores.items()}
    return {name: bounds for name, bounds in intervals.items() if bounds}


def _quality(scores: Scores, part: Part) -> Nested:
    versions = with_average(part.overall)
    return {
        "versions": {version: _scored(metrics) for version, metrics in versions.items()},
        "intervals": _intervals_of_all(versions),
        "groups": _all_groups(scores, part),
    }


def _own_models(scores: Scores, part: Part) -> Nested:
    models = {version: _scored(metrics) for version, metrics in part.overall.items()}
    models["groups"] = _all_groups(scores, part)
    return models


def _best(scores: Scores) -> Nested:
    part = scores.part(model=BEST)
    versions = with_average(part.overall)
    groups: Nested = {}
    for attribute, by_version in _all_groups(scores, part).items():
        groups[attribute] = {v: numbers["last_round"] for v, numbers in by_version.items()}
    return {
        "versions": {version: _in_last(metrics) for version, metrics in versions.items()},
        "groups": groups,
    }


def _all_groups(scores: Scores, part: Part) -> Nested:
    groups: Nested = {}
    for attribute, versions in groups_of(part).items():
        grouped = scores.grouped.get(attribute)
        groups[attribute] = {v: _groups(part, attribute, v, grouped) for v in versions}
    return groups


def _groups(part: Part, attribute: str, version: str, grouped: Grouped | None) -> Nested:
    """The groups of an attribute on one version of the test images, and what lies between them."""
    columns = part.groups[attribute][version]
    grouped = grouped or Grouped()
    single: dict[str, Score] = {"es_auc_ovo_macro": Score([None])}  # of all groups together
    between: ByMetric = {}
    across: Nested = {}
    for where, score in part.between(attribute, version).items():
        if where.measure in OVER:
            between.setdefault(where.metric, {})[OVER[where.measure]] = score
        elif where.measure in ACROSS:
            across.setdefault(where.metric, {})[ACROSS[where.measure]] = score.last
        elif not where.measure:
            single[where.metric] = score
    single |= part.differences.get(attribute, {}).get(version, {})
    last = _last_of_all(single)
    last["groups"] = {group: _group(metrics) for group, metrics in _by_group(columns).items()}
    last["overall"] = _in_last(part.overall.get(version, {}))
    last["between"] = {}
    for metric, measures in between.items():
        numbers = {name: measures[name].last for name in BETWEEN.values() if name in measures}
        last["between"][metric] = numbers | _ends(part, attribute, version, metric)
    last["unknown"] = grouped.unknown
    last["undefined_rates"] = grouped.undefined_rates
    over_rounds = _over_all(single)
    for metric, measures in between.items():
        over_rounds[metric] = _over_all(measures)
    compared = {name: _over_all(column) for name, column in columns.items() if views.compared(name)}
    groups = {"last_round": last, "over_rounds": over_rounds, "each": compared, "across": across}
    intervals = _intervals_of_all(columns)
    if intervals:
        groups["intervals"] = intervals
    return groups


def _by_group(columns: Mapping[str, Metrics]) -> ByMetric:
    """Group -> metric -> score. columns: metric -> group -> score."""
    by_group: ByMetric = {}
    for metric, column in columns.items():
        for group, score in column.items():
            by_group.setdefault(group, {})[metric] = score
    return by_group


def _ends(part: Part, attribute: str, version: str, metric: str) -> Nested:
    """The worst and the best group of the last round; None where there are none."""
    edges = part.edges(attribute, version, metric)
    if edges is None:
        return {"worst": None, "best": None}
    (worst, lowest), (best, highest) = edges
    return {
        "worst": {"group": worst or None, "score": lowest},
        "best": {"group": best or None, "score": highest},
    }


def _client(scores: Scores, name: str) -> Nested:
    client = scores.clients[name]
    version = client.version
    part = scores.part(client=name)
    whole = _scored(part.overall[version])
    whole["version"] = version
    whole["part"] = client.part
    if client.corruption:
        whole["corruption"] = client.corruption
    groups = {}
    for attribute in part.groups:
        groups[attribute] = _groups(part, attribute, version, client.groups.get(attribute))
    if groups:
        whole["groups"] = groups
    global_model = scores.part(model=GLOBAL, client=name)
    if global_model.overall:
        whole["global_model"] = _scored(global_model.overall[version])
    return whole


def _severities(scores: Scores, facts: Nested) -> Nested:
    """Kind -> severity -> the facts about it, with the scores."""
    kinds: Nested = {}
    for kind in scores.severities:
        kinds[kind] = {}
        for severity, in_training in facts[kind].items():
            kinds[kind][severity] = in_training | _severity(scores, f"{kind} {severity}")
    return kinds


def _severity(scores: Scores, version: str) -> Nested:
    part = scores.part()
    groups = {}
    for attribute, versions in part.groups.items():
        if version in versions:
            grouped = scores.grouped.get(attribute)
            groups[attribute] = _groups(part, attribute, version, grouped)
    return {
        "scores": _scored(part.overall[version]),
        "intervals": _intervals(part.overall[version]),
        "groups": groups,
    }


def _cross_site(scores: Scores) -> Nested:
    """Whose model -> whose test images -> scores of the last round."""
    models = {}
    for model, by_client in scores.cross_site.items():
        models[model] = {client: _in_last(metrics) for client, metrics in by_client.items()}
    return models


def _label(part: Part, version: str) -> Nested:
    """One of several labels per image."""
    metrics = part.overall[version]
    label: Nested = {"images": next(iter(metrics.values())).count}
    groups: Nested = {}
    for attribute, versions in part.groups.items():
        measures = {}
        for where, score in part.between(attribute, version).items():
            measures[where.measure] = score.last
        between = {name: measures.get(measure) for measure, name in BETWEEN.items()}
        groups[attribute] = {
            "auc": _last_of_all(versions[version]["auc"]),
            "between": between | _ends(part, attribute, version, "auc"),
            "differences": _last_of_all(part.differences[attribute][version]),
        }
    if groups:
        label["groups"] = groups
    return label | _over_all(metrics)


def _among(measures: Metrics) -> Nested:
    """The means over the rounds of what varies among clients, and the rounds."""
    means: Nested = {}
    per_round = {}
    for measure, score in measures.items():
        name = measure.partition(" ")[0]
        means[name] = score.mean
        per_round[name] = score.values or None
    means["per_round"] = per_round
    return means
