"""Groups of patients: those of several attributes crossed; and how many patients a reliable score needs.

A score that needs every class is as uncertain as its rarest class makes it. By simulation (two classes, AUC and balanced
accuracy) 95 % bootstrap intervals hold the truth in about 30 % of cases with one patient of the rarer class, 66 % with
two, 79 % with five, 87 % with ten and 93 % with twenty, however many other patients there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from ..labels import NO, YES
from ..metrics import Grouping

CROSS = "*"  # between the names of attributes whose groups are crossed
SMALL = 30  # images; below it one image moves a score by more than three points
FEW = 10  # patients of a class; a score that needs the class is unreliable with fewer
FEWEST = 2  # patients of a class; a score that needs the class has no interval with fewer
JOIN = "; "  # between the reasons of one group
NAMED = 4  # classes or labels that a reason names


@dataclass(frozen=True)
class Patients:
    """The patients that scores rest on, or the images where patients are not known.

    Attributes:
        count: all of them.
        by_class: those with an image of each class [C]; of several labels, with each label and without it [L, 2].
        unit: "patient", or "image" where no patient has several.
    """

    count: int
    by_class: np.ndarray
    unit: str = "image"

    @classmethod
    def of(cls, y: np.ndarray, units: np.ndarray | None = None) -> "Patients":
        """By labels, [N] or [N, L], and the patient of each image [N]; None counts images."""
        codes = np.arange(len(y)) if units is None else np.unique(units, return_inverse=True)[1]
        count = int(codes.max(initial=-1)) + 1
        unit = "image" if count == len(y) else "patient"
        if y.ndim == 1:
            classes = int(y.max(initial=0)) + 1
            pairs = np.unique(codes * classes + y)
            return cls(count, np.bincount(pairs % classes), unit)
        columns = [
            [len(np.unique(codes[column == answer])) for answer in (YES, NO)] for column in y.T
        ]
        return cls(count, np.array(columns), unit)

    @cached_property
    def smallest(self) -> np.ndarray:
        """Patients of each class [C]; of each label that some have and some have not, the smaller number [L]. Else 0."""
        return self.by_class if self.by_class.ndim == 1 else self.by_class.min(1)

    def of_label(self, place: int) -> "Patients":
        """The patients with and without one of several labels."""
        return Patients(self.count, self.by_class[place : place + 1], self.unit)

    def __add__(self, other: "Patients") -> "Patients":
        """The patients of two test sets."""
        classes = max(len(self.by_class), len(other.by_class))
        by_class = np.zeros((classes, *self.by_class.shape[1:]), int)
        for patients in (self, other):
            by_class[: len(patients.by_class)] += patients.by_class
        unit = "image" if self.unit == other.unit == "image" else "patient"
        return Patients(self.count + other.count, by_class, unit)

    @property
    def few(self) -> str:
        """Their number where it is below SMALL, else ""."""
        if self.count >= SMALL:
            return ""
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}, fewer than {SMALL}"

    @property
    def has_interval(self) -> bool:
        """Tell whether a score that needs every class has an interval."""
        return not self._below(FEWEST).any()

    @property
    def few_of_a_class(self) -> bool:
        """Tell whether a score that needs every class is unreliable."""
        return bool(self._below(FEW).any())

    def _below(self, count: int) -> np.ndarray:
        """The classes or labels with patients, but with fewer than these: bool [C]."""
        return (self.smallest > 0) & (self.smallest < count)

    def rare(self, names: Sequence[str]) -> str:
        """The classes or labels with few patients, the rarest first, such as "2 images of ill"; "" where none is.

        Of so few patients that `few` says enough, only those for which there is no interval.
        """
        places = np.flatnonzero(self._below(FEWEST if self.few else FEW))
        places = places[np.argsort(self.smallest[places], kind="stable")]
        texts = [self._words(place, names[place]) for place in places[:NAMED].tolist()]
        if len(places) > NAMED:
            texts.append(f"few of {len(places) - NAMED} more")
        return ", ".join(texts)

    def _words(self, place: int, name: str) -> str:
        count = int(self.smallest[place])
        relation = "of"
        if self.by_class.ndim == 2:
            relation = "with" if self.by_class[place, 0] == count else "without"
        return f"{count} {self.unit}{'' if count == 1 else 's'} {relation} {name}"


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
