"""Each of several labels per image by itself: its scores over the kept rounds, and between groups of patients."""

import numpy as np

from ..labels import YES
from ..metrics import of_labels
from ..metrics.parity import decided_labels, parity_of_labels
from .groups import spread
from .parts import LabelGroups, OfLabel
from .rounds import Logits, mean, over_rounds_each

Grouping = tuple[np.ndarray, list[str]]  # of each image the place of its group among the values, -1 unknown


def label_scores(
    logits: Logits, y: np.ndarray, labels: list[str], groupings: dict[str, Grouping]
) -> dict[str, dict[str, OfLabel]]:
    """version -> label -> its scores; where several models answer, their mean. y: [N, L]."""
    images = (y == YES).sum(0).tolist()
    made = {}
    for version, answers in logits.items():
        rounds = [mean([of_labels(table, y) for table in tables]) for tables in answers]  # of each round, [L]
        between = {name: _between(answers[-1], y, *grouping) for name, grouping in groupings.items()}
        made[version] = {
            label: OfLabel(
                images=images[k],
                metrics=over_rounds_each([each[k] for each in rounds]),
                groups={name: groups[k] for name, groups in between.items()},
            )
            for k, label in enumerate(labels)
        }
    return made


def _between(tables: list[np.ndarray], y: np.ndarray, groups: np.ndarray, values: list[str]) -> list[LabelGroups]:
    """Of each label."""
    return mean([_between_of(table, y, groups, values) for table in tables])


def _between_of(logits: np.ndarray, y: np.ndarray, groups: np.ndarray, values: list[str]) -> list[LabelGroups]:
    each = {value: of_labels(logits[groups == g], y[groups == g]) for g, value in enumerate(values)}
    differences = parity_of_labels(decided_labels(logits >= 0, y, groups, len(values)))
    columns = [{value: scores[k]["auc"] for value, scores in each.items()} for k in range(y.shape[1])]
    return [LabelGroups(auc, spread(auc), own) for auc, own in zip(columns, differences, strict=True)]
