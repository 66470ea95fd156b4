"""Predictions for the test images of a run, as a frame."""

from pathlib import Path
from typing import TYPE_CHECKING

from .. import console
from ..common_options import WORK
from ..options import Source
from ..scores.evaluation_options import EvaluateOptions
from ..scores.predictions import columns_of
from .call import source
from .collect import scores_of

if TYPE_CHECKING:
    import pandas


def predictions(
    run: Source | None = None,
    *,
    version: str = "clean",
    work: Source = WORK,
) -> "pandas.DataFrame":
    """Predictions of a run's last model for its test images, a row for each image.

    The columns are id, unit (the patient or lesion, where the dataset has it), label, the
    probability of each class as prob_NAME, and each attribute. A run without scores is evaluated
    first. Raises FedcliError, UsageError.

    Args:
        run: a run or scores, by path or by name; default: the newest.
        version: of the test images, clean or corrupted.
        work: folder that results are looked for in.
    """
    import pandas

    with console.watched():
        path = source(run, work, "run", "scores")
        scores, _ = scores_of(Path(path), EvaluateOptions())
        return pandas.DataFrame(columns_of(scores, version))
