"""Audits that were made, read without torch."""

from pathlib import Path

import numpy as np

from ...data import manifest
from ...errors import FedcliError
from ...io.hdf5 import ExpectedData, open_hdf5

FILE = "reconstructions.h5"
ORIGINAL = "original"  # the images of the batch, beside what was made of its gradient
AGAIN = "audit the run again"


def newest(run: Path) -> Path | None:
    """The audit in a run's folder, of several the one with most shadow runs; None where there is
    none.
    """
    run_hash = manifest.sha256(run)
    parents_by_path = {}
    for path in sorted(run.parent.glob("audit/*/audit.json")):
        parents = manifest.read(path, "audit").parents
        if run_hash in parents.values():
            parents_by_path[path] = parents
    return max(
        parents_by_path,
        key=lambda path: len(parents_by_path[path]),
        default=None,
    )


def pictures(path: Path) -> dict[str, np.ndarray]:
    """The images of an audit: ORIGINAL and each model's name -> uint8 [B, H, W, C].

    {} where nothing was inverted. Raises FedcliError, HashError.
    """
    if FILE not in manifest.verify(path, "audit").files:
        return {}
    file_path = path.parent / FILE
    with open_hdf5(file_path, {"*": ExpectedData("u", 4, size=1)}, hint=AGAIN) as file:
        images = {name: file[name][()] for name in file}
    shapes = {table.shape for table in images.values()}
    if len(shapes) != 1 or ORIGINAL not in images:
        raise FedcliError(f"{file_path} does not hold pairs of images", AGAIN)
    return images
