"""Images made from the counts of sites, in their file: as many as were counted, with the decisions that were counted.

<version>/<round>/all/y, .../logits                  int [N] and float32 [N, C], class by class
<version>/<round>/<attribute>/<g>/y, .../logits      of the images of a group, by the place of its value

None of them is an image of a site: the counts do not say which label, group and chances belong together beyond what
they count. Of more than two classes only the decisions are kept, see Tally.rebuilt().
"""

from pathlib import Path

import numpy as np

from .. import metrics
from ..io.hdf5 import WHOLE, Column, open_hdf5
from ..metrics.metric import PROBABILITIES

FILE = "rebuilt.h5"
EXPECTED = {"*/y": Column(WHOLE), "*/logits": Column("f", 2)}
Images = tuple[np.ndarray, np.ndarray]  # logits float32 [N, C], y int64 [N]


def by_image(metric: str) -> bool:
    """Tell whether images of more than two classes have intervals of a metric: of decisions alone."""
    return metrics.get(metric).sees != PROBABILITIES


def read(path: Path) -> dict[str, list[dict[str, Images]]]:
    """version -> of each kept round: "all" or "attribute/g" -> images. Raises FedcliError where the file is none."""
    rounds: dict[str, dict[int, dict[str, Images]]] = {}
    with open_hdf5(path, EXPECTED, hint="evaluate the run at its sites again") as file:
        for name in sorted(file):
            if name.endswith("/y"):
                version, round, key = name.removesuffix("/y").split("/", 2)
                images = file[f"{version}/{round}/{key}/logits"][()], file[name][()].astype(np.int64)
                rounds.setdefault(version, {}).setdefault(int(round), {})[key] = images
    return {version: [by_round[round] for round in sorted(by_round)] for version, by_round in rounds.items()}
