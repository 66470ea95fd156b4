"""Is it fair? Scores per group of patients, and how far the groups lie apart.

Source of the equity-scaled AUC: FairFedMed, section "Evaluation Metrics", which takes it from Luo et
al., IEEE TMI 43(7), 2024, doi 10.1109/TMI.2024.3377552: AUC / (1 + sum over groups of |AUC - AUC_g|),
on the 0..1 scale and with every group counting once. We differ where a group has images of one class
only: it has no AUC, is shown with its count and takes no part, where the papers' code stops or turns
everything into NaN. Images of an unknown group (-1) count in the overall scores and are no group.
"""

from typing import Any

import numpy as np

from .metrics import score

HEADLINE = "balanced_accuracy", "auc_ovo_macro", "accuracy"  # the metrics that groups are compared by
SMALL = 30  # images; below it one image moves a score by more than three points


def group_scores(
    logits: np.ndarray, y: np.ndarray, groups: np.ndarray, values: list[str], *, classes: list[str] | None = None
) -> dict[str, Any]:
    """Scores of all images, of each group, and between groups.

    groups: [N] index into values, -1 unknown.
    classes: their names, for the reasons why a group is small; else their indices stand there.
    """
    overall = score(logits, y)
    parts = {value: score(logits[groups == g], y[groups == g]) for g, value in enumerate(values)}
    for part in parts.values():
        reasons = _reasons(part, overall, classes)
        part |= {"small": bool(reasons), "reason": "; ".join(reasons)}
    columns = {metric: {value: part[metric] for value, part in parts.items()} for metric in HEADLINE}
    return {
        "overall": overall,
        "groups": parts,
        "unknown": int((groups < 0).sum()),
        "between": {metric: spread(column) for metric, column in columns.items()},
        "es_auc_ovo_macro": equity_scaled(overall["auc_ovo_macro"], columns["auc_ovo_macro"]),
    }


def spread(column: dict[str, float | None]) -> dict[str, Any]:
    """Worst and best group, gap and population std of one metric; None where fewer than two groups have it."""
    known = {value: number for value, number in column.items() if number is not None}
    if len(known) < 2:
        return {"worst": None, "best": None, "gap": None, "std": None}
    worst, best = min(known, key=known.get), max(known, key=known.get)
    return {
        "worst": {"group": worst, "score": known[worst]},
        "best": {"group": best, "score": known[best]},
        "gap": known[best] - known[worst],
        "std": float(np.std(list(known.values()))),
    }


def equity_scaled(overall: float | None, column: dict[str, float | None]) -> float | None:
    """ES-AUC, from the AUC of all images and that of each group; None where fewer than two groups have one."""
    known = [number for number in column.values() if number is not None]
    if overall is None or len(known) < 2:
        return None
    return overall / (1 + sum(abs(overall - number) for number in known))


def _reasons(part: dict[str, Any], overall: dict[str, Any], classes: list[str] | None) -> list[str]:
    """Why a group is too small to tell; a class that the whole test set lacks is no reason."""
    if not part["count"]:
        return ["has no test image"]
    lacking = [c for c in part["classes_missing"] if c not in overall["classes_missing"]]
    reasons = (
        [f"{part['count']} image{'s' * (part['count'] != 1)}, fewer than {SMALL}"] if part["count"] < SMALL else []
    )
    if lacking:
        reasons.append(f"no image of {', '.join(classes[c] if classes else f'class {c}' for c in lacking)}")
    return reasons
