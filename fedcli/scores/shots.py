"""Is it good on rare classes? Mean recall of the classes with many, with some and with few training images.

Source: Elbatel, Wang, Martí, Fu, Li, Fed-MAS, DeCaF at MICCAI 2023, Table 1: head, medium and tail of HyperKvasir, with
more than 700, 70 to 700, and fewer than 70 images; its "All" is the mean of the three. The paper does not say which
images are counted: its own numbers fit the training images of a fold (7, 9 and 7 classes) and no other count, so we
count the images that clients train on, and an image of two clients twice. We differ where a class has no test image: it
is left out and named; a group without a class that can be scored is null and takes no part in `all`.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, product

import numpy as np

from .. import metrics
from ..errors import UsageError
from .facts import Rounds, mean, over_rounds
from .parts import SHOT_GROUPS, Shots
from .scores import RECALL
from .table import Score, Table, Where

HEAD, TAIL = 700, 70  # images


def thresholds(text: str | None) -> tuple[int, int]:
    """ "700,70": head is above the first, tail below the second; the paper's for None. Raises UsageError."""
    if text is None:
        return HEAD, TAIL
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(
            f"--shots {text!r} is not two numbers of images", f"such as --shots {HEAD},{TAIL}"
        )
    upper, lower = map(int, parts)
    if upper < lower:
        hint = f"give the larger one first: --shots {lower},{upper}"
        raise UsageError(
            f"--shots {text}: head begins at {upper} images, below tail's {lower}", hint
        )
    return upper, lower


def group_of(count: int, upper: int = HEAD, lower: int = TAIL) -> str:
    """The group of a class with so many training images; the thresholds themselves are medium."""
    if count > upper:
        return "head"
    return "tail" if count < lower else "medium"


def group_means(recall: np.ndarray, groups: Sequence[str]) -> dict[str, float | None]:
    """Each group's mean recall, their mean, and the mean over all classes.

    recall: of each class [C], NaN where it has no image. groups: each class's.
    """
    means = {name: _mean(recall[np.array(groups) == name]) for name in SHOT_GROUPS}
    balanced = None if np.isnan(recall).all() else float(metrics.mean_of_known(recall))
    return {
        **means,
        "all": _mean(np.array([*means.values()], float)),
        "balanced_accuracy": balanced,
    }


def shots(y: np.ndarray, classes: list[str], counts: np.ndarray, limits: tuple[int, int]) -> Shots:
    """The classes of each group. y: [N] of the test images; counts: training images of each class [C]."""
    named = [
        (label, n, group_of(n, *limits)) for label, n in zip(classes, counts.tolist(), strict=True)
    ]
    present = set(y.tolist())
    return Shots(
        *limits,
        {name: {label: n for label, n, group in named if group == name} for name in SHOT_GROUPS},
        [label for c, label in enumerate(classes) if c not in present],
    )


def shot_facts(
    where: Where, y: np.ndarray, rounds: Rounds, counts: np.ndarray, limits: tuple[int, int]
) -> Table:
    """Lines of the mean recalls over kept rounds."""
    groups = [group_of(count, *limits) for count in counts]

    def of_model(round: int, logits: np.ndarray) -> Table:
        means = group_means(metrics.recalls(logits, y), groups)
        return {
            where._replace(label=name, metric=RECALL): Score([value], [round])
            for name, value in means.items()
        }

    return over_rounds(
        [mean([of_model(round, logits) for logits in models]) for round, models in rounds]
    )


def described(shots: Shots) -> str:
    """The groups in a sentence, for a person; of empty ones also which thresholds would fill them."""
    upper, lower = shots.upper, shots.lower
    limits = {
        "head": f"more than {upper}",
        "medium": f"{lower} to {upper}",
        "tail": f"fewer than {lower}",
    }
    listed = [
        f"{name} ({limits[name]} training images): {', '.join(classes)}"
        for name, classes in shots.classes.items()
        if classes
    ]
    if empty := [name for name in SHOT_GROUPS if not shots.classes[name]]:
        counts = {label: n for classes in shots.classes.values() for label, n in classes.items()}
        none = f"no class has {' or '.join(limits[name] for name in empty)} training images"
        listed.append(none + _filled(counts, empty, upper, lower))
    skipped = [f"without a test image: {', '.join(shots.skipped)}"] if shots.skipped else []
    return "; ".join([*listed, *skipped])


def _filled(counts: dict[str, int], empty: list[str], upper: int, lower: int) -> str:
    """Thresholds that would fill the empty groups, and with what; "" where none do."""
    better = suggestion(list(counts.values()), upper, lower)
    if better is None:
        return ""
    filled = {
        name: [label for label, n in counts.items() if group_of(n, *better) == name]
        for name in empty
    }
    groups = " and ".join(f"{', '.join(labels)} the {name}" for name, labels in filled.items())
    return f": --shots {better[0]},{better[1]} would make {groups}"


def suggestion(counts: Sequence[int], upper: int, lower: int) -> tuple[int, int] | None:
    """Round thresholds that leave no group empty, as near to a third of the classes in each as they come.

    A threshold that already parts the classes is kept if it can be. None where no two thresholds do it.
    """
    steps = list(pairwise(sorted(set(counts))))
    uppers, lowers = (
        [_roundest(a, b - 1) for a, b in steps],
        [_roundest(a + 1, b) for a, b in steps],
    )
    kept = [upper] if max(counts) > upper else uppers, [lower] if min(counts) < lower else lowers
    return _most_even(counts, product(*kept)) or _most_even(counts, product(uppers, lowers))


def _most_even(counts: Sequence[int], pairs: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    def sizes(pair: tuple[int, int]) -> list[int]:
        groups = [group_of(count, *pair) for count in counts]
        return [groups.count(name) for name in SHOT_GROUPS]

    whole = [pair for pair in pairs if pair[0] >= pair[1] and all(sizes(pair))]
    return min(whole, key=lambda pair: sum(size**2 for size in sizes(pair)), default=None)


def _roundest(low: int, high: int) -> int:
    """The number in [low, high] with the most zeros at its end, the nearest to the middle if there are several."""
    step = 1
    while high // (10 * step) * 10 * step >= max(low, 1):
        step *= 10
    middle = (low + high) / 2
    return min(range(-(-low // step) * step, high + 1, step), key=lambda n: (abs(n - middle), n))


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else None
