"""The FedISM authors' two groups of clients, clean and corrupted.

Source: Wu et al., arXiv 2503.09587, as their released code draws it: the clean group and the
corrupted group (the last clients) get the same part of every class, Dirichlet within a group, all
from numpy's RandomState(2024). Without validation images the class counts give their 20 clients.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy import ndarray

from ...errors import FedcliError, UsageError
from .. import manifest
from ..manifest import Body
from ..pool import TRAIN, Pool
from .clients_file import rows_in_order
from .scheme import Counted, Dataset, Division, Images, images_of, register

SEED = 2024  # of the authors' released partitions


@register("fedism")
@dataclass(frozen=True, kw_only=True)
class Fedism(Counted):
    """Two groups with the same part of every class, Dirichlet within each; the last clients are to
    be corrupted.

    The partition's seed 0 gives the authors' own assignment, since they draw with 2024 and we with
    2024 + seed.
    """

    corrupted: Annotated[
        int, "number of last clients that are corrupted later; the authors have 1, 2, 4 or 6 of 20"
    ]
    alpha: Annotated[
        float, "Dirichlet concentration, in [0.001, 1000000], as far as the authors' draw can go"
    ] = 1.0
    order_file: Annotated[
        Path | None, "the train.csv in whose order a class is drawn; none: the dataset's"
    ] = None

    def check(self, dataset: Dataset) -> None:
        if not 1 <= self.corrupted < self.clients:
            needed = f"1 to {self.clients - 1} corrupted clients"
            hint = "the authors have 1, 2, 4 or 6 of 20"
            raise UsageError(f"the fedism scheme needs {needed}, not {self.corrupted}", hint)

    def owners(self, images: Images) -> ndarray:
        """In the order of the authors' draws; the last `corrupted` clients are to be corrupted."""
        corrupted = self.corrupted
        clean = self.clients - corrupted
        numpy_seed = (SEED + images.seed) % 2**32
        stream = np.random.RandomState(numpy_seed)
        owner = np.empty(len(images), np.int64)
        for label in np.unique(images.y):
            rows = np.flatnonzero(images.y == label)
            # half to even, as they have it
            clean_share = clean / self.clients
            clean_count = int(np.round(clean_share * len(rows)))
            corrupted_count = len(rows) - clean_count
            of_clean = stream.dirichlet(np.full(clean, self.alpha))
            of_corrupted = stream.dirichlet(np.full(corrupted, self.alpha))
            clean_owners = stream.choice(clean, clean_count, p=of_clean)
            corrupted_owners = stream.choice(
                corrupted,
                corrupted_count,
                p=of_corrupted,
            )
            owner[rows[:clean_count]] = clean_owners
            owner[rows[clean_count:]] = clean + corrupted_owners
        return owner

    def recorded(self, dataset: Dataset) -> Body:
        recorded = super().recorded(dataset)
        del recorded["order_file"]
        if self.order_file:
            recorded["order_file"] = manifest.named(self.order_file)
        return recorded

    def divide(
        self,
        pool: Pool,
        dataset: Dataset,
        seed: int,
        minimum: int,
    ) -> Division:
        rows = np.flatnonzero(pool.split == TRAIN)
        if self.order_file:
            rows = self._in_order(self.order_file, pool, rows)
        assigned = self.assign(images_of(pool, rows, dataset, seed, minimum))
        train = {name: np.sort(rows[part]) for name, part in assigned.items()}
        return Division(train, body={"corrupted_last": self.corrupted})

    def _in_order(
        self,
        order_file: Path,
        pool: Pool,
        rows: ndarray,
    ) -> ndarray:
        """The training rows as a file names them. Raises FedcliError where it names others."""
        listed = rows_in_order(order_file, pool.id.tolist())
        if not np.array_equal(np.sort(listed), rows):
            count = len(np.intersect1d(listed, rows))
            names = f"names {count} of the {len(rows)} training images"
            hint = "prepare with --split-file and the same file, so that both hold the same images"
            raise FedcliError(f"{order_file} {names}", hint)
        return listed

    def advice(self) -> str:
        larger_alpha = max(10, 10 * self.alpha)
        return f"--dirichlet {larger_alpha:g}, fewer --clients, or another --seed"
