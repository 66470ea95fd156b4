"""Lines of the table of scores, made of what models answer: whatever has a line gets it here.

Mostly one model answers for an image. Where clients trained alone there are several: a line is then
the mean over them, and what lies between groups is measured of each model and averaged too, since
it does not follow from mean scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .. import metrics
from ..data.units import PATIENT
from ..labels import YES
from ..metrics import Groupings, Task, groupings_at, needs_every_class
from ..metrics.parity import decided_labels, parity, parity_of_labels, undefined_rates
from . import views
from .groups import JOIN, NAMED, Patients
from .parts import Grouped
from .scores import Part
from .table import Number, Score, Table, Where

Array = np.ndarray
# number of a kept round, logits [N, C] of each model that answers
Rounds = Iterable[tuple[int, Sequence[Array]]]
# one model on some images: metric -> score, and NOT_SCORES of the images
Scored = Mapping[str, Any]
NOT_SCORES = ("count", "classes_missing", "patients")


@dataclass(frozen=True)
class ScoredImages:
    """Test images, before anyone answers for them.

    Attributes:
        y: labels, [N] or [N, L]. classes: their names.
        groupings: attribute -> the index of each image's group [N], -1 unknown, and the groups'
            names.
        units: [N], the patient or lesion of each image; None where the dataset names none.
        unit: the noun of what they stand for.
    """

    y: Array
    classes: list[str]
    groupings: Groupings = field(default_factory=dict)
    units: Array | None = None
    unit: str = PATIENT

    def at(self, places: Array | slice) -> "ScoredImages":
        """Some of the images."""
        groupings = groupings_at(self.groupings, places)
        units = None if self.units is None else self.units[places]
        return replace(self, y=self.y[places], groupings=groupings, units=units)

    @cached_property
    def patients(self) -> Patients:
        """The patients of all the images."""
        return Patients.of(self.y, self.units, self.unit)

    @cached_property
    def patients_by_group(self) -> dict[str, list[Patients]]:
        """Attribute -> the patients of each of its groups."""
        by_group: dict[str, list[Patients]] = {}
        for name, (codes, values) in self.groupings.items():
            by_group[name] = []
            for code in range(len(values)):
                members = self.at(codes == code)
                by_group[name].append(members.patients)
        return by_group

    def grouped(self) -> dict[str, Grouped]:
        """Attribute -> images in no group, and rates that no decision could give."""
        task = Task.of(self.y)
        perfect = task.perfect(self.y, len(self.classes))
        by_attribute = {}
        for name, (codes, values) in self.groupings.items():
            decisions = task.decided(perfect, self.y, codes, len(values))
            undefined = undefined_rates(decisions, values, self.classes)
            by_attribute[name] = Grouped(int((codes < 0).sum()), undefined)
        return by_attribute


def of_model(
    where: Where,
    number: int,
    whole: Scored,
    groups: Mapping[str, Mapping[str, Scored]],
    differences: Mapping[str, Mapping[str, Number]],
    classes: Sequence[str] | None = None,
) -> Table:
    """The lines of one model in one round: all images, each group, and differences between groups.

    number: of the round. groups: attribute -> group -> scores, as by metrics.score(), with the
    patients. differences: attribute -> name -> difference in decisions. classes: their names, for
    why images are too few to be reliable; None where that is not known.
    """
    table = _lines(where, number, whole, whole, classes)
    for attribute, by_group in groups.items():
        key = where._replace(attribute=attribute)
        for group, scored in by_group.items():
            table |= _lines(key._replace(group=group), number, scored, whole, classes)
        for name, value in differences[attribute].items():
            table[key._replace(metric=name)] = Score([value], [number])
    return table


def _lines(
    where: Where,
    number: int,
    scored: Scored,
    whole: Scored,
    classes: Sequence[str] | None,
) -> Table:
    """The lines of some images, each with the reason for which they are too few.

    whole: the scores of all images.
    """
    count = scored.get("count", 0)
    missing = tuple(scored.get("classes_missing", ()))
    reasons = {True: "", False: ""}  # by needs_every_class()
    if classes is not None:
        for every_class in reasons:
            reasons[every_class] = _reasons(scored, whole, classes, every_class)
    table: Table = {}
    for name, value in scored.items():
        if name not in NOT_SCORES:
            small = reasons[needs_every_class(name)]
            table[where._replace(metric=name)] = Score(
                [value],
                [number],
                count,
                missing,
                small,
            )
    return table


def facts(
    where: Where,
    images: ScoredImages,
    rounds: Rounds,
    attributes: Iterable[str] = (),
) -> Table:
    """The lines of all images, and of each group of the attributes, over kept rounds.

    Raises FedcliError for logits that are not finite.
    """
    tables = []
    for number, models in rounds:
        tables.append(of_round(where, images, number, models, attributes))
    return over_rounds(tables)


def of_round(
    where: Where,
    images: ScoredImages,
    number: int,
    models: Sequence[Array],
    attributes: Iterable[str] = (),
) -> Table:
    """The lines of facts() of one round."""
    tables = [_answer(where, number, images, logits, attributes) for logits in models]
    return of_models(where, tables)


def _answer(
    where: Where,
    number: int,
    images: ScoredImages,
    logits: Array,
    attributes: Iterable[str],
) -> Table:
    def scored(members: Array | slice, patients: Patients) -> Scored:
        groupings = groupings_at(images.groupings, members)
        scores = metrics.score(logits[members], images.y[members], groupings)
        return scores | {"patients": patients}

    task = Task.of(images.y)
    groups: dict[str, dict[str, Scored]] = {}
    differences = {}
    for name in attributes:
        codes, values = images.groupings[name]
        groups[name] = {}
        for code, value in enumerate(values):
            group_patients = images.patients_by_group[name][code]
            groups[name][value] = scored(codes == code, group_patients)
        decided = task.decided(logits, images.y, codes, len(values))
        differences[name] = parity(decided)
    whole = scored(slice(None), images.patients)
    return of_model(where, number, whole, groups, differences, images.classes)


def label_facts(
    where: Where,
    images: ScoredImages,
    rounds: Sequence[tuple[int, Sequence[Array]]],
) -> Table:
    """The lines of each of several labels by itself, over kept rounds.

    The lines of its groups are by the last round's model.
    """
    keys = [where._replace(label=label) for label in images.classes]
    tables: dict[Where, list[Table]] = {key: [] for key in keys}
    last, _ = rounds[-1]
    for number, models in rounds:
        groupings = images.groupings if number == last else {}
        answers = [_of_each_label(keys, number, images.y, logits, groupings) for logits in models]
        for key, of_label in zip(keys, zip(*answers, strict=True), strict=True):
            tables[key].append(of_models(key, of_label))
    table: Table = {}
    for of_rounds in tables.values():
        table |= over_rounds(of_rounds)
    _give_reasons(table, images)
    return table


def _give_reasons(table: Table, images: ScoredImages) -> None:
    """Add the reasons for which scores of single labels are unreliable.

    They are few patients, or few with the label or without it.
    """
    for key, score in table.items():
        if not needs_every_class(key.metric) or key.measure:
            continue
        patients = images.patients
        if key.group:
            _, values = images.groupings[key.attribute]
            patients = images.patients_by_group[key.attribute][values.index(key.group)]
        of_label = patients.of_label(images.classes.index(key.label))
        reasons = (patients.few, of_label.rare([key.label]))
        score.small = JOIN.join(filter(None, reasons))


def _of_each_label(
    keys: Sequence[Where],
    number: int,
    y: Array,
    logits: Array,
    groupings: Groupings,
) -> list[Table]:
    """Lines of one model. keys: of each label."""
    counts = (y == YES).sum(0).tolist()
    scores_of_groups: dict[str, dict[str, Sequence[Scored]]] = {}
    parities = {}
    for name, (codes, values) in groupings.items():
        scores_of_groups[name] = {}
        for code, value in enumerate(values):
            members = codes == code
            scores_of_groups[name][value] = metrics.of_labels(logits[members], y[members])
        decided = decided_labels(logits >= 0, y, codes, len(values))
        parities[name] = parity_of_labels(decided)
    tables = []
    scores_of_labels = metrics.of_labels(logits, y)
    for k, (key, scores) in enumerate(zip(keys, scores_of_labels, strict=True)):
        groups = {}
        for name, by_value in scores_of_groups.items():
            auc_by_value = {value: {"auc": labels[k]["auc"]} for value, labels in by_value.items()}
            groups[name] = auc_by_value
        differences = {name: of_labels[k] for name, of_labels in parities.items()}
        scored = scores | {"count": counts[k]}
        tables.append(of_model(key, number, scored, groups, differences))
    return tables


def of_models(where: Where, tables: Sequence[Table]) -> Table:
    """The lines of one round, of the one model that answers.

    Of several models they are their mean and what lies between groups.
    """
    if len(tables) == 1:
        return tables[0]
    return mean(tables) | _measured(where, tables)


def mean(tables: Sequence[Table]) -> Table:
    """The mean over several models on the same images."""
    means = {}
    for key in tables[0]:
        means[key] = views.mean([table[key] for table in tables])
    return means


def _measured(where: Where, tables: Sequence[Table]) -> Table:
    """All that lies between groups, each number the mean over models.

    A worst group is named where all agree on it.
    """
    parts = [Part.of(where._replace(version=""), table) for table in tables]
    measured: Table = {}
    for attribute in parts[0].groups:
        between = mean([part.between(attribute, where.version) for part in parts])
        for key, number in between.items():
            score = Score(number.values, number.rounds)
            if key.measure == views.WORST:
                edges = [part.edges(attribute, where.version, key.metric) for part in parts]
                measured |= _ends(key, score, edges)
            elif key.measure in views.MEASURED or (not key.measure and score.last is not None):
                measured[key] = score
    return measured


def _ends(
    key: Where,
    worst: Score,
    edges: Sequence[views.Edges | None],
) -> Table:
    """The worst group's line and, where every model has one, the best group's."""
    table = {key._replace(group=_agreed(edges, 0)): worst}
    ends = [edge for edge in edges if edge]
    if len(ends) == len(edges):
        scores = [Score([number], worst.rounds) for _, (_, number) in ends]
        best_key = key._replace(measure=views.BEST, group=_agreed(edges, 1))
        table[best_key] = views.mean(scores)
    return table


def _agreed(edges: Sequence[views.Edges | None], end: int) -> str:
    """The name of the worst (0) or best (1) group; "" where models differ in it."""
    names = set()
    for edge in edges:
        name, _ = edge[end] if edge else ("", None)
        names.add(name)
    return names.pop() if len(names) == 1 else ""


def over_rounds(rounds: Sequence[Table]) -> Table:
    """Lines of one round each as lines over rounds.

    A line that only the last round needs is of that alone.
    """
    earlier = []
    for of_round in rounds[:-1]:
        scores_by_key = {_whose(key): score for key, score in of_round.items()}
        earlier.append(scores_by_key)
    table: Table = {}
    for key, score in rounds[-1].items():
        whose = _whose(key)
        values = []
        numbers = []
        if not _is_of_last_alone(key):
            for of_round in earlier:
                if whose in of_round:
                    values += of_round[whose].values
                    numbers += of_round[whose].rounds
        table[key] = replace(
            score,
            values=values + score.values,
            rounds=numbers + score.rounds,
        )
    return table


def _is_of_last_alone(key: Where) -> bool:
    if key.measure:
        return key.measure == views.BEST
    return key.group != "" and not views.compared(key.metric)


def _whose(key: Where) -> Where:
    """A line without the name of the worst group, which may be another in each round."""
    return key._replace(group="") if key.measure else key


def _reasons(
    part: Scored,
    overall: Scored,
    classes: Sequence[str],
    every_class: bool,
) -> str:
    """Why images are too few to be reliable; a class that the whole test set lacks is no reason.

    every_class: whether the score needs every class, so that few images of one of them are a
    reason.
    """
    patients: Patients = part["patients"]
    if not part["count"]:
        return patients.none
    overall_missing = overall["classes_missing"]
    lacking = [classes[c] for c in part["classes_missing"] if c not in overall_missing]
    reasons = []
    if patients.few:
        reasons.append(patients.few)
    if lacking and "auc_macro" in part:
        listed = ", ".join(lacking[:NAMED])
        if len(lacking) > NAMED:
            listed += f" and {len(lacking) - NAMED} more"
        reasons.append(f"no AUC of {listed}")
    elif lacking:
        listed = ", ".join(lacking)
        reasons.append(f"no image of {listed}")
    rare = patients.rare(classes)
    if every_class and rare:
        reasons.append(rare)
    return JOIN.join(reasons)
