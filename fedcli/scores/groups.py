"""Groups of patients, of several attributes crossed too; patients that a reliable score needs.

A score that needs every class is as uncertain as its rarest class makes it. By simulation (two
classes, AUC and balanced accuracy) 95 % bootstrap intervals hold the truth in about 30 % of cases
with one patient of the rarer class, 66 % with two, 79 % with five, 87 % with ten and 93 % with
twenty, however many other patients there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from ..console import counted
from ..data.units import IMAGE, PATIENT, plural
from ..labels import NO, YES
from ..metrics import Grouping

Array = np.ndarray
CROSS = "*"  # between the names of attributes whose groups are crossed
SMALL = 30  # images; below it one image moves a score by more than three points
FEW = 10  # patients of a class; a score that needs the class is unreliable with fewer
FEWEST = 2  # patients of a class; a score that needs the class has no interval with fewer
JOIN = "; "  # between the reasons of one group
SCORED_IMAGE = "scored image"  # the unit where sites hide classes
NO_IMAGE = "no test image"
NAMED = 4  # classes or labels that a reason names


@dataclass(frozen=True)
class Patients:
    """The patients that scores rest on, or the images where patients are not known.

    Attributes:
        count: all of them.
        by_class: those with an image of each class [C]; of several labels, with each label and
            without it [L, 2].
        unit: the noun of what they are, such as "patient", or "image" where none has several;
            SCORED_IMAGE where sites hide classes.
    """

    count: int
    by_class: Array
    unit: str = IMAGE

    @classmethod
    def of(
        cls,
        y: Array,
        units: Array | None = None,
        noun: str = PATIENT,
    ) -> "Patients":
        """The patients by labels, [N] or [N, L], and the patient of each image [N].

        units: None counts images. noun: of what they are.
        """
        codes = np.arange(len(y)) if units is None else np.unique(units, return_inverse=True)[1]
        count = int(codes.max(initial=-1)) + 1
        unit = IMAGE if count == len(y) else noun
        if y.ndim == 1:
            classes = int(y.max(initial=0)) + 1
            pairs = np.unique(codes * classes + y)
            return cls(count, np.bincount(pairs % classes), unit)
        columns = []
        for column in y.T:
            with_label = np.unique(codes[column == YES])
            without = np.unique(codes[column == NO])
            columns.append([len(with_label), len(without)])
        return cls(count, np.array(columns), unit)

    @cached_property
    def smallest(self) -> Array:
        """The patients of each class [C].

        Of each label that some have and some have not it is the smaller number [L], else 0.
        """
        return self.by_class if self.by_class.ndim == 1 else self.by_class.min(1)

    def of_label(self, label: int) -> "Patients":
        """The patients with and without one of several labels, by its index."""
        return Patients(self.count, self.by_class[[label]], self.unit)

    def __add__(self, other: "Patients") -> "Patients":
        """The patients of two test sets."""
        classes = max(len(self.by_class), len(other.by_class))
        rest = self.by_class.shape[1:]
        by_class = np.zeros((classes, *rest), int)
        for patients in (self, other):
            by_class[: len(patients.by_class)] += patients.by_class
        unit = other.unit if self.unit == IMAGE else self.unit
        return Patients(self.count + other.count, by_class, unit)

    @property
    def none(self) -> str:
        """Words on a group without any image."""
        return f"no {self.unit}" if self.unit.endswith(" image") else NO_IMAGE

    @property
    def few(self) -> str:
        """Their number where it is below SMALL, else ""."""
        if self.count >= SMALL:
            return ""
        return f"{self._counted(self.count)}, fewer than {SMALL}"

    def _counted(self, count: int) -> str:
        return counted(count, self.unit, plural(self.unit))

    @property
    def has_interval(self) -> bool:
        """Tell whether a score that needs every class has an interval."""
        return not self._below(FEWEST).any()

    @property
    def few_of_a_class(self) -> bool:
        """Tell whether a score that needs every class is unreliable."""
        return bool(self._below(FEW).any())

    def _below(self, count: int) -> Array:
        """The classes or labels with patients, but with fewer than these: bool [C]."""
        return (self.smallest > 0) & (self.smallest < count)

    def rare(self, names: Sequence[str]) -> str:
        """The classes or labels with few patients, the rarest first, such as "2 images of ill".

        "" where none is rare.
        Of so few patients that `few` says enough, only those for which there is no interval.
        """
        limit = FEWEST if self.few else FEW
        rare = np.flatnonzero(self._below(limit))
        rising = rare[np.argsort(self.smallest[rare], kind="stable")].tolist()
        texts = [self._words(c, names[c]) for c in rising[:NAMED]]
        if len(rising) > NAMED:
            texts.append(f"few of {len(rising) - NAMED} more")
        return ", ".join(texts)

    def _words(self, c: int, name: str) -> str:
        """The number of patients of a class, or with or without a label, in words."""
        count = int(self.smallest[c])
        relation = "of"
        if self.by_class.ndim == 2:
            relation = "with" if self.by_class[c, 0] == count else "without"
        return f"{self._counted(count)} {relation} {name}"


def grouping(
    name: str,
    codes: Mapping[str, Array],
    values: Mapping[str, list[str]],
) -> Grouping:
    """The groups of an attribute, or of several crossed, such as race*sex.

    codes: attribute -> the index of each image's value [N].
    """
    parts = {part: (codes[part], values[part]) for part in name.split(CROSS)}
    return cross(parts) if len(parts) > 1 else parts[name]


def cross(parts: dict[str, Grouping]) -> Grouping:
    """Several attributes as one: each image's group, int64 [N], and the names.

    A name is such as "asian x female". parts: attribute -> (groups [N], values). An image of which
    one attribute is unknown has no group (-1), and a combination that no image has is none either.
    """
    columns = np.stack([codes for codes, _ in parts.values()])  # [A, N]
    lists = [values for _, values in parts.values()]
    complete = (columns >= 0).all(0)
    sizes = [len(values) for values in lists]
    combined = np.ravel_multi_index(tuple(columns[:, complete]), sizes)
    occurring, codes_of_complete = np.unique(combined, return_inverse=True)
    codes = np.full(columns.shape[1], -1)
    codes[complete] = codes_of_complete
    names = [" x ".join(combination) for combination in product(*lists)]
    return codes, [names[index] for index in occurring]


def unknown_note(attribute: str, unknown: int | None, images: int) -> str:
    """A note on test images whose group is not known.

    "" where there are none, or where sites hide how many.
    """
    if not unknown:
        return ""
    return (
        f"{attribute} is unknown for {unknown:,} of {images:,} test images: "
        "they are in no group, but in the other scores"
    )
