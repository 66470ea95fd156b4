"""All numbers of a run as one nested object, facts and views.

It is for people's scripts, and for the places of recipes. A place is a path of keys, such as
versions/clean/accuracy or groups/sex/clean/over_rounds/accuracy/gap.
"""

from collections.abc import Mapping
from typing import Any

from . import views
from .parts import AVERAGE, PATCHED, SUCCESS, Grouped
from .scores import GLOBAL, ByMetric, Part, RunScores, groups_of, with_average
from .statistics.bootstrap import BCA, LEVEL
from .statistics.intervals import RESAMPLES
from .table import BEST, Score, tree

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


def nested(scores: RunScores) -> Nested:
    """Facts of scores.json, with the numbers of its table and what follows from them."""
    facts = scores.facts()
    whole: Nested = {}
    for key, value in facts.items():
        if key not in ELSEWHERE and (value or key not in RARE):
            whole[key] = value
    part = scores.part()
    whole |= _quality(scores, part)
    qualities = {view: _quality(scores, scores.part(view)) for view in scores.views}
    whole["views"] = qualities
    whole["best_on_validation"] = None
    if facts["best"]:
        whole["best_on_validation"] = facts["best"] | _best(scores)
    whole["personal"] = {model: _personal(scores, model) for model in scores.personal}
    whole["clients"] = {name: _client(scores, name) for name in scores.clients}
    whole["among_clients"] = _among(scores.among_clients)
    whole["among_clients_global"] = _among(scores.among_clients_global)
    if scores.shots:
        versions = {version: _over_all(recalls) for version, recalls in scores.recalls.items()}
        whole["shots"] = facts["shots"] | {"versions": versions}
    for kind, severities in whole.get("severities", {}).items():
        for severity, in_training in severities.items():
            in_training |= _severity(scores, f"{kind} {severity}")
    if PATCHED[0] in part.overall:
        success = {version: part.overall[version][SUCCESS] for version in PATCHED}
        whole["backdoor"] = _over_all(success)
    if scores.cross_site:
        whole["cross_site"] = _cross_site(scores)
    if scores.labels:
        whole["labels"] = _labels(scores)
    return whole


def _cross_site(scores: RunScores) -> Nested:
    """Model -> client -> scores of its test images in the last round."""
    nested_by_model = {}
    for model, clients in scores.cross_site.items():
        last_by_test = {name: _in_last(tests) for name, tests in clients.items()}
        nested_by_model[model] = last_by_test
    return nested_by_model


def _labels(scores: RunScores) -> Nested:
    """Version -> label -> its scores, where an image has several labels."""
    nested_by_version = {}
    for version, parts in scores.labels.items():
        labels = {name: _label(part, version) for name, part in parts.items()}
        nested_by_version[version] = labels
    return nested_by_version


def _over(score: Score) -> Nested:
    """A number over the rounds; what is of the groups' means has its rounds under another name."""
    over: Nested = {
        "last": score.last,
        "mean_last5": score.mean,
        "std_last5": score.std,
    }
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


def _quality(scores: RunScores, part: Part) -> Nested:
    versions = with_average(part.overall)
    scored = {version: _scored(metrics) for version, metrics in versions.items()}
    return {
        "versions": scored,
        "intervals": _intervals_of_all(versions),
        "groups": _all_groups(scores, part),
    }


def _personal(scores: RunScores, model: str) -> Nested:
    """Clients' own models on the whole test sets."""
    quality = _quality(scores, scores.part(model=model))
    quality["versions"].pop(AVERAGE, None)
    return quality["versions"] | {"groups": quality["groups"]}


def _best(scores: RunScores) -> Nested:
    """The last round alone of the model that validation chose."""
    part = scores.part(model=BEST)
    versions = with_average(part.overall)
    groups: Nested = {}
    for attribute, by_version in _all_groups(scores, part).items():
        groups[attribute] = {v: numbers["last_round"] for v, numbers in by_version.items()}
    return {
        "versions": {version: _in_last(metrics) for version, metrics in versions.items()},
        "groups": groups,
    }


def _all_groups(scores: RunScores, part: Part) -> Nested:
    groups: Nested = {}
    for attribute, versions in groups_of(part).items():
        grouped = scores.grouped.get(attribute, Grouped())
        groups[attribute] = {v: _groups(part, attribute, v, grouped) for v in versions}
    return groups


def _groups_on(
    part: Part,
    version: str,
    grouped: Mapping[str, Grouped],
) -> Nested:
    """Attribute -> its groups on one version of the test images."""
    groups: Nested = {}
    for attribute, versions in part.groups.items():
        if version in versions:
            unknown = grouped.get(attribute, Grouped())
            groups[attribute] = _groups(part, attribute, version, unknown)
    return groups


def _groups(
    part: Part,
    attribute: str,
    version: str,
    grouped: Grouped,
) -> Nested:
    """The groups of an attribute on one version of the test images, and what lies between them."""
    columns = part.groups[attribute][version]
    by_measure = tree(part.between(attribute, version), "metric", "measure")
    single = {"es_auc_ovo_macro": Score([None])} | _single(by_measure)
    across: Nested = {}
    over_rounds = _over_all(single)
    for metric, measures in by_measure.items():
        if metric not in single:
            over_rounds[metric] = _over_all(_renamed(measures, OVER))
        if ACROSS.keys() <= measures.keys():
            across[metric] = _last_of_all(_renamed(measures, ACROSS))
    by_group: ByMetric = {}  # group -> metric -> score
    for metric, column in columns.items():
        for group, score in column.items():
            by_group.setdefault(group, {})[metric] = score
    metrics_by_group = {group: _group(metrics) for group, metrics in by_group.items()}
    overall = _in_last(part.overall.get(version, {}))
    compared = {m: _over_all(column) for m, column in columns.items() if views.compared(m)}
    groups = {
        "last_round": {
            **_last_of_all(single),
            "groups": metrics_by_group,
            "overall": overall,
            "between": _between(part, attribute, version, by_measure),
            "unknown": grouped.unknown,
            "undefined_rates": grouped.undefined_rates,
        },
        "over_rounds": over_rounds,
        "each": compared,
        "across": across,
    }
    intervals = _intervals_of_all(columns)
    if intervals:
        groups["intervals"] = intervals
    return groups


def _single(by_measure: ByMetric) -> dict[str, Score]:
    """Numbers of all groups together: differences in decisions, and equity-scaled AUCs."""
    return {metric: measures[""] for metric, measures in by_measure.items() if "" in measures}


def _between(
    part: Part,
    attribute: str,
    version: str,
    by_measure: ByMetric,
) -> Nested:
    """Numbers between the groups in the last round, with the worst and the best of these.

    by_measure: metric -> measure -> score.
    """
    between: Nested = {}
    for metric, measures in by_measure.items():
        if "" in measures:
            continue
        numbers = _last_of_all(_renamed(measures, BETWEEN)) | {"worst": None, "best": None}
        edges = part.edges(attribute, version, metric) or ()
        for name, (group, value) in zip(("worst", "best"), edges, strict=False):
            numbers[name] = {"group": group or None, "score": value}
        between[metric] = numbers
    return between


def _renamed(measures: Metrics, names: Mapping[str, str]) -> dict[str, Score]:
    """These of the measures, by their names in the nested form."""
    return {name: measures[measure] for measure, name in names.items() if measure in measures}


def _client(scores: RunScores, name: str) -> Nested:
    client = scores.clients[name]
    part = scores.part(client=name)
    whole = _scored(part.overall[client.version])
    whole |= {"version": client.version, "part": client.part}
    if client.corruption:
        whole["corruption"] = client.corruption
    groups = _groups_on(part, client.version, client.groups)
    if groups:
        whole["groups"] = groups
    global_model = scores.part(model=GLOBAL, client=name)
    if global_model.overall:
        whole["global_model"] = _scored(global_model.overall[client.version])
    return whole


def _severity(scores: RunScores, version: str) -> Nested:
    part = scores.part()
    metrics = part.overall[version]
    return {
        "scores": _scored(metrics),
        "intervals": _intervals(metrics),
        "groups": _groups_on(part, version, scores.grouped),
    }


def _label(part: Part, version: str) -> Nested:
    """One of several labels per image."""
    metrics = part.overall[version]
    label: Nested = {"images": next(iter(metrics.values())).count}
    groups: Nested = {}
    for attribute, versions in part.groups.items():
        by_measure = tree(part.between(attribute, version), "metric", "measure")
        between = _between(part, attribute, version, by_measure)
        differences = _last_of_all(_single(by_measure))
        groups[attribute] = {
            "auc": _last_of_all(versions[version]["auc"]),
            "between": between["auc"],
            "differences": differences,
        }
    if groups:
        label["groups"] = groups
    return label | _over_all(metrics)


def _among(among: ByMetric) -> Nested:
    """The means over the rounds of what varies among clients, and the rounds."""
    by_metric: Nested = {}
    for metric, measures in among.items():
        means: Nested = {}
        per_round = {}
        for measure, score in measures.items():
            name = measure.partition(" ")[0]
            means[name] = score.mean
            per_round[name] = score.values or None
        by_metric[metric] = means | {"per_round": per_round}
    return by_metric
