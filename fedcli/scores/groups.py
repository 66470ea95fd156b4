"""Groups of patients: those of several attributes crossed."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from ..metrics import Grouping

CROSS = "*"  # between the names of attributes whose groups are crossed
SMALL = 30  # images; below it one image moves a score by more than three points


def grouping(
    name: str, places: Mapping[str, np.ndarray], values: Mapping[str, list[str]]
) -> Grouping:
    """The groups of an attribute, or of several crossed, such as race*sex; places: of each image's value [N]."""
    parts = {part: (places[part], values[part]) for part in name.split(CROSS)}
    return cross(parts) if len(parts) > 1 else parts[name]


def cross(parts: dict[str, Grouping]) -> Grouping:
    """Several attributes as one: each image's group, int64 [N], and the names, such as "asian x female".

    parts: attribute -> (groups [N], values). An image of which one attribute is unknown has no group (-1), and a
    combination that no image has is none either.
    """
    columns = np.stack([groups for groups, _ in parts.values()])  # [A, N]
    known = (columns >= 0).all(0)
    sizes = [len(values) for _, values in parts.values()]
    place = np.ravel_multi_index(tuple(columns[:, known]), sizes)
    there, places = np.unique(place, return_inverse=True)
    names = [
        " x ".join(combination)
        for combination in product(*(values for _, values in parts.values()))
    ]
    groups = np.full(columns.shape[1], -1)
    groups[known] = places
    return groups, [names[at] for at in there]


def unknown_note(attribute: str, unknown: int | None, images: int) -> str:
    """A note on test images whose group is not known; "" where there are none, or where sites hide how many."""
    if not unknown:
        return ""
    return f"{attribute} is unknown of {unknown} of {images} test images: they are in no group, but in the other scores"
