"""Is it fair? Scores per group of patients, and how much the groups differ.

Source of the equity-scaled AUC: FairFedMed, section "Evaluation Metrics", which takes it from Luo et
al., IEEE TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552: AUC / (1 + sum over groups of |AUC - AUC_g|),
on the 0..1 scale and with every group counting once. We differ where a group has images of one class
only: it has no AUC, is shown with its count and takes no part, where the papers' code stops or turns
everything into NaN. Images of an unknown group (-1) count in the overall scores and are no group.

Demographic parity, equalized odds and average odds compare decisions, which are the most likely class. With the
selection rate S, true positive rate T and false positive rate F of each group: the largest minus the smallest S; the
larger of the ranges of T and F; and the mean over groups of |(F_rest - F_g) + (T_rest - T_g)| / 2, where rest are all
other groups together. The first two are fairlearn's, the third is AIF360's with each group privileged in turn. We
differ where a group has no image of a class or none of another: such a rate is left out and named, where fairlearn
takes 0, and where fewer than two groups have one of T and F, equalized odds is the range of the other. For more than
two classes they are the mean over classes against all others. Of several labels per image a decision is whether an
image has a label, and they are the mean over labels.
"""

from itertools import product

import numpy as np

from ..labels import UNKNOWN, YES
from ..metrics import CALIBRATION, apart
from .parts import COMPARED, PARITY, Across, Between, Extreme, Group, GroupScores, Score

LOW = CALIBRATION, "calibration_error_macro"  # metrics that are better when low
CROSS = "*"  # between the names of attributes whose groups are crossed
NAMED = 4  # labels that a reason names
Grouping = tuple[np.ndarray, list[str]]  # of each image the place of its group among the values, -1 unknown: [N]
Groupings = dict[str, Grouping]  # attribute -> its groups
SMALL = 30  # images; below it one image moves a score by more than three points


def group_scores(
    logits: np.ndarray, y: np.ndarray, groups: np.ndarray, values: list[str], *, classes: list[str] | None = None
) -> GroupScores:
    """Scores of all images, of each group, and between groups.

    groups: [N] index into values, -1 unknown.
    classes: their names, for the reasons why a group is small; else their indices stand there.
    """
    if y.ndim == 2:
        tables = decided_labels(logits >= 0, y, groups, len(values))
    else:
        tables = decided(logits.argmax(1), y, groups, logits.shape[1], len(values))
    parts = {value: Score.of(logits[groups == g], y[groups == g]) for g, value in enumerate(values)}
    return together(Score.of(logits, y), parts, tables, int((groups < 0).sum()), classes)


def together(
    overall: Score, scores: dict[str, Score], tables: np.ndarray, unknown: int, classes: list[str] | None = None
) -> GroupScores:
    """As group_scores(), from the scores of all images and of each group.

    tables: [G, C, C] images of each group by true and predicted class, or of several labels per image [G, L, 2, 2] by
    whether they have each label and are predicted to. unknown: images in no group.
    """
    parts = {value: _group(score, overall, classes) for value, score in scores.items()}
    count = tables.shape[1]
    columns = {metric: {value: part.metrics[metric] for value, part in parts.items()} for metric in compared(overall)}
    names = classes or [f"class {c}" for c in range(count)]
    return GroupScores(
        parts,
        overall,
        unknown,
        {metric: spread(column, low=metric in LOW) for metric, column in columns.items()},
        *(equity_scaled(overall.metrics.get(auc), columns.get(auc, {})) for auc in ("auc_ovo_macro", "auc_macro")),
        undefined_of_labels(tables, list(scores), names)
        if tables.ndim == 4
        else undefined_rates(tables.sum(2), list(scores), names),
        parity(tables),
    )


def _group(part: Score, overall: Score, classes: list[str] | None) -> Group:
    reasons = _reasons(part, overall, classes)
    return Group(bool(reasons), "; ".join(reasons), part.count, part.classes_missing, part.metrics)


def compared(score: Score) -> list[str]:
    """The metrics that groups are compared by, of those that models of these data have."""
    return [metric for metric in COMPARED if metric in score.metrics]


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


def decided(guess: np.ndarray, y: np.ndarray, groups: np.ndarray, classes: int, count: int) -> np.ndarray:
    """Decisions [N] and labels [N] as tables int64 [G, C, C]: images of each group by true and predicted class.

    count: of groups; groups: [N] in -1 .. count - 1.
    """
    tables, at = np.zeros((count, classes, classes), np.int64), groups >= 0
    np.add.at(tables, (groups[at], y[at], guess[at]), 1)
    return tables


def decided_labels(predicted: np.ndarray, y: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """The same of several labels per image: decisions bool [N, L], labels [N, L] -> int64 [G, L, 2, 2]."""
    tables = np.zeros((count, y.shape[1], 2, 2), np.int64)
    images, labels = np.nonzero((y != UNKNOWN) & (groups >= 0)[:, None])
    cell = groups[images], labels, (y == YES)[images, labels].astype(int), predicted[images, labels].astype(int)
    np.add.at(tables, cell, 1)
    return tables


def parity(tables: np.ndarray) -> dict[str, float | None]:
    """Demographic parity, equalized odds and average odds differences of decisions, under their names.

    tables: as decided() or decided_labels() makes them. Of class 1 for two classes, else each name
    ends in `_ovr_macro`: the mean over the classes or labels of which it is defined. None where it is defined of none.
    """
    if tables.ndim == 4:
        columns = zip(*(label.values() for label in parity_of_labels(tables)))
    elif (classes := tables.shape[1]) == 2:
        return dict(zip(PARITY, _parity(tables)))
    else:
        columns = zip(*(_parity(_against_all(tables, c)) for c in range(classes)))
    known = [[number for number in column if number is not None] for column in columns]
    return {f"{name}_ovr_macro": float(np.mean(c)) if c else None for name, c in zip(PARITY, known)}


def _against_all(tables: np.ndarray, c: int) -> np.ndarray:
    """Tables [G, 2, 2] of one class against all others, from those of all classes [G, C, C]."""
    hits, true, guessed = tables[:, c, c], tables[:, c].sum(1), tables[:, :, c].sum(1)  # [G] each
    rest = tables.sum((1, 2)) - true - guessed + hits
    return np.stack([np.stack([rest, guessed - hits], 1), np.stack([true - hits, hits], 1)], 1)


def _parity(table: np.ndarray) -> list[float | None]:
    """The three of one class against all others. table: [G, truly, guessed]."""
    rest = table.sum(0) - table  # [G, 2, 2]
    selected, odds, rest_odds = _rates(table.sum(1)), _rates(table), _rates(rest)  # [G], [G, 2], [G, 2]
    both = ((rest_odds - odds).sum(1) / 2)[:, None]  # [G, 1], NaN where one of four rates is not defined
    ranges = [_range(odds[:, 0]), _range(odds[:, 1])]
    signed = np.abs(both[np.isfinite(both)])
    average = float(signed.mean()) if len(signed) else None
    known = [number for number in ranges if number is not None]  # a rate that fewer than two groups have has none
    return [_range(selected), max(known, default=None), average]


def _rates(table: np.ndarray) -> np.ndarray:
    """Share that was guessed to be of the class, over the last axis: [..., 2] -> [...]; NaN where there is no image."""
    total = table.sum(-1)
    return np.where(total > 0, table[..., 1] / np.maximum(total, 1), np.nan)


def _range(rates: np.ndarray) -> float | None:
    known = rates[np.isfinite(rates)]
    return float(known.max() - known.min()) if len(known) > 1 else None


def undefined_rates(counts: np.ndarray, values: list[str], classes: list[str]) -> list[str]:
    """What the three differences had to leave out; for two classes, those of class 1. counts: images [G, C]."""
    out = []
    for value, row in zip(values, counts):
        if not row.sum():
            out.append(f"every rate of {value}")
            continue
        for c in [1] if len(classes) == 2 else range(len(classes)):
            rates = {"true positive": row[c], "false positive": row.sum() - row[c]}
            out += [f"{rate} rate of {classes[c]} in {value}" for rate, images in rates.items() if not images]
    return out


def parity_of_labels(tables: np.ndarray) -> list[dict[str, float | None]]:
    """Of each label by itself; tables: as decided_labels() makes them."""
    return [dict(zip(PARITY, _parity(table))) for table in tables.swapaxes(0, 1)]


def undefined_of_labels(tables: np.ndarray, values: list[str], labels: list[str]) -> list[str]:
    """undefined_rates() of several labels per image; tables: as decided_labels() makes them."""
    rates = "false positive", "true positive"
    return [
        f"{rates[answer]} rate of {label} in {value}"
        for value, table in zip(values, tables.sum(3), strict=True)
        for label, images in zip(labels, table, strict=True)
        for answer in (1, 0)
        if not images[answer]
    ]


def equity_scaled(overall: float | None, column: dict[str, float | None]) -> float | None:
    """ES-AUC, from the AUC of all images and that of each group; None where fewer than two groups have one."""
    known = [number for number in column.values() if number is not None]
    if overall is None or len(known) < 2:
        return None
    return overall / (1 + sum(abs(overall - number) for number in known))


def unknown_note(attribute: str, unknown: int, images: int) -> str:
    """What a reader must know of test images whose group is not known; "" where there are none."""
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
