"""Each dataset of a merged one divided among clients of its own, who train and are tested on images of no other."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...errors import FedcliError
from ..pool import TEST, TRAIN, Pool
from .held_out import UNUSED
from .scheme import Division, Scheme


@dataclass(frozen=True, kw_only=True)
class OfEach(Scheme):
    """A scheme for each value of an attribute; a value without training images makes no client."""

    name: ClassVar[str] = "of-each"
    attribute: str
    schemes: dict[str, Scheme]

    def __post_init__(self) -> None:
        """Its parts have checked their options."""

    def check(self, dataset: Mapping[str, Any]) -> None:
        for scheme in self.schemes.values():
            scheme.check(dataset)

    def recorded(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        each = {value: {"scheme": part.name, **part.recorded(dataset)} for value, part in self.schemes.items()}
        return {"attribute": self.attribute, "each": each}

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        train, test = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for place, value in enumerate(dataset["attributes"][self.attribute]):
            here = replace(pool, split=np.where(pool.groups[self.attribute] == place, pool.split, UNUSED))
            if (here.split == TRAIN).any():
                made = self.schemes[value].divide(here, dataset, seed, minimum)
                names = {name: name if name == value else f"{value}-{name}" for name in made.train}
                if both := train.keys() & names.values():
                    raise FedcliError(f"two clients would be called {min(both)!r}", "give a dataset another name")
                train |= {names[name]: rows for name, rows in made.train.items()}
                own = np.flatnonzero(
                    here.split == TEST
                )  # as of FedHEAL's domains, where no client has a part of its own
                test |= {names[name]: made.test.get(name, own) for name in made.train}
        return Division(train, test)
