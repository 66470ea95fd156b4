"""Every number of a scores.json as an entry of a long list: what it is a score of, and its name as a column."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..metrics import better_low
from ..scores.parts import AMONG, Groups, GroupScores, Number, OverRounds
from ..scores.rounds import over_rounds
from ..scores.scores import Among, Quality, Scores

LOW = "gap", "std"  # measures that are better when low


@dataclass(frozen=True)
class Entry:
    """One number, or one over the kept rounds.

    Attributes:
        value: of the kept rounds, or of one model.
        version: of the test images: clean, corrupted or average; "" for a number of none.
        model: whose predictions: "" for the model that is reported, else such as personal, global or a view's name.
        attribute, group: whose images; measure: "score", or what lies between groups or among clients, such as "gap".
    """

    metric: str
    value: OverRounds | Number
    version: str = ""
    attribute: str = ""
    group: str = ""
    client: str = ""
    model: str = ""
    measure: str = "score"

    @property
    def lower(self) -> bool:
        """Whether it is better when low."""
        return self.measure.startswith(LOW) or better_low(self.metric)

    @property
    def name(self) -> str:
        """The column's name: version, measure and metric, then whose; unique among all entries of a run."""
        measure = "" if self.measure == "score" else self.measure
        whose = f"of {self.attribute} {self.group}" if self.group else f"by {self.attribute}" if self.attribute else ""
        client = f"of client {self.client}" if self.client else ""
        model = f"({self.model})" if self.model else ""
        return " ".join(filter(None, [self.version, measure, self.metric, whose, client, model]))


def entries(scores: Scores, *, best: bool = False) -> Iterator[Entry]:
    """All numbers of a run; best: those of the round that was best on validation instead."""
    if best:
        yield from _of_best(scores)
        return
    yield from _of_quality(scores)
    for view, quality in scores.views.items():
        yield from _of_quality(quality, view)
    for name, own in scores.personal.items():
        model = name.replace("_", " ")
        yield from _of_quality(Quality(versions=own.versions, groups=own.groups), model)
    for version, parts in scores.shots.versions.items() if scores.shots else ():
        for name, value in parts.items():
            yield Entry(f"{name} recall", value, version)
    yield from _of_labels(scores)
    for name, client in scores.clients.items():
        for metric, value in client.metrics.items():
            yield Entry(metric, value, client.version, client=name)
        for metric, value in client.global_model.metrics.items() if client.global_model else ():
            yield Entry(metric, value, client.version, client=name, model="global")
        for attribute, groups in client.groups.items():
            yield from _of_groups(groups, client.version, attribute, client=name)
    yield from _among(scores.among_clients, "")
    yield from _among(scores.among_clients_global, "global")
    for way, value in (("down", scores.bytes.down), ("up", scores.bytes.up)):
        yield Entry(f"bytes {way}", value)


def _of_quality(quality: Quality, model: str = "") -> Iterator[Entry]:
    for version, summary in quality.versions.items():
        for metric, value in summary.metrics.items():
            yield Entry(metric, value, version, model=model)
    for attribute, versions in quality.groups.items():
        for version, groups in versions.items():
            yield from _of_groups(groups, version, attribute, model=model)


def _of_labels(scores: Scores) -> Iterator[Entry]:
    """Of several labels per image each one by itself."""
    for version, labels in scores.labels.items():
        for label, own in labels.items():
            for metric, value in own.metrics.items():
                yield Entry(f"{metric} of label {label}", value, version)
            for attribute, groups in own.groups.items():
                whose = {"version": version, "attribute": attribute}
                for group, number in groups.auc.items():
                    yield Entry(f"auc of label {label}", number, **whose, group=group)
                yield Entry(f"auc of label {label}", groups.between.gap, **whose, measure="gap")
                for name, number in groups.differences.items():
                    yield Entry(f"{name} of label {label}", number, **whose)


def _of_groups(groups: Groups, version: str, attribute: str, *, client: str = "", model: str = "") -> Iterator[Entry]:
    whose = {"version": version, "attribute": attribute, "client": client, "model": model}
    between = groups.over_rounds
    if between.es_auc_ovo_macro:
        yield Entry("es_auc_ovo_macro", between.es_auc_ovo_macro, **whose)
    if between.es_auc_macro:
        yield Entry("es_auc_macro", between.es_auc_macro, **whose)
    for name, value in between.differences.items():
        yield Entry(name, value, **whose)
    for metric, parts in between.metrics.items():
        measures = {
            "worst group": parts.worst,
            "gap": parts.gap,
            "std in each round": parts.std,
            "mean in each round": parts.average,
        }
        yield from (Entry(metric, value, **whose, measure=name) for name, value in measures.items() if value)
    for metric, across in groups.across.items():
        yield Entry(metric, across.average, **whose, measure="mean over groups")
        yield Entry(metric, across.std_sample, **whose, measure="std over groups")
    for metric, values in groups.each.items():
        yield from (Entry(metric, value, **whose, group=group) for group, value in values.items())


def _among(metrics: Mapping[str, Among], model: str) -> Iterator[Entry]:
    for metric, among in metrics.items():
        for name in AMONG:
            rounds = among.per_round.get(name)
            yield Entry(metric, over_rounds(rounds) if rounds else None, model=model, measure=f"{name} among clients")


def _of_best(scores: Scores) -> Iterator[Entry]:
    best = scores.best_on_validation
    if not best:
        return
    for version, score in best.versions.items():
        yield from (Entry(metric, value, version) for metric, value in score.metrics.items())
    for attribute, versions in best.groups.items():
        for version, groups in versions.items():
            yield from _of_best_groups(groups, version, attribute)


def _of_best_groups(groups: GroupScores, version: str, attribute: str) -> Iterator[Entry]:
    for name in ("es_auc_ovo_macro", "es_auc_macro"):
        yield Entry(name, getattr(groups, name), version, attribute)
    yield from (Entry(name, value, version, attribute) for name, value in groups.differences.items())
    for metric, between in groups.between.items():
        yield Entry(metric, between.worst and between.worst.score, version, attribute, measure="worst group")
        yield Entry(metric, between.gap, version, attribute, measure="gap")
        for value, part in groups.groups.items():
            yield Entry(metric, part.metrics[metric], version, attribute, value)
