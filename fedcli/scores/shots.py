"""Mean recall of the classes with many, with some and with few training images.

Source: Elbatel, Wang, Martí, Fu, Li, Fed-MAS, DeCaF at MICCAI 2023, Table 1: head, medium and tail
of HyperKvasir, with more than 700, 70 to 700, and fewer than 70 images; its "All" is the mean of
the three. The paper does not say which images are counted: its own numbers fit the training images
of a fold (7, 9 and 7 classes) and no other count, so we count the images that clients train on, and
an image of two clients twice. We differ where a class has no test image: it is left out and named;
a group without a class that can be scored is null and takes no part in `all`.
"""

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from .. import metrics
from ..errors import UsageError
from .facts import Rounds, mean, over_rounds
from .parts import SHOT_GROUPS, Shots
from .scores import RECALL
from .table import Score, Table, Where

Array = np.ndarray
HEAD = 700  # images, above which a class is head
TAIL = 70  # images, below which it is tail
Limits = tuple[int, int]  # thresholds of head and tail


def thresholds(text: str | None) -> Limits:
    """The thresholds of a text such as "700,70", where head is above one and tail below the other.

    None means the paper's. Raises UsageError.
    """
    if text is None:
        return HEAD, TAIL
    parts = [part.strip() for part in text.split(",")]
    are_numbers = all(part.isascii() and part.isdigit() for part in parts)
    if len(parts) != 2 or not are_numbers:
        hint = f"such as --shots {HEAD},{TAIL}"
        raise UsageError(f"--shots {text!r} is not two numbers of images", hint)
    upper, lower = map(int, parts)
    if upper < lower:
        fault = f"--shots {text}: head begins at {upper} images, below tail's {lower}"
        raise UsageError(fault, f"give the larger one first: --shots {lower},{upper}")
    return upper, lower


def group_of(count: int, upper: int = HEAD, lower: int = TAIL) -> str:
    """The group of a class with so many training images; the thresholds themselves are medium."""
    if count > upper:
        return "head"
    return "tail" if count < lower else "medium"


def group_means(recall: Array, groups: Sequence[str]) -> dict[str, float | None]:
    """Each group's mean recall, their mean, and the mean over all classes.

    recall: of each class [C], NaN where it has no image. groups: each class's.
    """
    means: dict[str, float | None] = {}
    for name in SHOT_GROUPS:
        members = np.array(groups) == name
        means[name] = _mean(recall[members])
    of_groups = np.array(list(means.values()), float)
    means["all"] = _mean(of_groups)
    means["balanced_accuracy"] = None
    if not np.isnan(recall).all():
        means["balanced_accuracy"] = float(metrics.mean_of_known(recall))
    return means


def shots(y: Array, classes: list[str], counts: Array, limits: Limits) -> Shots:
    """The classes of each group.

    y: [N] of the test images. counts: training images of each class [C].
    """
    upper, lower = limits
    by_group: dict[str, dict[str, int]] = {name: {} for name in SHOT_GROUPS}
    for label, count in zip(classes, counts.tolist(), strict=True):
        by_group[group_of(count, upper, lower)][label] = count
    present = set(y.tolist())
    skipped = [label for c, label in enumerate(classes) if c not in present]
    return Shots(upper, lower, by_group, skipped)


def shot_facts(
    where: Where,
    y: Array,
    rounds: Rounds,
    counts: Array,
    limits: Limits,
) -> Table:
    """Lines of the mean recalls over kept rounds."""
    groups = [group_of(count, *limits) for count in counts]

    def of_model(number: int, logits: Array) -> Table:
        means = group_means(metrics.recalls(logits, y), groups)
        table: Table = {}
        for name, value in means.items():
            table[where._replace(label=name, metric=RECALL)] = Score([value], [number])
        return table

    tables = []
    for number, models in rounds:
        tables.append(mean([of_model(number, logits) for logits in models]))
    return over_rounds(tables)


def described(shots: Shots) -> str:
    """The groups in a sentence for a person, with thresholds that would fill empty ones."""
    limits = {
        "head": f"more than {shots.upper}",
        "medium": f"{shots.lower} to {shots.upper}",
        "tail": f"fewer than {shots.lower}",
    }
    sentences = []
    for name, classes in shots.classes.items():
        if classes:
            listed = ", ".join(classes)
            sentences.append(f"{name} ({limits[name]} training images): {listed}")
    empty = [name for name in SHOT_GROUPS if not shots.classes[name]]
    if empty:
        listed = " or ".join(limits[name] for name in empty)
        sentences.append(f"no class has {listed} training images{_filled(shots, empty)}")
    if shots.skipped:
        listed = ", ".join(shots.skipped)
        sentences.append(f"without a test image: {listed}")
    return "; ".join(sentences)


def _filled(shots: Shots, empty: list[str]) -> str:
    """Thresholds that would fill the empty groups, and with what; "" where none do."""
    counts: dict[str, int] = {}
    for classes in shots.classes.values():
        counts |= classes
    better = suggestion(list(counts.values()), shots.upper, shots.lower)
    if better is None:
        return ""
    upper, lower = better
    groups = []
    for name in empty:
        labels = [label for label, n in counts.items() if group_of(n, upper, lower) == name]
        listed = ", ".join(labels)
        groups.append(f"{listed} the {name}")
    filled = " and ".join(groups)
    return f": --shots {upper},{lower} would make {filled}"


def suggestion(counts: Sequence[int], upper: int, lower: int) -> Limits | None:
    """Round thresholds that leave no group empty, with about a third of the classes in each.

    A threshold that already parts the classes is kept if it can be. None where no two thresholds do
    it.
    """
    uppers = []
    lowers = []
    for low, high in pairwise(sorted(set(counts))):
        uppers.append(_roundest(low, high - 1))
        lowers.append(_roundest(low + 1, high))
    preferred_uppers = [upper] if max(counts) > upper else uppers
    preferred_lowers = [lower] if min(counts) < lower else lowers
    preferred = _most_even(counts, preferred_uppers, preferred_lowers)
    return preferred or _most_even(counts, uppers, lowers)


def _most_even(
    counts: Sequence[int], uppers: Sequence[int], lowers: Sequence[int]
) -> Limits | None:
    """The thresholds whose groups differ least in size; None where one group is always empty."""
    best = None
    fewest = 0
    for upper, lower in product(uppers, lowers):
        if upper < lower:
            continue
        groups = [group_of(count, upper, lower) for count in counts]
        sizes = [groups.count(name) for name in SHOT_GROUPS]
        squares = sum(size**2 for size in sizes)
        if all(sizes) and (best is None or squares < fewest):
            best = (upper, lower)
            fewest = squares
    return best


def _roundest(low: int, high: int) -> int:
    """The number in [low, high] with the most zeros at its end.

    Of several it is the nearest to the middle.
    """
    step = 1
    while high // (10 * step) * 10 * step >= max(low, 1):
        step *= 10
    middle = (low + high) / 2
    lowest = -(-low // step) * step
    candidates = range(lowest, high + 1, step)
    return min(candidates, key=lambda number: (abs(number - middle), number))


def _mean(values: Array) -> float | None:
    numbers = values[~np.isnan(values)]
    return float(np.mean(numbers)) if len(numbers) else None
