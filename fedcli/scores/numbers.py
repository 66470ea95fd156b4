"""Every number of a run, measured or derived: whose it is, and its name as a column."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..metrics import better_low, title
from . import views
from .parts import AVERAGE, MODELS, PATCHED, SHOT_GROUPS
from .scores import (
    EQUITY_SCALED,
    GLOBAL,
    RECALL,
    ByMetric,
    Part,
    RunScores,
    Versions,
    groups_of,
    with_average,
)
from .table import BEST, Score, Where

LOW = ("gap", "std")  # measures that are better when low
MEASURES = {  # in words
    views.WORST: "worst",
    views.AMONG[0]: "mean of clients",
    views.AMONG[1]: "std of clients",
    views.AMONG[2]: "worst client",
}
Number = tuple[Where, Score]


def metric(where: Where) -> str:
    """The metric with the label that it is of."""
    if not where.label:
        return where.metric
    if where.metric == RECALL:
        return f"{where.label} {RECALL}"
    return f"{where.metric} of label {where.label}"


def model(where: Where) -> str:
    """The model or view whose predictions they are: "" for the model that is reported.

    Others are such as personal, global or a view's name.
    """
    return where.view or where.model.replace("_", " ")


def is_lower(where: Where) -> bool:
    """Tell whether the number is better when low."""
    return where.measure.startswith(LOW) or better_low(where.metric)


def name(where: Where) -> str:
    """The column's name: version, measure and metric, then whose.

    It is unique among all numbers of a run.
    """
    words = [where.version, where.measure, metric(where)]
    if where.group:
        words.append(f"of {where.attribute} {where.group}")
    elif where.attribute:
        words.append(f"by {where.attribute}")
    if where.client:
        words.append(f"of client {where.client}")
    whose = model(where)
    if whose:
        words.append(f"({whose})")
    return " ".join(word for word in words if word)


def versions(runs: Iterable[RunScores]) -> dict[str, str]:
    """The words for the versions of the test images.

    Corrupted ones are called noisy where all of them are.
    """
    kinds = []
    for scores in runs:
        if MODELS[1] in scores.versions:
            corruption = scores.corruption or {}
            kinds.append(str(corruption.get("kind", "")))
    is_noisy = bool(kinds) and all("noise" in kind for kind in kinds)
    return {MODELS[1]: "noisy" if is_noisy else MODELS[1], AVERAGE: "both"}


def words(where: Where, versions: Mapping[str, str] = {}) -> tuple[str, str]:
    """A number's heading in words: its metric and whose it is, then the images or the measure.

    versions: words for versions of the test images.
    """
    version = versions.get(where.version, where.version)
    measure = MEASURES.get(where.measure, where.measure)
    if where.metric.startswith(EQUITY_SCALED):
        measure = "ES-AUC"
    if not measure:
        return _shared(where), version
    if where.version in ("", "clean"):
        return _shared(where), measure
    return _shared(where), f"{measure}, {version}"


def _shared(where: Where) -> str:
    """The metric and whose it is, in words."""
    words = ["recall"]
    if where.metric != RECALL:
        words = [title(where.metric.removeprefix(EQUITY_SCALED))]
    words.append(f"{where.label} classes" if where.label in SHOT_GROUPS else where.label)
    if where.group:
        words.append(f"{where.attribute} {where.group}")
    words += [where.client, model(where)]
    shared = ", ".join(word for word in words if word)
    if where.attribute and not where.group:
        return f"by {where.attribute}: {shared}"
    return shared


def numbers(scores: RunScores, *, best: bool = False) -> Iterator[Number]:
    """All numbers of a run; best: those of the round that was best on validation instead."""
    if not best:
        yield from _of_run(scores)
        return
    for where, score in _of_part(scores.part(model=BEST)):
        if where.measure not in (*views.OF_ROUNDS, *views.ACROSS):
            yield where._replace(model=""), score


def _of_run(scores: RunScores) -> Iterator[Number]:
    reported = scores.part()
    yield from _of_part(reported)
    for version in PATCHED:
        yield from _of_images(reported, version, reported.overall)
    for view in scores.views:
        yield from _of_part(scores.part(view))
    for model in scores.personal:
        yield from _of_part(scores.part(model=model), average=False)
    for version, recalls in scores.recalls.items():
        for label, score in recalls.items():
            yield Where(version, label=label, metric=RECALL), score
    for version, labels in scores.labels.items():
        for of_label in labels.values():
            yield from _of_label(of_label, version)
    for name in scores.clients:
        yield from _of_client(scores, name)
    yield from _among_clients(scores.among_clients, "")
    yield from _among_clients(scores.among_clients_global, GLOBAL)
    yield Where(metric="bytes down"), Score([scores.bytes.down])
    yield Where(metric="bytes up"), Score([scores.bytes.up])


def _of_client(scores: RunScores, name: str) -> Iterator[Number]:
    """Scores of a client's test images, by the model that it gets and by the global one."""
    part = scores.part(client=name)
    version = scores.clients[name].version
    for of_model in (part, scores.part(model=GLOBAL, client=name)):
        yield from _of_images(of_model, version, of_model.overall)
    for attribute in part.groups:
        yield from _of_groups(part, attribute, version)


def _among_clients(among: ByMetric, model: str) -> Iterator[Number]:
    """Means, spreads and worst clients of each metric."""
    for metric, measures in among.items():
        for measure, score in measures.items():
            yield Where(metric=metric, measure=measure, model=model), score


def _of_part(part: Part, *, average: bool = True) -> Iterator[Number]:
    overall = with_average(part.overall) if average else part.overall
    for version in overall:
        yield from _of_images(part, version, overall)
    for attribute, versions in groups_of(part).items():
        for version in versions:
            yield from _of_groups(part, attribute, version)


def _of_images(part: Part, version: str, overall: Versions) -> Iterator[Number]:
    """Scores of all images of one version."""
    for metric, score in overall.get(version, {}).items():
        yield part.where._replace(version=version, metric=metric), score


def _of_groups(part: Part, attribute: str, version: str) -> Iterator[Number]:
    """Numbers between the groups of an attribute, then each group."""
    for between, score in part.between(attribute, version).items():
        if between.measure != views.BEST:
            yield between, score
    for metric, column in part.groups[attribute][version].items():
        if views.compared(metric):
            where = part.where._replace(
                version=version,
                attribute=attribute,
                metric=metric,
            )
            for group, score in column.items():
                yield where._replace(group=group), score


def _of_label(part: Part, version: str) -> Iterator[Number]:
    """One of several labels per image; between its groups the gap alone, of the last round."""
    yield from _of_images(part, version, part.overall)
    for attribute in part.groups:
        for where, score in _of_groups(part, attribute, version):
            if where.measure in ("", views.GAP):
                yield where, replace(score, rounds=[])
