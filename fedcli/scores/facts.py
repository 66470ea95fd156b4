"""Lines of the table of scores, made of what models answer: whatever has a line gets it here.

Mostly one model answers for an image. Where clients trained alone there are several: a line is then the mean over them,
and what lies between groups is measured of each model and averaged too, since it does not follow from mean scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import metrics
from ..labels import YES
from ..metrics import Groupings, Task, groupings_at, needs_every_class
from ..metrics.parity import decided_labels, parity, parity_of_labels, undefined_rates
from . import views
from .groups import JOIN, NAMED, Patients
from .parts import Grouped
from .scores import Edges, Part
from .table import Number, Score, Table, Where

Rounds = Iterable[
    tuple[int, Sequence[np.ndarray]]
]  # number of a kept round, logits [N, C] of each model that answers
Scored = Mapping[
    str, Any
]  # one model on some images: metric -> score, and "count", "classes_missing" and "patients" of the images
NOT_SCORES = "count", "classes_missing", "patients"


@dataclass(frozen=True)
class Images:
    """Test images, before anyone answers for them.

    Attributes:
        y: labels, [N] or [N, L]. classes: their names.
        groupings: attribute -> the place of each image's group [N], -1 unknown, and the groups' names.
        units: [N], the patient or lesion of each image; None where the dataset names none.
    """

    y: np.ndarray
    classes: list[str]
    groupings: Groupings = field(default_factory=dict)
    units: np.ndarray | None = None

    def at(self, places: np.ndarray | slice) -> "Images":
        """Some of the images."""
        units = None if self.units is None else self.units[places]
        return replace(
            self, y=self.y[places], groupings=groupings_at(self.groupings, places), units=units
        )

    @cached_property
    def patients(self) -> Patients:
        """The patients of all the images."""
        return Patients.of(self.y, self.units)

    @cached_property
    def patients_by_group(self) -> dict[str, list[Patients]]:
        """Attribute -> the patients of each of its groups."""
        by_group = {}
        for name, (places, values) in self.groupings.items():
            by_group[name] = [self.at(places == g).patients for g in range(len(values))]
        return by_group

    def grouped(self) -> dict[str, Grouped]:
        """Attribute -> images in no group, and rates that no decision could give."""
        task, about = Task.of(self.y), {}
        for name, (places, values) in self.groupings.items():
            decisions = task.decided(
                task.perfect(self.y, len(self.classes)), self.y, places, len(values)
            )
            about[name] = Grouped(
                int((places < 0).sum()), undefined_rates(decisions, values, self.classes)
            )
        return about


def of_model(
    where: Where,
    round: int,
    whole: Scored,
    groups: Mapping[str, Mapping[str, Scored]],
    differences: Mapping[str, Mapping[str, Number]],
    classes: Sequence[str] | None = None,
) -> Table:
    """The lines of one model in one round: of all images, of each group, and of differences between groups.

    groups: attribute -> group -> scores, as by metrics.score(), with the patients. differences: attribute -> name ->
    difference in decisions. classes: their names, for why images are too few to be reliable; None where that is not
    known.
    """
    table = _lines(where, round, whole, whole, classes)
    for name, of_values in groups.items():
        here = where._replace(attribute=name)
        for group, scored in of_values.items():
            table |= _lines(here._replace(group=group), round, scored, whole, classes)
        for difference, value in differences[name].items():
            table[here._replace(metric=difference)] = Score([value], [round])
    return table


def _lines(
    where: Where, round: int, scored: Scored, whole: Scored, classes: Sequence[str] | None
) -> Table:
    """The lines of some images, each with the reason for which they are too few; whole: the scores of all images."""
    count, missing = scored.get("count", 0), tuple(scored.get("classes_missing", ()))
    reasons = {True: "", False: ""}  # by needs_every_class()
    if classes is not None:
        reasons = {every: _reasons(scored, whole, classes, every) for every in reasons}
    table: Table = {}
    for name, value in scored.items():
        if name not in NOT_SCORES:
            small = reasons[needs_every_class(name)]
            table[where._replace(metric=name)] = Score([value], [round], count, missing, small)
    return table


def facts(where: Where, images: Images, rounds: Rounds, by: Iterable[str] = ()) -> Table:
    """The lines of all images, and of each group of the attributes `by`, over kept rounds.

    Raises FedcliError for logits that are not finite.
    """
    return over_rounds([of_round(where, images, round, models, by) for round, models in rounds])


def of_round(
    where: Where, images: Images, round: int, models: Sequence[np.ndarray], by: Iterable[str] = ()
) -> Table:
    """facts() of one round."""
    return of_models(where, [_answer(where, round, images, logits, by) for logits in models])


def _answer(
    where: Where, round: int, images: Images, logits: np.ndarray, by: Iterable[str]
) -> Table:
    def scored(at: np.ndarray | slice, patients: Patients) -> Scored:
        of_groups = groupings_at(images.groupings, at)
        return metrics.score(logits[at], images.y[at], of_groups) | {"patients": patients}

    groups, differences = {}, {}
    for name in by:
        places, values = images.groupings[name]
        patients = images.patients_by_group[name]
        groups[name] = {value: scored(places == g, patients[g]) for g, value in enumerate(values)}
        differences[name] = parity(Task.of(images.y).decided(logits, images.y, places, len(values)))
    return of_model(
        where, round, scored(slice(None), images.patients), groups, differences, images.classes
    )


def label_facts(
    where: Where, images: Images, rounds: Sequence[tuple[int, Sequence[np.ndarray]]]
) -> Table:
    """The lines of each of several labels by itself, over kept rounds; of its groups by the last round's model."""
    last = rounds[-1][0]
    tables: dict[Where, list[Table]] = {where._replace(label=label): [] for label in images.classes}
    for round, models in rounds:
        groupings = images.groupings if round == last else {}
        answers = [
            _of_each_label([*tables], round, images.y, logits, groupings) for logits in models
        ]
        for here, of_label in zip(tables, zip(*answers, strict=True), strict=True):
            tables[here].append(of_models(here, of_label))
    made: Table = {}
    for each_round in tables.values():
        made |= over_rounds(each_round)
    _give_reasons(made, images)
    return made


def _give_reasons(table: Table, images: Images) -> None:
    """Say of scores of single labels why they are unreliable: few patients with the label, or without it."""
    for key, score in table.items():
        patients = images.patients
        if key.group:
            values = images.groupings[key.attribute][1]
            patients = images.patients_by_group[key.attribute][values.index(key.group)]
        if needs_every_class(key.metric) and not key.measure:
            score.small = patients.of_label(images.classes.index(key.label)).rare([key.label])


def _of_each_label(
    wheres: Sequence[Where], round: int, y: np.ndarray, logits: np.ndarray, groupings: Groupings
) -> list[Table]:
    """Lines of one model. wheres: of each label."""
    having = (y == YES).sum(0).tolist()
    groups, differences = {}, {}
    for name, (places, values) in groupings.items():
        groups[name] = {
            v: metrics.of_labels(logits[places == g], y[places == g]) for g, v in enumerate(values)
        }
        differences[name] = parity_of_labels(decided_labels(logits >= 0, y, places, len(values)))
    return [
        of_model(
            where,
            round,
            scores | {"count": having[k]},
            {
                name: {v: {"auc": each[k]["auc"]} for v, each in of.items()}
                for name, of in groups.items()
            },
            {name: of[k] for name, of in differences.items()},
        )
        for k, (where, scores) in enumerate(zip(wheres, metrics.of_labels(logits, y), strict=True))
    ]


def of_models(where: Where, tables: Sequence[Table]) -> Table:
    """The lines of one round: of the one model that answers, or of several their mean and what lies between groups."""
    return tables[0] if len(tables) == 1 else mean(tables) | _measured(where, tables)


def mean(tables: Sequence[Table]) -> Table:
    """Of several models on the same images."""
    return {key: views.mean([table[key] for table in tables]) for key in tables[0]}


def _measured(where: Where, tables: Sequence[Table]) -> Table:
    """All that lies between groups, each number the mean over models. A worst group is named where all agree on it."""
    parts = [Part.of(where._replace(version=""), table) for table in tables]
    measured: Table = {}
    for name in parts[0].groups:
        between = mean([part.between(name, where.version) for part in parts])
        for key, lies in between.items():
            score = Score(lies.values, lies.rounds)
            if key.measure == views.WORST:
                edges = [part.edges(name, where.version, key.metric) for part in parts]
                measured[key._replace(group=_agreed(edges, 0))] = score
                if all(edges):
                    best = views.mean([Score([edge[1][1]], lies.rounds) for edge in edges if edge])
                    measured[key._replace(measure=views.BEST, group=_agreed(edges, 1))] = best
            elif key.measure in views.MEASURED or (not key.measure and score.last is not None):
                measured[key] = score
    return measured


def _agreed(edges: Sequence[Edges | None], place: int) -> str:
    """The name of the worst (0) or best (1) group; "" where models differ in it."""
    names = {edge[place][0] if edge else "" for edge in edges}
    return names.pop() if len(names) == 1 else ""


def over_rounds(rounds: Sequence[Table]) -> Table:
    """Lines of one round each as lines over rounds. A line that only the last round needs is of that alone."""
    last, earlier = (
        rounds[-1],
        [{_whose(key): score for key, score in table.items()} for table in rounds[:-1]],
    )
    table: Table = {}
    for key, score in last.items():
        alone = key.measure == views.BEST or (
            key.group and not key.measure and not views.compared(key.metric)
        )
        scores = [
            of_round[_whose(key)] for of_round in earlier if not alone and _whose(key) in of_round
        ]
        values = [value for each in [*scores, score] for value in each.values]
        table[key] = replace(
            score, values=values, rounds=[r for each in [*scores, score] for r in each.rounds]
        )
    return table


def _whose(key: Where) -> Where:
    """A line without the name of the worst group, which may be another in each round."""
    return key._replace(group="") if key.measure else key


def _reasons(part: Scored, overall: Scored, classes: Sequence[str], every_class: bool) -> str:
    """Why images are too few to be reliable; a class that the whole test set lacks is no reason.

    every_class: whether the score needs every class, so that few images of one of them are a reason.
    """
    if not part["count"]:
        return "no test image"
    lacking = [classes[c] for c in part["classes_missing"] if c not in overall["classes_missing"]]
    patients: Patients = part["patients"]
    reasons = [patients.few] if patients.few else []
    if lacking and "auc_macro" in part:
        more = f" and {len(lacking) - NAMED} more" * (len(lacking) > NAMED)
        reasons.append(f"no AUC of {', '.join(lacking[:NAMED])}{more}")
    elif lacking:
        reasons.append(f"no image of {', '.join(lacking)}")
    rare = patients.rare(classes)
    if every_class and rare:
        reasons.append(rare)
    return JOIN.join(reasons)
