"""The scores of a run: its manifest scores.json says what the run was, and scores.csv beside it holds the numbers.

The table's lines are facts, see table.py; what follows from them is a view, see views.py. `nested()` in nested.py is
all of it as one object, for `--json` and for recipes' places such as versions/clean/accuracy.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..data import manifest
from ..errors import FedcliError
from ..metrics import PARITY, better_low
from ..metrics.task import ONE, SEVERAL
from ..natural import by_size
from . import clinical_shape, table, views
from .choice import Candidate
from .parts import (
    AVERAGE,
    MODELS,
    Adapted,
    Chosen,
    Client,
    Curves,
    External,
    Grouped,
    Severity,
    Shots,
    Stage,
    Traffic,
    decode,
)
from .table import TRAINED_AT, Score, Table, Where

LEGEND = (
    Path(__file__).parent / "legend.json"
)  # the numbers of a run explained, in the words of scores.json
RECALL = "recall"  # of the classes of a label: head, medium, tail
GLOBAL = "global"  # beside a client's own model
OWN_MODELS = "mean_personal", "personal"  # clients' own models on the whole test sets
Columns = dict[str, dict[str, Score]]  # metric -> group -> score


@dataclass(frozen=True)
class Part:
    """Scores of some models: those of a view, of a client, or of all images by the run's model.

    Attributes:
        overall: version -> metric -> score of all images.
        groups: attribute -> version -> metric -> group -> score.
        differences: attribute -> version -> name -> difference in decisions between the groups.
        measured: attribute -> version -> what lies between the groups of several models.
    """

    where: Where
    overall: dict[str, dict[str, Score]] = field(default_factory=dict)
    groups: dict[str, dict[str, Columns]] = field(default_factory=dict)
    differences: dict[str, dict[str, dict[str, Score]]] = field(default_factory=dict)
    measured: dict[str, dict[str, Table]] = field(default_factory=dict)
    _between: dict[tuple[str, str], Table] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, where: Where, table: Mapping[Where, Score]) -> "Part":
        """The lines of a table, all of which are of these models. where: whose."""
        part = cls(where)
        for line, score in table.items():
            part.add(line, score)
        return part

    def add(self, where: Where, score: Score) -> None:
        if not where.attribute:
            self.overall.setdefault(where.version, {})[where.metric] = score
            return
        whose: Any = self.groups
        whose = self.measured if where.measure or where.metric.startswith("es_") else whose
        whose = self.differences if where.metric.startswith(PARITY) else whose
        by = whose.setdefault(where.attribute, {}).setdefault(where.version, {})
        if whose is self.measured:
            by[where] = score
        elif whose is self.differences:
            by[where.metric] = score
        else:
            by.setdefault(where.metric, {})[where.group] = score

    def between(self, attribute: str, version: str) -> Table:
        """All that lies between the groups of an attribute; worked out once."""
        if (attribute, version) not in self._between:
            where = self.where._replace(version=version, attribute=attribute)
            measured = self.measured.get(attribute, {}).get(version, {})
            metrics = self.groups.get(attribute, {}).get(version, {})
            self._between[attribute, version] = views.of_groups(
                where, self.overall.get(version, {}), metrics, measured
            )
        return self._between[attribute, version]

    def lies(self, attribute: str, version: str, metric: str, measure: str) -> Score | None:
        """One of the numbers between the groups; None where fewer than two groups are scored by the metric."""
        where = self.where._replace(
            version=version, attribute=attribute, metric=metric, measure=measure
        )
        return self.between(attribute, version).get(where)

    def edges(self, attribute: str, version: str, metric: str) -> "Edges | None":
        """Name and score of the worst and of the best group of the last round."""
        column = self.groups.get(attribute, {}).get(version, {}).get(metric, {})
        if column:
            return views.edges(column, low=better_low(metric))
        measured = self.measured.get(attribute, {}).get(version, {})
        of_metric = {
            where.measure: (where.group, score)
            for where, score in measured.items()
            if where.metric == metric
        }
        if of_metric:
            ends = [
                (group, score.last)
                for group, score in (
                    of_metric[name] for name in (views.WORST, views.BEST) if name in of_metric
                )
                if score.last is not None
            ]
            return (ends[0], ends[1]) if len(ends) == 2 else None
        return None


OPTIONAL = "adapted", "shared_patients"  # left out of scores.json where there are none
MADE_UP = "SYNTHETIC data"  # in the label of a run
SYNTHETIC = f"{MADE_UP}: of a made-up sample, whose numbers say nothing about patients"
Edges = tuple[tuple[str, float], tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All that is known of a run: what it was, and its scores.

    Attributes:
        data: "dataset", "partition" and "corruption"; None for a stage that is not there.
        view: the name of the first way in which the method is shown images.
        grouped: attribute -> test images in no group. severities: kind -> severity.
        shared_patients: those of test images who have training images, of the shape in data/shared_patients.py.
        table: the lines of scores.csv.
    """

    method: str
    label: str
    rule: str
    settings: dict[str, Any]
    options: dict[str, Any]
    dataset: str
    data: dict[str, Stage | None]
    rounds: int
    roster_size: int
    model: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] | None = None
    warning: str = ""
    kept_rounds: list[int] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    personal_models: bool = False
    sample: bool = False
    single_site: bool = False
    view: str = ""
    bytes: Traffic = Traffic()
    grouped: dict[str, Grouped] = field(default_factory=dict)
    severities: dict[str, dict[str, Severity]] = field(default_factory=dict)
    curves: dict[str, Curves] = field(default_factory=dict)
    best: Chosen | None = None
    candidates: list[Candidate] = field(default_factory=list)
    external: External | None = None
    clinical: dict[str, Any] | None = None  # of the shape in clinical_shape.py
    adapted: Adapted | None = None
    shots: Shots | None = None
    train_images: int = 0
    shared_patients: dict[str, Any] | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    table: Table = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The label of the run, without what a table or figure of generated samples says once."""
        return self.label.removesuffix(f", {MADE_UP}")

    @classmethod
    def read(cls, path: Path) -> "Scores":
        """Of a scores.json, every hash above it checked. Raises FedcliError, HashError."""
        return cls.of(manifest.verify(path, "scores").body, path)

    @classmethod
    def of(cls, facts: dict[str, Any], path: Path) -> "Scores":
        """From the body of the scores.json at this path and the table beside it. Raises FedcliError."""
        try:
            known = decode(cls, {key: value for key, value in facts.items() if key != "legend"})
        except (KeyError, TypeError, AttributeError) as error:
            what = f"{path} does not have the shape of scores that this version writes ({error})"
            raise FedcliError(what, f"remove {path.parent} and evaluate the run again") from None
        if known.clinical:
            clinical_shape.check(known.clinical, path)
        known.table.update(_in_reading_order(table.read(path.parent / table.FILE)))
        if not any(where == Where("clean", metric=where.metric) for where in known.table):
            raise FedcliError(
                f"{path.parent / table.FILE} holds no score of all clean test images", table.AGAIN
            )
        return known

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the table into a folder; gives the facts for its manifest."""
        table.write(folder / table.FILE, self.table)
        return self.facts()

    def facts(self) -> dict[str, Any]:
        """As the body of scores.json holds them."""
        facts = asdict(replace(self, table={})) | {
            "legend": json.loads(LEGEND.read_text(encoding="utf-8"))
        }
        return {
            key: value
            for key, value in facts.items()
            if key != "table" and (value or key not in OPTIONAL)
        }

    @property
    def several_labels(self) -> bool:
        """Tell whether an image may have several labels."""
        return bool(self.labels)

    @cached_property
    def usual(self) -> tuple[str, str]:
        """The metrics that are shown where none are asked for: one of decisions, and an area under the curve."""
        return (SEVERAL if SEVERAL.area in self.versions["clean"] else ONE).usual

    def answers(self, version: str = "clean") -> int:
        """Among how many answers a model chooses: the classes that the test images have, of each label two."""
        missing = next(iter(self.versions[version].values())).missing
        return 2 if self.several_labels else len(self.classes) - len(missing)

    @cached_property
    def parts(self) -> dict[tuple[str, str, str], Part]:
        """View, model and client -> scores."""
        parts: dict[tuple[str, str, str], Part] = {}
        for where, score in self.table.items():
            if not where.label:
                key = where.view, where.model, where.client
                if key not in parts:
                    parts[key] = Part(
                        Where(view=where.view, model=where.model, client=where.client)
                    )
                parts[key].add(where, score)
        return parts

    def part(self, view: str = "", model: str = "", client: str = "") -> Part:
        """Scores of these models; empty where there are none."""
        return self.parts.get((view, model, client)) or Part(
            Where(view=view, model=model, client=client)
        )

    @cached_property
    def views(self) -> list[str]:
        """Other ways than `view` in which the method can be shown test images."""
        return list(dict.fromkeys(view for view, _, _ in self.parts if view))

    @cached_property
    def personal(self) -> list[str]:
        """Whose models beside the global one are scored on the whole test sets: personal, mean_personal."""
        return [model for model in OWN_MODELS if ("", model, "") in self.parts]

    @cached_property
    def versions(self) -> dict[str, dict[str, Score]]:
        """Version of the test images -> metric -> score of all images, with the average of clean and corrupted."""
        return with_average(self.part().overall)

    @property
    def images(self) -> int:
        """Clean test images."""
        return next(iter(self.versions["clean"].values())).count

    @cached_property
    def groups(self) -> dict[str, dict[str, Columns]]:
        """Attribute -> clean or corrupted -> metric -> group -> score, by the run's model."""
        return groups_of(self.part())

    def members(self, attribute: str, metrics: Iterable[str] = ()) -> dict[str, Score]:
        """Group -> one of its scores, which says how many images it has and why they are too few.

        metrics: those of which one may need more images; none where any may.
        """
        columns = self.groups.get(attribute, {}).get("clean", {})
        members: dict[str, Score] = {}
        for column in [
            columns[metric] for metric in metrics if metric in columns
        ] or columns.values():
            for group, score in column.items():
                if group not in members or len(score.small) > len(members[group].small):
                    members[group] = score
        return members

    @cached_property
    def cross_site(self) -> dict[str, dict[str, dict[str, Score]]]:
        """Whose model -> whose own clean test images -> metric -> score of the last round."""
        tested: dict[str, dict[str, dict[str, Score]]] = {}
        for (_, model, client), part in self.parts.items():
            if model.startswith(TRAINED_AT):
                tested.setdefault(model.removeprefix(TRAINED_AT), {})[client] = part.overall[
                    "clean"
                ]
        return tested

    @cached_property
    def labels(self) -> dict[str, dict[str, Part]]:
        """Version -> label -> scores of one of several labels per image by itself."""
        return self._labelled(recall=False)

    @cached_property
    def recalls(self) -> dict[str, dict[str, Score]]:
        """Version -> head, medium, tail, all or balanced_accuracy -> mean recall of these classes."""
        by_version = self._labelled(recall=True)
        overall = {
            v: {name: part.overall[v][RECALL] for name, part in of.items()}
            for v, of in by_version.items()
        }
        return with_average(overall)

    def _labelled(self, *, recall: bool) -> dict[str, dict[str, Part]]:
        labels: dict[str, dict[str, Part]] = {}
        for where, score in self.table.items():
            if where.label and (where.metric == RECALL) == recall:
                by = labels.setdefault(where.version, {})
                by.setdefault(where.label, Part(Where(label=where.label))).add(where, score)
        return labels

    @cached_property
    def among_clients(self) -> dict[str, dict[str, Score]]:
        """Metric -> what varies among clients, by each one's own model or the global one."""
        clients = {name: self.part(client=name).overall for name in self.clients}
        names = views.AMONG if not self._share_images or self._own_models else ()
        return self._among(clients, names)

    @cached_property
    def among_clients_global(self) -> dict[str, dict[str, Score]]:
        """The same of the global model where clients have models of their own; on shared images it has a mean alone."""
        clients = {name: self.part(model=GLOBAL, client=name).overall for name in self.clients}
        return self._among(clients, views.AMONG[:1] if self._share_images else views.AMONG)

    def _among(
        self, clients: dict[str, dict[str, dict[str, Score]]], names: tuple[str, ...]
    ) -> dict[str, dict[str, Score]]:
        shown = {
            name: overall[v]
            for name, overall in clients.items()
            if (v := self.clients[name].version) in overall
        }
        having = next(iter(shown.values()), {})
        return {
            metric: views.among(
                {name: scores[metric] for name, scores in shown.items()},
                names,
                low=better_low(metric),
            )
            for metric in views.headlines(having)
        }

    @property
    def _share_images(self) -> bool:
        tests = [
            (client.version, client.part, client.corruption) for client in self.clients.values()
        ]
        return len({*tests}) == 1 and "whole" in tests[0]

    @property
    def _own_models(self) -> bool:
        return self.personal_models or self.options.get("bn") == "local"


def with_average(shown: dict[str, dict[str, Score]]) -> dict[str, dict[str, Score]]:
    """Scores of the clean and the corrupted test images with the average of both, whose intervals were measured."""
    both = {version: shown[version] for version in MODELS if version in shown}
    if len(both) < 2:
        return both
    clean, corrupted = both.values()
    drawn = shown.get(AVERAGE, {})
    return {
        AVERAGE: {m: views.average(clean[m], corrupted[m], drawn.get(m)) for m in clean},
        **both,
    }


def groups_of(part: Part) -> dict[str, dict[str, Columns]]:
    """Attribute -> clean or corrupted -> metric -> group -> score."""
    return {name: {v: by[v] for v in MODELS if v in by} for name, by in part.groups.items()}


def _in_reading_order(lines: Table) -> Table:
    """The scores of a file, in which groups and labels are sorted as texts, with 3-9 before 10-19."""
    order = sorted(lines, key=_reading_order)  # stable: all else stays as it is in the file
    return {where: lines[where] for where in order}


def _reading_order(where: Where) -> tuple[object, ...]:
    group, label = by_size(where.group), by_size(where.label)
    return where.version, where.view, where.attribute, group, where.client, label
