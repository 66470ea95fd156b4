"""Scores of tests, in their nested form: written as evaluate writes them, and read as people do."""

from dataclasses import replace

import numpy as np

from fedcli.data import manifest
from fedcli.metrics import PARITY
from fedcli.scores import views
from fedcli.scores.nested import nested
from fedcli.scores.parts import MODELS, decode
from fedcli.scores.scores import GLOBAL, RECALL, Part, Scores
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
    known = None if None in values else values
    std = float(np.std(known)) if known and len(known) > 1 else None
    return {
        "last": values[-1],
        "mean_last5": known and float(np.mean(known)),
        "std_last5": std,
        "per_round": [*values],
    }


def scores_of(body):
    """Scores from their nested form."""
    return from_nested(ABOUT | body)


def body_of(path):
    """All numbers of a scores.json as one nested object."""
    return nested(Scores.read(path))


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
    kept = body.get("kept_rounds") or [5, 6]
    lines = _Lines(kept)
    facts = {key: value for key, value in body.items() if key not in DERIVED}
    lines.quality(body, Where())
    for view, quality in body.get("views", {}).items():
        lines.quality(quality, Where(view=view))
    for model, own in body.get("personal", {}).items():
        lines.quality(
            {"versions": {v: own[v] for v in MODELS if v in own}, "groups": own["groups"]},
            Where(model=model),
        )
    if best := body.get("best_on_validation"):
        facts["best"] = {key: best[key] for key in ("round", "metric", "validation")}
        once = _Lines([best["round"]])
        once.quality({"versions": best["versions"]}, Where(model=BEST))
        for name, versions in best["groups"].items():
            for version, groups in versions.items():
                once.groups(
                    {"last_round": groups}, Where(model=BEST, version=version, attribute=name)
                )
        lines.table |= once.table
    for model, tested in body.get("cross_site", {}).items():
        for client, score in tested.items():
            lines.scores(score, Where(version="clean", model=TRAINED_AT + model, client=client))
    for kind, levels in body.get("severities", {}).items():
        for severity, at in levels.items():
            version = f"{kind} {severity}"
            groups = {name: {version: known} for name, known in at["groups"].items()}
            lines.quality(
                {
                    "versions": {version: at["scores"]},
                    "intervals": {version: at["intervals"]},
                    "groups": groups,
                },
                Where(),
            )
    facts["severities"] = {
        kind: {
            s: {k: at[k] for k in ("kind_in_training", "severity_in_training")}
            for s, at in levels.items()
        }
        for kind, levels in body.get("severities", {}).items()
    }
    if shots := body.get("shots"):
        facts["shots"] = {key: value for key, value in shots.items() if key != "versions"}
        for version, of in shots["versions"].items():
            for name, over in of.items() if version in MODELS else ():
                lines.add(Where(version=version, label=name, metric=RECALL), over)
    for version, labels in body.get("labels", {}).items():
        for label, known in labels.items():
            lines.label(known, Where(version=version, label=label))
    facts["clients"] = {
        name: lines.client(name, client) for name, client in body.get("clients", {}).items()
    }
    if not facts["clients"]:
        facts["clients"] = lines.spread(body.get("among_clients", {}))
    facts["grouped"] = {
        name: {
            key: next(iter(of.values()))["last_round"].get(key, empty)
            for key, empty in GROUPED.items()
        }
        for name, of in body.get("groups", {}).items()
    }
    return replace(decode(Scores, facts), table=lines.table)


GROUPED = {"unknown": 0, "undefined_rates": []}


class _Lines:
    def __init__(self, kept):
        self.kept, self.table = kept, Table()

    def add(self, where, value, about=None):
        about = about or {}
        values = (
            value.get("per_round", [value["mean_last5"]]) if isinstance(value, dict) else [value]
        )
        if (
            len(values) == 1 and isinstance(value, dict) and value["std_last5"]
        ):  # made up: rounds of such a mean and std
            wide = value["std_last5"] * 1.5**0.5
            values = [values[0] - wide, values[0] + wide, values[0]]
        rounds = (self.kept if len(values) == len(self.kept) else self.kept[-len(values) :]) or [6]
        rounds = rounds if len(rounds) == len(values) else list(range(1, len(values) + 1))
        missing = tuple(about.get("classes_missing", ()))
        self.table[where] = Score(
            list(values), list(rounds), about.get("count", 0), missing, about.get("reason", "")
        )

    def interval(self, where, known):
        if where not in self.table:
            self.add(where, known["value"])
        score = self.table[where]
        score.values[-1] = known["value"]
        score.low, score.high, score.units = known["low"], known["high"], known["units"]
        score.interval = f"{known.get('method') or 'percentile'} by {known['unit']}"

    def scores(self, known, where):
        for metric, value in known.items():
            if metric not in NOT_METRICS:
                self.add(where._replace(metric=metric), value, known)

    def quality(self, quality, where):
        for version, known in quality["versions"].items():
            if version != "average":
                self.scores(known, where._replace(version=version))
        for version, drawn in quality.get("intervals", {}).items():
            for metric, known in drawn.items():
                self.interval(where._replace(version=version, metric=metric), known)
        for name, versions in quality.get("groups", {}).items():
            for version, groups in versions.items():
                self.groups(groups, where._replace(version=version, attribute=name))

    def groups(self, groups, where):
        last, over, each = (
            groups["last_round"],
            groups.get("over_rounds", {}),
            groups.get("each", {}),
        )
        for group, known in last["groups"].items():
            if not set(known) - NOT_METRICS:
                self.add(where._replace(group=group, metric="auc_ovo_macro"), None, known)
            for metric, value in known.items():
                if metric not in NOT_METRICS:
                    value = each.get(metric, {}).get(group, value)
                    self.add(where._replace(group=group, metric=metric), value, known)
        for name in [*over] if over else [*last]:
            if name.startswith(PARITY):
                self.add(where._replace(metric=name), (over or last)[name])
        for metric, drawn in groups.get("intervals", {}).items():
            for group, known in drawn.items():
                self.interval(where._replace(group=group, metric=metric), known)
        between = last.get("between", {})
        if self.differs(
            over, between, where
        ):  # of several models, or made up without the groups' scores
            self.measured(last, over, where)

    def differs(self, over, between, where):
        lines = {}
        for key, score in self.table.items():
            same = key[:2] + key[4:5] + key[6:7] == where[:2] + where[4:5] + where[6:7]
            if same and key.attribute in ("", where.attribute) and key.label == where.label:
                lines[key] = score
        part = Part.of(where._replace(version="", attribute=""), lines)
        derived = {
            (key.metric, key.measure): score
            for key, score in part.between(where.attribute, where.version).items()
        }
        for metric, known in between.items():
            for short in ("gap", "std", "average"):
                value = in_each_round(known, short)
                if not close(value, derived.get((metric, IN_EACH[short]), Score()).last):
                    return True
            edges = part.edges(where.attribute, where.version, metric)
            if (edges and edges[0][0]) != (known["worst"] and known["worst"]["group"]):
                return True
        for metric, known in over.items():
            for short in shorts(known):
                value = in_each_round(known, short)
                if not close(
                    value and value["mean_last5"],
                    derived.get((metric, IN_EACH[short]), Score()).mean,
                ):
                    return True
        return False

    def measured(self, last, over, where):
        between = last.get("between", {})
        for metric, known in over.items():
            if metric.startswith("es_") and known["last"] is not None:
                self.add(where._replace(metric=metric), known)
            for short in shorts(known):
                value = in_each_round(known, short)
                edge = between.get(metric, {}).get(short) if short == "worst" else None
                group = (edge or {}).get("group") or ""
                self.add(where._replace(metric=metric, measure=BETWEEN[short], group=group), value)
        for metric, known in between.items():
            for short in ("worst", "gap", "std", "average") if not over else ():
                worst = known.get("worst_in_each_round", (known["worst"] or {}).get("score"))
                value = worst if short == "worst" else in_each_round(known, short)
                group = (known["worst"] or {}).get("group") or "" if short == "worst" else ""
                self.add(where._replace(metric=metric, measure=BETWEEN[short], group=group), value)
            if best := known["best"]:
                self.add(
                    where._replace(metric=metric, measure=views.BEST, group=best["group"] or ""),
                    best["score"],
                )
        for metric, value in last.items() if not over else ():
            if metric.startswith("es_") and value is not None:
                self.add(where._replace(metric=metric), value)

    def label(self, known, where):
        self.scores(known, where)
        for metric in known:
            if metric not in NOT_METRICS:
                self.table[where._replace(metric=metric)].count = known["images"]
        for name, of in known.get("groups", {}).items():
            here = where._replace(attribute=name)
            for group, value in of["auc"].items():
                self.add(here._replace(group=group, metric="auc"), value)
            for what, value in of["differences"].items():
                self.add(here._replace(metric=what), value)

    def spread(self, among):
        """Two clients that vary so."""
        rounds = {
            metric: known["per_round"]["std"]
            for metric, known in among.items()
            if "per_round" in known
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
            attribute: {key: known["last_round"].get(key, empty) for key, empty in GROUPED.items()}
            for attribute, known in client.get("groups", {}).items()
        }
        about = {"version": client["version"], "part": client["part"], "groups": groups}
        return about | {"corruption": client.get("corruption", "")}


def shorts(known):
    """The names of what lies between groups in a metric's object."""
    return [name for name in BETWEEN if isinstance(known, dict) and name in known]


def in_each_round(known, short):
    """What the table holds of it: the number in each round, which is not of the groups' means."""
    return known.get(f"{short}_in_each_round", known.get(short))


def close(a, b):
    return a is b or (a is not None and b is not None and abs(a - b) <= 1e-12)
