"""Lines of the table of scores, made of what models answer: whatever has a line gets it here.

Mostly one model answers for an image. Where clients trained alone there are several: a line is then the mean over them,
and what lies between groups is measured of each model and averaged too, since it does not follow from mean scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import metrics
from ..labels import YES
from ..metrics import Groupings, Task, groupings_at
from ..metrics.parity import decided_labels, parity, parity_of_labels, undefined_rates
from . import views
from .groups import SMALL
from .parts import Grouped
from .scores import Edges, Part
from .table import Number, Score, Table, Where

NAMED = 4  # labels that a reason names
Rounds = Iterable[tuple[int, Sequence[np.ndarray]]]  # number of a kept round, logits [N, C] of each model that answers
Scored = Mapping[str, Any]  # one model on some images: metric -> score, and "count" and "classes_missing" of the images


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
        return replace(self, y=self.y[places], groupings=groupings_at(self.groupings, places), units=units)

    def grouped(self) -> dict[str, Grouped]:
        """Attribute -> images in no group, and rates that no decision could give."""
        task, about = Task.of(self.y), {}
        for name, (places, values) in self.groupings.items():
            decisions = task.decided(task.perfect(self.y, len(self.classes)), self.y, places, len(values))
            about[name] = Grouped(int((places < 0).sum()), undefined_rates(decisions, values, self.classes))
        return about


@dataclass(frozen=True)
class Answer:
    """One model on all images, and on those of each group, scored as by metrics.score().

    Attributes:
        groups: attribute -> group -> scores. differences: attribute -> name -> difference in decisions between them.
        small: attribute -> group -> why it is too small to be reliable.
    """

    whole: Scored
    groups: Mapping[str, Mapping[str, Scored]] = field(default_factory=dict)
    differences: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    small: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, whole: Scored, groups: Mapping[str, Mapping[str, Scored]], decisions: Mapping[str, np.ndarray],
        classes: list[str],
    ) -> "Answer":  # fmt: skip
        """decisions: attribute -> tables of decisions as of metrics/parity.py."""
        small = {
            name: {value: _reasons(scored, whole, classes) for value, scored in of_values.items()}
            for name, of_values in groups.items()
        }
        return cls(whole, groups, {name: parity(tables) for name, tables in decisions.items()}, small)

    def lines(self, where: Where, round: int) -> Table:
        """Of all images, of each group, and of differences between groups, in one round."""
        table = _lines(where, round, self.whole)
        for name, groups in self.groups.items():
            here = where._replace(attribute=name)
            for group, scored in groups.items():
                small = self.small.get(name, {}).get(group, "")
                table |= _lines(here._replace(group=group), round, scored, small)
            for difference, value in self.differences[name].items():
                table[here._replace(metric=difference)] = Score([value], [round])
        return table


def _lines(where: Where, round: int, scored: Scored, small: str = "") -> Table:
    count, missing = scored.get("count", 0), tuple(scored.get("classes_missing", ()))
    return {
        where._replace(metric=name): Score([value], [round], count, missing, small)
        for name, value in scored.items()
        if name not in ("count", "classes_missing")
    }


def facts(where: Where, images: Images, rounds: Rounds, by: Iterable[str] = ()) -> Table:
    """The lines of all images, and of each group of the attributes `by`, over kept rounds.

    Raises FedcliError for logits that are not finite.
    """
    return over_rounds([of_round(where, images, round, models, by) for round, models in rounds])


def of_round(where: Where, images: Images, round: int, models: Sequence[np.ndarray], by: Iterable[str] = ()) -> Table:
    """facts() of one round."""
    return of_models(where, round, [_answer(images, logits, by) for logits in models])


def _answer(images: Images, logits: np.ndarray, by: Iterable[str]) -> Answer:
    def scored(at: np.ndarray | slice) -> Scored:
        return metrics.score(logits[at], images.y[at], groupings_at(images.groupings, at))

    groups, decisions = {}, {}
    for name in by:
        places, values = images.groupings[name]
        groups[name] = {value: scored(places == g) for g, value in enumerate(values)}
        decisions[name] = Task.of(images.y).decided(logits, images.y, places, len(values))
    return Answer.of(scored(slice(None)), groups, decisions, images.classes)


def label_facts(where: Where, images: Images, rounds: Sequence[tuple[int, Sequence[np.ndarray]]]) -> Table:
    """The lines of each of several labels by itself, over kept rounds; of its groups by the last round's model."""
    last = rounds[-1][0]
    tables: dict[str, list[Table]] = {label: [] for label in images.classes}
    for round, models in rounds:
        answers = [_of_each_label(images, logits, images.groupings if round == last else {}) for logits in models]
        for label, of_label in zip(images.classes, zip(*answers, strict=True), strict=True):
            tables[label].append(of_models(where._replace(label=label), round, of_label))
    return {key: score for of_label in tables.values() for key, score in over_rounds(of_label).items()}


def _of_each_label(images: Images, logits: np.ndarray, groupings: Groupings) -> list[Answer]:
    y, having = images.y, (images.y == YES).sum(0).tolist()
    groups, differences = {}, {}
    for name, (places, values) in groupings.items():
        groups[name] = [metrics.of_labels(logits[places == g], y[places == g]) for g in range(len(values))]
        differences[name] = parity_of_labels(decided_labels(logits >= 0, y, places, len(values)))
    return [
        Answer(
            scores | {"count": having[k]},
            {
                name: {value: {"auc": each[k]["auc"]} for value, each in zip(groupings[name][1], of_values)}
                for name, of_values in groups.items()
            },
            {name: of_labels[k] for name, of_labels in differences.items()},
        )
        for k, scores in enumerate(metrics.of_labels(logits, y))
    ]


def of_models(where: Where, round: int, answers: Sequence[Answer]) -> Table:
    """The lines of one round: of the one model that answers, or of several their mean and what lies between groups."""
    tables = [answer.lines(where, round) for answer in answers]
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
            elif key.measure in views.BETWEEN or (not key.measure and score.last is not None):
                measured[key] = score
    return measured


def _agreed(edges: Sequence[Edges | None], place: int) -> str:
    """The name of the worst (0) or best (1) group; "" where models differ in it."""
    names = {edge[place][0] if edge else "" for edge in edges}
    return names.pop() if len(names) == 1 else ""


def over_rounds(rounds: Sequence[Table]) -> Table:
    """Lines of one round each as lines over rounds. A line that only the last round needs is of that alone."""
    last, earlier = rounds[-1], [{_whose(key): score for key, score in table.items()} for table in rounds[:-1]]
    table: Table = {}
    for key, score in last.items():
        alone = key.measure == views.BEST or (key.group and not key.measure and not views.compared(key.metric))
        scores = [of_round[_whose(key)] for of_round in earlier if not alone and _whose(key) in of_round]
        values = [value for each in [*scores, score] for value in each.values]
        table[key] = replace(score, values=values, rounds=[r for each in [*scores, score] for r in each.rounds])
    return table


def _whose(key: Where) -> Where:
    """A line without the name of the worst group, which may be another in each round."""
    return key._replace(group="") if key.measure else key


def _reasons(part: Scored, overall: Scored, classes: list[str]) -> str:
    """Why a group is too small to be reliable; a class that the whole test set lacks is no reason."""
    if not (count := part["count"]):
        return "no test image"
    lacking = [classes[c] for c in part["classes_missing"] if c not in overall["classes_missing"]]
    reasons = [f"{count} image{'s' * (count != 1)}, fewer than {SMALL}"] if count < SMALL else []
    if lacking and "auc_macro" in part:
        more = f" and {len(lacking) - NAMED} more" * (len(lacking) > NAMED)
        reasons.append(f"no AUC of {', '.join(lacking[:NAMED])}{more}")
    elif lacking:
        reasons.append(f"no image of {', '.join(lacking)}")
    return "; ".join(reasons)
