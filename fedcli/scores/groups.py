"""Scores per group of patients, and how much the groups differ.

Source of the equity-scaled AUC: FairFedMed, section "Evaluation Metrics", which takes it from Luo et
al., IEEE TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552: AUC / (1 + sum over groups of |AUC - AUC_g|),
on the 0..1 scale and with every group counting once. We differ where a group has images of one class
only: it has no AUC, is shown with its count and takes no part, where the papers' code stops or turns
everything into NaN. Images of an unknown group (-1) count in the overall scores and are no group.
"""

from itertools import product

import numpy as np

from .. import metrics
from ..metrics import METRICS, Groupings, Task, apart, groupings_at
from ..metrics.parity import parity, undefined_rates
from .parts import Across, Between, Extreme, Group, GroupScores, Score

CROSS = "*"  # between the names of attributes whose groups are crossed
NAMED = 4  # labels that a reason names
SMALL = 30  # images; below it one image moves a score by more than three points


def group_scores(
    logits: np.ndarray, y: np.ndarray, groups: np.ndarray, values: list[str], *, classes: list[str] | None = None,
    groupings: Groupings | None = None,
) -> GroupScores:  # fmt: skip
    """Scores of all images, of each group, and between groups.

    groups: [N] index into values, -1 unknown.
    classes: their names, for the reasons why a group is small; else their indices stand there.
    groupings: of all attributes, for metrics from outside the package.
    """
    tables = Task.of(y).decided(logits, y, groups, len(values))
    parts = {
        value: Score.of(logits[at], y[at], groupings and groupings_at(groupings, at))
        for g, value in enumerate(values)
        for at in [groups == g]
    }
    return together(Score.of(logits, y, groupings), parts, tables, int((groups < 0).sum()), classes)


def together(
    overall: Score, scores: dict[str, Score], tables: np.ndarray, unknown: int, classes: list[str] | None = None
) -> GroupScores:
    """As group_scores(), from the scores of all images and of each group.

    tables: [G, C, C] images of each group by true and predicted class, or of several labels per image [G, L, 2, 2] by
    whether they have each label and are predicted to. unknown: images in no group.
    """
    parts = {value: _group(score, overall, classes) for value, score in scores.items()}
    count = tables.shape[1]
    compared = [name for name in overall.metrics if name not in METRICS or metrics.get(name).compared]
    columns = {metric: {value: part.metrics[metric] for value, part in parts.items()} for metric in compared}
    names = classes or [f"class {c}" for c in range(count)]
    return GroupScores(
        parts,
        overall,
        unknown,
        {metric: spread(column, low=metrics.better_low(metric)) for metric, column in columns.items()},
        *(equity_scaled(overall.metrics.get(auc), columns.get(auc, {})) for auc in ("auc_ovo_macro", "auc_macro")),
        undefined_rates(tables, list(scores), names),
        parity(tables),
    )


def _group(part: Score, overall: Score, classes: list[str] | None) -> Group:
    reasons = _reasons(part, overall, classes)
    return Group(bool(reasons), "; ".join(reasons), part.count, part.classes_missing, part.metrics)


def cross(parts: dict[str, tuple[np.ndarray, list[str]]]) -> tuple[np.ndarray, list[str]]:
    """Several attributes as one: each image's group, int64 [N], and the names, such as "asian x female".

    parts: attribute -> (groups [N], values). An image of which one attribute is unknown has no group (-1), and a
    combination that no image has is none either.
    """
    columns = np.stack([groups for groups, _ in parts.values()])  # [A, N]
    known = (columns >= 0).all(0)
    sizes = [len(values) for _, values in parts.values()]
    place = np.ravel_multi_index(tuple(columns[:, known]), sizes)
    there, places = np.unique(place, return_inverse=True)
    names = [" x ".join(combination) for combination in product(*(values for _, values in parts.values()))]
    groups = np.full(columns.shape[1], -1)
    groups[known] = places
    return groups, [names[at] for at in there]


def spread(column: dict[str, float | None], *, low: bool = False) -> Between:
    """Worst and best group, gap, population std and mean of one metric; None where fewer than two groups have it.

    low: the metric is better when low.
    """
    known = {value: number for value, number in column.items() if number is not None}
    if len(known) < 2:
        return Between(None, None, None, None, None)
    numbers = list(known.values())
    worst, best = (next(v for v in known if apart(known[v], edge) == 0) for edge in (min(numbers), max(numbers)))
    if low:
        worst, best = best, worst
    return Between(
        Extreme(worst, known[worst]),
        Extreme(best, known[best]),
        abs(known[best] - known[worst]),
        float(np.std(numbers)),
        float(np.mean(numbers)),
    )


def across(column: dict[str, float | None]) -> Across:
    """Mean and sample std (ddof 1) over groups; None where fewer than two have a number.

    Source: FedHEAL, CVPR 2024, Tables 2 to 5: AVG and STD over domains, each domain's mean over the last rounds taken
    first.
    """
    known = [number for number in column.values() if number is not None]
    if len(known) < 2:
        return Across(None, None)
    return Across(float(np.mean(known)), float(np.std(known, ddof=1)))


def equity_scaled(overall: float | None, column: dict[str, float | None]) -> float | None:
    """ES-AUC, from the AUC of all images and that of each group; None where fewer than two groups have one."""
    known = [number for number in column.values() if number is not None]
    if overall is None or len(known) < 2:
        return None
    return overall / (1 + sum(abs(overall - number) for number in known))


def unknown_note(attribute: str, unknown: int, images: int) -> str:
    """A note on test images whose group is not known; "" where there are none."""
    if not unknown:
        return ""
    return f"{attribute} is unknown of {unknown} of {images} test images: they are in no group, but in the other scores"


def _reasons(part: Score, overall: Score, classes: list[str] | None) -> list[str]:
    """Why a group is too small to be reliable; a class that the whole test set lacks is no reason."""
    if not part.count:
        return ["no test image"]
    lacking = [c for c in part.classes_missing if c not in overall.classes_missing]
    reasons = [f"{part.count} image{'s' * (part.count != 1)}, fewer than {SMALL}"] if part.count < SMALL else []
    if lacking and "auc_macro" in part.metrics:
        names = [classes[c] if classes else f"label {c}" for c in lacking]
        reasons.append(
            f"no AUC of {', '.join(names[:NAMED])}{f' and {len(names) - NAMED} more' * (len(names) > NAMED)}"
        )
    elif lacking:
        reasons.append(f"no image of {', '.join(classes[c] if classes else f'class {c}' for c in lacking)}")
    return reasons
