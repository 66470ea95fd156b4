"""Is it good on rare classes? Mean recall of the classes with many, with some and with few training images.

Source: Elbatel, Wang, Martí, Fu, Li, Fed-MAS, DeCaF at MICCAI 2023, Table 1: head, medium and tail of HyperKvasir, with
more than 700, 70 to 700, and fewer than 70 images; its "All" is the mean of the three. The paper does not say which
images are counted: its own numbers fit the training images of a fold (7, 9 and 7 classes) and no other count, so we
count the images that clients train on, and an image of two clients twice. We differ where a class has no test image: it
is left out and named; a group without a class that can be scored is null and takes no part in `all`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from .rounds import Logits, mean, summary, with_average

HEAD, TAIL = 700, 70  # images
GROUPS = "head", "medium", "tail"


def thresholds(text: str | None) -> tuple[int, int]:
    """ "700,70": head is above the first, tail below the second; the paper's for None. Raises UsageError."""
    if text is None:
        return HEAD, TAIL
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--shots {text!r} is not two numbers of images", f"such as --shots {HEAD},{TAIL}")
    upper, lower = map(int, parts)
    if upper < lower:
        hint = f"give the larger one first: --shots {lower},{upper}"
        raise UsageError(f"--shots {text}: head begins at {upper} images, below tail's {lower}", hint)
    return upper, lower


def group_of(count: int, upper: int = HEAD, lower: int = TAIL) -> str:
    """The group of a class with so many training images; the thresholds themselves are medium."""
    if count > upper:
        return "head"
    return "tail" if count < lower else "medium"


def recalls(logits: np.ndarray, y: np.ndarray) -> list[float | None]:
    """Recall of each of C classes from logits [N, C] and labels [N]; None for a class without an image."""
    classes = logits.shape[1]
    true = np.bincount(y, minlength=classes)  # [C]
    hits = np.bincount(y[logits.argmax(1) == y], minlength=classes)  # [C]
    return [float(hit / count) if count else None for hit, count in zip(hits, true, strict=True)]


def group_means(recall: Sequence[float | None], groups: Sequence[str]) -> dict[str, float | None]:
    """Each group's mean recall, their mean, and the mean over all classes.

    recall: of each class, None where it has no image. groups: each class's.
    """
    of = {name: [r for r, group in zip(recall, groups, strict=True) if group == name] for name in GROUPS}
    found = {name: _mean(values) for name, values in of.items()}
    return {**found, "all": _mean(found.values()), "balanced_accuracy": _mean(recall)}


def shot_scores(
    logits: Logits, y: np.ndarray, classes: list[str], counts: np.ndarray, limits: tuple[int, int]
) -> dict[str, Any]:
    """What scores.json says under "shots": groups, thresholds, and each version's scores over the kept rounds.

    logits: where several models answer, their scores are averaged. counts: training images of each class [C].
    """
    groups = [group_of(count, *limits) for count in counts]
    found = {
        version: [mean([group_means(recalls(table, y), groups) for table in tables]) for tables in answers]
        for version, answers in logits.items()
    }
    named = list(zip(classes, counts.tolist(), groups, strict=True))
    present = set(y.tolist())
    return {
        "upper": limits[0],
        "lower": limits[1],
        "classes": {name: {label: n for label, n, group in named if group == name} for name in GROUPS},
        "skipped": [label for c, label in enumerate(classes) if c not in present],
        "versions": {version: summary(parts) for version, parts in with_average(found).items()},
    }


def told(found: dict[str, Any]) -> str:
    """The groups in a sentence, for a person."""
    upper, lower = found["upper"], found["lower"]
    limits = {"head": f"more than {upper}", "medium": f"{lower} to {upper}", "tail": f"fewer than {lower}"}
    listed = [
        f"{name} ({limits[name]} training images): {', '.join(classes) or 'no class'}"
        for name, classes in found["classes"].items()
    ]
    skipped = [f"without a test image: {', '.join(found['skipped'])}"] if found["skipped"] else []
    return "; ".join([*listed, *skipped])


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
