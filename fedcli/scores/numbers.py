"""Every number of a run, measured or following from what was: whose it is, and its name as a column."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..metrics import better_low, title
from . import views
from .parts import AVERAGE, MODELS, PATCHED, SHOT_GROUPS
from .scores import GLOBAL, RECALL, Part, Scores, groups_of, with_average
from .table import BEST, Score, Where

LOW = "gap", "std"  # measures that are better when low
SCALED = "es_"  # begins the name of an equity-scaled AUC
MEASURES = {  # in words
    views.WORST: "worst",
    views.AMONG[0]: "mean of clients",
    views.AMONG[1]: "std of clients",
    views.AMONG[2]: "worst client",
}
Number = tuple[Where, Score]


def metric(where: Where) -> str:
    """The metric with the label that it is of."""
    if where.metric == RECALL and where.label:
        return f"{where.label} {RECALL}"
    return f"{where.metric} of label {where.label}" if where.label else where.metric


def model(where: Where) -> str:
    """Whose predictions: "" for the model that is reported, else such as personal, global or a view's name."""
    return where.view or where.model.replace("_", " ")


def is_lower(where: Where) -> bool:
    """Tell whether the number is better when low."""
    return where.measure.startswith(LOW) or better_low(where.metric)


def name(where: Where) -> str:
    """The column's name: version, measure and metric, then whose; unique among all numbers of a run."""
    whose = f"by {where.attribute}" if where.attribute else ""
    whose = f"of {where.attribute} {where.group}" if where.group else whose
    client, shown = (
        f"of client {where.client}" if where.client else "",
        f"({model(where)})" if model(where) else "",
    )
    return " ".join(
        filter(None, [where.version, where.measure, metric(where), whose, client, shown])
    )


def versions(runs: Iterable[Scores]) -> dict[str, str]:
    """The words for the versions of the test images: corrupted ones are called noisy where all of them are."""
    kinds = [
        str((scores.corruption or {}).get("kind", ""))
        for scores in runs
        if MODELS[1] in scores.versions
    ]
    noisy = bool(kinds) and all("noise" in kind for kind in kinds)
    return {MODELS[1]: "noisy" if noisy else MODELS[1], AVERAGE: "both"}


def words(where: Where, versions: Mapping[str, str] = {}) -> tuple[str, str]:
    """A number's heading in words: its metric and whose it is, then of which images or between whom.

    versions: words for versions of the test images.
    """
    metric = title(where.metric.removeprefix(SCALED)) if where.metric != RECALL else "recall"
    label = f"{where.label} classes" if where.label in SHOT_GROUPS else where.label
    group = f"{where.attribute} {where.group}" if where.group else ""
    shared = ", ".join(filter(None, [metric, label, group, where.client, model(where)]))
    if where.attribute and not where.group:
        shared = f"by {where.attribute}: {shared}"
    measure = (
        "ES-AUC" if where.metric.startswith(SCALED) else MEASURES.get(where.measure, where.measure)
    )
    of = versions.get(where.version, where.version)
    return shared, f"{measure}, {of}" if measure and where.version not in (
        "",
        "clean",
    ) else measure or of


def numbers(scores: Scores, *, best: bool = False) -> Iterator[Number]:
    """All numbers of a run; best: those of the round that was best on validation instead."""
    if best:
        if scores.best:
            for where, score in _of_part(scores.part(model=BEST)):
                if where.measure not in (*views.OF_ROUNDS, *views.ACROSS):
                    yield where._replace(model=""), score
        return
    yield from _of_part(scores.part())
    for version in PATCHED:
        yield from (
            (Where(version, metric=name), x)
            for name, x in scores.part().overall.get(version, {}).items()
        )
    for view in scores.views:
        yield from _of_part(scores.part(view))
    for own in scores.personal:
        yield from _of_part(scores.part(model=own), average=False)
    for version, of in scores.recalls.items():
        yield from (
            (Where(version, label=label, metric=RECALL), score) for label, score in of.items()
        )
    for version, labels in scores.labels.items():
        for part in labels.values():
            yield from _of_label(part, version)
    for client, about in scores.clients.items():
        yield from _of_client(scores, client, about.version)
    for among, whose in ((scores.among_clients, ""), (scores.among_clients_global, GLOBAL)):
        for metric, measures in among.items():
            yield from (
                (Where(metric=metric, measure=what, model=whose), score)
                for what, score in measures.items()
            )
    for way in ("down", "up"):
        yield Where(metric=f"bytes {way}"), Score([getattr(scores.bytes, way)])


def _of_part(part: Part, *, average: bool = True) -> Iterator[Number]:
    overall = with_average(part.overall) if average else part.overall
    for version, metrics in overall.items():
        yield from (
            (part.where._replace(version=version, metric=metric), x)
            for metric, x in metrics.items()
        )
    for attribute, versions in groups_of(part).items():
        for version in versions:
            yield from _of_groups(part, attribute, version)


def _of_groups(part: Part, attribute: str, version: str) -> Iterator[Number]:
    """Numbers between the groups of an attribute, then each group."""
    where = part.where._replace(version=version, attribute=attribute)
    for name, score in part.differences.get(attribute, {}).get(version, {}).items():
        yield where._replace(metric=name), score
    yield from (
        item for item in part.between(attribute, version).items() if item[0].measure != views.BEST
    )
    for metric, column in part.groups[attribute][version].items():
        if views.compared(metric):
            yield from (
                (where._replace(metric=metric, group=group), score)
                for group, score in column.items()
            )


def _of_label(part: Part, version: str) -> Iterator[Number]:
    """One of several labels per image; between its groups the gap alone, of the last round."""
    for metric, score in part.overall[version].items():
        yield part.where._replace(version=version, metric=metric), score
    for attribute in part.groups:
        for where, score in _of_groups(part, attribute, version):
            if where.measure in ("", views.GAP):
                yield where, replace(score, rounds=[])


def _of_client(scores: Scores, client: str, version: str) -> Iterator[Number]:
    for part in (scores.part(client=client), scores.part(model=GLOBAL, client=client)):
        for metric, score in part.overall.get(version, {}).items():
            yield part.where._replace(version=version, metric=metric), score
    part = scores.part(client=client)
    for attribute in part.groups:
        yield from _of_groups(part, attribute, version)
