"""The scores of a run: what the run was, from scores.json, and the numbers of scores.csv beside it.

The table's lines are facts, see table.py; what follows from them is a view, see views.py.
`nested()` in nested.py is all of it as one object, for `--json` and for recipes' places such as
versions/clean/accuracy.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import shapes
from ..data import manifest, manifest_bodies, units
from ..errors import FedcliError
from ..metrics import PARITY, better_low
from ..metrics.task import ONE, SEVERAL
from ..natural import by_size
from . import clinical_shape, table, views
from .choice import Candidate
from .parts import (
    AVERAGE,
    MODELS,
    Adaptations,
    Chosen,
    Client,
    Curves,
    External,
    Grouped,
    Severity,
    Shots,
    Stage,
    Traffic,
    Unscored,
    decode,
)
from .table import TRAINED_AT, Score, Table, Where, tree

# the numbers of a run explained, in the words of scores.json
LEGEND = Path(__file__).parent / "legend.json"
RECALL = "recall"  # of the classes of a label: head, medium, tail
GLOBAL = "global"  # beside a client's own model
OWN_MODELS = ("mean_personal", "personal")  # clients' own models on the whole test sets
EQUITY_SCALED = "es_"  # begins the names of metrics of all groups together
Facts = dict[str, Any]  # of the body of scores.json
ByMetric = dict[str, dict[str, Score]]  # metric -> group, or measure, -> score
Columns = ByMetric  # metric -> group -> score
Versions = dict[str, dict[str, Score]]  # version -> metric -> score of all images
Groups = dict[str, dict[str, Columns]]  # attribute -> version -> metric -> group -> score


@dataclass(frozen=True)
class Part:
    """Scores of some models: those of a view, a client or a label, or the run's model on all
    images.

    Attributes:
        overall: version -> metric -> score of all images.
        groups: attribute -> version -> metric -> group -> score.
        measured: lines between groups: differences in decisions, and those of several models.
    """

    where: Where
    overall: Versions
    groups: Groups
    measured: Table
    _between: dict[tuple[str, str], Table] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )

    @classmethod
    def of(cls, where: Where, table: Mapping[Where, Score]) -> "Part":
        """The lines of a table, all of which are of these models. where: whose."""
        overall: Table = {}
        groups: Table = {}
        measured: Table = {}
        for line, score in table.items():
            lines = groups
            if not line.attribute:
                lines = overall
            elif line.measure or line.metric.startswith((*PARITY, EQUITY_SCALED)):
                lines = measured
            lines[line] = score
        return cls(
            where,
            tree(overall, "version", "metric"),
            tree(groups, "attribute", "version", "metric", "group"),
            measured,
        )

    def columns(self, attribute: str, version: str) -> Columns:
        """Metric -> group -> score of an attribute on one version of the test images."""
        return self.groups.get(attribute, {}).get(version, {})

    def between(self, attribute: str, version: str) -> Table:
        """All that lies between the groups of an attribute; worked out once.

        The differences in decisions are first.
        """
        key = (attribute, version)
        if key not in self._between:
            measured: Table = {}
            for where, score in self.measured.items():
                if (where.attribute, where.version) == key:
                    measured[where] = score
            differences = {w: score for w, score in measured.items() if w.metric.startswith(PARITY)}
            column_key = self.where._replace(version=version, attribute=attribute)
            self._between[key] = differences | views.of_groups(
                column_key,
                self.overall.get(version, {}),
                self.columns(attribute, version),
                measured,
            )
        return self._between[key]

    def lies(
        self,
        attribute: str,
        version: str,
        metric: str,
        measure: str,
    ) -> Score | None:
        """One of the numbers between the groups.

        None where fewer than two groups are scored by the metric.
        """
        between = self.between(attribute, version)
        where = self.where._replace(version=version, attribute=attribute)
        return between.get(where._replace(metric=metric, measure=measure))

    def edges(
        self,
        attribute: str,
        version: str,
        metric: str,
    ) -> views.Edges | None:
        """Name and score of the worst and of the best group of the last round."""
        column = self.columns(attribute, version).get(metric, {})
        if column:
            return views.edges(column, low=better_low(metric))
        edges = {}
        for where, score in self.measured.items():
            key = (where.attribute, where.version, where.metric)
            if key == (attribute, version, metric) and score.last is not None:
                edges[where.measure] = (where.group, score.last)
        if views.WORST in edges and views.BEST in edges:
            return edges[views.WORST], edges[views.BEST]
        return None


OPTIONAL = (
    "adapted",
    "shared_patients",
    "unit",
    "unscored",
)  # left out of scores.json where there are none
MADE_UP = "SYNTHETIC data"  # in the label of a run
SYNTHETIC = f"{MADE_UP}: of a made-up sample, whose numbers say nothing about patients"


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """A run: what it was, and its scores.

    Attributes:
        data: "dataset", "partition" and "corruption"; None for a stage that is not there.
        view: the name of the first way in which the method is shown images.
        grouped: attribute -> test images in no group. severities: kind -> severity.
        shared_patients: those of test images who have training images, of the shape in
            data/shared_patients.py.
        unit: what the ids of the test images stand for, such as "lesion"; "" for patients.
        unscored: the test images of classes that sites hide; None where every class is scored.
        table: the lines of scores.csv.
    """

    method: str
    label: str
    rule: str
    settings: Facts
    options: Facts
    dataset: str
    data: dict[str, Stage | None]
    rounds: int
    roster_size: int
    model: Facts = field(default_factory=dict)
    corruption: Facts | None = None
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
    clinical: Facts | None = None  # of the shape in clinical_shape.py
    adapted: Adaptations | None = None
    shots: Shots | None = None
    train_images: int = 0
    shared_patients: Facts | None = None
    unit: str = ""
    unscored: Unscored | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    table: Table = field(default_factory=dict, repr=False, compare=False)

    @property
    def noun(self) -> str:
        """The noun of what the ids of the test images stand for."""
        return self.unit or units.PATIENT

    @property
    def name(self) -> str:
        """The label of the run, without what a table or figure of generated samples says once."""
        return self.label.removesuffix(f", {MADE_UP}")

    @classmethod
    def read(cls, path: Path) -> "RunScores":
        """The scores of a scores.json, every hash above it checked.

        Raises FedcliError, HashError.
        """
        return cls.of(manifest.verify(path, "scores").body, path)

    @classmethod
    def of(cls, facts: Facts, path: Path) -> "RunScores":
        """The scores of the body of the scores.json at this path, with the table beside it.

        Raises FedcliError.
        """
        parts = {key: value for key, value in facts.items() if key != "legend"}
        try:
            scores = decode(cls, parts)
        except (KeyError, TypeError, AttributeError) as error:
            fault = f"{path} does not have the shape of scores that this version writes ({error})"
            raise FedcliError(fault, f"remove {path.parent} and evaluate the run again") from None
        if scores.shared_patients:
            shapes.check(
                scores.shared_patients,
                manifest_bodies.SHARED,
                path,
                table.AGAIN,
            )
        partition = scores.data.get("partition")
        if partition and "attack" in partition.options:
            attack = partition.options["attack"]
            shapes.check(
                attack,
                manifest_bodies.ATTACK,
                f"{path}: attack",
                table.AGAIN,
            )
        if scores.clinical:
            clinical_shape.check(scores.clinical, path)
        file = path.parent / table.FILE
        scores.table.update(_in_reading_order(table.read(file)))
        if not any(where == Where("clean", metric=where.metric) for where in scores.table):
            raise FedcliError(f"{file} holds no score of all clean test images", table.AGAIN)
        return scores

    def write(self, folder: Path) -> Facts:
        """Write the table into a folder; gives the facts for its manifest."""
        table.write(folder / table.FILE, self.table)
        return self.facts()

    def facts(self) -> Facts:
        """The body of scores.json."""
        facts = asdict(replace(self, table={}))
        facts["legend"] = json.loads(LEGEND.read_text(encoding="utf-8"))
        del facts["table"]
        for key in OPTIONAL:
            if not facts[key]:
                del facts[key]
        return facts

    @property
    def several_labels(self) -> bool:
        """Tell whether an image may have several labels."""
        return bool(self.labels)

    @cached_property
    def usual(self) -> tuple[str, str]:
        """The metrics of a table by default: one of decisions, and an area under the curve."""
        task = SEVERAL if SEVERAL.area in self.versions["clean"] else ONE
        return task.usual

    def answers(self, version: str = "clean") -> int:
        """The number of answers a model chooses among.

        They are the classes that the test images have, of each label two.
        """
        if self.several_labels:
            return 2
        any_score = next(iter(self.versions[version].values()))
        return len(self.classes) - len(any_score.missing)

    def chance_in_words(self, version: str = "clean") -> str:
        """The level of a model that has learned nothing, in words.

        Where test images lack a class, or sites hide it, a random answer scores less than one
        answer for all images.
        """
        has_every_class = self.several_labels or self.answers(version) == len(self.classes)
        return "chance" if has_every_class else "one answer for all images"

    @cached_property
    def parts(self) -> dict[Where, Part]:
        """Scores by whose they are: view, model, client and label."""
        tables: dict[tuple[str, ...], Table] = {}
        for where, score in self.table.items():
            key = (where.view, where.client, where.label, where.model)
            tables.setdefault(key, {})[where] = score
        parts = {}
        for (view, client, label, model), lines in tables.items():
            where = Where(view=view, client=client, label=label, model=model)
            parts[where] = Part.of(where, lines)
        return parts

    def part(self, view: str = "", model: str = "", client: str = "") -> Part:
        """Scores of these models; empty where there are none."""
        where = Where(view=view, model=model, client=client)
        return self.parts.get(where) or Part.of(where, {})

    @cached_property
    def views(self) -> list[str]:
        """Other ways than `view` in which the method can be shown test images."""
        return list(dict.fromkeys(where.view for where in self.parts if where.view))

    @cached_property
    def personal(self) -> list[str]:
        """The models beside the global one that are scored on the whole test sets.

        personal, mean_personal.
        """
        return [model for model in OWN_MODELS if Where(model=model) in self.parts]

    @cached_property
    def versions(self) -> Versions:
        """Version of the test images -> metric -> score of all images, with the average of both."""
        return with_average(self.part().overall)

    @property
    def images(self) -> int:
        """Clean test images that are scored."""
        return next(iter(self.versions["clean"].values())).count

    @cached_property
    def groups(self) -> Groups:
        """Attribute -> clean or corrupted -> metric -> group -> score, by the run's model."""
        return groups_of(self.part())

    def members(
        self,
        attribute: str,
        metrics: Iterable[str] = (),
    ) -> dict[str, Score]:
        """Group -> one of its scores, which says how many images it has and why they are too few.

        metrics: those of which one may need more images; none where any may.
        """
        by_metric = self.groups.get(attribute, {}).get("clean", {})
        columns = [by_metric[metric] for metric in metrics if metric in by_metric]
        members: dict[str, Score] = {}
        for column in columns or by_metric.values():
            for group, score in column.items():
                if group not in members or len(score.small) > len(members[group].small):
                    members[group] = score
        return members

    @cached_property
    def cross_site(self) -> dict[str, Versions]:
        """Whose model -> whose own clean test images -> metric -> score of the last round."""
        tested: dict[str, Versions] = {}
        for where, part in self.parts.items():
            if where.model.startswith(TRAINED_AT):
                trained_at = where.model.removeprefix(TRAINED_AT)
                tested.setdefault(trained_at, {})[where.client] = part.overall["clean"]
        return tested

    @cached_property
    def labels(self) -> dict[str, dict[str, Part]]:
        """Version -> label -> scores of one of several labels per image by itself."""
        labels: dict[str, dict[str, Part]] = {}
        for where, part in self.parts.items():
            for version, metrics in part.overall.items():
                if where.label and RECALL not in metrics:
                    labels.setdefault(version, {})[where.label] = part
        return labels

    @cached_property
    def recalls(self) -> Versions:
        """Version -> head, medium, tail, all or balanced_accuracy -> mean recall of the classes."""
        table = {where: score for where, score in self.table.items() if where.metric == RECALL}
        return with_average(tree(table, "version", "label"))

    @cached_property
    def among_clients(self) -> ByMetric:
        """Metric -> what varies among clients, by each one's own model or the global one."""
        measures: tuple[str, ...] = views.AMONG
        if self._share_images and not self._own_models:
            measures = ()
        return self._among("", measures)

    @cached_property
    def among_clients_global(self) -> ByMetric:
        """Metric -> what varies among clients by the global model, where they have their own too.

        On shared images it has a mean alone.
        """
        return self._among(GLOBAL, views.AMONG[:1] if self._share_images else views.AMONG)

    def _among(self, model: str, measures: tuple[str, ...]) -> ByMetric:
        by_client = {}
        for name, client in self.clients.items():
            overall = self.part(model=model, client=name).overall
            if client.version in overall:
                by_client[name] = overall[client.version]
        metrics = next(iter(by_client.values()), {})
        among = {}
        for metric in views.headlines(metrics):
            column = {name: scores[metric] for name, scores in by_client.items()}
            among[metric] = views.among(
                column,
                measures,
                low=better_low(metric),
            )
        return among

    @property
    def _share_images(self) -> bool:
        tests = {
            (client.version, client.part, client.corruption) for client in self.clients.values()
        }
        return len(tests) == 1 and "whole" in tests.pop()

    @property
    def _own_models(self) -> bool:
        return self.personal_models or self.options.get("bn") == "local"


def with_average(overall: Versions) -> Versions:
    """Scores of the clean and the corrupted test images with the average of both.

    The average's intervals were measured.
    """
    both = {version: overall[version] for version in MODELS if version in overall}
    if len(both) < 2:
        return both
    clean, corrupted = both.values()
    measured = overall.get(AVERAGE, {})
    average = {}
    for metric, score in clean.items():
        average[metric] = views.average(
            score,
            corrupted[metric],
            measured.get(metric),
        )
    return {AVERAGE: average, **both}


def groups_of(part: Part) -> Groups:
    """Attribute -> clean or corrupted -> metric -> group -> score."""
    groups = {}
    for attribute, versions in part.groups.items():
        groups[attribute] = {v: versions[v] for v in MODELS if v in versions}
    return groups


def _in_reading_order(lines: Table) -> Table:
    """The scores of a file with 3-9 before 10-19; the file sorts groups and labels as texts."""
    order = sorted(lines, key=_reading_order)  # stable: all else stays as it is in the file
    return {where: lines[where] for where in order}


def _reading_order(where: Where) -> tuple[object, ...]:
    group = by_size(where.group)
    label = by_size(where.label)
    return where.version, where.view, where.attribute, group, where.client, label
