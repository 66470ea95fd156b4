"""All numbers of a run as one nested object, facts and views: for people's scripts, and for the places of recipes.

A place is a path of keys, such as versions/clean/accuracy or groups/sex/clean/over_rounds/accuracy/gap.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from . import views
from .parts import PATCHED, SUCCESS
from .scores import GLOBAL, Grouped, Part, Scores, groups_of, with_average
from .statistics.bootstrap import BCA, LEVEL
from .statistics.intervals import RESAMPLES
from .table import BEST, Score

Nested = dict[str, Any]
BETWEEN = {views.WORST: "worst", views.GAP: "gap", views.STD: "std", views.MEAN: "average"}
OVER = BETWEEN | {
    views.WORST_IN_EACH: "worst_in_each_round",
    views.GAP_IN_EACH: "gap_in_each_round",
}
ACROSS = dict(zip(views.ACROSS, ("average", "std_sample"), strict=True))
RARE = (
    "sample",
    "severities",
    "curves",
    "candidates",
    "external",
    "clinical",
    "train_images",
)  # left out where empty


def nested(scores: Scores) -> Nested:
    """Facts of scores.json, with the numbers of its table and what follows from them in their places."""
    facts = scores.facts()
    whole = {
        key: value
        for key, value in facts.items()
        if key not in ("grouped", "best") and (value or key not in RARE)
    }
    whole |= _quality(scores, scores.part())
    whole["views"] = {view: _quality(scores, scores.part(view)) for view in scores.views}
    whole["best_on_validation"] = facts["best"] and facts["best"] | _best(scores)
    whole["personal"] = {
        model: _own_models(scores, scores.part(model=model)) for model in scores.personal
    }
    whole["clients"] = {name: _client(scores, name) for name in scores.clients}
    whole["among_clients"] = {metric: _among(each) for metric, each in scores.among_clients.items()}
    whole["among_clients_global"] = {
        metric: _among(each) for metric, each in scores.among_clients_global.items()
    }
    if scores.shots:
        versions = {
            v: {name: _over(x) for name, x in of.items()} for v, of in scores.recalls.items()
        }
        whole["shots"] = facts["shots"] | {"versions": versions}
    if scores.severities:
        whole["severities"] = {
            kind: {
                severity: about | _severity(scores, f"{kind} {severity}")
                for severity, about in facts["severities"][kind].items()
            }
            for kind in scores.severities
        }
    if PATCHED[0] in (shown := scores.part().overall):
        whole["backdoor"] = {version: _over(shown[version][SUCCESS]) for version in PATCHED}
    if scores.cross_site:
        whole["cross_site"] = {
            model: {client: _scored(metrics, LAST) for client, metrics in tested.items()}
            for model, tested in scores.cross_site.items()
        }
    if scores.labels:
        whole["labels"] = {
            v: {name: _label(part, v) for name, part in of.items()}
            for v, of in scores.labels.items()
        }
    return whole


def _over(score: Score) -> Nested:
    """A number over the rounds; what is of the groups' means has its rounds under a name of their own."""
    over = {"last": score.last, "mean_last5": score.mean, "std_last5": score.std}
    if isinstance(score, views.OfMeans):
        return over
    return over | {"per_round": score.values}


LAST = attrgetter("last")


def _scored(metrics: Mapping[str, Score], of: Callable[[Score], Any] = _over) -> Nested:
    """Scores of the same images, and what those are. of: a score, over the rounds or in the last."""
    some = next(iter(metrics.values()), Score())
    count = None if some.hidden and not some.count else some.count
    reason = max((score.small for score in metrics.values()), key=len, default="")
    about: Nested = {"count": count, "classes_missing": list(some.missing)}
    about |= {"small": bool(reason), "reason": reason}
    return {name: of(score) for name, score in metrics.items()} | about


def _in_last(metrics: Mapping[str, Score]) -> Nested:
    """Scores of a group in the last round; `hidden` where sites hide images of it."""
    scored = _scored(metrics, LAST)
    if next(iter(metrics.values())).hidden:
        scored["hidden"] = True
    return scored


def _intervals(metrics: Mapping[str, Score]) -> Nested:
    return {
        name: {
            "value": score.last,
            "low": score.low,
            "high": score.high,
            "level": LEVEL,
            "resamples": RESAMPLES,
        }
        | {"unit": score.unit, "units": score.units}
        | ({"method": BCA} if score.is_bca else {})
        for name, score in metrics.items()
        if score.interval
    }


def _quality(scores: Scores, part: Part) -> Nested:
    versions = with_average(part.overall)
    return {
        "versions": {version: _scored(metrics) for version, metrics in versions.items()},
        "intervals": {
            version: drawn
            for version, metrics in versions.items()
            if (drawn := _intervals(metrics))
        },
        "groups": _all_groups(scores, part),
    }


def _own_models(scores: Scores, part: Part) -> Nested:
    return {v: _scored(metrics) for v, metrics in part.overall.items()} | {
        "groups": _all_groups(scores, part)
    }


def _best(scores: Scores) -> Nested:
    part = scores.part(model=BEST)
    groups = _all_groups(scores, part)
    return {
        "versions": {
            v: _scored(metrics, LAST) for v, metrics in with_average(part.overall).items()
        },
        "groups": {
            name: {v: made["last_round"] for v, made in of.items()} for name, of in groups.items()
        },
    }


def _all_groups(scores: Scores, part: Part) -> Nested:
    return {
        name: {v: _groups(part, name, v, scores.grouped.get(name)) for v in versions}
        for name, versions in groups_of(part).items()
    }


def _groups(part: Part, attribute: str, version: str, about: Grouped | None) -> Nested:
    """The groups of an attribute on one version of the test images, and what lies between them."""
    metrics, about = part.groups[attribute][version], about or Grouped()
    single: dict[str, Score] = {"es_auc_ovo_macro": Score([None])}  # of all groups together
    between: dict[str, dict[str, Score]] = {}
    across: Nested = {}
    for where, score in part.between(attribute, version).items():
        if where.measure in OVER:
            between.setdefault(where.metric, {})[OVER[where.measure]] = score
        elif where.measure in ACROSS:
            across.setdefault(where.metric, {})[ACROSS[where.measure]] = score.last
        elif not where.measure:
            single[where.metric] = score
    single |= part.differences.get(attribute, {}).get(version, {})
    by_group: dict[str, dict[str, Score]] = {}
    for metric, column in metrics.items():
        for group, score in column.items():
            by_group.setdefault(group, {})[metric] = score
    last = {name: score.last for name, score in single.items()} | {
        "groups": {group: _in_last(scores) for group, scores in by_group.items()},
        "overall": _scored(part.overall.get(version, {}), LAST),
        "between": {
            metric: {name: lies[name].last for name in BETWEEN.values() if name in lies}
            | _ends(part, attribute, version, metric)
            for metric, lies in between.items()
        },
        "unknown": about.unknown,
        "undefined_rates": about.undefined_rates,
    }
    intervals = {
        metric: drawn for metric, column in metrics.items() if (drawn := _intervals(column))
    }
    return {
        "last_round": last,
        "over_rounds": {name: _over(score) for name, score in single.items()}
        | {
            metric: {name: _over(score) for name, score in lies.items()}
            for metric, lies in between.items()
        },
        "each": {
            metric: {group: _over(score) for group, score in column.items()}
            for metric, column in metrics.items()
            if views.compared(metric)
        },
        "across": across,
    } | ({"intervals": intervals} if intervals else {})


def _ends(part: Part, attribute: str, version: str, metric: str) -> Nested:
    edges = part.edges(attribute, version, metric) or (None, None)
    return {
        name: edge and {"group": edge[0] or None, "score": edge[1]}
        for name, edge in zip(("worst", "best"), edges)
    }


def _client(scores: Scores, name: str) -> Nested:
    client, part, general = (
        scores.clients[name],
        scores.part(client=name),
        scores.part(model=GLOBAL, client=name),
    )
    groups = {
        attribute: _groups(part, attribute, client.version, client.groups.get(attribute))
        for attribute in part.groups
    }
    about: Nested = {"version": client.version, "part": client.part}
    about |= {"corruption": client.corruption} if client.corruption else {}
    about |= {"groups": groups} if groups else {}
    about |= {"global_model": _scored(general.overall[client.version])} if general.overall else {}
    return _scored(part.overall[client.version]) | about


def _severity(scores: Scores, version: str) -> Nested:
    part = scores.part()
    groups = {
        name: _groups(part, name, version, scores.grouped.get(name))
        for name, of in part.groups.items()
        if version in of
    }
    return {
        "scores": _scored(part.overall[version]),
        "intervals": _intervals(part.overall[version]),
        "groups": groups,
    }


def _label(part: Part, version: str) -> Nested:
    metrics = part.overall[version]
    groups = {}
    for name, versions in part.groups.items():
        lies = {where.measure: score.last for where, score in part.between(name, version).items()}
        groups[name] = {
            "auc": {group: score.last for group, score in versions[version]["auc"].items()},
            "between": {short: lies.get(of) for of, short in BETWEEN.items()}
            | _ends(part, name, version, "auc"),
            "differences": {
                what: score.last for what, score in part.differences[name][version].items()
            },
        }
    images = next(iter(metrics.values())).count
    over = {name: _over(score) for name, score in metrics.items()}
    return {"images": images} | ({"groups": groups} if groups else {}) | over


def _among(each: Mapping[str, Score]) -> Nested:
    means = {name.partition(" ")[0]: score for name, score in each.items()}
    per_round = {name: score.values or None for name, score in means.items()}
    return {name: score.mean for name, score in means.items()} | {"per_round": per_round}
