"""Scores of tests, in their nested form: written as evaluate writes them, and read as people do."""

from dataclasses import replace

import numpy as np

from fedcli.data import manifest
from fedcli.metrics import PARITY
from fedcli.scores import views
from fedcli.scores.nested import nested
from fedcli.scores.parts import MODELS, decode
from fedcli.scores.scores import GLOBAL, RECALL, Part, RunScores
from fedcli.scores.table import BEST, TRAINED_AT, Score, Table, Where

ABOUT = {
    "method": "m",
    "label": "M",
    "rule": "paper",
    "settings": {},
    "options": {},
    "dataset": "d",
    "data": {},
    "rounds": 2,
    "roster_size": 3,
}


def staged(folder, body, *, write=lambda folder: None, options=None, parents=()):
    """A scores.json with the table beside it; write: what else lies there."""

    def build(temporary):
        write(temporary)
        return scores_of(body).write(temporary)

    return manifest.stage(
        "scores",
        folder=folder,
        made_by=["evaluate"],
        options=options or {},
        parents=list(parents),
        build=build,
    )


def over(*values):
    """One metric over the kept rounds, in the nested form."""
    numbers = None if None in values else values
    std = float(np.std(numbers)) if numbers and len(numbers) > 1 else None
    return {
        "last": values[-1],
        "mean_last5": numbers and float(np.mean(numbers)),
        "std_last5": std,
        "per_round": [*values],
    }


def scores_of(body):
    """Scores from their nested form."""
    return from_nested(ABOUT | body)


def body_of(path):
    """All numbers of a scores.json as one nested object."""
    return nested(RunScores.read(path))


DERIVED = (
    "versions",
    "intervals",
    "groups",
    "views",
    "among_clients",
    "among_clients_global",
    "personal",
    "cross_site",
)
DERIVED += ("labels", "best_on_validation", "legend")
NOT_METRICS = {
    "count",
    "classes_missing",
    "small",
    "reason",
    "groups",
    "version",
    "part",
    "corruption",
    "global_model",
}
NOT_METRICS |= {"images", "overall", "between", "unknown", "undefined_rates"}
BETWEEN = {"worst": views.WORST, "gap": views.GAP, "std": views.STD, "average": views.MEAN}
IN_EACH = {short: views.OF_MEANS.get(name, name) for short, name in BETWEEN.items()}


def from_nested(body):
    """The inverse of nested.nested()."""
    lines = _Lines(body.get("kept_rounds") or [5, 6])
    facts = {key: value for key, value in body.items() if key not in DERIVED}
    lines.quality(body, Where())
    lines.models(body)
    if best := body.get("best_on_validation"):
        facts["best"] = {key: best[key] for key in ("round", "metric", "validation")}
        lines.table |= _best_lines(best)
    facts["severities"] = {}
    for kind, levels in body.get("severities", {}).items():
        facts["severities"][kind] = lines.severities(kind, levels)
    if shots := body.get("shots"):
        facts["shots"] = {key: value for key, value in shots.items() if key != "versions"}
        lines.shots(shots["versions"])
    for version, labels in body.get("labels", {}).items():
        for label, label_scores in labels.items():
            lines.label(label_scores, Where(version=version, label=label))
    facts["clients"] = {
        name: lines.client(name, client) for name, client in body.get("clients", {}).items()
    }
    if not facts["clients"]:
        facts["clients"] = lines.spread(body.get("among_clients", {}))
    facts["grouped"] = {}
    for name, groups in body.get("groups", {}).items():
        facts["grouped"][name] = grouped_facts(next(iter(groups.values())))
    return replace(decode(RunScores, facts), table=lines.table)


def part_of(where):
    """Version and view, client, model and label of a line."""
    return where[:2], where[4:5], where[6:7], where.label


def grouped_facts(groups):
    """Facts of an attribute beside its scores, from the groups of a version in the nested form."""
    return {key: groups["last_round"].get(key, empty) for key, empty in GROUPED.items()}


def _best_lines(best):
    """Lines of the model that was best on validation."""
    lines = _Lines([best["round"]])
    lines.quality({"versions": best["versions"]}, Where(model=BEST))
    for name, versions in best["groups"].items():
        for version, groups in versions.items():
            where = Where(model=BEST, version=version, attribute=name)
            lines.groups({"last_round": groups}, where)
    return lines.table


GROUPED = {"unknown": 0, "undefined_rates": []}


class _Lines:
    def __init__(self, rounds):
        self.kept = rounds
        self.table = Table()

    def add(self, where, value, facts=None):
        facts = facts or {}
        values = (
            value.get("per_round", [value["mean_last5"]]) if isinstance(value, dict) else [value]
        )
        if (
            len(values) == 1 and isinstance(value, dict) and value["std_last5"]
        ):  # made up: rounds of such a mean and std
            wide = value["std_last5"] * 1.5**0.5
            values = [values[0] - wide, values[0] + wide, values[0]]
        rounds = self.kept[-len(values) :] or [6]
        if len(rounds) != len(values):
            rounds = range(1, len(values) + 1)
        missing = tuple(facts.get("classes_missing", ()))
        self.table[where] = Score(
            list(values), list(rounds), facts.get("count", 0), missing, facts.get("reason", "")
        )

    def interval(self, where, bounds):
        if where not in self.table:
            self.add(where, bounds["value"])
        score = self.table[where]
        score.values[-1] = bounds["value"]
        score.low = bounds["low"]
        score.high = bounds["high"]
        score.units = bounds["units"]
        score.interval = f"{bounds.get('method') or 'percentile'} by {bounds['unit']}"

    def scores(self, scores_of_version, where):
        for metric, value in scores_of_version.items():
            if metric not in NOT_METRICS:
                self.add(where._replace(metric=metric), value, scores_of_version)

    def quality(self, quality, where):
        for version, scores in quality["versions"].items():
            if version != "average":
                self.scores(scores, where._replace(version=version))
        for version, intervals in quality.get("intervals", {}).items():
            for metric, scores in intervals.items():
                self.interval(where._replace(version=version, metric=metric), scores)
        for name, versions in quality.get("groups", {}).items():
            for version, groups in versions.items():
                self.groups(groups, where._replace(version=version, attribute=name))

    def groups(self, groups, where):
        last = groups["last_round"]
        over = groups.get("over_rounds", {})
        over_by_metric = groups.get("each", {})
        for group, scores in last["groups"].items():
            if not set(scores) - NOT_METRICS:
                self.add(where._replace(group=group, metric="auc_ovo_macro"), None, scores)
            for metric, value in scores.items():
                if metric not in NOT_METRICS:
                    value = over_by_metric.get(metric, {}).get(group, value)
                    self.add(where._replace(group=group, metric=metric), value, scores)
        for name in [*over] if over else [*last]:
            if name.startswith(PARITY):
                self.add(where._replace(metric=name), (over or last)[name])
        for metric, intervals in groups.get("intervals", {}).items():
            for group, scores in intervals.items():
                self.interval(where._replace(group=group, metric=metric), scores)
        between = last.get("between", {})
        if self.differs(
            over, between, where
        ):  # of several models, or made up without the groups' scores
            self.measured(last, over, where)

    def differs(self, over, between, where):
        lines = {}
        same_part = part_of(where)
        for key, score in self.table.items():
            if part_of(key) == same_part and key.attribute in ("", where.attribute):
                lines[key] = score
        part = Part.of(where._replace(version="", attribute=""), lines)
        derived = {}
        for key, score in part.between(where.attribute, where.version).items():
            derived[key.metric, key.measure] = score
        for metric, scores in between.items():
            for short in ("gap", "std", "average"):
                value = in_each_round(scores, short)
                if not close(value, derived.get((metric, IN_EACH[short]), Score()).last):
                    return True
            edges = part.edges(where.attribute, where.version, metric)
            if (edges and edges[0][0]) != (scores["worst"] and scores["worst"]["group"]):
                return True
        return differs_over_rounds(over, derived)

    def measured(self, last, over, where):
        between = last.get("between", {})
        for metric, scores in over.items():
            if metric.startswith("es_") and scores["last"] is not None:
                self.add(where._replace(metric=metric), scores)
            for short in shorts(scores):
                value = in_each_round(scores, short)
                edge = between.get(metric, {}).get(short) if short == "worst" else None
                group = (edge or {}).get("group") or ""
                self.add(where._replace(metric=metric, measure=BETWEEN[short], group=group), value)
        for metric, scores in between.items():
            of_metric = where._replace(metric=metric)
            if not over:
                worst = scores["worst"] or {}
                value = scores.get("worst_in_each_round", worst.get("score"))
                group = worst.get("group") or ""
                self.add(of_metric._replace(measure=views.WORST, group=group), value)
                for short in ("gap", "std", "average"):
                    value = in_each_round(scores, short)
                    self.add(of_metric._replace(measure=BETWEEN[short]), value)
            if best := scores["best"]:
                group = best["group"] or ""
                self.add(of_metric._replace(measure=views.BEST, group=group), best["score"])
        for metric, value in last.items() if not over else ():
            if metric.startswith("es_") and value is not None:
                self.add(where._replace(metric=metric), value)

    def label(self, label_scores, where):
        self.scores(label_scores, where)
        for metric in label_scores:
            if metric not in NOT_METRICS:
                self.table[where._replace(metric=metric)].count = label_scores["images"]
        for name, grouped in label_scores.get("groups", {}).items():
            where_grouped = where._replace(attribute=name)
            for group, value in grouped["auc"].items():
                self.add(where_grouped._replace(group=group, metric="auc"), value)
            for difference, value in grouped["differences"].items():
                self.add(where_grouped._replace(metric=difference), value)

    def models(self, body):
        """Adds the scores of views, of clients' own models, and of each at the others' test parts."""
        for view, quality in body.get("views", {}).items():
            self.quality(quality, Where(view=view))
        for model, personal in body.get("personal", {}).items():
            versions = {version: personal[version] for version in MODELS if version in personal}
            quality = {"versions": versions, "groups": personal["groups"]}
            self.quality(quality, Where(model=model))
        for model, tested in body.get("cross_site", {}).items():
            for client, score in tested.items():
                self.scores(score, Where(version="clean", model=TRAINED_AT + model, client=client))

    def severities(self, kind, levels):
        """Adds the scores of each severity of a kind; returns the facts beside them."""
        facts = {}
        for severity, level in levels.items():
            version = f"{kind} {severity}"
            quality = {
                "versions": {version: level["scores"]},
                "intervals": {version: level["intervals"]},
                "groups": {name: {version: groups} for name, groups in level["groups"].items()},
            }
            self.quality(quality, Where())
            kept_keys = ("kind_in_training", "severity_in_training")
            facts[severity] = {key: level[key] for key in kept_keys}
        return facts

    def shots(self, versions):
        for version, recall_by_group in versions.items():
            if version in MODELS:
                for name, recall in recall_by_group.items():
                    self.add(Where(version=version, label=name, metric=RECALL), recall)

    def spread(self, among):
        """Two clients that vary so."""
        rounds = {
            metric: scores["per_round"]["std"]
            for metric, scores in among.items()
            if "per_round" in scores
        }
        for metric, stds in rounds.items():
            for name, sign in (("north", 1), ("south", -1)):
                values = {
                    "per_round": [0.5 + sign * std for std in stds],
                    "std_last5": None,
                    "mean_last5": None,
                }
                self.add(Where("clean", client=name, metric=metric), values)
        return {name: {"version": "clean", "part": "own"} for name in ("north", "south") if rounds}

    def client(self, name, client):
        where = Where(version=client["version"], client=name)
        self.scores(client, where)
        if general := client.get("global_model"):
            self.scores(general, where._replace(model=GLOBAL))
        for attribute, groups in client.get("groups", {}).items():
            self.groups(groups, where._replace(attribute=attribute))
        groups = {
            attribute: grouped_facts(versions)
            for attribute, versions in client.get("groups", {}).items()
        }
        facts = {"version": client["version"], "part": client["part"], "groups": groups}
        return facts | {"corruption": client.get("corruption", "")}


def differs_over_rounds(over, derived):
    """Tell whether a mean over rounds is not that of the groups' scores."""
    for metric, scores in over.items():
        for short in shorts(scores):
            value = in_each_round(scores, short)
            mean = derived.get((metric, IN_EACH[short]), Score()).mean
            if not close(value and value["mean_last5"], mean):
                return True
    return False


def shorts(scores_of_metric):
    """The names of what lies between groups in a metric's object."""
    return [
        name for name in BETWEEN if isinstance(scores_of_metric, dict) and name in scores_of_metric
    ]


def in_each_round(scores_of_metric, short):
    """The entry of the table for it: the number in each round, which is not of the groups' means."""
    return scores_of_metric.get(f"{short}_in_each_round", scores_of_metric.get(short))


def close(a, b):
    return a is b or (a is not None and b is not None and abs(a - b) <= 1e-12)
